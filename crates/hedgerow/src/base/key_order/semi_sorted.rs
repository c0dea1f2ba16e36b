//! The order of two hashes: that of a key's first fragment, the *prefix*, then that of the rest,
//! the *suffix*. The keys of one prefix are neighbours, in no other order (SlimDB, Ren et al.,
//! 2017, section 3).
//!
//! ```text
//! order key   XXH3-64 of the prefix, big-endian   XXH3-64 of the suffix, big-endian   the user key
//! bytes       8                                   8                                   0 or more
//! ```
//!
//! The user key breaks ties between equal hashes, so collisions cost time and nothing else. The
//! seed of both hashes is the keyspace's, with all bits inverted. So nobody can choose keys that
//! collide. If a fragment is the whole key, its hash is unrelated to the key hash of the filters.

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::{Order, no_ranges};
use crate::base::codec::varint;
use crate::base::entry::check_key;
use crate::base::error::{Error, Result};
use crate::base::options::{KeyOrder, PrefixRule};

/// The bytes of both hashes, before the user key.
const HASHES_BYTES: usize = 16;
/// The bytes of the hash of the prefix, in front.
pub(crate) const PREFIX_HASH_BYTES: usize = HASHES_BYTES / 2;

impl PrefixRule {
    /// Prefix and suffix; `None` if the key is too short for the rule. The suffix may be empty.
    pub(crate) fn split(self, user_key: &[u8]) -> Option<(&[u8], &[u8])> {
        match self {
            PrefixRule::Bytes(count) => user_key.split_at_checked(count as usize),
            PrefixRule::Delimiter(delimiter) => {
                let at = user_key.iter().position(|byte| *byte == delimiter)?;
                Some((&user_key[..at], &user_key[at + 1..]))
            }
            PrefixRule::LengthPrefixed => {
                let (count, taken) = varint::get(user_key)?;
                user_key[taken..].split_at_checked(usize::try_from(count).ok()?)
            }
        }
    }
}

/// The prefix of the user key in an order key.
pub(crate) fn prefix_of(rule: PrefixRule, order_key: &[u8]) -> Option<&[u8]> {
    let fragments = rule.split(order_key.get(HASHES_BYTES..)?);
    fragments.map(|(prefix, _)| prefix)
}

/// Keys in the order of the hashes of their fragments. The keys of one prefix can be scanned.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SemiSorted {
    pub(crate) rule: PrefixRule,
    /// The seed of the keyspace.
    pub(crate) seed: u64,
}

impl SemiSorted {
    /// The hash of a key's prefix. The order key begins with it.
    pub(crate) fn prefix_hash(&self, user_key: &[u8]) -> u64 {
        let (prefix, _) = self.fragments(user_key);
        xxh3_64_with_seed(prefix, !self.seed)
    }

    /// A key that [`Order::check`] refuses counts as a prefix with an empty suffix.
    fn fragments<'a>(&self, user_key: &'a [u8]) -> (&'a [u8], &'a [u8]) {
        self.rule.split(user_key).unwrap_or((user_key, &[]))
    }

    fn hash(&self, fragment: &[u8]) -> [u8; HASHES_BYTES / 2] {
        xxh3_64_with_seed(fragment, !self.seed).to_be_bytes()
    }
}

impl Order for SemiSorted {
    fn check(&self, user_key: &[u8]) -> Result<()> {
        check_key(user_key)?;
        if self.rule.split(user_key).is_some() {
            return Ok(());
        }
        let found = user_key.len();
        Err(Error::invalid(match self.rule {
            PrefixRule::Bytes(count) => {
                format!("expected a key of at least its prefix, {count} bytes, found {found} bytes")
            }
            PrefixRule::Delimiter(delimiter) => format!(
                "expected a key with the delimiter {delimiter:#04x} after its prefix, \
                 found {found} bytes without it"
            ),
            PrefixRule::LengthPrefixed => format!(
                "expected a key that begins with the length of its prefix, then the prefix, \
                 found {found} bytes"
            ),
        }))
    }

    fn encode(&self, user_key: &[u8], order_key: &mut Vec<u8>) {
        let (prefix, suffix) = self.fragments(user_key);
        order_key.extend(self.hash(prefix));
        order_key.extend(self.hash(suffix));
        order_key.extend_from_slice(user_key);
    }

