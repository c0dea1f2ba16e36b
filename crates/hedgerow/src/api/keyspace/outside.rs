//! Tables outside of the database: taking them in and writing them.

use std::ops::RangeBounds;
use std::path::{Path, PathBuf};

use crate::base::error::Result;
use crate::paths::bulk_load::BulkLoadReport;
use crate::paths::outside_tables;

use super::Keyspace;

/// The size of exported tables.
const TABLE_BYTES: u64 = 64 << 20;

impl Keyspace {
    /// Takes in all entries of tables that [`TableWriter`](crate::TableWriter) or
    /// [`Keyspace::export`] wrote, as one commit; it is durable when this returns. The tables may
    /// come in any order but must not overlap. They are checked as a whole first, and stay as they
    /// are. Values without an expiry get the keyspace's time to live. Only for sorted keys.
    /// Cost: reads each table twice and writes it once.
    ///
    /// # Errors
    /// `InvalidArgument` for other files, for tables that overlap, and for keys that are not
    /// sorted; `Corruption` of a table; as [`Keyspace::bulk_load_ops`].
    pub fn ingest(&self, paths: &[impl AsRef<Path>]) -> Result<BulkLoadReport> {
        self.check_not_dropped()?;
        let state = self.cell.state.load_full();
        outside_tables::ingest(&self.engine, &state, paths)
    }

    /// Writes the entries of a range, with their expiry, to new tables in a directory, for
    /// [`Keyspace::ingest`]: all of one moment, each table about 64 MiB. Returns the files, which
    /// are durable. Only for sorted keys.
    ///
    /// # Errors
    /// `Io` if a file exists; `NoSpace`; as [`Keyspace::scan`], so `Unsupported` for operands of an
    /// operator that is not registered.
    pub fn export<K: AsRef<[u8]>>(
        &self,
        range: impl RangeBounds<K>,
        dir: impl AsRef<Path>,
    ) -> Result<Vec<PathBuf>> {
        let storage = &*self.engine.environment.storage;
        outside_tables::export(storage, self.scan(range)?, dir.as_ref(), TABLE_BYTES)
    }
}
