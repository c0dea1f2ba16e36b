//! What an open table of every format has: its file, and what the end of that says.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hedgerow_io::RandomRead;

use crate::base::entry::SeqNo;
use crate::base::error::{Error, Result};
use crate::base::options::TableSpec;
use crate::base::page::{Handle, Page, PageClass, PageId, TableId};
use crate::table::filter::Probe;
use crate::table::filter::bucket_bloom::BucketBlooms;
use crate::table::filter::of_table::Description;
use crate::table::filter::run_hashes::RunHashes;

use super::footer::{Footer, Tail};
use super::{Reader, block_based, htable, page_io};
use crate::base::table_meta::TableMeta;

/// What of a table is kept in memory; the rest is asked for page by page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ResidencyChoice {
    pub(crate) index_resident: bool,
    pub(crate) filter_resident: bool,
}

/// Opens a table of whatever format; `seqno_override` is what the manifest says of it. Cost: one read
/// for the end of the file, one for a resident index, one for a resident filter, and one more if the
/// end of the file does not reach back to the index's top.
///
/// # Errors
/// `Corruption` when the file is not the table `id` as it was written; `FormatVersion` when a newer
/// version wrote it.
pub(crate) fn open(
    file: Arc<dyn RandomRead>,
    path: &Path,
    id: TableId,
    seqno_override: Option<SeqNo>,
    residency: ResidencyChoice,
) -> Result<Arc<dyn Reader>> {
    let (mut file, top) = TableFile::open(file, path, id)?;
    file.seqno_override = seqno_override.or(file.meta.seqno_override);
    Ok(match file.footer.table {
        TableSpec::BlockBased => Arc::new(block_based::TableReader::open(file, &top, residency)?),
        TableSpec::HTable => Arc::new(htable::TableReader::open(file, &top, residency)?),
    })
}

/// What a table file says of itself, whatever its number: for `repair`. Cost: one read, or two.
pub(crate) fn read_meta(file: &dyn RandomRead, path: &Path) -> Result<(TableMeta, Footer)> {
    let tail = Tail::read(file, path)?;
    Ok((tail.meta(file, path)?, tail.footer))
}

/// The file of an open table.
#[derive(Debug)]
pub(super) struct TableFile {
    /// Only for indexes, filters, hashes and `verify`; everything else gets its pages from the caller.
    pub(super) file: Arc<dyn RandomRead>,
    pub(super) path: PathBuf,
    pub(super) footer: Footer,
    pub(super) meta: TableMeta,
    /// The number that every entry has, whatever its block says.
    seqno_override: Option<SeqNo>,
}

impl TableFile {
    /// The file, and the top of its index.
    pub(super) fn open(
        file: Arc<dyn RandomRead>,
        path: &Path,
        id: TableId,
    ) -> Result<(TableFile, Page)> {
        let tail = Tail::read(&*file, path)?;
        let footer = tail.footer;
        if footer.id != id {
            return Err(Error::corruption(format!(
                "expected table {}, found table {}",
                id.0, footer.id.0
            ))
            .at(path, None));
        }
        let meta = tail.meta(&*file, path)?;
        let top = tail.page(&*file, path, footer.index_top)?;
        let file = TableFile {
            file,
            path: path.to_path_buf(),
            footer,
            seqno_override: meta.seqno_override,
            meta,
        };
        Ok((file, top))
    }

    /// The number of an entry that has `stored` in its block.
    #[inline]
    pub(super) fn seqno(&self, stored: SeqNo) -> SeqNo {
        self.seqno_override.unwrap_or(stored)
    }

    /// What to look for in blocks to find what is numbered at most `seqno`: where one number stands
    /// for all, either any or none, since nothing is stored with the number 0.
    #[inline]
    pub(super) fn stored_bound(&self, seqno: SeqNo) -> SeqNo {
        match self.seqno_override {
            None => seqno,
            Some(all) if all <= seqno => SeqNo::MAX,
            Some(_) => SeqNo(0),
        }
    }

    pub(super) fn page_id(&self, handle: Handle, class: PageClass) -> PageId {
        PageId {
            table: self.meta.id,
            handle,
            class,
        }
    }

    /// An error, with the place of what it is about.
    pub(super) fn at(&self, error: Error, handle: Handle) -> Error {
        error.at(&self.path, Some(handle.offset))
    }

