//! Counts the operations on a keyspace while it is open; the manifest remembers them.
//!
//! The engine counts operations since it was opened. At every flush of the keyspace, and when the
//! database is closed, the manifest records the sum ([`OperationCounters::note`]), so that the next
//! process knows it, too. Old operations count less: all numbers are halved whenever they reach two
//! windows. A window has as many operations as the keyspace has entries. So the data that merges
//! find at the bottom of the tree is as old as the operations counted here.
//!
//! Cost: threads add to the counters without sharing a cache line. All counters of a thread are in
//! one line, so they take half a KiB per keyspace. A flush adds about 30 bytes to the manifest.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock};

use super::{STRIPES, Stripe};
use crate::base::mutex::lock;

/// Operations on a keyspace. Recent ones count more than old ones.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Operations {
    /// Point lookups that found a value.
    pub gets_found: u64,
    /// Point lookups that found none.
    pub gets_missed: u64,
    /// Cursor and scan positionings.
    pub seeks: u64,
    /// Cursor and scan steps.
    pub nexts: u64,
    /// Puts, in batches and out of them. Entries of bulk loads do not count.
    pub puts: u64,
    /// Deletes.
    pub deletes: u64,
    /// Entries that flushes and merges dropped because of a newer entry of their key. The number
    /// lags behind the writes: an old version goes when a merge meets it.
    pub replaced: u64,
    /// All operations since the keyspace got its design. This number is never halved.
    pub since_retune: u64,
}

/// The least operations of a window: enough to know the shares of a mix to half a percent.
const WINDOW_MIN: u64 = 1 << 16;

impl Operations {
    /// Lookups, positionings and writes.
    pub fn total(&self) -> u64 {
        let reads = self.gets_found.saturating_add(self.gets_missed);
        let writes = self.puts.saturating_add(self.deletes);
        reads.saturating_add(self.seeks).saturating_add(writes)
    }

    /// The operations of a window, for a keyspace of this many entries.
    pub fn window(entries: u64) -> u64 {
        entries.max(WINDOW_MIN)
    }

    pub(crate) fn numbers(&self) -> [u64; 8] {
        [
            self.gets_found,
            self.gets_missed,
            self.seeks,
            self.nexts,
            self.puts,
            self.deletes,
            self.replaced,
            self.since_retune,
        ]
    }

    /// The inverse of [`Operations::numbers`].
    pub(crate) fn of(numbers: [u64; 8]) -> Operations {
        Operations {
            gets_found: numbers[0],
            gets_missed: numbers[1],
            seeks: numbers[2],
            nexts: numbers[3],
            puts: numbers[4],
            deletes: numbers[5],
            replaced: numbers[6],
            since_retune: numbers[7],
        }
    }

    /// Joins each number with that of `others`.
    fn with(&self, others: &Operations, join: fn(u64, u64) -> u64) -> Operations {
        let (numbers, others) = (self.numbers(), others.numbers());
        Operations::of(std::array::from_fn(|i| join(numbers[i], others[i])))
    }

    pub(crate) fn plus(&self, others: &Operations) -> Operations {
        self.with(others, u64::saturating_add)
    }

    fn minus(&self, earlier: &Operations) -> Operations {
        self.with(earlier, u64::saturating_sub)
    }

    fn faded(mut self, window: u64) -> Operations {
        while self.total() >= window.saturating_mul(2) {
            let since_retune = self.since_retune;
            self = Operations::of(self.numbers().map(|number| number / 2));
            self.since_retune = since_retune;
        }
        self
    }
}

/// A kind of operation that is counted.
#[derive(Debug, Clone, Copy)]
pub(crate) enum OperationKind {
    Gets,
    GetHits,
    Seeks,
    Nexts,
    Puts,
    Deletes,
    Replaced,
    /// Entries that scans stepped over. The manifest does not remember them.
    Skipped,
}

/// The counts of those threads that add to them: one cache line.
#[derive(Default)]
#[repr(align(64))]
struct Counts([AtomicU64; OperationKind::Skipped as usize + 1]);

/// The operations on a keyspace that is open.
#[derive(Default)]
pub(crate) struct OperationCounters {
    /// None of a keyspace that nothing was asked of.
    stripes: OnceLock<Box<[Counts; STRIPES]>>,
    noted: Mutex<NotedOperations>,
}

impl fmt::Debug for OperationCounters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.counted())
    }
}

/// The operations in the manifest, and the counters at the time of that record.
#[derive(Debug, Default)]
struct NotedOperations {
    operations: Operations,
    counted: Operations,
}

impl OperationCounters {
    /// The counters of a keyspace whose manifest records these operations.
    pub(crate) fn new(operations: Operations) -> OperationCounters {
        let counters = OperationCounters::default();
        counters.noted().operations = operations;
        counters
    }

