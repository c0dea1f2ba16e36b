//! Numbers that all threads add to and few read. A thread has some that few others add to, so that
//! no cache line goes from one processor to the other for each command.

use std::sync::atomic::{AtomicUsize, Ordering};

const STRIPES: usize = 8;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Striped<T>([Stripe<T>; STRIPES]);

/// No two share cache lines that the processor fetches together.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Stripe<T>(T);

impl<T> Striped<T> {
    /// Those of this thread.
    pub(crate) fn own(&self) -> &T {
        static THREADS: AtomicUsize = AtomicUsize::new(0);
        thread_local! {
            static STRIPE: usize = THREADS.fetch_add(1, Ordering::Relaxed) % STRIPES;
        }
        &self.0[STRIPE.with(|it| *it)].0
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|it| &it.0)
    }
}
