//! The two ends of a keyspace, as pops know them: how far its first and its last entry have moved,
//! and which entries come next.
//!
//! Nothing is watched before the first pop, so that other writes cost nothing. From then on commits
//! note the smallest and the largest key that they put, inside of the critical section. So a pop
//! knows a bound beyond which no entry has a value, and need not step over the tombstones there.
//!
//! Lock order: a turn comes before every lock of the engine, and may be held while waiting. The
//! lock of the notes is the innermost.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use crate::base::entry::SeqNo;
use crate::base::slice::Slice;

/// One of the two ends of a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    First,
    Last,
}

impl End {
    /// Returns true if `a` is nearer to the end than `b`.
    fn is_nearer(self, a: &[u8], b: &[u8]) -> bool {
        match self {
            End::First => a < b,
            End::Last => a > b,
        }
    }
}

/// The knowledge of both ends. It takes no memory before the first pop, since there are as many as
/// keyspaces.
#[derive(Debug, Default)]
pub(crate) struct Ends(OnceLock<Box<BothEnds>>);

#[derive(Debug, Default)]
struct BothEnds {
    /// Stored inside the commit's critical section.
    watched: AtomicBool,
    notes: Mutex<Notes>,
    first: Mutex<Ahead>,
    last: Mutex<Ahead>,
}

/// The writes since each end was looked at.
#[derive(Debug, Default)]
struct Notes {
    /// The key put that is nearest to each end, if one was put.
    first: Note,
    last: Note,
    /// The number of the newest of these writes.
    newest: SeqNo,
}

#[derive(Debug, Default)]
enum Note {
    #[default]
    Nothing,
    /// The order key.
    Put(Vec<u8>),
    /// A bulk load may have put any key.
    Any,
}

impl Note {
    fn add(&mut self, end: End, order_key: &[u8]) {
        match self {
            Note::Nothing => *self = Note::Put(order_key.to_vec()),
            Note::Put(nearest) if end.is_nearer(order_key, nearest) => {
                nearest.clear();
                nearest.extend_from_slice(order_key);
            }
            _ => {}
        }
    }
}

/// The entries that come next at an end.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    /// No entry nearer to the end than this order key has a value, but those noted. `None` if
    /// nothing is known.
    reached: Option<Vec<u8>>,
    /// Keys and values, the nearest first, as they were at the number, and the times when they
    /// expire.
    pub(crate) entries: VecDeque<((Slice, Slice), Option<u64>)>,
    pub(crate) seqno: SeqNo,
    pub(crate) routing_epoch: u64,
}

impl Ahead {
    /// Records that all entries nearer to the end than an order key are gone.
    pub(crate) fn reach(&mut self, order_key: &[u8]) {
        let reached = self.reached.get_or_insert_default();
        reached.clear();
        reached.extend_from_slice(order_key);
    }
}

impl Ends {
    fn known(&self) -> &BothEnds {
        self.0.get_or_init(Box::default)
    }

    /// Takes the turn of the pops at an end.
    pub(crate) fn turn(&self, end: End) -> MutexGuard<'_, Ahead> {
        lock(match end {
            End::First => &self.known().first,
            End::Last => &self.known().last,
        })
    }

    #[inline]
    pub(crate) fn is_watched(&self) -> bool {
        let known = self.0.get();
        known.is_some_and(|it| it.watched.load(Ordering::Relaxed))
    }

    /// Has commits note what they put from now on. Every write numbered below `next` counts as
    /// noted. Inside the commit's critical section.
    pub(crate) fn watch(&self, next: SeqNo) {
        self.known().watched.store(true, Ordering::Relaxed);
        lock(&self.known().notes).newest = SeqNo(next.0 - 1);
    }

    /// Notes a put. Inside the commit's critical section.
    pub(crate) fn note(&self, order_key: &[u8], seqno: SeqNo) {
        let mut notes = lock(&self.known().notes);
        notes.first.add(End::First, order_key);
        notes.last.add(End::Last, order_key);
        notes.newest = seqno;
    }

    /// Notes a write that puts nothing. Inside the commit's critical section.
    pub(crate) fn note_write(&self, seqno: SeqNo) {
        lock(&self.known().notes).newest = seqno;
    }

    /// Notes that any key may have been put. Inside the commit's critical section.
    pub(crate) fn note_any(&self, seqno: SeqNo) {
        if !self.is_watched() {
            return;
        }
        let mut notes = lock(&self.known().notes);
        (notes.first, notes.last) = (Note::Any, Note::Any);
        notes.newest = seqno;
    }

    /// Returns true if a put since the last look is nearer to an end than an order key. Inside the
    /// commit's critical section, so that no further one comes first.
    pub(crate) fn has_nearer(&self, end: End, order_key: &[u8]) -> bool {
        match lock(&self.known().notes).at(end) {
            Note::Nothing => false,
            Note::Put(nearest) => end.is_nearer(nearest, order_key),
            Note::Any => true,
        }
    }

    /// Takes the notes of an end. Returns the order key to begin a look at, if one is known, and
    /// the number of a write that the look must see with all before it.
    pub(crate) fn take(&self, end: End, ahead: &mut Ahead) -> (Option<Vec<u8>>, SeqNo) {
        let mut notes = lock(&self.known().notes);
        match std::mem::take(notes.at(end)) {
            Note::Put(nearest) => {
                let reached = ahead.reached.as_mut();
                if let Some(reached) = reached.filter(|it| end.is_nearer(&nearest, it)) {
                    *reached = nearest;
                }
            }
            Note::Any => ahead.reached = None,
            Note::Nothing => {}
        }
        (ahead.reached.clone(), notes.newest)
    }
}

impl Notes {
    fn at(&mut self, end: End) -> &mut Note {
        match end {
            End::First => &mut self.first,
            End::Last => &mut self.last,
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
