//! One piece of a merge: each entry is kept, folded, filtered or left out.

use crate::base::entry::{Flags, SeqNo};
use crate::base::error::Result;
use crate::paths::compaction::filtering::FilterDecision;
use crate::paths::compaction::fold::OperandFold;
use crate::paths::compaction::output::OutputTables;
use crate::paths::compaction::retain::Retain;
use crate::table::iter::{Entry, ValueSource};

use super::Merge;

/// The entries of one piece on their way into tables.
pub(super) struct Piece<'m> {
    merge: &'m Merge,
    retain: Retain,
    folding: OperandFold<'m>,
    pub(super) output: OutputTables<'m>,
    /// The compaction filter removes all keys before this one.
    skip_to: Option<Vec<u8>>,
}

impl<'m> Piece<'m> {
    pub(super) fn new(merge: &'m Merge, lower: Option<&[u8]>, upper: Option<&[u8]>) -> Piece<'m> {
        let (engine, partition) = (&*merge.engine, &merge.partition);
        let place = (merge.target.level, merge.run);
        let (design, below) = (merge.design.clone(), merge.below());
        let mut output = OutputTables::with(engine, partition, design, place, merge.filter, below);
        output.settled = merge.settled();
        // Else flushes wait for this merge.
        output.leaves_room = !partition.tree().version.level0_is_full();
        let retain = Retain::new(&merge.held, merge.ranges.within(lower, upper));
        output.range_tombstones = retain.ranges(|lo, hi| !merge.has_older((lo, hi)));
        Piece {
            merge,
            retain,
            folding: OperandFold::new(engine, &partition.keyspace),
            output,
            skip_to: None,
        }
    }

    /// Writes an entry, or a part of it, unless nobody needs it.
    #[inline]
    pub(super) fn take(&mut self, entry: Entry<'_>, is_new: bool) -> Result<()> {
        let merge = self.merge;
        if is_new {
            self.write_folded()?;
        }
        let entry = match entry.tag.flags.has(Flags::EXPIRES) {
            true => merge.or_expired(entry, &self.retain)?,
            false => entry,
        };
        let nothing_older = || !merge.has_older_of(entry.key);
        let key = (entry.key, is_new);
        if !self.retain.keep(key, entry.seqno, entry.tag, nothing_older) {
            return Ok(());
        }
        let page;
        let value = match entry.value {
            ValueSource::Inline(value) => value,
            ValueSource::OutOfLine { page: id, .. } => {
                page = merge.read_page(id)?;
                &page
            }
        };
        let filtered = match &merge.filtering {
            Some(filtering) if is_new => {
                let order = &*merge.partition.keyspace.order;
                filtering.decide(&entry, value, order, &mut self.skip_to)?
            }
            _ => FilterDecision::Same,
        };
        match filtered {
            FilterDecision::Same if self.folding.takes(entry.tag) => {
                self.folding.push(&entry, value, &mut self.retain)
            }
            FilterDecision::Same => self.output.add(&entry, value),
            FilterDecision::Value(value) => self.output.add(&entry, &value),
            FilterDecision::Deleted
                if self.retain.is_seen_by_all(entry.seqno) && nothing_older() =>
            {
                Ok(())
            }
            FilterDecision::Deleted => self.output.add(&entry.deleted(), b""),
        }
    }

    /// Writes the folded versions of the key before.
    #[inline]
    pub(super) fn write_folded(&mut self) -> Result<()> {
        if !self.folding.is_waiting() {
            return Ok(());
        }
        let nothing_older = |key: &[u8]| !self.merge.has_older_of(key);
        self.folding
            .write(&self.retain, nothing_older, &mut self.output)
    }
}

/// The position of a merge among its entries. It checks their order and their numbers (invariant
/// I34): a writer takes entries in order only, and a table holds published entries only.
pub(super) struct MergePosition {
    pub(super) key: Vec<u8>,
    /// The number of the last version of the key; `None` before the first version.
    seqno: Option<SeqNo>,
    published: SeqNo,
}

impl MergePosition {
    /// Before every version of a key.
    pub(super) fn new(lower: Option<&[u8]>, published: SeqNo) -> MergePosition {
        MergePosition {
            key: lower.unwrap_or_default().to_vec(),
            seqno: None,
            published,
        }
    }

    /// Advances to an entry. Returns true if its key is new, or a message that describes the error.
    #[inline]
    pub(super) fn pass(&mut self, entry: &Entry<'_>) -> std::result::Result<bool, String> {
        let order = entry.key.cmp(&self.key);
        let is_older = self.seqno.is_none_or(|newer| entry.seqno < newer);
        let is_new = order.is_gt() || self.seqno.is_none();
        if order.is_lt() || (order.is_eq() && !is_older) || entry.seqno > self.published {
            return Err(format!(
                "expected entries behind {:?} at {:?}, numbered up to {}, found {:?} at {}",
                self.key, self.seqno, self.published.0, entry.key, entry.seqno.0
            ));
        }
        if order.is_gt() {
            self.key.clear();
            self.key.extend_from_slice(entry.key);
        }
        self.seqno = Some(entry.seqno);
        Ok(is_new)
    }
}
