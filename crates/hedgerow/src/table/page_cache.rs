//! The cache of pages, shared by all tables of a database. Its capacity in bytes is the rest of the
//! memory budget.
//!
//! It is a hash table of small sets. Each set fills one cache line and has a lock of its own in it.
//! A hit touches that line and the page, whose name confirms it. A clock evicts pages, and its hand
//! goes round the sets. A page that was hit since the hand last passed stays, up to three rounds
//! for three hits. A page without a hit, as in a long scan, goes first.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use hedgerow_mem::{PageMut, PagePool};

use crate::base::page::{Page, PageId, TableId};

/// The pages that a set holds without more memory: as many as fit a cache line.
const WAYS: usize = 5;
/// The number of sets is chosen so that each has 3 pages with blocks of this size.
const SET_BYTES: u64 = 3 * 4096;
/// The largest slab: a huge page.
const SLAB_BYTES_MAX: u64 = 2 << 20;
/// The number of slabs kept beyond the capacity: one slab of each page size may be half empty.
const SPARE_SLABS: usize = 4;

/// The part of the capacity that removed tables' pages may have before they are searched for. The
/// search costs a miss of the processor's caches for every cached page.
const GONE_PART: u64 = 16;

/// The low bits of a page's mark distinguish it from most other pages of its set. The high bits
/// count hits.
const TAG_BITS: u32 = 6;
const HITS_MAX: u8 = 3;

/// The pages that were read, by table and offset.
pub(crate) struct PageCache {
    sets: Box<[Line]>,
    pool: PagePool,
    /// The next set to evict from.
    hand: AtomicUsize,
    /// The bytes of memory of the cached pages.
    held_bytes: AtomicU64,
    capacity_bytes: AtomicU64,
    /// The tables whose pages are of no use any more.
    gone: Mutex<DeadTables>,
}

#[derive(Default)]
struct DeadTables {
    tables: Vec<TableId>,
    bytes: u64,
}

/// A set at the beginning of a cache line. An allocator alone would not align it.
#[derive(Default)]
#[repr(align(64))]
struct Line(Mutex<Set>);

#[derive(Default)]
struct Set {
    ways: [Option<Page>; WAYS],
    more: Option<Box<More>>,
    marks: [u8; WAYS],
}

/// The pages that a set has no way for. They are many if blocks are small.
#[derive(Default)]
struct More(Vec<(u8, Option<Page>)>);

#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
const _: () = assert!(size_of::<Line>() == 64, "a set fills a cache line");

impl PageCache {
    /// A cache that never holds more than `capacity_bytes_max`. This is also its first capacity.
    pub(crate) fn new(capacity_bytes_max: u64) -> PageCache {
        let sets = capacity_bytes_max.div_ceil(SET_BYTES).max(16);
        let slab_bytes = (capacity_bytes_max / 128).next_power_of_two();
        let mut lines = Vec::with_capacity(sets as usize);
        hedgerow_mem::prefer_huge_pages(lines.spare_capacity_mut());
        lines.resize_with(sets as usize, Line::default);
        PageCache {
            sets: lines.into_boxed_slice(),
            pool: PagePool::new(slab_bytes.clamp(64 << 10, SLAB_BYTES_MAX) as usize),
            hand: AtomicUsize::new(0),
            held_bytes: AtomicU64::new(0),
            capacity_bytes: AtomicU64::new(capacity_bytes_max),
            gone: Mutex::default(),
        }
    }

    /// Returns a cached page. Cost: the lock of one set.
    #[inline]
    pub(crate) fn get(&self, id: PageId) -> Option<Page> {
        let (set, tag) = self.place(id);
        lock(set).hit(tag, id)
    }

    /// Returns a cached page, and does not count that as a use of it.
    pub(crate) fn peek(&self, id: PageId) -> Option<Page> {
        let (set, tag) = self.place(id);
        lock(set).find(tag, id).map(|(_, page)| page.clone())
    }

