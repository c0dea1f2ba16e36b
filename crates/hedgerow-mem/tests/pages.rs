//! Pages, with threads and against a model. `tests/loom.rs` explores the interleavings.
//!
//! Slabs of 32 KiB come from the allocator, so that AddressSanitizer sees every use after free and
//! every leak.
#![allow(clippy::print_stdout, reason = "tests print their seeds")]

mod common;

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::thread;

use common::{Random, seeds};
use hedgerow_mem::{PAGE_HEADER_BYTES, PageMut, PagePool, PageRef, SlabId};

const SLAB_BYTES: usize = 32 << 10;
/// The bytes of a page that fills a slot of 4 KiB. A slab has eight such slots.
const BLOCK_BYTES: usize = (4 << 10) - PAGE_HEADER_BYTES;
const SLOTS: u64 = 8;

/// A page whose bytes all equal its name.
fn filled(pool: &PagePool, bytes: usize, name: u64) -> PageRef {
    let mut page = pool.allocate(bytes, || {});
    assert_eq!(page.len(), bytes);
    page.fill(name as u8);
    page.share([name, bytes as u64])
}

fn check(page: &PageRef) {
    let [name, bytes] = page.name();
    assert_eq!(page.len() as u64, bytes);
    assert!(page.iter().all(|&byte| byte == name as u8), "{page:?}");
    assert!(page.memory_bytes() >= page.len() + PAGE_HEADER_BYTES);
}

fn blocks(pool: &PagePool, count: u64) -> Vec<PageRef> {
    (0..count)
        .map(|name| filled(pool, BLOCK_BYTES, name))
        .collect()
}

#[test]
fn a_page_has_its_size_its_name_and_its_bytes() {
    let mut page = PageMut::allocate(100);
    assert_eq!(*page, [0; 100]);
    page[99] = 7;
    page[10] = 3;
    page.truncate(11);
    let page = page.share([1, 2]);
    assert_eq!(page.name(), [1, 2]);
    assert_eq!(*page, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3]);
    assert_eq!(page.slab(), None);
    assert_eq!(page.memory_bytes(), 100 + PAGE_HEADER_BYTES, "cut or not");
    assert!(PageMut::allocate(0).is_empty());
}

#[test]
#[should_panic(expected = "a page is cut within its bytes")]
fn a_page_is_not_cut_to_more_than_it_has() {
    PageMut::allocate(10).truncate(11);
}

#[test]
fn owners_share_one_page() {
    let pool = PagePool::new(SLAB_BYTES);
    let page = filled(&pool, BLOCK_BYTES, 5);
    let other = page.clone();
    assert_eq!(page.as_ptr(), other.as_ptr());
    drop(page);
    let next = filled(&pool, BLOCK_BYTES, 6);
    assert_ne!(next.as_ptr(), other.as_ptr(), "the slot still has an owner");
    other.prefetch_front(1 << 20);
    check(&other);
}

#[test]
fn a_slot_is_used_again_and_its_next_page_has_no_name() {
    let pool = PagePool::new(SLAB_BYTES);
    let first = filled(&pool, BLOCK_BYTES, 5);
    let at = first.as_ptr();
    drop(first);
    let mut again = pool.allocate(BLOCK_BYTES - 500, || panic!("there are free slots"));
    assert_eq!(again.as_ptr(), at);
    assert_eq!(again.len(), BLOCK_BYTES - 500);
    again.truncate(0);
    let again = again.share([0; 2]);
    assert_eq!(again.name(), [0; 2]);
    assert!(again.is_empty());
}

#[test]
fn slots_of_a_slab_do_not_overlap() {
    let pool = PagePool::new(SLAB_BYTES);
    let mut pages = blocks(&pool, SLOTS);
    pages.iter().for_each(check);
    assert_eq!(pool.slabs(), 1);
    pages.sort_by_key(|page| page.as_ptr());
    for pair in pages.windows(2) {
        assert_eq!(pair[1].as_ptr().addr() - pair[0].as_ptr().addr(), 4 << 10);
    }
    let mut asked = false;
    let ninth = pool.allocate(BLOCK_BYTES, || asked = true);
    assert!(asked, "a second slab is announced");
    assert_eq!((ninth.len(), pool.slabs()), (BLOCK_BYTES, 2));
}

