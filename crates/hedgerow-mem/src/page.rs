//! Pages: shared buffers of bytes. Pages of suitable sizes lie in slabs.
//!
//! A page is one pointer wide. Its count of owners, its size and its name lie in front of its
//! bytes. So finding a page, sharing it and reading its beginning touches one cache line.
//!
//! Pages of about 4, 8, 16 or 32 KiB lie in slots of slabs. Every other page is an allocation of
//! its own. Slabs are given back whole: [`PagePool::drain_emptiest`] names some, and the caller
//! then drops their pages. A page may outlive its pool.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

use crate::pool::Chunk;
use crate::prefetch::prefetch_lines;
use crate::slabs::{SLOT_BYTES, SlabId, Slabs};
use crate::sync::{AtomicU32, Ordering, fence};

/// The header in front of a page's bytes. Header and bytes begin at a cache line.
#[repr(C, align(64))]
struct Header {
    owners: AtomicU32,
    bytes: u32,
    /// The size of the whole piece of memory with this header.
    memory_bytes: u32,
    /// The slab that the memory returns to, if it came from a pool.
    slab: SlabId,
    name: [u64; 2],
    pool: Option<Arc<Slabs>>,
}

/// The bytes of memory that a page takes beside its own bytes.
pub const PAGE_HEADER_BYTES: usize = size_of::<Header>();

/// A page with one owner, who may still write to it.
pub struct PageMut(PageRef);

/// A page with any number of owners. Cheap to clone.
pub struct PageRef {
    start: NonNull<Header>,
}

// SAFETY: shared pages are only read, their owners are counted by an atomic, and neither they nor
// their pool have a tie to a thread.
unsafe impl Send for PageRef {}
// SAFETY: as above.
unsafe impl Sync for PageRef {}

impl PageMut {
    /// A page of `bytes` zeros in an allocation of its own.
    ///
    /// # Panics
    /// If `bytes` is above 2 GiB.
    #[must_use]
    pub fn allocate(bytes: usize) -> PageMut {
        let memory_bytes = bytes + PAGE_HEADER_BYTES;
        let start = Chunk::allocate(memory_bytes).into_start();
        // SAFETY: the chunk has this size and the alignment of a header, and `free` makes
        // it whole again.
        unsafe { PageMut::begin(start, bytes, memory_bytes, None) }
    }

    /// # Safety
    /// `start` must be aligned for a header and own `memory_bytes` initialized bytes, at least a
    /// header and `bytes`. They return to the slab that `home` names, or else to the allocator.
    unsafe fn begin(
        start: NonNull<u8>,
        bytes: usize,
        memory_bytes: usize,
        home: Option<(Arc<Slabs>, SlabId)>,
    ) -> PageMut {
        let size = |bytes| u32::try_from(bytes).expect("a page is smaller than 2 GiB");
        let (pool, slab) = home.map_or((None, SlabId::NONE), |(pool, slab)| (Some(pool), slab));
        let header = Header {
            owners: AtomicU32::new(1),
            bytes: size(bytes),
            memory_bytes: size(memory_bytes),
            slab,
            name: [0; 2],
            pool,
        };
        let start = start.cast::<Header>();
        // SAFETY: the memory is owned, aligned and large enough, as the caller promises.
        unsafe { start.write(header) };
        PageMut(PageRef { start })
    }

    /// Truncates the page to its first `bytes` bytes.
    ///
    /// # Panics
    /// If the page has fewer.
    pub fn truncate(&mut self, bytes: usize) {
        assert!(bytes <= self.len(), "a page is cut within its bytes");
        // SAFETY: `self` is the only owner.
        unsafe { self.0.start.as_mut() }.bytes = bytes as u32;
    }

    /// Shares the page under a name of the caller's choice.
    #[must_use]
    pub fn share(mut self, name: [u64; 2]) -> PageRef {
        // SAFETY: `self` is the only owner.
        unsafe { self.0.start.as_mut() }.name = name;
        self.0
    }
}

impl Deref for PageMut {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl DerefMut for PageMut {
    fn deref_mut(&mut self) -> &mut [u8] {
        let bytes = self.len();
        let first = self.0.first_byte();
        // SAFETY: they are initialized, and `self`, borrowed exclusively, is their only owner.
        unsafe { std::slice::from_raw_parts_mut(first.as_ptr(), bytes) }
    }
}

impl PageRef {
    /// The name under which the page was shared.
    #[inline]
    #[must_use]
    pub fn name(&self) -> [u64; 2] {
        self.header().name
    }

    /// The bytes of memory that the page takes.
    #[inline]
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.header().memory_bytes as usize
    }

    /// The slab of the page; `None` if the page is an allocation of its own.
    #[must_use]
    pub fn slab(&self) -> Option<SlabId> {
        Some(self.header().slab).filter(|&slab| slab != SlabId::NONE)
    }

    /// Prefetches the cache lines of the page up to about `bytes`, all at once. The range may
    /// exceed the page.
    #[inline]
    pub fn prefetch_front(&self, bytes: usize) {
        prefetch_lines(self.start.as_ptr().cast(), bytes);
    }

