//! The map of the memtable.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use crate::arena::Arena;
use crate::entry::{Entry, EntryRef, Position};
use crate::pool::ChunkPool;
use crate::tree::{Run, Tree, Way};

/// A concurrent map from (key ascending, sequence number descending) to (tag, value). Entries are
/// only added. Any number of threads insert and read at once. Readers take no lock and never wait.
/// Dropping the map frees its memory as a whole.
pub struct OrderedMap {
    tree: Tree,
}

impl OrderedMap {
    /// An empty map with memory from `pool`. Dropping the map returns the memory.
    #[must_use]
    pub fn new(pool: Arc<ChunkPool>) -> Self {
        Self {
            tree: Tree::new(Arena::new(pool)),
        }
    }

    /// Copies an entry into the map. After the return, every `get` and cursor sees it. A pair of
    /// key and sequence number must not be inserted twice. If it is, a reader may find either
    /// entry.
    ///
    /// # Panics
    /// If the key is longer than 256 KiB - 1 or the value longer than 1 GiB - 1.
    pub fn insert(&self, key: &[u8], seqno: u64, tag: u16, value: &[u8]) {
        self.approach(key, seqno).insert(tag, value);
    }

    /// Inserts an entry whose tag and value depend on the newest older entry of its key, for the
    /// price of an [`insert`](Self::insert) alone: one search finds both places. No entry of the
    /// key with a smaller sequence number may be inserted at the same time.
    ///
    /// # Panics
    /// As [`insert`](Self::insert).
    pub fn insert_over<'v>(
        &self,
        key: &[u8],
        seqno: u64,
        make: impl FnOnce(Option<EntryRef<'_>>) -> (u16, Cow<'v, [u8]>),
    ) {
        self.tree.insert_over(&Position { key, seqno }, |older| {
            let older = older.map(Entry::get).filter(|it| it.key == key);
            let (tag, value) = make(older);
            Entry::write(self.tree.arena(), key, seqno, tag, &value)
        });
    }

    /// The newest entry of `key` with a sequence number up to `seqno_max`, inclusive.
    #[must_use]
    pub fn get(&self, key: &[u8], seqno_max: u64) -> Option<EntryRef<'_>> {
        let entry = self
            .tree
            .get(&Position {
                key,
                seqno: seqno_max,
            })?
            .get();
        (entry.key == key).then_some(entry)
    }

    /// The way to the place of an entry that is to be inserted. Several ways, in one map or more,
    /// may be stepped together before the entries are inserted, or other work may be done between:
    /// then cache misses overlap.
    #[must_use]
    pub fn approach<'a>(&'a self, key: &'a [u8], seqno: u64) -> Approach<'a> {
        Approach {
            tree: &self.tree,
            position: Position { key, seqno },
            way: Way::new(&self.tree),
        }
    }

    /// Estimates the part of all entries that lies before (`key`, `seqno_max`): 0.0 to 1.0. Cost: a
    /// `get` that looks at the children of each node on its way.
    #[must_use]
    pub fn share_before(&self, key: &[u8], seqno_max: u64) -> f64 {
        self.tree.share_before(&Position {
            key,
            seqno: seqno_max,
        })
    }

    /// The bytes of the map's chunks. They count against a memory budget.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.tree.arena().bytes()
    }

    /// A cursor without a position. It keeps the map alive.
    #[must_use]
    pub fn cursor(self: &Arc<Self>) -> Cursor {
        Cursor {
            run: Run::new(),
            map: Arc::clone(self),
        }
    }
}

/// The way to the place of an entry in an [`OrderedMap`]. Others may insert meanwhile.
#[derive(Clone, Copy)]
pub struct Approach<'a> {
    tree: &'a Tree,
    position: Position<'a>,
    way: Way<'a>,
}

impl Approach<'_> {
    /// Looks at the memory that the step before has prefetched, and prefetches the next. Returns
    /// false if that is the place of the entry, which is not looked at.
    #[inline]
    pub fn step(&mut self) -> bool {
        self.way.step(&self.position)
    }

    /// Makes all steps. The memory at the place is prefetched.
    #[inline]
    pub fn step_to_end(&mut self) {
        self.way.step_to_leaf(&self.position);
    }

    /// Copies the entry into the map as [`OrderedMap::insert`]. It walks the rest of the way.
    ///
    /// # Panics
    /// As [`OrderedMap::insert`].
    #[inline(always)]
    pub fn insert(self, tag: u16, value: &[u8]) {
        let Position { key, seqno } = self.position;
        let entry = Entry::write(self.tree.arena(), key, seqno, tag, value);
        self.tree.insert_at(self.way, entry);
    }
}

impl fmt::Debug for Approach<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Approach").finish_non_exhaustive()
    }
}

impl fmt::Debug for OrderedMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OrderedMap")
            .field("memory_bytes", &self.memory_bytes())
            .finish()
    }
}

/// A position in an [`OrderedMap`]. It keeps the map alive. It sees every entry inserted before it
/// was positioned, and may see later ones.
pub struct Cursor {
    /// Entries of `map`. Their memory lives at least as long as `self`.
    run: Run<'static>,
    map: Arc<OrderedMap>,
}

impl Cursor {
    /// Positions on the first entry at or behind (`key`, `seqno_max`): the newest entry of this key
    /// with a sequence number up to `seqno_max`, or else the first of the next key.
    pub fn seek(&mut self, key: &[u8], seqno_max: u64) {
        let position = Position {
            key,
            seqno: seqno_max,
        };
        self.with_tree(|tree, run| tree.seek(&position, run));
    }

    /// Positions on the last entry strictly before (`key`, `seqno_max`).
    pub fn seek_before(&mut self, key: &[u8], seqno_max: u64) {
        let position = Position {
            key,
            seqno: seqno_max,
        };
        self.with_tree(|tree, run| tree.seek_before(&position, run));
    }

    /// Positions on the first entry.
    pub fn seek_first(&mut self) {
        self.with_tree(Tree::seek_first);
    }

    /// Positions on the last entry.
    pub fn seek_last(&mut self) {
        self.with_tree(Tree::seek_last);
    }

    /// Advances to the next entry, or becomes invalid behind the last. An invalid cursor stays
    /// invalid.
    #[inline]
    pub fn advance(&mut self) {
        self.run.advance();
    }

    /// Retreats to the previous entry, or becomes invalid before the first. An invalid cursor stays
    /// invalid.
    #[inline]
    pub fn retreat(&mut self) {
        self.with_tree(|tree, run| run.retreat(tree));
    }

    /// The entry at the cursor.
    #[must_use]
    #[inline]
    pub fn entry(&self) -> Option<EntryRef<'_>> {
        self.run.entry().map(Entry::get)
    }

    #[inline]
    fn with_tree(&mut self, step: impl FnOnce(&'static Tree, &mut Run<'static>)) {
        let tree: *const Tree = &raw const self.map.tree;
        // SAFETY: `self.map` keeps the tree, at a fixed address, as long as `self.run` exists.
        // `step` can store its borrows from the tree only in `self.run`.
        let tree = unsafe { &*tree };
        step(tree, &mut self.run);
    }
}

impl fmt::Debug for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cursor")
            .field("entry", &self.entry())
            .finish()
    }
}
