//! Finds the pages of a file without an index, for tables whose index is damaged.
//!
//! A page does not say where it ends. But its checksum covers all of its bytes and its place, so
//! the first byte behind which a right checksum stands ends it. Pages follow each other, or stand
//! behind a gap of zeros at a multiple of the device's page; where none does, every later byte may
//! begin one. Then one search in some hundreds finds a checksum that is right by chance. So a page
//! behind damage counts only if another follows, or if it is a block.
//! Cost: one read of the file, and memory for it; about 10 ns for each byte, and 0.1 to
//! 0.7 ms more for each byte of damaged pages.

use std::iter;
use std::ops::Range;

use hedgerow_io::RandomRead;
use hedgerow_mem::PageMut;

use crate::base::codec::checksum;
use crate::base::page::{DEVICE_PAGE_BYTES, TRAILER_BYTES, TableId};

use super::page_io::{PAGE_BYTES_MAX, is_compression};

/// The longest page that is searched for at first: a usual block, some times over. Behind damage
/// the longest page so far is the longest that is searched for, up to this.
const USUAL_BYTES: usize = 64 << 10;
/// The longest page that is searched for behind damage if all so far were shorter.
const LATER_BYTES: usize = 8 << 10;
/// The maximum number of bytes that the search behind damage looks at: about 20 s.
const STEPS_MAX: usize = 1 << 31;

const DEVICE_PAGE: usize = DEVICE_PAGE_BYTES as usize;
const TRAILER: usize = TRAILER_BYTES as usize;

/// A stretch of a file: a page with a right checksum, or bytes that belong to none.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Stretch {
    pub(super) bytes: Range<usize>,
    pub(super) is_page: bool,
}

/// The pages in the first `bytes` bytes of a table's file, in order. What cannot be read is damage.
/// `is_block` tells if a page is a block.
pub(super) fn find(
    file: &dyn RandomRead,
    table: TableId,
    bytes: usize,
    is_block: &dyn Fn(&Range<usize>) -> bool,
) -> Vec<Stretch> {
    let mut buffer = PageMut::allocate(bytes);
    let pieces = buffer.chunks_mut(DEVICE_PAGE);
    for (piece, at) in pieces.zip((0..).step_by(DEVICE_PAGE)) {
        if file.read_at(at, piece).is_err() {
            // Zeros could be a gap.
            piece.fill(!0);
        }
    }
    find_in(&buffer, table, is_block)
}

fn find_in(bytes: &[u8], table: TableId, is_block: &dyn Fn(&Range<usize>) -> bool) -> Vec<Stretch> {
    let counts = |page: &Range<usize>| {
        // Each place within a gap looks like the end of a page with the checksum 0.
        let ends_in_gap = bytes[page.end - TRAILER..page.end] == [0; TRAILER];
        let is_followed = is_over(bytes, page.end)
            || expected_page(bytes, table, page.end).is_some()
            || is_block(page);
        is_followed && !ends_in_gap
    };
    let mut found = Vec::new();
    let (mut longest, mut steps) = (LATER_BYTES, 0);
    let mut at = 0;
    while !is_over(bytes, at) {
        let expected = expected_page(bytes, table, at);
        let page = expected.or_else(|| {
            let mut later = later_pages(bytes, table, (at, longest), &mut steps);
            later.find(&counts)
        });
        let (begin, end) = page
            .as_ref()
            .map_or((bytes.len(), bytes.len()), |it| (it.start, it.end));
        if bytes[at..begin].iter().any(|byte| *byte != 0) {
            found.push(Stretch {
                bytes: at..begin,
                is_page: false,
            });
        }
        longest = longest.max((end - begin).min(USUAL_BYTES));
        at = end;
        found.extend(page.map(page_stretch));
    }
    found
}

/// Returns true if zeros at most are behind `at`.
fn is_over(bytes: &[u8], at: usize) -> bool {
    bytes[at..].iter().all(|byte| *byte == 0)
}

fn page_stretch(bytes: Range<usize>) -> Stretch {
    Stretch {
        bytes,
        is_page: true,
    }
}

