//! A table of the tree: its facts, and its reader from the first use on.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use hedgerow_io::{RandomRead, Reads};
use hedgerow_mem::PageMut;

use crate::base::entry::{KeyHash, SeqNo};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::options::Residency;
use crate::base::page::{
    Handle, Page, PageClass, PageId, PageSlice, PageSource, SharedPages, TableId,
};
use crate::table::iter::InternalIter;
use crate::table::memory::TableSums;

use super::Reader;
use super::format;
use super::page_io;
use super::paged_file::{PagedFile, TableContext};
use super::table_file::ResidencyChoice;
use crate::base::mutex::lock;
use crate::base::range_tombstones::RangeTombstones;
use crate::base::table_meta::TableMeta;

/// The name of a table's file.
pub(crate) fn table_name(id: TableId) -> String {
    format!("{:010}.table", id.0)
}

/// The number in the name of a table's file.
pub(crate) fn table_number(name: &str) -> Option<u64> {
    name.strip_suffix(".table")
        .filter(|digits| digits.len() == 10)?
        .parse()
        .ok()
}

/// A table file. An obsolete file is removed when its last holder drops it.
pub(crate) struct Table {
    meta: TableMeta,
    pages: PagedFile,
    residency: Residency,
    opened: OnceLock<OpenReader>,
    opening: Mutex<()>,
}

/// The approximate memory of a table that is not open, in bytes.
fn described_bytes(meta: &TableMeta) -> u64 {
    let keys = meta.smallest_key.capacity() + meta.largest_key.capacity();
    (keys + 1024) as u64
}

/// Adds the parts of a table to the sums over all tables, or subtracts them.
fn count(stored: &TableSums, meta: &TableMeta, change: impl Fn(&AtomicU64, u64)) {
    change(&stored.bytes, meta.file_bytes);
    change(&stored.entries, meta.entries);
    change(&stored.index_bytes, meta.index_bytes);
    change(&stored.filter_bytes, meta.filter_bytes);
}

/// The parts of a table that its first use opens.
pub(crate) struct OpenReader {
    pub(crate) reader: Arc<dyn Reader>,
    /// The range tombstones, if there are some.
    pub(crate) ranges: Option<Arc<RangeTombstones>>,
    index_bytes: u64,
    filter_bytes: u64,
}

impl Table {
    pub(crate) fn new(
        meta: TableMeta,
        path: PathBuf,
        residency: Residency,
        context: Arc<TableContext>,
    ) -> Arc<Table> {
        let described = described_bytes(&meta);
        let tables = &context.memory.tables;
        tables.fetch_add(described, Ordering::Relaxed);
        count(&context.memory.stored, &meta, |sum, n| {
            sum.fetch_add(n, Ordering::Relaxed);
        });
        Arc::new(Table {
            pages: PagedFile::new(meta.id, path, meta.file_bytes, context),
            meta,
            residency,
            opened: OnceLock::new(),
            opening: Mutex::new(()),
        })
    }

    pub(crate) fn meta(&self) -> &TableMeta {
        &self.meta
    }

    pub(crate) fn path(&self) -> &std::path::Path {
        self.pages.path()
    }

    /// The file, for a holder of its reader.
    pub(crate) fn pages(&self) -> &PagedFile {
        &self.pages
    }

    fn context(&self) -> &TableContext {
        self.pages.context()
    }

    /// The reader. The first call opens the file: two or three reads, and those of index and filter
    /// if they are to be resident.
    #[inline]
    pub(crate) fn reader(&self) -> Result<&Arc<dyn Reader>> {
        self.opened().map(|opened| &opened.reader)
    }

    /// The reader with the range tombstones.
    #[inline]
    pub(crate) fn opened(&self) -> Result<&OpenReader> {
        match self.opened.get() {
            Some(opened) => Ok(opened),
            None => self.open(),
        }
    }

    /// The range tombstones. Opens the table only if it has some.
    pub(crate) fn ranges(&self) -> Result<Option<&Arc<RangeTombstones>>> {
        match self.meta.range_tombstones {
            0 => Ok(None),
            _ => Ok(self.opened()?.ranges.as_ref()),
        }
    }

