//! A node of the tree: a few sorted entries, found by eight bytes of their keys.
//!
//! Writers take the node's lock, a bit of its version. Readers take no lock. A reader notes the
//! version, reads, and [checks](View::holds) that its reads belong together. These rules make that
//! sound.
//!
//! 1. *A filled slot never changes* while a reader may still hold an order word that names it. A
//!    writer fills a free slot and then stores the order. Only a split frees slots. The version
//!    increases between the store of the shorter order and the next use of a freed slot.
//! 2. *A split first links, then shrinks.* It stores `next`, `high_prefix`, `high` and the order,
//!    in this order. A reader loads them in the opposite order. So a reader of the shorter order
//!    sees the bound that sends it to the right. A reader of the old order finds all entries in
//!    their old slots.
//! 3. *All keys between `low` and the upper bound that the parent knows share their first `skip`
//!    bytes.* `skip` grows only after the parent knows the bound that allows it. While prefixes are
//!    rewritten the version says so: readers then compare whole keys, which the rewriting does not
//!    touch.
//! 4. *A reachable node is not empty*, except the only leaf of an empty tree. A split puts the new
//!    item into the right part before it links that part, and leaves an item in the left part. So a
//!    walk may rely on the bounds of every node that it meets.

use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::Ordering;

use super::order::Order;
use super::{SLOTS, Side};
use crate::arena::Arena;
use crate::entry::{Entry, Position, prefix};
use crate::prefetch::prefetch_lines;
use crate::sync::{AtomicPtr, AtomicU64, fence, spin_hint, yield_now};

/// Bit of the version: a writer holds the lock.
const LOCKED: u64 = 1;
/// Bit of the version: prefixes and `skip` do not belong together now.
const REWRITING: u64 = 2;
/// The increment of the version.
const CHANGE: u64 = 4;
/// The number of checks of a taken lock before a writer yields its processor. The lock is held for
/// some tens of nanoseconds, in a split for a few hundred.
const SPINS: u32 = if cfg!(loom) { 1 } else { 64 };

/// The common part of leaves and inner nodes. It has five cache lines. A search touches the first
/// three, then one for the entry that it found.
#[repr(C, align(64))]
pub(super) struct Node {
    version: AtomicU64,
    order: AtomicU64,
    /// The right neighbour. Its entries begin at `high`.
    next: AtomicPtr<Node>,
    /// The first entry of the right neighbour; null in the last node of a level.
    high: AtomicPtr<u8>,
    high_prefix: AtomicU64,
    /// The number of leading bytes of the keys that the prefixes omit.
    skip: AtomicU64,
    /// The lower bound of this node, fixed; null in the first node of a level.
    low: *mut u8,
    /// The level: 0 in a leaf, one more in each level above.
    level: u32,
    prefixes: [AtomicU64; SLOTS],
    entries: [AtomicPtr<u8>; SLOTS],
}

/// A node above the leaves. The child of slot `i` begins at entry `i`.
#[repr(C)]
struct Inner {
    node: Node,
    /// The child before the first entry.
    first: AtomicPtr<Node>,
    children: [AtomicPtr<Node>; SLOTS],
}

/// A pointer to a node of an arena that lives for `'a`.
///
/// Invariant: the node is completely written, and followed by the rest of [`Inner`] if its level
/// is above 0.
#[derive(Clone, Copy)]
pub(super) struct NodeRef<'a> {
    start: NonNull<Node>,
    lifetime: PhantomData<&'a Arena>,
}

// SAFETY: this is a shared reference to a node in all but name, and any thread may read nodes. The
// changing parts of a node are atomic. The rest is written before the reference exists.
unsafe impl Send for NodeRef<'_> {}
// SAFETY: as for `Send`.
unsafe impl Sync for NodeRef<'_> {}

impl PartialEq for NodeRef<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.start == other.start
    }
}

impl Deref for NodeRef<'_> {
    type Target = Node;

    #[inline]
    fn deref(&self) -> &Node {
        // SAFETY: the invariant of the type; all changing parts of a node are atomic.
        unsafe { self.start.as_ref() }
    }
}

/// The content of a slot: an entry, and in an inner node the child that begins at it.
#[derive(Clone, Copy)]
pub(super) struct Item<'a> {
    pub(super) entry: Entry<'a>,
    pub(super) child: Option<NodeRef<'a>>,
}

