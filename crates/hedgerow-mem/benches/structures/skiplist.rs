//! The order of a map as a skip list: a tower of links per entry, linked by compare and swap.

use std::marker::PhantomData;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use crate::arena::Arena;
use crate::entry::{Entry, Position, prefix};

const HEIGHT_MAX: usize = 12;

/// The part of a tower before its links.
#[repr(C)]
struct Head {
    prefix: u64,
    /// The entry; null in the first tower, which is before every entry.
    entry: *mut u8,
}

/// A tower of the list. Invariant: head and links are written and live for `'a`.
#[derive(Clone, Copy)]
pub(crate) struct Node<'a> {
    start: NonNull<Head>,
    lifetime: PhantomData<&'a Arena>,
}

impl<'a> Node<'a> {
    fn write(arena: &'a Arena, entry: Option<Entry<'a>>, height: usize) -> Self {
        let bytes = size_of::<Head>() + height * size_of::<AtomicPtr<Head>>();
        let start = arena.front(bytes).cast::<Head>();
        let head = Head {
            prefix: entry.map_or(0, |entry| prefix(entry.key(), 0)),
            entry: entry.map_or(null_mut(), Entry::as_ptr),
        };
        // SAFETY: the piece is aligned to 8, large enough and ours alone.
        unsafe { start.write(head) };
        // SAFETY: the links begin behind the head of the same piece.
        let links = unsafe { start.add(1) }.cast::<AtomicPtr<Head>>();
        for level in 0..height {
            // SAFETY: the piece has room for `height` links.
            let link = unsafe { links.add(level) };
            // SAFETY: as above, and the piece is ours alone.
            unsafe { link.write(AtomicPtr::new(null_mut())) };
        }
        Self {
            start,
            lifetime: PhantomData,
        }
    }

    fn head(self) -> &'a Head {
        // SAFETY: the invariant of the type.
        unsafe { self.start.as_ref() }
    }

    pub(crate) fn entry(self) -> Entry<'a> {
        let start = NonNull::new(self.head().entry).expect("only the first tower has no entry");
        // SAFETY: `write` stored the pointer of an entry of the same arena, before the link to
        // this tower was released.
        unsafe { Entry::from_ptr(start) }
    }

    /// The link at `level`. `level` must be below the tower's height. Only links of the same level
    /// lead to a tower, and `find` starts at the first tower, which has all levels.
    fn link(self, level: usize) -> &'a AtomicPtr<Head> {
        // SAFETY: the links begin behind the head of the same piece.
        let links = unsafe { self.start.add(1) }.cast::<AtomicPtr<Head>>();
        // SAFETY: `level` is below the height, see above.
        let link = unsafe { links.add(level) };
        // SAFETY: `write` initialized the link; it is only used as an atomic from then on.
        unsafe { link.as_ref() }
    }

    pub(crate) fn next(self, level: usize) -> Option<Self> {
        let start = NonNull::new(self.link(level).load(Ordering::Acquire))?;
        Some(Self {
            start,
            lifetime: PhantomData,
        })
    }

    #[inline]
    fn is_before(self, position: &Position<'_>, position_prefix: u64) -> bool {
        let prefix = self.head().prefix;
        if prefix != position_prefix {
            return prefix < position_prefix;
        }
        self.entry().cmp_position(position).is_lt()
    }
}

/// An ordered set of entries.
pub(crate) struct List {
    first: NonNull<Head>,
    height: AtomicUsize,
    arena: Arena,
}

// SAFETY: towers and entries are memory of the arena, shared by atomics and otherwise immutable.
unsafe impl Send for List {}
// SAFETY: as above.
unsafe impl Sync for List {}

impl List {
    pub(crate) fn new(arena: Arena) -> Self {
        let first = Node::write(&arena, None, HEIGHT_MAX).start;
        Self {
            first,
            height: AtomicUsize::new(1),
            arena,
        }
    }

    pub(crate) fn arena(&self) -> &Arena {
        &self.arena
    }

    fn first_tower(&self) -> Node<'_> {
        Node {
            start: self.first,
            lifetime: PhantomData,
        }
    }

    pub(crate) fn insert(&self, key: &[u8], seqno: u64, tag: u16, value: &[u8]) {
        let entry = Entry::write(&self.arena, key, seqno, tag, value);
        let position = entry.position();
        let position_prefix = prefix(key, 0);
        let height = height_of(position_prefix, seqno);
        self.height.fetch_max(height, Ordering::Relaxed);
        let node = Node::write(&self.arena, Some(entry), height);
        let mut before = [self.first_tower(); HEIGHT_MAX];
        let mut at = self.first_tower();
        for level in (0..self.height.load(Ordering::Relaxed)).rev() {
            at = last_before(at, level, &position, position_prefix).0;
            before[level] = at;
        }
        for (level, &before) in before.iter().enumerate().take(height) {
            let mut at = before;
            loop {
                let next;
                (at, next) = last_before(at, level, &position, position_prefix);
                let next = next.map_or(null_mut(), |next| next.start.as_ptr());
                node.link(level).store(next, Ordering::Relaxed);
                let new = node.start.as_ptr();
                let linked = at.link(level).compare_exchange(
                    next,
                    new,
                    Ordering::Release,
                    Ordering::Relaxed,
                );
                if linked.is_ok() {
                    break;
                }
            }
        }
    }

    /// The last entry before `position` and the first at or behind it.
    pub(crate) fn find(&self, position: &Position<'_>) -> (Option<Node<'_>>, Option<Node<'_>>) {
        let position_prefix = prefix(position.key, 0);
        let mut at = self.first_tower();
        let mut next = None;
        for level in (0..self.height.load(Ordering::Relaxed)).rev() {
            (at, next) = last_before(at, level, position, position_prefix);
        }
        ((at.start != self.first).then_some(at), next)
    }

    pub(crate) fn first(&self) -> Option<Node<'_>> {
        self.first_tower().next(0)
    }

    pub(crate) fn last(&self) -> Option<Node<'_>> {
        let mut at = self.first_tower();
        for level in (0..HEIGHT_MAX).rev() {
            while let Some(next) = at.next(level) {
                at = next;
            }
        }
        (at.start != self.first).then_some(at)
    }
}

/// Returns the last tower before `position` along the links of `level`, starting at `at`, and its
/// neighbour.
#[inline]
fn last_before<'a>(
    mut at: Node<'a>,
    level: usize,
    position: &Position<'_>,
    position_prefix: u64,
) -> (Node<'a>, Option<Node<'a>>) {
    loop {
        match at.next(level) {
            Some(next) if next.is_before(position, position_prefix) => at = next,
            next => return (at, next),
        }
    }
}

/// Draws a tower's height from its entry, so that equal runs build equal lists. Each level has a
/// quarter of the towers of the one below.
fn height_of(prefix: u64, seqno: u64) -> usize {
    let mixed = (prefix ^ seqno.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 31)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let zeros = (mixed ^ (mixed >> 30)).trailing_zeros() as usize;
    (1 + zeros / 2).min(HEIGHT_MAX)
}
