//! A page of a cluster: the part of each of its stripes in an interval of positions.
//!
//! ```text
//! number of stripes │ which stripes │ lengths of filters, stripe by stripe │ the filters
//! u16               │ u16 each      │ u8 each                              │
//! ```
//!
//! The number of columns that a stripe has here follows from the interval, which is in the
//! directory.

use std::ops::Range;

use crate::base::error::{Error, Result};
use crate::base::page::{TRAILER_BYTES, prefetch_bytes};

use super::{Extent, PAGE_BYTES, Stripe};

/// The ends of a cluster's pages.
#[derive(Clone, Copy)]
pub(crate) enum PageEnds {
    /// In a file, a page ends where the next columns would not fit it.
    Full,
    /// In memory, it ends at the multiples of this power of two positions.
    Every(u32),
}

impl PageEnds {
    /// The last position at which a page that begins at `start` may end, exclusive.
    pub(super) fn end_max(self, start: u64) -> u64 {
        match self {
            PageEnds::Full => u64::MAX,
            PageEnds::Every(shift) => ((start >> shift) + 1) << shift,
        }
    }

    /// The most bytes of a page, unless a single column of each stripe needs more.
    pub(crate) fn bytes_max(self) -> usize {
        match self {
            PageEnds::Full => CAPACITY,
            PageEnds::Every(_) => usize::MAX,
        }
    }
}

/// The bytes that one page of a file holds.
const CAPACITY: usize = PAGE_BYTES - TRAILER_BYTES as usize;
/// The bytes of the number of stripes.
pub(super) const HEAD_BYTES: usize = 2;
/// The bytes that a stripe takes in a page beside its columns.
pub(super) const STRIPE_BYTES: usize = 2;
/// The most stripes of a cluster.
pub(crate) const STRIPES_MAX: usize = 1 << 16;

/// The number of pages of a file that hold `bytes` bytes.
pub(crate) fn pages_for(bytes: usize) -> usize {
    (bytes + TRAILER_BYTES as usize).div_ceil(PAGE_BYTES)
}

/// The numbers of a page's stripes, and the bytes behind them.
pub(super) fn split_numbers(page: &[u8]) -> Option<(&[[u8; STRIPE_BYTES]], &[u8])> {
    let (head, rest) = page.split_first_chunk()?;
    let count = usize::from(u16::from_le_bytes(*head));
    let (numbers, rest) = rest.split_at_checked(count * STRIPE_BYTES)?;
    Some((numbers.as_chunks().0, rest))
}

/// A page, divided into its parts.
pub(super) struct PageParts<'a> {
    stripes: &'a [Stripe],
    extent: Extent,
    numbers: &'a [[u8; STRIPE_BYTES]],
    lengths: &'a [u8],
    filters: &'a [u8],
}

impl<'a> PageParts<'a> {
    pub(super) fn new(page: &'a [u8], stripes: &'a [Stripe], extent: &Extent) -> Result<Self> {
        let (numbers, rest) = split_numbers(page).ok_or_else(|| too_short(page.len()))?;
        let mut decoded = PageParts {
            stripes,
            extent: *extent,
            numbers,
            lengths: &[],
            filters: &[],
        };
        let mut columns = 0;
        for part in decoded.parts() {
            let (_, range) = part?;
            columns += range.end - range.start;
        }
        let columns = usize::try_from(columns).unwrap_or(usize::MAX);
        let parts = rest.split_at_checked(columns);
        (decoded.lengths, decoded.filters) = parts.ok_or_else(|| too_short(page.len()))?;
        Ok(decoded)
    }

