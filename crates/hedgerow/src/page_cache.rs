//! The cache of pages, shared by all tables of a database: sharded, scan-resistant (S3-FIFO), with
//! a capacity in bytes that follows what the rest of the memory budget leaves.

use std::hash::{BuildHasherDefault, DefaultHasher};

use quick_cache::Weighter;
use quick_cache::sync::{Cache, DefaultLifecycle};

use crate::page::{Page, PageId, TableId};

/// What a cached page costs beyond its bytes: the cache's slot, the page's counters, the
/// allocator's header.
const PAGE_OVERHEAD_BYTES: usize = 96;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    table: TableId,
    offset: u64,
}

impl From<PageId> for Key {
    fn from(id: PageId) -> Key {
        Key {
            table: id.table,
            offset: id.handle.offset,
        }
    }
}

#[derive(Clone)]
struct PageBytes;

impl Weighter<Key, Page> for PageBytes {
    fn weight(&self, _key: &Key, page: &Page) -> u64 {
        (page.len() + PAGE_OVERHEAD_BYTES) as u64
    }
}

/// Pages that were read, by table and offset.
pub(crate) struct PageCache(Cache<Key, Page, PageBytes, Hashes>);

/// Hashes without a seed of the process, so that a simulation evicts the same pages each time. Keys
/// are numbers of tables and places in them: nobody chooses them to collide.
type Hashes = BuildHasherDefault<DefaultHasher>;

impl std::fmt::Debug for PageCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PageCache")
            .field("memory_bytes", &self.memory_bytes())
            .finish()
    }
}

impl PageCache {
    pub(crate) fn new(capacity_bytes: u64) -> PageCache {
        let pages = (capacity_bytes / 4096).max(16) as usize;
        PageCache(Cache::with(
            pages,
            capacity_bytes,
            PageBytes,
            Hashes::default(),
            DefaultLifecycle::default(),
        ))
    }

    /// Cost: one shard's lock, shared.
    pub(crate) fn get(&self, id: PageId) -> Option<Page> {
        self.0.get(&Key::from(id))
    }

    pub(crate) fn insert(&self, id: PageId, page: &Page) {
        self.0.insert(id.into(), page.clone());
    }

    pub(crate) fn set_capacity_bytes(&self, bytes: u64) {
        self.0.set_capacity(bytes);
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        self.0.weight()
    }
}