    /// The filter of the whole table, if it has one that is asked; in memory or paged.
    pub(super) fn filter(&self, resident: bool) -> Result<Option<Box<dyn Probe>>> {
        match self.footer.filter {
            None => Ok(None),
            Some(filter) if resident && filter.is_asked() => self.load_filter(filter).map(Some),
            Some(filter) => filter.paged(self.meta.id),
        }
    }

    /// Cost: one read.
    pub(super) fn load_filter(&self, description: Description) -> Result<Box<dyn Probe>> {
        self.read_filter(description, |pages| {
            description.resident(self.meta.id, pages)
        })
    }

    /// The filters of its buckets, if it has them; in memory or paged.
    pub(super) fn bucket_filters(&self, resident: bool) -> Result<Option<BucketBlooms>> {
        let Some(description @ Description::Buckets(buckets)) = self.footer.filter else {
            return Ok(None);
        };
        if !resident {
            return Ok(Some(BucketBlooms::paged(self.meta.id, buckets)));
        }
        let filters = self.read_filter(description, |pages| {
            BucketBlooms::resident(self.meta.id, buckets, pages)
        });
        filters.map(Some)
    }

    /// The hashes of its keys, ascending, if it has them. Cost: one read.
    pub(super) fn key_hashes(&self) -> Result<Option<Vec<u64>>> {
        let Some(description @ Description::Hashes(hashes)) = self.footer.filter else {
            return Ok(None);
        };
        let read = self.read_filter(description, |pages| RunHashes::read(hashes, pages));
        read.map(|hashes| Some(hashes.0))
    }

    /// What is made of all the pages of a filter. Cost: one read.
    pub(super) fn read_filter<F>(
        &self,
        description: Description,
        make: impl FnOnce(&mut dyn Iterator<Item = Result<&[u8]>>) -> Result<F>,
    ) -> Result<F> {
        let (file, path) = (&*self.file, &self.path);
        // Before room is made for as many pages as the footer says.
        if description.file_bytes() > file.bytes() {
            return Err(Error::corruption(format!(
                "expected a filter of {} bytes in a file of {}",
                description.file_bytes(),
                file.bytes()
            ))
            .at(path, Some(description.offset())));
        }
        let handles: Vec<Handle> = (0..description.pages())
            .map(|i| description.page_handle(i))
            .collect();
        let range = extent(&handles);
        let buffer = page_io::read_range(file, path, range.0, range.1)?;
        let mut pages = handles.iter().map(|handle| {
            let bytes = &buffer[(handle.offset - range.0) as usize..][..handle.bytes as usize];
            let (stored, _) = page_io::check(bytes, self.meta.id, handle.offset)
                .map_err(|e| self.at(e, *handle))?;
            Ok(stored)
        });
        make(&mut pages).map_err(|e| e.at(path, Some(description.offset())))
    }

    /// Reads pages that lie close together with one read.
    pub(super) fn read_pages(&self, ids: &[PageId]) -> Result<Vec<Page>> {
        let handles: Vec<Handle> = ids.iter().map(|id| id.handle).collect();
        let (offset, bytes) = extent(&handles);
        let buffer = page_io::read_range(&*self.file, &self.path, offset, bytes)?;
        let page = |handle: Handle| {
            let start = usize::try_from(handle.offset.checked_sub(offset)?).ok()?;
            buffer.get(start..start.checked_add(handle.bytes as usize)?)
        };
        let pages = ids.iter().map(|&id| {
            let disorder = || Error::corruption("expected the pages of the index in order");
            let bytes = page(id.handle).ok_or_else(disorder);
            let decoded = bytes.and_then(|bytes| page_io::decode(bytes, id));
            decoded.map_err(|e| self.at(e, id.handle))
        });
        pages.collect()
    }
}

/// From the first page's offset to the last one's end.
fn extent(handles: &[Handle]) -> (u64, usize) {
    let (Some(first), Some(last)) = (handles.first(), handles.last()) else {
        return (0, 0);
    };
    let end = last.offset.saturating_add(u64::from(last.bytes));
    let bytes = end.saturating_sub(first.offset);
    (first.offset, usize::try_from(bytes).unwrap_or(usize::MAX))
}
