//! The cache of pages, shared by all tables of a database: sharded, scan-resistant (S3-FIFO), with
//! a capacity in bytes that follows what the rest of the memory budget leaves.

use std::hash::{BuildHasherDefault, Hasher};

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
        (page.memory_bytes() + PAGE_OVERHEAD_BYTES) as u64
    }
}

/// Hashes a [`Key`]: two numbers, mixed by two multiplications. The same in every process, so that
/// a simulated run evicts the same pages each time.
#[derive(Clone, Default)]
struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn write_u64(&mut self, number: u64) {
        let mixed = (self.0 ^ number).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 = mixed ^ (mixed >> 32);
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(byte.into()));
    }

    fn finish(&self) -> u64 {
        self.0.wrapping_mul(0xD6E8_FEB8_6659_FD93)
    }
}

/// Pages that were read, by table and offset.
pub(crate) struct PageCache(Cache<Key, Page, PageBytes, BuildHasherDefault<KeyHasher>>);

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
        let hashes = BuildHasherDefault::default();
        let lifecycle = DefaultLifecycle::default();
        PageCache(Cache::with(
            pages,
            capacity_bytes,
            PageBytes,
            hashes,
            lifecycle,
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
