//! The atomics, locks and hints of the structures that loom explores. They are loom's own under
//! `cfg(loom)` and the standard library's otherwise.

#[cfg(loom)]
pub(crate) use loom::{
    sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
    sync::{Condvar, Mutex, MutexGuard},
    thread::yield_now,
};
#[cfg(not(loom))]
pub(crate) use std::{
    sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
    sync::{Condvar, Mutex, MutexGuard},
    thread::yield_now,
};

/// Marks a spin loop for the processor. Under loom it lets another thread run.
#[inline]
pub(crate) fn spin_hint() {
    #[cfg(loom)]
    yield_now();
    #[cfg(not(loom))]
    std::hint::spin_loop();
}
