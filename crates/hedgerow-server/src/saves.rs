//! Checkpoints beside the database. The last one is at `DIR.save`.
//!
//! ```text
//! DIR.save.new   the next one while it is made; without a meaning after a crash
//! DIR.save.old   the last one, from when the next one is whole until that has the name
//! ```

use std::path::{Path, PathBuf};

use hedgerow::{Db, Result};

use crate::directories::{is_there, remove, rename, sync};

/// Makes a checkpoint in place of the last one. One of them has the name, or is old, at any time.
///
/// # Errors
/// `Io`; as [`Db::checkpoint`].
pub(crate) async fn make(db: &Db, dir: &Path) -> Result<()> {
    finish(dir)?;
    let [last, new, old] = places(dir);
    remove(&new)?;
    remove(&old)?;
    db.checkpoint_async(&new).await?;
    if is_there(&last) {
        rename(&last, &old)?;
    }
    rename(&new, &last)?;
    // Before the old one goes, the name of the new one is durable.
    let parent = last.parent().filter(|it| !it.as_os_str().is_empty());
    sync(parent.unwrap_or(Path::new(".")))?;
    remove(&old)
}

/// Gives the last checkpoint its name again, if a crash came before the next one had it.
///
/// # Errors
/// `Io`.
pub(crate) fn finish(dir: &Path) -> Result<()> {
    let [last, _, old] = places(dir);
    match is_there(&old) && !is_there(&last) {
        true => rename(&old, &last),
        false => Ok(()),
    }
}

fn places(dir: &Path) -> [PathBuf; 3] {
    // A name at the end: `data/` and `data/.` would have the checkpoint within the database.
    let named = dir
        .canonicalize()
        .unwrap_or_else(|_| dir.components().collect());
    [".save", ".save.new", ".save.old"].map(|ending| {
        let mut place = named.as_os_str().to_owned();
        place.push(ending);
        place.into()
    })
}
