//! Hints to the processor about memory that will be read soon.

/// Prefetches the first cache line of `what` without waiting for it.
#[inline]
pub fn prefetch<T>(what: &T) {
    prefetch_at(std::ptr::from_ref(what).cast());
}

/// Prefetches the cache lines of `bytes`, all at once.
#[inline]
pub fn prefetch_bytes(bytes: &[u8]) {
    prefetch_lines(bytes.as_ptr(), bytes.len());
}

const LINE_BYTES: usize = 64;

/// Prefetches the cache lines of `bytes` bytes from `start` on, all at once, so that their misses
/// overlap. The range may exceed the allocation.
#[inline]
pub(crate) fn prefetch_lines(start: *const u8, bytes: usize) {
    for line in 0..bytes.div_ceil(LINE_BYTES) {
        prefetch_at(start.wrapping_add(LINE_BYTES * line));
    }
}

/// Prefetches a cache line if the processor supports it. Reads nothing, so any address is allowed.
#[inline]
fn prefetch_at(address: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a hint about any address is allowed.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = address;
}
