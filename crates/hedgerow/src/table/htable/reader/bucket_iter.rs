//! Iterates over an HTable in both directions. A bucket's entries are decoded together. The hash of
//! a key is computed when the iterator reaches it.

use std::cmp::Reverse;
use std::sync::Arc;

use crate::base::entry::SeqNo;
use crate::base::error::Result;
use crate::base::page::{Page, PageClass, PageSource};
use crate::table::block_index::Index as _;
use crate::table::entry_parts::ValueHandle;
use crate::table::iter::{Entry, InternalIter, ValueSource};

use super::TableReader;
use crate::table::htable::bucket::{Bucket, BucketEntry};
use crate::table::read_ahead::{NextBlock, ReadAhead};

pub(super) struct TableIter {
    table: Arc<TableReader>,
    pages: Arc<dyn PageSource>,
    /// The last bucket, and its number.
    bucket: Option<(usize, Page)>,
    /// The entries of the bucket.
    entries: Vec<BucketEntry>,
    /// The current entry; `None` is nowhere.
    at: Option<usize>,
    /// The order key of the current entry.
    key: Vec<u8>,
    /// The place of its value, if the value is out of line.
    place: Option<ValueHandle>,
    /// The first bucket without entries of use for the caller.
    end: usize,
    /// A buffer for the order keys that a search compares.
    compared: Vec<u8>,
    ahead: ReadAhead,
}

impl TableIter {
    pub(super) fn new(table: Arc<TableReader>, pages: Arc<dyn PageSource>) -> TableIter {
        TableIter {
            end: table.marks.blocks(),
            table,
            pages,
            bucket: None,
            entries: Vec::new(),
            at: None,
            key: Vec::new(),
            place: None,
            compared: Vec::new(),
            ahead: ReadAhead::default(),
        }
    }

    /// Decodes the entries of a bucket. The position is nowhere until an entry is chosen.
    fn load(&mut self, number: usize) -> Result<()> {
        self.at = None;
        if self
            .bucket
            .as_ref()
            .is_some_and(|(loaded, _)| *loaded == number)
        {
            return Ok(());
        }
        let follows = |(loaded, _): &(usize, Page)| number == loaded + 1;
        let before = self.bucket.take().filter(follows);
        self.entries.clear();
        let id = self.table.bucket_id(number);
        let page = match before {
            Some((_, page)) => {
                let (table, end) = (&self.table, self.end);
                let next = NextBlock {
                    number,
                    id,
                    memory_bytes: page.len(),
                };
                let id_of = |number| (number < end).then(|| table.bucket_id(number));
                self.ahead.next_page(&*self.pages, next, id_of)?
            }
            None => {
                self.ahead = ReadAhead::default();
                self.pages.page(id)?
            }
        };
        let parsed = Bucket::parse(&page[..]).and_then(|bucket| {
            for entry in bucket.entries() {
                self.entries.push(entry?);
            }
            Ok(())
        });
        parsed.map_err(|e| e.at_offset(id.handle.offset))?;
        self.bucket = Some((number, page));
        Ok(())
    }

    fn bucket(&self) -> (usize, &Page) {
        let (number, page) = self.bucket.as_ref().expect("a position is in a bucket");
        (*number, page)
    }

    /// Positions on an entry of the bucket.
    fn go_to(&mut self, at: usize) -> Result<()> {
        let (_, page) = self.bucket.as_ref().expect("a position is in a bucket");
        let entry = &self.entries[at];
        self.key.clear();
        self.table.order.encode(&page[entry.key()], &mut self.key);
        self.place = match entry.out_of_line {
            true => Some(ValueHandle::decode(&page[entry.value()])?),
            false => None,
        };
        self.at = Some(at);
        Ok(())
    }

    fn first_of(&mut self, number: usize) -> Result<()> {
        if number >= self.end {
            self.at = None;
            return Ok(());
        }
        self.load(number)?;
        self.go_to(0)
    }

