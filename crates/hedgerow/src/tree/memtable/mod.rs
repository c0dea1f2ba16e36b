//! Memtables: the newest writes of one partition, in memory, in the order of tables.
//!
//! A partition has one active memtable and some sealed ones waiting to be flushed. The commit's
//! critical section chooses the memtable of a write. So every entry of a sealed memtable is
//! numbered below its seal, and every entry of a newer one at or above it.

mod memtable_iter;
mod range_stack;

pub(crate) use memtable_iter::MemtableIter;
pub(crate) use range_stack::RangeLists;

use std::borrow::Cow;
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use hedgerow_mem::{Approach, CachePadded, ChunkPool, EntryRef, OrderedMap};

use crate::base::entry::{ENTRY_OVERHEAD_BYTES, LogPosition, SeqNo, Tag};
use crate::base::range_tombstones::RangeTombstones;
use range_stack::RangeStack;

/// Smaller memtables are mostly in the cache of the processor that writes to them.
const FAR_BYTES: u64 = 2 << 20;

/// The number of entries of a range up to which they are counted one by one.
const COUNTED_MAX: usize = 512;
/// A memtable is flushed when its range tombstones have this many deletes in all fragments. Each
/// takes tens of bytes, and every search passes those of one fragment.
pub(crate) const RANGES_MAX: u64 = 10_000;

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
    /// The range deletes, from the first one on.
    ranges: OnceLock<Box<RangeStack>>,
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
    /// Counted by the commits of deletes, outside of the critical section.
    tombstones: AtomicU64,
}