    /// Allocates memory for a page to be read, and evicts other pages for it.
    pub(crate) fn allocate(&self, bytes: usize) -> PageMut {
        self.evict_down_to(self.capacity_bytes().saturating_sub(bytes as u64));
        self.pool.allocate(bytes, || {
            if self.spare_slabs() >= SPARE_SLABS {
                self.give_back_slabs(1);
            }
        })
    }

    /// Prefetches the set that may hold the page.
    #[inline]
    pub(crate) fn prefetch_set(&self, id: PageId) {
        hedgerow_mem::prefetch(self.place(id).0);
    }

    /// Prefetches the front of a cached page. Cost: the lock of one set.
    #[inline]
    pub(crate) fn prefetch_page(&self, id: PageId) {
        let (set, tag) = self.place(id);
        for (mark, way) in lock(set).pages() {
            if has_tag(*mark, tag)
                && let Some(page) = way
            {
                page.prefetched();
            }
        }
    }

    pub(crate) fn insert(&self, id: PageId, page: &Page) {
        let (set, tag) = self.place(id);
        let mut set = lock(set);
        // Two readers may have missed the page at the same time.
        if set.hit(tag, id).is_none() {
            set.add(tag, page.clone());
            let bytes = page.memory_bytes() as u64;
            self.held_bytes.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    /// Returns true if `bytes` more bytes of pages fit without an eviction.
    pub(crate) fn has_room(&self, bytes: u64) -> bool {
        self.held_bytes.load(Ordering::Relaxed) + bytes <= self.capacity_bytes()
    }

    /// Returns true if background work is to call [`prepare_slab`](Self::prepare_slab).
    pub(crate) fn take_shortage(&self) -> bool {
        self.pool.take_shortage()
    }

    /// Has the memory for the next pages in huge pages before it is needed. In fragmented memory
    /// the system takes milliseconds to find one.
    pub(crate) fn prepare_slab(&self) {
        if self.has_room(self.pool.slab_bytes() as u64) {
            self.pool.prepare_slab();
        }
    }

    /// Reports tables, of `bytes` bytes together, whose pages nobody will read again. The pages are
    /// dropped when they may be numerous enough to justify a search of every page.
    pub(crate) fn forget(&self, tables: impl IntoIterator<Item = TableId>, bytes: u64) {
        let mut gone = self.gone.lock().unwrap_or_else(PoisonError::into_inner);
        gone.tables.extend(tables);
        gone.bytes += bytes;
        if gone.bytes < self.capacity_bytes() / GONE_PART {
            return;
        }
        let DeadTables { mut tables, .. } = std::mem::take(&mut *gone);
        drop(gone);
        tables.sort_unstable();
        for set in 0..self.sets.len() {
            self.drop_where(set, |_, page| tables.binary_search(&page.table()).is_ok());
        }
    }

    /// Sets the capacity and evicts the pages that do not fit any more.
    pub(crate) fn set_capacity_bytes(&self, bytes: u64) {
        self.capacity_bytes.store(bytes, Ordering::Relaxed);
        let spare = self.spare_slabs();
        if spare > SPARE_SLABS {
            self.give_back_slabs(spare);
        }
        self.evict_down_to(self.capacity_bytes());
    }

    /// The bytes of the cached pages and of the cache itself.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let own = size_of_val(&*self.sets) + self.pool.prepared_bytes();
        self.held_bytes.load(Ordering::Relaxed) + own as u64
    }

    pub(crate) fn capacity_bytes(&self) -> u64 {
        let pages = self.capacity_bytes.load(Ordering::Relaxed);
        pages.saturating_sub(size_of_val(&*self.sets) as u64)
    }

    fn place(&self, id: PageId) -> (&Line, u8) {
        let hash = hash(id);
        let set = (u128::from(hash) * self.sets.len() as u128) >> 64;
        let tag = hash & ((1 << TAG_BITS) - 1);
        (&self.sets[set as usize], tag as u8)
    }

    fn evict_down_to(&self, bytes: u64) {
        // A page that is hit all the time is evicted after this many rounds.
        let rounds = usize::from(HITS_MAX) + 1;
        for _ in 0..rounds * self.sets.len() {
            if self.held_bytes.load(Ordering::Relaxed) <= bytes {
                return;
            }
            let hand = self.hand.fetch_add(1, Ordering::Relaxed) % self.sets.len();
            self.drop_where(hand, |mark, _| {
                let evict = *mark >> TAG_BITS == 0;
                *mark = mark.saturating_sub(1 << TAG_BITS);
                evict
            });
        }
    }

    /// The number of slabs that the pages would not need if they were packed.
    fn spare_slabs(&self) -> usize {
        let needed = self
            .capacity_bytes()
            .div_ceil(self.pool.slab_bytes() as u64);
        self.pool.slabs().saturating_sub(needed as usize)
    }

    /// Evicts all pages of the `count` slabs with the fewest pages. Other owners of these pages
    /// keep them.
    #[cold]
    fn give_back_slabs(&self, count: usize) {
        let drained = self.pool.drain_emptiest(count);
        for set in 0..self.sets.len() {
            self.drop_where(set, |_, page| {
                page.slab()
                    .is_some_and(|slab| drained.binary_search(&slab).is_ok())
            });
        }
    }

    fn drop_where(&self, set: usize, mut condition: impl FnMut(&mut u8, &Page) -> bool) {
        let mut set = lock(&self.sets[set]);
        for (mark, way) in set.pages() {
            if way.as_ref().is_some_and(|page| condition(mark, page))
                && let Some(page) = way.take()
            {
                let bytes = page.memory_bytes() as u64;
                self.held_bytes.fetch_sub(bytes, Ordering::Relaxed);
            }
        }
        set.forget_empty();
    }
}

impl Set {
    fn pages(&mut self) -> impl Iterator<Item = (&mut u8, &mut Option<Page>)> {
        let more = self.more.iter_mut().flat_map(|more| &mut more.0);
        let ways = self.marks.iter_mut().zip(&mut self.ways);
        ways.chain(more.map(|(mark, page)| (mark, page)))
    }

