//! The readable part of a damaged table: whole blocks in the order of the file, and the readable
//! values out of line. `repair` merges it like any table.
//!
//! A block is skipped if it cannot be read or if its entries are out of order. An entry is skipped
//! if its value cannot be read. The facts must be readable, or the manifest's description, which
//! can replace them. If a page of the index is damaged, the blocks are searched for. The filter is
//! not needed.

use std::collections::{HashSet, VecDeque};
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use crate::base::entry::{SeqNo, Tag};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::key_order::Order;
use crate::base::page::{Handle, Page, PageId};
use crate::table::iter::{Entry, InternalIter, ValueSource};

use super::Footer;
use super::contents::Contents;
use super::entry_parts::ValueHandle;
use super::format;
use super::inspected::{InspectedTable, Part};
use crate::base::range_tombstones::RangeTombstones;
use crate::base::table_meta::TableMeta;

/// A damaged table with a readable part.
pub(crate) struct Salvage {
    table: InspectedTable,
    meta: TableMeta,
    order: Box<dyn Order>,
    blocks: Blocks,
}

/// The blocks of a damaged table.
enum Blocks {
    /// The number of blocks of a readable index.
    Indexed(usize),
    /// The blocks that a search found, in order. An error stands for what it found between them.
    Found(Vec<Result<Handle>>),
}

impl Blocks {
    /// Their number, that of the errors included.
    fn count(&self) -> usize {
        match self {
            Blocks::Indexed(count) => *count,
            Blocks::Found(found) => found.len(),
        }
    }
}

/// The loss of a damaged table.
#[derive(Debug, Clone, Default)]
pub(crate) struct Loss {
    /// The number of readable entries.
    pub(crate) read: u64,
    /// The ranges of order keys in which entries are missing.
    pub(crate) ranges: Vec<RangeInclusive<Vec<u8>>>,
    /// The first error.
    pub(crate) reason: Option<Error>,
}

impl Salvage {
    /// Opens a damaged table. `known` is its description in the manifest, if there is one. Cost:
    /// the pages of the index; if one is damaged, those of the table.
    ///
    /// # Errors
    /// `Corruption` if the facts are unknown.
    pub(crate) fn of(table: InspectedTable, known: Option<&TableMeta>) -> Result<Salvage> {
        let facts = table.meta().cloned();
        let meta = match known {
            Some(known) => facts.unwrap_or_else(|_| known.clone()),
            None => facts?,
        };
        let seqno_override = known.and_then(|meta| meta.seqno_override);
        let mut salvage = Salvage {
            blocks: Blocks::Indexed(table.blocks().unwrap_or(0)),
            meta: meta.renumbered(seqno_override),
            order: table.footer().order(),
            table,
        };
        if salvage.table.check_index().is_err() {
            salvage.blocks = Blocks::Found(salvage.search());
        }
        Ok(salvage)
    }

    /// Searches for the blocks. A page is one if its content is, and if no block refers to it as a
    /// value.
    fn search(&self) -> Vec<Result<Handle>> {
        let mut found = Vec::new();
        let mut values = HashSet::new();
        let place = |bytes: &Range<usize>| Handle {
            offset: bytes.start as u64,
            bytes: bytes.len() as u32,
        };
        let entries = |block| {
            let page = self.table.page(Part::Block, block);
            page.and_then(|page| self.entries(&page, None))
        };
        for stretch in self.table.search(&|page| entries(place(page)).is_ok()) {
            let handle = place(&stretch.bytes);
            if !stretch.is_page {
                let bytes = handle.bytes;
                let error = Error::corruption(format!("expected pages, found {bytes} other bytes"));
                found.push(Err(error.at(self.table.path(), Some(handle.offset))));
                continue;
            }
            if let Ok(entries) = entries(handle) {
                let places = entries.iter().filter_map(|(_, place)| place.as_ref());
                values.extend(places.map(|place| place.handle));
                found.push(Ok((handle, entries.len() as u64)));
            }
        }
        found.retain(|it| {
            it.as_ref()
                .map_or(true, |(block, _)| !values.contains(block))
        });
        let read: u64 = found.iter().flatten().map(|(_, entries)| entries).sum();
        if read == self.meta.entries {
            // The damage is where no entries are.
            found.retain(Result::is_ok);
        }
        let blocks = found.into_iter();
        blocks.map(|block| Ok(block?.0)).collect()
    }

