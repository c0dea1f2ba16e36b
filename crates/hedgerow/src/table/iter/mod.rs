//! Iteration over entries inside the engine: by (order key ascending, sequence number descending).

pub(crate) mod concat;
pub(crate) mod merge;
#[cfg(test)]
pub(crate) mod model;
pub(crate) mod uncovered;

use crate::base::entry::{SeqNo, Tag};
use crate::base::error::Result;
use crate::base::page::{PageId, PrefetchList};

/// The value of an entry. It may not be read yet.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ValueSource<'a> {
    /// The bytes.
    Inline(&'a [u8]),
    /// A page of its own, read on demand: skipping the entry does not read it.
    OutOfLine { page: PageId, bytes: u32 },
}

/// One version of one key.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry<'a> {
    /// The order key.
    pub(crate) key: &'a [u8],
    pub(crate) seqno: SeqNo,
    pub(crate) tag: Tag,
    pub(crate) value: ValueSource<'a>,
}

impl<'a> Entry<'a> {
    /// The delete of the key with the same number.
    pub(crate) fn deleted(self) -> Entry<'a> {
        Entry {
            tag: Tag::DELETE,
            value: ValueSource::Inline(b""),
            ..self
        }
    }
}

/// A position in a sorted sequence of entries. It starts nowhere. Every call may do I/O through the
/// iterator's page source. After an error the position is nowhere.
///
/// A position `(key, seqno)` compares like an entry: smaller keys first, then larger numbers.
pub(crate) trait InternalIter: Send {
    /// Declares entries at or after `end` useless. Going forward, the position may be nowhere
    /// instead of at one of them, so that no page is read only for such entries.
    fn limit(&mut self, _end: &[u8]) {}
    /// Announces a seek to `key`. Adds to `wanted` the pages that the seek would wait for, as far
    /// as they are known without a read. So the reads of several iterators overlap. The position is
    /// nowhere.
    fn prepare(&mut self, _key: &[u8], _wanted: &mut PrefetchList) {}
    /// Positions on the first entry at or after `(key, seqno)`.
    fn seek(&mut self, key: &[u8], seqno: SeqNo) -> Result<()>;
    /// Positions on the last entry strictly before `(key, seqno)`.
    fn seek_before(&mut self, key: &[u8], seqno: SeqNo) -> Result<()>;
    /// Positions on the first entry.
    fn seek_first(&mut self) -> Result<()>;
    /// Positions on the last entry.
    fn seek_last(&mut self) -> Result<()>;
    /// Advances to the next entry. Must be at an entry.
    fn advance(&mut self) -> Result<()>;
    /// Advances to the next entry, and on as long as `see` returns true for the entry reached. Must
    /// be at an entry. The position is at the entry that `see` refused, or behind the last one.
    fn advance_while(&mut self, see: &mut dyn FnMut(Entry<'_>) -> bool) -> Result<()> {
        loop {
            self.advance()?;
            match self.entry() {
                Some(entry) if see(entry) => {}
                _ => return Ok(()),
            }
        }
    }
    /// Retreats to the previous entry. Must be at an entry.
    fn retreat(&mut self) -> Result<()>;
    /// The current entry; `None` before the first, after the last, and nowhere.
    fn entry(&self) -> Option<Entry<'_>>;
    /// Returns true if there is a current entry. This is cheaper than `entry`.
    fn is_at_entry(&self) -> bool {
        self.entry().is_some()
    }
}
