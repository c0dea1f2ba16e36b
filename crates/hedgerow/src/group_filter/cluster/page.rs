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

/// The sizes of pages, in bytes.
#[derive(Clone, Copy)]
pub(crate) struct PageSizes {
    /// A page with this many bytes ends where no column reaches over its end.
    pub(crate) enough: usize,
    /// The most, unless a single column of each stripe needs more.
    pub(crate) most: usize,
}

/// The bytes that one page of a file holds.
const CAPACITY: usize = PAGE_BYTES - TRAILER_BYTES as usize;
/// A page of a file has as many columns as it holds.
pub(crate) const FILE_PAGES: PageSizes = PageSizes {
    enough: CAPACITY + 1,
    most: CAPACITY,
};
/// The size of a page in memory, and what each stripe adds to it: a column and more.
const RESIDENT_PAGE_BYTES: usize = 1024;
const RESIDENT_STRIPE_BYTES: usize = 128;
/// The bytes of a page in memory that are prefetched.
pub(super) const PREFETCH_BYTES: usize = 1024;
/// The bytes of the number of stripes.
pub(super) const HEAD_BYTES: usize = 2;
/// The bytes that a stripe takes in a page beside its columns.
pub(super) const STRIPE_BYTES: usize = 2;
/// The most stripes of a cluster.
pub(crate) const STRIPES_MAX: usize = 1 << 16;

/// The sizes of pages in memory: a few columns, so that a probe adds up few lengths and reads cache
/// lines that are near each other.
pub(super) fn resident_pages(stripes: usize) -> PageSizes {
    let enough = RESIDENT_PAGE_BYTES + stripes * RESIDENT_STRIPE_BYTES;
    PageSizes {
        enough,
        most: 4 * enough,
    }
}

/// The number of pages of a file that hold `bytes` bytes.
pub(crate) fn pages_for(bytes: usize) -> usize {
    (bytes + TRAILER_BYTES as usize).div_ceil(PAGE_BYTES)
}

/// A page, divided into its parts.
pub(super) struct Decoded<'a> {
    stripes: &'a [Stripe],
    extent: Extent,
    numbers: &'a [u8],
    lengths: &'a [u8],
    filters: &'a [u8],
}

impl<'a> Decoded<'a> {
    pub(super) fn new(page: &'a [u8], stripes: &'a [Stripe], extent: &Extent) -> Result<Self> {
        let mut columns = 0;
        for part in Decoded::with_columns(page, stripes, extent, 0)?.parts() {
            let (_, range) = part?;
            columns += range.end - range.start;
        }
        let columns = usize::try_from(columns).unwrap_or(usize::MAX);
        Decoded::with_columns(page, stripes, extent, columns)
    }

    /// A page whose number of filters is known.
    pub(super) fn with_columns(
        page: &'a [u8],
        stripes: &'a [Stripe],
        extent: &Extent,
        columns: usize,
    ) -> Result<Self> {
        let parts = || {
            let (head, rest) = page.split_first_chunk()?;
            let count = usize::from(u16::from_le_bytes(*head));
            let (numbers, rest) = rest.split_at_checked(count * STRIPE_BYTES)?;
            let (lengths, filters) = rest.split_at_checked(columns)?;
            Some((numbers, lengths, filters))
        };
        let (numbers, lengths, filters) = parts().ok_or_else(|| too_short(page.len()))?;
        Ok(Decoded {
            stripes,
            extent: *extent,
            numbers,
            lengths,
            filters,
        })
    }

    /// The number of its filters.
    pub(super) fn columns(&self) -> usize {
        self.lengths.len()
    }

    /// The stripes of the page, with their columns in it.
    fn parts(&self) -> impl Iterator<Item = Result<(usize, Range<u64>)>> + use<'a> {
        let (stripes, extent) = (self.stripes, self.extent);
        let (numbers, _) = self.numbers.as_chunks::<STRIPE_BYTES>();
        numbers.iter().map(move |number| {
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
        mut each: impl FnMut(usize, Range<u64>, Filters<'a>) -> Result<()>,
    ) -> Result<()> {
        let (mut lengths, mut filters) = (self.lengths, self.filters);
        for part in self.parts() {
            let (stripe, columns) = part?;
            let mine;
            (mine, lengths) = lengths
                .split_at_checked((columns.end - columns.start) as usize)
                .ok_or_else(|| too_short(self.lengths.len()))?;
            let bytes;
            (bytes, filters) = filters
                .split_at_checked(sum(mine))
                .ok_or_else(|| too_short(self.filters.len()))?;
            let mine = Filters {
                lengths: mine,
                bytes,
            };
            each(stripe, columns, mine)?;
        }
        Ok(())
    }
}

/// Some filters one after the other.
#[derive(Clone, Copy)]
pub(super) struct Filters<'a> {
    pub(super) lengths: &'a [u8],
    pub(super) bytes: &'a [u8],
}

impl<'a> Filters<'a> {
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

fn too_short(found: usize) -> Error {
    Error::corruption(format!(
        "expected a page of a cluster that holds its filters, found {found} bytes"
    ))
}