    #[inline]
    pub(crate) fn add(&self, what: OperationKind, n: u64) {
        self.add_to(what, n);
    }

    /// Adds one. Returns true on every `n`-th addition of the threads that share this thread's
    /// stripe.
    #[inline]
    pub(crate) fn add_one_of(&self, what: OperationKind, n: u64) -> bool {
        (self.add_to(what, 1) + 1).is_multiple_of(n)
    }

    /// Adds to the count of this thread's stripe. Returns the count before.
    #[inline]
    fn add_to(&self, what: OperationKind, n: u64) -> u64 {
        let (stripes, stripe) = (self.stripes.get_or_init(Box::default), Stripe::of_thread());
        stripe.add(&stripes[stripe.place()].0[what as usize], n)
    }

    /// The count of all threads.
    pub(crate) fn get(&self, what: OperationKind) -> u64 {
        let stripes = self.stripes.get().into_iter().flat_map(|all| all.iter());
        let counts = stripes.map(|counts| &counts.0[what as usize]);
        counts.map(|count| count.load(Ordering::Relaxed)).sum()
    }

    /// The operations since the database was opened.
    pub(crate) fn counted(&self) -> Operations {
        let hits = self.get(OperationKind::GetHits);
        let mut counted = Operations {
            gets_found: hits,
            gets_missed: self.get(OperationKind::Gets).saturating_sub(hits),
            seeks: self.get(OperationKind::Seeks),
            nexts: self.get(OperationKind::Nexts),
            puts: self.get(OperationKind::Puts),
            deletes: self.get(OperationKind::Deletes),
            replaced: self.get(OperationKind::Replaced),
            since_retune: 0,
        };
        counted.since_retune = counted.total();
        counted
    }

    /// The operations in the manifest, plus those since its last record.
    pub(crate) fn recent(&self) -> Operations {
        let counted = self.counted();
        let noted = self.noted();
        noted.operations.plus(&counted.minus(&noted.counted))
    }

    /// The operations to record in the manifest now, for a keyspace of `entries` entries; `None` if
    /// nothing is new.
    pub(crate) fn note(&self, entries: u64) -> Option<Operations> {
        let counted = self.counted();
        let mut noted = self.noted();
        let new = counted.minus(&noted.counted);
        if new == Operations::default() {
            return None;
        }
        let window = Operations::window(entries);
        noted.operations = noted.operations.plus(&new).faded(window);
        noted.counted = counted;
        Some(noted.operations)
    }

    /// Restarts `since_retune` after the manifest recorded another design.
    pub(crate) fn retuned(&self) {
        let counted = self.counted();
        let mut noted = self.noted();
        noted.operations.since_retune = 0;
        noted.counted.since_retune = counted.since_retune;
    }

    fn noted(&self) -> MutexGuard<'_, NotedOperations> {
        lock(&self.noted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_noted_is_what_was_counted_since() {
        let counters = OperationCounters::new(Operations {
            puts: 5,
            since_retune: 5,
            ..Operations::default()
        });
        assert_eq!(counters.note(0), None);
        counters.add(OperationKind::Puts, 2);
        counters.add(OperationKind::Gets, 3);
        counters.add(OperationKind::GetHits, 1);
        let expected = Operations {
            gets_found: 1,
            gets_missed: 2,
            puts: 7,
            since_retune: 10,
            ..Operations::default()
        };
        assert_eq!(counters.recent(), expected);
        assert_eq!(counters.note(0), Some(expected));
        assert_eq!(counters.note(0), None);
        assert_eq!(counters.recent(), expected);
        counters.add(OperationKind::Deletes, 1);
        counters.retuned();
        let recent = counters.recent();
        assert_eq!((recent.deletes, recent.since_retune), (1, 0));
    }

    #[test]
    fn operations_of_long_ago_count_less() {
        let counters = OperationCounters::default();
        for _ in 0..20 {
            counters.add(OperationKind::Puts, WINDOW_MIN / 2);
            counters.note(0);
        }
        for _ in 0..20 {
            counters.add(OperationKind::Seeks, WINDOW_MIN / 2);
            counters.note(0);
        }
        let recent = counters.recent();
        assert!((WINDOW_MIN..2 * WINDOW_MIN).contains(&recent.total()));
        assert!(recent.puts * 100 < recent.seeks, "{recent:?}");
        assert_eq!(recent.since_retune, 20 * WINDOW_MIN);
        // A window is as large as the keyspace.
        counters.add(OperationKind::Puts, 40 * WINDOW_MIN);
        let all = counters.note(30 * WINDOW_MIN).unwrap_or_default();
        assert_eq!(all.puts, 40 * WINDOW_MIN + recent.puts);
    }
}