impl Contents {
    /// The newest version of a key of what the map has found up to `seqno` and the range deletes.
    #[inline]
    fn newest<'a>(
        &'a self,
        order_key: &[u8],
        seqno: SeqNo,
        found: Option<EntryRef<'a>>,
    ) -> Option<(SeqNo, Tag, &'a [u8])> {
        // Asked after the map: a delete that is found then is newer than the entry, or the entry is
        // newer than the delete.
        if let Some(ranges) = self.ranges.get() {
            let deleted = ranges.newest(order_key, seqno);
            let is_newer = |at: &SeqNo| found.as_ref().is_none_or(|it| at.0 >= it.seqno);
            if let Some(at) = deleted.filter(is_newer) {
                return Some((at, Tag::RANGE_DELETE, b""));
            }
        }
        let found = found?;
        let tag = Tag::from_bits(found.tag).expect("the memtable holds the tags it was given");
        Some((SeqNo(found.seqno), tag, found.value))
    }
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
    #[inline]
    pub(crate) fn reserve(&self, bytes: usize, log_end: LogPosition) {
        let contents = self.contents.get_or_init(|| {
            Box::new(Contents {
                map: Arc::new(OrderedMap::new(self.pool.clone())),
                ranges: OnceLock::new(),
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

    /// Returns true if the path to a key leads through memory that no cache of the processor holds.
    #[inline]
    pub(crate) fn is_far(&self) -> bool {
        // Unlike the announced bytes, this number changes with chunks only: no other writer takes
        // its cache line away.
        let map = self.map();
        map.is_some_and(|map| map.memory_bytes() as u64 >= FAR_BYTES)
    }

    /// Begins the search for the place of an entry that was announced.
    pub(crate) fn approach<'a>(&'a self, order_key: &'a [u8], seqno: SeqNo) -> Approach<'a> {
        self.announced_map().approach(order_key, seqno.0)
    }

    fn announced_map(&self) -> &OrderedMap {
        self.map().expect("an entry is announced first")
    }

    /// Adds an entry that was announced.
    pub(crate) fn insert(&self, order_key: &[u8], seqno: SeqNo, tag: Tag, value: &[u8]) {
        let map = self.announced_map();
        map.insert(order_key, seqno.0, tag.to_bits(), value);
    }

    /// Adds an entry that was announced. `make` tells its tag and value, and gets the newest older
    /// version of the key, as [`get`](Self::get) gives it. Everything with a smaller number must be
    /// in the memtable.
    pub(crate) fn insert_over<'v>(
        &self,
        order_key: &[u8],
        seqno: SeqNo,
        make: impl FnOnce(Option<(SeqNo, Tag, &[u8])>) -> (Tag, Cow<'v, [u8]>),
    ) {
        let contents = self.contents.get().expect("an entry is announced first");
        contents.map.insert_over(order_key, seqno.0, |found| {
            let older = contents.newest(order_key, SeqNo(seqno.0 - 1), found);
            let (tag, value) = make(older);
            (tag.to_bits(), value)
        });
    }

    /// Adds a range delete that was announced. Returns the number of deletes in all fragments.
    pub(crate) fn delete_range(&self, delete: RangeTombstones) -> u64 {
        let contents = self.contents.get().expect("an entry is announced first");
        contents.ranges.get_or_init(Box::default).add(delete)
    }

    /// The newest version of a key numbered at most `seqno`. If a range delete is newer, its number
    /// with the tag [`Tag::RANGE_DELETE`].
    pub(crate) fn get(&self, order_key: &[u8], seqno: SeqNo) -> Option<(SeqNo, Tag, &[u8])> {
        let contents = self.contents.get()?;
        let found = contents.map.get(order_key, seqno.0);
        contents.newest(order_key, seqno, found)
    }

    /// Returns true if there is a range delete.
    pub(crate) fn has_ranges(&self) -> bool {
        let contents = self.contents.get();
        contents.is_some_and(|it| it.ranges.get().is_some())
    }

    /// The range deletes so far.
    pub(crate) fn range_lists(&self) -> Arc<RangeLists> {
        let ranges = self.contents.get().and_then(|it| it.ranges.get());
        ranges.map_or_else(Arc::default, |it| it.lists())
    }

    /// A number that no entry exceeds.
    pub(crate) fn largest_seqno(&self) -> SeqNo {
        self.sealed_at().map_or(SeqNo::MAX, |at| SeqNo(at.0 - 1))
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

    /// Estimates the number of entries between bounds of order keys, and the bytes of their keys
    /// and values. A few are counted; of more, the nodes of the map tell the share.
    pub(crate) fn estimate_within(&self, bounds: &(Bound<Vec<u8>>, Bound<Vec<u8>>)) -> (f64, f64) {
        let Some(map) = self.map() else {
            return (0.0, 0.0);
        };
        let (lower, upper) = bounds;
        let mut cursor = map.cursor();
        match lower {
            Bound::Unbounded => cursor.seek_first(),
            Bound::Included(key) => cursor.seek(key, u64::MAX),
            Bound::Excluded(key) => cursor.seek(key, 0),
        }
        let is_inside = |key: &[u8]| match upper {
            Bound::Unbounded => true,
            Bound::Included(upper) => key <= upper.as_slice(),
            Bound::Excluded(upper) => key < upper.as_slice(),
        };
        let mut counted = 0;
        while counted < COUNTED_MAX && cursor.entry().is_some_and(|entry| is_inside(entry.key)) {
            counted += 1;
            cursor.advance();
        }
        let all = self.entries() as f64;
        let mut entries = counted as f64;
        if counted == COUNTED_MAX {
            let before = |bound: &Bound<Vec<u8>>, seqnos: [u64; 2], otherwise| match bound {
                Bound::Unbounded => otherwise,
                Bound::Included(key) => map.share_before(key, seqnos[0]),
                Bound::Excluded(key) => map.share_before(key, seqnos[1]),
            };
            let share = before(upper, [0, u64::MAX], 1.0) - before(lower, [u64::MAX, 0], 0.0);
            entries = entries.max(all * share);
        }
        let overhead = all * ENTRY_OVERHEAD_BYTES as f64;
        let bytes = self.reserved_bytes() as f64 - overhead;
        (entries, entries * bytes / all.max(1.0))
    }

    /// Counts a delete that was inserted.
    pub(crate) fn count_tombstone(&self) {
        if let Some(contents) = self.contents.get() {
            contents
                .announced
                .tombstones
                .fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The number of tombstones.
    pub(crate) fn tombstones(&self) -> u64 {
        self.announced(|it| &it.tombstones)
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
