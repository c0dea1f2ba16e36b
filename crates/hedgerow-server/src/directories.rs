//! Renaming and removing directories of databases that are not open, and parts of such.

use std::io;
use std::path::Path;

use hedgerow::{Error, Result};

/// The files that a repair has kept of the database before it.
pub(crate) const LOST: &str = "lost";

pub(crate) fn is_there(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

#[allow(
    clippy::disallowed_methods,
    reason = "parts of a database that is not open, not files in it"
)]
pub(crate) fn rename(from: &Path, to: &Path) -> Result<()> {
    std::fs::rename(from, to).map_err(|e| Error::io("rename", from, e))
}

/// Removes a directory or a file, if it is there.
#[allow(
    clippy::disallowed_methods,
    reason = "parts of a database that is not open, not files in it"
)]
pub(crate) fn remove(path: &Path) -> Result<()> {
    let removed = match path.symlink_metadata() {
        Ok(found) if found.is_dir() => std::fs::remove_dir_all(path),
        Ok(_) => std::fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Error::io("remove", path, error))
        }
        _ => Ok(()),
    }
}

/// Makes the names in a directory durable.
pub(crate) fn sync(dir: &Path) -> Result<()> {
    let environment = hedgerow::io::Environment::os();
    let synced = environment.storage.sync_dir(dir);
    synced.map_err(|e| Error::io("sync", dir, e))
}
