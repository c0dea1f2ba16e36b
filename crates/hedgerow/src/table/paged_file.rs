//! A file of checked pages, of a table or of a cluster of filters. The first use opens it. Reads go
//! through the database's page cache, and several reads overlap.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use hedgerow_io::{Advice, RandomRead, ReadMode, Reads, Storage};
use hedgerow_mem::PageMut;

use crate::base::error::{Error, Result};
use crate::base::page::{Page, PageId, TableId};
use crate::base::stats::Stats;
use crate::table::memory::Memory;

use super::page_io;

/// The most bytes of one read of several pages. A device reads them in about the time of two random
/// reads.
const AHEAD_BYTES_MAX: usize = 256 << 10;
/// The part of the page cache that one such read may fill.
const AHEAD_SHARE: u64 = 64;

/// The shared state of all tables of a database.
#[derive(Debug)]
pub(crate) struct TableContext {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) read_mode: ReadMode,
    pub(crate) memory: Arc<Memory>,
    pub(crate) stats: Arc<Stats>,
    /// The obsolete files that nobody reads any more. The removal of a large file takes too long
    /// for the reader that happens to be the last.
    pub(crate) graveyard: Mutex<Vec<Obsolete>>,
    /// Held by the thread that removes them.
    pub(crate) removing: Mutex<()>,
}

/// A file to be removed, of a table or of a filter over several runs.
#[derive(Debug)]
pub(crate) struct Obsolete {
    /// Filters are numbered with tables.
    pub(crate) id: TableId,
    pub(crate) path: PathBuf,
    /// The maximum of its bytes in the cache.
    pub(crate) cached_bytes_max: u64,
}

/// A file of checked pages; see the module. An obsolete file is removed when its last holder drops
/// it.
#[derive(Debug)]
pub(crate) struct PagedFile {
    id: TableId,
    path: PathBuf,
    bytes: u64,
    context: Arc<TableContext>,
    opened: OnceLock<Arc<dyn RandomRead>>,
    obsolete: AtomicBool,
}

impl PagedFile {
    /// A file of `bytes` bytes.
    pub(crate) fn new(
        id: TableId,
        path: PathBuf,
        bytes: u64,
        context: Arc<TableContext>,
    ) -> PagedFile {
        PagedFile {
            id,
            path,
            bytes,
            context,
            opened: OnceLock::new(),
            obsolete: AtomicBool::new(false),
        }
    }