    pub(crate) fn meta(&self) -> &TableMeta {
        &self.meta
    }

    /// The range tombstones, if their page is readable.
    pub(crate) fn ranges(&self) -> Result<RangeTombstones> {
        self.table.ranges(&self.meta)
    }

    pub(crate) fn footer(&self) -> &Footer {
        self.table.footer()
    }

    /// Reads the whole table. Cost: one read for each block and each value.
    pub(crate) fn loss(self: &Arc<Self>) -> Loss {
        let mut iter = self.iter();
        iter.load_next();
        while iter.next() {}
        let mut loss = iter.loss;
        if let Err(error) = self.ranges() {
            // Whatever they hid may come back.
            loss.reason.get_or_insert(error);
            let (from, to) = (&self.meta.smallest_key, &self.meta.largest_key);
            loss.ranges.push(from.clone()..=to.clone());
        }
        loss
    }

    /// An iterator that only goes forward.
    pub(crate) fn iter(self: &Arc<Self>) -> SalvageIter {
        SalvageIter {
            table: self.clone(),
            next_block: 0,
            index_page: None,
            entries: VecDeque::new(),
            last: None,
            missing_from: None,
            loss: Loss::default(),
        }
    }

    /// The entries of a block that follows the entry `last`, with the places of their values.
    fn entries(
        &self,
        block: &[u8],
        mut last: Option<(Vec<u8>, SeqNo)>,
    ) -> Result<Vec<(HeldEntry, Option<ValueHandle>)>> {
        let mut entries = Vec::new();
        format::walk(self.footer().table, &*self.order, block, &mut |entry| {
            let held = self.held(entry)?;
            check_order(last.as_ref(), &held)?;
            last = Some((held.key.clone(), held.seqno));
            entries.push((held, entry.place()?));
            Ok(())
        })?;
        Ok(entries)
    }

    /// Checks that an entry may be in this table, and copies it.
    fn held(&self, entry: &Contents<'_>) -> Result<HeldEntry> {
        let (key, meta) = (entry.key, &self.meta);
        let user_key = self.order.decode(key);
        self.order.check(user_key).map_err(|e| {
            Error::corruption(format!("expected a key of the order, found {key:?}: {e}"))
        })?;
        let mut again = Vec::new();
        self.order.encode(user_key, &mut again);
        let seqno = meta.seqno_override.unwrap_or(entry.seqno);
        let keys = meta.smallest_key.as_slice()..=meta.largest_key.as_slice();
        if again != key || !keys.contains(&key) || seqno > meta.largest_seqno {
            return Err(Error::corruption(format!(
                "expected keys from {:?} to {:?} numbered up to {}, found {key:?} at {}",
                meta.smallest_key, meta.largest_key, meta.largest_seqno.0, seqno.0
            )));
        }
        Ok(HeldEntry {
            key: again,
            seqno,
            tag: entry.tag,
            value: entry.value.to_vec(),
        })
    }
}

/// An entry with its value.
struct HeldEntry {
    key: Vec<u8>,
    seqno: SeqNo,
    tag: Tag,
    value: Vec<u8>,
}

/// An iterator over the readable entries; see [`Salvage::iter`].
pub(crate) struct SalvageIter {
    table: Arc<Salvage>,
    next_block: usize,
    index_page: Option<(PageId, Page)>,
    /// The entries of the current block from the current one on.
    entries: VecDeque<HeldEntry>,
    /// The last entry of the blocks read.
    last: Option<(Vec<u8>, SeqNo)>,
    /// The first possible key of the skipped blocks' entries.
    missing_from: Option<Vec<u8>>,
    loss: Loss,
}

