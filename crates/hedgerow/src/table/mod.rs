//! Tables: immutable sorted files.
//!
//! A table format is a writer and a reader. The writer takes entries in order. The reader iterates,
//! and it answers point lookups as a state machine that names the pages it needs instead of reading
//! them. The footer of every table names its format. So tables of several formats live side by
//! side, and a lost manifest can be rebuilt.

pub(crate) mod block_based;
pub(crate) mod block_index;
mod contents;
mod entry_parts;
pub(crate) mod filter;
mod footer;
pub(crate) mod format;
pub(crate) mod htable;
pub(crate) mod inspected;
pub(crate) mod iter;
pub(crate) mod memory;
pub(crate) mod open;
pub(crate) mod page_cache;
pub(crate) mod page_io;
mod page_search;
pub(crate) mod paged_file;
mod read_ahead;
pub(crate) mod salvage;
pub(crate) mod table_file;
mod table_output;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod verify_table;

use std::sync::Arc;

use hedgerow_io::SequentialWrite;

pub use footer::Footer;
pub use inspected::{InspectedPage, InspectedTable, Part, StoredEntry, StoredValue, TableFacts};
pub(crate) use open::Table;
pub(crate) use paged_file::TableContext;
pub(crate) use table_output::TableOptions;

use crate::base::entry::{KeyHash, SeqNo, Tag};
use crate::base::error::Result;
use crate::base::page::{Page, PageId, PageSlice, PageSource, Step};
use crate::base::range_tombstones::RangeTombstones;
use crate::base::table_meta::TableMeta;
use crate::table::filter::Probe;
use crate::table::iter::{Entry, InternalIter};

/// A point lookup: the newest version of `key` numbered at most `seqno`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Query<'a> {
    /// The order key.
    pub(crate) key: &'a [u8],
    /// The hash of the user key.
    pub(crate) hash: KeyHash,
    pub(crate) seqno: SeqNo,
    /// True if no other lookup proceeds while this one waits for memory.
    pub(crate) is_alone: bool,
}

