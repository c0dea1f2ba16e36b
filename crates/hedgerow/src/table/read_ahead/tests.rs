//! The blocks that one read takes.

use std::collections::BTreeSet;
use std::sync::Mutex;

use super::*;
use crate::base::error::Error;
use crate::base::page::{Handle, PageClass, TableId};

const BLOCK_BYTES: usize = 4000;

/// A table of 1,000 blocks and its cache, which notes every read.
struct Pages {
    room: usize,
    cached: Mutex<BTreeSet<usize>>,
    reads: Mutex<Vec<Vec<usize>>>,
    fails: bool,
}

fn id(number: usize) -> PageId {
    PageId {
        table: TableId(1),
        handle: Handle {
            offset: (number * BLOCK_BYTES) as u64,
            bytes: BLOCK_BYTES as u32,
        },
        class: PageClass::Data,
    }
}

fn number_of(id: PageId) -> usize {
    id.handle.offset as usize / BLOCK_BYTES
}

fn page() -> Page {
    Page::filled(BLOCK_BYTES, |_| Ok(())).unwrap()
}

impl Pages {
    fn new(room: usize, cached: impl IntoIterator<Item = usize>) -> Pages {
        Pages {
            room,
            cached: Mutex::new(cached.into_iter().collect()),
            reads: Mutex::default(),
            fails: false,
        }
    }

    /// Enters blocks in order. Returns the reads.
    fn scan(&self, blocks: std::ops::Range<usize>, end: usize) -> Vec<Vec<usize>> {
        let mut ahead = ReadAhead::default();
        for number in blocks {
            let next = NextBlock {
                number,
                id: id(number),
                memory_bytes: BLOCK_BYTES,
            };
            let id_of = |number| (number < end).then(|| id(number));
            ahead.next_page(self, next, id_of).unwrap();
        }
        std::mem::take(&mut self.reads.lock().unwrap())
    }
}

impl PageSource for Pages {
    fn page(&self, id: PageId) -> Result<Page> {
        self.cached.lock().unwrap().insert(number_of(id));
        self.reads.lock().unwrap().push(vec![number_of(id)]);
        Ok(page())
    }

    fn has_cached(&self, id: PageId) -> bool {
        self.cached.lock().unwrap().contains(&number_of(id))
    }

    fn at_hand(&self, id: PageId) -> Option<Page> {
        self.has_cached(id).then(page)
    }

    fn ahead_bytes_max(&self) -> usize {
        self.room
    }

    fn pages_ahead(&self, ids: &[PageId]) -> Result<Page> {
        if self.fails {
            return Err(Error::corruption("expected a page, found another"));
        }
        let numbers: Vec<usize> = ids.iter().map(|id| number_of(*id)).collect();
        self.cached.lock().unwrap().extend(&numbers);
        self.reads.lock().unwrap().push(numbers);
        Ok(page())
    }
}

#[test]
fn reads_double_from_the_second_on_up_to_the_bound() {
    let pages = Pages::new(20 * BLOCK_BYTES, []);
    let reads = pages.scan(1..80, 1000);
    let expected = [1..2, 2..4, 4..8, 8..16, 16..32, 32..52, 52..72, 72..92];
    assert_eq!(reads, expected.map(Vec::from_iter));

    let pages = Pages::new(1 << 20, []);
    let lengths: Vec<usize> = pages.scan(1..300, 1000).iter().map(Vec::len).collect();
    assert_eq!(lengths, [1, 2, 4, 8, 16, 32, 64, 64, 64, 64]);
}

#[test]
fn a_short_scan_reads_what_it_uses_and_no_scan_reads_as_much_again_in_vain() {
    for used in 1..200 {
        let pages = Pages::new(1 << 20, []);
        let read: usize = pages.scan(1..used, 1000).iter().map(Vec::len).sum();
        // The seek has read the first block.
        let vain = read + 1 - used;
        assert!(vain < used && (used > 2 || vain == 0), "{used}: {vain}");
    }
}

#[test]
fn nothing_behind_the_end_is_read() {
    let pages = Pages::new(1 << 20, []);
    let reads = pages.scan(1..11, 11);
    let expected = [1..2, 2..4, 4..8, 8..11];
    assert_eq!(reads, expected.map(Vec::from_iter));
}

#[test]
fn cached_blocks_take_no_read_and_end_none_nearby() {
    let all = Pages::new(1 << 20, 0..1000);
    assert!(all.scan(1..500, 1000).is_empty());

    // One of each three is cached.
    let some = Pages::new(1 << 20, (0..1000).filter(|n| n % 3 == 0));
    assert_eq!(
        some.scan(1..16, 1000),
        [vec![1], vec![2], vec![4, 5, 7], vec![8, 10, 11, 13, 14]]
    );

    // Far from each other.
    let most = Pages::new(1 << 20, (0..1000).filter(|n| n % 10 != 0));
    let reads = most.scan(1..200, 1000);
    assert!(reads.iter().all(|read| read.len() == 1), "{reads:?}");
    assert_eq!(reads.len(), 19);
}

#[test]
fn a_cache_without_room_gets_one_block_at_a_time() {
    let pages = Pages::new(2 * BLOCK_BYTES - 1, []);
    assert_eq!(pages.scan(1..100, 1000).len(), 99);
}

#[test]
fn a_block_evicted_before_its_use_begins_anew() {
    let pages = Pages::new(1 << 20, []);
    let mut ahead = ReadAhead::default();
    for number in 1..40 {
        if number == 20 {
            pages.cached.lock().unwrap().clear();
        }
        let next = NextBlock {
            number,
            id: id(number),
            memory_bytes: BLOCK_BYTES,
        };
        ahead.next_page(&pages, next, |n| Some(id(n))).unwrap();
    }
    let reads = pages.reads.lock().unwrap();
    let expected = [1..2, 2..4, 4..8, 8..16, 16..32, 20..21, 21..23, 23..27];
    assert_eq!(reads[..8], expected.map(Vec::from_iter));
}

#[test]
fn a_failed_read_of_several_blocks_is_made_again_for_the_wanted_one() {
    let pages = Pages {
        fails: true,
        ..Pages::new(1 << 20, [])
    };
    assert_eq!(pages.scan(1..50, 1000).len(), 49);
}
