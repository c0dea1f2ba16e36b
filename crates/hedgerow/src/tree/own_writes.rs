//! The writes of a batch that reads them itself: a memtable for each tree.
//!
//! The operation at index `i` of the batch has the number `SeqNo::OWN + i`. So it is newer than
//! every commit, and the last write of a key wins. The memory is the batch's own, not that of the
//! database's memtables, so that no flush waits for it.

use std::collections::BTreeMap;
use std::sync::Arc;

use hedgerow_mem::ChunkPool;

use crate::base::entry::{KeyHash, KeyspaceId, Kind, LogPosition, SeqNo, Tag};
use crate::base::error::Result;
use crate::tree::memtable::Memtable;
use crate::tree::partition::{KeyspaceFacts, Partition};

/// The largest chunk of memory that is taken at once.
const CHUNK_BYTES: usize = 256 << 10;

/// See the module.
pub(crate) struct OwnWrites {
    pool: Arc<ChunkPool>,
    /// By keyspace and index of the tree.
    trees: BTreeMap<(KeyspaceId, usize), Arc<Memtable>>,
    count: u64,
}

impl OwnWrites {
    pub(crate) fn new() -> OwnWrites {
        OwnWrites {
            pool: ChunkPool::new(CHUNK_BYTES, 0),
            trees: BTreeMap::new(),
            count: 0,
        }
    }

    /// Adds the next operation of the batch.
    pub(crate) fn add(
        &mut self,
        partition: &Partition,
        tag: Tag,
        (user_key, value): (&[u8], &[u8]),
    ) -> Result<()> {
        let seqno = SeqNo(SeqNo::OWN.0 + self.count);
        self.count += 1;
        let tree = (partition.keyspace.id, partition.index);
        let memtable = self.trees.entry(tree);
        let memtable = memtable.or_insert_with(|| Memtable::new(&self.pool));
        memtable.reserve(user_key.len() + value.len() + 1, LogPosition::unpacked(0));
        if tag.kind == Kind::RangeDelete {
            let range = partition.keyspace.range_tombstone(user_key, value, seqno)?;
            memtable.delete_range(range);
        } else {
            let mut scratch = Vec::new();
            let key = partition.keyspace.order.borrow(user_key, &mut scratch);
            memtable.insert(key, seqno, tag, value);
        }
        Ok(())
    }

    /// The writes of a key with their values, the newest first.
    pub(crate) fn versions<'a>(
        &'a self,
        facts: &KeyspaceFacts,
        user_key: &[u8],
    ) -> impl Iterator<Item = (SeqNo, Tag, &'a [u8])> + use<'a> {
        let hash = KeyHash::of(user_key, facts.seed);
        let tree = facts.router.route(user_key, hash);
        let memtable = self.trees.get(&(facts.id, tree));
        let mut scratch = Vec::new();
        let key = facts.order.borrow(user_key, &mut scratch).to_vec();
        let mut up_to = SeqNo::MAX;
        std::iter::from_fn(move || {
            let (seqno, tag, value) = memtable?.get(&key, up_to)?;
            up_to = SeqNo(seqno.0 - 1);
            Some((seqno, tag, value))
        })
    }

    /// The memtables of a keyspace's trees, by the index of the tree.
    pub(crate) fn of(&self, keyspace: KeyspaceId) -> Vec<(usize, Arc<Memtable>)> {
        let trees = self.trees.range((keyspace, 0)..=(keyspace, usize::MAX));
        trees
            .map(|((_, tree), memtable)| (*tree, memtable.clone()))
            .collect()
    }

    /// The number of the last operation.
    pub(crate) fn newest(&self) -> SeqNo {
        SeqNo(SeqNo::OWN.0 + self.count - 1)
    }

    /// The bytes of memory held.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.pool.held_bytes()
    }
}
