//! Forks. The child of a fork has the memory of its parent, but none of its threads, so an engine
//! that was opened before the fork would wait for ever.

use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The number of forks between this process and the one that loaded the library.
static DEPTH: AtomicUsize = AtomicUsize::new(0);
static WATCHED: Once = Once::new();

/// The number of forks between this process and the one that loaded the library.
#[inline]
pub fn depth() -> usize {
    DEPTH.load(Ordering::Relaxed)
}

/// Counts forks from now on.
pub fn watch() {
    WATCHED.call_once(|| {
        // SAFETY: the handler only changes an atomic number, which any handler may do. The library
        // is never unloaded (it is linked with `-z nodelete`, or is a module of a language that
        // unloads none), so the handler stays.
        let failed = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        assert_eq!(failed, 0, "there is memory for a handler of forks");
    });
}

extern "C" fn in_child() {
    DEPTH.fetch_add(1, Ordering::Relaxed);
}