    fn decode<'a>(&self, order_key: &'a [u8]) -> &'a [u8] {
        order_key.get(HASHES_BYTES..).unwrap_or_default()
    }

    fn added_bytes(&self) -> usize {
        HASHES_BYTES
    }

    fn group(&self, prefix: &[u8]) -> Result<Vec<u8>> {
        match self.rule {
            PrefixRule::Bytes(count) if prefix.len() != count as usize => {
                Err(Error::invalid(format!(
                    "expected a prefix of {count} bytes, found {} bytes",
                    prefix.len()
                )))
            }
            PrefixRule::Delimiter(delimiter) if prefix.contains(&delimiter) => {
                Err(Error::invalid(format!(
                    "expected a prefix without its delimiter {delimiter:#04x}, found `{}`",
                    prefix.escape_ascii()
                )))
            }
            _ => Ok(self.hash(prefix).to_vec()),
        }
    }

    fn has_prefix(&self, user_key: &[u8], prefix: &[u8]) -> bool {
        let fragments = self.rule.split(user_key);
        fragments.is_some_and(|(found, _)| found == prefix)
    }

    fn key_of_prefix(&self, prefix: &[u8]) -> Vec<u8> {
        let mut key = Vec::new();
        if self.rule == PrefixRule::LengthPrefixed {
            varint::put(&mut key, prefix.len() as u64);
        }
        key.extend_from_slice(prefix);
        if let PrefixRule::Delimiter(delimiter) = self.rule {
            key.push(delimiter);
        }
        key
    }

    fn check_ranges(&self) -> Result<()> {
        Err(no_ranges(
            KeyOrder::SemiSorted(self.rule),
            "`scan_prefix` or `scan_unordered`",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_splits_a_key_or_refuses_it() {
        type Fragments = Option<(&'static [u8], &'static [u8])>;
        let cases: [(PrefixRule, &[u8], Fragments); 10] = [
            (PrefixRule::Bytes(2), b"abc", Some((b"ab", b"c"))),
            (PrefixRule::Bytes(2), b"ab", Some((b"ab", b""))),
            (PrefixRule::Bytes(2), b"a", None),
            (
                PrefixRule::Delimiter(b'/'),
                b"ab/c/d",
                Some((b"ab", b"c/d")),
            ),
            (PrefixRule::Delimiter(b'/'), b"/", Some((b"", b""))),
            (PrefixRule::Delimiter(b'/'), b"abc", None),
            (PrefixRule::LengthPrefixed, b"\x02abc", Some((b"ab", b"c"))),
            (PrefixRule::LengthPrefixed, b"\x00", Some((b"", b""))),
            (PrefixRule::LengthPrefixed, b"\x03ab", None),
            (PrefixRule::LengthPrefixed, &[0xFF; 11], None),
        ];
        for (rule, key, expected) in cases {
            assert_eq!(rule.split(key), expected, "{rule:?} of {key:?}");
            let checked = SemiSorted { rule, seed: 1 }.check(key);
            let kind = checked.err().map(|error| error.kind());
            let refused = Some(crate::base::error::ErrorKind::InvalidArgument);
            assert_eq!(
                kind,
                refused.filter(|_| expected.is_none()),
                "{rule:?} of {key:?}"
            );
        }
    }

    #[test]
    fn keys_of_a_prefix_are_neighbours() {
        let order = SemiSorted {
            rule: PrefixRule::Delimiter(b':'),
            seed: 7,
        };
        let mut keys = Vec::new();
        for prefix in 0..50 {
            for suffix in 0..20 {
                let mut order_key = Vec::new();
                order.encode(format!("user{prefix}:{suffix}").as_bytes(), &mut order_key);
                let group = order.group(format!("user{prefix}").as_bytes()).unwrap();
                assert!(order_key.starts_with(&group));
                keys.push(order_key);
            }
        }
        keys.sort();
        let prefixes = keys
            .iter()
            .map(|key| order.rule.split(order.decode(key)).unwrap().0);
        let mut prefixes: Vec<&[u8]> = prefixes.collect();
        prefixes.dedup();
        assert_eq!(prefixes.len(), 50);
        let other = SemiSorted { seed: 8, ..order };
        assert_ne!(order.hash(b"user1"), other.hash(b"user1"));
    }

    #[test]
    fn a_damaged_order_key_decodes_to_nothing() {
        let order = SemiSorted {
            rule: PrefixRule::Bytes(1),
            seed: 7,
        };
        assert_eq!(order.decode(b"short"), b"");
    }
}
