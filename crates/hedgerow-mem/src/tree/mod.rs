//! The order of a map: a B-link tree of small sorted nodes that readers walk without a lock.
//!
//! After Lehman and Yao, "Efficient Locking for Concurrent Operations on B-Trees" (every node knows
//! its right neighbour and the neighbour's lower bound, so that a walk survives a split), and Mao,
//! Kohler and Morris, "Cache Craftiness for Fast Multicore Key-Value Storage" (an order word per
//! node, versions instead of read locks). It is simpler than both, because nothing is ever removed
//! or moved.
//!
//! Cost of an operation at half a million entries: six levels. The upper four stay in the cache.
//! The operation waits for about two cache lines of each of the other two nodes, and for the entry.
//!
//! Invariants, besides the rules in [`node`]:
//!
//! 1. A node holds the entries from its `low` (inclusive and fixed) to its `high` (exclusive).
//!    `low` is itself an entry of a leaf and the `high` of the left neighbour. `high` only
//!    decreases.
//! 2. A splitting node and its new right neighbour stay locked until the parent knows the
//!    neighbour. So a parent is at most one split of each child behind, and learns the splits of
//!    one node in their order.
//! 3. Locks are taken upwards only.

mod node;
mod order;
mod way;

use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use crate::arena::Arena;
use crate::entry::{Entry, Position};
use crate::sync::AtomicPtr;
use node::{Item, Node, NodeRef, View};
pub(crate) use way::Way;

/// The number of entries in a node. An order word has room for 15. loom explores the protocol with
/// fewer.
pub(crate) const SLOTS: usize = if cfg!(loom) { 3 } else { 15 };
/// The maximum of levels: a tree of 2^48 entries with 7 entries in each node has fewer.
const LEVELS_MAX: usize = 20;
/// The number of shared prefix bytes, of eight, from which on prefixes are rewritten.
const IDLE_BYTES_MAX: usize = 4;

/// The choice between two neighbours for a position between them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// The search is for the last entry before a position. An entry at the position is not passed.
    At,
    /// The search is for the first entry at or behind a position. An entry at the position is
    /// passed.
    Behind,
}

impl Side {
    #[inline]
    fn counts(self, entry_to_position: std::cmp::Ordering) -> bool {
        match self {
            Self::At => entry_to_position.is_lt(),
            Self::Behind => entry_to_position.is_le(),
        }
    }
}

/// An ordered set of entries in an arena of its own.
pub(crate) struct Tree {
    root: AtomicPtr<Node>,
    /// The leaf with the smallest entries. It never changes, because a split makes nodes to the
    /// right.
    first_leaf: NonNull<Node>,
    arena: Arena,
}

// SAFETY: nodes and entries are memory of the arena, and the arena moves with the tree.
unsafe impl Send for Tree {}
// SAFETY: nodes are shared by atomics alone, entries are immutable.
unsafe impl Sync for Tree {}

/// The views of a walk down, by level.
struct Path<'a>([Option<View<'a>>; LEVELS_MAX]);

impl Tree {
    pub(crate) fn new(arena: Arena) -> Self {
        let leaf = NodeRef::new(&arena, 0, 0, None, None);
        leaf.unlock();
        let first_leaf = leaf.as_ptr();
        let root = AtomicPtr::new(first_leaf);
        let first_leaf = NonNull::new(first_leaf).expect("a node has an address");
        Self {
            root,
            first_leaf,
            arena,
        }
    }

    pub(crate) fn arena(&self) -> &Arena {
        &self.arena
    }

