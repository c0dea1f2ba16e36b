//! Files that no edit of the manifest names. An opening finds and removes them.

use std::collections::HashSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use hedgerow_io::Storage;

use crate::base::error::{Error, Result};
use crate::group_filter::{file_number, filters_dir};
use crate::table::open::table_number;
use crate::tree::engine::log_dir;
use crate::tree::partition::tables_dir;
use crate::tree::version::places::Places;
use crate::tree::version::state::State;
use crate::tree::wal::log::segment_number;

/// Finds files that no edit ever named, and the files of dropped tables, in all places. Also
/// returns the highest number of a table or filter file.
pub(super) fn find(
    storage: &dyn Storage,
    root: &Path,
    state: &State,
    places: &Places,
) -> Result<(Vec<PathBuf>, u64)> {
    let named = state.trees.values().flat_map(|tree| tree.tables.values());
    let named: HashSet<_> = named.map(|(_, meta)| (meta.path, meta.id.0)).collect();
    let mut orphans = Vec::new();
    let mut highest = 0;
    for (place, dir) in state.places.all(root) {
        let mut look =
            |dir: PathBuf, number: fn(&str) -> Option<u64>, is_named: &dyn Fn(u64) -> bool| {
                let files = storage.list(&dir);
                for file in files.map_err(|e| Error::io("list", &dir, e))? {
                    if let Some(number) = number(&file.name) {
                        highest = highest.max(number);
                        if !is_named(number) {
                            orphans.push(dir.join(&file.name));
                        }
                    }
                }
                Ok(())
            };
        look(tables_dir(&dir), table_number, &|n| {
            named.contains(&(place, n))
        })?;
        // A filter that fits no table is removed when it is looked at.
        look(filters_dir(&dir), file_number, &|_| place == places.filters)?;
    }
    // A log may have been about to begin elsewhere when a crash came.
    for (place, dir) in state.places.all(root) {
        let dir = log_dir(&dir);
        let files = storage.list(&dir);
        for file in files.map_err(|e| Error::io("list", &dir, e))? {
            if place != state.places.log && segment_number(&file.name).is_some() {
                orphans.push(dir.join(&file.name));
            }
        }
    }
    Ok((orphans, highest))
}

/// Removes them. A late call of whoever had the database open before may have removed some.
pub(super) fn remove(storage: &dyn Storage, orphans: &[PathBuf]) -> Result<()> {
    orphans.iter().try_for_each(|path| {
        let removed = storage.remove(path);
        match removed {
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
            removed => removed.map_err(|e| Error::io("remove", path, e)),
        }
    })
}
