//! Disjoint parts as one iterator, one after the other: the tables of a run, or trees divided by
//! range.
//!
//! Only the part at the position is open. Versions of one key may continue from one part into the
//! next.

use crate::base::entry::SeqNo;
use crate::base::error::Result;
use crate::base::page::PrefetchList;

use super::{Entry, InternalIter};

/// Parts in key order.
pub(crate) trait Parts: Send {
    fn len(&self) -> usize;
    /// A lower and an upper bound on a part's order keys; `None` if there is no upper bound.
    fn bounds(&self, index: usize) -> (&[u8], Option<&[u8]>);
    /// The first part that may hold `key` or a key behind it.
    fn first_for(&self, key: &[u8]) -> usize {
        let ends_before = |index| {
            let (_, largest) = self.bounds(index);
            largest.is_some_and(|largest| largest < key)
        };
        count_while(self.len(), ends_before)
    }
    /// Opens an iterator over a part. Called when the position enters the part, so in key order
    /// while the iteration goes forward.
    fn open(&self, index: usize) -> Result<Box<dyn InternalIter>>;
}

/// An iterator over all parts.
pub(crate) struct ConcatIter<T> {
    parts: T,
    /// The part at the position.
    current: Option<(usize, Box<dyn InternalIter>)>,
    limit: Option<Vec<u8>>,
}

impl<T: Parts> ConcatIter<T> {
    pub(crate) fn new(parts: T) -> Self {
        ConcatIter {
            parts,
            current: None,
            limit: None,
        }
    }

    /// Positions on the first entry that `place` finds in the parts from `index` on.
    fn forward(
        &mut self,
        mut index: usize,
        mut place: impl FnMut(&mut dyn InternalIter) -> Result<()>,
    ) -> Result<()> {
        while index < self.parts.len() && !self.is_beyond_limit(index) {
            if self.place_in(index, &mut place)? {
                return Ok(());
            }
            index += 1;
        }
        self.current = None;
        Ok(())
    }

    /// Positions on the first entry that `place` finds in the parts below `end`, the last part
    /// first.
    fn backward(
        &mut self,
        mut end: usize,
        mut place: impl FnMut(&mut dyn InternalIter) -> Result<()>,
    ) -> Result<()> {
        while end > 0 {
            end -= 1;
            if self.place_in(end, &mut place)? {
                return Ok(());
            }
        }
        self.current = None;
        Ok(())
    }

    /// Makes a part current and places its iterator. Returns true if there is an entry. After an
    /// error no part is current.
    fn place_in(
        &mut self,
        index: usize,
        place: &mut impl FnMut(&mut dyn InternalIter) -> Result<()>,
    ) -> Result<bool> {
        let mut iter = match self.current.take() {
            Some((current, iter)) if current == index => iter,
            _ => self.open(index)?,
        };
        place(&mut *iter)?;
        let found = iter.is_at_entry();
        self.current = Some((index, iter));
        Ok(found)
    }

    fn open(&self, index: usize) -> Result<Box<dyn InternalIter>> {
        let mut iter = self.parts.open(index)?;
        if let Some(limit) = &self.limit {
            iter.limit(limit);
        }
        Ok(iter)
    }

    fn is_beyond_limit(&self, index: usize) -> bool {
        let (smallest, _) = self.parts.bounds(index);
        let limit = self.limit.as_ref();
        limit.is_some_and(|limit| smallest >= limit.as_slice())
    }
}

/// The number of leading indexes below `all` for which `test` holds.
fn count_while(all: usize, test: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, all);
    while low < high {
        let middle = low + (high - low) / 2;
        if test(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

impl<T: Parts> InternalIter for ConcatIter<T> {
    fn limit(&mut self, end: &[u8]) {
        self.limit = Some(end.to_vec());
        if let Some((_, iter)) = &mut self.current {
            iter.limit(end);
        }
    }

    fn prepare(&mut self, key: &[u8], wanted: &mut PrefetchList) {
        let first = self.parts.first_for(key);
        if first >= self.parts.len() || self.is_beyond_limit(first) {
            return;
        }
        let current = self.current.take().filter(|(index, _)| *index == first);
        // A part that cannot be opened is reported by the seek.
        self.current = current.or_else(|| Some((first, self.open(first).ok()?)));
        if let Some((_, iter)) = &mut self.current {
            iter.prepare(key, wanted);
        }
    }

    fn seek(&mut self, key: &[u8], seqno: SeqNo) -> Result<()> {
        let first = self.parts.first_for(key);
        // `seek_first` would be wrong in the next part: it may begin with newer versions of the
        // key.
        self.forward(first, |iter| iter.seek(key, seqno))
    }

    fn seek_before(&mut self, key: &[u8], seqno: SeqNo) -> Result<()> {
        let begins_by = |index| self.parts.bounds(index).0 <= key;
        let end = count_while(self.parts.len(), begins_by);
        self.backward(end, |iter| iter.seek_before(key, seqno))
    }

    fn seek_first(&mut self) -> Result<()> {
        self.forward(0, |iter| iter.seek_first())
    }

    fn seek_last(&mut self) -> Result<()> {
        self.backward(self.parts.len(), |iter| iter.seek_last())
    }

    fn advance(&mut self) -> Result<()> {
        debug_assert!(self.is_at_entry());
        let Some((index, iter)) = &mut self.current else {
            return Ok(());
        };
        let next = *index + 1;
        if let Err(error) = iter.advance() {
            self.current = None;
            return Err(error);
        }
        if iter.is_at_entry() {
            return Ok(());
        }
        self.forward(next, |iter| iter.seek_first())
    }

    /// The part at the position makes all its steps within one call.
    fn advance_while(&mut self, see: &mut dyn FnMut(Entry<'_>) -> bool) -> Result<()> {
        while let Some((index, iter)) = &mut self.current {
            let next = *index + 1;
            if let Err(error) = iter.advance_while(see) {
                self.current = None;
                return Err(error);
            }
            if iter.is_at_entry() {
                return Ok(());
            }
            self.forward(next, |iter| iter.seek_first())?;
            match self.entry() {
                Some(entry) if see(entry) => {}
                _ => return Ok(()),
            }
        }
        Ok(())
    }

    fn retreat(&mut self) -> Result<()> {
        debug_assert!(self.is_at_entry());
        let Some((index, iter)) = &mut self.current else {
            return Ok(());
        };
        let end = *index;
        if let Err(error) = iter.retreat() {
            self.current = None;
            return Err(error);
        }
        if iter.is_at_entry() {
            return Ok(());
        }
        self.backward(end, |iter| iter.seek_last())
    }

    fn entry(&self) -> Option<Entry<'_>> {
        self.current.as_ref()?.1.entry()
    }

    fn is_at_entry(&self) -> bool {
        self.current
            .as_ref()
            .is_some_and(|(_, iter)| iter.is_at_entry())
    }
}

#[cfg(test)]
mod tests;
