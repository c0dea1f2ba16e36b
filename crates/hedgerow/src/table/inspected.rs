//! The contents of a table file, page by page, even if some pages are damaged. A page that cannot
//! be read gives an error in its place. Pages that do not depend on it follow.

use std::ops::Range;
use std::path::{Path, PathBuf};

use hedgerow_io::{ReadMode, Storage};

use crate::base::entry::{Kind, SeqNo};
use crate::base::error::{Error, Result};
use crate::base::page::{Handle, Page, PageClass, PageId, PageSource, TableId};
use crate::table::block_index;
use crate::table::block_index::Index;

use super::contents::Contents;
use super::footer::{Footer, Tail};
use super::format;
use super::page_io::FilePages;
use super::page_search::{self, Stretch};
use super::table_file::read_ranges;
use crate::base::range_tombstones::RangeTombstones;
use crate::base::table_meta::TableMeta;

/// A table file with a readable footer.
pub struct InspectedTable {
    pages: FilePages,
    tail: Tail,
    meta: Result<TableMeta>,
    index: Result<Box<dyn Index>>,
}

/// The facts of a table, in its file and in the manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableFacts {
    /// The number of the table.
    pub id: TableId,
    /// The table format: 1 is block-based, 2 an HTable.
    pub format: u16,
    /// The number of its keyspace.
    pub keyspace: u32,
    /// The number of its partition.
    pub partition: u32,
    /// The level that the table was written for.
    pub level: u8,
    /// The run that the table was written for.
    pub run: u64,
    /// The number of the place of the file; 0 is the database's own directory.
    pub place: u8,
    /// The size of the file in bytes.
    pub file_bytes: u64,
    /// Bytes of keys and values before compression.
    pub raw_bytes: u64,
    /// Entries, tombstones and old versions included.
    pub entries: u64,
    /// Entries that delete a key.
    pub tombstones: u64,
    /// Operands of a merge operator.
    pub operands: u64,
    /// Range deletes, which are no entries, counted in each of their fragments.
    pub range_tombstones: u64,
    /// The order key of the first entry, or the start of the first range delete.
    pub smallest_key: Vec<u8>,
    /// The order key of the last entry, or the end of the last range delete.
    pub largest_key: Vec<u8>,
    /// The smallest sequence number of its entries.
    pub smallest_seqno: SeqNo,
    /// The largest sequence number of its entries.
    pub largest_seqno: SeqNo,
    /// The sequence number of a bulk load, in place of those of the entries.
    pub seqno_override: Option<SeqNo>,
}

impl TableFacts {
    pub(crate) fn of(meta: &TableMeta) -> TableFacts {
        TableFacts {
            id: meta.id,
            format: meta.format,
            keyspace: meta.keyspace,
            partition: meta.partition,
            level: meta.level,
            run: meta.run,
            place: meta.path,
            file_bytes: meta.file_bytes,
            raw_bytes: meta.raw_bytes,
            entries: meta.entries,
            tombstones: meta.tombstones,
            operands: meta.operands,
            range_tombstones: meta.range_tombstones,
            smallest_key: meta.smallest_key.clone(),
            largest_key: meta.largest_key.clone(),
            smallest_seqno: meta.smallest_seqno,
            largest_seqno: meta.largest_seqno,
            seqno_override: meta.seqno_override,
        }
    }
}

/// The content of a page of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Part {
    /// A block of entries, or a bucket of them.
    Block,
    /// One value stored out of line.
    Value,
    /// The range tombstones.
    RangeTombstones,
    /// A piece of the filter.
    Filter,
    /// A piece of the block index.
    Index,
    /// The top of the block index, or the HashMarks.
    IndexTop,
    /// The facts.
    Facts,
}

/// One page of a table, verified.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct InspectedPage {
    /// The content of the page.
    pub part: Part,
    /// The place of the page in the file.
    pub handle: Handle,
    /// The decompressed size in bytes.
    pub raw_bytes: usize,
    /// The entries of a block; empty for other parts.
    pub entries: Vec<StoredEntry>,
}

/// One entry of a block.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredEntry {
    /// The user key.
    pub key: Vec<u8>,
    /// The sequence number.
    pub seqno: SeqNo,
    /// A put, or the tombstone of a delete.
    pub kind: Kind,
    /// The value.
    pub value: StoredValue,
}

/// The value of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoredValue {
    /// The bytes, in the block. Empty for a tombstone.
    Inline(Vec<u8>),
    /// A page of its own.
    OutOfLine {
        /// The place of the page.
        page: Handle,
        /// The size of the value in bytes.
        bytes: u32,
    },
}

