//! The three-level index of a table: segments of some thousands of blocks, each a self-contained
//! page, and one top page that finds the segment of a key. The format is in
//! `docs/format/three_level.md`.
//!
//! A resident index keeps the segments as they are stored. A paged index keeps the top and reads
//! one segment per query.

use std::ops::Range;

use crate::base::codec::{ByteReader, varint};
use crate::base::error::{Error, Result};
use crate::base::page::{Handle, Page, PageClass, PageId, Step, TableId};
use crate::table::block_index::resident::ResidentPages;
use crate::table::block_index::{BlockRange, Bracket, Index};

use super::segment;
use super::segment::{Segment, Unit};
use super::segment_layout::SegmentLayout;
use super::{Hashes, parse_hash};
use crate::table::block_index::extents;
use crate::table::block_index::extents::Extent;

pub(crate) use super::routes::Form;

/// The number of blocks of a segment, which is then about 4 KiB.
const SEGMENT_BLOCKS: usize = 2048;
/// The approximate bytes of an extent in a page.
const EXTENT_BYTES: usize = 10;

/// Returns true if two order keys differ in their hashes.
pub(crate) fn tells_apart(before: &[u8], after: &[u8]) -> bool {
    Hashes::of(before) != Hashes::of(after)
}

/// Builds the index of one table. Memory: 100 bytes per block of the current segment, and the
/// finished segments until `finish`.
#[derive(Debug)]
pub(crate) struct Builder {
    form: Form,
    /// The blocks of the current segment.
    units: Vec<Unit>,
    /// True if the last unit's last block may still get keys.
    open: bool,
    segments: Vec<FinishedSegment>,
    segment_bytes: usize,
    /// The places of the finished blocks of the current segment.
    extents: Vec<Extent>,
    /// The number of finished blocks.
    blocks: usize,
    /// The number of blocks in finished segments.
    segment_blocks: usize,
}

#[derive(Debug)]
struct FinishedSegment {
    bytes: Vec<u8>,
    first_prefix: u64,
    last: Hashes,
    first_block: usize,
}

impl Builder {
    pub(crate) fn new(form: Form) -> Builder {
        Builder {
            form,
            units: Vec::new(),
            open: false,
            segments: Vec::new(),
            segment_bytes: 0,
            extents: Vec::new(),
            blocks: 0,
            segment_blocks: 0,
        }
    }

    /// The approximate bytes of the index in the file if it were finished now.
    pub(crate) fn estimated_bytes(&self) -> usize {
        // 16 bits per block: 13 to 15 are measured.
        self.segment_bytes + self.units.len() * 2 + self.extents.len() * EXTENT_BYTES
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.segment_bytes
            + self.segments.capacity() * size_of::<FinishedSegment>()
            + self.units.capacity() * size_of::<Unit>()
            + self.extents.capacity() * size_of::<Extent>()
    }

    /// Passes the segments, in order, and then the top to `write_page`, which returns their places.
    /// Returns the place of the top.
    pub(crate) fn finish(
        mut self,
        mut write_page: impl FnMut(&[u8]) -> Result<Handle>,
    ) -> Result<Handle> {
        assert!(!self.open, "the last block is finished");
        self.finish_segment();
        let mut top = Vec::new();
        varint::put(&mut top, self.blocks as u64);
        varint::put(&mut top, self.segments.len() as u64);
        for segment in &self.segments {
            let handle = write_page(&segment.bytes)?;
            top.extend(segment.first_prefix.to_be_bytes());
            segment.last.put(&mut top);
            varint::put(&mut top, segment.first_block as u64);
            varint::put(&mut top, handle.offset);
            varint::put(&mut top, u64::from(handle.bytes));
        }
        write_page(&top)
    }

    fn open_block(&mut self, entry: Hashes) {
        self.open = true;
        if let Some(unit) = self.units.last_mut()
            && unit.last == entry
        {
            unit.blocks += 1;
            return;
        }
        if self.units.len() == SEGMENT_BLOCKS {
            self.finish_segment();
        }
        self.units.push(Unit::new(entry));
    }

    fn finish_segment(&mut self) {
        let (Some(first), Some(last)) = (self.units.first(), self.units.last()) else {
            panic!("a segment has blocks");
        };
        let bytes = segment::encode(&self.units, &self.extents, self.form);
        self.segment_bytes += bytes.len();
        self.segments.push(FinishedSegment {
            bytes,
            first_prefix: first.first.prefix,
            last: last.last,
            first_block: self.segment_blocks,
        });
        self.segment_blocks += self.units.iter().map(|unit| unit.blocks).sum::<usize>();
        self.units.clear();
        self.extents.clear();
    }
}

