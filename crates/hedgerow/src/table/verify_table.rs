//! The check of a whole table: all bytes are those written, and they agree with each other.
//!
//! The pages follow each other without gaps from the first byte of the file to the last. The walk
//! visits all of them in that order, so it leaves out no byte.

use crate::base::entry::{Flags, KeyHash, Kind, SeqNo};
use crate::base::error::{Error, Result};
use crate::base::key_order::Order;
use crate::base::options::KeyOrder;
use crate::base::page::{DEVICE_PAGE_BYTES, Handle, Page, PageClass, PageId, PageSource, Step};
use crate::table::block_index;
use crate::table::block_index::Index;
use crate::table::filter::table_filter::LoadedFilter;

use super::contents::Contents;
use super::entry_parts::ValueHandle;
use super::footer;
use super::footer::Tail;
use super::format;
use super::table_file;
use super::table_file::TableFile;
use crate::base::table_meta::TableMeta;

/// Checks the table of a file and its index.
///
/// # Errors
/// `Corruption`, with the file and, if there is one, the offset.
pub(super) fn verify(file: &TableFile, index: &dyn Index, pages: &dyn PageSource) -> Result<()> {
    let walk = || -> Result<()> {
        let mut walk = Walk::new(file, index, pages)?;
        for number in 0..index.blocks() {
            walk.block(number)?;
        }
        walk.facts()?;
        walk.tail()
    };
    walk().map_err(|e| e.at(&file.path, None))
}

struct Walk<'a> {
    file: &'a TableFile,
    index: &'a dyn Index,
    pages: &'a dyn PageSource,
    /// The end of the pages seen so far.
    end: u64,
    /// The last entry.
    key: Vec<u8>,
    seqno: SeqNo,
    /// The counts and bounds of the entries seen.
    found: TableMeta,
    index_page: Option<(PageId, Page)>,
    /// The order of the keys, and a buffer for one order key.
    order: Box<dyn Order>,
    order_key: Vec<u8>,
    /// The whole filter as it is in the file now. Keys probe its lines in no order.
    filter: Option<LoadedFilter>,
}

