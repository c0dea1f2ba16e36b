//! A cluster in memory: the filters of all stripes for a short interval of positions lie side by
//! side.
//!
//! Such an interval is a *stretch*. All stretches of a cluster are equally wide, by a power of two,
//! so a position names its stretch without a search. The width gives each stretch a few cache
//! lines, of which a probe reads most, one behind the other:
//!
//! ```text
//! lengths of filters, stripe by stripe │ the filters
//! u8 each                              │
//! ```
//!
//! Neighbours mostly have columns of the same stripes. So these are named once for all stretches of
//! a *pattern*. A new pattern begins where a stripe begins or ends.
//!
//! Cost of a probe: the place of the stretch, a cache line; then its bytes, which a prefetch gets
//! all at once. Memory beside filters and lengths: 4 bytes for each stretch, and a copy in each
//! stretch of the filters of wider columns.

use std::ops::Range;

use crate::base::entry::KeyHash;
use crate::base::error::{Error, Result};
use crate::base::page::{Page, PageId, prefetch_bytes};
use crate::table::filter::small_bloom;

use super::assemble::{Source, assemble};
use super::filter_page::{Filters, PageEnds, split_numbers, sum, too_short};
use super::{Directory, Extent, POSITION_BITS, Stripe, position};

/// The least average size of a stretch. The place of a stretch takes 4 bytes, a 48th of it.
const STRETCH_BYTES_MIN: u64 = 192;
/// A stretch of this average size is wide enough, whatever is copied. A filter of a small table
/// then adds a 50th.
const STRETCH_BYTES_MAX: u64 = 4096;
/// Damaged stripes may claim far larger filters than those found: this many times as large count.
const FOUND_SHARE: u64 = 4;
/// The part of all filters that may be copies, because their columns are wider than a stretch.
const COPIES_SHARE: u64 = 32;
/// The bytes of a stretch that are prefetched: those of a stack of 20 runs.
const PREFETCH_BYTES: usize = 1024;

/// The filters of a cluster in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stretches {
    pub(super) bytes: Vec<u8>,
    /// The place at which each stretch begins, and the end of the last.
    pub(super) starts: Vec<u32>,
    /// The bits of a position within its stretch.
    shift: u32,
    /// The number of the first stretch, if they are counted from position 0.
    first: u64,
    /// By the stretch at which they begin.
    patterns: Vec<Pattern>,
    /// The numbers of stripes, pattern by pattern.
    numbers: Vec<u16>,
}

/// Some stretches with columns of the same stripes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Pattern {
    /// The first of the stretches.
    from: u32,
    /// The place of its first stripe in [`Stretches::numbers`].
    numbers: u32,
}

impl Stretches {
    /// Copies the filters of some sources, of at least one stripe in all.
    pub(super) fn of(
        sources: &[Source<'_>],
        fetch: impl FnMut(PageId) -> Result<Page>,
    ) -> Result<(Directory, Stretches)> {
        let stripes: Vec<Stripe> = sources.iter().flat_map(Source::stripes).collect();
        let bytes = sources.iter().map(Source::bytes).sum();
        let (shift, first) = width(&stripes, sources.iter().map(Source::bytes_max).sum());
        let mut all = Stretches {
            bytes: Vec::with_capacity(bytes),
            starts: vec![0],
            shift,
            first,
            patterns: Vec::new(),
            numbers: Vec::new(),
        };
        let directory = assemble(sources, PageEnds::Every(shift), fetch, |page| {
            all.push(&page)?;
            Ok(0)
        })?;
        all.bytes.shrink_to_fit();
        all.starts.shrink_to_fit();
        all.patterns.shrink_to_fit();
        all.numbers.shrink_to_fit();
        Ok((directory, all))
    }

    /// Adds the next stretch.
    fn push(&mut self, page: &[u8]) -> Result<()> {
        let (numbers, bytes) = split_numbers(page).ok_or_else(|| too_short(page.len()))?;
        let numbers = numbers.iter().map(|number| u16::from_le_bytes(*number));
        let known = self.patterns.last().map(|last| last.numbers as usize);
        if known.is_none_or(|from| !numbers.clone().eq(self.numbers[from..].iter().copied())) {
            self.patterns.push(Pattern {
                from: (self.starts.len() - 1) as u32,
                numbers: self.numbers.len() as u32,
            });
            self.numbers.extend(numbers);
        }
        self.bytes.extend_from_slice(bytes);
        let end = u32::try_from(self.bytes.len());
        self.starts.push(end.map_err(|_| too_large())?);
        Ok(())
    }

    /// The bytes of all stretches.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.bytes.capacity()
            + self.starts.capacity() * size_of::<u32>()
            + self.patterns.capacity() * size_of::<Pattern>()
            + self.numbers.capacity() * size_of::<u16>()
    }

    fn extent(&self, at: usize) -> Extent {
        let number = self.first + at as u64;
        Extent {
            page: at,
            pages: 1,
            start: number << self.shift,
            end: (number + 1) << self.shift,
        }
    }

    /// All stretches in order.
    pub(super) fn extents(&self) -> impl Iterator<Item = Extent> {
        (0..self.starts.len() - 1).map(|at| self.extent(at))
    }

    /// The stretch of a position, and its bytes. `None` where no table has keys.
    #[inline]
    fn stretch_of(&self, position: u32) -> Option<(usize, &[u8])> {
        let number = u64::from(position) >> self.shift;
        let at = number.checked_sub(self.first)? as usize;
        Some((at, self.stretch(at)?))
    }

    #[inline]
    fn stretch(&self, at: usize) -> Option<&[u8]> {
        let [from, to] = *self.starts.get(at..)?.first_chunk()?;
        self.bytes.get(from as usize..to as usize)
    }

