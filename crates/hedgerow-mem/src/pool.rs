//! Chunks of memory and the pool that recycles them from one map to the next.
//!
//! A map grows by chunks of growing size: 4 KiB, 16 KiB and so on up to the pool's chunk size, each
//! at most half of what it holds, so that a map with little in it costs little. What does not fit a chunk well gets
//! an allocation of its own, which is not recycled.
//!
//! A recycled chunk has had its pages faulted in before; a fresh one pays about a quarter of a
//! microsecond for each 4 KiB when first written.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::fmt;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The smallest chunk, in bytes.
const SMALLEST_BYTES: usize = 4 << 10;
/// Each class of chunks is this many times as large as the one below.
const CLASS_FACTOR: usize = 4;
/// A huge page of the usual processors. Larger chunks begin at a multiple of it.
const HUGE_PAGE_BYTES: usize = 2 << 20;
/// Chunks begin at a cache line.
pub(crate) const CHUNK_ALIGN: usize = 64;

/// An owned piece of memory, uninitialized, aligned to [`CHUNK_ALIGN`].
pub(crate) struct Chunk {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a chunk owns its memory exclusively and has no tie to the thread that allocated it.
unsafe impl Send for Chunk {}
// SAFETY: a shared chunk only tells its address and size.
unsafe impl Sync for Chunk {}

impl Chunk {
    fn layout(bytes: usize) -> Layout {
        let align = if bytes >= HUGE_PAGE_BYTES {
            HUGE_PAGE_BYTES
        } else {
            CHUNK_ALIGN
        };
        Layout::from_size_align(bytes, align).expect("a chunk is smaller than isize::MAX")
    }

    /// A chunk from the system's allocator. `bytes` must not be 0.
    pub(crate) fn allocate(bytes: usize) -> Self {
        assert!(bytes > 0, "a chunk holds at least a byte");
        let layout = Self::layout(bytes);
        // SAFETY: the layout's size is not zero: asserted above.
        let start = unsafe { alloc(layout) };
        let Some(start) = NonNull::new(start) else {
            handle_alloc_error(layout)
        };
        ask_for_huge_pages(start, bytes);
        Self { start, bytes }
    }

    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        // SAFETY: `start` came from `alloc` with this very layout, and `self` is its only owner.
        unsafe { dealloc(self.start.as_ptr(), Self::layout(self.bytes)) }
    }
}

/// Asks the system to back the whole huge pages of a piece of memory by huge pages: an entry is
/// found by a few reads far apart, and each would otherwise miss the processor's cache of page
/// addresses too.
#[cfg(all(target_os = "linux", not(miri)))]
fn ask_for_huge_pages(start: NonNull<u8>, bytes: usize) {
    use std::ffi::{c_int, c_void};
    unsafe extern "C" {
        fn madvise(start: *mut c_void, bytes: usize, advice: c_int) -> c_int;
    }
    const MADV_HUGEPAGE: c_int = 14;
    let whole = bytes / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
    if whole > 0 {
        // SAFETY: the range is memory that the caller owns, and the advice does not change what is
        // in it. A refusal does no harm.
        unsafe { madvise(start.as_ptr().cast(), whole, MADV_HUGEPAGE) };
    }
}

#[cfg(not(all(target_os = "linux", not(miri))))]
fn ask_for_huge_pages(_: NonNull<u8>, _: usize) {}

#[derive(Default)]
struct Free {
    /// One list for each class, smallest first.
    classes: Vec<Vec<Chunk>>,
    bytes: usize,
}

/// Chunks of memory that maps take from and give back to. Callable from any thread; the lock
/// inside is taken once per chunk, not per entry.
pub struct ChunkPool {
    chunk_bytes: usize,
    retained_bytes_max: usize,
    free: Mutex<Free>,
}

impl ChunkPool {
    /// A pool whose largest chunk is `chunk_bytes` (at least 4 KiB, rounded up to 4 KiB; 2 MiB
    /// lets the system use huge pages) and that keeps at most `retained_bytes_max` bytes for the
    /// next map.
    ///
    /// # Panics
    /// If `chunk_bytes` is above 1 GiB.
    #[must_use]
    pub fn new(chunk_bytes: usize, retained_bytes_max: usize) -> Arc<Self> {
        assert!(
            chunk_bytes <= 1 << 30,
            "a chunk of {chunk_bytes} bytes is above 1 GiB"
        );
        let chunk_bytes = chunk_bytes.max(1).next_multiple_of(SMALLEST_BYTES);
        Arc::new(Self {
            chunk_bytes,
            retained_bytes_max,
            free: Mutex::default(),
        })
    }

    /// The size of the largest chunk, in bytes.
    #[must_use]
    pub fn chunk_bytes(&self) -> usize {
        self.chunk_bytes
    }

    /// Bytes of chunks that no map holds and that wait for the next one.
    #[must_use]
    pub fn retained_bytes(&self) -> usize {
        self.lock().bytes
    }

    /// Gives every retained chunk back to the system.
    pub fn release_retained(&self) {
        let released = std::mem::take(&mut *self.lock());
        drop(released);
    }

    /// A chunk for a map that holds `held` bytes already and needs `bytes` in one piece. `bytes`
    /// must be at most a quarter of the largest chunk. At most half as large as what is held, so
    /// that little is wasted, unless the piece is large.
    pub(crate) fn take(&self, held: usize, bytes: usize) -> Chunk {
        debug_assert!(
            bytes <= self.chunk_bytes / CLASS_FACTOR,
            "{bytes} bytes fit no chunk well"
        );
        let mut class = 0;
        while self.class_bytes(class) < self.chunk_bytes
            && (self.class_bytes(class) < bytes * CLASS_FACTOR
                || self.class_bytes(class + 1) <= held / 2)
        {
            class += 1;
        }
        let recycled = {
            let mut free = self.lock();
            let chunk = free.classes.get_mut(class).and_then(Vec::pop);
            free.bytes -= chunk.as_ref().map_or(0, Chunk::bytes);
            chunk
        };
        recycled.unwrap_or_else(|| Chunk::allocate(self.class_bytes(class)))
    }

    /// Keeps a chunk for the next map, or frees it when enough are kept or it is of no class.
    pub(crate) fn give_back(&self, chunk: Chunk) {
        let mut class = 0;
        while self.class_bytes(class) < chunk.bytes() && self.class_bytes(class) < self.chunk_bytes
        {
            class += 1;
        }
        if self.class_bytes(class) != chunk.bytes() {
            return;
        }
        let mut free = self.lock();
        if free.bytes + chunk.bytes() > self.retained_bytes_max {
            drop(free);
            return;
        }
        free.bytes += chunk.bytes();
        if free.classes.len() <= class {
            free.classes.resize_with(class + 1, Vec::new);
        }
        free.classes[class].push(chunk);
    }

    fn class_bytes(&self, class: usize) -> usize {
        (SMALLEST_BYTES * CLASS_FACTOR.pow(class as u32)).min(self.chunk_bytes)
    }

    fn lock(&self) -> MutexGuard<'_, Free> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for ChunkPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChunkPool")
            .field("chunk_bytes", &self.chunk_bytes)
            .field("retained_bytes_max", &self.retained_bytes_max)
            .field("retained_bytes", &self.retained_bytes())
            .finish()
    }
}