impl crate::table::block_index::Builder for Builder {
    fn add(&mut self, key: &[u8], block: usize) {
        assert!(block == self.blocks, "keys are added to blocks in order");
        let entry = Hashes::of(key);
        if !self.open {
            self.open_block(entry);
        }
        let unit = self.units.last_mut().expect("a unit is open");
        assert!(unit.last <= entry, "keys are added in order");
        unit.push(entry);
    }

    fn finish_block(&mut self, block: usize, handle: Handle) {
        assert!(
            self.open && block == self.blocks,
            "blocks are finished in order"
        );
        extents::push(&mut self.extents, block - self.segment_blocks, handle);
        self.blocks += 1;
        self.open = false;
    }
}

/// The index of one table.
#[derive(Debug)]
pub(crate) struct ThreeLevel {
    table: TableId,
    blocks: usize,
    tops: Box<[Top]>,
    segments: ResidentPages<SegmentLayout>,
}

/// The data of a segment in the top.
#[derive(Debug)]
struct Top {
    first_prefix: u64,
    last: Hashes,
    first_block: usize,
    handle: Handle,
}

impl ThreeLevel {
    /// Opens a paged index from its top page.
    pub(crate) fn paged(table: TableId, top_page: &[u8]) -> Result<ThreeLevel> {
        let mut reader = ByteReader::new(top_page);
        let blocks = reader.varint_as("number of blocks")?;
        let count: usize = reader.varint_as("number of segments")?;
        let mut tops: Vec<Top> = Vec::new();
        for _ in 0..count {
            tops.push(Top {
                first_prefix: parse_hash(&mut reader)?,
                last: Hashes::parse(&mut reader)?,
                first_block: reader.varint_as("number of a first block")?,
                handle: parse_handle(&mut reader)?,
            });
        }
        reader.finish("the top of the index")?;
        let ascend = tops.is_sorted_by(|a, b| {
            a.first_block < b.first_block && a.last < b.last && a.first_prefix <= b.first_prefix
        });
        let ends_after_beginning = tops
            .first()
            .is_none_or(|top| top.first_prefix <= top.last.prefix);
        let ends = tops.first().zip(tops.last());
        let within =
            ends.is_some_and(|(first, last)| first.first_block == 0 && last.first_block < blocks);
        if !ascend || !within || !ends_after_beginning {
            return Err(Error::corruption(format!(
                "expected the {count} segments of an index to ascend over {blocks} blocks"
            )));
        }
        Ok(ThreeLevel {
            table,
            blocks,
            tops: tops.into(),
            segments: ResidentPages::NONE,
        })
    }

    /// Hashes with about as many blocks before them as before this block. A resident index finds
    /// them between two groups, or within the first or the last group of a segment, whose prefixes
    /// it knows whole. A paged index assumes that the hashes of a segment are evenly spread.
    fn begin_of(&self, block: usize) -> Hashes {
        let number = self.segment_of_block(block);
        let top = &self.tops[number];
        let Some((layout, page)) = self.segments.get(number) else {
            let low = match number.checked_sub(1) {
                Some(before) => self.tops[before].last.joined(),
                None => u128::from(top.first_prefix) << 64,
            };
            let step = (top.last.joined() - low) / self.blocks_of(number).len() as u128;
            return Hashes::split(low + 1 + step * (block - top.first_block) as u128);
        };
        let segment = Segment { layout, page };
        let begins = |prefix, suffix| {
            let Bracket { first, likely, .. } = segment.bracket(Hashes { prefix, suffix });
            (top.first_block + first, top.first_block + likely)
        };
        let (first, last) = (top.first_prefix, top.last.prefix);
        for prefix in [first, last] {
            if begins(prefix, 0).1 < block && block <= begins(prefix, u64::MAX).1 {
                let suffix = smallest(0, u64::MAX, |suffix| begins(prefix, suffix).1 >= block);
                return Hashes { prefix, suffix };
            }
        }
        let prefix = smallest(first, last, |prefix| begins(prefix, 0).0 >= block);
        Hashes { prefix, suffix: 0 }
    }

    fn page_id(&self, number: usize) -> PageId {
        PageId {
            table: self.table,
            handle: self.tops[number].handle,
            class: PageClass::Index,
        }
    }

    /// The blocks of a segment.
    fn blocks_of(&self, number: usize) -> Range<usize> {
        let next = self.tops.get(number + 1);
        self.tops[number].first_block..next.map_or(self.blocks, |top| top.first_block)
    }

    fn segment_of_block(&self, block: usize) -> usize {
        self.tops.partition_point(|top| top.first_block <= block) - 1
    }

