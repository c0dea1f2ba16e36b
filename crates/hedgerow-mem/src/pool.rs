//! Chunks of memory and the pool that recycles them from one map to the next.
//!
//! A map takes chunks of growing size: 2 KiB, 8 KiB and so on up to the pool's chunk size. Each is
//! at most half as large as the memory that the map holds, so that a small map costs little. A
//! piece that wastes too much of a chunk gets an allocation of its own, which is not recycled.
//!
//! The pages of a recycled chunk are faulted in. A fresh chunk pays about a quarter of a
//! microsecond per 4 KiB for its first writes. It pays much more if memory is short and the system
//! must reclaim some: tens of milliseconds for a huge page. So the pool reports when it runs short
//! of its largest chunks, and an idle thread prepares some.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::fmt;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The smallest chunk, in bytes: a node and some entries. There may be thousands of maps with one
/// entry.
const SMALLEST_BYTES: usize = ChunkPool::SMALLEST_BYTES;
/// The ratio of the sizes of neighbouring chunk classes.
const CLASS_FACTOR: usize = 4;
/// The number of largest chunks to prepare. A map takes dozens in a second, and the system may need
/// 60 ms for one.
const PREPARED: usize = 4;
/// The smallest mapping of the system, in bytes.
const PAGE_BYTES: usize = 4 << 10;
/// A huge page of the usual processors. Larger chunks begin at a multiple of it.
pub(crate) const HUGE_PAGE_BYTES: usize = 2 << 20;
/// Chunks begin at a cache line.
pub(crate) const CHUNK_ALIGN: usize = 64;

/// An owned piece of memory, aligned to [`CHUNK_ALIGN`]. A new one is zeros.
pub(crate) struct Chunk {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a chunk owns its memory exclusively and has no tie to the thread that allocated it.
unsafe impl Send for Chunk {}
// SAFETY: a shared chunk returns only its address and size.
unsafe impl Sync for Chunk {}

impl Chunk {
    fn layout(bytes: usize) -> Layout {
        Layout::from_size_align(bytes, CHUNK_ALIGN).expect("a chunk is smaller than isize::MAX")
    }

    /// Allocates a chunk from the system. `bytes` must not be 0.
    pub(crate) fn allocate(bytes: usize) -> Self {
        assert!(bytes > 0, "a chunk holds at least a byte");
        if map::is_worth_it(bytes) {
            let start = map::map(bytes);
            map::prefer_huge_pages(start, bytes);
            return Self { start, bytes };
        }
        let layout = Self::layout(bytes);
        // SAFETY: the layout's size is not zero: asserted above.
        let start = unsafe { alloc_zeroed(layout) };
        let Some(start) = NonNull::new(start) else {
            handle_alloc_error(layout)
        };
        Self { start, bytes }
    }

    /// Allocates a chunk that the system backs with small pages. The first write to a huge page may
    /// take it milliseconds, if its free memory is in pieces.
    pub(crate) fn allocate_in_small_pages(bytes: usize) -> Self {
        if bytes > 0 && map::is_worth_it(bytes) {
            let start = map::map(bytes);
            return Self { start, bytes };
        }
        Self::allocate(bytes)
    }

    /// The memory of the chunk. [`from_start`](Self::from_start) makes it a chunk again.
    pub(crate) fn into_start(self) -> NonNull<u8> {
        ManuallyDrop::new(self).start
    }

    /// # Safety
    /// `start` must come from `into_start` of a chunk of `bytes`, and nobody else may use it.
    pub(crate) unsafe fn from_start(start: NonNull<u8>, bytes: usize) -> Chunk {
        Chunk { start, bytes }
    }

    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Makes the system back all of the chunk with memory now.
    pub(crate) fn fault_in(&mut self) {
        for at in (0..self.bytes).step_by(PAGE_BYTES) {
            // SAFETY: `at` is below the size of the chunk.
            let byte = unsafe { self.start.add(at) };
            // SAFETY: the chunk is not shared yet, and any bytes are valid.
            unsafe { byte.write_volatile(0) };
        }
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        if map::is_worth_it(self.bytes) {
            // SAFETY: `start` came from `map` with this size, and `self` is its only owner.
            unsafe { map::unmap(self.start, self.bytes) }
        } else {
            // SAFETY: `start` came from the allocator with this layout, and `self` is its only
            // owner.
            unsafe { dealloc(self.start.as_ptr(), Self::layout(self.bytes)) }
        }
    }
}

/// Asks for huge pages for memory that is read all over, from the first multiple of 2 MiB in it
/// on. The memory is not touched: what it has not got yet comes in huge pages when it is written
/// first.
pub fn prefer_huge_pages<T>(memory: &[T]) {
    let start = NonNull::from(memory).cast::<u8>();
    map::prefer_huge_pages(start, size_of_val(memory));
}

/// Large chunks straight from the system. An allocator would keep freed ones for an unknown time,
/// and the memory budget would not hold.
#[cfg(all(target_os = "linux", target_pointer_width = "64", not(miri)))]
mod map {
    use std::alloc::{Layout, handle_alloc_error};
    use std::ffi::{c_int, c_long, c_void};
    use std::ptr::{NonNull, null_mut};

