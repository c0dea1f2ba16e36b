//! The manifest as a repair finds it.
//!
//! A copy of it stays in the directory `lost` while the repair is under way. As long as it is
//! there, the database opens for another repair only. That one reads it again: only this manifest
//! may say that a table was bulk-loaded, or what a damaged table had. A damaged manifest is kept
//! there for good, as `MANIFEST.damaged`.

use std::io;
use std::path::{Path, PathBuf};

use hedgerow_io::Storage;

use super::{RepairReport, naming};
use crate::base::durable::sync_dir;
use crate::base::error::{Error, ErrorKind, Result};
use crate::paths::checkpoint;
use crate::paths::recover::under_repair;
use crate::paths::recover::under_repair::{BEFORE, MERGED, lost_dir};
use crate::tree::version::manifest;
use crate::tree::version::places::Places;
use crate::tree::version::state::State;

/// The name of a damaged manifest that is kept.
const DAMAGED: &str = "MANIFEST.damaged";

/// The manifest as the repair finds it.
pub(super) struct OldManifest {
    /// The readable part.
    pub(super) known: State,
    /// The description that an earlier repair has made, if that did not end.
    pub(super) resumed: Option<State>,
    /// True if an earlier repair has put everything back, and only `lost` is left to be tidied up.
    pub(super) is_merged: bool,
    /// True if no earlier repair has begun that did not end.
    pub(super) is_first: bool,
    /// True if no edit is damaged. Whole edits may be missing at the end.
    pub(super) is_whole: bool,
    damage: Option<Error>,
}

impl OldManifest {
    /// # Errors
    /// `FormatVersion` and `Io`: such a manifest is not damaged.
    pub(super) fn find(storage: &dyn Storage, dir: &Path) -> Result<OldManifest> {
        let path = dir.join(manifest::FILE_NAME);
        let own = contents(storage, &path)?;
        let made = replayed(&path, &own)?.ok();
        // A database that was damaged after everything was back is repaired anew.
        let is_valid = |mark: &PathBuf| made.is_some() || !mark.ends_with(MERGED);
        let mark = under_repair::mark(storage, dir)?.filter(is_valid);
        let old = match &mark {
            Some(mark) => contents(storage, mark)?,
            None => own.clone(),
        };
        // The first repair may have been stopped before it wrote one.
        let is_new = mark.is_some() && own != old;
        let found = replayed(mark.as_ref().unwrap_or(&path), &old)?;
        Ok(OldManifest {
            known: readable(&old),
            resumed: made.map(|(state, _)| state).filter(|_| is_new),
            is_first: mark.is_none(),
            is_merged: mark.is_some_and(|mark| mark.ends_with(MERGED)),
            is_whole: matches!(found, Ok((_, bytes)) if bytes == old.len() as u64),
            damage: found.err().filter(|_| !old.is_empty()),
        })
    }

    /// Takes over the places that are searched.
    ///
    /// # Errors
    /// `InvalidArgument` if a repair that was stopped has searched others: what it has made has no
    /// trees for their tables.
    pub(super) fn search(&mut self, places: Places) -> Result<()> {
        let dirs = |places: &Places| {
            let dirs = places.others.values().map(|place| place.dir.clone());
            dirs.collect::<Vec<_>>()
        };
        let knows_all = |known: &Places| known.others.keys().eq(places.others.keys());
        if let Some(resumed) = self.resumed.as_ref().filter(|it| !knows_all(&it.places)) {
            return Err(Error::invalid(format!(
                "expected the directories of the repair that was stopped, {:?}, found {:?}",
                dirs(&resumed.places),
                dirs(&places)
            )));
        }
        self.is_whole &= knows_all(&self.known.places);
        self.known.places = places;
        Ok(())
    }

    /// Reports the manifest if it is damaged. Returns the path under which it is kept then.
    pub(super) fn report(
        &self,
        storage: &dyn Storage,
        dir: &Path,
        report: &mut RepairReport,
    ) -> Result<Option<PathBuf>> {
        let Some(damage) = &self.damage else {
            return Ok(None);
        };
        let lost = lost_dir(dir);
        let taken = naming::names(storage, &lost)?;
        let name = naming::free_name(DAMAGED, |name| taken.iter().any(|it| it == name));
        let kept = lost.join(name);
        report.lost.push((kept.clone(), damage.to_string()));
        Ok(Some(kept))
    }
}

/// The bytes of a manifest; empty if there is none.
fn contents(storage: &dyn Storage, path: &Path) -> Result<Vec<u8>> {
    match manifest::read(storage, path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        read => read.map_err(|e| Error::io("read", path, e)),
    }
}

/// The state that a manifest leads to, and the bytes up to the end of its last record. The inner
/// error is the damage.
fn replayed(path: &Path, contents: &[u8]) -> Result<Result<(State, u64)>> {
    let replayed = manifest::replay_bytes(contents).and_then(|replay| {
        replay.check_writable()?;
        Ok((State::replay(&replay.edits)?, replay.bytes))
    });
    match replayed {
        Err(error) if error.kind() == ErrorKind::FormatVersion => Err(error.at(path, None)),
        replayed => Ok(replayed),
    }
}

/// The state that the readable part of a manifest leads to.
fn readable(contents: &[u8]) -> State {
    let mut state = State::default();
    for change in manifest::salvage(contents).iter().flatten() {
        let before = state.clone();
        if state.apply(change).is_err() {
            return before;
        }
    }
    state
}

/// The state that the readable part of a manifest file leads to.
pub(super) fn readable_at(storage: &dyn Storage, path: &Path) -> Result<State> {
    Ok(readable(&contents(storage, path)?))
}

/// Keeps the manifest, unless an earlier repair has done so. From now on the database is under
/// repair.
pub(super) fn keep(storage: &dyn Storage, dir: &Path) -> Result<()> {
    let mark = under_repair::mark(storage, dir)?;
    if mark.is_some_and(|mark| mark.ends_with(BEFORE)) {
        return Ok(());
    }
    let lost = lost_dir(dir);
    let copy = lost.join("MANIFEST.copy");
    naming::remove_left(storage, &copy)?;
    match manifest::exists(storage, dir)? {
        true => checkpoint::copy(storage, &dir.join(manifest::FILE_NAME), &copy, u64::MAX)?,
        false => {
            let created = storage.create(&copy);
            let synced = created.and_then(|mut file| file.sync());
            synced.map_err(|e| Error::io("create", &copy, e))?;
        }
    }
    naming::rename(storage, &copy, &lost.join(BEFORE))?;
    naming::remove_left(storage, &lost.join(MERGED))?;
    sync_dir(storage, &lost)
}

/// Notes that everything is back in the database.
pub(super) fn note_merged(storage: &dyn Storage, dir: &Path) -> Result<()> {
    let lost = lost_dir(dir);
    naming::rename(storage, &lost.join(BEFORE), &lost.join(MERGED))?;
    sync_dir(storage, &lost)
}

/// Ends the repair. The manifest goes, or gets the name under which it is kept.
pub(super) fn put_away(storage: &dyn Storage, dir: &Path, kept: Option<PathBuf>) -> Result<()> {
    let lost = lost_dir(dir);
    let mark = lost.join(MERGED);
    match kept {
        Some(kept) => naming::rename(storage, &mark, &kept)?,
        None => naming::remove_left(storage, &mark)?,
    }
    sync_dir(storage, &lost)
}
