//! Where tables are, by their numbers.
//!
//! Each edit makes a tree of a copy of the one before. What it does not change both share: to look at each of 10,000
//! tables took as long as a small merge. So numbers are kept in chunks, of which an edit copies those that it changes.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::base::page::TableId;
use crate::design::merge_policy::edit::Placement;

/// Numbers that differ in these low bits only are in one chunk: an edit copies so many tables for each that it
/// changes, at most, and looks at one chunk for so many.
const CHUNK_BITS: u32 = 6;

type Chunk<T> = BTreeMap<TableId, (Placement, T)>;

#[derive(Debug, Clone)]
pub(super) struct Places<T> {
    chunks: BTreeMap<u64, Arc<Chunk<T>>>,
    count: usize,
}

impl<T: Clone> Places<T> {
    pub(super) fn new() -> Self {
        Places {
            chunks: BTreeMap::new(),
            count: 0,
        }
    }

    /// The number of tables.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    pub(super) fn get(&self, id: TableId) -> Option<&(Placement, T)> {
        self.chunks.get(&chunk_of(id))?.get(&id)
    }

    /// In the order of their numbers.
    pub(super) fn iter(&self) -> impl Iterator<Item = &(Placement, T)> {
        self.chunks.values().flat_map(|chunk| chunk.values())
    }

    /// Cost: copies all of them.
    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut (Placement, T)> {
        let chunks = self.chunks.values_mut();
        chunks.flat_map(|chunk| Arc::make_mut(chunk).values_mut())
    }

    /// Returns what the table was known as before.
    pub(super) fn insert(
        &mut self,
        id: TableId,
        at: Placement,
        table: T,
    ) -> Option<(Placement, T)> {
        let chunk = self.chunks.entry(chunk_of(id)).or_default();
        let before = Arc::make_mut(chunk).insert(id, (at, table));
        self.count += usize::from(before.is_none());
        before
    }

    pub(super) fn remove(&mut self, id: TableId) -> Option<(Placement, T)> {
        let number = chunk_of(id);
        let chunk = Arc::make_mut(self.chunks.get_mut(&number)?);
        let removed = chunk.remove(&id)?;
        if chunk.is_empty() {
            self.chunks.remove(&number);
        }
        self.count -= 1;
        Some(removed)
    }
}

fn chunk_of(id: TableId) -> u64 {
    id.0 >> CHUNK_BITS
}