    pub(crate) fn id(&self) -> TableId {
        self.id
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Sets the size of a file that has been written.
    pub(crate) fn set_bytes(&mut self, bytes: u64) {
        self.bytes = bytes;
    }

    pub(crate) fn context(&self) -> &Arc<TableContext> {
        &self.context
    }

    /// Marks the file for removal by its last holder. No durable edit may name it.
    pub(crate) fn mark_obsolete(&self) {
        self.obsolete.store(true, Ordering::Release);
    }

    /// The open file.
    #[inline]
    pub(crate) fn file(&self) -> Result<&Arc<dyn RandomRead>> {
        match self.opened.get() {
            Some(file) => Ok(file),
            None => self.open(),
        }
    }

    #[cold]
    fn open(&self) -> Result<&Arc<dyn RandomRead>> {
        let (storage, mode) = (&self.context.storage, self.context.read_mode);
        let opened = storage.open(&self.path, mode);
        let file = opened.map_err(|e| Error::io("open", &self.path, e))?;
        let found = file.bytes();
        if found != self.bytes {
            return Err(Error::corruption(format!(
                "expected a file of {} bytes, found {found} bytes",
                self.bytes
            ))
            .at(&self.path, None));
        }
        Ok(self.opened.get_or_init(|| file))
    }

    /// Returns a verified page, from the cache or else from the file.
    pub(crate) fn page(&self, id: PageId) -> Result<Page> {
        self.context.stats.pages_requested.add(1);
        if let Some(page) = self.cached(id) {
            return Ok(page);
        }
        let page = self.read_page(id)?;
        self.context.memory.cache.insert(id, &page);
        Ok(page)
    }

    /// Returns true if the page is in the cache now, so that `page` reads nothing. This is no use
    /// of the page.
    pub(crate) fn has_cached(&self, id: PageId) -> bool {
        self.context.memory.cache.peek(id).is_some()
    }

    /// The page if it is in the cache.
    pub(crate) fn cached(&self, id: PageId) -> Option<Page> {
        self.context.memory.cache.get(id)
    }

    /// The page if it takes no read. Counts it as requested.
    pub(crate) fn at_hand(&self, id: PageId) -> Option<Page> {
        let page = self.cached(id)?;
        self.context.stats.pages_requested.add(1);
        Some(page)
    }

    /// The page if it is in the cache. The caller has read it ahead, and this is its first use.
    pub(crate) fn read_ahead(&self, id: PageId) -> Option<Page> {
        let page = self.context.memory.cache.peek(id)?;
        self.context.stats.pages_requested.add(1);
        Some(page)
    }

    /// The most bytes of one read of several pages. In a small cache they would evict one another.
    pub(crate) fn ahead_bytes_max(&self) -> usize {
        let share = self.context.memory.cache.capacity_bytes() / AHEAD_SHARE;
        AHEAD_BYTES_MAX.min(usize::try_from(share).unwrap_or(usize::MAX))
    }

    /// Reads pages, ascending by offset, into the cache. Returns the first one. Those that are
    /// damaged beside it are left out: the read that wants one reports it. Cost: one read. The
    /// bytes between the pages are read, too.
    pub(crate) fn pages_ahead(&self, ids: &[PageId]) -> Result<Page> {
        let (first, last) = (ids[0], ids[ids.len() - 1]);
        let file = &**self.file()?;
        for id in ids {
            page_io::check_place(file, &self.path, *id)?;
        }
        self.context.stats.device_reads.add(1);
        let start = first.handle.offset;
        let bytes = last.handle.end().saturating_sub(start) as usize;
        let mut stored = self.allocate(bytes);
        file.read_at(start, &mut stored)
            .map_err(|e| Error::io("read", &self.path, e).at_offset(start))?;
        let end_read = |id: PageId| {
            let from = (id.handle.offset - start) as usize;
            self.end_read(id, Ok(&stored[from..from + id.handle.bytes as usize]))
        };
        let page = end_read(first)?;
        self.context.stats.pages_requested.add(1);
        for id in &ids[1..] {
            let _ = end_read(*id);
        }
        Ok(page)
    }

    /// The page if it is in the cache. Otherwise prefetches it into the system's cache.
    pub(crate) fn cached_or_prefetch(&self, id: PageId) -> Option<Page> {
        let page = self.cached(id);
        if let (None, Some(file)) = (&page, self.opened.get()) {
            let start = id.handle.offset;
            file.advise(start..start + u64::from(id.handle.bytes), Advice::WillNeed);
        }
        page
    }

    /// Reads the page from the file, past the cache.
    pub(crate) fn read_page(&self, id: PageId) -> Result<Page> {
        self.context.stats.device_reads.add(1);
        page_io::read(&**self.file()?, &self.path, id, |bytes| {
            self.allocate(bytes)
        })
    }

    /// Begins to read the page, past the cache. The read overlaps with others.
    pub(crate) fn begin_read(&self, id: PageId, reads: &mut dyn Reads, tag: usize) -> Result<()> {
        let file = self.file()?;
        page_io::check_place(&**file, &self.path, id)?;
        self.context.stats.device_reads.add(1);
        reads.begin(file, id.handle.offset, id.handle.bytes as usize, tag);
        Ok(())
    }

    /// Verifies a page that was read, and puts it into the cache.
    pub(crate) fn end_read(&self, id: PageId, read: io::Result<&[u8]>) -> Result<Page> {
        let page = page_io::copy(read, &self.path, id, |bytes| self.allocate(bytes))?;
        self.context.memory.cache.insert(id, &page);
        Ok(page)
    }

    /// Allocates memory for a page that the cache may keep.
    pub(crate) fn allocate(&self, bytes: usize) -> PageMut {
        self.context.memory.cache.allocate(bytes)
    }
}

impl Drop for PagedFile {
    fn drop(&mut self) {
        if !*self.obsolete.get_mut() {
            return;
        }
        let path = std::mem::take(&mut self.path);
        let graveyard = self.context.graveyard.lock();
        graveyard
            .unwrap_or_else(PoisonError::into_inner)
            .push(Obsolete {
                id: self.id,
                path,
                // The cache has no pages of a file that nobody opened.
                cached_bytes_max: self.opened.get().map_or(0, |_| self.bytes),
            });
    }
}

#[cfg(test)]
mod tests;
