//! The memtable's map.

use std::fmt;
use std::sync::Arc;

use crate::arena::Arena;
use crate::entry::{Entry, EntryRef, Position};
use crate::pool::ChunkPool;
use crate::tree::{self, Run, Tree};

/// A concurrent map from (key ascending, sequence number descending) to (tag, value), to which
/// entries are only added. Any number of threads insert and read at once; readers take no lock
/// and never wait. The memory is given back as a whole when the map is dropped.
pub struct OrderedMap {
    tree: Tree,
}

impl OrderedMap {
    /// An empty map that takes its memory from `pool` and gives it back when dropped.
    #[must_use]
    pub fn new(pool: Arc<ChunkPool>) -> Self {
        Self {
            tree: Tree::new(Arena::new(pool)),
        }
    }

    /// Copies an entry in. When this returns, every later `get` and cursor sees it. A pair of key
    /// and sequence number must not be inserted twice; if it is, either may be found.
    ///
    /// # Panics
    /// If the key is longer than 256 KiB - 1 or the value longer than 1 GiB - 1.
    pub fn insert(&self, key: &[u8], seqno: u64, tag: u16, value: &[u8]) {
        self.tree
            .insert(Entry::write(self.tree.arena(), key, seqno, tag, value));
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

    /// The way to the place of a key. When the ways of several keys, of one map or of some, are gone in step before the keys are
    /// inserted, they wait for memory together and not one after the other.
    #[must_use]
    pub fn approach<'a>(&'a self, key: &'a [u8]) -> Approach<'a> {
        let seqno = u64::MAX;
        Approach(tree::Approach::new(&self.tree, Position { key, seqno }))
    }

    /// Bytes of the chunks the map holds: what counts against a memory budget.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.tree.arena().bytes()
    }

    /// A cursor that keeps the map alive and stands nowhere yet.
    #[must_use]
    pub fn cursor(self: &Arc<Self>) -> Cursor {
        Cursor {
            run: Run::new(),
            map: Arc::clone(self),
        }
    }
}

/// A way to the place of a key in an [`OrderedMap`].
#[derive(Clone, Copy)]
pub struct Approach<'a>(tree::Approach<'a>);

impl Approach<'_> {
    /// Goes on to what was asked of memory by the step before, and asks for what comes next; false when it is there.
    #[inline]
    pub fn step(&mut self) -> bool {
        self.0.step()
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

/// A place in an [`OrderedMap`], which it keeps alive. It sees every entry inserted before it was
/// positioned, and may see later ones.
pub struct Cursor {
    /// Entries of `map`, whose memory lives at least as long as `self`.
    run: Run<'static>,
    map: Arc<OrderedMap>,
}

impl Cursor {
    /// Goes to the first entry at or behind (`key`, `seqno_max`): of this key, the newest one with
    /// a sequence number up to `seqno_max`; if there is none, the first of the next key.
    pub fn seek(&mut self, key: &[u8], seqno_max: u64) {
        let position = Position {
            key,
            seqno: seqno_max,
        };
        self.with_tree(|tree, run| tree.seek(&position, run));
    }

    /// Goes to the last entry strictly before (`key`, `seqno_max`).
    pub fn seek_before(&mut self, key: &[u8], seqno_max: u64) {
        let position = Position {
            key,
            seqno: seqno_max,
        };
        self.with_tree(|tree, run| tree.seek_before(&position, run));
    }

    /// Goes to the first entry.
    pub fn seek_first(&mut self) {
        self.with_tree(Tree::seek_first);
    }

    /// Goes to the last entry.
    pub fn seek_last(&mut self) {
        self.with_tree(Tree::seek_last);
    }

    /// Goes to the next entry, or becomes invalid behind the last. Does nothing when invalid.
    #[inline]
    pub fn advance(&mut self) {
        self.run.advance();
    }

    /// Goes to the previous entry, or becomes invalid before the first. Does nothing when invalid.
    #[inline]
    pub fn retreat(&mut self) {
        self.with_tree(|tree, run| run.retreat(tree));
    }

    /// The entry the cursor stands on.
    #[must_use]
    #[inline]
    pub fn entry(&self) -> Option<EntryRef<'_>> {
        self.run.entry().map(Entry::get)
    }

    #[inline]
    fn with_tree(&mut self, step: impl FnOnce(&'static Tree, &mut Run<'static>)) {
        let tree: *const Tree = &raw const self.map.tree;
        // SAFETY: `self.map` keeps the tree, at a fixed address, as long as `self.run` exists, and
        // `step` can put what it borrows from the tree nowhere but into `self.run`.
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
