//! A page: what is read from a table at once, verified and decompressed.

use std::ops::{Deref, Range};
use std::sync::Arc;

use crate::error::Result;

/// What follows the stored bytes of every page: a byte that says how they are compressed, then the
/// seeded checksum of both.
pub(crate) const TRAILER_BYTES: u32 = 5;

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

/// Buffers of pages have sizes of this grain: blocks are all of about one size but hardly two of the
/// same, and an allocator reuses what is exactly the same best.
const BUFFER_GRAIN_BYTES: usize = 256;

/// The bytes of a page, shared between the cache and whoever reads them. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Page {
    /// The page, and perhaps the trailer that it was stored with: a page that is not compressed is
    /// read into the memory that it stays in.
    buffer: Arc<[u8]>,
    bytes: usize,
}

impl Page {
    /// Allocates once and lets `fill` write the bytes.
    pub(crate) fn filled(bytes: usize, fill: impl FnOnce(&mut [u8]) -> Result<()>) -> Result<Page> {
        let rounded = bytes.next_multiple_of(BUFFER_GRAIN_BYTES);
        let mut buffer: Arc<[u8]> = std::iter::repeat_n(0, rounded).collect();
        fill(&mut Arc::get_mut(&mut buffer).expect("a new page has one owner")[..bytes])?;
        Ok(Page { buffer, bytes })
    }

    /// What it takes in memory.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.buffer.len()
    }

    /// The first `bytes` bytes of the page alone.
    pub(crate) fn cut(self, bytes: usize) -> Page {
        assert!(bytes <= self.bytes, "a page is cut within its bytes");
        Page { bytes, ..self }
    }

    /// A second owner of some of the page's bytes.
    pub(crate) fn slice(&self, range: Range<usize>) -> PageSlice {
        debug_assert!(range.end <= self.bytes);
        PageSlice {
            page: self.clone(),
            range,
        }
    }
}

impl Deref for Page {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.buffer[..self.bytes]
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
}