    fn parse_segment(&self, number: usize, page: &[u8]) -> Result<SegmentLayout> {
        let layout = SegmentLayout::parse(page)?;
        let expected = match self.tops.get(number) {
            Some(_) => self.blocks_of(number).len(),
            None => 0,
        };
        if layout.blocks != expected {
            return Err(Error::corruption(format!(
                "expected an index page of {expected} blocks, found {}",
                layout.blocks
            )));
        }
        Ok(layout)
    }

    /// The segment of the first entry at or after these hashes, and its first block.
    #[inline]
    fn segment_of(&self, wanted: Hashes) -> Option<(usize, usize)> {
        let number = self.tops.partition_point(|top| top.last < wanted);
        self.tops.get(number).map(|top| (number, top.first_block))
    }

    /// Queries a segment: a resident one, the given one, or one to be read.
    #[inline]
    fn probe<T>(
        &self,
        number: usize,
        given: Option<&Page>,
        answer: impl FnOnce(Segment<'_>) -> T,
    ) -> Result<Step<T>> {
        if let Some((layout, page)) = self.segments.get(number) {
            return Ok(Step::Done(answer(Segment { layout, page })));
        }
        let Some(page) = given else {
            return Ok(Step::Read(self.page_id(number)));
        };
        let layout = &self.parse_segment(number, page)?;
        Ok(Step::Done(answer(Segment { layout, page })))
    }
}

impl Index for ThreeLevel {
    fn locate(&self, key: &[u8], page: Option<&Page>) -> Result<Step<BlockRange>> {
        let wanted = Hashes::of(key);
        let Some((number, first)) = self.segment_of(wanted) else {
            return Ok(Step::Done(BlockRange::NOWHERE));
        };
        self.probe(number, page, |segment| {
            let blocks = segment.locate(wanted);
            let blocks = first + blocks.start..first + blocks.end;
            BlockRange::of(blocks, |block| segment.place(block - first))
        })
    }

    fn lower_bound(&self, key: &[u8], page: Option<&Page>) -> Result<Step<Bracket>> {
        let wanted = Hashes::of(key);
        let Some((number, before)) = self.segment_of(wanted) else {
            return Ok(Step::Done(Bracket::at(self.blocks)));
        };
        self.probe(number, page, |segment| {
            let Bracket {
                first,
                likely,
                last,
            } = segment.bracket(wanted);
            Bracket {
                first: before + first,
                likely: before + likely,
                last: before + last,
            }
        })
    }

    fn end_before(&self, key: &[u8], page: Option<&Page>) -> Result<Step<usize>> {
        let wanted = Hashes::of(key);
        let Some((number, before)) = self.segment_of(wanted) else {
            return Ok(Step::Done(self.blocks));
        };
        self.probe(number, page, |segment| {
            before + segment.end_of(wanted.prefix)
        })
    }

    #[inline]
    fn handle(&self, block: usize, page: Option<&Page>) -> Result<Step<Handle>> {
        assert!(
            block < self.blocks,
            "block {block} of {} blocks",
            self.blocks
        );
        let number = self.segment_of_block(block);
        let first_block = self.tops[number].first_block;
        self.probe(number, page, |segment| segment.place(block - first_block))
    }

    fn blocks(&self) -> usize {
        self.blocks
    }

    fn page_ids(&self) -> Vec<PageId> {
        let numbers = 0..self.tops.len();
        numbers.map(|number| self.page_id(number)).collect()
    }

    fn load(&mut self, pages: &[&[u8]]) -> Result<()> {
        let expected = (self.tops.len(), "segments");
        self.segments = ResidentPages::load(pages, expected, |number, page| {
            self.parse_segment(number, page)
        })?;
        Ok(())
    }

    fn split_keys(&self, pieces: usize) -> Vec<Vec<u8>> {
        let mut keys: Vec<u128> = (1..pieces)
            .map(|piece| self.begin_of(self.blocks * piece / pieces).joined())
            .collect();
        keys.sort_unstable();
        keys.dedup();
        keys.iter().map(|key| key.to_be_bytes().to_vec()).collect()
    }

    fn memory_bytes(&self) -> usize {
        let layouts = self.segments.layouts().map(SegmentLayout::heap_bytes);
        size_of::<Self>()
            + size_of_val(&*self.tops)
            + self.segments.memory_bytes()
            + layouts.sum::<usize>()
    }
}

/// The smallest hash from `low` on, below `high`, for which `holds` is true, as it then is for all
/// above; else `high`.
fn smallest(mut low: u64, mut high: u64, holds: impl Fn(u64) -> bool) -> u64 {
    while low < high {
        let middle = low.midpoint(high);
        if holds(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    low
}

fn parse_handle(reader: &mut ByteReader<'_>) -> Result<Handle> {
    Ok(Handle {
        offset: reader.varint("offset in the table")?,
        bytes: reader.varint_as("size of a page")?,
    })
}

#[cfg(test)]
mod tests;