    /// The stripes of the page, with their columns in it.
    fn parts(&self) -> impl Iterator<Item = Result<(usize, Range<u64>)>> + use<'a> {
        let (stripes, extent) = (self.stripes, self.extent);
        self.numbers.iter().map(move |number| {
            let number = usize::from(u16::from_le_bytes(*number));
            let stripe = stripes.get(number).ok_or_else(|| {
                Error::corruption(format!(
                    "expected a stripe below {} in a page of a cluster, found {number}",
                    stripes.len()
                ))
            })?;
            Ok((number, stripe.columns_within(extent.start, extent.end)))
        })
    }

    /// Hands over the filter of each stripe that covers a position. The filters are prefetched
    /// before the first is handed over, so that their misses overlap. Cost: one pass over the
    /// lengths before them.
    pub(super) fn at(&self, position: u32, mut each: impl FnMut(usize, &'a [u8])) -> Result<()> {
        const AHEAD: usize = 16;
        let mut ahead: [(usize, &[u8]); AHEAD] = [(0, &[]); AHEAD];
        let mut count = 0;
        let (mut lengths, mut from) = (self.lengths, 0);
        for part in self.parts() {
            let (number, columns) = part?;
            let mine;
            (mine, lengths) = lengths
                .split_at_checked((columns.end - columns.start) as usize)
                .ok_or_else(|| too_short(self.lengths.len()))?;
            let (stripe, mut rest) = (&self.stripes[number], mine);
            if stripe.covers(position) {
                let column = stripe.column_of(position) - columns.start;
                let found = mine.split_at_checked(column as usize);
                let Some((before, [length, behind @ ..])) = found else {
                    return Err(Error::corruption(format!(
                        "expected a filter of column {column} in a page of a cluster, found {}",
                        mine.len()
                    )));
                };
                from += sum(before);
                let filter = self.filters.get(from..from + usize::from(*length));
                let filter = filter.ok_or_else(|| too_short(self.filters.len()))?;
                prefetch_bytes(filter);
                if count == AHEAD {
                    ahead
                        .iter()
                        .for_each(|(number, filter)| each(*number, filter));
                    count = 0;
                }
                ahead[count] = (number, filter);
                count += 1;
                from += usize::from(*length);
                rest = behind;
            }
            if !lengths.is_empty() {
                from += sum(rest);
            }
        }
        let left = ahead[..count].iter();
        left.for_each(|(number, filter)| each(*number, filter));
        Ok(())
    }

    /// Hands over the filters of each stripe, and their columns.
    pub(super) fn for_each(
        &self,
        each: impl FnMut(usize, Range<u64>, Filters<'a>) -> Result<()>,
    ) -> Result<()> {
        let filters = Filters {
            lengths: self.lengths,
            bytes: self.filters,
        };
        filters.divide(self.parts(), each)
    }
}

/// Some filters one after the other.
#[derive(Clone, Copy)]
pub(super) struct Filters<'a> {
    pub(super) lengths: &'a [u8],
    pub(super) bytes: &'a [u8],
}

impl<'a> Filters<'a> {
    /// Hands over the filters of each stripe, given the stripes and their columns.
    pub(super) fn divide(
        self,
        stripes: impl Iterator<Item = Result<(usize, Range<u64>)>>,
        mut each: impl FnMut(usize, Range<u64>, Filters<'a>) -> Result<()>,
    ) -> Result<()> {
        let mut rest = self;
        for stripe in stripes {
            let (stripe, columns) = stripe?;
            let (lengths, bytes);
            (lengths, rest.lengths) = { rest.lengths }
                .split_at_checked((columns.end - columns.start) as usize)
                .ok_or_else(|| too_short(self.lengths.len()))?;
            (bytes, rest.bytes) = { rest.bytes }
                .split_at_checked(sum(lengths))
                .ok_or_else(|| too_short(self.bytes.len()))?;
            each(stripe, columns, Filters { lengths, bytes })?;
        }
        Ok(())
    }

    /// The filters behind the first `count`.
    pub(super) fn skip(self, count: usize) -> Filters<'a> {
        let (skipped, lengths) = self.lengths.split_at(count.min(self.lengths.len()));
        Filters {
            lengths,
            bytes: &self.bytes[sum(skipped)..],
        }
    }
}

pub(super) fn sum(lengths: &[u8]) -> usize {
    // The sum has 32 bits, so that the processor adds many lengths at once.
    let sum: u32 = lengths.iter().map(|length| u32::from(*length)).sum();
    sum as usize
}

pub(super) fn too_short(found: usize) -> Error {
    Error::corruption(format!(
        "expected a page of a cluster that holds its filters, found {found} bytes"
    ))
}