    fn last_of(&mut self, number: Option<usize>) -> Result<()> {
        let Some(number) = number else {
            self.at = None;
            return Ok(());
        };
        self.load(number)?;
        self.go_to(self.entries.len() - 1)
    }

    /// Loads the bucket with the first entry at or after `(key, seqno)` and returns the entry's
    /// index. The index equals the number of entries if the first entry of the next bucket is
    /// meant.
    fn search(&mut self, key: &[u8], seqno: SeqNo) -> Result<usize> {
        let seqno = self.table.file.stored_bound(seqno);
        for number in self.table.marks.buckets_around(key) {
            self.load(number)?;
            let found = self.count_before(key, seqno);
            if found < self.entries.len() {
                return Ok(found);
            }
        }
        Ok(self.entries.len())
    }

    /// The number of entries of the bucket before `(key, seqno)`.
    fn count_before(&mut self, key: &[u8], seqno: SeqNo) -> usize {
        let (_, page) = self.bucket.as_ref().expect("a search is in a bucket");
        let (order, compared) = (&self.table.order, &mut self.compared);
        self.entries.partition_point(|entry| {
            let found = order.borrow(&page[entry.key()], compared);
            (found, Reverse(entry.seqno)) < (key, Reverse(seqno))
        })
    }

    fn go_forward(&mut self) -> Result<()> {
        let next = self.at.expect("an iterator advances from an entry") + 1;
        match next < self.entries.len() {
            true => self.go_to(next),
            false => self.first_of(self.bucket().0 + 1),
        }
    }

    fn go_back(&mut self, from: usize) -> Result<()> {
        match from.checked_sub(1) {
            Some(before) => self.go_to(before),
            None => self.last_of(self.bucket().0.checked_sub(1)),
        }
    }

    /// After an error the position is nowhere. Adds the file to the error.
    fn settle(&mut self, result: Result<()>) -> Result<()> {
        result.map_err(|e| {
            self.at = None;
            self.bucket = None;
            e.at(&self.table.file.path, None)
        })
    }
}

impl InternalIter for TableIter {
    fn limit(&mut self, end: &[u8]) {
        self.end = self.table.marks.buckets_before(end);
    }

    fn seek(&mut self, key: &[u8], seqno: SeqNo) -> Result<()> {
        let result = self
            .search(key, seqno)
            .and_then(|found| match found < self.entries.len() {
                true => self.go_to(found),
                false => self.first_of(self.bucket().0 + 1),
            });
        self.settle(result)
    }

    fn seek_before(&mut self, key: &[u8], seqno: SeqNo) -> Result<()> {
        let result = self
            .search(key, seqno)
            .and_then(|found| self.go_back(found));
        self.settle(result)
    }

    fn seek_first(&mut self) -> Result<()> {
        let result = self.first_of(0);
        self.settle(result)
    }

    fn seek_last(&mut self) -> Result<()> {
        let result = self.last_of(self.table.marks.blocks().checked_sub(1));
        self.settle(result)
    }

    #[inline]
    fn advance(&mut self) -> Result<()> {
        let result = self.go_forward();
        self.settle(result)
    }

    fn retreat(&mut self) -> Result<()> {
        let from = self.at.expect("an iterator retreats from an entry");
        let result = self.go_back(from);
        self.settle(result)
    }

    #[inline]
    fn entry(&self) -> Option<Entry<'_>> {
        let entry = &self.entries[self.at?];
        let value = match self.place {
            Some(place) => ValueSource::OutOfLine {
                page: self.table.file.page_id(place.handle, PageClass::Value),
                bytes: place.bytes,
            },
            None => ValueSource::Inline(&self.bucket().1[entry.value()]),
        };
        Some(Entry {
            key: &self.key,
            seqno: self.table.file.seqno(entry.seqno),
            tag: entry.tag,
            value,
        })
    }
}
