//! Trees by a hash of the key: even whatever the keys are, but every scan visits all of them.

use super::{Covering, Router};
use crate::entry::KeyHash;

/// The top 16 bits of the hash, scaled to the number of partitions.
#[derive(Debug)]
pub(crate) struct Hash {
    pub(crate) partitions: u16,
}

impl Router for Hash {
    fn route(&self, hash: KeyHash) -> usize {
        let bits = hash.high() >> 48;
        ((bits * u64::from(self.partitions)) >> 16) as usize
    }

    fn covering(&self) -> Covering {
        Covering {
            partitions: 0..usize::from(self.partitions),
            ordered: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_spread_evenly_and_every_partition_is_reached() {
        for partitions in [1u16, 2, 3, 7, 64, 256] {
            let router = Hash { partitions };
            let mut counts = vec![0u32; usize::from(partitions)];
            for i in 0..100_000u32 {
                counts[router.route(KeyHash::of(&i.to_le_bytes(), 7))] += 1;
            }
            let mean = 100_000 / u32::from(partitions);
            assert!(
                counts.iter().all(|&c| c > mean / 2 && c < mean * 2),
                "{counts:?}"
            );
        }
    }
}
