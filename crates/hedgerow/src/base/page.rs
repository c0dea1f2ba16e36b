//! Pages. A page is the unit of a table that is read, verified and decompressed at once.

use std::io;
use std::ops::{Deref, Range};
use std::sync::Arc;

use hedgerow_io::Reads;
pub(crate) use hedgerow_mem::prefetch_bytes;
use hedgerow_mem::{PAGE_HEADER_BYTES, PageMut, PageRef, PlaceHint, SlabId};

use crate::base::error::{Error, Result};

/// The trailer behind the stored bytes of every page: a byte for the compression, then the seeded
/// checksum of both.
pub(crate) const TRAILER_BYTES: u32 = 5;

/// The memory of a page beyond its bytes. It includes the trailer, which is read with the page.
pub(crate) const PAGE_OVERHEAD_BYTES: usize = PAGE_HEADER_BYTES + TRAILER_BYTES as usize;

/// Memory that is not shared yet. It is zeroed and begins at a cache line.
pub(crate) type Buffer = PageMut;

/// The most bytes of a buffer, which counts its memory in 32 bits.
pub(crate) const BUFFER_BYTES_MAX: usize = u32::MAX as usize - PAGE_HEADER_BYTES;

/// Prefetches the cache line of byte `at`; does nothing past the end.
#[inline]
pub(crate) fn prefetch(bytes: &[u8], at: usize) {
    if let Some(byte) = bytes.get(at) {
        hedgerow_mem::prefetch(byte);
    }
}

/// The unit of reads of devices and of the system's cache.
pub(crate) const DEVICE_PAGE_BYTES: u64 = 4096;

/// The number of a table file; never reused within a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableId(pub u64);

/// The place of a page in its table file: offset and size of its stored bytes, trailer included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Handle {
    /// Bytes from the beginning of the file.
    pub offset: u64,
    /// The size of the stored bytes, trailer included.
    pub bytes: u32,
}

impl Handle {
    /// The offset behind the stored bytes.
    pub(crate) fn end(self) -> u64 {
        self.offset.saturating_add(u64::from(self.bytes))
    }

    /// The memory of the page if it is stored uncompressed.
    pub(crate) fn memory_bytes(self) -> u64 {
        u64::from(self.bytes) + PAGE_HEADER_BYTES as u64
    }
}

/// The content of a page.
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

/// The identity of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct PageId {
    pub(crate) table: TableId,
    pub(crate) handle: Handle,
    pub(crate) class: PageClass,
}

impl PageId {
    /// The two numbers that identify the page within a database.
    pub(crate) fn name(self) -> [u64; 2] {
        [self.table.0, self.handle.offset]
    }
}

/// Approximately the bytes of a block of short entries without the values.
const FRONT_BYTES: usize = 512;

/// The bytes of a page, shared between the cache and its readers. Cheap to clone, and one pointer
/// wide.
#[derive(Debug, Clone)]
pub(crate) struct Page(PageRef);

impl Page {
    /// A page that belongs to no table.
    #[cfg(test)]
    pub(crate) fn filled(bytes: usize, fill: impl FnOnce(&mut [u8]) -> Result<()>) -> Result<Page> {
        let mut buffer = PageMut::allocate(bytes);
        fill(&mut buffer)?;
        Ok(Page(buffer.share([0; 2])))
    }

    /// A page that was read from a table.
    pub(crate) fn of_table(buffer: PageMut, id: PageId) -> Page {
        Page(buffer.share(id.name()))
    }

    /// Prefetches the front of the page, which is rarely in the processor's caches. A search reads
    /// the block's restart points and heads one after the other; here their misses overlap.
    #[inline]
    pub(crate) fn prefetched(&self) -> &Page {
        self.0.prefetch_front(FRONT_BYTES);
        self
    }

    #[inline]
    pub(crate) fn is(&self, id: PageId) -> bool {
        self.0.name() == id.name()
    }

