//! The order of the hashes of keys: even whatever the keys are, with no order that means anything;
//! after LSM-trie (Wu et al., 2015).
//!
//! ```text
//! order key   bits 64..112   bits 112..128   bits 0..64 of the key hash   the user key
//! bytes       6              2               8                            1 or more
//! ```
//!
//! The bits that choose the partition come behind those that order the keys within one, so that the
//! keys of a partition are spread over all beginnings of an order key (`docs/format/key_order.md`;
//! `hash.md` beside it says which bits serve what). The user key decides between keys with equal hashes.

use super::{Order, no_ranges};
use crate::base::entry::KeyHash;
use crate::base::error::{Error, Result};
use crate::base::options::KeyOrder;

/// The bytes of the hash, before the user key.
const HASH_BYTES: usize = 16;

/// Keys in the order of their hashes; only everything can be scanned.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hashed {
    /// That of the keyspace.
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
            "expected a scan of everything, scan_unordered, found one of a prefix: keys of the order hashed are stored by their hashes; the order semi-sorted has scans of prefixes",
        ))
    }

    fn has_prefix(&self, _user_key: &[u8], _prefix: &[u8]) -> bool {
        false
    }

    fn check_ranges(&self) -> Result<()> {
        Err(no_ranges(
            KeyOrder::Hashed,
            "a scan of everything, scan_unordered",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The keys of every partition begin with all bytes alike: each byte is that of about 1/256 of
    /// them.
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
