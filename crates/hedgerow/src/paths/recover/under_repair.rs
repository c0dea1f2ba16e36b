//! The mark of a database whose repair has not ended.
//!
//! A repair works on the database in place: its tables lie in the directory `lost` until they are
//! merged back. Until then its trees lack entries, so no other opening may take it for a whole
//! database. The mark is the manifest as the repair found it, since a repair that is started again
//! needs that, too.

use std::io;
use std::path::{Path, PathBuf};

use hedgerow_io::Storage;

use crate::base::error::{Error, Result};

/// The manifest as the repair under way found it; empty if there was none.
pub(crate) const BEFORE: &str = "MANIFEST.before";
/// Its name when the database is whole again, and only `lost` is left to be tidied up.
pub(crate) const MERGED: &str = "MANIFEST.merged";

/// The directory of files that a repair keeps, under the directory of a place.
pub(crate) fn lost_dir(place: &Path) -> PathBuf {
    place.join("lost")
}

/// The mark, if a repair has not ended.
pub(crate) fn mark(storage: &dyn Storage, dir: &Path) -> Result<Option<PathBuf>> {
    for name in [MERGED, BEFORE] {
        let path = lost_dir(dir).join(name);
        match storage.size(&path) {
            Ok(_) => return Ok(Some(path)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(Error::io("find", &path, e)),
        }
    }
    Ok(None)
}

/// Refuses a database whose repair has not ended. Who reads files asks again afterwards.
pub(crate) fn refuse(storage: &dyn Storage, dir: &Path) -> Result<()> {
    match mark(storage, dir)? {
        None => Ok(()),
        Some(mark) => Err(Error::corruption(
            "expected a database whose repair has ended (`repair` ends one that was stopped), found \
             the mark of one under way",
        )
        .at(&mark, None)),
    }
}
