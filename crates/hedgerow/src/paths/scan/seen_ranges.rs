//! The range tombstones that a scan sees.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::View;
use crate::base::entry::SeqNo;
use crate::base::error::Result;
use crate::table::iter::InternalIter;
use crate::table::iter::uncovered::{SeenRanges, VisibleIter};
use crate::tree::memtable::RangeLists;
use crate::tree::version::SuperVersion;

impl View {
    /// The range tombstones of a tree, if there are some.
    pub(super) fn seen_ranges(&self, tree: usize) -> Option<SeenRanges> {
        let lists = self.ranges.get(tree).filter(|lists| !lists.is_empty())?;
        let stepped = self.stepped.clone();
        let stepped = stepped.map(|sum| {
            let add = move || _ = sum.fetch_add(1, Ordering::Relaxed);
            Arc::new(add) as Arc<dyn Fn() + Send + Sync>
        });
        Some(SeenRanges {
            lists: lists.clone(),
            seqno: self.seqno,
            stepped,
        })
    }

    /// The entries of an iterator that no range tombstone of its tree hides. None is newer than
    /// `newest`.
    pub(super) fn uncovered(
        &self,
        tree: usize,
        iter: Box<dyn InternalIter>,
        newest: SeqNo,
    ) -> Box<dyn InternalIter> {
        match self.seen_ranges(tree) {
            None => iter,
            Some(ranges) => Box::new(VisibleIter::new(iter, ranges, newest)),
        }
    }
}

/// The range tombstones of each tree; empty if no tree has some. Those of memtables are complete up
/// to every number that is published before the call.
pub(super) fn lists(trees: &[Arc<SuperVersion>]) -> Result<Vec<Arc<RangeLists>>> {
    let has_ranges = |tree: &Arc<SuperVersion>| {
        tree.has_ranges() || tree.memtables().any(|memtable| memtable.has_ranges())
    };
    if !trees.iter().any(has_ranges) {
        return Ok(Vec::new());
    }
    let lists = trees.iter().map(|tree| tree.range_lists().map(Arc::new));
    lists.collect()
}
