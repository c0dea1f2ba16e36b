//! The path of destroying a database: removes its files, and nothing else.
//!
//! The manifest goes last but for the lock and the mark of a repair that has not ended. So a
//! database whose destruction was cut short is still one, and can be destroyed again. A directory
//! goes only when it is empty.

use std::path::Path;

use hedgerow_io::Storage;

use crate::base::durable::sync_dir;
use crate::base::error::{Error, Result};
use crate::base::page::TableId;
use crate::group_filter::{file_number, filters_dir};
use crate::paths::recover::under_repair::{BEFORE, MERGED, lost_dir};
use crate::paths::recover::{MARK_FILE, read_mark, take_lock, under_repair};
use crate::table::open::{table_name, table_number};
use crate::tree::engine::{kept_dir, log_dir};
use crate::tree::partition::tables_dir;
use crate::tree::version::manifest;
use crate::tree::version::places::Places;
use crate::tree::version::state::State;
use crate::tree::wal::log::{segment_name, segment_number};

/// Removes the files of the database in this directory, also those in its other places.
///
/// # Errors
/// `InvalidArgument` if there is none, `Locked` if it is open for writing, `Io`.
pub(crate) fn destroy(storage: &dyn Storage, dir: &Path) -> Result<()> {
    if !manifest::exists(storage, dir)? && under_repair::mark(storage, dir)?.is_none() {
        let found = dir.display();
        return Err(Error::invalid(format!(
            "expected a database, found no manifest in {found}"
        )));
    }
    let lock = take_lock(storage, dir)?;
    // A damaged manifest names no other places.
    let state = manifest::replay(storage, dir).and_then(|it| State::replay(&it.edits));
    let places = state.map_or_else(|_| Places::default(), |state| state.places);
    for (number, place) in places.all(dir) {
        let mark = places.others.get(&number).map(|other| other.mark);
        // A directory with another mark is not a place of this database any more.
        if number > 0 && read_mark(storage, &place)? != mark {
            continue;
        }
        remove_matching(storage, &log_dir(&place), |n| segment_number(n).is_some())?;
        remove_matching(storage, &tables_dir(&place), |n| table_number(n).is_some())?;
        remove_matching(storage, &filters_dir(&place), |n| file_number(n).is_some())?;
        remove_matching(storage, &kept_dir(&place), |n| table_number(n).is_some())?;
        remove_matching(storage, &lost_dir(&place), |name| {
            is_kept(name) && ![BEFORE, MERGED].contains(&name)
        })?;
        if number > 0 {
            remove(storage, &place.join(MARK_FILE))?;
            sync_dir(storage, &place)?;
            let _ = storage.remove_dir(&place);
        }
    }
    for name in [manifest::NEW_FILE_NAME, manifest::FILE_NAME] {
        remove(storage, &dir.join(name))?;
    }
    // As long as there is a manifest, the mark of a repair tells that it does not name everything.
    sync_dir(storage, dir)?;
    remove_matching(storage, &lost_dir(dir), is_kept)?;
    remove(storage, &dir.join("LOCK"))?;
    sync_dir(storage, dir)?;
    drop(lock);
    // It stays if it has other files.
    let _ = storage.remove_dir(dir);
    Ok(())
}

/// Returns true for the names of files that a repair keeps: those of tables, segments and
/// manifests, with any suffix.
fn is_kept(name: &str) -> bool {
    let front = |like: String| name.get(..like.len());
    front(table_name(TableId(0)))
        .and_then(table_number)
        .is_some()
        || front(segment_name(0)).and_then(segment_number).is_some()
        || name.starts_with(manifest::FILE_NAME)
}

/// Removes the files with matching names, then the directory if it is empty.
fn remove_matching(
    storage: &dyn Storage,
    dir: &Path,
    matches: impl Fn(&str) -> bool,
) -> Result<()> {
    let Ok(files) = storage.list(dir) else {
        return Ok(());
    };
    for file in files.iter().filter(|file| matches(&file.name)) {
        remove(storage, &dir.join(&file.name))?;
    }
    sync_dir(storage, dir)?;
    let _ = storage.remove_dir(dir);
    Ok(())
}

fn remove(storage: &dyn Storage, path: &Path) -> Result<()> {
    match storage.remove(path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(Error::io("remove", path, e)),
        _ => Ok(()),
    }
}