    /// Prefetches as [`Reader::touch`] does, if the table is open.
    #[inline]
    pub(crate) fn touch(&self, hash: KeyHash) {
        if let Some(opened) = self.opened.get() {
            opened.reader.touch(hash);
        }
    }

    /// Returns true if the table is open, so that `reader` reads nothing.
    pub(crate) fn is_open(&self) -> bool {
        self.opened.get().is_some()
    }

    #[cold]
    fn open(&self) -> Result<&OpenReader> {
        let _one = lock(&self.opening);
        if let Some(opened) = self.opened.get() {
            return Ok(opened);
        }
        let memory = &self.context().memory;
        let resident = |has_room: bool| match self.residency {
            Residency::Resident => true,
            Residency::Paged => false,
            Residency::Auto => has_room,
        };
        let choice = ResidencyChoice {
            index_resident: resident(memory.has_room_for_index(self.meta.index_bytes)),
            filter_resident: resident(memory.has_room_for_filter(self.meta.filter_bytes)),
            places: memory.caches_most(),
        };
        let reader = format::open(
            self.pages.file()?.clone(),
            self.path(),
            self.meta.id,
            self.meta.seqno_override,
            choice,
        )?;
        self.check_facts(&*reader)?;
        let (index_bytes, filter_bytes) = reader.memory_bytes();
        let ranges = reader.ranges().cloned();
        let ranges_bytes = ranges.as_ref().map_or(0, |it| it.memory_bytes());
        let (index_bytes, filter_bytes) =
            ((index_bytes + ranges_bytes) as u64, filter_bytes as u64);
        memory.indexes.fetch_add(index_bytes, Ordering::Relaxed);
        memory.filters.fetch_add(filter_bytes, Ordering::Relaxed);
        memory.note();
        Ok(self.opened.get_or_init(|| OpenReader {
            reader,
            ranges,
            index_bytes,
            filter_bytes,
        }))
    }

    /// Checks that the footer agrees with the manifest. Searches, merges and numbers rely on the
    /// manifest.
    fn check_facts(&self, reader: &dyn Reader) -> Result<()> {
        // A copy may be in another place than the table was written to.
        let facts = TableMeta {
            path: self.meta.path,
            ..reader.meta().clone()
        };
        let facts = facts.renumbered(self.meta.seqno_override);
        if facts == self.meta {
            return Ok(());
        }
        let error = Error::corruption(format!(
            "expected a table that the manifest describes as {:?}, found {facts:?}",
            self.meta
        ));
        Err(error.at(self.path(), None))
    }

    /// Checks the number of an entry: at most the table's largest (invariant I34).
    pub(crate) fn check_number(&self, seqno: SeqNo) -> Result<()> {
        let largest = self.meta.largest_seqno;
        if seqno <= largest {
            return Ok(());
        }
        let error = Error::corruption(format!(
            "expected entries numbered up to {}, found one at {}",
            largest.0, seqno.0
        ));
        Err(error.at(self.path(), None))
    }

    /// Reads all of it and checks every page and every invariant.
    ///
    /// # Errors
    /// `Corruption` with the place, `Io`.
    pub(crate) fn verify(&self) -> Result<()> {
        let verified = self.reader()?.verify(&UncachedPages(self));
        verified.map_err(|e| e.at(self.path(), None))
    }

