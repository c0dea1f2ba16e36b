//! The file of a cluster of filters.

use std::path::{Path, PathBuf};

use hedgerow_io::Storage;

use crate::base::entry::{KeyspaceId, PartitionId};
use crate::base::error::{Error, Result};
use crate::base::page::TableId;
use crate::group_filter::cluster;

/// The contents of a cluster's file; all of it was checked.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cluster {
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
    /// The number of pages of 4 KiB.
    pub pages: u64,
    /// The filters of each table.
    pub stripes: Vec<Stripe>,
}

/// The filters of one table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stripe {
    /// The table.
    pub table: TableId,
    /// The first 32 bits of the order positions of its first and last key.
    pub positions: (u32, u32),
    /// The number of these bits that name a column.
    pub column_bits: u8,
    /// The number of bits that a key sets in the filter of its column.
    pub probes: u8,
}

impl Cluster {
    /// Reads the file of a cluster, in the directory `filters` of a database. Cost: memory of the
    /// size of the file.
    ///
    /// # Errors
    /// `Io` if it cannot be read, `InvalidArgument` if it has the name of another kind of file,
    /// `Corruption`, `FormatVersion`.
    pub fn open(storage: &dyn Storage, path: &Path) -> Result<Cluster> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let number = cluster::cluster_number(&name).ok_or_else(|| {
            Error::invalid(format!(
                "expected a cluster named by ten digits and `.cluster`, found `{name}`"
            ))
        })?;
        let (owner, cluster) = cluster::read_whole(storage, path, TableId(number))?;
        let stripes = cluster.stripes().iter().map(|stripe| Stripe {
            table: stripe.table,
            positions: (stripe.first, stripe.last),
            column_bits: stripe.column_bits,
            probes: stripe.probes,
        });
        Ok(Cluster {
            path: path.to_path_buf(),
            number,
            bytes: storage.size(path).map_err(|e| Error::io("read", path, e))?,
            keyspace: owner.keyspace,
            partition: owner.partition,
            hash_seed: owner.hash_seed,
            pages: cluster.pages_bytes() / crate::base::page::DEVICE_PAGE_BYTES,
            stripes: stripes.collect(),
        })
    }
}
