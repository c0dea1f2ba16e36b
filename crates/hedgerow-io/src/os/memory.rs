//! The memory of the process that nothing uses.

/// Gives memory that was freed back to the system. The allocator of glibc keeps what lies between
/// pieces that are in use, in each of its parts; this looks through all of them, which takes some
/// milliseconds for each hundred MiB. Elsewhere it has no effect.
pub fn give_back_freed_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: it takes no pointer, and may be called by any thread at any time.
    unsafe {
        libc::malloc_trim(0);
    }
}