impl InspectedTable {
    /// Opens a table file of any name, even one in use. Cost: one to three reads.
    ///
    /// # Errors
    /// `Io`; `Corruption` and `FormatVersion` if the footer does not name the places of the parts.
    pub fn open(storage: &dyn Storage, path: &Path) -> Result<InspectedTable> {
        let file = storage
            .open(path, ReadMode::Pread)
            .map_err(|e| Error::io("open", path, e))?;
        let tail = Tail::read(&*file, path)?;
        let index_top = tail.footer.index_top;
        let index = tail.page(&*file, path, index_top).and_then(|top| {
            format::index(&tail.footer, &top).map_err(|e| e.at(path, Some(index_top.offset)))
        });
        Ok(InspectedTable {
            meta: tail.meta(&*file, path),
            pages: FilePages {
                file,
                path: path.to_path_buf(),
            },
            tail,
            index,
        })
    }

    /// The path of the file.
    pub fn path(&self) -> &PathBuf {
        &self.pages.path
    }

    /// The size of the file in bytes.
    pub fn bytes(&self) -> u64 {
        self.pages.file.bytes()
    }

    /// The footer of the file.
    pub fn footer(&self) -> &Footer {
        &self.tail.footer
    }

    /// The facts of the table.
    ///
    /// # Errors
    /// `Corruption` and `FormatVersion` if their page cannot be read.
    pub fn facts(&self) -> Result<TableFacts> {
        self.meta().map(TableFacts::of)
    }

    /// The facts of the table, for the engine.
    pub(crate) fn meta(&self) -> Result<&TableMeta> {
        self.meta.as_ref().map_err(Clone::clone)
    }

    /// The number of blocks.
    ///
    /// # Errors
    /// `Corruption` if the top of the index cannot be read.
    pub fn blocks(&self) -> Result<usize> {
        let index = self.index.as_ref().map_err(Clone::clone)?;
        Ok(index.blocks())
    }

