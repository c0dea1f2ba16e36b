//! The memory of a database, by its parts, and its division ([`crate::base::memory_plan`]).

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use hedgerow_mem::{CachePadded, ChunkPool};

use crate::base::error::{Error, Result};
use crate::base::memory_plan::{HeldMemory, MemoryPlan, TREE_BYTES};
use crate::base::mutex::lock;
use crate::base::page::PageSlice;
use crate::base::slice::Slice;
use crate::table::page_cache::PageCache;

/// Sums over all tables. Replaced tables count while they are still read.
#[derive(Debug, Default)]
pub(crate) struct TableSums {
    pub(crate) bytes: AtomicU64,
    pub(crate) entries: AtomicU64,
    pub(crate) index_bytes: AtomicU64,
    pub(crate) filter_bytes: AtomicU64,
}

/// The memory of a database: the counts of every part, the page cache, which gets the rest, and the
/// chunks of memtables.
#[derive(Debug)]
pub(crate) struct Memory {
    budget: u64,
    /// The number of open trees.
    trees: AtomicU64,
    pub(crate) cache: PageCache,
    pub(crate) pool: Arc<ChunkPool>,
    /// The bytes of indexes, of filters, and of descriptions of tables.
    pub(crate) indexes: AtomicU64,
    pub(crate) filters: AtomicU64,
    pub(crate) tables: AtomicU64,
    /// The sums over all tables, open or not.
    pub(crate) stored: TableSums,
    /// The bytes of active memtables. Every write changes them.
    pub(crate) active: CachePadded<AtomicU64>,
    /// The bytes of memtables that wait for a flush.
    pub(crate) sealed: AtomicU64,
    /// The bytes that values and cursors keep in memory.
    pub(crate) pinned: Arc<AtomicUsize>,
    /// The number of running flushes and merges, the bytes of their buffers, and these bytes with
    /// the buffers that wait for room in the page cache.
    merging: AtomicUsize,
    merges: AtomicU64,
    claimed: AtomicU64,
    /// False if no write came between the last two divisions.
    writing: AtomicBool,
    /// The memory beside the page cache at the last division, and the active memtables in it.
    balanced: AtomicU64,
    balanced_active: AtomicU64,
    /// Allows one division at a time: an older one must not come last.
    balancing: Mutex<()>,
}

impl Memory {
    pub(crate) fn new(budget: u64) -> Memory {
        let plan = MemoryPlan::new(budget);
        // Small memtables get small chunks, so that an empty one costs little.
        let chunk_bytes = (plan.active() / 16)
            .next_power_of_two()
            .clamp(16 << 10, 2 << 20) as usize;
        Memory {
            budget,
            trees: AtomicU64::new(0),
            cache: PageCache::new(plan.cache_bytes(HeldMemory::default())),
            pool: ChunkPool::new(chunk_bytes, plan.retained() as usize),
            indexes: AtomicU64::new(0),
            filters: AtomicU64::new(0),
            tables: AtomicU64::new(0),
            stored: TableSums::default(),
            active: CachePadded::default(),
            sealed: AtomicU64::new(0),
            pinned: Arc::default(),
            merging: AtomicUsize::new(0),
            merges: AtomicU64::new(0),
            claimed: AtomicU64::new(0),
            writing: AtomicBool::new(false),
            balanced: AtomicU64::new(0),
            balanced_active: AtomicU64::new(0),
            balancing: Mutex::default(),
        }
    }

    /// The shares as they are now.
    pub(crate) fn plan(&self) -> MemoryPlan {
        MemoryPlan::beside(self.trees.load(Ordering::Relaxed), self.budget)
    }

