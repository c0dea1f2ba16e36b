//! The placements of tables, by table number.
//!
//! Each edit copies the tree before it and shares the unchanged parts. Looking at each of 10,000
//! tables would take as long as a small merge. So the numbers are kept in chunks, and an edit
//! copies only the chunks that it changes.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::base::page::TableId;
use crate::design::merge_policy::tree_edit::Placement;

/// A chunk holds the 2^6 = 64 consecutive table numbers that share their high bits. Changing one
/// table copies at most its chunk.
const CHUNK_BITS: u32 = 6;

type Chunk<T> = BTreeMap<TableId, (Placement, T)>;

#[derive(Debug, Clone)]
pub(super) struct Placements<T> {
    chunks: BTreeMap<u64, Arc<Chunk<T>>>,
    count: usize,
}

impl<T: Clone> Placements<T> {
    pub(super) fn new() -> Self {
        Placements {
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

    /// All tables in the order of their numbers.
    pub(super) fn iter(&self) -> impl Iterator<Item = &(Placement, T)> {
        self.chunks.values().flat_map(|chunk| chunk.values())
    }

    /// All values, mutable. Cost: copies every chunk that another tree shares.
    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut (Placement, T)> {
        let chunks = self.chunks.values_mut();
        chunks.flat_map(|chunk| Arc::make_mut(chunk).values_mut())
    }

    /// Inserts a table. Returns the previous value of its number.
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