    /// The table that it belongs to.
    pub(crate) fn table(&self) -> TableId {
        TableId(self.0.name()[0])
    }

    /// The memory that it takes.
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

/// The places of a table's blocks in memory when they were last read, by number. Only hints: the
/// misses of a block's front then overlap with those of its way through the page cache.
#[derive(Debug)]
pub(crate) struct BlockPlaces(Box<[PlaceHint]>);

impl BlockPlaces {
    pub(crate) fn new(blocks: usize) -> BlockPlaces {
        BlockPlaces((0..blocks).map(|_| PlaceHint::default()).collect())
    }

    #[inline]
    pub(crate) fn prefetch(&self, block: usize) {
        if let Some(place) = self.0.get(block) {
            place.prefetch(PAGE_HEADER_BYTES + FRONT_BYTES);
        }
    }

    #[inline]
    pub(crate) fn note(&self, block: usize, page: &Page) {
        if let Some(place) = self.0.get(block) {
            place.note(&page.0);
        }
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        size_of_val(&*self.0)
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

    /// Leaves out the first bytes.
    pub(crate) fn skip(&mut self, bytes: usize) {
        self.range.start = self.range.end.min(self.range.start + bytes);
    }
}

impl Deref for PageSlice {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.page[self.range.clone()]
    }
}

/// The answer of a leaf that does no I/O: a page to read before the next try, or the result.
#[derive(Debug)]
pub(crate) enum Step<T> {
    Read(PageId),
    Done(T),
}

/// The source of an iterator's pages: the cache, or a reader that prefetches for merges.
pub(crate) trait PageSource: Send + Sync {
    /// The verified, decompressed page. Cost: one read unless it is cached.
    fn page(&self, id: PageId) -> Result<Page>;

    /// True if the page needs no read at this moment.
    fn has_cached(&self, _id: PageId) -> bool {
        false
    }

    /// The page if it needs no read.
    fn at_hand(&self, _id: PageId) -> Option<Page> {
        None
    }

    /// The page if it needs no read, for the reader that has read it ahead: this is no second use.
    fn read_ahead(&self, id: PageId) -> Option<Page> {
        self.at_hand(id)
    }

    /// The most bytes that `pages_ahead` may read; 0 if it is of no use.
    fn ahead_bytes_max(&self) -> usize {
        0
    }

    /// Reads pages of one file, ascending by offset, into the cache. Returns the first one. An
    /// error of another one is left to the read that wants it. Cost: one read.
    fn pages_ahead(&self, ids: &[PageId]) -> Result<Page> {
        self.page(ids[0])
    }

    /// Records that a page did not hold what was written, if the error says so.
    fn note_damage(&self, _error: &Error) {}

    /// The object that can read its pages into the cache together with other reads; `None` if each
    /// page is read alone.
    fn shared(self: Arc<Self>) -> Option<Arc<dyn SharedPages>> {
        None
    }
}

/// Pages that can be read together with others.
pub(crate) trait SharedPages: Send + Sync {
    /// Starts the read of a page.
    fn begin_read(&self, id: PageId, reads: &mut dyn Reads, tag: usize) -> Result<()>;
    /// Verifies the bytes that were read. From then on the cache holds the page.
    fn end_read(&self, id: PageId, read: io::Result<&[u8]>) -> Result<Page>;
}

/// Pages that will be needed soon.
pub(crate) type PrefetchList = Vec<(Arc<dyn SharedPages>, PageId)>;

/// Reads pages into the cache, as many at the same time as the device can. A failed read is not
/// reported here: the later read of that page reports it.
pub(crate) fn read_together(wanted: &PrefetchList, mut reads: Box<dyn Reads>) {
    for (tag, (pages, id)) in wanted.iter().enumerate() {
        let _ = pages.begin_read(*id, &mut *reads, tag);
    }
    while let Some((tag, read)) = reads.next() {
        let (pages, id) = &wanted[tag];
        let _ = pages.end_read(*id, read);
    }
}
