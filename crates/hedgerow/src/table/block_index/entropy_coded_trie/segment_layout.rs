//! The places of the parts of a segment's page. The format is in `docs/format/three_level.md`.

use std::ops::Range;

use super::boundaries;
use super::prefixes::Spread;
use super::routes;
use super::routes::Form;
use crate::base::codec::{ByteReader, packed};
use crate::base::error::{Error, Result};
use crate::table::block_index::extents::ExtentsLayout;

/// The numbers in front of a page.
struct Head {
    units: usize,
    prefixes: usize,
    buckets: usize,
    form: Form,
    sample_shift: u32,
    /// The bytes of a rank, of an offset in the tries, and of one in the routes.
    widths: [usize; 3],
    spread: Spread,
}

impl Head {
    fn parse(reader: &mut ByteReader<'_>, page_bytes: usize) -> Result<Head> {
        let units: usize = reader.varint_as("number of indexed units")?;
        let prefixes: usize = reader.varint_as("number of prefixes")?;
        let buckets: usize = reader.varint_as("number of buckets")?;
        let form = Form::of_code(reader.u8("form of an index")?)?;
        let sample_shift = u32::from(reader.u8("distance of places of routes")?);
        let widths = reader.take(3, "widths of an index page")?;
        let widths = [0, 1, 2].map(|i| usize::from(widths[i]));
        let valid = widths.iter().all(|&width| width <= 8)
            && sample_shift < usize::BITS
            && (1..=4 * page_bytes).contains(&units)
            && (1..=2 * units).contains(&prefixes)
            && (1..=prefixes).contains(&buckets);
        if !valid {
            return Err(Error::corruption(format!(
                "expected an index page, found {units} units, {prefixes} prefixes in {buckets} buckets and widths {widths:?}"
            )));
        }
        let spread = Spread {
            first: reader.u64("first prefix")?,
            multiplier: reader.u64("spread of prefixes")?,
        };
        Ok(Head {
            units,
            prefixes,
            buckets,
            form,
            sample_shift,
            widths,
            spread,
        })
    }
}

/// The places of a segment's parts in its page.
#[derive(Debug, Clone)]
pub(super) struct SegmentLayout {
    pub(super) units: usize,
    pub(super) blocks: usize,
    pub(super) form: Form,
    pub(super) spread: Spread,
    pub(super) prefixes: usize,
    pub(super) buckets: usize,
    pub(super) rank_bytes: usize,
    pub(super) offset_bytes: usize,
    pub(super) route_bytes: usize,
    pub(super) sample_shift: u32,
    /// The units of more than one block, each with its number of further blocks, ascending.
    larger_units: Vec<(usize, usize)>,
    pub(super) extents: ExtentsLayout,
    pub(super) ends: Range<usize>,
    pub(super) ranks: Range<usize>,
    pub(super) samples: Range<usize>,
    pub(super) tries: usize,
    pub(super) bits: usize,
    pub(super) routes: usize,
}

impl SegmentLayout {
    pub(super) fn parse(page: &[u8]) -> Result<SegmentLayout> {
        let mut reader = ByteReader::new(page);
        let Head {
            units,
            prefixes,
            buckets,
            form,
            sample_shift,
            widths,
            spread,
        } = Head::parse(&mut reader, page.len())?;
        let larger_units = parse_larger_units(&mut reader, units)?;
        let more = larger_units.iter().map(|(_, more)| *more);
        let blocks = more.fold(units, usize::saturating_add);
        let extents = ExtentsLayout::parse(&mut reader)?;
        let [rank_bytes, offset_bytes, route_bytes] = widths;
        let mut part = |bytes: usize, what| -> Result<Range<usize>> {
            let start = reader.position();
            reader.take(bytes, what)?;
            Ok(start..start + bytes)
        };
        let ends = part(buckets * (rank_bytes + offset_bytes), "ends of buckets")?;
        let ranks = part(
            boundaries::samples_for(units) * rank_bytes,
            "ranks of boundaries",
        )?;
        let samples = part(
            routes::samples_for(units, sample_shift) * route_bytes,
            "places of routes",
        )?;
        let trie_bits = packed::get(page, ends.end - offset_bytes, offset_bytes);
        let trie_bytes = usize::try_from(trie_bits.div_ceil(8)).unwrap_or(usize::MAX);
        Ok(SegmentLayout {
            units,
            blocks,
            form,
            spread,
            prefixes,
            buckets,
            rank_bytes,
            offset_bytes,
            route_bytes,
            sample_shift,
            larger_units,
            extents,
            ends,
            ranks,
            samples,
            tries: part(trie_bytes, "tries of prefixes")?.start,
            bits: part((2 * units).div_ceil(8), "boundaries")?.start,
            routes: reader.position(),
        })
    }

    /// The bytes of heap memory.
    pub(super) fn heap_bytes(&self) -> usize {
        self.larger_units.capacity() * size_of::<(usize, usize)>()
    }

    /// The first block of a unit. For the unit after the last, the number of blocks.
    #[inline]
    pub(super) fn first_block(&self, unit: usize) -> usize {
        let before = self.larger_units.iter().take_while(|(at, _)| *at < unit);
        unit + before.map(|(_, more)| more).sum::<usize>()
    }

    #[inline]
    pub(super) fn blocks_of(&self, units: Range<usize>) -> Range<usize> {
        if self.larger_units.is_empty() {
            return units;
        }
        self.first_block(units.start)..self.first_block(units.end)
    }
}

fn parse_larger_units(reader: &mut ByteReader<'_>, units: usize) -> Result<Vec<(usize, usize)>> {
    let count: usize = reader.varint_as("number of larger units")?;
    let mut larger: Vec<(usize, usize)> = Vec::new();
    for _ in 0..count {
        let unit: usize = reader.varint_as("number of a larger unit")?;
        let more: u32 = reader.varint_as("size of a larger unit")?;
        let ascends = larger.last().is_none_or(|(before, _)| *before < unit);
        if unit >= units || !ascends {
            return Err(Error::corruption(format!(
                "expected larger units to ascend below {units}, found {unit}"
            )));
        }
        larger.push((unit, more as usize));
    }
    Ok(larger)
}