    /// Refuses more trees than five eighths of the budget have room for.
    ///
    /// # Errors
    /// `InvalidArgument`.
    pub(crate) fn check_trees(&self, trees: usize) -> Result<()> {
        let needed = (TREE_BYTES * trees as u64 * 8).div_ceil(5);
        if needed <= self.budget {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "expected a `memory_budget` of at least {needed} bytes for {trees} trees, found {}",
            self.budget
        )))
    }

    /// Sets the number of trees. The page cache makes room for them.
    pub(crate) fn set_trees(&self, trees: usize) {
        if self.trees.swap(trees as u64, Ordering::Relaxed) != trees as u64 {
            self.balance();
        }
    }

    /// Bytes of trees and of descriptions of tables.
    pub(crate) fn described(&self) -> u64 {
        let trees = self.trees.load(Ordering::Relaxed) * TREE_BYTES;
        trees + self.tables.load(Ordering::Relaxed)
    }

    /// Returns true if a filter of `bytes` more may stay in memory beside the indexes, which come
    /// first.
    pub(crate) fn has_room_for_filter(&self, bytes: u64) -> bool {
        let coming = self.stored.index_bytes.load(Ordering::Relaxed);
        let indexes = self.indexes.load(Ordering::Relaxed);
        let indexes = indexes.max(coming.min(self.plan().indexes_first()));
        let held = indexes + self.filters.load(Ordering::Relaxed);
        held.saturating_add(bytes) <= self.plan().resident
    }

    /// Returns true if a filter over several runs of `bytes` more may be built. The last eighth of
    /// the share of such filters is for small ones: every run in a filter saves the same reads,
    /// however small it is.
    pub(crate) fn has_room_for_shared_filter(&self, bytes: u64) -> bool {
        let share = self.plan().rest / 2;
        let of_large = if bytes > share / 8 { share / 8 } else { 0 };
        let filters = self.filters.load(Ordering::Relaxed);
        filters.saturating_add(bytes) <= share - of_large
    }

    /// Returns true if an index of `bytes` more may stay in memory. A small index comes before
    /// filters: it saves as many reads as the filter beside it, and the entropy-coded index has a
    /// twentieth of its bits. Filters come before a large index, for up to half of the share: a
    /// page of an index serves many more keys than a page of a filter, so it is nearly always in
    /// the page cache.
    pub(crate) fn has_room_for_index(&self, bytes: u64) -> bool {
        let indexes = self.indexes.load(Ordering::Relaxed);
        let indexes = indexes.saturating_add(bytes);
        let filters = self.stored.filter_bytes.load(Ordering::Relaxed);
        let left = self.plan().resident - filters.min(self.plan().resident / 2);
        let fits = indexes <= left && self.has_room_for_filter(bytes);
        fits || indexes <= self.plan().indexes_first()
    }

    /// Returns true if the page cache has room for at least half of all tables.
    pub(crate) fn caches_most(&self) -> bool {
        self.stored.bytes.load(Ordering::Relaxed) / 2 <= self.cache.capacity_bytes()
    }

    /// The bits per key with which the filters of all tables fit into memory: the rest that indexes
    /// leave of the share of both, at least half of it. A tenth is left for tables that merges have
    /// replaced and readers still hold.
    pub(crate) fn filter_bits_per_key(&self) -> f64 {
        let share = self.plan().resident;
        let indexes = self.stored.index_bytes.load(Ordering::Relaxed);
        let left = (share - indexes.min(share / 2)) as f64 * 0.9;
        8.0 * left / self.stored.entries.load(Ordering::Relaxed).max(1) as f64
    }

    /// The used part of the memory of memtables, sealed and active ones together. At 1 there is no
    /// room for another write.
    pub(crate) fn memtables_fill(&self) -> f64 {
        let used = self.sealed.load(Ordering::Relaxed) + self.active.load(Ordering::Relaxed);
        used as f64 / self.plan().memtables as f64
    }

    /// Adds `bytes` to the active memtables, here and for their keyspace.
    #[inline]
    pub(crate) fn add_active(&self, of_keyspace: &AtomicU64, bytes: u64) {
        self.active.fetch_add(bytes, Ordering::Relaxed);
        of_keyspace.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Subtracts a memtable of `bytes` bytes that is not active any more.
    pub(crate) fn remove_active(&self, of_keyspace: &AtomicU64, bytes: u64) {
        self.active.fetch_sub(bytes, Ordering::Relaxed);
        of_keyspace.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Reports that a write begins. Returns true if the memory must be divided again for it.
    #[inline]
    pub(crate) fn begin_writing(&self) -> bool {
        !self.writing.load(Ordering::Relaxed) && !self.writing.swap(true, Ordering::Relaxed)
    }

    /// Returns true if there are writes, or were a moment ago.
    pub(crate) fn is_being_written(&self) -> bool {
        self.writing.load(Ordering::Relaxed)
    }

    /// Reports that pins, indexes, filters or buffers have changed. Checks memtables, too: while
    /// all threads merge, nobody else notices their growth.
    #[inline]
    pub(crate) fn note(&self) {
        let held = self.others() + self.pool.held_bytes() as u64;
        if held.abs_diff(self.balanced.load(Ordering::Relaxed)) > self.plan().step() {
            self.balance();
        }
    }

    fn others(&self) -> u64 {
        let merges = self.claimed.load(Ordering::Relaxed);
        let share = match self.merging.load(Ordering::Relaxed) {
            0 => 0,
            _ => self.plan().merges,
        };
        merges.max(share)
            + self.pinned.load(Ordering::Relaxed) as u64
            + self.indexes.load(Ordering::Relaxed)
            + self.filters.load(Ordering::Relaxed)
            + self.described()
    }

    /// Gives the page cache the memory that the others leave.
    pub(crate) fn balance(&self) {
        let _one = lock(&self.balancing);
        let others = self.others();
        let memtables = self.pool.held_bytes() as u64;
        let active = self.active.load(Ordering::Relaxed);
        let sealed = self.sealed.load(Ordering::Relaxed);
        self.balanced.store(others + memtables, Ordering::Relaxed);
        let active_before = self.balanced_active.swap(active, Ordering::Relaxed);
        let merging = self.merging.load(Ordering::Relaxed) > 0;
        if sealed == 0 && !merging && active == active_before {
            self.writing.store(false, Ordering::Relaxed);
            self.pool.release_retained();
        }
        self.cache
            .set_capacity_bytes(self.plan().cache_bytes(HeldMemory {
                others,
                memtables,
                first_chunks: self.trees.load(Ordering::Relaxed) * ChunkPool::SMALLEST_BYTES as u64,
                retained: self.pool.retained_bytes() as u64,
                active,
                writing: self.writing.load(Ordering::Relaxed),
            }));
    }

    /// The bytes of a page for the user: copied when short; otherwise the page is pinned.
    pub(crate) fn slice(&self, bytes: PageSlice) -> Slice {
        let pins = Slice::pins(&bytes);
        let slice = Slice::from_page(bytes, &self.pinned);
        if pins {
            self.note();
        }
        slice
    }

    /// The bytes of the buffers of flushes and merges.
    pub(crate) fn merge_bytes(&self) -> u64 {
        self.merges.load(Ordering::Relaxed)
    }

    /// The buffers of a flush or merge. They count until they are dropped.
    pub(crate) fn buffers(&self, bytes: usize) -> Buffers<'_> {
        let mut buffers = Buffers {
            memory: self,
            bytes: 0,
        };
        buffers.resize(bytes);
        buffers
    }

    /// Reserves memory for a flush or a merge until the guard is dropped.
    pub(crate) fn merge(&self) -> MergeMemory<'_> {
        self.merging.fetch_add(1, Ordering::Relaxed);
        self.balance();
        MergeMemory(self)
    }
}

