//! The memory of the process that the allocator of glibc holds. With other allocators, and
//! elsewhere, nothing here has an effect.

/// Gives memory that was freed back to the system. The allocator keeps what lies between pieces
/// that are in use; this looks through all of it, which takes some milliseconds for each hundred
/// MiB.
pub fn give_back_freed_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: it takes no pointer, and may be called by any thread at any time.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Bounds the number of arenas, in which threads allocate beside each other and which do not share
/// what was freed. Those that are there already stay.
pub fn limit_arenas(count: usize) {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: it takes two numbers and changes a parameter under the allocator's own lock.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, count as libc::c_int);
    }
    #[cfg(not(all(target_os = "linux", target_env = "gnu")))]
    let _ = count;
}
