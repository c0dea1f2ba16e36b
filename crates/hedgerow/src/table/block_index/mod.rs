//! Block indexes: for a key, the blocks of a table that may hold it.
//!
//! A builder sees every key of the table, in order, with its block, so that an index may depend on
//! true neighbours. An index does no I/O: a paged one names the page that it needs.

#[cfg(test)]
mod conformance;
pub(crate) mod entropy_coded_trie;
mod extents;
pub(crate) mod fence_pointers;
pub(crate) mod hash_marks;
mod resident;
pub(crate) mod table_index;

use std::fmt::Debug;
use std::ops::Range;

use crate::base::error::{Error, Result};
use crate::base::page::{Handle, Page, PageId, PageSource, Step};

/// The index of one table. Blocks are numbered from 0 in key order.
pub(crate) trait Index: Debug + Send + Sync {
    /// The blocks that may hold versions of `key`, if it may exist. Usually this is one block. It
    /// is none if the index knows better, and several if the versions of one key fill more than a
    /// block. `page` is the page that the last answer requested. Cost: none if resident, one page
    /// if paged.
    fn locate(&self, key: &[u8], page: Option<&Page>) -> Result<Step<BlockRange>>;
    /// The bracket of the first entry with a key at or after `key`, present or absent. For
    /// iterators.
    fn lower_bound(&self, key: &[u8], page: Option<&Page>) -> Result<Step<Bracket>>;
    /// A block such that all entries before `key` are in blocks before it. For iterators that end
    /// at `key`. If `key` follows the keys of a prefix, the blocks from their first one to this
    /// hold no other keys.
    fn end_before(&self, key: &[u8], page: Option<&Page>) -> Result<Step<usize>>;
    /// The place of a block.
    fn handle(&self, block: usize, page: Option<&Page>) -> Result<Step<Handle>>;
    /// The number of blocks.
    fn blocks(&self) -> usize;
    /// The places of the pages, in order, without the top.
    fn page_ids(&self) -> Vec<PageId>;
    /// Loads all these pages, in order, into memory.
    fn load(&mut self, pages: &[&[u8]]) -> Result<()>;
    /// Some keys that cut the table into at most `pieces` pieces of similar size, ascending. Reads
    /// nothing. A paged index is coarser.
    fn split_keys(&self, pieces: usize) -> Vec<Vec<u8>>;
    /// Estimates the part of the blocks before a key: 0.0 to 1.0. Reads nothing. A paged index is
    /// coarser.
    fn share_before(&self, key: &[u8]) -> f64 {
        match self.lower_bound(key, None) {
            Ok(Step::Done(bracket)) => bracket.likely as f64 / self.blocks().max(1) as f64,
            _ => 0.5,
        }
    }
    /// The bytes of memory of the index.
    fn memory_bytes(&self) -> usize;
}

/// Some neighbouring blocks, and the place of the first one: most lookups need no other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BlockRange {
    pub(crate) blocks: Range<usize>,
    /// `None` if there are no blocks.
    pub(crate) first: Option<Handle>,
}

impl BlockRange {
    pub(crate) const NOWHERE: BlockRange = BlockRange {
        blocks: 0..0,
        first: None,
    };

    /// Asks for the place of the first block, if there is one.
    #[inline]
    pub(crate) fn of(blocks: Range<usize>, place: impl FnOnce(usize) -> Handle) -> BlockRange {
        BlockRange {
            first: (!blocks.is_empty()).then(|| place(blocks.start)),
            blocks,
        }
    }
}

/// The blocks around an entry: it is in one of those from `first` to `last`, or at the beginning of
/// the one after `last`, which may be one more than exist. An index of hashes cannot distinguish an
/// absent key from a present one, so `first` and `last` may be far apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bracket {
    pub(crate) first: usize,
    /// The block of the entry if the key exists. A search tries it first.
    pub(crate) likely: usize,
    pub(crate) last: usize,
}

impl Bracket {
    /// The bracket of an entry in this block or at the beginning of the next.
    pub(crate) fn at(block: usize) -> Bracket {
        Bracket {
            first: block,
            likely: block,
            last: block,
        }
    }
}

/// Builds the index of one table.
pub(crate) trait Builder: Send {
    /// Adds a key, in order, with the number of its block.
    fn add(&mut self, key: &[u8], block: usize);
    /// Reports that a block is complete and stored at `handle`.
    fn finish_block(&mut self, block: usize, handle: Handle);
}

/// Queries an index and reads the page that it needs. `kept` is the page that it needed last.
pub(crate) fn probe<T>(
    index: &dyn Index,
    pages: &dyn PageSource,
    kept: &mut Option<(PageId, Page)>,
    question: impl Fn(&dyn Index, Option<&Page>) -> Result<Step<T>>,
) -> Result<T> {
    probe_by(index, |id| pages.page(id), kept, question)
}

/// Queries as [`probe`] does. The page comes from `fetch`, which may have other errors.
pub(crate) fn probe_by<T, E: From<Error>>(
    index: &dyn Index,
    fetch: impl FnOnce(PageId) -> std::result::Result<Page, E>,
    kept: &mut Option<(PageId, Page)>,
    question: impl Fn(&dyn Index, Option<&Page>) -> Result<Step<T>>,
) -> std::result::Result<T, E> {
    let id = match question(index, None)? {
        Step::Done(answer) => return Ok(answer),
        Step::Read(id) => id,
    };
    if kept.as_ref().is_none_or(|(have, _)| *have != id) {
        *kept = Some((id, fetch(id)?));
    }
    match question(index, kept.as_ref().map(|(_, page)| page))? {
        Step::Done(answer) => Ok(answer),
        Step::Read(id) => Err(Error::corruption(format!(
            "expected one page of the index to be enough, asked for another: {id:?}"
        ))
        .into()),
    }
}
