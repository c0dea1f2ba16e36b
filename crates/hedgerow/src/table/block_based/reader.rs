//! An open table: point lookups as a state machine that asks for the pages it needs.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hedgerow_io::RandomRead;

use crate::block_index::{Index, of_table};
use crate::entry::SeqNo;
use crate::error::{Error, Result};
use crate::filter::Probe;
use crate::filter::multi_level_cuckoo::run_hashes::RunHashes;
use crate::filter::of_table::Description;
use crate::iter::InternalIter;
use crate::page::{Handle, Page, PageClass, PageId, PageSource, Step, TableId};
use crate::table::{FoundValue, GetState, Lookup, Phase, Query, TableMeta, page_io};

use super::block::{Block, Place, Position};
use super::footer::{Footer, Tail};
use super::iter::TableIter;

/// What of a table is kept in memory; the rest is asked for page by page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ResidencyChoice {
    pub(crate) index_resident: bool,
    pub(crate) filter_resident: bool,
}

/// Opens a table; `seqno_override` is what the manifest says of it. Cost: one read for the end of the file, one for a resident index, one for a
/// resident filter, and one more if the end of the file does not reach back to the index's top.
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
) -> Result<Arc<dyn crate::table::Reader>> {
    let mut table = TableReader::open(file, path, id, residency)?;
    table.seqno_override = seqno_override.or(table.meta.seqno_override);
    Ok(Arc::new(table))
}

/// What a table file says of itself, whatever its number: for `repair`. Cost: one read, or two.
pub(crate) fn read_meta(file: &dyn RandomRead, path: &Path) -> Result<(TableMeta, Footer)> {
    let tail = Tail::read(file, path)?;
    Ok((tail.meta(file, path)?, tail.footer))
}

/// An open table of this format.
#[derive(Debug)]
pub(super) struct TableReader {
    /// Only for `verify` and the hashes; everything else gets its pages from the caller.
    pub(super) file: Arc<dyn RandomRead>,
    pub(super) path: PathBuf,
    pub(super) footer: Footer,
    pub(super) meta: TableMeta,
    /// The number that every entry has, whatever its block says.
    seqno_override: Option<SeqNo>,
    pub(super) index: Box<dyn Index>,
    pub(super) filter: Option<Box<dyn Probe>>,
}

impl TableReader {
    pub(super) fn open(
        file: Arc<dyn RandomRead>,
        path: &Path,
        id: TableId,
        residency: ResidencyChoice,
    ) -> Result<TableReader> {
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
        let mut index = of_table::paged(footer.index, id, &top)
            .map_err(|e| e.at(path, Some(footer.index_top.offset)))?;
        if residency.index_resident {
            load_index(&*file, path, &mut *index)?;
        }
        let filter = footer
            .filter
            .map(|d| match residency.filter_resident && d.is_asked() {
                true => load_filter(&*file, path, id, d).map(Some),
                false => d.paged(id),
            })
            .transpose()?
            .flatten();
        Ok(TableReader {
            file,
            path: path.to_path_buf(),
            footer,
            seqno_override: meta.seqno_override,
            meta,
            index,
            filter,
        })
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

    /// Looks for the query in one block: an answer, or nothing if the next block may have it.
    fn look_in(&self, query: &Query<'_>, page: &Page) -> Result<Option<Lookup>> {
        let block = Block::parse(&page[..])?;
        let Some(Position {
            entry, same_key, ..
        }) = block.find(query.key, self.stored_bound(query.seqno))?
        else {
            return Ok(None);
        };
        if !same_key {
            return Ok(Some(Lookup::Absent));
        }
        let value = if entry.out_of_line {
            let place = Place::decode(&page[entry.value()])?;
            FoundValue::OutOfLine {
                page: self.page_id(place.handle, PageClass::Value),
                bytes: place.bytes,
            }
        } else {
            FoundValue::InBlock(page.slice(entry.value()))
        };
        Ok(Some(Lookup::Found {
            seqno: self.seqno(entry.seqno),
            tag: entry.tag,
            value,
        }))
    }

    pub(super) fn page_id(&self, handle: Handle, class: PageClass) -> PageId {
        PageId {
            table: self.meta.id,
            handle,
            class,
        }
    }

    fn next(
        &self,
        query: &Query<'_>,
        state: &mut GetState,
        mut page: Option<Page>,
    ) -> Result<Step<Lookup>> {
        loop {
            match state.phase {
                Phase::Filter => {
                    if let Some(filter) = &self.filter {
                        state.filter_asked = true;
                        match filter.candidates(query.hash, page.take().as_ref())? {
                            Step::Read(id) => return Ok(Step::Read(id)),
                            Step::Done(runs) if runs.is_empty() => {
                                return Ok(Step::Done(Lookup::Absent));
                            }
                            Step::Done(_) => state.filter_passed = true,
                        }
                    }
                    state.phase = Phase::Locate;
                }
                Phase::Locate => match self.index.locate(query.key, page.as_ref())? {
                    Step::Read(id) => return Ok(Step::Read(id)),
                    Step::Done(blocks) if blocks.is_empty() => {
                        return Ok(Step::Done(Lookup::Absent));
                    }
                    // The page, if there was one, also has the places of these blocks.
                    Step::Done(blocks) => {
                        state.blocks = blocks;
                        state.phase = Phase::Handle;
                    }
                },
                Phase::Handle => match self.index.handle(state.blocks.start, page.as_ref())? {
                    Step::Read(id) => return Ok(Step::Read(id)),
                    Step::Done(handle) => {
                        state.phase = Phase::Block;
                        return Ok(Step::Read(self.page_id(handle, PageClass::Data)));
                    }
                },
                Phase::Block => {
                    let page = page.take().expect("a lookup goes on with its block");
                    if let Some(lookup) = self.look_in(query, &page)? {
                        return Ok(Step::Done(lookup));
                    }
                    state.blocks.start += 1;
                    if state.blocks.is_empty() {
                        return Ok(Step::Done(Lookup::Absent));
                    }
                    state.phase = Phase::Handle;
                }
            }
        }
    }
}

impl crate::table::Reader for TableReader {
    fn get(
        &self,
        query: &Query<'_>,
        state: &mut GetState,
        page: Option<Page>,
    ) -> Result<Step<Lookup>> {
        let step = self
            .next(query, state, page)
            .map_err(|e| e.at(&self.path, None))?;
        state.pages_asked += u32::from(matches!(step, Step::Read(_)));
        Ok(step)
    }

