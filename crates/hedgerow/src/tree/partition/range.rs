//! Trees by range of keys. A scan reads the trees of its range one after the other. The trees are
//! only as even as the split keys.

use std::ops::Bound;
use std::sync::Arc;

use super::{KeyBounds, PartitionRange, Router};
use crate::base::entry::KeyHash;

/// Tree `i` has the keys from split `i - 1` (inclusive) to split `i` (exclusive).
#[derive(Debug)]
pub(crate) struct Range {
    /// The split keys, ascending.
    pub(crate) splits: Arc<[Vec<u8>]>,
}

impl Range {
    fn tree_of(&self, key: &[u8]) -> usize {
        self.splits.partition_point(|split| split.as_slice() <= key)
    }
}

impl Router for Range {
    fn route(&self, user_key: &[u8], _hash: KeyHash) -> usize {
        self.tree_of(user_key)
    }

    fn covering(&self, (lower, upper): &KeyBounds) -> PartitionRange {
        let first = match lower {
            Bound::Unbounded => 0,
            Bound::Included(key) | Bound::Excluded(key) => self.tree_of(key),
        };
        let end = match upper {
            Bound::Unbounded => self.splits.len() + 1,
            Bound::Included(key) => self.tree_of(key) + 1,
            Bound::Excluded(key) => self.splits.partition_point(|split| split < key) + 1,
        };
        PartitionRange {
            partitions: first..end.max(first),
            splits: Some(self.splits.clone()),
        }
    }
}
