//! Iteration over entries inside the engine: by (order key ascending, sequence number descending).

pub(crate) mod concat;
pub(crate) mod merge;
#[cfg(test)]
pub(crate) mod model;

use crate::base::entry::{SeqNo, Tag};
use crate::base::error::Result;
use crate::base::page::{PageId, Wanted};

/// The value of an entry, which may not have been read yet.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ValueSource<'a> {
    /// The bytes are here.
    Inline(&'a [u8]),
    /// The bytes are a page of their own, read on demand: skipping the entry does not read them.
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

/// A position in a sorted sequence of entries. Starts nowhere; every call may do I/O through the
/// page source that the iterator was made with. After an error the position is nowhere.
///
/// A position `(key, seqno)` compares like an entry: smaller keys first, then larger numbers.
pub(crate) trait InternalIter: Send {
    /// Entries at or after `end` are of no use: going forward, the position may be nowhere instead of at
    /// one, so that nothing is read that only holds such.
    fn limit(&mut self, _end: &[u8]) {}
    /// A seek to `key` comes next: names the pages that it would wait for, as far as that is known without reading,
    /// so that those of several iterators are read together. The position is nowhere.
    fn prepare(&mut self, _key: &[u8], _wanted: &mut Wanted) {}
    /// To the first entry at or after `(key, seqno)`.
    fn seek(&mut self, key: &[u8], seqno: SeqNo) -> Result<()>;
    /// To the last entry strictly before `(key, seqno)`.
    fn seek_before(&mut self, key: &[u8], seqno: SeqNo) -> Result<()>;
    /// To the first entry of all.
    fn seek_first(&mut self) -> Result<()>;
    /// To the last entry of all.
    fn seek_last(&mut self) -> Result<()>;
    /// To the next entry. Must be at an entry.
    fn advance(&mut self) -> Result<()>;
    /// To the entry before. Must be at an entry.
    fn retreat(&mut self) -> Result<()>;
    /// The entry here; `None` before the first, after the last, and nowhere.
    fn entry(&self) -> Option<Entry<'_>>;
    /// Whether there is an entry here, which is cheaper to tell than what it is.
    fn is_at_entry(&self) -> bool {
        self.entry().is_some()
    }
}
