//! One tree for all keys.

use super::{Covering, Router};
use crate::entry::KeyHash;

/// Everything goes to partition 0.
#[derive(Debug)]
pub(crate) struct Single;

impl Router for Single {
    fn route(&self, _hash: KeyHash) -> usize {
        0
    }

    fn covering(&self) -> Covering {
        Covering {
            partitions: 0..1,
            ordered: true,
        }
    }
}