    fn root(&self) -> NodeRef<'_> {
        let root = self.root.load(Ordering::Acquire);
        // SAFETY: only nodes of this tree's arena are stored in `root`, with release.
        unsafe { NodeRef::from_ptr(root) }.expect("a tree has a root")
    }

    /// The node at `level` that `position` belongs to. It has the place of an entry at the position
    /// ([`Side::Behind`]), or the last entry before it ([`Side::At`]). True while the view holds.
    #[inline]
    fn descend<'a>(
        &'a self,
        position: &Position<'_>,
        level: u32,
        side: Side,
        visit: impl FnMut(View<'a>),
    ) -> View<'a> {
        let mut way = Way::new(self);
        way.walk_to(position, level, side, visit);
        way.at()
    }

    /// The first entry at or behind `position`, if its key may be `position.key`.
    #[inline]
    pub(crate) fn get(&self, position: &Position<'_>) -> Option<Entry<'_>> {
        loop {
            let leaf = self.descend(position, 0, Side::Behind, |_| ());
            let found = leaf.first_behind(position);
            if leaf.holds() {
                return found;
            }
        }
    }

    /// Copies the leaf with the first entry at or behind `position` and stands on that entry, if
    /// there is one.
    pub(crate) fn seek<'a>(&'a self, position: &Position<'_>, run: &mut Run<'a>) {
        loop {
            let leaf = self.descend(position, 0, Side::Behind, |_| ());
            let rank = leaf.rank(position, Side::At);
            if run.copy(&leaf, rank) {
                break;
            }
        }
        if run.entry().is_none() {
            run.next_leaf(|entry| !entry.cmp_position(position).is_lt());
        }
    }

    /// Copies the leaf with the last entry before `position` and stands on that entry.
    pub(crate) fn seek_before<'a>(&'a self, position: &Position<'_>, run: &mut Run<'a>) {
        loop {
            let leaf = self.descend(position, 0, Side::At, |_| ());
            let rank = leaf.rank(position, Side::At);
            let Some(rank) = rank.checked_sub(1) else {
                // Only the first leaf can lack an entry before the position.
                if leaf.holds() {
                    run.clear();
                    return;
                }
                continue;
            };
            if run.copy(&leaf, rank) {
                return;
            }
        }
    }

    /// Estimates the part of the entries before a position. On each level the children of the node
    /// count by the number of their own entries, and these as equal.
    pub(crate) fn share_before(&self, position: &Position<'_>) -> f64 {
        let (mut share, mut width) = (0.0, 1.0);
        let leaf = self.descend(position, 0, Side::Behind, |view| {
            let parts = (0..=view.order.count()).map(|rank| {
                let child = view.node.child(view.order, rank);
                (child.order().count() + usize::from(child.level() > 0)) as f64
            });
            let (all, rank) = (
                parts.clone().sum::<f64>(),
                view.rank(position, Side::Behind),
            );
            share += width * parts.clone().take(rank).sum::<f64>() / all.max(1.0);
            width *= parts.clone().nth(rank).unwrap_or(0.0) / all.max(1.0);
        });
        let rank = leaf.rank(position, Side::At) as f64;
        share + width * rank / leaf.order.count().max(1) as f64
    }

    pub(crate) fn seek_first<'a>(&'a self, run: &mut Run<'a>) {
        // SAFETY: the first leaf is a node of this tree's arena and was written before the tree
        // existed.
        let leaf = unsafe { NodeRef::from_ptr(self.first_leaf.as_ptr()) };
        let leaf = leaf.expect("the first leaf has an address");
        while !run.copy(&View::new(leaf), 0) {}
    }

    pub(crate) fn seek_last<'a>(&'a self, run: &mut Run<'a>) {
        let mut at = View::new(self.root());
        loop {
            let down = (at.node.level() > 0).then(|| at.node.child(at.order, at.order.count()));
            if at.high().is_some() {
                at = View::new(at.node.next().unwrap_or(at.node));
            } else if let Some(child) = down {
                at = View::new(if at.holds() { child } else { at.node });
            } else if run.copy(&at, at.order.count().saturating_sub(1)) {
                return;
            } else {
                at = View::new(at.node);
            }
        }
    }

    /// Adds an entry of the tree's own arena.
    #[inline]
    pub(crate) fn insert<'a>(&'a self, entry: Entry<'a>) {
        self.insert_at(Way::new(self), entry);
    }

    /// Adds an entry of the tree's own arena, on the way to its position.
    #[inline(always)]
    pub(crate) fn insert_at<'a>(&'a self, mut way: Way<'a>, entry: Entry<'a>) {
        let position = entry.position();
        let mut path = Path([const { None }; LEVELS_MAX]);
        let leaf = loop {
            way.walk_to(&position, 0, Side::Behind, |view| {
                path.0[view.node.level() as usize] = Some(view);
            });
            if way.at().lock() {
                break way.at().node;
            }
            way = Way::new(self);
        };
        self.add(leaf, Item { entry, child: None }, &mut path);
    }

    /// Adds an entry of the tree's own arena at `position`. `write` makes it of the entry that
    /// `get` finds there. Nobody may add another one between these two at the same time.
    pub(crate) fn insert_over<'a>(
        &'a self,
        position: &Position<'_>,
        write: impl FnOnce(Option<Entry<'a>>) -> Entry<'a>,
    ) {
        let mut path = Path([const { None }; LEVELS_MAX]);
        let (leaf, found) = loop {
            let leaf = self.descend(position, 0, Side::Behind, |view| {
                path.0[view.node.level() as usize] = Some(view);
            });
            let found = leaf.first_behind(position);
            if leaf.holds() {
                break (leaf, found);
            }
        };
        // Before the lock: others must not wait for the caller's work.
        let entry = write(found);
        if leaf.lock() {
            self.add(leaf.node, Item { entry, child: None }, &mut path);
        } else {
            self.insert(entry);
        }
    }

    /// Adds an item to a locked node and unlocks the node. Splits the node if it is full.
    #[inline(always)]
    fn add<'a>(&'a self, node: NodeRef<'a>, item: Item<'a>, path: &mut Path<'a>) {
        let rank = node.rank_locked(&item.entry.position());
        if node.order().count() < SLOTS {
            node.put(rank, item);
        } else {
            let right = self.split(node, rank, item);
            let low = right.low().expect("a right neighbour has a lower bound");
            self.tell_parent(
                node,
                Item {
                    entry: low,
                    child: Some(right),
                },
                path,
            );
            if let Some(skip) = better_skip(node) {
                node.rewrite(skip);
            }
            right.unlock();
        }
        node.unlock();
    }

    /// Splits a full, locked node and adds the item, whose rank is `rank`, to its part. Returns the
    /// right part, locked.
    #[cold]
    fn split<'a>(&'a self, node: NodeRef<'a>, rank: usize, item: Item<'a>) -> NodeRef<'a> {
        let order = node.order();
        let inner = usize::from(node.level() > 0);
        // The item of rank `cut`, counted with the new one, goes right. Fills in ascending or
        // descending order leave full or almost full nodes. A reachable node is never empty, not
        // even before it has the new item (rule 4).
        let cut = if rank == SLOTS && order.is_ascending() {
            SLOTS - inner
        } else if rank == 0 && node.low().is_none() {
            2
        } else {
            SLOTS.div_ceil(2)
        };
        let keep = if rank < cut { cut - 1 } else { cut };
        let first = if rank == cut {
            item
        } else {
            node.item(order.slot(keep))
        };
        // In an inner node, the first item to go right moves up instead. Its child becomes the
        // first child.
        let taken = keep + usize::from(inner == 1 && rank != cut);
        let skip = shared_bytes(Some(first.entry), node.high())
            .filter(|skip| *skip >= node.skip() + IDLE_BYTES_MAX)
            .unwrap_or_else(|| {
                if node.high().is_some() {
                    node.skip()
                } else {
                    0
                }
            });
        let right = NodeRef::new(
            &self.arena,
            node.level(),
            skip,
            Some(first.entry),
            first.child,
        );
        node.copy_to(right, taken);
        if rank >= cut && (rank > cut || inner == 0) {
            right.put(rank - cut - inner, item);
        }
        node.link(right, keep);
        if rank < cut {
            node.put(rank, item);
        }
        right
    }

    /// Adds the new right neighbour of `left` to the level above. Adds a level if needed.
    #[cold]
    fn tell_parent<'a>(&'a self, left: NodeRef<'a>, right: Item<'a>, path: &mut Path<'a>) {
        let level = left.level() + 1;
        // Only the holder of the root's lock replaces the root.
        if self.root() == left {
            let root = NodeRef::new(&self.arena, level, 0, None, Some(left));
            root.put(0, right);
            root.unlock();
            self.root.store(root.as_ptr(), Ordering::Release);
            return;
        }
        let position = right.entry.position();
        let parent = loop {
            let view = path.0[level as usize]
                .take()
                .unwrap_or_else(|| self.descend(&position, level, Side::Behind, |_| ()));
            if view.lock() {
                break view.node;
            }
        };
        self.add(parent, right, path);
    }
}

