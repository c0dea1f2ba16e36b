//! A page: what is read from a table at once, verified and decompressed.

use std::io;
use std::ops::{Deref, Range};
use std::sync::Arc;

use hedgerow_io::Reads;
pub(crate) use hedgerow_mem::prefetch_bytes;
use hedgerow_mem::{PAGE_HEADER_BYTES, PageMut, PageRef, SlabId};

use crate::base::error::Result;

/// What follows the stored bytes of every page: a byte that says how they are compressed, then the
/// seeded checksum of both.
pub(crate) const TRAILER_BYTES: u32 = 5;

/// What a page takes in memory beside its bytes, its trailer included, with which it is read.
pub(crate) const PAGE_OVERHEAD_BYTES: usize = PAGE_HEADER_BYTES + TRAILER_BYTES as usize;

/// Memory that is not shared yet: zeros, beginning at a cache line.
pub(crate) type Buffer = PageMut;

/// Has the processor fetch the cache line of a byte, without waiting for it; nothing past the end.
#[inline]
pub(crate) fn prefetch(bytes: &[u8], at: usize) {
    if let Some(byte) = bytes.get(at) {
        hedgerow_mem::prefetch(byte);
    }
}

/// What devices and the system's cache read at once.
pub(crate) const DEVICE_PAGE_BYTES: u64 = 4096;

/// The number of a table file; never reused within a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableId(pub u64);

/// Where a page lies in its table file: offset and size of its stored bytes, with its trailer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Handle {
    /// Bytes from the beginning of the file.
    pub offset: u64,
    /// The stored bytes, with the trailer.
    pub bytes: u32,
}

impl Handle {
    /// What the page takes in memory if it is stored as it is.
    pub(crate) fn memory_bytes(self) -> u64 {
        u64::from(self.bytes) + PAGE_HEADER_BYTES as u64
    }
}

/// What a page holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PageClass {
    /// A block of entries.
    Data,
    /// One value stored out of line.
    Value,
    /// A piece of a block index.
    Index,
    /// A piece of a filter.
    Filter,
}

/// The name of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct PageId {
    pub(crate) table: TableId,
    pub(crate) handle: Handle,
    pub(crate) class: PageClass,
}

impl PageId {
    /// What tells the page from all others of a database.
    pub(crate) fn name(self) -> [u64; 2] {
        [self.table.0, self.handle.offset]
    }
}

/// About what everything but the values takes of a block of short entries.
const FRONT_BYTES: usize = 512;

/// The bytes of a page, shared between the cache and whoever reads them. Cheap to clone, and one
/// pointer wide.
#[derive(Debug, Clone)]
pub(crate) struct Page(PageRef);

impl Page {
    /// A page that is not of a table.
    #[cfg(test)]
    pub(crate) fn filled(bytes: usize, fill: impl FnOnce(&mut [u8]) -> Result<()>) -> Result<Page> {
        let mut buffer = PageMut::allocate(bytes);
        fill(&mut buffer)?;
        Ok(Page(buffer.share([0; 2])))
    }

    /// What was read of a table.
    pub(crate) fn of_table(buffer: PageMut, id: PageId) -> Page {
        Page(buffer.share(id.name()))
    }

    /// Asks for the front of the page, which nearly always is out of the processor's caches, all at
    /// once: a block's restart points and heads are read one after the other.
    #[inline]
    pub(crate) fn prefetched(&self) -> &Page {
        self.0.prefetch_front(FRONT_BYTES);
        self
    }

    #[inline]
    pub(crate) fn is(&self, id: PageId) -> bool {
        self.0.name() == id.name()
    }

    /// The table that it is of.
    pub(crate) fn table(&self) -> TableId {
        TableId(self.0.name()[0])
    }

    /// What it takes in memory.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.0.memory_bytes()
    }

    /// The slab of the page cache that it lies in.
    pub(crate) fn slab(&self) -> Option<SlabId> {
        self.0.slab()
    }

    /// A second owner of some of the page's bytes.
    pub(crate) fn slice(&self, range: Range<usize>) -> PageSlice {
        debug_assert!(range.end <= self.len());
        PageSlice {
            page: self.clone(),
            range,
        }
    }
}

impl Deref for Page {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

/// Some bytes of a page, keeping the page in memory.
#[derive(Debug, Clone)]
pub(crate) struct PageSlice {
    page: Page,
    range: Range<usize>,
}

impl PageSlice {
    /// The size of the whole page that is kept in memory.
    pub(crate) fn page_bytes(&self) -> usize {
        self.page.memory_bytes()
    }
}

impl Deref for PageSlice {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.page[self.range.clone()]
    }
}

/// What every leaf that never does I/O answers: give me this page and ask again, or here it is.
#[derive(Debug)]
pub(crate) enum Step<T> {
    Read(PageId),
    Done(T),
}

/// Where iterators get their pages from: the cache, or a reader that streams ahead for merges.
pub(crate) trait PageSource: Send + Sync {
    /// The verified, decompressed page. Cost: one read unless it is cached.
    fn page(&self, id: PageId) -> Result<Page>;

    /// Whether asking for the page reads nothing, as things are.
    fn has_cached(&self, _id: PageId) -> bool {
        false
    }

    /// The page if that takes no read.
    fn at_hand(&self, _id: PageId) -> Option<Page> {
        None
    }

    /// Who reads its pages into the cache together with those of others; `None` if each is read alone.
    fn shared(self: Arc<Self>) -> Option<Arc<dyn SharedPages>> {
        None
    }
}

/// Pages that can be read while others are.
pub(crate) trait SharedPages: Send + Sync {
    /// Begins to read a page among others.
    fn begin_read(&self, id: PageId, reads: &mut dyn Reads, tag: usize) -> Result<()>;
    /// Verifies what was read, which the cache has from then on.
    fn end_read(&self, id: PageId, read: io::Result<&[u8]>) -> Result<Page>;
}

/// Pages that somebody will ask for.
pub(crate) type Wanted = Vec<(Arc<dyn SharedPages>, PageId)>;

/// Reads pages into the cache, all at the same time as far as the device can. What cannot be read is told to who asks
/// for it.
pub(crate) fn read_together(wanted: &Wanted, mut reads: Box<dyn Reads>) {
    for (tag, (pages, id)) in wanted.iter().enumerate() {
        let _ = pages.begin_read(*id, &mut *reads, tag);
    }
    while let Some((tag, read)) = reads.next() {
        let (pages, id) = &wanted[tag];
        let _ = pages.end_read(*id, read);
    }
}
