//! The order of key hashes: evenly spread for any keys, and without a meaningful order (LSM-trie,
//! Wu et al., 2015).
//!
//! ```text
//! order key   bits 64..112   bits 112..128   bits 0..64 of the key hash   the user key
//! bytes       6              2               8                            0 or more
//! ```
//!
//! The bits that choose the partition come after the bits that order the keys within it. So the
//! keys of a partition spread over all leading bytes (`docs/format/key_order.md`; `hash.md` beside
//! it lists the use of every bit). The user key breaks ties between equal hashes.

use super::{Order, no_ranges};
use crate::base::entry::KeyHash;
use crate::base::error::{Error, Result};
use crate::base::options::KeyOrder;

/// The bytes of the hash, before the user key.
const HASH_BYTES: usize = 16;

/// Keys in the order of their hashes. Only a scan of everything is possible.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hashed {
    /// The seed of the keyspace.
    pub(crate) seed: u64,
}

impl Order for Hashed {
    fn encode(&self, user_key: &[u8], order_key: &mut Vec<u8>) {
        let hash = KeyHash::of(user_key, self.seed);
        order_key.extend(hash.order().to_be_bytes());
        order_key.extend(hash.low().to_be_bytes());
        order_key.extend_from_slice(user_key);
    }

    fn decode<'a>(&self, order_key: &'a [u8]) -> &'a [u8] {
        order_key.get(HASH_BYTES..).unwrap_or_default()
    }

    fn added_bytes(&self) -> usize {
        HASH_BYTES
    }

    fn group(&self, _prefix: &[u8]) -> Result<Vec<u8>> {
        Err(Error::invalid(
            "a keyspace of `hashed` keys cannot be scanned by prefix: use `scan_unordered`, \
             or create it with the order `semi-sorted`",
        ))
    }

    fn has_prefix(&self, _user_key: &[u8], _prefix: &[u8]) -> bool {
        false
    }

    fn check_ranges(&self) -> Result<()> {
        Err(no_ranges(KeyOrder::Hashed, "`scan_unordered`"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In every partition, each leading byte belongs to about 1/256 of the keys.
    #[test]
    fn keys_of_a_partition_are_spread_evenly() {
        let keys = 400_000;
        let order = Hashed { seed: 7 };
        let mut counts = vec![[0_usize; 256]; 4];
        let mut order_key = Vec::new();
        for i in 0..keys as u64 {
            let key = i.to_le_bytes();
            order_key.clear();
            order.encode(&key, &mut order_key);
            let partition = KeyHash::of(&key, 7).high() >> 62;
            counts[partition as usize][usize::from(order_key[0])] += 1;
        }
        let mean = keys / 4 / 256;
        let even = |count: &usize| (mean / 2..mean * 2).contains(count);
        assert!(counts.iter().flatten().all(even), "{counts:?}");
    }
}
