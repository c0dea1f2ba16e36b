//! Memory of one map: pieces handed out from chunks, all freed together.
//!
//! Entries are cut from the front of the current chunk and index nodes from its back, both by one
//! addition to one word, so that nodes stay aligned to cache lines and close to each other:
//!
//! ```text
//! | header | entry | entry | entry ->      free      <- node | node |
//!                         front                     back
//! ```
//!
//! These atomics are the standard library's even under loom: handing out disjoint pieces by
//! `fetch_add` has no ordering to explore, and it would multiply what loom has to.

use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::pool::{CHUNK_ALIGN, Chunk, ChunkPool};

/// Pieces from the front are multiples of this many bytes, so that each is aligned to it.
pub(crate) const FRONT_ALIGN: usize = 8;
/// Pieces from the back are multiples of this many bytes, so that each is aligned to it.
pub(crate) const BACK_ALIGN: usize = CHUNK_ALIGN;

/// The first bytes of a chunk while it is part of an arena.
#[repr(C, align(64))]
struct Header {
    /// Bytes taken from the front in the low half, from the back in the high half. An attempt that
    /// does not fit adds to it too, at most a quarter of a chunk for each thread that is in
    /// `allocate` at that moment: far from carrying from one half into the other.
    taken: AtomicU64,
    capacity: u64,
}

/// A bump allocator for any number of threads at once.
pub(crate) struct Arena {
    pool: Arc<ChunkPool>,
    /// The header of the chunk that pieces are cut from, null before the first piece.
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

    /// Bytes of all chunks held.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// `bytes` uninitialized bytes, aligned to [`FRONT_ALIGN`], exclusively the caller's, valid as
    /// long as the arena.
    #[inline]
    pub(crate) fn front(&self, bytes: usize) -> NonNull<u8> {
        self.allocate(bytes.next_multiple_of(FRONT_ALIGN), End::Front)
    }

    /// As [`front`](Self::front), but aligned to [`BACK_ALIGN`].
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

    /// Replaces the current chunk unless another thread has replaced `full` already.
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

/// Takes `bytes` from one end of the chunk, or `None` if it has no room.
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
