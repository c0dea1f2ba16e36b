//! The index of one table, of any kind: built and opened.

use crate::base::error::Result;
use crate::base::options::IndexSpec;
use crate::base::page::{Handle, TableId};

use super::entropy_coded_trie::three_level;
use super::entropy_coded_trie::three_level::{Form, ThreeLevel};
use super::fence_pointers;
use super::fence_pointers::FencePointers;
use super::{Builder as _, Index};

/// Opens a paged index from its top page.
pub(crate) fn paged(spec: IndexSpec, table: TableId, top: &[u8]) -> Result<Box<dyn Index>> {
    Ok(match spec {
        IndexSpec::Fence => Box::new(FencePointers::paged(table, top)?),
        IndexSpec::ThreeLevel | IndexSpec::ThreeLevelArray => {
            Box::new(ThreeLevel::paged(table, top)?)
        }
    })
}

/// Collects the data for the index of a table being written.
#[derive(Debug)]
pub(crate) enum Builder {
    Fence(fence_pointers::Builder),
    ThreeLevel(three_level::Builder),
}

/// Calls the builder of any kind.
macro_rules! each {
    ($builder:expr, $it:ident => $does:expr) => {
        match $builder {
            Builder::Fence($it) => $does,
            Builder::ThreeLevel($it) => $does,
        }
    };
}

impl Builder {
    pub(crate) fn new(spec: IndexSpec) -> Builder {
        match spec {
            IndexSpec::Fence => Builder::Fence(fence_pointers::Builder::default()),
            IndexSpec::ThreeLevel => Builder::ThreeLevel(three_level::Builder::new(Form::Tail)),
            IndexSpec::ThreeLevelArray => {
                Builder::ThreeLevel(three_level::Builder::new(Form::Array))
            }
        }
    }

    /// Returns true if the index can distinguish two neighbouring keys. If not, both must be in one
    /// block, or a lookup finds two blocks.
    #[inline]
    pub(crate) fn tells_apart(&self, before: &[u8], after: &[u8]) -> bool {
        match self {
            Builder::Fence(_) => before != after,
            Builder::ThreeLevel(_) => three_level::tells_apart(before, after),
        }
    }

    /// Adds a key, in order, with the number of its block.
    pub(crate) fn add(&mut self, key: &[u8], block: usize) {
        each!(self, it => it.add(key, block));
    }

    /// Reports that a block is complete and stored at `handle`.
    pub(crate) fn finish_block(&mut self, block: usize, handle: Handle) {
        each!(self, it => it.finish_block(block, handle));
    }

    /// The approximate bytes of the index in the file if it were finished now.
    pub(crate) fn estimated_bytes(&self) -> usize {
        each!(self, it => it.estimated_bytes())
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        each!(self, it => it.memory_bytes())
    }

    /// Passes the pages, in order, and then the top to `write_page`, which returns their places.
    /// Returns the place of the top.
    pub(crate) fn finish(self, write_page: impl FnMut(&[u8]) -> Result<Handle>) -> Result<Handle> {
        each!(self, it => it.finish(write_page))
    }
}