#[test]
fn only_sizes_that_fill_a_slot_lie_in_slabs() {
    let pool = PagePool::new(2 << 20);
    for slot in [4 << 10, 8 << 10, 16 << 10, 32 << 10] {
        let most = slot - PAGE_HEADER_BYTES;
        let least = slot / 4 * 3 - PAGE_HEADER_BYTES;
        for bytes in [most, least] {
            let page = filled(&pool, bytes, 1);
            assert!(page.slab().is_some(), "{bytes}");
            assert_eq!(page.memory_bytes(), slot);
        }
        for bytes in [most + 1, least - 1] {
            let page = filled(&pool, bytes, 1);
            assert_eq!(
                (page.slab(), page.memory_bytes()),
                (None, bytes + PAGE_HEADER_BYTES)
            );
        }
    }
    let small = PagePool::new(SLAB_BYTES);
    assert_eq!(
        filled(&small, 8000, 1).slab(),
        None,
        "four to a slab are too few"
    );
}

#[test]
fn large_pages_are_alone() {
    let pool = PagePool::new(SLAB_BYTES);
    for bytes in [63 << 10, 64 << 10, 100_001, (2 << 20) - 1, 2 << 20, 5 << 20] {
        let page = filled(&pool, bytes, bytes as u64 / 7);
        check(&page);
        assert_eq!(page.slab(), None);
    }
    assert_eq!(pool.slabs(), 0);
}

#[test]
fn pages_outlive_their_pool() {
    let pool = PagePool::new(SLAB_BYTES);
    let mut pages = blocks(&pool, 2 * SLOTS + 3);
    pages.push(filled(&pool, 100, 9));
    let drained = pool.drain_emptiest(1);
    drop(pool);
    pages.iter().for_each(check);
    pages.retain(|page| page.slab() != Some(drained[0]));
    pages.iter().for_each(check);
    thread::scope(|scope| _ = scope.spawn(|| drop(pages)));
}

#[test]
fn the_slab_with_fewest_pages_is_drained_and_its_slots_are_not_used() {
    let pool = PagePool::new(SLAB_BYTES);
    let mut pages = blocks(&pool, 2 * SLOTS);
    let slab = pages[10].slab().expect("a block lies in a slab");
    // The second slab keeps two pages.
    pages.truncate(10);
    assert_eq!(pool.drain_emptiest(1), [slab]);
    assert_eq!(pool.slabs(), 1);
    let more = blocks(&pool, 5 * SLOTS);
    assert!(more.iter().all(|page| page.slab() != Some(slab)));
    let freed = pages.pop().expect("there are ten");
    let at = freed.as_ptr();
    drop(freed);
    let again = filled(&pool, BLOCK_BYTES, 1);
    assert_ne!((again.as_ptr(), again.slab()), (at, Some(slab)));
    pages.iter().chain(&more).for_each(check);
}

/// The number of a slab is reused if, and only if, the slab is freed.
#[test]
fn a_drained_slab_goes_with_its_last_page() {
    let pool = PagePool::new(SLAB_BYTES);
    let mut pages = blocks(&pool, 3);
    let slab = pages[0].slab().expect("a block lies in a slab");
    assert_eq!(pool.drain_emptiest(9), [slab]);
    assert_eq!(pool.slabs(), 0);
    assert!(pool.drain_emptiest(9).is_empty(), "it is drained once");
    while let Some(page) = pages.pop() {
        let elsewhere = filled(&pool, BLOCK_BYTES, 1);
        assert_ne!(elsewhere.slab(), Some(slab));
        check(&page);
        drop(page);
        _ = pool.drain_emptiest(9);
    }
    assert_eq!(filled(&pool, BLOCK_BYTES, 1).slab(), Some(slab));
}

#[test]
fn an_empty_slab_is_given_back_at_once() {
    let pool = PagePool::new(SLAB_BYTES);
    let slab = filled(&pool, BLOCK_BYTES, 1).slab();
    assert_eq!(pool.slabs(), 1, "it is kept for the next page");
    assert_eq!(pool.drain_emptiest(1).first().copied(), slab);
    assert_eq!(pool.slabs(), 0);
    assert_eq!(filled(&pool, BLOCK_BYTES, 1).slab(), slab);
}

fn any_size(random: &mut Random) -> usize {
    match random.below(8) {
        0 => random.below(200) as usize,
        1 => random.below(100_000) as usize,
        2..5 => BLOCK_BYTES - random.below(1000) as usize,
        _ => (4 << (10 + random.below(4))) - PAGE_HEADER_BYTES - random.below(600) as usize,
    }
}

/// The model of the pool's slabs: for each the bytes of its pages, and whether it is drained.
#[derive(Default)]
struct Model(BTreeMap<SlabId, (usize, bool)>);

impl Model {
    fn add(&mut self, page: &PageRef) {
        let Some(slab) = page.slab() else { return };
        let (bytes, draining) = self.0.entry(slab).or_default();
        assert!(!*draining, "no page comes into a slab that is drained");
        *bytes += page.memory_bytes();
    }

