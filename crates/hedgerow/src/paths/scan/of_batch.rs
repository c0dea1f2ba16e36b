//! A scan of a batch over a snapshot: the batch's own writes are one more source, above all others.

use std::sync::Arc;

use crate::base::entry::SeqNo;
use crate::base::error::{Error, Result};
use crate::table::Table;
use crate::table::iter::merge::merge;
use crate::table::iter::uncovered::{SeenRanges, VisibleIter};
use crate::table::iter::{Entry, InternalIter};
use crate::tree::memtable::Memtable;
use crate::tree::recorded::{RangeRecorder, RangesRead};

use super::View;

/// The additions of a batch to the view of a snapshot.
pub(crate) struct OfBatch {
    /// The batch's own writes to some trees, by the index of the tree.
    pub(crate) own: Vec<(usize, Arc<Memtable>)>,
    /// The number of the batch's last write when the view was made. The view sees no later one.
    pub(crate) newest: SeqNo,
    /// The record of what is read, if the batch is a transaction that needs it.
    pub(crate) reads: Option<Arc<RangesRead>>,
}

impl View {
    /// Returns true if the view does not see an entry with a larger number than its own. Such an
    /// entry has a number that was given out (invariant I34), or is a write of the view's batch.
    #[cold]
    pub(super) fn hides(&self, entry: &Entry<'_>) -> Result<bool> {
        if let Some(batch) = self.batch.as_ref().filter(|_| entry.seqno >= SeqNo::OWN) {
            return Ok(entry.seqno > batch.newest);
        }
        let begun = self.engine.publisher.begun();
        if entry.seqno.0 <= begun {
            return Ok(true);
        }
        let noticed = Error::corruption(format!(
            "expected entries numbered up to {begun}, found {:?} at {}",
            entry.key, entry.seqno.0
        ));
        let holds = |table: &&Arc<Table>| {
            let meta = table.meta();
            (&*meta.smallest_key..=&*meta.largest_key).contains(&entry.key)
        };
        let tables = self.trees.iter().flat_map(|tree| tree.version.tables());
        let tables = tables.map(|(_, table)| table).filter(holds);
        Err(Table::culprit(tables, noticed))
    }
}

impl OfBatch {
    /// Adds the batch's own writes to a tree, whose sources begin at `first`. The batch's range
    /// deletes hide all of these.
    pub(super) fn add_own_writes(
        &self,
        tree: usize,
        sources: &mut Vec<Box<dyn InternalIter>>,
        first: usize,
    ) {
        let Some((_, own)) = self.own.iter().find(|(index, _)| *index == tree) else {
            return;
        };
        if !own.has_ranges() {
            sources.push(Box::new(own.iter()));
            return;
        }
        let ranges = SeenRanges {
            lists: own.range_lists(),
            seqno: self.newest,
            stepped: None,
        };
        let below = merge(sources.split_off(first));
        let newest_below = SeqNo(SeqNo::OWN.0 - 1);
        sources.push(Box::new(VisibleIter::new(
            below,
            ranges.clone(),
            newest_below,
        )));
        sources.push(Box::new(VisibleIter::new(
            Box::new(own.iter()),
            ranges,
            self.newest,
        )));
    }

    /// The same entries; what is read of them is recorded if the batch needs it.
    pub(super) fn recorded(&self, entries: Box<dyn InternalIter>) -> Box<dyn InternalIter> {
        match &self.reads {
            Some(reads) => Box::new(RangeRecorder::new(entries, reads.clone())),
            None => entries,
        }
    }
}
