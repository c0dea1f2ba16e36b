//! Hints to the processor about memory that will be read soon.

/// Asks for the first cache line of `what`, without waiting for it.
#[inline]
pub fn prefetch<T>(what: &T) {
    prefetch_at(std::ptr::from_ref(what).cast());
}

/// Asks for the cache lines of some bytes, all at once.
#[inline]
pub fn prefetch_bytes(bytes: &[u8]) {
    prefetch_lines(bytes.as_ptr(), bytes.len());
}

const LINE_BYTES: usize = 64;

/// Asks for the cache lines of so many bytes from `start` on, all at once: reading them one after the other would wait
/// for memory each time. It may be more than there is.
#[inline]
pub(crate) fn prefetch_lines(start: *const u8, bytes: usize) {
    for line in 0..bytes.div_ceil(LINE_BYTES) {
        prefetch_at(start.wrapping_add(LINE_BYTES * line));
    }
}

/// Asks for a cache line, where the processor takes such hints. Reads nothing, so that the address
/// may be any.
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