    #[inline]
    fn header(&self) -> &Header {
        // SAFETY: the header is there for as long as there is an owner, and shared pages are not
        // written to.
        unsafe { self.start.as_ref() }
    }

    #[inline]
    fn first_byte(&self) -> NonNull<u8> {
        // SAFETY: the bytes lie behind the header, within the same allocation.
        unsafe { self.start.add(1) }.cast()
    }
}

impl Clone for PageRef {
    #[inline]
    fn clone(&self) -> PageRef {
        let owners = self.header().owners.fetch_add(1, Ordering::Relaxed);
        // Only leaks make this many owners. A wrap would free memory in use.
        assert!(owners < u32::MAX / 2, "a page has too many owners");
        PageRef { start: self.start }
    }
}

impl Deref for PageRef {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        let bytes = self.header().bytes as usize;
        // SAFETY: the page owns `bytes` initialized bytes. It is not freed before its last owner
        // ends, and nobody writes to it until then.
        unsafe { std::slice::from_raw_parts(self.first_byte().as_ptr(), bytes) }
    }
}

impl Drop for PageRef {
    #[inline]
    fn drop(&mut self) {
        if self.header().owners.fetch_sub(1, Ordering::Release) == 1 {
            // The other owners' uses of the page happen before its memory is used again.
            fence(Ordering::Acquire);
            // SAFETY: this was the last owner.
            unsafe { free(self.start) }
        }
    }
}

impl fmt::Debug for PageRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PageRef({:?}, {} bytes)", self.name(), self.len())
    }
}

impl fmt::Debug for PageMut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PageMut").field(&self.len()).finish()
    }
}

/// # Safety
/// The last owner ends with this call.
#[cold]
unsafe fn free(start: NonNull<Header>) {
    // SAFETY: the header is valid until now, and nobody reads it again.
    let header = unsafe { start.read() };
    match header.pool {
        // SAFETY: the page was begun in a slot of this pool, which nobody uses any more.
        Some(pool) => unsafe { pool.give_back(header.slab, start.cast()) },
        // SAFETY: a page without a pool is a chunk of this size, which nobody uses any more.
        None => drop(unsafe { Chunk::from_start(start.cast(), header.memory_bytes as usize) }),
    }
}

/// The memory of pages. Any thread may call it. Its lock is taken once per page made and once per
/// page freed.
pub struct PagePool(Arc<Slabs>);

impl PagePool {
    /// A pool with slabs of `slab_bytes` bytes.
    #[must_use]
    pub fn new(slab_bytes: usize) -> PagePool {
        PagePool(Arc::new(Slabs::new(slab_bytes)))
    }

    /// Returns true if a slab was added since this was last asked, and the next one may be prepared
    /// in huge pages: [`prepare_slab`](Self::prepare_slab).
    #[must_use]
    pub fn take_shortage(&self) -> bool {
        self.0.take_shortage()
    }

    /// Allocates the next slab, unless it is prepared already: in huge pages if the system has
    /// some, faulted in. A read of its pages then misses the processor's cache of addresses more
    /// seldom. Cost: 2 MiB of zeros; milliseconds if the system's free memory is in pieces. So the
    /// slabs that an allocation of a page adds by itself are in small pages.
    pub fn prepare_slab(&self) {
        self.0.prepare();
    }

    /// The bytes of the prepared slab.
    #[must_use]
    pub fn prepared_bytes(&self) -> usize {
        self.0.prepared_bytes()
    }

    /// Allocates a page of `bytes` bytes of any content. Calls `before_slab` first if it must add a
    /// slab.
    ///
    /// # Panics
    /// If `bytes` is above 2 GiB.
    #[must_use]
    pub fn allocate(&self, bytes: usize, before_slab: impl FnOnce()) -> PageMut {
        let Some(class) = self.0.class_for(bytes + PAGE_HEADER_BYTES) else {
            return PageMut::allocate(bytes);
        };
        let slot = self.0.take(class).unwrap_or_else(|| {
            before_slab();
            self.0.add(class)
        });
        let home = Some((self.0.clone(), slot.slab));
        // SAFETY: a slot has the size of its class, and the page fits in it. It is aligned like its
        // slab and was initialized with its slab. A slot taken from the free ones has no other
        // owner.
        unsafe { PageMut::begin(slot.start, bytes, SLOT_BYTES[class], home) }
    }

    /// The size of one slab, in bytes.
    #[must_use]
    pub fn slab_bytes(&self) -> usize {
        self.0.slab_bytes()
    }

    /// The number of slabs without the drained ones.
    #[must_use]
    pub fn slabs(&self) -> usize {
        self.0.count()
    }

    /// Chooses the `count` slabs with the fewest pages (or all of them) and returns them in order.
    /// No new page comes into them. Each returns to the system when its last page is dropped: the
    /// caller drops the pages that it holds.
    #[must_use]
    pub fn drain_emptiest(&self, count: usize) -> Vec<SlabId> {
        self.0.drain_emptiest(count)
    }
}

impl fmt::Debug for PagePool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PagePool")
            .field("slab_bytes", &self.slab_bytes())
            .field("slabs", &self.slabs())
            .finish()
    }
}