impl<'a> Walk<'a> {
    fn new(
        file: &'a TableFile,
        index: &'a dyn Index,
        pages: &'a dyn PageSource,
    ) -> Result<Walk<'a>> {
        Ok(Walk {
            file,
            index,
            pages,
            end: 0,
            key: Vec::new(),
            seqno: SeqNo(0),
            found: TableMeta {
                entries: 0,
                tombstones: 0,
                operands: 0,
                expiring: 0,
                raw_bytes: 0,
                smallest_seqno: SeqNo::MAX,
                largest_seqno: SeqNo(0),
                hash_sample: Vec::new(),
                ..file.meta.clone()
            },
            index_page: None,
            order: file.footer.order(),
            order_key: Vec::new(),
            filter: match file.footer.filter {
                None => None,
                Some(filter) => {
                    Some(file.read_filter(filter, |pages| filter.load(file.meta.id, pages))?)
                }
            },
        })
    }

    /// Reads the page that must come next in the file: without a gap, at a multiple of a device
    /// page, or at a multiple of its own size in memory.
    fn page(&mut self, handle: Handle, class: PageClass) -> Result<Page> {
        let units = [1, DEVICE_PAGE_BYTES, handle.memory_bytes()];
        let mut places = units
            .map(|unit| self.end.next_multiple_of(unit))
            .into_iter();
        if places.all(|place| place != handle.offset) {
            return Err(Error::corruption(format!(
                "expected a page at offset {}, found the next at {}",
                self.end, handle.offset
            ))
            .at_offset(self.end));
        }
        self.end = handle.offset + u64::from(handle.bytes);
        self.pages.page(self.file.page_id(handle, class))
    }

    fn block(&mut self, number: usize) -> Result<()> {
        let handle = self.probe_index(|index, page| index.handle(number, page))?;
        // The values out of line precede their block in the file, but the block is read first.
        let page = self
            .pages
            .page(self.file.page_id(handle, PageClass::Data))?;
        self.entries(number, &page)
            .map_err(|e| e.at_offset(handle.offset))?;
        self.page(handle, PageClass::Data).map(|_| ())
    }

    fn entries(&mut self, number: usize, page: &Page) -> Result<()> {
        let footer = &self.file.footer;
        let order = footer.order();
        format::walk(footer.table, &*order, page, &mut |entry| {
            let value_bytes = match entry.place()? {
                Some(place) => self.value(place)?,
                None => entry.value.len(),
            };
            self.entry(number, entry, value_bytes)
        })
    }

    fn value(&mut self, place: ValueHandle) -> Result<usize> {
        let page = self.page(place.handle, PageClass::Value)?;
        if page.len() != place.bytes as usize {
            return Err(Error::corruption(format!(
                "expected a value of {} bytes, found {}",
                place.bytes,
                page.len()
            ))
            .at_offset(place.handle.offset));
        }
        Ok(page.len())
    }

    /// Checks the order, the counts, the index and the filter.
    fn entry(&mut self, number: usize, entry: &Contents<'_>, value_bytes: usize) -> Result<()> {
        let Contents {
            key, seqno, tag, ..
        } = *entry;
        let first = self.found.entries == 0;
        let same_key = !first && *key == self.key[..];
        if !first && (*key < self.key[..] || (same_key && seqno >= self.seqno)) {
            return Err(Error::corruption(format!(
                "expected entries in order, found {key:?} at {seqno:?} after {:?} at {:?}",
                self.key, self.seqno
            )));
        }
        let found = &mut self.found;
        if first {
            found.smallest_key = key.to_vec();
        }
        if self.file.footer.key_order == KeyOrder::Hashed {
            found.sample(key);
        }
        found.entries += 1;
        found.tombstones += u64::from(tag.kind == Kind::Delete);
        found.operands += u64::from(tag.kind == Kind::Merge);
        found.expiring += u64::from(tag.flags.has(Flags::EXPIRES));
        found.raw_bytes += (key.len() + value_bytes) as u64;
        found.smallest_seqno = found.smallest_seqno.min(seqno);
        found.largest_seqno = found.largest_seqno.max(seqno);
        if !same_key {
            self.in_order(key)?;
        }
        self.filtered(number, key)?;
        let blocks = self
            .probe_index(|index, page| index.locate(key, page))?
            .blocks;
        let lower_bound = self.probe_index(|index, page| index.lower_bound(key, page))?;
        if !blocks.contains(&number) || lower_bound.first.max(lower_bound.likely) > number {
            return Err(Error::corruption(format!(
                "expected the index to find {key:?} in block {number}, found {blocks:?} and {lower_bound:?}"
            )));
        }
        self.key.clear();
        self.key.extend_from_slice(key);
        self.seqno = seqno;
        Ok(())
    }

    /// Checks that the order makes this key of its user key.
    fn in_order(&mut self, key: &[u8]) -> Result<()> {
        let user_key = self.order.decode(key);
        let expected = self.order.borrow(user_key, &mut self.order_key);
        if self.order.check(user_key).is_err() || key != expected {
            return Err(Error::corruption(format!(
                "expected keys in the order {}, found {key:?}",
                self.file.footer.key_order
            )));
        }
        Ok(())
    }

    fn filtered(&self, number: usize, key: &[u8]) -> Result<()> {
        let Some(filter) = &self.filter else {
            return Ok(());
        };
        let hash = KeyHash::of(self.order.decode(key), self.file.footer.hash_seed);
        match filter.may_hold(number, hash)? {
            true => Ok(()),
            false => Err(Error::corruption(format!(
                "expected the filter to let {key:?} pass, found that it does not"
            ))),
        }
    }

    fn probe_index<T>(
        &mut self,
        question: impl Fn(&dyn Index, Option<&Page>) -> Result<Step<T>>,
    ) -> Result<T> {
        block_index::probe(self.index, self.pages, &mut self.index_page, question)
    }

    /// Checks the counts against the facts in the file.
    fn facts(&mut self) -> Result<()> {
        self.found.largest_key = std::mem::take(&mut self.key);
        let (found, facts) = (&mut self.found, &self.file.meta);
        // The page was checked against the facts when it was read.
        if let Some(ranges) = &self.file.ranges {
            found.count_ranges(ranges);
        }
        // Settled entries count with their former sequence numbers.
        if found.smallest_seqno == SeqNo::SETTLED && found.largest_seqno <= facts.largest_seqno {
            found.smallest_seqno = facts.smallest_seqno;
            found.largest_seqno = facts.largest_seqno;
        }
        if self.found != self.file.meta {
            return Err(Error::corruption(format!(
                "expected the entries to be {:?}, found {:?}",
                self.file.meta, self.found
            )));
        }
        Ok(())
    }

    /// Checks the pages behind the blocks, and the footer as it is in the file now.
    fn tail(&mut self) -> Result<()> {
        let file = self.file;
        if let Some(handle) = file.meta.ranges {
            let page = self.page(handle, PageClass::Index)?;
            table_file::read_ranges(&page, &file.meta, &file.footer)
                .map_err(|e| e.at_offset(handle.offset))?;
        }
        if let Some(filter) = file.footer.filter {
            for page in 0..filter.pages() {
                self.page(filter.page_handle(page), PageClass::Filter)?;
            }
        }
        for id in self.index.page_ids() {
            self.page(id.handle, PageClass::Index)?;
        }
        self.page(file.footer.index_top, PageClass::Index)?;
        self.page(file.footer.meta, PageClass::Index)?;
        let tail = Tail::read(&*file.file, &file.path)?;
        let file_bytes = self.end + footer::BYTES as u64;
        if tail.footer != file.footer || file.file.bytes() != file_bytes {
            return Err(Error::corruption(format!(
                "expected the footer in a file of {file_bytes} bytes, found {:?} in {}",
                tail.footer,
                file.file.bytes()
            )));
        }
        Ok(())
    }
}