/// Memory that a flush or merge uses.
#[derive(Debug)]
pub(crate) struct Buffers<'a> {
    memory: &'a Memory,
    bytes: usize,
}

impl Buffers<'_> {
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Announces `bytes` bytes: the page cache makes room before they count.
    pub(crate) fn resize(&mut self, bytes: usize) {
        let memory = self.memory;
        let more = bytes.saturating_sub(self.bytes) as u64;
        memory.claimed.fetch_add(more, Ordering::Relaxed);
        memory.note();
        memory.merges.fetch_add(more, Ordering::Relaxed);
        let less = self.bytes.saturating_sub(bytes) as u64;
        memory.merges.fetch_sub(less, Ordering::Relaxed);
        memory.claimed.fetch_sub(less, Ordering::Relaxed);
        self.bytes = bytes;
    }
}

impl Drop for Buffers<'_> {
    fn drop(&mut self) {
        self.resize(0);
    }
}

/// A share of the memory budget for one flush or merge.
pub(crate) struct MergeMemory<'a>(&'a Memory);

impl Drop for MergeMemory<'_> {
    fn drop(&mut self) {
        self.0.merging.fetch_sub(1, Ordering::Relaxed);
        self.0.balance();
    }
}

#[cfg(test)]
mod tests {
    use hedgerow_mem::OrderedMap;

    use super::*;

    #[test]
    fn chunks_that_are_kept_count_also_when_nobody_writes() {
        let memory = Memory::new(64 << 20);
        let fill = || {
            let map = OrderedMap::new(memory.pool.clone());
            for i in 0..4000u64 {
                map.insert(&i.to_be_bytes(), i, 0, &[7; 1000]);
            }
            map
        };
        let map = fill();
        let _merge = memory.merge();
        let (held, capacity) = (
            memory.pool.held_bytes() as u64,
            memory.cache.capacity_bytes(),
        );
        drop(map);
        memory.balance();
        let kept = memory.pool.retained_bytes() as u64;
        assert!(kept > 0);
        let room = memory.cache.capacity_bytes() - capacity;
        assert_eq!(room + kept, held);
    }

    #[test]
    fn the_page_cache_borrows_from_memtables_while_nobody_writes() {
        let memory = Memory::new(64 << 20);
        let capacity = || memory.cache.capacity_bytes();
        memory.balance();
        let idle = capacity();
        assert!(memory.begin_writing());
        assert!(!memory.begin_writing());
        memory.active.store(100, Ordering::Relaxed);
        memory.balance();
        let lent = memory.plan().active() - 100 + memory.plan().retained();
        assert_eq!(idle - capacity(), lent);
        memory.balance();
        assert_eq!(capacity(), idle, "nothing was written in between");
    }
}
