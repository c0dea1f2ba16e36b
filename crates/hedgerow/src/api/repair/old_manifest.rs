//! The manifest as a repair finds it.
//!
//! A copy of it stays in the directory `lost` while the repair is under way. As long as it is
//! there, the database opens for another repair only. That one reads it again: only this manifest
//! may say that a table was bulk-loaded, or what a damaged table had. A damaged manifest is kept
//! there for good, as `MANIFEST.damaged`.

use std::path::{Path, PathBuf};

use hedgerow_io::Storage;

use super::{RepairReport, tables};
use crate::base::durable::sync_dir;
use crate::base::error::{Error, Result};
use crate::paths::checkpoint;
use crate::paths::recover::under_repair;
use crate::paths::recover::under_repair::{BEFORE, MERGED, lost_dir};
use crate::tree::version::manifest;
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
    damage: Option<Error>,
}

impl OldManifest {
    pub(super) fn find(storage: &dyn Storage, dir: &Path) -> Result<OldManifest> {
        let own = contents(storage, &dir.join(manifest::FILE_NAME));
        let made = replayed(&own).ok();
        // A database that was damaged after everything was back is repaired anew.
        let is_valid = |mark: &PathBuf| made.is_some() || !mark.ends_with(MERGED);
        let mark = under_repair::mark(storage, dir)?.filter(is_valid);
        let old = match &mark {
            Some(mark) => contents(storage, mark),
            None => own.clone(),
        };
        // The first repair may have been stopped before it wrote one.
        let is_new = mark.is_some() && own != old;
        let damage = replayed(&old).err();
        Ok(OldManifest {
            known: readable(&old),
            resumed: made.filter(|_| is_new),
            is_merged: mark.is_some_and(|mark| mark.ends_with(MERGED)),
            damage: damage.filter(|_| !old.is_empty()),
        })
    }

    /// Reports the manifest if it is damaged. Returns the path under which it is kept then.
    pub(super) fn tell(
        &self,
        storage: &dyn Storage,
        dir: &Path,
        report: &mut RepairReport,
    ) -> Result<Option<PathBuf>> {
        let Some(damage) = &self.damage else {
            return Ok(None);
        };
        let lost = lost_dir(dir);
        let taken = tables::names(storage, &lost)?;
        let name = tables::free_name(DAMAGED, |name| taken.iter().any(|it| it == name));
        let kept = lost.join(name);
        report.lost.push((kept.clone(), damage.to_string()));
        Ok(Some(kept))
    }
}

/// The bytes of a manifest; empty if there is none.
fn contents(storage: &dyn Storage, path: &Path) -> Vec<u8> {
    manifest::read(storage, path).unwrap_or_default()
}

fn replayed(contents: &[u8]) -> Result<State> {
    State::replay(&manifest::replay_bytes(contents)?.edits)
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
pub(super) fn readable_at(storage: &dyn Storage, path: &Path) -> State {
    readable(&contents(storage, path))
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
    tables::remove_left(storage, &copy)?;
    match manifest::exists(storage, dir)? {
        true => checkpoint::copy(storage, &dir.join(manifest::FILE_NAME), &copy, u64::MAX)?,
        false => {
            let created = storage.create(&copy);
            let synced = created.and_then(|mut file| file.sync());
            synced.map_err(|e| Error::io("create", &copy, e))?;
        }
    }
    tables::rename(storage, &copy, &lost.join(BEFORE))?;
    tables::remove_left(storage, &lost.join(MERGED))?;
    sync_dir(storage, &lost)
}

/// Notes that everything is back in the database.
pub(super) fn note_merged(storage: &dyn Storage, dir: &Path) -> Result<()> {
    let lost = lost_dir(dir);
    tables::rename(storage, &lost.join(BEFORE), &lost.join(MERGED))?;
    sync_dir(storage, &lost)
}

/// Ends the repair. The manifest goes, or gets the name under which it is kept.
pub(super) fn put_away(storage: &dyn Storage, dir: &Path, kept: Option<PathBuf>) -> Result<()> {
    let lost = lost_dir(dir);
    let mark = lost.join(MERGED);
    match kept {
        Some(kept) => tables::rename(storage, &mark, &kept)?,
        None => tables::remove_left(storage, &mark)?,
    }
    sync_dir(storage, &lost)
}
