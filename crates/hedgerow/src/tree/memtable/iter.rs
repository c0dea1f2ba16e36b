//! A memtable's cursor as an iterator of the engine.

use hedgerow_mem::Cursor;

use crate::base::entry::{SeqNo, Tag};
use crate::base::error::Result;
use crate::table::iter::{Entry, InternalIter, ValueSource};

/// Iterates over a memtable, which it keeps in memory. Entries inserted after it was positioned
/// may or may not be seen.
pub(crate) struct MemtableIter(Cursor);

impl MemtableIter {
    pub(crate) fn new(cursor: Cursor) -> Self {
        MemtableIter(cursor)
    }
}

impl InternalIter for MemtableIter {
    fn seek(&mut self, key: &[u8], seqno: SeqNo) -> Result<()> {
        self.0.seek(key, seqno.0);
        Ok(())
    }

    fn seek_before(&mut self, key: &[u8], seqno: SeqNo) -> Result<()> {
        self.0.seek_before(key, seqno.0);
        Ok(())
    }

    fn seek_first(&mut self) -> Result<()> {
        self.0.seek_first();
        Ok(())
    }

    fn seek_last(&mut self) -> Result<()> {
        self.0.seek_last();
        Ok(())
    }

    fn advance(&mut self) -> Result<()> {
        self.0.advance();
        Ok(())
    }

    fn retreat(&mut self) -> Result<()> {
        self.0.retreat();
        Ok(())
    }

    fn entry(&self) -> Option<Entry<'_>> {
        let entry = self.0.entry()?;
        Some(Entry {
            key: entry.key,
            seqno: SeqNo(entry.seqno),
            tag: Tag::from_bits(entry.tag).expect("the memtable holds the tags it was given"),
            value: ValueSource::Inline(entry.value),
        })
    }
}