    use super::{HUGE_PAGE_BYTES, PAGE_BYTES};

    unsafe extern "C" {
        fn mmap(
            start: *mut c_void,
            bytes: usize,
            protection: c_int,
            flags: c_int,
            file: c_int,
            offset: c_long,
        ) -> *mut c_void;
        fn munmap(start: *mut c_void, bytes: usize) -> c_int;
        fn madvise(start: *mut c_void, bytes: usize, advice: c_int) -> c_int;
    }
    const PROT_READ_AND_WRITE: c_int = 1 | 2;
    const MAP_PRIVATE_ANONYMOUS: c_int = 0x02 | 0x20;
    const MAP_FAILED: usize = usize::MAX;
    const MADV_HUGEPAGE: c_int = 14;

    /// From this size on an allocator maps memory, too, until a block of this size is freed.
    const MAPPED_BYTES_MIN: usize = 64 << 10;

    pub(super) fn is_worth_it(bytes: usize) -> bool {
        bytes >= MAPPED_BYTES_MIN
    }

    /// Maps `bytes` zeros. A mapping of a huge page or more begins at a multiple of one.
    pub(super) fn map(bytes: usize) -> NonNull<u8> {
        let size = bytes.next_multiple_of(PAGE_BYTES);
        let slack = if size >= HUGE_PAGE_BYTES {
            HUGE_PAGE_BYTES
        } else {
            0
        };
        // SAFETY: a new private mapping touches no memory of anybody.
        let all = unsafe {
            mmap(
                null_mut(),
                size + slack,
                PROT_READ_AND_WRITE,
                MAP_PRIVATE_ANONYMOUS,
                -1,
                0,
            )
        };
        if all.addr() == MAP_FAILED {
            let layout = Layout::from_size_align(size, PAGE_BYTES);
            handle_alloc_error(layout.expect("a chunk is smaller than isize::MAX"));
        }
        let mut start = all.cast::<u8>();
        if slack > 0 {
            let before = all.addr().next_multiple_of(HUGE_PAGE_BYTES) - all.addr();
            start = all.cast::<u8>().wrapping_add(before);
            if before > 0 {
                // SAFETY: this front part of the new mapping is not used.
                unsafe { munmap(all, before) };
            }
            if before < slack {
                let end = start.wrapping_add(size);
                // SAFETY: this end of the new mapping is not used.
                unsafe { munmap(end.cast(), slack - before) };
            }
        }
        NonNull::new(start).expect("a mapping is not at address 0")
    }

    /// Lets the system back the whole huge pages within a range by huge pages when they are written
    /// first. A lookup makes a few reads far apart, and with small pages each would miss the
    /// processor's cache of page addresses, too. A refusal does no harm.
    pub(super) fn prefer_huge_pages(start: NonNull<u8>, bytes: usize) {
        let from = start.addr().get().next_multiple_of(HUGE_PAGE_BYTES);
        let to = (start.addr().get() + bytes) / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
        if from < to {
            let first = start.as_ptr().with_addr(from);
            // SAFETY: the advice does not change what is in the memory, whoever owns it.
            unsafe { madvise(first.cast(), to - from, MADV_HUGEPAGE) };
        }
    }

    /// # Safety
    /// `start` must come from `map(bytes)`, and nobody may use the memory any more.
    pub(super) unsafe fn unmap(start: NonNull<u8>, bytes: usize) {
        let size = bytes.next_multiple_of(PAGE_BYTES);
        // SAFETY: the range is a whole mapping of ours that nobody uses, as the caller promises.
        unsafe { munmap(start.as_ptr().cast(), size) };
    }
}

#[cfg(not(all(target_os = "linux", target_pointer_width = "64", not(miri))))]
mod map {
    use std::ptr::NonNull;

    pub(super) fn is_worth_it(_: usize) -> bool {
        false
    }

    pub(super) fn map(_: usize) -> NonNull<u8> {
        unreachable!("never worth it")
    }

    pub(super) unsafe fn unmap(_: NonNull<u8>, _: usize) {}

