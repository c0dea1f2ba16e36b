//! A filter in memory, and its file.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use crate::base::entry::KeyHash;
use crate::base::error::{Error, Result};
use crate::base::options::Residency;
use crate::base::page::{Page, PageId, PageSource, Step};
use crate::group_filter::{Context, GroupProbe};
use crate::table::filter::{Probe, RunMask};
use crate::table::memory::Memory;
use crate::table::paged_file::PagedFile;

use super::MultiLevelCuckoo;

/// A filter whose bytes count in the memory budget until it is dropped.
#[derive(Debug)]
pub(super) struct CuckooProbe {
    pub(super) filter: MultiLevelCuckoo,
    memory: Arc<Memory>,
    pub(super) stored: Mutex<FilePart>,
}

impl CuckooProbe {
    pub(super) fn new(
        filter: MultiLevelCuckoo,
        memory: Arc<Memory>,
        stored: FilePart,
    ) -> CuckooProbe {
        let bytes = filter.memory_bytes() as u64;
        memory.filters.fetch_add(bytes, Ordering::Relaxed);
        memory.note();
        let stored = Mutex::new(stored);
        CuckooProbe {
            filter,
            memory,
            stored,
        }
    }
}

impl Drop for CuckooProbe {
    fn drop(&mut self) {
        let bytes = self.filter.memory_bytes() as u64;
        self.memory.filters.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Probe for CuckooProbe {
    fn candidates(&self, hash: KeyHash, page: Option<&Page>) -> Result<Step<RunMask>> {
        self.filter.candidates(hash, page)
    }

    fn touch(&self, hash: KeyHash) {
        self.filter.touch(hash);
    }

    fn memory_bytes(&self) -> usize {
        self.filter.memory_bytes()
    }
}

/// True if filters of `bytes` bytes more may be in memory.
pub(super) fn has_memory(cx: &Context<'_>, bytes: u64) -> bool {
    let is_resident = cx.design.design.residency == Residency::Resident;
    is_resident || cx.tables.memory.has_room_for_shared_filter(bytes)
}

/// The filter in a probe, if it is of this kind.
pub(super) fn counted(probe: &GroupProbe) -> Option<&CuckooProbe> {
    probe.of_kind()
}

/// The page source of a resident filter, which needs no pages.
pub(super) struct NoPages;

impl PageSource for NoPages {
    fn page(&self, id: PageId) -> Result<Page> {
        Err(Error::corruption(format!(
            "expected no page to be asked for by a filter in memory, found {id:?}"
        )))
    }
}

/// The part of a filter that is in a file.
#[derive(Debug, Clone, Default)]
pub(super) struct FilePart {
    /// The file of this filter, or of one with fewer of its runs.
    pub(super) file: Option<Arc<PagedFile>>,
    /// The size of the tables of runs that the file does not know. Without a file, of all tables.
    pub(super) unwritten_bytes: u64,
}
