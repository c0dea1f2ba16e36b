//! Directories of the storage, with the engine's errors.

use std::path::Path;

use hedgerow_io::Storage;

use super::error::{Error, Result};

/// Makes the names in a directory durable, new and removed ones.
pub(crate) fn sync_dir(storage: &dyn Storage, dir: &Path) -> Result<()> {
    let synced = storage.sync_dir(dir);
    synced.map_err(|e| Error::io("sync", dir, e))
}
