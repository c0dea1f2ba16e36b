//! The keys that commands which only read have found or missed. A thread adds to them once for all
//! commands of an attempt.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::striped::Striped;

/// The numbers of keys that were found, and that were missed.
pub(crate) type Count = [u64; 2];

#[derive(Default)]
pub(crate) struct Lookups(Striped<[AtomicU64; 2]>);

impl Lookups {
    pub(crate) fn add(&self, count: Count) {
        for (total, count) in self.0.own().iter().zip(count).filter(|it| it.1 > 0) {
            total.fetch_add(count, Ordering::Relaxed);
        }
    }

    pub(crate) fn total(&self) -> Count {
        let sum = |at: usize| self.0.all().map(|it| it[at].load(Ordering::Relaxed)).sum();
        [sum(0), sum(1)]
    }

    pub(crate) fn reset(&self) {
        let all = self.0.all().flatten();
        all.for_each(|it| it.store(0, Ordering::Relaxed));
    }
}