    fn iter(self: Arc<Self>, pages: Arc<dyn PageSource>) -> Box<dyn InternalIter> {
        Box::new(TableIter::new(self, pages))
    }

    fn meta(&self) -> &TableMeta {
        &self.meta
    }

    fn memory_bytes(&self) -> (usize, usize) {
        let filter = self
            .filter
            .as_ref()
            .map_or(0, |filter| filter.memory_bytes());
        (self.index.memory_bytes(), filter)
    }

    fn block_id(&self, block: usize) -> Option<PageId> {
        let is_block = block < self.index.blocks();
        match is_block.then(|| self.index.handle(block, None))? {
            Ok(Step::Done(handle)) => Some(self.page_id(handle, PageClass::Data)),
            _ => None,
        }
    }

    fn key_hashes(&self) -> Result<Option<Vec<u64>>> {
        let Some(description @ Description::Hashes(hashes)) = self.footer.filter else {
            return Ok(None);
        };
        let (file, path, id) = (&*self.file, &self.path, self.footer.id);
        let read = read_filter(file, path, id, description, |pages| {
            RunHashes::read(hashes, pages)
        });
        read.map(|hashes| Some(hashes.0))
    }

    fn split_keys(&self, pieces: usize) -> Vec<Vec<u8>> {
        self.index.split_keys(pieces)
    }

    fn verify(&self, pages: &dyn PageSource) -> Result<()> {
        super::verify::verify(self, pages).map_err(|e| e.at(&self.path, None))
    }
}

/// Reads the pages of the index, which lie between its first page and its top.
fn load_index(file: &dyn RandomRead, path: &Path, index: &mut dyn Index) -> Result<()> {
    let ids = index.page_ids();
    let pages = read_pages(file, path, &ids)?;
    let pages: Vec<&[u8]> = pages.iter().map(|page| &page[..]).collect();
    let loaded = index.load(&pages);
    loaded.map_err(|e| e.at(path, ids.first().map(|id| id.handle.offset)))
}

/// Cost: one read.
pub(super) fn load_filter(
    file: &dyn RandomRead,
    path: &Path,
    id: TableId,
    description: Description,
) -> Result<Box<dyn Probe>> {
    read_filter(file, path, id, description, |pages| {
        description.resident(id, pages)
    })
}

/// What is made of all the pages of a filter. Cost: one read.
fn read_filter<F>(
    file: &dyn RandomRead,
    path: &Path,
    id: TableId,
    description: Description,
    make: impl FnOnce(&mut dyn Iterator<Item = Result<&[u8]>>) -> Result<F>,
) -> Result<F> {
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
        let (stored, _) = page_io::check(bytes, id, handle.offset)
            .map_err(|e| e.at(path, Some(handle.offset)))?;
        Ok(stored)
    });
    make(&mut pages).map_err(|e| e.at(path, Some(description.offset())))
}

/// Reads pages that lie close together with one read.
fn read_pages(file: &dyn RandomRead, path: &Path, ids: &[PageId]) -> Result<Vec<Page>> {
    let handles: Vec<Handle> = ids.iter().map(|id| id.handle).collect();
    let (offset, bytes) = extent(&handles);
    let buffer = page_io::read_range(file, path, offset, bytes)?;
    let page = |handle: Handle| {
        let start = usize::try_from(handle.offset.checked_sub(offset)?).ok()?;
        buffer.get(start..start.checked_add(handle.bytes as usize)?)
    };
    let pages = ids.iter().map(|&id| {
        let bytes = page(id.handle).ok_or_else(|| {
            Error::corruption("expected the pages of the index in order")
                .at(path, Some(id.handle.offset))
        })?;
        page_io::decode(bytes, id).map_err(|e| e.at(path, Some(id.handle.offset)))
    });
    pages.collect()
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
