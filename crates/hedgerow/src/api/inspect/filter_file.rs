//! The file of a filter over several runs.

use std::path::{Path, PathBuf};

use hedgerow_io::Storage;

use crate::base::entry::RunId;
use crate::base::entry::{KeyspaceId, PartitionId};
use crate::base::error::{Error, Result};
use crate::base::page::TableId;
use crate::group_filter::multi_level_cuckoo::Mode;
use crate::group_filter::multi_level_cuckoo::stored::{Opened, filter_number};

/// The contents of a filter's file; all of it was checked.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct GroupFilter {
    /// The file.
    pub path: PathBuf,
    /// Its number.
    pub number: u64,
    /// Its size.
    pub bytes: u64,
    /// The keyspace whose keys it knows.
    pub keyspace: KeyspaceId,
    /// The partition.
    pub partition: PartitionId,
    /// The seed of the key hashes.
    pub hash_seed: u64,
    /// The runs that it answers for, newest first, and their tables.
    pub runs: Vec<(RunId, Vec<TableId>)>,
    /// The number of bits of a fingerprint.
    pub fingerprint_bits: u8,
    /// The number of buckets, of four slots each.
    pub buckets: u32,
    /// The number of slots in use.
    pub entries: u64,
    /// The number of keys that are kept by their whole hash.
    pub whole_hashes: usize,
    /// True if a key takes one slot, with its newest run and a bit for all older runs.
    pub unique: bool,
}

impl GroupFilter {
    /// Reads the file of a filter, in the directory `filters` of a database. Cost: memory of the
    /// size of the file.
    ///
    /// # Errors
    /// `Io` if it cannot be read, `InvalidArgument` if it has the name of another kind of file,
    /// `Corruption`, `FormatVersion`.
    pub fn open(storage: &dyn Storage, path: &Path) -> Result<GroupFilter> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let number = filter_number(&name).ok_or_else(|| {
            Error::invalid(format!(
                "expected a filter named by ten digits and `.filter`, found `{name}`"
            ))
        })?;
        let opened = Opened::open(storage, path, number)?;
        let filter = opened.filter()?;
        let coverage = &opened.coverage;
        let runs = coverage.runs.iter().cloned();
        let (buckets, fingerprint_bits) = filter.dimensions();
        Ok(GroupFilter {
            path: path.to_path_buf(),
            number,
            bytes: opened.bytes(),
            keyspace: coverage.owner.keyspace,
            partition: coverage.owner.partition,
            hash_seed: coverage.owner.hash_seed,
            runs: runs.map(|(run, tables)| (RunId(run), tables)).collect(),
            fingerprint_bits,
            buckets,
            entries: filter.entries(),
            whole_hashes: filter.whole_hashes(),
            unique: filter.mode() != Mode::Set,
        })
    }
}
