//! Publication in order. Commits finish in any order and become visible in the order of their
//! sequence numbers.
//!
//! A ring has one slot for each commit under way. A finished commit marks its slot. Each finisher
//! then raises the published number and moves the tail over every marked slot. No thread waits for
//! another to publish, and none takes a lock unless a waiter is parked.
//!
//! ```text
//! ticket      7        8        9        10
//! slot    | done   | done   | open   | done   |      published = last of ticket 8
//!                             ^ tail            ^ head
//! ```
//!
//! Two orderings carry the argument. A finisher marks its slot, passes a sequentially consistent
//! fence, and then reads the other marks and the tail. So if two neighbours finish at once, at
//! least one sees the other's mark. A waiter increments the count of waiters before its last look
//! at the number, and a finisher reads the count after it raised the number. Such a fence stands
//! between on both sides. So either the waiter sees the number or the finisher sees the waiter.

use std::fmt;
use std::sync::atomic::Ordering;

use crate::cache_padded::CachePadded;
use crate::sync::{AtomicU64, AtomicUsize, Condvar, Mutex, fence, spin_hint, yield_now};

/// The number of checks of a waiter before it yields its processor: about 2 us, which a commit of a
/// small batch does not exceed.
const SPINS: u32 = if cfg!(loom) { 1 } else { 128 };
/// The number of yields before the waiter parks.
const YIELDS: u32 = if cfg!(loom) { 1 } else { 8 };

/// A commit that has begun. It must be [finished](Publisher::finish), even if it failed: until then
/// no later commit becomes visible.
#[must_use = "an unfinished ticket holds up every later one"]
#[derive(Debug, PartialEq, Eq)]
pub struct Ticket {
    index: u64,
}

struct Slot {
    /// The last sequence number of the ticket in the slot.
    last: AtomicU64,
    /// One more than the index of the ticket last finished in this slot.
    done: AtomicU64,
}

/// The progress of publication. A writer of one number also writes the other.
struct Done {
    published: AtomicU64,
    /// The first unpublished ticket.
    tail: AtomicU64,
}

/// Publishes sequence numbers in order.
pub struct Publisher {
    done: CachePadded<Done>,
    /// The next ticket to hand out.
    head: CachePadded<AtomicU64>,
    waiters: AtomicUsize,
    parked: Mutex<()>,
    moved: Condvar,
    slots: Box<[Slot]>,
}

impl Publisher {
    /// A publisher with room for `slots` commits under way. `published` is the last visible
    /// sequence number of the database.
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
            done: CachePadded(Done {
                published: AtomicU64::new(published),
                tail: AtomicU64::new(0),
            }),
            head: CachePadded(AtomicU64::new(0)),
            waiters: AtomicUsize::new(0),
            parked: Mutex::new(()),
            moved: Condvar::new(),
            slots: (0..slots).map(slot).collect(),
        }
    }

    /// The next ticket, for sequence numbers up to `last`. `last` must exceed that of every earlier
    /// ticket. One thread at a time may call this, inside the critical section that assigns the
    /// numbers. `None` if every slot has a commit under way: then
    /// [`wait_for_slot`](Self::wait_for_slot) and call again.
    #[must_use]
    pub fn begin(&self, last: u64) -> Option<Ticket> {
        let index = self.head.load(Ordering::Relaxed);
        if !self.has_slot(index) {
            return None;
        }
        self.slot(index).last.store(last, Ordering::Release);
        // Whoever sees this head sees the slot's number, not that of 1,024 tickets ago.
        self.head.store(index + 1, Ordering::Release);
        Some(Ticket { index })
    }

    /// Waits until [`begin`](Self::begin) has a free slot: spins, yields, then parks. Any thread
    /// may call it. Another thread may take the slot before this returns.
    pub fn wait_for_slot(&self) {
        let index = self.head.load(Ordering::Relaxed);
        self.wait_until(|| self.has_slot(index));
    }

    /// Reports that the records of a ticket are in the log and in the memtables. Any thread, in any
    /// order. A reader of a [`published`](Self::published) number that covers the ticket sees every
    /// earlier write of this thread. If every earlier ticket is finished, the ticket is published
    /// when this returns.
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

    /// The largest visible sequence number: all commits up to it are finished. One atomic load.
    #[must_use]
    #[inline]
    pub fn published(&self) -> u64 {
        self.done.published.load(Ordering::Acquire)
    }

    /// The last number of the newest ticket. No record has a larger number. Cost: three atomic
    /// loads.
    #[must_use]
    pub fn begun(&self) -> u64 {
        let head = self.head.load(Ordering::Acquire);
        let newest = head.checked_sub(1).map(|index| self.slot(index));
        let last = newest.map_or(0, |slot| slot.last.load(Ordering::Acquire));
        last.max(self.published())
    }

    /// Waits until `seqno` is published: spins briefly, yields, then parks.
    pub fn wait(&self, seqno: u64) {
        self.wait_until(|| self.published() >= seqno);
    }

    fn slot(&self, index: u64) -> &Slot {
        &self.slots[index as usize & (self.slots.len() - 1)]
    }

    /// Returns true if the slot of ticket `index` is free. This acquire pairs with the release of
    /// the next store to the slot, so a reader of that store sees that the tail has moved.
    fn has_slot(&self, index: u64) -> bool {
        let tail = self.done.tail.load(Ordering::Acquire);
        index.saturating_sub(tail) < self.slots.len() as u64
    }

    /// Publishes every finished ticket from the tail on and moves the tail over it. Returns true if
    /// this thread moved it.
    fn advance(&self) -> bool {
        let mut advanced = false;
        loop {
            let tail = self.done.tail.load(Ordering::Acquire);
            let slot = self.slot(tail);
            if slot.done.load(Ordering::Acquire) != tail + 1 {
                return advanced;
            }
            // If the tail has moved, the slot may have a later ticket and its number.
            let last = slot.last.load(Ordering::Acquire);
            if self.done.tail.load(Ordering::Relaxed) != tail {
                continue;
            }
            // Published before the tail moves, so that no thread waits for one that is interrupted
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
        // A waiter holds the lock from its last check until it sleeps, so it cannot miss this.
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