    /// The stripes of a stretch, with their columns in it.
    #[inline]
    fn parts<'a>(
        &'a self,
        extent: Extent,
        stripes: &'a [Stripe],
    ) -> impl Iterator<Item = (usize, &'a Stripe, Range<u64>)> + Clone {
        let patterns = &self.patterns[..];
        let behind = patterns.partition_point(|it| it.from as usize <= extent.page);
        let from = patterns[behind - 1].numbers as usize;
        let to = patterns.get(behind).map(|it| it.numbers as usize);
        let numbers = &self.numbers[from..to.unwrap_or(self.numbers.len())];
        let (start, end) = (extent.start, extent.end);
        numbers.iter().map(move |number| {
            let number = usize::from(*number);
            let stripe = &stripes[number];
            (number, stripe, stripe.columns_within(start, end))
        })
    }

    /// Prefetches the cache lines of a position's stretch.
    #[inline]
    pub(super) fn touch(&self, position: u32) {
        if let Some((_, bytes)) = self.stretch_of(position) {
            prefetch_bytes(&bytes[..bytes.len().min(PREFETCH_BYTES)]);
        }
    }

    /// Calls `absent_from` with the mark of each table that does not hold a key with this hash.
    /// Stripes without a mark are left out.
    #[inline]
    pub(super) fn probe<T: Copy>(
        &self,
        stripes: &[Stripe],
        hash: KeyHash,
        marks: &[Option<T>],
        mut absent_from: impl FnMut(T),
    ) -> Result<()> {
        let position = position(hash);
        let Some((at, bytes)) = self.stretch_of(position) else {
            return Ok(());
        };
        let parts = self.parts(self.extent(at), stripes);
        let (mut lengths, filters) = divided(bytes, parts.clone())?;
        let bits = small_bloom::Bits::of(hash.low());
        let mut from = 0;
        for (number, stripe, columns) in parts {
            let mine;
            (mine, lengths) = lengths.split_at((columns.end - columns.start) as usize);
            if stripe.covers(position)
                && let Some(mark) = marks[number]
            {
                let column = (stripe.column_of(position) - columns.start) as usize;
                let from = from + sum(&mine[..column]);
                let filter = filters.get(from..from + usize::from(mine[column]));
                let filter = filter.ok_or_else(|| too_short(bytes.len()))?;
                if !bits.are_in(filter, stripe.probes) {
                    absent_from(mark);
                }
            }
            from += sum(mine);
        }
        Ok(())
    }

    /// Hands over the filters of each stripe in a stretch, and their columns.
    pub(super) fn for_each<'a>(
        &'a self,
        extent: &Extent,
        stripes: &[Stripe],
        each: impl FnMut(usize, Range<u64>, Filters<'a>) -> Result<()>,
    ) -> Result<()> {
        let bytes = self.stretch(extent.page).unwrap_or_default();
        let parts = self.parts(*extent, stripes);
        let (lengths, bytes) = divided(bytes, parts.clone())?;
        let parts = parts.map(|(number, _, columns)| Ok((number, columns)));
        Filters { lengths, bytes }.divide(parts, each)
    }
}

/// The lengths and the filters of a stretch.
#[inline]
fn divided<'b, 's>(
    bytes: &'b [u8],
    parts: impl Iterator<Item = (usize, &'s Stripe, Range<u64>)>,
) -> Result<(&'b [u8], &'b [u8])> {
    let columns: u64 = parts.map(|(_, _, it)| it.end - it.start).sum();
    let divided = bytes.split_at_checked(columns as usize);
    divided.ok_or_else(|| too_short(bytes.len()))
}

/// The width of stretches, as the bits of a position within one, and the number of the first one.
/// It follows from the stripes alone, unless these claim more filters than `found` bytes can be.
pub(super) fn width(stripes: &[Stripe], found: usize) -> (u32, u64) {
    let starts = stripes.iter().map(|it| it.start_of(it.column_of(it.first)));
    let ends = stripes.iter().map(|it| it.end_of(it.column_of(it.last)));
    let start = starts.min().unwrap_or(0);
    let positions = ends.max().unwrap_or(1) - start;
    let sizes = stripes.iter().map(|it| (it.shift(), filters_bytes(it)));
    let bytes: u64 = sizes.clone().map(|(_, bytes)| bytes).sum();
    let bytes = bytes.min(FOUND_SHARE * (found as u64 + STRETCH_BYTES_MAX));
    // A column that is wider than a stretch has a copy in each.
    let copies = |shift: u32| -> u64 {
        let wide = sizes.clone().filter(|(wide, _)| *wide > shift);
        wide.map(|(wide, bytes)| bytes.saturating_mul((1 << (wide - shift)) - 1))
            .fold(0, u64::saturating_add)
    };
    let is_wide_enough = |shift: &u32| {
        let holds = |size: u64| u128::from(bytes) << shift >= u128::from(positions * size);
        let may_be = holds(STRETCH_BYTES_MIN) && copies(*shift) <= bytes / COPIES_SHARE;
        may_be || holds(STRETCH_BYTES_MAX)
    };
    let shift = (0..POSITION_BITS).find(is_wide_enough);
    let shift = shift.unwrap_or(POSITION_BITS);
    (shift, start >> shift)
}

/// The size of a stripe's filters and lengths, if its columns have 24 keys each.
fn filters_bytes(stripe: &Stripe) -> u64 {
    let columns = stripe.column_of(stripe.last) - stripe.column_of(stripe.first) + 1;
    // 24 keys of `probes / ln 2` bits each.
    columns * (1 + u64::from(stripe.probes) * 13 / 3)
}

fn too_large() -> Error {
    Error::corruption("expected at most 4 GiB of filters in one cluster in memory, found more")
}