impl<'a> NodeRef<'a> {
    /// A new node, locked, empty, and known to nobody else. `first` is the first child of an inner
    /// node.
    pub(super) fn new(
        arena: &'a Arena,
        level: u32,
        skip: usize,
        low: Option<Entry<'a>>,
        first: Option<NodeRef<'a>>,
    ) -> Self {
        assert_eq!(level > 0, first.is_some(), "inner nodes have a first child");
        let node = Node {
            version: AtomicU64::new(LOCKED),
            order: AtomicU64::new(Order::EMPTY.word()),
            next: AtomicPtr::new(null_mut()),
            high: AtomicPtr::new(null_mut()),
            high_prefix: AtomicU64::new(u64::MAX),
            skip: AtomicU64::new(skip as u64),
            low: low.map_or(null_mut(), Entry::as_ptr),
            level,
            prefixes: std::array::from_fn(|_| AtomicU64::new(u64::MAX)),
            entries: std::array::from_fn(|_| AtomicPtr::new(null_mut())),
        };
        let start = match first {
            None => {
                let start = arena.back(size_of::<Node>()).cast::<Node>();
                // SAFETY: the piece is aligned, large enough and ours alone.
                unsafe { start.write(node) };
                start
            }
            Some(first) => {
                let start = arena.back(size_of::<Inner>()).cast::<Inner>();
                let inner = Inner {
                    node,
                    first: AtomicPtr::new(first.as_ptr()),
                    children: std::array::from_fn(|_| AtomicPtr::new(null_mut())),
                };
                // SAFETY: as above.
                unsafe { start.write(inner) };
                start.cast()
            }
        };
        Self {
            start,
            lifetime: PhantomData,
        }
    }

    pub(super) fn as_ptr(self) -> *mut Node {
        self.start.as_ptr()
    }

    /// The node at `start`, or `None` if it is null.
    ///
    /// # Safety
    /// `start` is null or came from [`as_ptr`](Self::as_ptr) of a node in an arena that outlives
    /// `'a`, and reached this thread through a release and an acquire.
    #[inline]
    pub(super) unsafe fn from_ptr(start: *mut Node) -> Option<Self> {
        Some(Self {
            start: NonNull::new(start)?,
            lifetime: PhantomData,
        })
    }

    /// Prefetches the common part of the node.
    #[inline]
    pub(super) fn prefetch(self) {
        prefetch_lines(self.as_ptr().cast(), size_of::<Node>());
    }

    #[inline]
    fn load_node(link: &AtomicPtr<Node>) -> Option<Self> {
        let start = link.load(Ordering::Acquire);
        // SAFETY: nodes link only to nodes of their own tree, stored with release.
        unsafe { Self::from_ptr(start) }
    }