/// The number of leading bytes that the keys between two bounds share.
fn shared_bytes(low: Option<Entry<'_>>, high: Option<Entry<'_>>) -> Option<usize> {
    let (low, high) = (low?.key(), high?.key());
    Some(
        low.iter()
            .zip(high)
            .take_while(|(low, high)| low == high)
            .count(),
    )
}

/// The best `skip` of a node, if it is worth the rewriting.
fn better_skip(node: NodeRef<'_>) -> Option<usize> {
    shared_bytes(node.low(), node.high()).filter(|skip| *skip >= node.skip() + IDLE_BYTES_MAX)
}

/// A copy of a leaf's entries and a position among them. A cursor walks it without the tree until
/// it leaves the leaf.
pub(crate) struct Run<'a> {
    entries: [Option<Entry<'a>>; SLOTS],
    len: usize,
    at: usize,
    next: Option<NodeRef<'a>>,
}

impl<'a> Run<'a> {
    /// A run outside any tree.
    pub(crate) fn new() -> Self {
        Self {
            entries: [None; SLOTS],
            len: 0,
            at: 0,
            next: None,
        }
    }

    pub(crate) fn entry(&self) -> Option<Entry<'a>> {
        if self.at < self.len {
            self.entries[self.at]
        } else {
            None
        }
    }

    fn clear(&mut self) {
        self.len = 0;
        self.next = None;
    }

    /// Copies a leaf and stands on rank `at`. Returns false if the view does not hold.
    #[inline]
    fn copy(&mut self, leaf: &View<'a>, at: usize) -> bool {
        self.len = leaf.order.count();
        self.at = at;
        for (rank, entry) in self.entries[..self.len].iter_mut().enumerate() {
            *entry = Some(leaf.node.entry(leaf.order.slot(rank)));
        }
        self.next = leaf.node.next();
        leaf.holds()
    }

    /// Advances to the first `wanted` entry of the following leaves. The neighbour may be newer
    /// than the copy and hold some of the same entries.
    fn next_leaf(&mut self, wanted: impl Fn(Entry<'a>) -> bool) {
        while let Some(leaf) = self.next {
            while !self.copy(&View::new(leaf), 0) {}
            while let Some(entry) = self.entry() {
                if wanted(entry) {
                    return;
                }
                self.at += 1;
            }
        }
        self.clear();
    }

    #[inline]
    pub(crate) fn advance(&mut self) {
        let Some(last) = self.entry() else { return };
        self.at += 1;
        if self.at == self.len {
            let last = last.position();
            self.next_leaf(|entry| entry.cmp_position(&last).is_gt());
        }
    }

    #[inline]
    pub(crate) fn retreat(&mut self, tree: &'a Tree) {
        if self.at >= self.len {
            return;
        }
        match self.at.checked_sub(1) {
            Some(at) => self.at = at,
            None => {
                if let Some(first) = self.entry() {
                    tree.seek_before(&first.position(), self);
                }
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::pool::ChunkPool;

    #[test]
    fn an_approach_ends_before_the_leaf_that_an_insertion_looks_for() {
        let tree = Tree::new(Arena::new(ChunkPool::new(4096, 0)));
        // An odd multiplier draws every number once. Every second number is a key.
        let number = |i: u64| i.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let key = |i: u64| [b"user:", &number(i).to_be_bytes()[..]].concat();
        for i in 0..20_000 {
            tree.insert(Entry::write(tree.arena(), &key(2 * i), i, 0, b""));
        }
        assert!(tree.root().level() >= 3);
        for i in 0..40_000 {
            let key = key(i);
            let position = Position {
                key: &key,
                seqno: u64::MAX,
            };
            let mut way = Way::new(&tree);
            let steps = (0..).take_while(|_| way.step(&position)).count();
            assert_eq!(steps, tree.root().level() as usize);
            let leaf = tree.descend(&position, 0, Side::Behind, |_| ()).node;
            assert!(way.child() == Some(leaf));
        }
    }
}
