//! A memtable's cursor as an iterator of the engine.

use hedgerow_mem::Cursor;

use crate::base::entry::{SeqNo, Tag};
use crate::base::error::Result;
use crate::table::iter::{Entry, InternalIter, ValueSource};

/// Iterates over a memtable, which it keeps in memory. Entries inserted after it was positioned may
/// or may not be seen. `None` for a memtable that was empty.
pub(crate) struct MemtableIter(Option<Cursor>);

impl MemtableIter {
    pub(crate) fn new(cursor: Option<Cursor>) -> Self {
        MemtableIter(cursor)
    }
}

impl InternalIter for MemtableIter {
    fn seek(&mut self, key: &[u8], seqno: SeqNo) -> Result<()> {
        if let Some(cursor) = &mut self.0 {
            cursor.seek(key, seqno.0);
        }
        Ok(())
    }

    fn seek_before(&mut self, key: &[u8], seqno: SeqNo) -> Result<()> {
        if let Some(cursor) = &mut self.0 {
            cursor.seek_before(key, seqno.0);
        }
        Ok(())
    }

    fn seek_first(&mut self) -> Result<()> {
        if let Some(cursor) = &mut self.0 {
            cursor.seek_first();
        }
        Ok(())
    }

    fn seek_last(&mut self) -> Result<()> {
        if let Some(cursor) = &mut self.0 {
            cursor.seek_last();
        }
        Ok(())
    }

    fn advance(&mut self) -> Result<()> {
        if let Some(cursor) = &mut self.0 {
            cursor.advance();
        }
        Ok(())
    }

    fn retreat(&mut self) -> Result<()> {
        if let Some(cursor) = &mut self.0 {
            cursor.retreat();
        }
        Ok(())
    }

    fn entry(&self) -> Option<Entry<'_>> {
        let entry = self.0.as_ref()?.entry()?;
        Some(Entry {
            key: entry.key,
            seqno: SeqNo(entry.seqno),
            tag: Tag::from_bits(entry.tag).expect("the memtable holds the tags it was given"),
            value: ValueSource::Inline(entry.value),
        })
    }
}