    fn remove(&mut self, page: &PageRef) {
        let Some(slab) = page.slab() else { return };
        let (bytes, draining) = self.0.get_mut(&slab).expect("it was added");
        *bytes -= page.memory_bytes();
        if *bytes == 0 && *draining {
            self.0.remove(&slab);
        }
    }

    fn drain(&mut self, chosen: &[SlabId]) {
        let mut fullest = 0;
        for slab in chosen {
            let (bytes, draining) = self.0.get_mut(slab).expect("every slab had a page");
            assert!(!std::mem::replace(draining, true), "it is drained once");
            fullest = fullest.max(*bytes);
        }
        self.0
            .retain(|_, (bytes, draining)| *bytes > 0 || !*draining);
        assert!(
            self.0
                .values()
                .all(|&(bytes, draining)| draining || bytes >= fullest)
        );
    }

    fn slabs(&self) -> usize {
        self.0.values().filter(|(_, draining)| !draining).count()
    }
}

#[test]
fn slabs_are_as_the_model_says() {
    for seed in seeds(10) {
        println!("HEDGEROW_SEED={seed}");
        let mut random = Random::new(seed);
        let pool = PagePool::new(SLAB_BYTES << random.below(4));
        let (mut model, mut pages) = (Model::default(), Vec::new());
        for step in 0..4000 {
            // The number of pages goes up and down.
            let grows = step / 500 % 2 == 0;
            match random.below(20) {
                0 => model.drain(&pool.drain_emptiest(random.below(4) as usize)),
                n if (n < 12) == grows => {
                    let page = filled(&pool, any_size(&mut random), random.next());
                    model.add(&page);
                    pages.push(page);
                }
                _ if !pages.is_empty() => {
                    let page = pages.swap_remove(random.below(pages.len() as u64) as usize);
                    check(&page);
                    model.remove(&page);
                }
                _ => {}
            }
            assert_eq!(pool.slabs(), model.slabs());
        }
        pages.iter().for_each(check);
        drop(pages);
        assert_eq!(pool.drain_emptiest(usize::MAX).len(), model.slabs());
        assert_eq!(pool.slabs(), 0);
    }
}

/// Several threads hand pages to each other through a board.
#[test]
fn threads_share_pages_and_drain_slabs() {
    for seed in seeds(4) {
        println!("HEDGEROW_SEED={seed}");
        let pool = PagePool::new(SLAB_BYTES);
        let board: [Mutex<Option<PageRef>>; 32] = Default::default();
        thread::scope(|scope| {
            for id in 0..3 {
                let (pool, board) = (&pool, &board);
                scope.spawn(move || {
                    exchange(pool, board, &mut Random::new(seed * 3 + id));
                });
            }
        });
        drop(board);
        assert_eq!(pool.slabs(), pool.drain_emptiest(usize::MAX).len());
        assert_eq!(pool.slabs(), 0);
    }
}

#[test]
fn a_prepared_slab_is_the_next_one() {
    let pool = PagePool::new(2 << 20);
    assert!(!pool.take_shortage());
    let first = filled(&pool, BLOCK_BYTES, 1);
    assert!(pool.take_shortage(), "a slab was added");
    assert!(!pool.take_shortage());
    pool.prepare_slab();
    pool.prepare_slab();
    assert_eq!(pool.prepared_bytes(), 2 << 20, "one is prepared at a time");
    assert_eq!(pool.slabs(), 1);
    let rest = blocks(&pool, 512);
    assert_eq!((pool.slabs(), pool.prepared_bytes()), (2, 0));
    check(&first);
    rest.iter().for_each(check);

    let small = PagePool::new(SLAB_BYTES);
    let _page = filled(&small, BLOCK_BYTES, 1);
    assert!(!small.take_shortage(), "no huge page fits");
    small.prepare_slab();
    assert_eq!(small.prepared_bytes(), 0);
}

fn exchange(pool: &PagePool, board: &[Mutex<Option<PageRef>>], random: &mut Random) {
    let mut own = Vec::new();
    for _ in 0..5000 {
        let place = &board[random.below(board.len() as u64) as usize];
        let mut place = place.lock().unwrap_or_else(PoisonError::into_inner);
        match random.below(16) {
            0..6 => *place = Some(filled(pool, any_size(random), random.next())),
            6..10 => own.extend(place.clone()),
            10 => *place = None,
            11 => {
                drop(place);
                let drained = pool.drain_emptiest(1);
                own.retain(|page: &PageRef| {
                    !page.slab().is_some_and(|slab| drained.contains(&slab))
                });
            }
            _ => {
                drop(place);
                if !own.is_empty() {
                    check(&own.swap_remove(random.below(own.len() as u64) as usize));
                }
            }
        }
    }
    own.iter().for_each(check);
}