impl SalvageIter {
    /// Advances to the next entry. Returns false behind the last one.
    fn next(&mut self) -> bool {
        self.entries.pop_front();
        if self.entries.is_empty() {
            self.load_next();
        }
        !self.entries.is_empty()
    }

    /// Loads the entries of the next block that has some.
    fn load_next(&mut self) {
        while self.entries.is_empty() && self.next_block < self.table.blocks.count() {
            let number = self.next_block;
            self.next_block += 1;
            if let Err(error) = self.load(number) {
                self.loss.reason.get_or_insert(error);
                let last = self.last.as_ref().map(|(key, _)| key.clone());
                let from = last.unwrap_or_else(|| self.table.meta.smallest_key.clone());
                self.missing_from.get_or_insert(from);
            }
        }
        if self.entries.is_empty() {
            let end = self.table.meta.largest_key.clone();
            self.end_gap(end);
        }
    }

    fn end_gap(&mut self, end: Vec<u8>) {
        if let Some(from) = self.missing_from.take() {
            self.loss.ranges.push(from..=end);
        }
    }

    fn load(&mut self, number: usize) -> Result<()> {
        let salvage = self.table.clone();
        let table = &salvage.table;
        let (handle, page) = match &salvage.blocks {
            Blocks::Indexed(_) => table.block_page(number, &mut self.index_page)?,
            Blocks::Found(found) => {
                let handle = found[number].clone()?;
                (handle, table.page(Part::Block, handle)?)
            }
        };
        let found = salvage
            .entries(&page, self.last.clone())
            .map_err(|e| e.at(table.path(), Some(handle.offset)))?;
        if let Some((first, _)) = found.first() {
            self.end_gap(first.key.clone());
        }
        if let Some((last, _)) = found.last() {
            self.last = Some((last.key.clone(), last.seqno));
        }
        for (mut held, place) in found {
            match place.map(|place| table.value_page(place.handle, place.bytes)) {
                Some(Err(error)) => {
                    self.loss.reason.get_or_insert(error);
                    self.loss.ranges.push(held.key.clone()..=held.key);
                    continue;
                }
                Some(Ok(page)) => held.value = page.to_vec(),
                None => {}
            }
            self.loss.read += 1;
            self.entries.push_back(held);
        }
        Ok(())
    }
}

fn check_order(last: Option<&(Vec<u8>, SeqNo)>, held: &HeldEntry) -> Result<()> {
    let Some((key, seqno)) = last else {
        return Ok(());
    };
    if *key < held.key || (*key == held.key && *seqno > held.seqno) {
        return Ok(());
    }
    Err(Error::corruption(format!(
        "expected entries in order, found {:?} at {} after {key:?} at {}",
        held.key, held.seqno.0, seqno.0
    )))
}

fn only_forward<T>() -> Result<T> {
    Err(Error::new(
        ErrorKind::Unsupported,
        "a damaged table is read from front to back only",
    ))
}

impl InternalIter for SalvageIter {
    fn seek(&mut self, _key: &[u8], _seqno: SeqNo) -> Result<()> {
        only_forward()
    }

    fn seek_before(&mut self, _key: &[u8], _seqno: SeqNo) -> Result<()> {
        only_forward()
    }

    fn seek_first(&mut self) -> Result<()> {
        *self = self.table.iter();
        self.load_next();
        Ok(())
    }

    fn seek_last(&mut self) -> Result<()> {
        only_forward()
    }

    fn advance(&mut self) -> Result<()> {
        self.next();
        Ok(())
    }

    fn retreat(&mut self) -> Result<()> {
        only_forward()
    }

    fn entry(&self) -> Option<Entry<'_>> {
        let held = self.entries.front()?;
        Some(Entry {
            key: &held.key,
            seqno: held.seqno,
            tag: held.tag,
            value: ValueSource::Inline(&held.value),
        })
    }
}
