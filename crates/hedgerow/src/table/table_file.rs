//! The parts of an open table of every format: its file, its footer and its facts.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hedgerow_io::RandomRead;

use crate::base::entry::SeqNo;
use crate::base::error::{Error, Result};
use crate::base::page::{Handle, Page, PageClass, PageId, TableId};
use crate::table::filter::Probe;
use crate::table::filter::run_hashes::RunHashes;
use crate::table::filter::table_filter::Description;

use super::FoundValue;
use super::entry_parts::ValueHandle;
use super::footer::{Footer, Tail};
use super::page_io;
use crate::base::range_tombstones::RangeTombstones;
use crate::base::table_meta::TableMeta;

/// The parts of a table that are kept in memory. The rest is read page by page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ResidencyChoice {
    pub(crate) index_resident: bool,
    pub(crate) filter_resident: bool,
    /// The places of its blocks in the page cache are kept: four bytes for each.
    pub(crate) places: bool,
}

/// Reads the facts and the footer of a table file with any number, for `repair`. Cost: one read, or
/// two.
pub(crate) fn read_meta(file: &dyn RandomRead, path: &Path) -> Result<(TableMeta, Footer)> {
    let tail = Tail::read(file, path)?;
    Ok((tail.meta(file, path)?, tail.footer))
}

/// The range tombstones in their page, which agrees with the facts (invariant I34).
pub(super) fn read_ranges(
    page: &[u8],
    meta: &TableMeta,
    footer: &Footer,
) -> Result<RangeTombstones> {
    let ranges = RangeTombstones::decode(page, footer.key_order)?;
    let mut counted = meta.clone();
    counted.count_ranges(&ranges);
    if ranges.is_empty() || counted != *meta {
        return Err(Error::corruption(format!(
            "expected range tombstones within the facts {meta:?}, found {} in {} fragments",
            ranges.count(),
            ranges.fragments().len()
        )));
    }
    Ok(ranges)
}

/// The file of an open table.
#[derive(Debug)]
pub(super) struct TableFile {
    /// The file, for indexes, filters, hashes and `verify` only. All other pages come from the
    /// caller.
    pub(super) file: Arc<dyn RandomRead>,
    pub(super) path: PathBuf,
    pub(super) footer: Footer,
    pub(super) meta: TableMeta,
    pub(super) ranges: Option<Arc<RangeTombstones>>,
    /// The sequence number of every entry, whatever its block says.
    pub(super) seqno_override: Option<SeqNo>,
}

impl TableFile {
    /// Opens the file. Returns the top of its index, too.
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
        let ranges = match meta.ranges {
            None => None,
            Some(handle) => Some(Arc::new(
                tail.page(&*file, path, handle)
                    .and_then(|page| read_ranges(&page, &meta, &footer))
                    .map_err(|e| e.at(path, Some(handle.offset)))?,
            )),
        };
        let file = TableFile {
            file,
            path: path.to_path_buf(),
            footer,
            seqno_override: meta.seqno_override,
            meta,
            ranges,
        };
        Ok((file, top))
    }

    /// The sequence number of an entry with the number `stored` in its block.
    #[inline]
    pub(super) fn seqno(&self, stored: SeqNo) -> SeqNo {
        self.seqno_override.unwrap_or(stored)
    }

    /// The bound for a search in blocks that finds the entries numbered at most `seqno`. If one
    /// number stands for all, the search finds either any entry or none: no entry is stored with
    /// the number 0.
    #[inline]
    pub(super) fn stored_bound(&self, seqno: SeqNo) -> SeqNo {
        match self.seqno_override {
            None => seqno,
            Some(all) if all <= seqno => SeqNo::MAX,
            Some(_) => SeqNo(0),
        }
    }

    /// The value in a part of a block's page. The part of a value out of line has its place.
    #[inline]
    pub(super) fn value(
        &self,
        page: &Page,
        part: Range<usize>,
        out_of_line: bool,
    ) -> Result<FoundValue> {
        if !out_of_line {
            return Ok(FoundValue::InBlock(page.slice(part)));
        }
        let place = ValueHandle::decode(&page[part])?;
        Ok(FoundValue::OutOfLine {
            page: self.page_id(place.handle, PageClass::Value),
            bytes: place.bytes,
        })
    }

    pub(super) fn page_id(&self, handle: Handle, class: PageClass) -> PageId {
        PageId {
            table: self.meta.id,
            handle,
            class,
        }
    }

    /// Adds the place of a page to an error.
    pub(super) fn at(&self, error: Error, handle: Handle) -> Error {
        error.at(&self.path, Some(handle.offset))
    }

    /// The filter of the whole table, in memory or paged, if it has one that is probed.
    pub(super) fn filter(&self, resident: bool) -> Result<Option<Box<dyn Probe>>> {
        match self.footer.filter {
            None => Ok(None),
            Some(filter) if resident && filter.is_asked() => self
                .read_filter(filter, |pages| filter.resident(self.meta.id, pages))
                .map(Some),
            Some(filter) => filter.paged(self.meta.id),
        }
    }

    /// The hashes of the keys, ascending, if the table has them. Cost: one read.
    pub(super) fn key_hashes(&self) -> Result<Option<Vec<u64>>> {
        let Some(description @ Description::Hashes(hashes)) = self.footer.filter else {
            return Ok(None);
        };
        let read = self.read_filter(description, |pages| RunHashes::read(hashes, pages));
        read.map(|hashes| Some(hashes.0))
    }

    /// Makes a filter from all of its pages. Cost: one read.
    pub(super) fn read_filter<F>(
        &self,
        description: Description,
        make: impl FnOnce(&mut dyn Iterator<Item = Result<&[u8]>>) -> Result<F>,
    ) -> Result<F> {
        let (file, path) = (&*self.file, &self.path);
        // Checked before memory is allocated for the pages that the footer claims.
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

    /// Reads neighbouring pages with one read.
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

/// The range from the first page's offset to the last page's end.
fn extent(handles: &[Handle]) -> (u64, usize) {
    let (Some(first), Some(last)) = (handles.first(), handles.last()) else {
        return (0, 0);
    };
    let end = last.offset.saturating_add(u64::from(last.bytes));
    let bytes = end.saturating_sub(first.offset);
    (first.offset, usize::try_from(bytes).unwrap_or(usize::MAX))
}
