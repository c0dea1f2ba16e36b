//! Publication in order: commits finish in any order, and become visible in the order in which
//! they took their sequence numbers.
//!
//! A ring holds one slot for each commit under way. A finished commit marks its slot; whoever
//! finishes then raises the published number and moves the tail over every marked slot. No thread
//! waits for another to publish, and none takes a lock unless somebody is parked.
//!
//! ```text
//! ticket      7        8        9        10
//! slot    | done   | done   | open   | done   |      published = last of ticket 8
//!                             ^ tail            ^ head
//! ```
//!
//! Two orderings carry the argument. Marks and the tail are read after a sequentially consistent
//! fence that follows the own mark, so of two neighbours that finish at once at least one sees the
//! other's mark. Waiters count themselves in before they look at the number a last time, and the
//! finisher looks at the count after raising the number, with such a fence between on both sides,
//! so either the waiter sees the number or the finisher sees the waiter.

use std::fmt;
use std::sync::atomic::Ordering;

use crate::apart::Apart;
use crate::sync::{AtomicU64, AtomicUsize, Condvar, Mutex, fence, spin_hint, yield_now};

/// How often a waiter looks before it begins to give up its processor: about 2 us, which a commit
/// of a small batch does not exceed.
const SPINS: u32 = if cfg!(loom) { 1 } else { 128 };
/// How often it then yields before it parks.
const YIELDS: u32 = if cfg!(loom) { 1 } else { 8 };

/// A commit that has begun and must be [finished](Publisher::finish), also if it failed: until
/// then nothing behind it becomes visible.
#[must_use = "an unfinished ticket holds up every later one"]
#[derive(Debug, PartialEq, Eq)]
pub struct Ticket {
    index: u64,
}

struct Slot {
    /// The last sequence number of the ticket that has the slot.
    last: AtomicU64,
    /// One more than the index of the ticket last finished in this slot.
    done: AtomicU64,
}

/// How far publication has come. Whoever writes the one number writes the other.
struct Done {
    published: AtomicU64,
    /// The first ticket that is not published.
    tail: AtomicU64,
}

/// Publishes sequence numbers in order.
pub struct Publisher {
    done: Apart<Done>,
    /// The next ticket to hand out.
    head: Apart<AtomicU64>,
    waiters: AtomicUsize,
    parked: Mutex<()>,
    moved: Condvar,
    slots: Box<[Slot]>,
}

impl Publisher {
    /// A publisher for a database whose last visible sequence number is `published`, with room for
    /// `slots` commits under way.
    ///
    /// # Panics
    /// If `slots` is not a power of two.
    #[must_use]
    pub fn new(published: u64, slots: usize) -> Self {
        assert!(
            slots.is_power_of_two(),
            "{slots} slots are not a power of two"
        );
        let slot = |_| Slot {
            last: AtomicU64::new(0),
            done: AtomicU64::new(0),
        };
        Self {
            done: Apart(Done {
                published: AtomicU64::new(published),
                tail: AtomicU64::new(0),
            }),
            head: Apart(AtomicU64::new(0)),
            waiters: AtomicUsize::new(0),
            parked: Mutex::new(()),
            moved: Condvar::new(),
            slots: (0..slots).map(slot).collect(),
        }
    }

    /// The next ticket, for sequence numbers up to `last`, which is larger than every one before.
    /// To be called by one thread at a time, inside the critical section that hands out the
    /// numbers. `None` when as many commits are under way as there are slots:
    /// [`wait_for_slot`](Self::wait_for_slot), then ask again.
    #[must_use]
    pub fn begin(&self, last: u64) -> Option<Ticket> {
        let index = self.head.load(Ordering::Relaxed);
        if !self.has_slot(index) {
            return None;
        }
        self.slot(index).last.store(last, Ordering::Release);
        self.head.store(index + 1, Ordering::Relaxed);
        Some(Ticket { index })
    }

    /// Waits until [`begin`](Self::begin) had a slot to give: spins, yields, then parks. Any thread;
    /// another one may have taken it when this returns.
    pub fn wait_for_slot(&self) {
        let index = self.head.load(Ordering::Relaxed);
        self.wait_until(|| self.has_slot(index));
    }

    /// Says that the records of a ticket are in the log and in the memtables. Any thread, in any
    /// order. Everything the thread did before is visible to whoever then reads a
    /// [`published`](Self::published) number that covers the ticket. If every earlier ticket was
    /// finished before, the ticket is published when this returns.
    pub fn finish(&self, ticket: Ticket) {
        let Ticket { index } = ticket;
        self.slot(index).done.store(index + 1, Ordering::Release);
        fence(Ordering::SeqCst);
        if !self.advance() {
            return;
        }
        fence(Ordering::SeqCst);
        if self.waiters.load(Ordering::Relaxed) > 0 {
            self.wake();
        }
    }

    /// The largest visible sequence number: everything up to it is finished. One atomic load.
    #[must_use]
    #[inline]
    pub fn published(&self) -> u64 {
        self.done.published.load(Ordering::Acquire)
    }

    /// Waits until `seqno` is published: spins briefly, yields, then parks.
    pub fn wait(&self, seqno: u64) {
        self.wait_until(|| self.published() >= seqno);
    }

    fn slot(&self, index: u64) -> &Slot {
        &self.slots[index as usize & (self.slots.len() - 1)]
    }

    /// Whether ticket `index` finds its slot free. The acquire, and the release of what is then
    /// stored in the slot, let whoever reads that see that the tail has moved.
    fn has_slot(&self, index: u64) -> bool {
        let tail = self.done.tail.load(Ordering::Acquire);
        index.saturating_sub(tail) < self.slots.len() as u64
    }

    /// Publishes every finished ticket from the tail on and moves the tail over it. Whether this
    /// thread did any of it.
    fn advance(&self) -> bool {
        let mut advanced = false;
        loop {
            let tail = self.done.tail.load(Ordering::Acquire);
            let slot = self.slot(tail);
            if slot.done.load(Ordering::Acquire) != tail + 1 {
                return advanced;
            }
            // If the tail has moved on, the slot may have a later ticket, and this its number.
            let last = slot.last.load(Ordering::Acquire);
            if self.done.tail.load(Ordering::Relaxed) != tail {
                continue;
            }
            // Before the tail moves, so that nobody has to wait for a thread that is interrupted
            // in between.
            self.done.published.fetch_max(last, Ordering::AcqRel);
            let moved = self.done.tail.compare_exchange(
                tail,
                tail + 1,
                Ordering::AcqRel,
                Ordering::Relaxed,
            );
            advanced |= moved.is_ok();
        }
    }

    #[cold]
    fn wake(&self) {
        // A waiter holds the lock from its last look until it sleeps, so it cannot miss this.
        drop(self.parked.lock());
        self.moved.notify_all();
    }

    fn wait_until(&self, reached: impl Fn() -> bool) {
        for _ in 0..SPINS {
            if reached() {
                return;
            }
            spin_hint();
        }
        for _ in 0..YIELDS {
            if reached() {
                return;
            }
            yield_now();
        }
        self.waiters.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let mut parked = self
            .parked
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        while !reached() {
            parked = self
                .moved
                .wait(parked)
                .unwrap_or_else(|poisoned| poisoned.into_inner());
        }
        drop(parked);
        self.waiters.fetch_sub(1, Ordering::Relaxed);
    }
}

impl fmt::Debug for Publisher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Publisher")
            .field("published", &self.published())
            .field("slots", &self.slots.len())
            .finish_non_exhaustive()
    }
}