    /// The error of the first damaged table, or `noticed` if all of them verify.
    #[cold]
    pub(crate) fn culprit<'t>(
        tables: impl IntoIterator<Item = &'t Arc<Table>>,
        noticed: Error,
    ) -> Error {
        let errors = tables.into_iter().filter_map(|table| table.verify().err());
        let mut corrupt = errors.filter(|error| error.kind() == ErrorKind::Corruption);
        corrupt.next().unwrap_or(noticed)
    }

    /// Checks a page that holds a value out of line. The entry knows its size.
    pub(crate) fn value(&self, page: Page, id: PageId, bytes: u32) -> Result<PageSlice> {
        if page.len() != bytes as usize {
            let found = page.len();
            let error =
                Error::corruption(format!("expected a value of {bytes} bytes, found {found}"));
            return Err(error.at(self.path(), Some(id.handle.offset)));
        }
        let all = 0..page.len();
        Ok(page.slice(all))
    }

    /// Reads a page from the file, past the cache.
    pub(crate) fn read_page(&self, id: PageId) -> Result<Page> {
        self.reader()?;
        self.pages.read_page(id)
    }

    /// An iterator whose pages go through the cache.
    pub(crate) fn iter(self: &Arc<Self>) -> Result<Box<dyn InternalIter>> {
        let reader = self.reader()?.clone();
        Ok(reader.iter(self.clone()))
    }

    /// An iterator that reads no file: a page that is not in the cache is an error.
    ///
    /// # Errors
    /// As [`Table::would_read`], if the table is not open.
    pub(crate) fn iter_if_cached(self: &Arc<Self>) -> Result<Box<dyn InternalIter>> {
        let opened = self.opened.get().ok_or_else(Table::would_read)?;
        let pages = Arc::new(CachedPages(self.clone()));
        Ok(opened.reader.clone().iter(pages))
    }

    /// The page, if it is in the cache. Otherwise prefetches it into the system's cache.
    ///
    /// # Errors
    /// As [`Table::would_read`].
    pub(crate) fn page_if_cached(&self, id: PageId) -> Result<Page> {
        let cached = self.pages.cached_or_prefetch(id);
        cached.ok_or_else(Table::would_read)
    }

    /// The error of a call that excludes reads of files.
    #[cold]
    pub(crate) fn would_read() -> Error {
        Error::new(
            ErrorKind::WouldBlock,
            "expected an answer in memory, found one that takes a read of a file",
        )
    }

    /// Marks the file for removal by its last holder. The edit that drops it must be durable.
    pub(crate) fn mark_obsolete(&self) {
        self.pages.mark_obsolete();
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        let opened = self.opened.take();
        let memory = &self.context().memory;
        if let Some(opened) = opened {
            let OpenReader {
                index_bytes,
                filter_bytes,
                ..
            } = opened;
            memory.indexes.fetch_sub(index_bytes, Ordering::Relaxed);
            memory.filters.fetch_sub(filter_bytes, Ordering::Relaxed);
        }
        let described = described_bytes(&self.meta);
        memory.tables.fetch_sub(described, Ordering::Relaxed);
        count(&memory.stored, &self.meta, |sum, n| {
            sum.fetch_sub(n, Ordering::Relaxed);
        });
    }
}

/// Pages from the file: a page in the cache would prove nothing about the disk.
struct UncachedPages<'a>(&'a Table);

impl PageSource for UncachedPages<'_> {
    fn page(&self, id: PageId) -> Result<Page> {
        self.0.read_page(id)
    }
}

/// Pages that are in the cache.
struct CachedPages(Arc<Table>);

impl PageSource for CachedPages {
    fn page(&self, id: PageId) -> Result<Page> {
        self.0.page_if_cached(id)
    }

    fn has_cached(&self, id: PageId) -> bool {
        self.0.pages.has_cached(id)
    }

    fn at_hand(&self, id: PageId) -> Option<Page> {
        self.0.pages.at_hand(id)
    }
}

/// Reads pages through the cache.
impl PageSource for Table {
    fn page(&self, id: PageId) -> Result<Page> {
        self.pages.page(id)
    }

    fn has_cached(&self, id: PageId) -> bool {
        self.pages.has_cached(id)
    }

    fn at_hand(&self, id: PageId) -> Option<Page> {
        self.pages.at_hand(id)
    }

    fn read_ahead(&self, id: PageId) -> Option<Page> {
        self.pages.read_ahead(id)
    }

    fn ahead_bytes_max(&self) -> usize {
        self.pages.ahead_bytes_max()
    }

    fn pages_ahead(&self, ids: &[PageId]) -> Result<Page> {
        self.pages.pages_ahead(ids)
    }

