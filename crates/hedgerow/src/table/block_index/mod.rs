//! Block indexes: which block of a table may hold a key.
//!
//! A builder sees every key of the table, in order, with the block it went to, so that an index may
//! depend on true neighbours. An index does no I/O: a paged one asks for the page it wants to see.

#[cfg(test)]
mod conformance;
pub(crate) mod entropy_coded_trie;
mod extents;
pub(crate) mod fence_pointers;
pub(crate) mod hash_marks;
pub(crate) mod of_table;
mod resident;

use std::fmt::Debug;
use std::ops::Range;

use crate::base::error::{Error, Result};
use crate::base::page::{Handle, Page, PageId, PageSource, Step};

/// The index of one table. Blocks are numbered from 0 in key order.
pub(crate) trait Index: Debug + Send + Sync {
    /// The blocks that may hold versions of `key`, for a key that may exist: usually one, none when
    /// the index can tell, several when the versions of one key fill more than a block.
    /// `page` is the page that the answer before this one asked for.
    /// Cost: none when resident, one page when paged.
    fn locate(&self, key: &[u8], page: Option<&Page>) -> Result<Step<Range<usize>>>;
    /// Where the first entry with a key at or after `key` is, whether `key` exists or not. For
    /// iterators.
    fn lower_bound(&self, key: &[u8], page: Option<&Page>) -> Result<Step<Bracket>>;
    /// All entries before `key` are in blocks before this one. For iterators that end at `key`: if it
    /// follows the keys of a prefix, nothing but them is in the blocks from the first one's to this.
    fn end_before(&self, key: &[u8], page: Option<&Page>) -> Result<Step<usize>>;
    /// Where a block is stored.
    fn handle(&self, block: usize, page: Option<&Page>) -> Result<Step<Handle>>;
    /// The number of blocks.
    fn blocks(&self) -> usize;
    /// Where its pages are stored, in order, but for the top.
    fn page_ids(&self) -> Vec<PageId>;
    /// Puts all these pages, in order, into memory.
    fn load(&mut self, pages: &[&[u8]]) -> Result<()>;
    /// Some keys that cut the table into at most `pieces` pieces of similar size, ascending. Reads
    /// nothing; coarser if paged.
    fn split_keys(&self, pieces: usize) -> Vec<Vec<u8>>;
    /// Bytes held in memory.
    fn memory_bytes(&self) -> usize;
}

/// Blocks between which something is: in one of those from `first` to `last`, or at the beginning of
/// the one after `last`, which may be one more than there are. An index of hashes cannot tell a key
/// that does not exist from one that does, so that the two may be far from each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bracket {
    pub(crate) first: usize,
    /// Where it is if the key exists, to be tried first.
    pub(crate) likely: usize,
    pub(crate) last: usize,
}

impl Bracket {
    /// In this block or at the beginning of the next.
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
    /// A key, in order, and the number of the block it went to.
    fn add(&mut self, key: &[u8], block: usize);
    /// A block is complete and stored here.
    fn finish_block(&mut self, block: usize, handle: Handle);
}

/// Asks an index, getting it the page that it wants; `kept` is the page that it wanted last.
pub(crate) fn ask<T>(
    index: &dyn Index,
    pages: &dyn PageSource,
    kept: &mut Option<(PageId, Page)>,
    question: impl Fn(&dyn Index, Option<&Page>) -> Result<Step<T>>,
) -> Result<T> {
    ask_by(index, |id| pages.page(id), kept, question)
}

/// As [`ask`], where the page comes from `fetch`, which may fail otherwise.
pub(crate) fn ask_by<T, E: From<Error>>(
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
