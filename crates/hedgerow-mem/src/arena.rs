//! The memory of one map: pieces cut from chunks, all freed together.
//!
//! Entries are cut from the front of the current chunk, index nodes from its back. Both take one
//! addition to one word. So nodes stay aligned to cache lines and close to each other:
//!
//! ```text
//! | header | entry | entry | entry ->      free      <- node | node |
//!                         front                     back
//! ```
//!
//! These atomics are the standard library's even under loom. Cutting disjoint pieces by `fetch_add`
//! has no ordering to explore, and it would multiply the states of loom.

use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::pool::{CHUNK_ALIGN, Chunk, ChunkPool};

/// The alignment of pieces from the front. Their sizes are multiples of it.
pub(crate) const FRONT_ALIGN: usize = 8;
/// The alignment of pieces from the back. Their sizes are multiples of it.
pub(crate) const BACK_ALIGN: usize = CHUNK_ALIGN;

/// The first bytes of a chunk in an arena.
#[repr(C, align(64))]
struct Header {
    /// The bytes taken from the front in the low half, from the back in the high half. A failed
    /// attempt adds to it too: at most a quarter of a chunk for each thread in `allocate` at that
    /// moment. That is far from a carry between the halves.
    taken: AtomicU64,
    capacity: u64,
}

/// A bump allocator for any number of threads at once.
pub(crate) struct Arena {
    pool: Arc<ChunkPool>,
    /// The header of the current chunk; null before the first piece.
    current: AtomicPtr<Header>,
    chunks: Mutex<Vec<Chunk>>,
    bytes: AtomicUsize,
}

#[derive(Clone, Copy)]
enum End {
    Front,
    Back,
}

impl Arena {
    pub(crate) fn new(pool: Arc<ChunkPool>) -> Self {
        Self {
            pool,
            current: AtomicPtr::new(null_mut()),
            chunks: Mutex::default(),
            bytes: AtomicUsize::new(0),
        }
    }

    /// The bytes of all chunks held.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Takes `bytes` uninitialized bytes, aligned to [`FRONT_ALIGN`]. The caller owns them as long
    /// as the arena lives.
    #[inline]
    pub(crate) fn front(&self, bytes: usize) -> NonNull<u8> {
        self.allocate(bytes.next_multiple_of(FRONT_ALIGN), End::Front)
    }

    /// Takes bytes as [`front`](Self::front) does, but aligned to [`BACK_ALIGN`].
    #[inline]
    pub(crate) fn back(&self, bytes: usize) -> NonNull<u8> {
        self.allocate(bytes.next_multiple_of(BACK_ALIGN), End::Back)
    }

    #[inline]
    fn allocate(&self, bytes: usize, end: End) -> NonNull<u8> {
        if bytes > self.pool.chunk_bytes() / 4 {
            return self.allocate_alone(bytes);
        }
        loop {
            let current = self.current.load(Ordering::Acquire);
            if let Some(header) = NonNull::new(current)
                && let Some(piece) = cut(header, bytes as u64, end)
            {
                return piece;
            }
            self.grow(current, bytes);
        }
    }

    #[cold]
    fn allocate_alone(&self, bytes: usize) -> NonNull<u8> {
        let chunk = self.pool.take_alone(bytes);
        let start = chunk.start();
        self.keep(chunk);
        start
    }

    /// Replaces the chunk `full` unless another thread has replaced it already.
    #[cold]
    fn grow(&self, full: *mut Header, bytes: usize) {
        let mut chunks = self.chunks.lock().unwrap_or_else(PoisonError::into_inner);
        if self.current.load(Ordering::Relaxed) != full {
            return;
        }
        let chunk = self.pool.take(self.bytes(), bytes);
        let header = chunk.start().cast::<Header>();
        let capacity = (chunk.bytes() - size_of::<Header>()) as u64;
        // SAFETY: the chunk is aligned to `CHUNK_ALIGN`, larger than a header (the smallest is
        // 4 KiB) and not shared yet.
        unsafe {
            header.write(Header {
                taken: AtomicU64::new(0),
                capacity,
            })
        };
        self.bytes.fetch_add(chunk.bytes(), Ordering::Relaxed);
        chunks.push(chunk);
        self.current.store(header.as_ptr(), Ordering::Release);
    }

    fn keep(&self, chunk: Chunk) {
        self.bytes.fetch_add(chunk.bytes(), Ordering::Relaxed);
        self.chunks
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(chunk);
    }
}

/// Takes `bytes` from one end of the chunk. `None` if the chunk has no room.
#[inline]
fn cut(header: NonNull<Header>, bytes: u64, end: End) -> Option<NonNull<u8>> {
    // SAFETY: `grow` wrote the header before it published the pointer, and chunks outlive every
    // call into the arena.
    let chunk = unsafe { header.as_ref() };
    let add = match end {
        End::Front => bytes,
        End::Back => bytes << 32,
    };
    let taken = chunk.taken.fetch_add(add, Ordering::Relaxed);
    let (front, back) = (taken & u64::from(u32::MAX), taken >> 32);
    if front + back + bytes > chunk.capacity {
        return None;
    }
    let offset = match end {
        End::Front => front,
        End::Back => chunk.capacity - back - bytes,
    };
    let offset = size_of::<Header>() + offset as usize;
    // SAFETY: the piece ends within the chunk: `front + back + bytes <= capacity`.
    Some(unsafe { header.cast::<u8>().add(offset) })
}

impl Drop for Arena {
    fn drop(&mut self) {
        let chunks = self
            .chunks
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        for chunk in chunks.drain(..) {
            self.pool.give_back(chunk);
        }
    }
}
