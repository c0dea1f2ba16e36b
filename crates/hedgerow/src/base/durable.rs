//! Syncs directories.

use std::path::Path;

use hedgerow_io::Storage;

use super::error::{Error, Result};

/// Makes added and removed names in a directory durable. An error names the directory.
pub(crate) fn sync_dir(storage: &dyn Storage, dir: &Path) -> Result<()> {
    let synced = storage.sync_dir(dir);
    synced.map_err(|e| Error::io("sync", dir, e))
}
