//! Iterating over a table in both directions.
//!
//! Going forward, an entry is decoded in place, and only its key is assembled, in a buffer that is
//! reused. Going backward, the entries of one restart interval are decoded together and kept, so
//! that a backward scan is linear, too.

mod at_hand;

use std::sync::Arc;

use crate::base::entry::SeqNo;
use crate::base::error::{Error, Result};
use crate::base::page::{Page, PageClass, PageId, PageSource, PrefetchList, Step};
use crate::table::block_index::{self, Bracket, Index};
use crate::table::entry_parts::ValueHandle;
use crate::table::iter::{Entry, InternalIter, ValueSource};

use super::TableReader;
use super::behind::{Behind, shared_too_much};
use crate::table::block_based::block::{Block, Cursor, Position, RawEntry};
use crate::table::read_ahead::{NextBlock, ReadAhead};
use at_hand::NotAtHand;

pub(super) struct TableIter {
    table: Arc<TableReader>,
    pages: Arc<dyn PageSource>,
    /// The last page of the index, if it is paged. Neighbouring blocks are in it.
    index_page: Option<(PageId, Page)>,
    block: Option<Block<Page>>,
    block_number: usize,
    /// The current entry; `None` is nowhere.
    current: Option<Current>,
    key: Vec<u8>,
    /// The entries of the current restart interval up to the current entry. `retreat` fills it.
    behind: Behind,
    /// The search range of the announced seek. Its key is in `key` until then.
    prepared: Option<Bracket>,
    /// The caller's limit, and the first block behind it once it is known.
    limit: Option<(Vec<u8>, Option<usize>)>,
    ahead: ReadAhead,
}

#[derive(Debug, Clone, Copy)]
struct Current {
    at: Cursor,
    entry: RawEntry,
    value: ValueHandle,
}

const NO_PLACE: ValueHandle = ValueHandle {
    handle: crate::base::page::Handle {
        offset: 0,
        bytes: 0,
    },
    bytes: 0,
};

impl TableIter {
    pub(super) fn new(table: Arc<TableReader>, pages: Arc<dyn PageSource>) -> TableIter {
        TableIter {
            table,
            pages,
            index_page: None,
            block: None,
            block_number: 0,
            current: None,
            key: Vec::new(),
            behind: Behind::default(),
            prepared: None,
            limit: None,
            ahead: ReadAhead::default(),
        }
    }

    /// The first block without entries of use for the caller.
    fn end(&mut self) -> Result<usize> {
        match self.limit.take() {
            None => Ok(self.table.index.blocks()),
            Some((key, known)) => {
                let end = match known {
                    Some(end) => Ok(end),
                    None => self.probe_index(|index, page| index.end_before(&key, page)),
                };
                self.limit = Some((key, end.as_ref().ok().copied()));
                end
            }
        }
    }

    /// Queries the index and reads the page that it needs.
    fn probe_index<T>(
        &mut self,
        question: impl Fn(&dyn Index, Option<&Page>) -> Result<Step<T>>,
    ) -> Result<T> {
        block_index::probe(
            &*self.table.index,
            &*self.pages,
            &mut self.index_page,
            question,
        )
    }

    /// Makes a block the current one. The position is nowhere until an entry is chosen.
    fn load(&mut self, number: usize) -> Result<()> {
        self.current = None;
        self.prepared = None;
        self.behind.clear();
        if self.block.is_some() && self.block_number == number {
            return Ok(());
        }
        let follows = number == self.block_number + 1;
        let before = self.block.take().filter(|_| follows);
        self.table.places.prefetch(number);
        let handle = self.probe_index(|index, page| index.handle(number, page))?;
        let id = self.table.file.page_id(handle, PageClass::Data);
        let page = match before {
            Some(before) => {
                let memory_bytes = before.bytes().len();
                self.next_page(NextBlock {
                    number,
                    id,
                    memory_bytes,
                })?
            }
            None => {
                self.ahead = ReadAhead::default();
                self.pages.page(id)?
            }
        };
        self.table.places.note(number, &page);
        self.block = Some(Block::parse(page).map_err(|e| e.at_offset(handle.offset))?);
        self.block_number = number;
        Ok(())
    }

    /// The page of the block after the last one. Blocks after it are read with it if the scan is
    /// long enough.
    fn next_page(&mut self, next: NextBlock) -> Result<Page> {
        let end = match &self.limit {
            None => self.table.index.blocks(),
            Some((_, end)) => end.unwrap_or(next.number),
        };
        let TableIter {
            table,
            pages,
            index_page,
            ahead,
            ..
        } = self;
        ahead.next_page(&**pages, next, |number| {
            let fetch = |id| pages.at_hand(id).ok_or(NotAtHand);
            let handle = |index: &dyn Index, page: Option<&Page>| index.handle(number, page);
            let handle = (number < end)
                .then(|| block_index::probe_by(&*table.index, fetch, index_page, handle));
            Some(table.file.page_id(handle?.ok()?, PageClass::Data))
        })
    }

