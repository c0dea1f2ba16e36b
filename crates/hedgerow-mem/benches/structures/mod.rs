//! The candidate structures for a memtable behind one interface.

mod binary_tree;
mod pieces;
mod skiplist;

use std::cmp::Reverse;
use std::ops::Bound;
use std::sync::Arc;

use crossbeam_skiplist::SkipMap;
use hedgerow_mem::OrderedMap;

use crate::arena::Arena;
use crate::entry::Position;
use crate::pool::ChunkPool;
pub(crate) use binary_tree::BinaryTree;
pub(crate) use pieces::Pieces;

/// A structure under measurement. Keys are unique, so reads ask for the newest version.
pub(crate) trait Structure: Sized + Sync {
    const NAME: &'static str;
    /// True if a fill in order takes quadratic time.
    const DEGENERATES: bool = false;
    fn new(pools: &Pools) -> Self;
    fn insert(&self, key: &[u8], seqno: u64, value: &[u8]);
    /// Returns the value's length, so that the entry is read.
    fn get(&self, key: &[u8]) -> Option<usize>;
    /// Reads up to `count` entries from `key` on. Returns the sum of their values' lengths.
    fn scan(&self, key: &[u8], count: usize) -> usize;
    fn memory_bytes(&self) -> usize;
}

/// One pool for the library's own type, one for the structures built from its source.
pub(crate) struct Pools {
    pub(crate) of_library: Arc<hedgerow_mem::ChunkPool>,
    pub(crate) of_bench: Arc<ChunkPool>,
    /// The pool with chunks small enough that a piece wastes little.
    pub(crate) of_pieces: Arc<ChunkPool>,
}

/// The production structure.
pub(crate) struct BLinkTree(Arc<OrderedMap>);

impl Structure for BLinkTree {
    const NAME: &'static str = "B-link tree";

    fn new(pools: &Pools) -> Self {
        Self(Arc::new(OrderedMap::new(Arc::clone(&pools.of_library))))
    }

    fn insert(&self, key: &[u8], seqno: u64, value: &[u8]) {
        self.0.insert(key, seqno, 1, value);
    }

    fn get(&self, key: &[u8]) -> Option<usize> {
        self.0.get(key, u64::MAX).map(|entry| entry.value.len())
    }

    fn scan(&self, key: &[u8], count: usize) -> usize {
        let mut cursor = self.0.cursor();
        cursor.seek(key, u64::MAX);
        let mut sum = 0;
        for _ in 0..count {
            let Some(entry) = cursor.entry() else { break };
            sum += entry.value.len();
            cursor.advance();
        }
        sum
    }

    fn memory_bytes(&self) -> usize {
        self.0.memory_bytes()
    }
}

/// A skip list in the same arena.
pub(crate) struct SkipList(skiplist::List);

impl Structure for SkipList {
    const NAME: &'static str = "arena skip list";

    fn new(pools: &Pools) -> Self {
        Self(skiplist::List::new(Arena::new(Arc::clone(&pools.of_bench))))
    }

    fn insert(&self, key: &[u8], seqno: u64, value: &[u8]) {
        self.0.insert(key, seqno, 1, value);
    }

    fn get(&self, key: &[u8]) -> Option<usize> {
        let entry = self
            .0
            .find(&Position {
                key,
                seqno: u64::MAX,
            })
            .1?
            .entry()
            .get();
        (entry.key == key).then_some(entry.value.len())
    }

    fn scan(&self, key: &[u8], count: usize) -> usize {
        let mut at = self
            .0
            .find(&Position {
                key,
                seqno: u64::MAX,
            })
            .1;
        let mut sum = 0;
        for _ in 0..count {
            let Some(node) = at else { break };
            sum += node.entry().get().value.len();
            at = node.next(0);
        }
        sum
    }

    fn memory_bytes(&self) -> usize {
        self.0.arena().bytes()
    }
}

/// The skip list of the crossbeam project. Keys and values are allocations of their own. A lookup
/// has to allocate its key.
pub(crate) struct Crossbeam(SkipMap<Place, Box<[u8]>>);

type Place = (Box<[u8]>, Reverse<u64>);

impl Structure for Crossbeam {
    const NAME: &'static str = "crossbeam-skiplist";

    fn new(_: &Pools) -> Self {
        Self(SkipMap::new())
    }

    fn insert(&self, key: &[u8], seqno: u64, value: &[u8]) {
        self.0.insert((key.into(), Reverse(seqno)), value.into());
    }

    fn get(&self, key: &[u8]) -> Option<usize> {
        let entry = self
            .0
            .lower_bound(Bound::Included(&(key.into(), Reverse(u64::MAX))))?;
        (*entry.key().0 == *key).then(|| entry.value().len())
    }

    fn scan(&self, key: &[u8], count: usize) -> usize {
        let from = (key.into(), Reverse(u64::MAX));
        self.0
            .range(from..)
            .take(count)
            .map(|entry| entry.value().len())
            .sum()
    }

    fn memory_bytes(&self) -> usize {
        0
    }
}
