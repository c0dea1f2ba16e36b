//! The memtables and the version of a tree behind one pointer, which a read loads atomically.

use std::sync::Arc;

use crate::base::entry::SeqNo;
use crate::tree::memtable::Memtable;

use super::Version;

/// Everything that a tree holds at one moment.
///
/// A reader that loads the pointer and *then* the published number, and finds the pointer
/// unchanged, sees every entry up to that number. Entries of a newer memtable would have changed
/// the pointer, and entries in tables were published before the tables were installed (invariants
/// I3 and I4).
pub(crate) struct SuperVersion {
    pub(crate) active: Arc<Memtable>,
    /// Newest first.
    pub(crate) sealed: Vec<Arc<Memtable>>,
    pub(crate) version: Arc<Version>,
    /// Every write numbered up to this is in the version's tables.
    pub(crate) flushed_through: SeqNo,
}

impl SuperVersion {
    /// The same tree with a new active memtable in front.
    pub(crate) fn with_active(&self, active: Arc<Memtable>) -> SuperVersion {
        let mut sealed = Vec::with_capacity(self.sealed.len() + 1);
        if !self.active.is_empty() {
            sealed.push(self.active.clone());
        }
        sealed.extend(self.sealed.iter().cloned());
        SuperVersion {
            active,
            sealed,
            version: self.version.clone(),
            flushed_through: self.flushed_through,
        }
    }

    /// The same memtables, without one that was flushed, over another version.
    pub(crate) fn with_version(
        &self,
        version: Arc<Version>,
        flushed: Option<(&Arc<Memtable>, SeqNo)>,
    ) -> SuperVersion {
        let is_flushed = |m: &Arc<Memtable>| flushed.is_some_and(|(f, _)| Arc::ptr_eq(m, f));
        SuperVersion {
            active: self.active.clone(),
            sealed: self
                .sealed
                .iter()
                .filter(|m| !is_flushed(m))
                .cloned()
                .collect(),
            version,
            flushed_through: flushed.map_or(self.flushed_through, |(_, through)| {
                through.max(self.flushed_through)
            }),
        }
    }

    /// Active and sealed memtables, newest first.
    pub(crate) fn memtables(&self) -> impl Iterator<Item = &Arc<Memtable>> {
        std::iter::once(&self.active).chain(&self.sealed)
    }
}
