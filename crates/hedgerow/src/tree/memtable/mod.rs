//! Memtables: the newest writes of one partition, in memory, in the order of tables.
//!
//! A partition has one active memtable and some sealed ones waiting to be flushed. The commit's
//! critical section chooses the memtable of a write. So every entry of a sealed memtable is
//! numbered below its seal, and every entry of a newer one at or above it.

mod memtable_iter;

pub(crate) use memtable_iter::MemtableIter;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use hedgerow_mem::{Approach, CachePadded, ChunkPool, OrderedMap};

use crate::base::entry::{LogPosition, SeqNo, Tag};

/// Smaller memtables are mostly in the cache of the processor that writes to them.
const FAR_BYTES: u64 = 2 << 20;

/// One memtable. Before the first announcement it takes some words and no memory of the pool, since
/// there are as many memtables as trees.
pub(crate) struct Memtable {
    pool: Arc<ChunkPool>,
    contents: OnceLock<Box<Contents>>,
    /// The first number of the next memtable.
    sealed_at: OnceLock<SeqNo>,
}

struct Contents {
    map: Arc<OrderedMap>,
    /// Written by every commit, while others insert.
    announced: CachePadded<CommitSums>,
}

/// The sums of what commits have announced, in the map or not yet. Stored inside the critical
/// section.
#[derive(Default)]
struct CommitSums {
    entries: AtomicU64,
    bytes: AtomicU64,
    /// The end of the newest log record with an entry in this memtable, packed.
    log_end: AtomicU64,
}

impl Memtable {
    pub(crate) fn new(pool: &Arc<ChunkPool>) -> Arc<Memtable> {
        Arc::new(Memtable {
            pool: pool.clone(),
            contents: OnceLock::new(),
            sealed_at: OnceLock::new(),
        })
    }

    /// Announces an entry of a record that ends at `log_end`. Inside the commit's critical section.
    pub(crate) fn reserve(&self, bytes: usize, log_end: LogPosition) {
        let contents = self.contents.get_or_init(|| {
            Box::new(Contents {
                map: Arc::new(OrderedMap::new(self.pool.clone())),
                announced: CachePadded::default(),
            })
        });
        let announced = &contents.announced;
        let add = |sum: &AtomicU64, n| {
            sum.store(sum.load(Ordering::Relaxed) + n, Ordering::Relaxed);
        };
        add(&announced.entries, 1);
        add(&announced.bytes, bytes as u64);
        announced.log_end.store(log_end.packed(), Ordering::Relaxed);
    }

    fn map(&self) -> Option<&Arc<OrderedMap>> {
        self.contents.get().map(|contents| &contents.map)
    }

    /// A number of the announcements; 0 if there are none.
    #[inline]
    fn announced(&self, number: impl FnOnce(&CommitSums) -> &AtomicU64) -> u64 {
        let contents = self.contents.get();
        contents.map_or(0, |it| number(&it.announced).load(Ordering::Relaxed))
    }

    /// Begins the search for the place of a key, if its path leads through memory that no cache of
    /// the processor holds.
    pub(crate) fn approach<'a>(&'a self, order_key: &'a [u8]) -> Option<Approach<'a>> {
        let is_far = self.reserved_bytes() >= FAR_BYTES;
        let map = self.map().filter(|_| is_far);
        map.map(|map| map.approach(order_key))
    }

    /// Adds an entry that was announced.
    pub(crate) fn insert(&self, order_key: &[u8], seqno: SeqNo, tag: Tag, value: &[u8]) {
        let map = self.map().expect("an entry is announced first");
        map.insert(order_key, seqno.0, tag.to_bits(), value);
    }

    /// The newest version of a key numbered at most `seqno`.
    pub(crate) fn get(&self, order_key: &[u8], seqno: SeqNo) -> Option<(SeqNo, Tag, &[u8])> {
        let found = self.map()?.get(order_key, seqno.0)?;
        let tag = Tag::from_bits(found.tag).expect("the memtable holds the tags it was given");
        Some((SeqNo(found.seqno), tag, found.value))
    }

    pub(crate) fn iter(&self) -> MemtableIter {
        MemtableIter::new(self.map().map(OrderedMap::cursor))
    }

    /// Seals the memtable: no more entries are announced, and numbers from `at` on go to the next
    /// one.
    pub(crate) fn seal(&self, at: SeqNo) {
        self.sealed_at.set(at).expect("a memtable is sealed once");
    }

    pub(crate) fn sealed_at(&self) -> Option<SeqNo> {
        self.sealed_at.get().copied()
    }

    /// The position up to which the log must be durable before tables of this memtable are
    /// installed. Otherwise a crash could keep the tables and lose commits that came before.
    pub(crate) fn log_end(&self) -> LogPosition {
        LogPosition::unpacked(self.announced(|it| &it.log_end))
    }

    /// The bytes announced, which the flush threshold uses.
    pub(crate) fn reserved_bytes(&self) -> u64 {
        self.announced(|it| &it.bytes)
    }

    /// Returns true if nothing was ever announced.
    pub(crate) fn is_empty(&self) -> bool {
        self.reserved_bytes() == 0
    }

    /// The bytes of memory held.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.map().map_or(0, |map| map.memory_bytes())
    }

    /// The number of entries announced.
    pub(crate) fn entries(&self) -> u64 {
        self.announced(|it| &it.entries)
    }
}
