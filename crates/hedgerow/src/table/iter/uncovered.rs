//! An iterator without the entries that range tombstones hide from a reader.
//!
//! An entry is hidden by a delete of its key that is at least as new and that the reader sees. If
//! no entry of the iterator is newer than the delete, the iterator seeks to the end of the range,
//! so that it reads nothing of it. Otherwise it steps over hidden entries one by one. So it does if
//! a delete is about one prefix, because other prefixes may lie between.
//!
//! Only readers of a tree that has range tombstones use it.

use std::sync::Arc;

use crate::base::entry::SeqNo;
use crate::base::error::Result;
use crate::base::page::PrefetchList;
use crate::base::range_tombstones::RangeTombstones;

use super::{Entry, InternalIter};

/// The range tombstones of a tree that a reader sees: those numbered at most `seqno`.
#[derive(Clone)]
pub(crate) struct SeenRanges {
    pub(crate) lists: Arc<Vec<Arc<RangeTombstones>>>,
    pub(crate) seqno: SeqNo,
    /// Called for each hidden entry that is stepped over.
    pub(crate) stepped: Option<Arc<dyn Fn() + Send + Sync>>,
}

/// The keys that follow in a direction and are hidden, too.
enum HiddenKeys {
    Nothing,
    ThisEntry,
    /// The keys from a start up to an end; an empty end is behind all keys.
    Range(Vec<u8>, Vec<u8>),
}

impl SeenRanges {
    /// Returns true if every entry from `lo` to `hi` is hidden, if none is newer than `newest`.
    pub(crate) fn hide_all(&self, lo: &[u8], hi: &[u8], newest: SeqNo) -> bool {
        let is_enough = |at: SeqNo| newest <= at && at <= self.seqno;
        self.lists.iter().any(|list| list.cover(lo, hi, is_enough))
    }

    /// The keys around one that are hidden if no entry is newer than `newest`, and if an entry of
    /// the key at `seqno` is hidden.
    fn hidden(&self, key: &[u8], seqno: SeqNo, newest: SeqNo) -> HiddenKeys {
        let mut hidden = HiddenKeys::Nothing;
        for list in &*self.lists {
            let Some((fragment, delete)) = list.newest(key, self.seqno) else {
                continue;
            };
            if delete.prefix.is_none() && newest <= delete.seqno {
                return HiddenKeys::Range(fragment.start.clone(), fragment.end.clone());
            }
            if seqno <= delete.seqno {
                hidden = HiddenKeys::ThisEntry;
            }
        }
        hidden
    }

    /// The largest range around a key that has no range tombstone. `None` if the key has one.
    fn gap(&self, key: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
        let (mut from, mut to): (&[u8], &[u8]) = (b"", b"");
        for list in &*self.lists {
            let (start, end) = list.gap(key)?;
            from = from.max(start);
            if to.is_empty() || (!end.is_empty() && end < to) {
                to = end;
            }
        }
        Some((from.to_vec(), to.to_vec()))
    }
}

/// See the module.
pub(crate) struct VisibleIter {
    inner: Box<dyn InternalIter>,
    ranges: SeenRanges,
    /// No entry is newer.
    newest: SeqNo,
    /// The last range found that has no tombstones.
    gap: Option<(Vec<u8>, Vec<u8>)>,
    /// Everything that follows is hidden.
    ended: bool,
}

impl VisibleIter {
    pub(crate) fn new(inner: Box<dyn InternalIter>, ranges: SeenRanges, newest: SeqNo) -> Self {
        VisibleIter {
            inner,
            ranges,
            newest,
            gap: None,
            ended: false,
        }
    }

    /// Returns true if the current entry is in the last gap.
    fn is_in_gap(&self) -> bool {
        let (Some((from, to)), Some(entry)) = (&self.gap, self.inner.entry()) else {
            return false;
        };
        from.as_slice() <= entry.key && (to.is_empty() || entry.key < to.as_slice())
    }

    /// Moves on from the current entry while it is hidden.
    fn settle(&mut self, forward: bool) -> Result<()> {
        self.ended = false;
        loop {
            if self.is_in_gap() {
                return Ok(());
            }
            let Some(entry) = self.inner.entry() else {
                return Ok(());
            };
            self.gap = self.ranges.gap(entry.key);
            let hidden = self.ranges.hidden(entry.key, entry.seqno, self.newest);
            match (hidden, forward) {
                (HiddenKeys::Nothing, _) => return Ok(()),
                (HiddenKeys::ThisEntry, _) => {
                    if let Some(stepped) = &self.ranges.stepped {
                        stepped();
                    }
                    match forward {
                        true => self.inner.advance()?,
                        false => self.inner.retreat()?,
                    }
                }
                (HiddenKeys::Range(_, end), true) if !end.is_empty() => {
                    self.inner.seek(&end, SeqNo::MAX)?;
                }
                (HiddenKeys::Range(start, _), false) if !start.is_empty() => {
                    self.inner.seek_before(&start, SeqNo::MAX)?;
                }
                (HiddenKeys::Range(..), _) => {
                    self.ended = true;
                    return Ok(());
                }
            }
        }
    }

    /// The first key at or behind this one that may not be hidden; `None` if there is none.
    fn behind_hidden(&self, key: &[u8]) -> Option<Vec<u8>> {
        match self.ranges.hidden(key, SeqNo::MAX, self.newest) {
            HiddenKeys::Range(_, end) if end.is_empty() => None,
            HiddenKeys::Range(_, end) => Some(end),
            HiddenKeys::Nothing | HiddenKeys::ThisEntry => Some(key.to_vec()),
        }
    }
}

impl InternalIter for VisibleIter {
    fn limit(&mut self, end: &[u8]) {
        self.inner.limit(end);
    }

    fn prepare(&mut self, key: &[u8], wanted: &mut PrefetchList) {
        if let Some(key) = self.behind_hidden(key) {
            self.inner.prepare(&key, wanted);
        }
    }

    fn seek(&mut self, key: &[u8], seqno: SeqNo) -> Result<()> {
        match self.behind_hidden(key) {
            Some(behind) if behind == key => self.inner.seek(key, seqno)?,
            Some(behind) => self.inner.seek(&behind, SeqNo::MAX)?,
            None => {
                self.ended = true;
                return Ok(());
            }
        }
        self.settle(true)
    }

    fn seek_before(&mut self, key: &[u8], seqno: SeqNo) -> Result<()> {
        match self.ranges.hidden(key, SeqNo::MAX, self.newest) {
            HiddenKeys::Range(start, _) => self.inner.seek_before(&start, SeqNo::MAX)?,
            HiddenKeys::Nothing | HiddenKeys::ThisEntry => self.inner.seek_before(key, seqno)?,
        }
        self.settle(false)
    }

    fn seek_first(&mut self) -> Result<()> {
        self.inner.seek_first()?;
        self.settle(true)
    }

    fn seek_last(&mut self) -> Result<()> {
        self.inner.seek_last()?;
        self.settle(false)
    }

    fn advance(&mut self) -> Result<()> {
        self.inner.advance()?;
        self.settle(true)
    }

    fn retreat(&mut self) -> Result<()> {
        self.inner.retreat()?;
        self.settle(false)
    }

    fn entry(&self) -> Option<Entry<'_>> {
        match self.ended {
            false => self.inner.entry(),
            true => None,
        }
    }

    fn is_at_entry(&self) -> bool {
        !self.ended && self.inner.is_at_entry()
    }
}

#[cfg(test)]
mod tests;