/// The page that begins at `at`, or behind a gap.
fn expected_page(bytes: &[u8], table: TableId, at: usize) -> Option<Range<usize>> {
    let rest = bytes[at..].iter().take(USUAL_BYTES);
    let zeros_end = at + rest.take_while(|byte| **byte == 0).count();
    let boundaries = at / DEVICE_PAGE + 1..zeros_end / DEVICE_PAGE + 1;
    let starts = boundaries.rev().map(|number| number * DEVICE_PAGE);
    let starts: Vec<_> = starts.chain([at]).collect();
    let sizes = [USUAL_BYTES, PAGE_BYTES_MAX + TRAILER];
    let mut places = sizes
        .iter()
        .flat_map(|size| starts.iter().zip(iter::repeat(*size)));
    places.find_map(|(&start, size)| page_at(bytes, table, start, size))
}

/// The pages of at most `bytes_max` bytes that begin after `at`, and what looks like one.
fn later_pages<'a>(
    bytes: &'a [u8],
    table: TableId,
    (at, bytes_max): (usize, usize),
    steps: &'a mut usize,
) -> impl Iterator<Item = Range<usize>> + 'a {
    let starts = (at + 1..bytes.len()).take_while(move |start| {
        *steps += bytes_max.min(bytes.len() - start);
        *steps <= STEPS_MAX
    });
    starts.filter_map(move |start| page_at(bytes, table, start, bytes_max))
}

/// The page of at most `bytes_max` bytes, trailer included, that begins at `start`.
fn page_at(bytes: &[u8], table: TableId, start: usize, bytes_max: usize) -> Option<Range<usize>> {
    let rest = &bytes[start..bytes.len().min(start + bytes_max)];
    let mut sum = checksum::seeded(checksum::place(table.0, start as u64), &[]);
    let ends = rest.windows(TRAILER).zip(TRAILER..);
    let mut ends = ends.filter(|(trailer, _)| {
        sum = checksum::extend(sum, &trailer[..1]);
        is_compression(trailer[0]) && trailer[1..] == sum.to_le_bytes()
    });
    ends.next().map(|(_, end)| start..start + end)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::base::codec::compress;
    use crate::table::page_io;

    const TABLE: TableId = TableId(7);

    /// A file of pages, some behind a gap, and their places.
    fn file(pages: &[(Vec<u8>, bool)]) -> (Vec<u8>, Vec<Range<usize>>) {
        let (mut bytes, mut places) = (Vec::new(), Vec::new());
        for (raw, has_gap) in pages {
            if *has_gap {
                bytes.resize(bytes.len().next_multiple_of(DEVICE_PAGE), 0);
            }
            let start = bytes.len();
            let mut stored = raw.clone();
            page_io::seal(&mut stored, compress::RAW, TABLE, start as u64);
            bytes.extend(stored);
            places.push(start..bytes.len());
        }
        (bytes, places)
    }

    fn pages() -> impl Strategy<Value = Vec<(Vec<u8>, bool)>> {
        let raw = prop_oneof![
            prop::collection::vec(any::<u8>(), 0..600),
            prop::collection::vec(0..2u8, 0..600),
            (0..1000usize).prop_map(|bytes| vec![0; bytes]),
        ];
        prop::collection::vec((raw, any::<bool>()), 1..12)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn all_pages_are_found_and_damage_costs_its_own(
            pages in pages(),
            damaged in any::<prop::sample::Index>(),
            bit in 0..8u8,
        ) {
            let (mut bytes, places) = file(&pages);
            let whole: Vec<_> = places.iter().cloned().map(page_stretch).collect();
            prop_assert_eq!(find_in(&bytes, TABLE, &|_| false), whole);
            let at = damaged.index(bytes.len());
            bytes[at] ^= 1 << bit;
            let found = find_in(&bytes, TABLE, &|_| false);
            for place in places.into_iter().filter(|place| !place.contains(&at)) {
                prop_assert!(found.contains(&page_stretch(place)));
            }
            let told = found.iter().any(|it| !it.is_page && it.bytes.contains(&at));
            prop_assert!(told);
        }
    }

    #[test]
    fn a_long_value_is_found() {
        let pages = [
            (vec![1; 10], false),
            (vec![2; 300_000], false),
            (vec![3; 10], true),
        ];
        let (bytes, places) = file(&pages);
        let whole: Vec<_> = places.into_iter().map(page_stretch).collect();
        assert_eq!(find_in(&bytes, TABLE, &|_| false), whole);
    }
}
