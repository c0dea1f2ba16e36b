//! A file of checked pages, of a table or of a cluster of filters: opened when somebody needs it, read by way of the
//! database's page cache, together with others where many pages are wanted.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use hedgerow_io::{Advice, RandomRead, ReadMode, Reads, Storage};
use hedgerow_mem::PageMut;

use crate::base::error::{Error, Result};
use crate::base::page::{Page, PageId, TableId};
use crate::base::stats::Stats;
use crate::table::memory::Memory;

use super::page_io;

/// What all tables of a database share.
#[derive(Debug)]
pub(crate) struct TableContext {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) read_mode: ReadMode,
    pub(crate) memory: Arc<Memory>,
    pub(crate) stats: Arc<Stats>,
    /// Obsolete files that nobody reads any more: removing a large file takes too long to be done by
    /// the reader that happened to be the last.
    pub(crate) graveyard: Mutex<Vec<Obsolete>>,
    /// How many clusters of filters were found damaged.
    pub(crate) damaged_clusters: AtomicU64,
}

/// A file that is to be removed, of a table or of a filter over several runs.
#[derive(Debug)]
pub(crate) struct Obsolete {
    /// Filters are numbered with tables.
    pub(crate) id: TableId,
    pub(crate) path: PathBuf,
    /// Of its pages, the most that may be in the cache.
    pub(crate) cached_bytes_max: u64,
}

/// See the module. When the last holder of an obsolete one lets go, the file is removed.
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
    /// One of `bytes` bytes.
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

    /// It has been written, and is so large.
    pub(crate) fn set_bytes(&mut self, bytes: u64) {
        self.bytes = bytes;
    }

    pub(crate) fn context(&self) -> &Arc<TableContext> {
        &self.context
    }

    /// The file is to be removed when nobody holds it any more: nothing durable names it.
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

    /// The page, from the cache or else from the file, verified.
    pub(crate) fn page(&self, id: PageId) -> Result<Page> {
        self.context.stats.pages_asked.add(1);
        if let Some(page) = self.cached(id) {
            return Ok(page);
        }
        let page = self.read_page(id)?;
        self.context.memory.cache.insert(id, &page);
        Ok(page)
    }

    /// Whether asking for the page reads nothing, as things are.
    pub(crate) fn has_cached(&self, id: PageId) -> bool {
        self.cached(id).is_some()
    }

    /// The page if it is in the cache.
    pub(crate) fn cached(&self, id: PageId) -> Option<Page> {
        self.context.memory.cache.get(id)
    }

    /// The page if asking for it takes no read.
    pub(crate) fn at_hand(&self, id: PageId) -> Option<Page> {
        let page = self.cached(id)?;
        self.context.stats.pages_asked.add(1);
        Some(page)
    }

    /// The system hears that the page will be needed.
    pub(crate) fn prefetch(&self, id: PageId) {
        if let Some(file) = self.opened.get() {
            let start = id.handle.offset;
            file.advise(start..start + u64::from(id.handle.bytes), Advice::WillNeed);
        }
    }

    /// The page from the file, not by way of the cache.
    pub(crate) fn read_page(&self, id: PageId) -> Result<Page> {
        self.context.stats.device_reads.add(1);
        page_io::read(&**self.file()?, &self.path, id, |bytes| {
            self.allocate(bytes)
        })
    }

    /// Begins to read the page among others that are under way, not by way of the cache.
    pub(crate) fn begin_read(&self, id: PageId, reads: &mut dyn Reads, tag: usize) -> Result<()> {
        let file = self.file()?;
        page_io::check_place(&**file, &self.path, id)?;
        self.context.stats.device_reads.add(1);
        reads.begin(file, id.handle.offset, id.handle.bytes as usize, tag);
        Ok(())
    }

    /// The page, of what was read for it, verified; the cache has it from now on.
    pub(crate) fn end_read(&self, id: PageId, read: io::Result<&[u8]>) -> Result<Page> {
        let page = page_io::copy(read, &self.path, id, |bytes| self.allocate(bytes))?;
        self.context.memory.cache.insert(id, &page);
        Ok(page)
    }

    /// Memory for a page that the cache may keep.
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
                cached_bytes_max: self.bytes,
            });
    }
}