    /// All pages in the order of the file, read one after another. A damaged page is an error with
    /// the file and the offset. A damaged page of the index is also an error in the place of its
    /// blocks, which cannot be found without it.
    pub fn pages(&self) -> impl Iterator<Item = Result<InspectedPage>> + '_ {
        let mut index_page = None;
        let mut told = None;
        let blocks = (0..self.blocks().unwrap_or(0)).flat_map(move |number| {
            let mut pages = self.block(number, &mut index_page);
            // Every block below a damaged page of the index fails with the same error.
            if let [Err(error)] = &pages[..] {
                let again = told == error.offset();
                told = error.offset();
                if again {
                    pages.clear();
                }
            }
            pages
        });
        blocks
            .chain(self.ranges_page())
            .chain(self.filter())
            .chain(self.end())
    }

    /// The values out of line of a block, then the block.
    fn block(
        &self,
        number: usize,
        index_page: &mut Option<(PageId, Page)>,
    ) -> Vec<Result<InspectedPage>> {
        let block = match self.block_alone(number, index_page) {
            Ok(block) => block,
            Err(error) => return vec![Err(error)],
        };
        let values = block.entries.iter().filter_map(|entry| match entry.value {
            StoredValue::Inline(_) => None,
            StoredValue::OutOfLine { page, bytes } => Some(self.value(page, bytes)),
        });
        let mut pages: Vec<_> = values.collect();
        pages.push(Ok(block));
        pages
    }

    fn block_alone(
        &self,
        number: usize,
        index_page: &mut Option<(PageId, Page)>,
    ) -> Result<InspectedPage> {
        let (handle, page) = self.block_page(number, index_page)?;
        Ok(InspectedPage {
            entries: self.entries(&page).map_err(|e| self.at(e, handle))?,
            ..described(Part::Block, handle, &page)
        })
    }

    /// Returns normally if all pages of the index can be read.
    pub(super) fn check_index(&self) -> Result<()> {
        let index = self.index.as_ref().map_err(Clone::clone)?;
        let mut ids = index.page_ids().into_iter();
        ids.try_for_each(|id| self.page(Part::Index, id.handle).map(drop))
    }

    /// Finds the pages before the filter and the index without them. `is_block` tells if a page is
    /// a block.
    pub(super) fn search(&self, is_block: &dyn Fn(&Range<usize>) -> bool) -> Vec<Stretch> {
        let filter = self.footer().filter.map(|filter| filter.offset());
        let end = filter.unwrap_or(u64::MAX);
        let end = end.min(self.footer().index_top.offset).min(self.bytes());
        page_search::find(&*self.pages.file, self.footer().id, end as usize, is_block)
    }

    /// A block and its place.
    pub(super) fn block_page(
        &self,
        number: usize,
        index_page: &mut Option<(PageId, Page)>,
    ) -> Result<(Handle, Page)> {
        let index = self.index.as_ref().map_err(Clone::clone)?;
        let handle = block_index::probe(&**index, &self.pages, index_page, |index, page| {
            index.handle(number, page)
        })
        .map_err(|e| e.at(self.path(), None))?;
        Ok((handle, self.page(Part::Block, handle)?))
    }

    fn entries(&self, page: &Page) -> Result<Vec<StoredEntry>> {
        let order = self.footer().order();
        let mut entries = Vec::new();
        format::walk(self.footer().table, &*order, page, &mut |entry| {
            entries.push(StoredEntry {
                key: order.decode(entry.key).to_vec(),
                seqno: entry.seqno,
                kind: entry.tag.kind,
                value: stored_value(entry)?,
            });
            Ok(())
        })?;
        Ok(entries)
    }

    fn value(&self, handle: Handle, bytes: u32) -> Result<InspectedPage> {
        let page = self.value_page(handle, bytes)?;
        Ok(described(Part::Value, handle, &page))
    }

    /// The page of a value out of line.
    pub(super) fn value_page(&self, handle: Handle, bytes: u32) -> Result<Page> {
        let page = self.page(Part::Value, handle)?;
        if page.len() != bytes as usize {
            let found = page.len();
            let error =
                Error::corruption(format!("expected a value of {bytes} bytes, found {found}"));
            return Err(self.at(error, handle));
        }
        Ok(page)
    }

    fn ranges_page(&self) -> impl Iterator<Item = Result<InspectedPage>> + '_ {
        let handle = self.meta.as_ref().ok().and_then(|meta| meta.ranges);
        self.plain(handle.map(|it| (Part::RangeTombstones, it)).into_iter())
    }

    /// The range tombstones of the table, whose facts are these.
    pub(super) fn ranges(&self, meta: &TableMeta) -> Result<RangeTombstones> {
        let Some(handle) = meta.ranges else {
            return Ok(RangeTombstones::default());
        };
        let page = self.page(Part::RangeTombstones, handle)?;
        read_ranges(&page, meta, self.footer()).map_err(|e| self.at(e, handle))
    }

    fn filter(&self) -> impl Iterator<Item = Result<InspectedPage>> + '_ {
        // A filter of more pages than the file holds has no readable pages.
        let fits = |filter: &crate::table::filter::table_filter::Description| {
            filter.file_bytes() <= self.bytes()
        };
        let filter = self.tail.footer.filter;
        let too_large = filter.filter(|filter| !fits(filter)).map(|filter| {
            let found = filter.file_bytes();
            let bytes = self.bytes();
            Err(Error::corruption(format!(
                "expected a filter in a file of {bytes} bytes, found one of {found}"
            ))
            .at(self.path(), Some(filter.offset())))
        });
        let pages = filter.filter(fits).into_iter().flat_map(|filter| {
            (0..filter.pages()).map(move |page| (Part::Filter, filter.page_handle(page)))
        });
        too_large.into_iter().chain(self.plain(pages))
    }

    /// The pages behind the filter.
    fn end(&self) -> impl Iterator<Item = Result<InspectedPage>> + '_ {
        let footer = self.tail.footer;
        let index = self.index.iter().flat_map(|index| index.page_ids());
        let index = index.map(|id| (Part::Index, id.handle));
        let rest = [
            (Part::IndexTop, footer.index_top),
            (Part::Facts, footer.meta),
        ];
        // `open` has read these pages: their checksums may be right and their content wrong.
        let wrong = [self.index.as_ref().err(), self.meta.as_ref().err()];
        let rest = rest.into_iter().zip(wrong).map(|(place, wrong)| {
            let (part, handle) = place;
            match wrong {
                Some(error) => Err(error.clone()),
                None => Ok(described(part, handle, &self.page(part, handle)?)),
            }
        });
        self.plain(index).chain(rest)
    }

    fn plain<'a>(
        &'a self,
        places: impl Iterator<Item = (Part, Handle)> + 'a,
    ) -> impl Iterator<Item = Result<InspectedPage>> + 'a {
        places.map(|(part, handle)| Ok(described(part, handle, &self.page(part, handle)?)))
    }

    pub(super) fn page(&self, part: Part, handle: Handle) -> Result<Page> {
        let class = match part {
            Part::Block => PageClass::Data,
            Part::Value => PageClass::Value,
            Part::Filter => PageClass::Filter,
            Part::RangeTombstones | Part::Index | Part::IndexTop | Part::Facts => PageClass::Index,
        };
        self.pages.page(PageId {
            table: self.tail.footer.id,
            handle,
            class,
        })
    }

    fn at(&self, error: Error, handle: Handle) -> Error {
        error.at(self.path(), Some(handle.offset))
    }
}

impl std::fmt::Debug for InspectedTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InspectedTable")
            .field("path", self.path())
            .field("footer", self.footer())
            .finish_non_exhaustive()
    }
}

fn described(part: Part, handle: Handle, page: &Page) -> InspectedPage {
    InspectedPage {
        part,
        handle,
        raw_bytes: page.len(),
        entries: Vec::new(),
    }
}

fn stored_value(entry: &Contents<'_>) -> Result<StoredValue> {
    Ok(match entry.place()? {
        None => StoredValue::Inline(entry.value.to_vec()),
        Some(place) => StoredValue::OutOfLine {
            page: place.handle,
            bytes: place.bytes,
        },
    })
}
