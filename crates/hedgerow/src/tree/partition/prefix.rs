//! Trees by a hash of the prefix of semi-sorted keys. The keys of one prefix live in one tree, so
//! that a prefix scan visits only that tree. Trees are as even as the prefixes: a prefix with a
//! large share of all keys makes its tree as large.

use std::ops::Bound;

use super::{KeyBounds, PartitionRange, Router, scaled};
use crate::base::entry::KeyHash;
use crate::base::key_order::SemiSorted;

/// The low 16 bits of the prefix's hash, scaled to the number of partitions. Within a tree, the
/// high bits order the keys.
#[derive(Debug)]
pub(crate) struct Prefix {
    pub(crate) partitions: u16,
    pub(crate) order: SemiSorted,
}

impl Prefix {
    fn tree_of(&self, prefix_hash: u64) -> usize {
        scaled(prefix_hash as u16, self.partitions)
    }
}

impl Router for Prefix {
    fn route(&self, user_key: &[u8], _hash: KeyHash) -> usize {
        self.tree_of(self.order.prefix_hash(user_key))
    }

    fn covering(&self, bounds: &KeyBounds) -> PartitionRange {
        let partitions = match the_hash_of(bounds) {
            Some(hash) => self.tree_of(hash)..self.tree_of(hash) + 1,
            None => 0..usize::from(self.partitions),
        };
        PartitionRange {
            partitions,
            splits: None,
        }
    }
}

/// The hash with which all order keys within bounds begin, if it is one.
fn the_hash_of((lower, upper): &KeyBounds) -> Option<u64> {
    let (Bound::Included(lower) | Bound::Excluded(lower)) = lower else {
        return None;
    };
    let first = lower.first_chunk()?;
    let hash = u64::from_be_bytes(*first);
    let is_one = match upper {
        Bound::Unbounded => hash == u64::MAX,
        Bound::Included(upper) => upper.starts_with(first),
        Bound::Excluded(upper) => {
            upper.starts_with(first) || Some(number(upper)?) == hash.checked_add(1)
        }
    };
    is_one.then_some(hash)
}

/// The number whose first bytes are these, at most eight; missing bytes are zeros.
fn number(bytes: &[u8]) -> Option<u64> {
    let mut padded = [0; 8];
    padded.get_mut(..bytes.len())?.copy_from_slice(bytes);
    Some(u64::from_be_bytes(padded))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::options::PrefixRule;

    fn covered(lower: Bound<&[u8]>, upper: Bound<&[u8]>) -> bool {
        the_hash_of(&(lower.map(<[u8]>::to_vec), upper.map(<[u8]>::to_vec))).is_some()
    }

    #[test]
    fn bounds_of_one_prefix_are_told_from_others() {
        use Bound::{Excluded, Included, Unbounded};
        let (hash, key) = ([1, 2, 3, 4, 5, 6, 7, 0xFF], [1, 2, 3, 4, 5, 6, 7, 0xFF, 9]);
        assert!(covered(Included(&hash), Excluded(&[1, 2, 3, 4, 5, 6, 8])));
        assert!(covered(Included(&key), Included(&key)));
        assert!(covered(
            Excluded(&key),
            Excluded(&[1, 2, 3, 4, 5, 6, 7, 0xFF, 10])
        ));
        assert!(covered(Included(&[0xFF; 8]), Unbounded));
        assert!(!covered(Included(&hash), Included(&[1, 2, 3, 4, 5, 6, 8])));
        assert!(!covered(
            Included(&hash),
            Excluded(&[1, 2, 3, 4, 5, 6, 8, 0, 1])
        ));
        assert!(!covered(Included(&hash), Excluded(&[1, 2, 3, 4, 5, 6, 9])));
        assert!(!covered(Included(&hash), Unbounded));
        assert!(!covered(
            Included(&hash[..7]),
            Excluded(&[1, 2, 3, 4, 5, 6, 8])
        ));
        assert!(!covered(Unbounded, Excluded(&[1])));
        assert!(!covered(Unbounded, Unbounded));
    }

    #[test]
    fn keys_of_a_prefix_share_a_tree_which_its_scan_visits() {
        let order = SemiSorted {
            rule: PrefixRule::Delimiter(b':'),
            seed: 3,
        };
        let router = Prefix {
            partitions: 7,
            order,
        };
        let mut counts = [0; 7];
        for prefix in 0..7000 {
            let tree = |suffix| {
                let key = format!("{prefix}:{suffix}");
                router.route(key.as_bytes(), KeyHash::of(key.as_bytes(), 3))
            };
            counts[tree(0)] += 1;
            assert!((1..9).all(|suffix| tree(suffix) == tree(0)));
            let hash = order.prefix_hash(format!("{prefix}:").as_bytes());
            let [from, to] = [hash, hash + 1].map(|hash| hash.to_be_bytes().to_vec());
            let covering = router.covering(&(Bound::Included(from), Bound::Excluded(to)));
            assert_eq!(covering.partitions, tree(0)..tree(0) + 1);
        }
        assert!(
            counts.iter().all(|count| (800..1200).contains(count)),
            "{counts:?}"
        );
    }
}