    fn shared(self: Arc<Self>) -> Option<Arc<dyn SharedPages>> {
        Some(self)
    }
}

impl SharedPages for Table {
    fn begin_read(&self, id: PageId, reads: &mut dyn Reads, tag: usize) -> Result<()> {
        self.pages.begin_read(id, reads, tag)
    }

    fn end_read(&self, id: PageId, read: io::Result<&[u8]>) -> Result<Page> {
        self.pages.end_read(id, read)
    }
}

/// The most that a merge reads ahead from each input, in bytes. A device reads it in about the time
/// of one random read.
pub(crate) const STREAM_BYTES_MAX: usize = 256 << 10;
/// The least that a merge reads ahead from each input, however many inputs share the memory.
pub(crate) const STREAM_BYTES_MIN: usize = 16 << 10;

/// The pages of one table from front to back, read in long pieces. A merge does not keep them in
/// the cache. Pages out of order are read one by one.
pub(crate) struct StreamedPages {
    table: Arc<Table>,
    stream_bytes: usize,
    window: Mutex<Window>,
}

/// A part of a file in memory.
struct Window {
    start: u64,
    bytes: usize,
    /// A buffer of the size of the longest piece so far.
    buffer: PageMut,
}

impl Window {
    fn of(&self, handle: Handle) -> Option<&[u8]> {
        let from = usize::try_from(handle.offset.checked_sub(self.start)?).ok()?;
        self.buffer[..self.bytes].get(from..from.checked_add(handle.bytes as usize)?)
    }

    fn fill(&mut self, file: &dyn RandomRead, start: u64, bytes_max: usize) -> io::Result<()> {
        let rest = file.bytes().saturating_sub(start);
        self.bytes = 0;
        self.start = start;
        let bytes = bytes_max.min(usize::try_from(rest).unwrap_or(usize::MAX));
        if self.buffer.len() < bytes {
            self.buffer = PageMut::allocate(bytes);
        }
        file.read_at(start, &mut self.buffer[..bytes])?;
        self.bytes = bytes;
        Ok(())
    }
}

impl StreamedPages {
    /// Reads pieces of `stream_bytes` bytes.
    pub(crate) fn new(table: Arc<Table>, stream_bytes: usize) -> StreamedPages {
        StreamedPages {
            table,
            stream_bytes,
            window: Mutex::new(Window {
                start: 0,
                bytes: 0,
                buffer: PageMut::allocate(0),
            }),
        }
    }
}

impl StreamedPages {
    /// Reads a block into the cache unless it is there. Returns false if the resident part of the
    /// index knows of no such block.
    pub(crate) fn cache_block(&self, block: usize) -> Result<bool> {
        let table = &self.table;
        let Some(id) = table.reader()?.block_id(block) else {
            return Ok(false);
        };
        if !table.pages.has_cached(id) {
            let page = self.read(id, |bytes| table.pages.allocate(bytes))?;
            table.context().memory.cache.insert(id, &page);
        }
        Ok(true)
    }

    fn read(&self, id: PageId, allocate: impl Fn(usize) -> PageMut) -> Result<Page> {
        let mut window = lock(&self.window);
        if window.of(id.handle).is_none() {
            // A value out of line may be anywhere: it must not move the window.
            if id.class == PageClass::Value || id.handle.bytes as usize > self.stream_bytes {
                return self.table.read_page(id);
            }
            self.table.context().stats.device_reads.add(1);
            window
                .fill(
                    &**self.table.pages.file()?,
                    id.handle.offset,
                    self.stream_bytes,
                )
                .map_err(|e| Error::io("read", self.table.path(), e))?;
        }
        match window.of(id.handle) {
            Some(bytes) => {
                page_io::decode_into(bytes, id, allocate).map_err(|e| e.at(self.table.path(), None))
            }
            // The page ends behind the file.
            None => self.table.read_page(id),
        }
    }
}

impl PageSource for StreamedPages {
    fn page(&self, id: PageId) -> Result<Page> {
        self.read(id, PageMut::allocate)
    }
}
