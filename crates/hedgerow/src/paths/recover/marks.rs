//! The directories of a database at open: those that the manifest knows or that the caller names
//! now. Checks that they are the right ones.
//!
//! A directory beside the database's own has a file `PLACE` with a mark that the manifest knows,
//! too. So a disk that is not mounted, or a wrong one, is reported before any file is missed. A
//! moved directory is recognized at its new path. New directories are created when the manifest
//! that names them is about to be written; no file is put into them before.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use hedgerow_io::{Clock, FileLock, ReadMode, Storage};

use super::{OpenOptions, take_lock};
use crate::base::durable::sync_dir;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::options::LevelPaths;
use crate::group_filter::{file_number, filters_dir};
use crate::table::open::table_number;
use crate::tree::engine::log_dir;
use crate::tree::partition::tables_dir;
use crate::tree::version::manifest;
use crate::tree::version::places::{Place, Places};
use crate::tree::version::state::State;
use crate::tree::wal::log::segment_number;

/// The file that identifies a place: sixteen hexadecimal digits and a line feed.
pub(crate) const MARK_FILE: &str = "PLACE";
const MARK_BYTES: usize = 17;

/// The places of a database that is being opened: those of the manifest, changed as `wanted`
/// assigns them now, if it is given.
pub(super) fn choose(root: &Path, options: &OpenOptions, state: &State) -> Result<Places> {
    let (storage, clock) = (&*options.environment.storage, &*options.environment.clock);
    let known = &state.places;
    let Some(wanted) = &options.level_paths else {
        return Ok(known.clone());
    };
    wanted.check()?;
    let mut others = known.others.clone();
    let mut numbers = BTreeMap::new();
    for named in wanted.dirs() {
        let number = match number_of(storage, root, named, known)? {
            Some(number) => number,
            None => {
                let free = (1..=u8::MAX).find(|number| !others.contains_key(number));
                free.ok_or_else(|| Error::invalid("expected at most 255 directories, found more"))?
            }
        };
        numbers.insert(named, number);
        if number > 0 {
            let mark = known.others.get(&number).map(|place| place.mark);
            let mark = mark.unwrap_or_else(|| new_mark(clock, number));
            let dir = named.to_string_lossy().into_owned();
            others.insert(number, Place { dir, mark });
        }
    }
    let places = assigned(wanted, &numbers, others);
    without_unused(places, state, storage, root)
}

/// The assignment of places, by the numbers of the directories.
fn assigned(
    wanted: &LevelPaths,
    numbers: &BTreeMap<&Path, u8>,
    others: BTreeMap<u8, Place>,
) -> Places {
    let number = |dir: &Path| numbers.get(dir).copied().unwrap_or(0);
    let levels = wanted.levels.iter();
    Places {
        levels: levels
            .map(|(from, to, dir)| (*from, *to, number(dir)))
            .collect(),
        log: wanted.log.as_deref().map_or(0, number),
        filters: wanted.filters.as_deref().map_or(0, number),
        others,
    }
}

/// The directories that the caller names for repairing a database without a manifest. Each must
/// have been a place of a database.
pub(super) fn named(root: &Path, options: &OpenOptions) -> Result<Places> {
    let Some(wanted) = &options.level_paths else {
        return Ok(Places::default());
    };
    wanted.check()?;
    let (mut numbers, mut others) = (BTreeMap::new(), BTreeMap::new());
    for (named, number) in wanted.dirs().into_iter().zip(1..) {
        let dir = root.join(named);
        if dir == root {
            continue;
        }
        let Some(mark) = read_mark(&*options.environment.storage, &dir)? else {
            return Err(Error::invalid(format!(
                "expected a directory of a database, found no mark of one in {}",
                dir.display()
            )));
        };
        let dir = named.to_string_lossy().into_owned();
        numbers.insert(named, number);
        others.insert(number, Place { dir, mark });
    }
    Ok(assigned(wanted, &numbers, others))
}

/// Removes places that are empty, unused and no longer there. A place that is there stays: a crash
/// may bring back files that were removed from it, and they would look like another database's.
fn without_unused(
    mut places: Places,
    state: &State,
    storage: &dyn Storage,
    root: &Path,
) -> Result<Places> {
    let tables = state.trees.values().flat_map(|tree| tree.tables.values());
    let mut used: BTreeSet<u8> = tables.map(|(_, meta)| meta.path).collect();
    used.insert(state.places.log);
    for (number, place) in std::mem::take(&mut places.others) {
        let is_used = used.contains(&number) || places.uses(number);
        if is_used || read_mark(storage, &root.join(&place.dir))? == Some(place.mark) {
            places.others.insert(number, place);
        }
    }
    Ok(places)
}