impl<'a> Query<'a> {
    /// The query of a lookup beside which no other one proceeds.
    #[inline]
    pub(crate) fn alone(key: &'a [u8], hash: KeyHash, seqno: SeqNo) -> Query<'a> {
        Query {
            key,
            hash,
            seqno,
            is_alone: true,
        }
    }
}

/// The bytes of a found value.
#[derive(Debug, Clone)]
pub(crate) enum FoundValue {
    /// In the entry's block.
    InBlock(PageSlice),
    /// A page of its own, not read yet: `contains_key` never reads it.
    OutOfLine { page: PageId, bytes: u32 },
    /// None: a range tombstone deletes the key.
    Nothing,
}

/// The answer of one table for one key.
#[derive(Debug, Clone)]
pub(crate) enum Lookup {
    /// The newest version within the query's bound. A Merge or ValueRef kind is returned as it is:
    /// the caller decides whether to search older tables.
    Found {
        seqno: SeqNo,
        tag: Tag,
        value: FoundValue,
    },
    Absent,
}

impl Lookup {
    /// The answer in a table that deletes the key at this number by a range tombstone.
    pub(crate) fn or_deleted(self, at: SeqNo) -> Lookup {
        match self {
            Lookup::Found { seqno, .. } if seqno > at => self,
            _ => Lookup::Found {
                seqno: at,
                tag: Tag::RANGE_DELETE,
                value: FoundValue::Nothing,
            },
        }
    }
}

/// The progress of one lookup in one table. It starts as `GetState::default()`, and the reader
/// advances it. Each probed table has its own, so that several lookups can be in flight.
#[derive(Debug, Clone, Default)]
pub(crate) struct GetState {
    pub(crate) phase: Phase,
    /// True if the table has a filter and it was probed.
    pub(crate) filter_probed: bool,
    /// True if the filter was probed and let the key pass.
    pub(crate) filter_passed: bool,
    /// The blocks still to search; `start` is the current one.
    pub(crate) blocks: std::ops::Range<usize>,
    /// The pages requested so far, by [`PageClass`]: data and value, index, filter.
    pub(crate) pages_requested: u32,
}

impl GetState {
    /// Probes the filter of a whole table, if there is one. Returns `None` if the lookup must
    /// continue, or else its step.
    fn probe_filter(
        &mut self,
        filter: Option<&dyn Probe>,
        query: &Query<'_>,
        page: &mut Option<Page>,
    ) -> Result<Option<Step<Lookup>>> {
        let Some(filter) = filter else {
            return Ok(None);
        };
        self.filter_probed = true;
        match filter.candidates(query.hash, page.take().as_ref())? {
            Step::Read(id) => return Ok(Some(Step::Read(id))),
            Step::Done(runs) if runs.is_empty() => return Ok(Some(Step::Done(Lookup::Absent))),
            Step::Done(_) => self.filter_passed = true,
        }
        Ok(None)
    }
}

/// The next step of a lookup. An HTable finds the bucket first and then probes a filter, perhaps
/// only that of the bucket.
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
    /// Makes one step of a point lookup. The first call has a default state and no page. If the
    /// result is `Step::Read`, the caller fetches that page and calls again with it. Cost: at most
    /// one page each for a paged filter and a paged index, and one page per block with versions of
    /// the key (one, unless a key has very many).
    fn get(
        &self,
        query: &Query<'_>,
        state: &mut GetState,
        page: Option<Page>,
    ) -> Result<Step<Lookup>>;
    /// The answer for a key above another that was found in this data page; `None` if a later page
    /// may have it. Reads nothing. A format that does not know says `None`.
    fn get_within(&self, _query: &Query<'_>, _page: &Page) -> Result<Option<Lookup>> {
        Ok(None)
    }
    /// Prefetches the cache lines that the filter will probe for this hash, without waiting for
    /// them.
    fn touch(&self, _hash: KeyHash) {}
    /// An iterator over all entries.
    fn iter(self: Arc<Self>, pages: Arc<dyn PageSource>) -> Box<dyn InternalIter>;
    /// The facts in the footer.
    fn meta(&self) -> &TableMeta;
    /// The range tombstones, if there are some. They stay in memory.
    fn ranges(&self) -> Option<&Arc<RangeTombstones>>;
    /// The bytes of memory of the index and of the filter.
    fn memory_bytes(&self) -> (usize, usize);
    /// The page of a block. `None` behind the last block, and if only an unread page of the index
    /// knows it.
    fn block_id(&self, block: usize) -> Option<PageId>;
    /// The hashes of the table's keys, ascending, if it stores them. Filters over several runs are
    /// built of them. Cost: one read of about 4 bytes per key.
    fn key_hashes(&self) -> Result<Option<Vec<u64>>>;
    /// Some keys that cut the table into about `pieces` pieces of similar size, so that threads
    /// share a merge. Reads no pages and may return fewer keys.
    fn split_keys(&self, pieces: usize) -> Vec<Vec<u8>>;
    /// Estimates the part of the table before an order key: 0.0 to 1.0. Reads nothing.
    fn share_before(&self, _key: &[u8]) -> f64 {
        0.5
    }
    /// Checks every page and every invariant: checksums, the order, the counts and bounds of the
    /// footer, the index against the blocks, the filter against the keys.
    fn verify(&self, pages: &dyn PageSource) -> Result<()>;
}

/// A table that is written, and its file, which is not durable yet.
pub(crate) type NewTable = (TableMeta, Box<dyn SequentialWrite>);

/// A table being written. Entries come in order.
pub(crate) trait Writer: Send {
    /// Appends an entry with its value. `hash` is the hash of the user key.
    fn add(&mut self, entry: &Entry<'_>, value: &[u8], hash: KeyHash) -> Result<()>;
    /// The size so far in bytes: about that of the file if it were finished now.
    fn estimated_bytes(&self) -> u64;
    fn entries(&self) -> u64;
    /// The bytes of memory until the table is finished: the block being filled, the index, the
    /// hashes for the filter.
    fn memory_bytes(&self) -> usize;
    /// Writes these range tombstones, index, filter and footer. The caller makes the file durable.
    fn finish(self: Box<Self>, ranges: &RangeTombstones) -> Result<NewTable>;
}
