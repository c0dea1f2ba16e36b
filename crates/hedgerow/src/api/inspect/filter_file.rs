//! The file of a filter over several runs.

use std::path::{Path, PathBuf};

use hedgerow_io::{ReadMode, Storage};

use crate::base::entry::{KeyspaceId, PartitionId};
use crate::base::error::{Error, Result};
use crate::base::page::TableId;
use crate::group_filter::{FilterContents, FilterFile, file_number};

/// A filter's file; all of it was checked.
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
    /// The filter.
    pub contents: FilterContents,
}

impl GroupFilter {
    /// Reads the file of a filter, in the directory `filters` of a database. Cost: memory of the
    /// size of the file at most.
    ///
    /// # Errors
    /// `Io` if it cannot be read, `InvalidArgument` if it has the name of another kind of file,
    /// `Corruption`, `FormatVersion`.
    pub fn open(storage: &dyn Storage, path: &Path) -> Result<GroupFilter> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let number = file_number(&name).ok_or_else(|| {
            Error::invalid(format!(
                "expected a filter named by ten digits and `.filter`, found `{name}`"
            ))
        })?;
        let file = FilterFile::open(storage, ReadMode::default(), path, TableId(number))?;
        Ok(GroupFilter {
            path: path.to_path_buf(),
            number,
            bytes: file.file.bytes(),
            keyspace: file.owner.keyspace,
            partition: file.owner.partition,
            hash_seed: file.owner.hash_seed,
            contents: file.check()?,
        })
    }
}