    #[inline]
    fn find(&mut self, tag: u8, id: PageId) -> Option<(&mut u8, &Page)> {
        for (mark, way) in self.pages() {
            if has_tag(*mark, tag)
                && let Some(page) = way
                && page.prefetched().is(id)
            {
                return Some((mark, page));
            }
        }
        None
    }

    #[inline]
    fn hit(&mut self, tag: u8, id: PageId) -> Option<Page> {
        let (mark, page) = self.find(tag, id)?;
        if *mark >> TAG_BITS < HITS_MAX {
            *mark += 1 << TAG_BITS;
        }
        Some(page.clone())
    }

    fn add(&mut self, tag: u8, page: Page) {
        if let Some((mark, way)) = self.pages().find(|(_, way)| way.is_none()) {
            *mark = tag;
            *way = Some(page);
            return;
        }
        let more = self.more.get_or_insert_default();
        more.0.push((tag, Some(page)));
    }

    fn forget_empty(&mut self) {
        if let Some(more) = &mut self.more {
            more.0.retain(|(_, page)| page.is_some());
            if more.0.is_empty() {
                self.more = None;
            }
        }
    }
}

fn has_tag(mark: u8, tag: u8) -> bool {
    mark & ((1 << TAG_BITS) - 1) == tag
}

/// Mixes two numbers by multiplications. The result is the same in every process, so that a
/// simulated run always evicts the same pages.
fn hash(id: PageId) -> u64 {
    let [table, offset] = id.name();
    let mixed = table.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ offset;
    let mixed = (mixed ^ (mixed >> 32)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    (mixed ^ (mixed >> 32)).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

fn lock(line: &Line) -> MutexGuard<'_, Set> {
    line.0.lock().unwrap_or_else(PoisonError::into_inner)
}

impl std::fmt::Debug for PageCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PageCache")
            .field("memory_bytes", &self.memory_bytes())
            .field("capacity_bytes", &self.capacity_bytes)
            .field("pool", &self.pool)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::page::{Handle, PageClass};

    fn id(table: u64, number: u64) -> PageId {
        PageId {
            table: TableId(table),
            handle: Handle {
                offset: number * 4000,
                bytes: 4000,
            },
            class: PageClass::Data,
        }
    }

    fn read(cache: &PageCache, id: PageId, bytes: usize) -> bool {
        if let Some(page) = cache.get(id) {
            assert_eq!(page[0], id.handle.offset as u8);
            return true;
        }
        let mut page = cache.allocate(bytes);
        page.fill(id.handle.offset as u8);
        cache.insert(id, &Page::of_table(page, id));
        false
    }

    #[test]
    fn capacity_is_kept_for_pages_of_any_size_and_by_slabs_too() {
        for bytes in [100, 600, 4000, 4056, 4100, 8000, 30_000, 70_000] {
            let cache = PageCache::new(8 << 20);
            for i in 0..(12 << 20) / bytes as u64 {
                read(&cache, id(i % 3, i), bytes);
                assert!(cache.memory_bytes() <= 8 << 20, "pages of {bytes}");
            }
            let least = (8 << 20) / 16 * 15 - 2 * bytes as u64;
            assert!(cache.memory_bytes() >= least, "pages of {bytes}: {cache:?}");
            assert!(
                cache.pool.slabs() * cache.pool.slab_bytes() <= (8 << 20) + (256 << 10),
                "{cache:?}"
            );
        }
    }

    #[test]
    fn slabs_of_one_size_make_room_for_another() {
        let cache = PageCache::new(8 << 20);
        for round in 0..6 {
            for i in 0..10_000 {
                read(
                    &cache,
                    id(round, i),
                    [4000, 16_000, 8000][round as usize % 3],
                );
            }
            assert!(cache.memory_bytes() <= 8 << 20);
            assert!(
                cache.pool.slabs() * cache.pool.slab_bytes() <= (8 << 20) + (256 << 10),
                "{cache:?}"
            );
        }
    }

    #[test]
    fn a_smaller_capacity_gives_slabs_back_and_a_pinned_page_stays_readable() {
        let cache = PageCache::new(8 << 20);
        for i in 0..3000 {
            read(&cache, id(1, i), 4000);
        }
        read(&cache, id(2, 7), 4000);
        let pinned = cache.get(id(2, 7)).unwrap();
        cache.set_capacity_bytes(1 << 20);
        assert!(cache.memory_bytes() <= 1 << 20);
        assert!(
            cache.pool.slabs() * cache.pool.slab_bytes() <= (1 << 20) + (256 << 10),
            "{cache:?}"
        );
        for i in 0..3000 {
            read(&cache, id(3, i), 4000);
        }
        assert!(pinned.iter().all(|&byte| byte == 28_000_u64 as u8));
        drop(cache);
        assert_eq!(pinned.len(), 4000);
    }

    #[test]
    fn pages_of_removed_tables_leave_their_room_to_others() {
        let cache = PageCache::new(4 << 20);
        for table in 1..4 {
            (0..200).for_each(|i| _ = read(&cache, id(table, i), 4000));
        }
        let full = cache.memory_bytes();
        cache.forget([TableId(1)], 1000);
        assert_eq!(cache.memory_bytes(), full, "too few to look for");
        cache.forget([TableId(3)], 800_000);
        assert!(cache.memory_bytes() <= full - 2 * 200 * 4000);
        for i in 0..200 {
            assert!(cache.get(id(1, i)).is_none() && cache.get(id(3, i)).is_none());
            assert!(cache.get(id(2, i)).is_some());
        }
    }

    #[test]
    fn pages_that_are_hit_survive_a_scan() {
        let cache = PageCache::new(4 << 20);
        for _ in 0..4 {
            (0..200).for_each(|i| _ = read(&cache, id(1, i), 4000));
        }
        (0..1500).for_each(|i| _ = read(&cache, id(2, i), 4000));
        let hits = (0..200).filter(|&i| cache.get(id(1, i)).is_some()).count();
        assert_eq!(hits, 200);
    }
}