    pub(super) fn prefer_huge_pages(_: NonNull<u8>, _: usize) {}
}

#[derive(Default)]
struct Free {
    /// One list for each class, smallest first.
    classes: Vec<Vec<Chunk>>,
    bytes: usize,
}

impl Free {
    fn of_class(&self, class: usize) -> usize {
        self.classes.get(class).map_or(0, Vec::len)
    }
}

/// Chunks of memory that maps take and give back. Any thread may call it. Its lock is taken once
/// per chunk, not per entry.
pub struct ChunkPool {
    chunk_bytes: usize,
    retained_bytes_max: usize,
    held_bytes: AtomicUsize,
    free: Mutex<Free>,
    /// True if a map took one of the largest chunks since the last preparation, and few are left.
    short: AtomicBool,
}

impl ChunkPool {
    /// The smallest chunk, in bytes: what a map with one short entry holds.
    pub const SMALLEST_BYTES: usize = 2 << 10;

    /// A pool that retains at most `retained_bytes_max` bytes for the next map. `chunk_bytes` is
    /// the size of its largest chunk: at least 2 KiB, rounded up to 2 KiB. With 2 MiB the system
    /// may use huge pages.
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
            held_bytes: AtomicUsize::new(0),
            free: Mutex::default(),
            short: AtomicBool::new(false),
        })
    }

    /// The size of the largest chunk, in bytes.
    #[must_use]
    pub fn chunk_bytes(&self) -> usize {
        self.chunk_bytes
    }

    /// The bytes of chunks that maps hold.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.held_bytes.load(Ordering::Relaxed)
    }

    /// The bytes of chunks that wait for the next map.
    #[must_use]
    pub fn retained_bytes(&self) -> usize {
        self.lock().bytes
    }

    /// Gives every retained chunk back to the system.
    pub fn release_retained(&self) {
        let released = std::mem::take(&mut *self.lock());
        drop(released);
    }

    /// Returns true if chunks became short since the last call. The caller must then
    /// [`prepare`](Self::prepare) some.
    #[inline]
    pub fn take_shortage(&self) -> bool {
        self.short.load(Ordering::Relaxed) && self.short.swap(false, Ordering::Relaxed)
    }

    /// Gets some of the largest chunks from the system, up to the retention limit. Cost: that of
    /// faulting them in.
    pub fn prepare(&self) {
        let class = self.class_of(self.chunk_bytes);
        let lacks_one = |free: &Free| free.of_class(class) < PREPARED && self.has_room(free);
        while lacks_one(&self.lock()) {
            let mut chunk = Chunk::allocate(self.chunk_bytes);
            chunk.fault_in();
            self.retain(chunk, class);
        }
    }

    /// A chunk for a map that holds `held` bytes and needs `bytes` in one piece. `bytes` must be at
    /// most a quarter of the largest chunk. Unless the piece is large, the chunk is at most half as
    /// large as `held`, so that little is wasted.
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
            let is_largest = self.class_bytes(class) == self.chunk_bytes;
            if is_largest && free.of_class(class) < PREPARED && self.has_room(&free) {
                self.short.store(true, Ordering::Relaxed);
            }
            chunk
        };
        self.hold(recycled.unwrap_or_else(|| Chunk::allocate(self.class_bytes(class))))
    }

    /// A chunk of `bytes` bytes for a piece that fits no class.
    pub(crate) fn take_alone(&self, bytes: usize) -> Chunk {
        self.hold(Chunk::allocate(bytes))
    }

    fn hold(&self, chunk: Chunk) -> Chunk {
        self.held_bytes.fetch_add(chunk.bytes(), Ordering::Relaxed);
        chunk
    }

    /// Retains a chunk for the next map. Frees it if enough are retained or it has no class.
    pub(crate) fn give_back(&self, chunk: Chunk) {
        self.held_bytes.fetch_sub(chunk.bytes(), Ordering::Relaxed);
        let class = self.class_of(chunk.bytes());
        if self.class_bytes(class) == chunk.bytes() {
            self.retain(chunk, class);
        }
    }

    fn retain(&self, chunk: Chunk, class: usize) {
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

    /// Returns true if another of the largest chunks may be retained.
    fn has_room(&self, free: &Free) -> bool {
        free.bytes + self.chunk_bytes <= self.retained_bytes_max
    }

    /// The smallest class whose chunks have at least `bytes` bytes, or else the largest class.
    fn class_of(&self, bytes: usize) -> usize {
        let is_smaller = |class: &usize| self.class_bytes(*class) < bytes.min(self.chunk_bytes);
        (0..).take_while(is_smaller).count()
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
            .field("held_bytes", &self.held_bytes())
            .field("retained_bytes_max", &self.retained_bytes_max)
            .field("retained_bytes", &self.retained_bytes())
            .finish()
    }
}
