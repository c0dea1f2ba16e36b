//! The memtable's map.

use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::arena::Arena;
use crate::entry::{Entry, EntryRef, Position};
use crate::pool::ChunkPool;
use crate::skiplist::List;

/// A concurrent map from (key ascending, sequence number descending) to (tag, value), to which
/// entries are only added. Any number of threads insert and read at once; readers take no lock
/// and never wait. The memory is given back as a whole when the map is dropped.
pub struct OrderedMap {
    list: List,
    len: AtomicUsize,
}

impl OrderedMap {
    /// An empty map that takes its memory from `pool` and gives it back when dropped.
    #[must_use]
    pub fn new(pool: Arc<ChunkPool>) -> Self {
        Self {
            list: List::new(Arena::new(pool)),
            len: AtomicUsize::new(0),
        }
    }

    /// Copies an entry in. When this returns, every later `get` and cursor sees it. A pair of key
    /// and sequence number must not be inserted twice; if it is, either may be found.
    ///
    /// # Panics
    /// If the key is longer than 256 KiB - 1 or the value longer than 1 GiB - 1.
    pub fn insert(&self, key: &[u8], seqno: u64, tag: u16, value: &[u8]) {
        self.list.insert(key, seqno, tag, value);
        self.len.fetch_add(1, Ordering::Relaxed);
    }

    /// The newest entry of `key` with a sequence number up to `seqno_max`, inclusive.
    #[must_use]
    pub fn get(&self, key: &[u8], seqno_max: u64) -> Option<EntryRef<'_>> {
        let (_, next) = self.list.find(&Position {
            key,
            seqno: seqno_max,
        });
        let entry = next?.entry();
        (entry.key() == key).then(|| entry.get())
    }

    /// Bytes of the chunks the map holds: what counts against a memory budget.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.list.arena().bytes()
    }

    /// Entries whose insertion has returned.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    /// Whether no insertion has returned yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A cursor that keeps the map alive and stands nowhere yet.
    #[must_use]
    pub fn cursor(self: &Arc<Self>) -> Cursor {
        Cursor {
            current: None,
            map: Arc::clone(self),
        }
    }
}

impl fmt::Debug for OrderedMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OrderedMap")
            .field("len", &self.len())
            .field("memory_bytes", &self.memory_bytes())
            .finish()
    }
}

/// A place in an [`OrderedMap`], which it keeps alive. It sees every entry inserted before it was
/// positioned, and may see later ones.
pub struct Cursor {
    /// An entry of `map`, whose memory lives at least as long as `self`.
    current: Option<Entry<'static>>,
    map: Arc<OrderedMap>,
}

impl Cursor {
    /// Goes to the first entry at or behind (`key`, `seqno_max`): of this key, the newest one with
    /// a sequence number up to `seqno_max`; if there is none, the first of the next key.
    pub fn seek(&mut self, key: &[u8], seqno_max: u64) {
        self.current = self
            .find(&Position {
                key,
                seqno: seqno_max,
            })
            .1;
    }

    /// Goes to the last entry strictly before (`key`, `seqno_max`).
    pub fn seek_before(&mut self, key: &[u8], seqno_max: u64) {
        self.current = self
            .find(&Position {
                key,
                seqno: seqno_max,
            })
            .0;
    }

    /// Goes to the first entry.
    pub fn seek_first(&mut self) {
        let entry = self.map.list.first().map(|node| node.entry());
        // SAFETY: `self.map` keeps the entry's memory as long as `current` is kept.
        self.current = unsafe { kept(entry) };
    }

    /// Goes to the last entry.
    pub fn seek_last(&mut self) {
        let entry = self.map.list.last().map(|node| node.entry());
        // SAFETY: `self.map` keeps the entry's memory as long as `current` is kept.
        self.current = unsafe { kept(entry) };
    }

    /// Goes to the next entry, or becomes invalid behind the last. Does nothing when invalid.
    pub fn advance(&mut self) {
        if let Some(entry) = self.current {
            let after = entry.position();
            self.current = match after.seqno.checked_sub(1) {
                Some(seqno) => {
                    self.find(&Position {
                        key: after.key,
                        seqno,
                    })
                    .1
                }
                None => {
                    self.find(&Position {
                        key: &[after.key, &[0]].concat(),
                        seqno: u64::MAX,
                    })
                    .1
                }
            };
        }
    }

    /// Goes to the previous entry, or becomes invalid before the first. Does nothing when invalid.
    pub fn retreat(&mut self) {
        if let Some(entry) = self.current {
            self.current = self.find(&entry.position()).0;
        }
    }

    /// The entry the cursor stands on.
    #[must_use]
    pub fn entry(&self) -> Option<EntryRef<'_>> {
        self.current.map(Entry::get)
    }

    fn find(&self, position: &Position<'_>) -> (Option<Entry<'static>>, Option<Entry<'static>>) {
        let (before, next) = self.map.list.find(position);
        // SAFETY: `self.map` keeps the entry's memory as long as the caller keeps it in `current`.
        let before = unsafe { kept(before.map(|node| node.entry())) };
        // SAFETY: as above.
        let next = unsafe { kept(next.map(|node| node.entry())) };
        (before, next)
    }
}

impl fmt::Debug for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cursor")
            .field("entry", &self.entry())
            .finish()
    }
}

/// Forgets how long an entry lives.
///
/// # Safety
/// The caller keeps the entry's map alive as long as it uses the result.
unsafe fn kept(entry: Option<Entry<'_>>) -> Option<Entry<'static>> {
    let start = NonNull::new(entry?.as_ptr())?;
    // SAFETY: it is an entry of this thread already, and the caller answers for the lifetime.
    Some(unsafe { Entry::from_ptr(start) })
}
