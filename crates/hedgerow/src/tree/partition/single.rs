//! One tree for all keys.

use super::{KeyBounds, PartitionRange, Router};
use crate::base::entry::KeyHash;

/// Routes every key to partition 0.
#[derive(Debug)]
pub(crate) struct Single;

impl Router for Single {
    fn route(&self, _user_key: &[u8], _hash: KeyHash) -> usize {
        0
    }

    fn covering(&self, _bounds: &KeyBounds) -> PartitionRange {
        PartitionRange {
            partitions: 0..1,
            splits: None,
        }
    }
}