    fn block(&self) -> &Block<Page> {
        self.block.as_ref().expect("a position is in a block")
    }

    /// Positions on the entry at `at`. The key of its predecessor is in the buffer.
    fn go_to(&mut self, at: Cursor) -> Result<()> {
        let entry = self.block().entry(at)?;
        self.set(at, entry)
    }

    #[inline]
    fn set(&mut self, at: Cursor, entry: RawEntry) -> Result<()> {
        if entry.shared > self.key.len() {
            return Err(shared_too_much(entry.shared, self.key.len()));
        }
        let block = self.block.as_ref().expect("a position is in a block");
        self.key.truncate(entry.shared);
        self.key.extend_from_slice(&block.bytes()[entry.key()]);
        let value = if entry.out_of_line {
            ValueHandle::decode(&block.bytes()[entry.value()])?
        } else {
            NO_PLACE
        };
        self.current = Some(Current { at, entry, value });
        Ok(())
    }

    /// The common case of `advance`: the next entry is in the same block and its value is inline.
    #[inline]
    fn advance_within_block(&mut self) -> bool {
        let (Some(block), Some(current)) = (&self.block, &mut self.current) else {
            return false;
        };
        let at = current.entry.next;
        if at.head >= block.end().head {
            return false;
        }
        let Some(entry) = block.try_entry(at) else {
            return false;
        };
        if entry.out_of_line || entry.shared > self.key.len() {
            return false;
        }
        self.key.truncate(entry.shared);
        self.key.extend_from_slice(&block.bytes()[entry.key()]);
        current.at = at;
        current.entry = entry;
        true
    }

    /// Advances within the block as long as values are inline and `see` returns true. Returns false
    /// if `see` refused an entry: the position is there. The position is kept in the iterator only
    /// at the end, which saves a scan a tenth of its time.
    #[inline]
    fn advance_within_block_while(&mut self, see: &mut dyn FnMut(Entry<'_>) -> bool) -> bool {
        let (Some(block), Some(current)) = (&self.block, &mut self.current) else {
            return true;
        };
        let (end, file) = (block.end().head, &self.table.file);
        let (mut at, mut entry) = (current.at, current.entry);
        let mut goes_on = true;
        while goes_on && entry.next.head < end {
            let next = block.try_entry(entry.next);
            let is_plain = |next: &RawEntry| !next.out_of_line && next.shared <= self.key.len();
            let Some(next) = next.filter(is_plain) else {
                break;
            };
            (at, entry) = (entry.next, next);
            self.key.truncate(entry.shared);
            self.key.extend_from_slice(&block.bytes()[entry.key()]);
            goes_on = see(Entry {
                key: &self.key,
                seqno: file.seqno(entry.seqno),
                tag: entry.tag,
                value: ValueSource::Inline(&block.bytes()[entry.value()]),
            });
        }
        (current.at, current.entry) = (at, entry);
        goes_on
    }

    fn first_of(&mut self, number: usize) -> Result<()> {
        if number >= self.end()? {
            self.current = None;
            return Ok(());
        }
        self.load(number)?;
        self.key.clear();
        self.go_to(self.block().first())
    }

    fn last_of(&mut self, number: usize) -> Result<()> {
        self.load(number)?;
        let restart = self.block().restarts() - 1;
        self.last_before(restart, self.block().end().head)
    }

    /// Positions on the last entry before `end`, from a restart point before it.
    fn last_before(&mut self, restart: usize, end: u32) -> Result<()> {
        self.behind.clear();
        let block = self.block.as_ref().expect("a position is in a block");
        let mut at = block.restart(restart)?;
        while at.head < end {
            let entry = block.entry(at)?;
            self.behind.push(at, entry, &block.bytes()[entry.key()])?;
            at = entry.next;
        }
        self.take_behind()
    }

    /// Positions on the last entry of `behind`.
    fn take_behind(&mut self) -> Result<()> {
        let Some((at, entry, key)) = self.behind.last() else {
            return Err(Error::corruption("expected entries after a restart point"));
        };
        self.key.clear();
        self.key.extend_from_slice(key);
        let value = match (entry.out_of_line, &self.block) {
            (true, Some(block)) => ValueHandle::decode(&block.bytes()[entry.value()])?,
            _ => NO_PLACE,
        };
        self.current = Some(Current { at, entry, value });
        Ok(())
    }

    fn seek_from(&mut self, bracket: Bracket, key: &[u8], seqno: SeqNo) -> Result<()> {
        let seqno = self.table.file.stored_bound(seqno);
        let Bracket {
            mut first,
            likely,
            mut last,
        } = bracket;
        let mut number = likely;
        let blocks = self.table.index.blocks();
        while number < blocks && (number == likely || number < self.end()?) {
            self.load(number)?;
            match self.block().find(key, seqno)? {
                Some(found) if number == first || self.is_at(number, likely, &found) => {
                    // The bytes that the found entry shares with its predecessor are those of the
                    // wanted key.
                    self.key.clear();
                    self.key.reserve(key.len());
                    self.key
                        .extend_from_slice(key.get(..found.entry.shared).unwrap_or_default());
                    return self.set(found.at, found.entry);
                }
                Some(_) => {
                    last = number - 1;
                    number = first;
                }
                None => {
                    first = number + 1;
                    number = first.max(last);
                }
            }
        }
        self.current = None;
        Ok(())
    }

    /// Returns true if the found entry of a block is the first at or after the key. It is if an
    /// entry before it in the block is not, or if it has the key in the block that the index
    /// expects.
    fn is_at(&self, number: usize, likely: usize, found: &Position) -> bool {
        found.at != self.block().first() || (number == likely && found.same_key)
    }

    fn go_back(&mut self) -> Result<()> {
        let current = self.current.expect("an iterator retreats from an entry");
        if self.behind.last().is_some_and(|(at, ..)| at == current.at) {
            self.behind.pop();
            if self.behind.last().is_some() {
                return self.take_behind();
            }
        }
        if current.at.head > self.block().first().head {
            let restart = self.block().restart_before(current.at.head - 1)?;
            return self.last_before(restart, current.at.head);
        }
        match self.block_number.checked_sub(1) {
            Some(before) => self.last_of(before),
            None => {
                self.current = None;
                Ok(())
            }
        }
    }

    /// After an error the position is nowhere. Adds the file to the error.
    fn settle(&mut self, result: Result<()>) -> Result<()> {
        result.map_err(|e| {
            self.current = None;
            self.block = None;
            self.behind.clear();
            e.at(&self.table.file.path, None)
        })
    }
}

impl InternalIter for TableIter {
    fn limit(&mut self, end: &[u8]) {
        self.limit = Some((end.to_vec(), None));
    }

