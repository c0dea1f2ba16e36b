//! Tables: immutable sorted files.
//!
//! A table format is a writer, which takes entries in order, and a reader, which answers point
//! lookups as a state machine that asks for pages instead of reading them, and iterates. Every
//! table says in its footer what it is, so that tables of several formats live side by side and a
//! lost manifest can be rebuilt.

pub(crate) mod block_based;
pub(crate) mod block_index;
mod contents;
pub(crate) mod file;
pub(crate) mod filter;
mod footer;
pub(crate) mod htable;
pub(crate) mod inspect;
pub(crate) mod iter;
pub(crate) mod memory;
pub(crate) mod open;
mod output;
pub(crate) mod page_cache;
pub(crate) mod page_io;
pub(crate) mod paged_file;
pub(crate) mod salvage;
mod stored;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod verify;

use std::path::Path;
use std::sync::Arc;

use hedgerow_io::SequentialWrite;

pub use footer::Footer;
pub use inspect::{InspectedPage, InspectedTable, Part, StoredEntry, StoredValue};
pub(crate) use open::Table;
pub(crate) use output::TableOptions;
pub(crate) use paged_file::TableContext;

use crate::base::entry::{KeyHash, SeqNo, Tag};
use crate::base::error::Result;
use crate::base::options::TableSpec;
use crate::base::page::{Page, PageId, PageSlice, PageSource, Step};
use crate::base::table_meta::TableMeta;
use crate::table::filter::Probe;
use crate::table::iter::{Entry, InternalIter};

/// What a point lookup asks for: the newest version of `key` numbered at most `seqno`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Query<'a> {
    /// The order key.
    pub(crate) key: &'a [u8],
    /// The hash of the user key.
    pub(crate) hash: KeyHash,
    pub(crate) seqno: SeqNo,
}

/// The bytes of a value that a lookup found.
#[derive(Debug, Clone)]
pub(crate) enum FoundValue {
    /// In the entry's block.
    InBlock(PageSlice),
    /// A page of its own, not read yet: `contains_key` never reads it.
    OutOfLine { page: PageId, bytes: u32 },
}

/// What one table says of one key.
#[derive(Debug, Clone)]
pub(crate) enum Lookup {
    /// The newest version within the query's bound. A Merge or ValueRef kind is reported as it is:
    /// the caller decides whether to go on to older tables.
    Found {
        seqno: SeqNo,
        tag: Tag,
        value: FoundValue,
    },
    Absent,
}

/// How far one lookup in one table has come. Starts as `GetState::default()`; the reader moves it
/// on. One per table asked, so that several lookups can be in flight.
#[derive(Debug, Clone, Default)]
pub(crate) struct GetState {
    pub(crate) phase: Phase,
    /// The table has a filter, and it was asked.
    pub(crate) filter_asked: bool,
    /// The filter was asked and let the key pass.
    pub(crate) filter_passed: bool,
    /// The blocks still to look into; `start` is the current one.
    pub(crate) blocks: std::ops::Range<usize>,
    /// Pages asked for so far, by [`PageClass`]: data and value, index, filter.
    pub(crate) pages_asked: u32,
}

impl GetState {
    /// Asks the filter of a whole table, if there is one: the step of the lookup, unless that is to look
    /// further.
    fn ask_filter(
        &mut self,
        filter: Option<&dyn Probe>,
        query: &Query<'_>,
        page: &mut Option<Page>,
    ) -> Result<Option<Step<Lookup>>> {
        let Some(filter) = filter else {
            return Ok(None);
        };
        self.filter_asked = true;
        match filter.candidates(query.hash, page.take().as_ref())? {
            Step::Read(id) => return Ok(Some(Step::Read(id))),
            Step::Done(runs) if runs.is_empty() => return Ok(Some(Step::Done(Lookup::Absent))),
            Step::Done(_) => self.filter_passed = true,
        }
        Ok(None)
    }
}

/// The next thing a lookup does. An HTable knows the bucket first, and then asks a filter, perhaps only
/// that of the bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Phase {
    #[default]
    Filter,
    Locate,
    Handle,
    Block,
}

/// An open table.
pub(crate) trait Reader: Send + Sync {
    /// One step of a point lookup. The first call has a default state and no page; when the answer
    /// is `Step::Read`, the caller fetches that page and calls again with it.
    /// Cost: at most one page each for a paged filter and a paged index, and one per block that
    /// holds versions of the key (one, unless a key has very many).
    fn get(
        &self,
        query: &Query<'_>,
        state: &mut GetState,
        page: Option<Page>,
    ) -> Result<Step<Lookup>>;
    /// Fetches from memory what its filter will look at for this hash, without waiting for it.
    fn touch(&self, _hash: KeyHash) {}
    /// An iterator over all entries.
    fn iter(self: Arc<Self>, pages: Arc<dyn PageSource>) -> Box<dyn InternalIter>;
    /// What the footer says.
    fn meta(&self) -> &TableMeta;
    /// Bytes held in memory by the index and by the filter.
    fn memory_bytes(&self) -> (usize, usize);
    /// The page of a block. `None` behind the last one, and where only a page of the index could tell.
    fn block_id(&self, block: usize) -> Option<PageId>;
    /// The hashes of its keys that filters over several runs are built of, ascending, if it has them.
    /// Cost: one read, of about 4 bytes per key.
    fn key_hashes(&self) -> Result<Option<Vec<u64>>>;
    /// Some keys that cut the table into about `pieces` pieces of similar size, for splitting a
    /// merge over threads. Reads no pages; may return fewer.
    fn split_keys(&self, pieces: usize) -> Vec<Vec<u8>>;
    /// Checks every page and every invariant: checksums, order, counts and bounds against the
    /// footer, the index against the blocks, the filter against the keys.
    fn verify(&self, pages: &dyn PageSource) -> Result<()>;
}

/// Starts a table in an empty file. `path` is for errors.
pub(crate) fn writer(
    out: Box<dyn SequentialWrite>,
    path: &Path,
    options: TableOptions,
) -> Box<dyn Writer> {
    match options.table {
        TableSpec::BlockBased => Box::new(block_based::Writer::new(out, path, options)),
        TableSpec::HTable => Box::new(htable::Writer::new(out, path, options)),
    }
}

/// A table being written. Entries come in order.
pub(crate) trait Writer: Send {
    /// Appends an entry whose value is at hand. `hash` is the hash of the user key.
    fn add(&mut self, entry: &Entry<'_>, value: &[u8], hash: KeyHash) -> Result<()>;
    /// The size so far in bytes, roughly what the file would have if it were finished now.
    fn estimated_bytes(&self) -> u64;
    fn entries(&self) -> u64;
    /// Bytes held in memory until the table is finished: the block being filled, the index, the
    /// hashes for the filter.
    fn memory_bytes(&self) -> usize;
    /// Writes index, filter and footer and makes the file durable (its name is not).
    fn finish(self: Box<Self>) -> Result<TableMeta>;
}
