//! An open table: point lookups as a state machine that names the pages it needs.

mod behind;
mod block_iter;

use std::sync::Arc;

use crate::base::entry::KeyHash;
use crate::base::error::{Error, Result};
use crate::base::page::{BlockPlaces, Page, PageClass, PageId, PageSource, Step};
use crate::base::range_tombstones::RangeTombstones;
use crate::base::table_meta::TableMeta;
use crate::table::block_index::{Index, table_index};
use crate::table::contents;
use crate::table::contents::Contents;
use crate::table::filter::Probe;
use crate::table::iter::InternalIter;
use crate::table::table_file::{ResidencyChoice, TableFile};
use crate::table::verify_table;
use crate::table::{GetState, Lookup, Phase, Query};

use super::block::{Block, Position};
use block_iter::TableIter;

/// An open table of this format.
#[derive(Debug)]
pub(crate) struct TableReader {
    file: TableFile,
    pub(in crate::table) index: Box<dyn Index>,
    filter: Option<Box<dyn Probe>>,
    /// The places of all blocks, or of none.
    places: BlockPlaces,
}

impl TableReader {
    /// Opens a table from its file and the top of its index.
    pub(in crate::table) fn open(
        file: TableFile,
        top: &Page,
        residency: ResidencyChoice,
    ) -> Result<TableReader> {
        let footer = &file.footer;
        let mut index = table_index::paged(footer.index, footer.id, top)
            .map_err(|e| file.at(e, footer.index_top))?;
        if residency.index_resident {
            load_index(&file, &mut *index)?;
        }
        let remembered = if residency.places { index.blocks() } else { 0 };
        Ok(TableReader {
            places: BlockPlaces::new(remembered),
            filter: file.filter(residency.filter_resident)?,
            file,
            index,
        })
    }

    /// Searches one block. `None` if the next block may have the answer.
    fn look_in(&self, query: &Query<'_>, page: &Page) -> Result<Option<Lookup>> {
        let block = Block::parse(&page[..])?;
        let bound = self.file.stored_bound(query.seqno);
        let Some(Position {
            entry, same_key, ..
        }) = block.find(query.key, bound)?
        else {
            return Ok(None);
        };
        if !same_key {
            return Ok(Some(Lookup::Absent));
        }
        Ok(Some(Lookup::Found {
            seqno: self.file.seqno(entry.seqno),
            tag: entry.tag,
            value: (self.file).value(page, entry.value(), entry.out_of_line)?,
        }))
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
                    let filter = self.filter.as_deref();
                    if let Some(answer) = state.probe_filter(filter, query, &mut page)? {
                        return Ok(answer);
                    }
                    state.phase = Phase::Locate;
                }
                Phase::Locate => {
                    let located = match self.index.locate(query.key, page.as_ref())? {
                        Step::Read(id) => return Ok(Step::Read(id)),
                        Step::Done(located) => located,
                    };
                    let Some(first) = located.first else {
                        return Ok(Step::Done(Lookup::Absent));
                    };
                    if query.is_alone {
                        self.places.prefetch(located.blocks.start);
                    }
                    state.blocks = located.blocks;
                    state.phase = Phase::Block;
                    return Ok(Step::Read(self.file.page_id(first, PageClass::Data)));
                }
                Phase::Handle => match self.index.handle(state.blocks.start, page.as_ref())? {
                    Step::Read(id) => return Ok(Step::Read(id)),
                    Step::Done(handle) => {
                        state.phase = Phase::Block;
                        return Ok(Step::Read(self.file.page_id(handle, PageClass::Data)));
                    }
                },
                Phase::Block => {
                    let page = page.take().expect("a lookup resumes with its block");
                    if query.is_alone {
                        self.places.note(state.blocks.start, &page);
                    }
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
            .map_err(|e| e.at(&self.file.path, None))?;
        state.pages_requested += u32::from(matches!(step, Step::Read(_)));
        Ok(step)
    }

    fn get_within(&self, query: &Query<'_>, page: &Page) -> Result<Option<Lookup>> {
        let looked = self.look_in(query, page);
        looked.map_err(|e| e.at(&self.file.path, None))
    }

    fn touch(&self, hash: KeyHash) {
        if let Some(filter) = &self.filter {
            filter.touch(hash);
        }
    }

    fn iter(self: Arc<Self>, pages: Arc<dyn PageSource>) -> Box<dyn InternalIter> {
        Box::new(TableIter::new(self, pages))
    }

    fn ranges(&self) -> Option<&Arc<RangeTombstones>> {
        self.file.ranges.as_ref()
    }

    fn meta(&self) -> &TableMeta {
        &self.file.meta
    }

    fn memory_bytes(&self) -> (usize, usize) {
        let filter = self
            .filter
            .as_ref()
            .map_or(0, |filter| filter.memory_bytes());
        let index = self.index.memory_bytes() + self.places.memory_bytes();
        (index, filter)
    }

    fn block_id(&self, block: usize) -> Option<PageId> {
        let is_block = block < self.index.blocks();
        match is_block.then(|| self.index.handle(block, None))? {
            Ok(Step::Done(handle)) => Some(self.file.page_id(handle, PageClass::Data)),
            _ => None,
        }
    }

    fn key_hashes(&self) -> Result<Option<Vec<u64>>> {
        self.file.key_hashes()
    }

    fn split_keys(&self, pieces: usize) -> Vec<Vec<u8>> {
        self.index.split_keys(pieces)
    }

    fn share_before(&self, key: &[u8]) -> f64 {
        self.index.share_before(key)
    }

    fn verify(&self, pages: &dyn PageSource) -> Result<()> {
        verify_table::verify(&self.file, &*self.index, pages)
    }
}

/// Reads the pages of the index. They are between its first page and its top.
fn load_index(file: &TableFile, index: &mut dyn Index) -> Result<()> {
    let ids = index.page_ids();
    let pages = file.read_pages(&ids)?;
    let pages: Vec<&[u8]> = pages.iter().map(|page| &page[..]).collect();
    let loaded = index.load(&pages);
    loaded.map_err(|e| e.at(&file.path, ids.first().map(|id| id.handle.offset)))
}

/// Walks the entries of a block in order. Checks first its restart points, and that its search
/// finds the entries.
pub(in crate::table) fn walk(
    page: &[u8],
    see: &mut dyn FnMut(&Contents<'_>) -> Result<()>,
) -> Result<()> {
    let block = Block::parse(page)?;
    let mut restart = 0;
    block.walk_all(|at, entry, key| {
        if restart < block.restarts() && block.restart(restart)? == at {
            if entry.shared != 0 {
                return Err(Error::corruption("expected a whole key at a restart point"));
            }
            restart += 1;
        }
        let found = block.find(key, entry.seqno)?;
        if !found.is_some_and(|found| found.at == at && found.same_key) {
            return Err(contents::not_found(key, entry.seqno));
        }
        see(&Contents {
            key,
            seqno: entry.seqno,
            tag: entry.tag,
            value: &page[entry.value()],
            out_of_line: entry.out_of_line,
        })
    })?;
    if restart != block.restarts() {
        return Err(Error::corruption(format!(
            "expected {} restart points, found {restart}",
            block.restarts()
        )));
    }
    Ok(())
}