/// The number of a directory that is one of the database's, wherever it was before.
fn number_of(
    storage: &dyn Storage,
    root: &Path,
    named: &Path,
    known: &Places,
) -> Result<Option<u8>> {
    let dir = root.join(named);
    if dir == root {
        return Ok(Some(0));
    }
    if let Some(mark) = read_mark(storage, &dir)? {
        let found = known.others.iter().find(|(_, place)| place.mark == mark);
        if let Some((number, _)) = found {
            return Ok(Some(*number));
        }
    }
    let has_its_name = known
        .others
        .values()
        .any(|place| Path::new(&place.dir) == named);
    if has_its_name || is_used(storage, &dir)? {
        return Err(Error::invalid(format!(
            "expected an empty directory, or one of this database, found another in {}",
            dir.display()
        )));
    }
    Ok(None)
}

/// Returns true if the directory has files of any database.
fn is_used(storage: &dyn Storage, dir: &Path) -> Result<bool> {
    let has = |dir: &Path, is_one: fn(&str) -> bool| match storage.list(dir) {
        Ok(files) => Ok(files.iter().any(|file| is_one(&file.name))),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(Error::io("list", dir, e)),
    };
    Ok(has(&tables_dir(dir), |name| table_number(name).is_some())?
        || has(&log_dir(dir), |name| segment_number(name).is_some())?
        || has(&filters_dir(dir), |name| file_number(name).is_some())?
        || has(dir, |name| name == manifest::FILE_NAME)?)
}

/// A new mark. Marks differ between places and databases.
fn new_mark(clock: &dyn Clock, number: u8) -> u64 {
    let moment = clock.now().as_nanos() as u64 ^ clock.unix_seconds().rotate_left(32);
    crate::base::entry::KeyHash::of(&[number], moment).low()
}

/// The mark of a directory. `None` if the directory does not exist or was never a place.
pub(crate) fn read_mark(storage: &dyn Storage, dir: &Path) -> Result<Option<u64>> {
    let path = dir.join(MARK_FILE);
    let file = match storage.open(&path, ReadMode::Pread) {
        Ok(file) => file,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(Error::io("open", &path, e)),
    };
    let mut bytes = vec![0; MARK_BYTES.min(file.bytes() as usize)];
    let read = file.read_at(0, &mut bytes);
    read.map_err(|e| Error::io("read", &path, e))?;
    let text = std::str::from_utf8(&bytes)
        .ok()
        .and_then(|text| text.strip_suffix('\n'));
    // A mark that was torn by a crash is none.
    Ok(text.and_then(|text| u64::from_str_radix(text, 16).ok()))
}

/// Creates the missing directories and their contents. The others must match the manifest. Adds
/// their locks to that of the database, since a copy of its own directory has the same places.
pub(super) fn prepare(
    storage: &dyn Storage,
    root: &Path,
    known: &Places,
    places: &Places,
    mut locks: Option<Vec<Box<dyn FileLock>>>,
) -> Result<Vec<Box<dyn FileLock>>> {
    check(storage, root, known, places)?;
    for (number, dir) in places.all(root).filter(|(number, _)| *number > 0) {
        let create = |dir: &Path| {
            let created = storage.create_dir_all(dir);
            created.map_err(|e| Error::io("create", dir, e))
        };
        create(&dir)?;
        if let Some(locks) = &mut locks {
            locks.push(take_lock(storage, &dir)?);
        }
        if !known.others.contains_key(&number) {
            write_mark(storage, &dir, places.others[&number].mark)?;
        }
        for made in [tables_dir(&dir), filters_dir(&dir), log_dir(&dir)] {
            create(&made)?;
        }
    }
    Ok(locks.unwrap_or_default())
}

/// Checks that all places that the manifest knows, and that are still needed, are there.
pub(super) fn check(
    storage: &dyn Storage,
    root: &Path,
    known: &Places,
    places: &Places,
) -> Result<()> {
    for (number, place) in &places.others {
        if !known.others.contains_key(number) {
            continue;
        }
        let dir = places.dir(root, *number);
        let found = match read_mark(storage, &dir)? {
            Some(mark) if mark == place.mark => continue,
            Some(_) => "another one",
            None => "none",
        };
        return Err(Error::new(
            ErrorKind::InvalidArgument,
            format!(
                "expected a directory of the database {} at {}, found {found}: mount it, or give its new \
                 path in `level_paths`",
                root.display(),
                dir.display()
            ),
        ));
    }
    Ok(())
}

fn write_mark(storage: &dyn Storage, dir: &Path, mark: u64) -> Result<()> {
    let path = dir.join(MARK_FILE);
    let failed = |e| Error::io("write", &path, e);
    match storage.remove(&path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(failed(e)),
        // The removed file may be the mark of an interrupted open, which the manifest does not
        // know.
        _ => {}
    }
    let mut file = storage.create(&path).map_err(failed)?;
    let text = format!("{mark:016x}\n");
    file.write(text.as_bytes()).map_err(failed)?;
    file.sync().map_err(failed)?;
    sync_dir(storage, dir)
}