    #[inline]
    fn inner(self) -> &'a Inner {
        assert!(self.level > 0, "leaves have no children");
        // SAFETY: the invariant of the type, and the level is above 0.
        unsafe { self.start.cast::<Inner>().as_ref() }
    }

    #[inline]
    pub(super) fn level(self) -> u32 {
        self.level
    }

    #[inline]
    pub(super) fn next(self) -> Option<Self> {
        Self::load_node(&self.next)
    }

    pub(super) fn low(self) -> Option<Entry<'a>> {
        load_entry(self.low)
    }

    pub(super) fn high(self) -> Option<Entry<'a>> {
        load_entry(self.high.load(Ordering::Acquire))
    }

    pub(super) fn order(self) -> Order {
        Order::from_word(self.order.load(Ordering::Acquire))
    }

    pub(super) fn skip(self) -> usize {
        self.skip.load(Ordering::Relaxed) as usize
    }

    #[inline]
    pub(super) fn entry(self, slot: usize) -> Entry<'a> {
        load_entry(self.entries[slot].load(Ordering::Acquire)).expect("a filled slot has an entry")
    }

    pub(super) fn item(self, slot: usize) -> Item<'a> {
        let child = (self.level > 0)
            .then(|| Self::load_node(&self.inner().children[slot]))
            .flatten();
        Item {
            entry: self.entry(slot),
            child,
        }
    }

    /// The child at `rank`. The rank of a position is the number of entries at or before it.
    #[inline]
    pub(super) fn child(self, order: Order, rank: usize) -> Self {
        let inner = self.inner();
        let link = match rank.checked_sub(1) {
            None => &inner.first,
            Some(before) => &inner.children[order.slot(before)],
        };
        Self::load_node(link).expect("an inner node has a child before and at each entry")
    }

    /// The number of entries of `order` before `position`, by their prefixes or (`!by_prefix`) by
    /// their whole keys. With [`Side::Behind`], an entry at `position` counts too.
    #[inline]
    fn rank(self, order: Order, by_prefix: bool, position: &Position<'_>, side: Side) -> usize {
        let mut from = 0;
        let mut to = order.count();
        if by_prefix {
            let wanted = prefix(position.key, self.skip());
            // Compares all slots in slot order, filled or not. So no branch mispredicts, and the
            // loads overlap. A free slot holds a prefix from above `high` or the largest one. So it
            // does not count, unless a writer is about to fill it.
            let below = self
                .prefixes
                .iter()
                .filter(|slot| slot.load(Ordering::Relaxed) < wanted)
                .count();
            from = below.min(to);
            while from > 0 && self.prefix_at(order, from - 1) >= wanted {
                from -= 1;
            }
            if from == to || self.prefix_at(order, from) != wanted {
                return from;
            }
            let equal = (from..to).take_while(|&rank| self.prefix_at(order, rank) == wanted);
            to = from + equal.count();
        }
        while from < to {
            let middle = from.midpoint(to);
            let entry = self.entry(order.slot(middle));
            if side.counts(entry.cmp_position(position)) {
                from = middle + 1;
            } else {
                to = middle;
            }
        }
        from
    }

    #[inline]
    fn prefix_at(self, order: Order, rank: usize) -> u64 {
        self.prefixes[order.slot(rank)].load(Ordering::Relaxed)
    }

    /// The rank as [`View::rank`] computes it, for the thread that holds the lock.
    pub(super) fn rank_locked(self, position: &Position<'_>) -> usize {
        self.rank(self.order(), true, position, Side::At)
    }

    /// Adds an item at `rank`. The caller holds the lock, and a slot is free.
    #[inline]
    pub(super) fn put(self, rank: usize, item: Item<'a>) {
        self.put_with_prefix(rank, item, prefix(item.entry.key(), self.skip()));
    }

    #[inline]
    fn put_with_prefix(self, rank: usize, item: Item<'a>, prefix: u64) {
        let order = self.order();
        let slot = order.slot(order.count());
        self.prefixes[slot].store(prefix, Ordering::Relaxed);
        if let Some(child) = item.child {
            self.inner().children[slot].store(child.as_ptr(), Ordering::Release);
        }
        self.entries[slot].store(item.entry.as_ptr(), Ordering::Release);
        self.order
            .store(order.with_next_at(rank).word(), Ordering::Release);
    }

    /// Copies every item from rank `from` on to `right`, a new node that nobody can reach yet. The
    /// caller holds the lock.
    pub(super) fn copy_to(self, right: Self, from: usize) {
        let order = self.order();
        let same_skip = right.skip() == self.skip();
        for rank in from..order.count() {
            let slot = order.slot(rank);
            let (item, to) = (self.item(slot), rank - from);
            if same_skip {
                right.put_with_prefix(to, item, self.prefixes[slot].load(Ordering::Relaxed));
            } else {
                right.put(to, item);
            }
        }
        right
            .next
            .store(self.next.load(Ordering::Relaxed), Ordering::Relaxed);
        if let Some(high) = self.high() {
            right
                .high_prefix
                .store(prefix(high.key(), right.skip()), Ordering::Relaxed);
            right.high.store(high.as_ptr(), Ordering::Release);
        }
    }

    /// Makes `right` the right neighbour and keeps the items before rank `keep`; `right` has the
    /// others. The caller holds the lock.
    pub(super) fn link(self, right: Self, keep: usize) {
        debug_assert!(keep > 0 && right.order().count() > 0, "rule 4");
        let high = right.low().expect("a right neighbour has a lower bound");
        // Rule 2: link, then shrink.
        self.next.store(right.as_ptr(), Ordering::Release);
        self.high_prefix
            .store(prefix(high.key(), self.skip()), Ordering::Release);
        self.high.store(high.as_ptr(), Ordering::Release);
        self.order
            .store(self.order().truncated(keep).word(), Ordering::Release);
        // Rule 1: from here on the freed slots may be used.
        self.change(0);
    }

    /// Omits `skip` bytes from now on. The caller holds the lock, and the parent knows the bounds
    /// that allow it.
    pub(super) fn rewrite(self, skip: usize) {
        self.change(REWRITING);
        let order = self.order();
        for rank in 0..SLOTS {
            let slot = order.slot(rank);
            let new = if rank < order.count() {
                prefix(self.entry(slot).key(), skip)
            } else {
                u64::MAX
            };
            self.prefixes[slot].store(new, Ordering::Relaxed);
        }
        let high = self
            .high()
            .map_or(u64::MAX, |high| prefix(high.key(), skip));
        self.high_prefix.store(high, Ordering::Relaxed);
        self.skip.store(skip as u64, Ordering::Relaxed);
        self.change(0);
    }

    /// Separates for readers the reads before from the reads after.
    fn change(self, state: u64) {
        let version = self.version.load(Ordering::Relaxed) & !REWRITING;
        self.version
            .store(version.wrapping_add(CHANGE) | state, Ordering::Release);
        // A reader that sees the next stores sees this store, too, behind its own fence.
        fence(Ordering::Release);
    }

    pub(super) fn unlock(self) {
        let version = self.version.load(Ordering::Relaxed);
        debug_assert_eq!(version & (LOCKED | REWRITING), LOCKED, "the lock is held");
        self.version.store(version & !LOCKED, Ordering::Release);
    }
}

