//! The directories of a database's files, as the manifest stores them. Pure.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The directories of a database. Place 0 is the one by which it is opened, with the manifest; each
/// table names its place.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Places {
    /// The places beside place 0, by number. A number is not reused while a table names it.
    pub others: BTreeMap<u8, Place>,
    /// The first level, the last level, and the place of the tables of these levels. Other levels
    /// have place 0.
    pub levels: Vec<(u8, u8, u8)>,
    /// The place of the log.
    pub log: u8,
    /// The place of filters over several runs.
    pub filters: u8,
}

/// A directory beside the one that a database is opened by.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Place {
    /// The directory; a relative one is under the database's.
    pub dir: String,
    /// The contents of its file `PLACE`, which identifies the directory wherever it is.
    pub mark: u64,
}

impl Places {
    /// The place of tables that are written into a level.
    pub(crate) fn of_level(&self, level: usize) -> u8 {
        let holds =
            |(from, to, _): &&(u8, u8, u8)| (*from as usize..=*to as usize).contains(&level);
        self.levels
            .iter()
            .find(holds)
            .map_or(0, |(.., place)| *place)
    }

    /// The directory of a place of the database in `root`. An unknown place is in `root`.
    pub(crate) fn dir(&self, root: &Path, place: u8) -> PathBuf {
        let other = self.others.get(&place);
        other.map_or_else(|| root.to_path_buf(), |other| root.join(&other.dir))
    }

    /// All places with their directories.
    pub(crate) fn all(&self, root: &Path) -> impl Iterator<Item = (u8, PathBuf)> {
        let numbers = [0].into_iter().chain(self.others.keys().copied());
        numbers.map(|place| (place, self.dir(root, place)))
    }

    /// The directory of the log's place.
    pub(crate) fn log_root(&self, root: &Path) -> PathBuf {
        self.dir(root, self.log)
    }

    /// The directory of the filters' place.
    pub(crate) fn filters_root(&self, root: &Path) -> PathBuf {
        self.dir(root, self.filters)
    }

    /// These places, with the present directories of `now`.
    pub(crate) fn at(&self, now: &Places) -> Places {
        let mut moved = self.clone();
        for (number, place) in &mut moved.others {
            if let Some(now) = now.others.get(number) {
                place.dir.clone_from(&now.dir);
            }
        }
        moved
    }

    /// Returns true if files are written to a place from now on.
    pub(crate) fn uses(&self, place: u8) -> bool {
        self.log == place
            || self.filters == place
            || self.levels.iter().any(|level| level.2 == place)
    }
}
