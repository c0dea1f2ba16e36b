//! Sorts the entries of a load by order key, for key orders that a user cannot know. Sorts in
//! memory while the entries fit; otherwise writes sorted runs to files and merges them at the end.
//!
//! Cost: only the sorting while the entries fit the memory share of merges; otherwise every entry
//! is written and read once more. No manifest names these files: after a crash, the next open
//! removes them.

use std::mem::take;
use std::sync::Arc;

use crate::base::entry::{SeqNo, Tag};
use crate::base::error::{Error, Result};
use crate::base::page::PageId;
use crate::design::in_force::DesignInForce;
use crate::paths::compaction::merge_tables::InputTables;
use crate::paths::compaction::output::OutputTables;
use crate::table::Table;
use crate::table::iter::concat::ConcatIter;
use crate::table::iter::merge::merge;
use crate::table::iter::{Entry, InternalIter, ValueSource};
use crate::table::open::{STREAM_BYTES_MAX, STREAM_BYTES_MIN};
use crate::tree::engine::Engine;
use crate::tree::partition::Partition;

/// The memory of an entry beside its bytes.
const ENTRY_BYTES: usize = size_of::<EntryBytes>();
/// The bytes of a tag before its key.
const TAG_BYTES: usize = size_of::<u16>();

/// The bytes of an entry among those in memory: the tag, the order key, then the value.
#[derive(Debug, Clone, Copy)]
struct EntryBytes {
    start: usize,
    key_bytes: u32,
    value_bytes: u32,
}

impl EntryBytes {
    fn key<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        &bytes[self.start + TAG_BYTES..][..self.key_bytes as usize]
    }

    fn tag(&self, bytes: &[u8]) -> Result<Tag> {
        Tag::from_bits(u16::from_le_bytes([
            bytes[self.start],
            bytes[self.start + 1],
        ]))
    }

    fn value<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        &bytes[self.start + TAG_BYTES + self.key_bytes as usize..][..self.value_bytes as usize]
    }
}

/// The entries of one partition while they are sorted.
pub(super) struct Sorter<'a> {
    engine: &'a Arc<Engine>,
    partition: &'a Arc<Partition>,
    design: Arc<DesignInForce>,
    /// The sequence number of all entries.
    seqno: SeqNo,
    /// The entries in memory: their bytes, and the place of each.
    bytes: Vec<u8>,
    places: Vec<EntryBytes>,
    bytes_max: usize,
    /// The spilled entries: sorted runs of tables, which are removed with their last holder.
    runs: Vec<Vec<Arc<Table>>>,
}

impl<'a> Sorter<'a> {
    /// Keeps about this many bytes in memory.
    pub(super) fn new(
        engine: &'a Arc<Engine>,
        partition: &'a Arc<Partition>,
        design: Arc<DesignInForce>,
        seqno: SeqNo,
        bytes_max: usize,
    ) -> Sorter<'a> {
        Sorter {
            engine,
            partition,
            design,
            seqno,
            bytes: Vec::new(),
            places: Vec::new(),
            bytes_max,
            runs: Vec::new(),
        }
    }

    /// Adds an entry. Spills the earlier ones if there is no room for it.
    pub(super) fn add(&mut self, order_key: &[u8], tag: Tag, value: &[u8]) -> Result<()> {
        let entry_bytes = ENTRY_BYTES + TAG_BYTES + order_key.len() + value.len();
        let held = self.bytes.len() + self.places.len() * ENTRY_BYTES;
        if !self.places.is_empty() && held + entry_bytes > self.bytes_max {
            self.spill()?;
        }
        self.places.push(EntryBytes {
            start: self.bytes.len(),
            key_bytes: order_key.len() as u32,
            value_bytes: value.len() as u32,
        });
        self.bytes.extend_from_slice(&tag.to_bits().to_le_bytes());
        self.bytes.extend_from_slice(order_key);
        self.bytes.extend_from_slice(value);
        Ok(())
    }

    /// Passes on all entries in order, each key once.
    pub(super) fn drain(
        mut self,
        mut see: impl FnMut(&Entry<'_>, &[u8]) -> Result<()>,
    ) -> Result<()> {
        if self.runs.is_empty() {
            return self.drain_memory(see);
        }
        self.spill()?;
        let stream_bytes = self.bytes_max / self.runs.len();
        let stream_bytes = stream_bytes.clamp(STREAM_BYTES_MIN, STREAM_BYTES_MAX);
        let sources = self.runs.iter().map(|tables| {
            let streamed = InputTables(tables.clone(), stream_bytes);
            Box::new(ConcatIter::new(streamed)) as Box<dyn InternalIter>
        });
        let mut merged = merge(sources.collect());
        let mut last = Vec::new();
        merged.seek_first()?;
        while let Some(entry) = merged.entry() {
            if entry.key == last {
                return Err(self.repeated(entry.key));
            }
            last.clear();
            last.extend_from_slice(entry.key);
            match entry.value {
                ValueSource::Inline(value) => see(&entry, value)?,
                ValueSource::OutOfLine { page, .. } => {
                    see(&entry, &self.table(page)?.read_page(page)?)?;
                }
            }
            merged.advance()?;
        }
        Ok(())
    }

    /// Writes the entries in memory as a run.
    fn spill(&mut self) -> Result<()> {
        let (engine, partition) = (self.engine, self.partition);
        let design = self.design.clone();
        let mut output =
            OutputTables::of_bulk_load(engine, partition, design, self.seqno, usize::MAX)?;
        self.drain_memory(|entry, value| output.add(entry, value))?;
        let tables = output.finish()?;
        let tables = tables.iter().map(|meta| {
            let table = engine.table(meta, &partition.keyspace);
            table.mark_obsolete();
            table
        });
        self.runs.push(tables.collect());
        Ok(())
    }

    /// Sorts the entries in memory, passes them on, and drops them.
    fn drain_memory(&mut self, mut see: impl FnMut(&Entry<'_>, &[u8]) -> Result<()>) -> Result<()> {
        let (mut places, bytes) = (take(&mut self.places), take(&mut self.bytes));
        places.sort_unstable_by_key(|place| place.key(&bytes));
        let mut last = None;
        for place in places {
            let (key, value) = (place.key(&bytes), place.value(&bytes));
            if last.replace(key) == Some(key) {
                return Err(self.repeated(key));
            }
            let entry = Entry {
                key,
                seqno: self.seqno,
                tag: place.tag(&bytes)?,
                value: ValueSource::Inline(value),
            };
            see(&entry, value)?;
        }
        Ok(())
    }

    fn table(&self, page: PageId) -> Result<&Arc<Table>> {
        let mut tables = self.runs.iter().flatten();
        let table = tables.find(|table| table.meta().id == page.table);
        table.ok_or_else(|| {
            Error::corruption(format!(
                "expected a value in an input table, found table {}",
                page.table.0
            ))
        })
    }

    fn repeated(&self, order_key: &[u8]) -> Error {
        let user_key = self.partition.keyspace.order.decode(order_key);
        Error::invalid(format!(
            "expected each key once, found `{}` again",
            user_key.escape_ascii()
        ))
    }
}
