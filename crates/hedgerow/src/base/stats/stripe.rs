//! The stripes of counters, of which each thread adds to one.
//!
//! Some stripes are lent to one thread each, for as long as it lives. There an addition is a load
//! and a store. Elsewhere it locks a cache line, which takes some twenty cycles, and a get makes six
//! additions. Threads that come when all of these stripes are lent share the others.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The number of stripes.
pub(super) const STRIPES: usize = 12;
/// The number of those that are lent, the first ones.
const LENT: usize = 6;

/// A bit for each stripe that can be lent now. Who takes one sees what its last thread added.
static LENDABLE: AtomicUsize = AtomicUsize::new((1 << LENT) - 1);
static NEXT_SHARED: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static LEASE: Lease = Lease::take();
}

/// The stripe of a thread.
#[derive(Clone, Copy)]
pub(super) struct Stripe {
    pub(super) place: usize,
    /// No other thread adds to it.
    is_own: bool,
}

impl Stripe {
    /// The stripe of this thread.
    #[inline]
    pub(super) fn of_thread() -> Stripe {
        // A thread that ends may have given its stripe back already.
        let lent = LEASE.try_with(|lease| lease.0);
        lent.unwrap_or_else(|_| Stripe::shared())
    }

    fn shared() -> Stripe {
        let next = NEXT_SHARED.fetch_add(1, Ordering::Relaxed);
        Stripe {
            place: LENT + next % (STRIPES - LENT),
            is_own: false,
        }
    }

    /// Adds to a count of this stripe. Returns the count before.
    #[inline]
    pub(super) fn add(self, count: &AtomicU64, n: u64) -> u64 {
        if !self.is_own {
            return count.fetch_add(n, Ordering::Relaxed);
        }
        let before = count.load(Ordering::Relaxed);
        count.store(before.wrapping_add(n), Ordering::Relaxed);
        before
    }
}

struct Lease(Stripe);

impl Lease {
    fn take() -> Lease {
        let mut free = LENDABLE.load(Ordering::Relaxed);
        while free != 0 {
            let place = free.trailing_zeros() as usize;
            let left = free & (free - 1);
            let taken =
                LENDABLE.compare_exchange_weak(free, left, Ordering::Acquire, Ordering::Relaxed);
            match taken {
                Ok(_) => {
                    return Lease(Stripe {
                        place,
                        is_own: true,
                    });
                }
                Err(now) => free = now,
            }
        }
        Lease(Stripe::shared())
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if self.0.is_own {
            LENDABLE.fetch_or(1 << self.0.place, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::STRIPES;
    use crate::base::stats::Counter;

    /// More threads at once than there are stripes, and more in turn than can be lent.
    #[test]
    fn threads_that_come_and_go_lose_no_count() {
        let counter = Counter::default();
        for _ in 0..3 {
            std::thread::scope(|scope| {
                for _ in 0..2 * STRIPES {
                    scope.spawn(|| (0..10_000).for_each(|_| counter.add(1)));
                }
            });
        }
        assert_eq!(counter.get(), 3 * 2 * STRIPES as u64 * 10_000);
    }
}
