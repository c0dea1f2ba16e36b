//! Trees by a hash of the key: even for any keys, but every scan visits all trees.

use super::{KeyBounds, PartitionRange, Router, scaled};
use crate::base::entry::KeyHash;

/// The top 16 bits of the hash, scaled to the number of partitions.
#[derive(Debug)]
pub(crate) struct Hash {
    pub(crate) partitions: u16,
}

impl Router for Hash {
    fn route(&self, _user_key: &[u8], hash: KeyHash) -> usize {
        scaled((hash.high() >> 48) as u16, self.partitions)
    }

    fn covering(&self, _bounds: &KeyBounds) -> PartitionRange {
        PartitionRange {
            partitions: 0..usize::from(self.partitions),
            splits: None,
        }
    }
}
