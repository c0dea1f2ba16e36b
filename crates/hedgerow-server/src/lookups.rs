//! The keys that commands which only read have found or missed.
//!
//! A thread adds to counters that few others add to, once for all commands of an attempt.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

const STRIPES: usize = 8;

/// The numbers of keys that were found, and that were missed.
pub(crate) type Count = [u64; 2];

/// No two share cache lines that the processor fetches together.
#[derive(Default)]
#[repr(align(128))]
struct Stripe([AtomicU64; 2]);

#[derive(Default)]
pub(crate) struct Lookups([Stripe; STRIPES]);

impl Lookups {
    pub(crate) fn add(&self, count: Count) {
        static THREADS: AtomicUsize = AtomicUsize::new(0);
        thread_local! {
            static STRIPE: usize = THREADS.fetch_add(1, Ordering::Relaxed) % STRIPES;
        }
        let stripe = &self.0[STRIPE.with(|it| *it)].0;
        for (total, count) in stripe.iter().zip(count).filter(|it| it.1 > 0) {
            total.fetch_add(count, Ordering::Relaxed);
        }
    }

    pub(crate) fn total(&self) -> Count {
        let sum = |at: usize| {
            let all = self.0.iter().map(|it| it.0[at].load(Ordering::Relaxed));
            all.sum::<u64>()
        };
        [sum(0), sum(1)]
    }

    pub(crate) fn reset(&self) {
        let all = self.0.iter().flat_map(|it| &it.0);
        all.for_each(|it| it.store(0, Ordering::Relaxed));
    }
}
