//! The memtables and the version of a tree behind one pointer, which a read loads atomically.

use std::sync::{Arc, OnceLock};

use crate::base::entry::SeqNo;
use crate::base::error::Result;
use crate::base::range_tombstones::RangeTombstones;
use crate::table::Table;
use crate::tree::memtable::{Memtable, RangeLists};

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
    /// The range tombstones of all tables together, once a scan or a merge needed them.
    ranges: OnceLock<Arc<RangeTombstones>>,
    has_ranges: bool,
}

impl SuperVersion {
    pub(crate) fn new(
        active: Arc<Memtable>,
        version: Arc<Version>,
        flushed_through: SeqNo,
    ) -> SuperVersion {
        SuperVersion {
            active,
            sealed: Vec::new(),
            has_ranges: has_ranges(&version),
            version,
            flushed_through,
            ranges: OnceLock::new(),
        }
    }

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
            ranges: self.ranges.clone(),
            has_ranges: self.has_ranges,
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
            has_ranges: has_ranges(&version),
            version,
            flushed_through: flushed.map_or(self.flushed_through, |(_, through)| {
                through.max(self.flushed_through)
            }),
            ranges: OnceLock::new(),
        }
    }

    /// Returns true if tables have range tombstones.
    pub(crate) fn has_ranges(&self) -> bool {
        self.has_ranges
    }

    /// The range tombstones of all tables. The first call opens the tables that have some.
    pub(crate) fn ranges(&self) -> Result<&Arc<RangeTombstones>> {
        if let Some(ranges) = self.ranges.get() {
            return Ok(ranges);
        }
        let tables = self.version.tables().map(|(_, table)| table.ranges());
        let lists = tables
            .filter_map(Result::transpose)
            .collect::<Result<Vec<_>>>()?;
        let merged = RangeTombstones::merged(lists.into_iter().map(|it| &**it));
        Ok(self.ranges.get_or_init(|| Arc::new(merged)))
    }

    /// The range tombstones of all tables, if a call of [`SuperVersion::ranges`] has made them.
    pub(crate) fn known_ranges(&self) -> Option<&Arc<RangeTombstones>> {
        self.ranges.get()
    }

    /// Returns true if [`SuperVersion::range_lists`] reads no file.
    pub(crate) fn ranges_are_in_memory(&self) -> bool {
        let is_read = |table: &Table| table.meta().range_tombstones == 0 || table.is_open();
        let mut tables = self.version.tables();
        !self.has_ranges || self.ranges.get().is_some() || tables.all(|it| is_read(it.1))
    }

    /// All range tombstones, as lists; none if there are none.
    pub(crate) fn range_lists(&self) -> Result<RangeLists> {
        let mut lists = RangeLists::new();
        if self.has_ranges {
            lists.push(self.ranges()?.clone());
        }
        for memtable in self.memtables().filter(|it| it.has_ranges()) {
            lists.extend(memtable.range_lists().iter().cloned());
        }
        Ok(lists)
    }

    /// Active and sealed memtables, newest first.
    pub(crate) fn memtables(&self) -> impl Iterator<Item = &Arc<Memtable>> {
        std::iter::once(&self.active).chain(&self.sealed)
    }
}

fn has_ranges(version: &Version) -> bool {
    version.levels.iter().any(|it| it.range_tombstones() > 0)
}
