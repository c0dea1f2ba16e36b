//! The stripes of counters, of which each thread adds to one.
//!
//! A stripe of its own costs a thread a load and a store for each addition. In a shared one an
//! addition is an atomic instruction, about twenty cycles. A get makes five or six additions.
//!
//! The first threads that add anything have stripes of their own, background threads included. A
//! thread returns its stripe when it ends. All other threads share the other stripes.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The number of stripes. Each is a cache line of a counter, and of each keyspace that is used.
/// With twelve, a keyspace would take 256 bytes more.
pub(super) const STRIPES: usize = 8;
/// The number of stripes, the first ones, that have one thread at most: enough for the threads of a
/// small machine, and half of the stripes are left for the threads of a large one.
const OWNED: usize = 4;

/// A bit for each stripe that a thread can take. A thread that takes a stripe sees all additions of
/// the thread that returned it: `Acquire` here, `Release` there.
static FREE: AtomicUsize = AtomicUsize::new((1 << OWNED) - 1);
static NEXT_SHARED: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static TAKEN: ThreadStripe = ThreadStripe(Stripe::take());
}

/// The number of a stripe.
#[derive(Clone, Copy)]
pub(super) struct Stripe(usize);

impl Stripe {
    /// The stripe of this thread.
    #[inline]
    pub(super) fn of_thread() -> Stripe {
        // A thread that ends may have returned its stripe already.
        let taken = TAKEN.try_with(|taken| taken.0);
        taken.unwrap_or_else(|_| Stripe::shared())
    }

    fn take() -> Stripe {
        let without_first = |free: usize| (free != 0).then(|| free & (free - 1));
        match FREE.fetch_update(Ordering::Acquire, Ordering::Relaxed, without_first) {
            Ok(free) => Stripe(free.trailing_zeros() as usize),
            Err(_) => Stripe::shared(),
        }
    }

    fn shared() -> Stripe {
        let next = NEXT_SHARED.fetch_add(1, Ordering::Relaxed);
        Stripe(OWNED + next % (STRIPES - OWNED))
    }

    #[inline]
    pub(super) fn place(self) -> usize {
        self.0
    }

    /// Adds to a count of this stripe. Returns the count before.
    #[inline]
    pub(super) fn add(self, count: &AtomicU64, n: u64) -> u64 {
        if self.0 >= OWNED {
            return count.fetch_add(n, Ordering::Relaxed);
        }
        let before = count.load(Ordering::Relaxed);
        count.store(before.wrapping_add(n), Ordering::Relaxed);
        before
    }
}

/// The stripe of a thread until it ends.
struct ThreadStripe(Stripe);

impl Drop for ThreadStripe {
    fn drop(&mut self) {
        if self.0.0 < OWNED {
            FREE.fetch_or(1 << self.0.0, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::{OWNED, STRIPES, Stripe};
    use crate::base::stats::Counter;

    /// More threads at once than there are stripes, three times.
    #[test]
    fn threads_that_come_and_go_lose_no_count() {
        let counter = Counter::default();
        for _ in 0..3 {
            let all_run = Barrier::new(2 * STRIPES);
            std::thread::scope(|scope| {
                for _ in 0..2 * STRIPES {
                    scope.spawn(|| {
                        counter.add(1);
                        all_run.wait();
                        (1..10_000).for_each(|_| counter.add(1));
                    });
                }
            });
        }
        assert_eq!(counter.get(), 3 * 2 * STRIPES as u64 * 10_000);
    }

    /// Other tests have stripes, too, but not all of them all the time.
    #[test]
    fn a_thread_returns_its_stripe() {
        let place = || {
            let of_thread = || Stripe::of_thread().place();
            std::thread::scope(|scope| scope.spawn(of_thread).join().unwrap())
        };
        let places = (0..10_000).map(|_| place());
        assert!(places.skip(OWNED).any(|place| place < OWNED));
    }
}