#[inline]
fn load_entry<'a>(start: *mut u8) -> Option<Entry<'a>> {
    let start = NonNull::new(start)?;
    // SAFETY: nodes name only entries of their own arena, stored with release and loaded with
    // acquire. A node reference does not outlive the arena.
    Some(unsafe { Entry::from_ptr(start) })
}

/// A reader's view of a node. The reads through it belong together if the view still
/// [holds](Self::holds) afterwards.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    pub(super) node: NodeRef<'a>,
    version: u64,
    pub(super) order: Order,
    high: *mut u8,
}

impl<'a> View<'a> {
    #[inline]
    pub(super) fn new(node: NodeRef<'a>) -> Self {
        let version = node.version.load(Ordering::Acquire) & !LOCKED;
        let order = node.order();
        let high = node.high.load(Ordering::Acquire);
        Self {
            node,
            version,
            order,
            high,
        }
    }

    /// Returns true if nothing that was read through the view has been replaced. Entries may have
    /// been added.
    #[inline]
    pub(super) fn holds(&self) -> bool {
        fence(Ordering::Acquire);
        self.node.version.load(Ordering::Relaxed) & !LOCKED == self.version
    }

    /// Returns true if the view [`holds`](Self::holds) and no entry was added.
    #[inline]
    pub(super) fn is_current(&self) -> bool {
        self.holds() && self.node.order.load(Ordering::Relaxed) == self.order.word()
    }

    #[inline]
    fn by_prefix(&self) -> bool {
        self.version & REWRITING == 0
    }

    /// The first entry of the right neighbour.
    #[inline]
    pub(super) fn high(&self) -> Option<Entry<'a>> {
        load_entry(self.high)
    }

    /// Returns true if `position` belongs to a node further right. If `known`, the position shares
    /// the bytes that the prefixes of this node omit.
    #[inline]
    pub(super) fn is_beyond(&self, position: &Position<'_>, side: Side, known: bool) -> bool {
        let Some(high) = self.high() else {
            return false;
        };
        if known && self.by_prefix() {
            let bound = self.node.high_prefix.load(Ordering::Acquire);
            let wanted = prefix(position.key, self.node.skip());
            if bound != wanted {
                return bound < wanted;
            }
        }
        side.counts(high.cmp_position(position))
    }

    /// The number of entries before `position`; with [`Side::Behind`], before or at it.
    #[inline]
    pub(super) fn rank(&self, position: &Position<'_>, side: Side) -> usize {
        self.node.rank(self.order, self.by_prefix(), position, side)
    }

    /// The first entry at or behind a position that belongs to this leaf, if its key may be
    /// `position.key`. True while the view holds.
    #[inline]
    pub(super) fn first_behind(&self, position: &Position<'_>) -> Option<Entry<'a>> {
        let rank = self.rank(position, Side::At);
        if rank == self.order.count() {
            return self.high();
        }
        let slot = self.order.slot(rank);
        (!self.differs(slot, position.key)).then(|| self.node.entry(slot))
    }

    /// Returns true if the entry in `slot` surely has another key than `key`.
    #[inline]
    fn differs(&self, slot: usize, key: &[u8]) -> bool {
        self.by_prefix()
            && self.node.prefixes[slot].load(Ordering::Relaxed) != prefix(key, self.node.skip())
    }

    /// Locks the node if the view holds. Waits for another writer.
    #[inline]
    pub(super) fn lock(&self) -> bool {
        let mut spins = 0;
        loop {
            let taken = self.node.version.compare_exchange_weak(
                self.version,
                self.version | LOCKED,
                Ordering::Acquire,
                Ordering::Relaxed,
            );
            match taken {
                Ok(_) => return true,
                Err(found) if found & !LOCKED != self.version => return false,
                Err(_) if spins < SPINS => spin_hint(),
                Err(_) => yield_now(),
            }
            spins += 1;
        }
    }
}