    fn prepare(&mut self, key: &[u8], wanted: &mut PrefetchList) {
        self.current = None;
        self.behind.clear();
        self.prepared = None;
        if let Some(block) = self.look_for(key, wanted) {
            self.block = Some(block);
        }
    }

    fn seek(&mut self, key: &[u8], seqno: SeqNo) -> Result<()> {
        let prepared = self.prepared.take().filter(|_| self.key == key);
        let bracket = match prepared {
            Some(bracket) => Ok(bracket),
            None => self.probe_index(|index, page| index.lower_bound(key, page)),
        };
        let result = bracket.and_then(|bracket| self.seek_from(bracket, key, seqno));
        self.settle(result)
    }

    fn seek_before(&mut self, key: &[u8], seqno: SeqNo) -> Result<()> {
        // The current entry may be behind the limit, and the seek must find it.
        let limit = self.limit.take();
        let sought = self.seek(key, seqno);
        self.limit = limit;
        sought?;
        if self.current.is_some() {
            return self.retreat();
        }
        self.seek_last()
    }

    fn seek_first(&mut self) -> Result<()> {
        let result = self.first_of(0);
        self.settle(result)
    }

    fn seek_last(&mut self) -> Result<()> {
        let result = self.last_of(self.table.index.blocks() - 1);
        self.settle(result)
    }

    #[inline]
    fn advance(&mut self) -> Result<()> {
        if self.advance_within_block() {
            return Ok(());
        }
        let current = self.current.expect("an iterator advances from an entry");
        let next = current.entry.next;
        let result = if next.head < self.block().end().head {
            self.go_to(next)
        } else {
            self.first_of(self.block_number + 1)
        };
        self.settle(result)
    }

    fn advance_while(&mut self, see: &mut dyn FnMut(Entry<'_>) -> bool) -> Result<()> {
        while self.advance_within_block_while(see) {
            self.advance()?;
            match self.entry() {
                Some(entry) if see(entry) => {}
                _ => break,
            }
        }
        Ok(())
    }

    fn retreat(&mut self) -> Result<()> {
        let result = self.go_back();
        self.settle(result)
    }

    #[inline]
    fn is_at_entry(&self) -> bool {
        self.current.is_some()
    }

    #[inline]
    fn entry(&self) -> Option<Entry<'_>> {
        let current = self.current.as_ref()?;
        let entry = &current.entry;
        let value = if entry.out_of_line {
            ValueSource::OutOfLine {
                page: self
                    .table
                    .file
                    .page_id(current.value.handle, PageClass::Value),
                bytes: current.value.bytes,
            }
        } else {
            ValueSource::Inline(&self.block().bytes()[entry.value()])
        };
        Some(Entry {
            key: &self.key,
            seqno: self.table.file.seqno(entry.seqno),
            tag: entry.tag,
            value,
        })
    }
}
