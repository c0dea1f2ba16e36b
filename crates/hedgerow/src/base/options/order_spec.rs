//! Key orders and their specs as text.

use std::fmt;
use std::str::FromStr;

use crate::base::error::{Error, Result};

use super::check_range;

/// A prefix may be as long as the longest key.
const PREFIX_BYTES_MAX: u64 = 64 << 10;

/// The order of the keys of a keyspace.
///
/// Every order serves `get` and a scan of everything
/// ([`Keyspace::scan_unordered`](crate::Keyspace::scan_unordered)). The two orders by hash are for
/// keys that need no range scans: their tables have smaller and faster indexes.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// use hedgerow::{Db, ErrorKind, Layout, PrefixRule};
///
/// let db = Db::open(dir.path())?;
/// let edges = db.keyspace("edges", Layout::semi_sorted(PrefixRule::Delimiter(b'>')))?;
/// edges.put("ada>charles", "letters")?;
/// edges.put("ada>mary", "visits")?;
/// edges.put("adam>eve", "apples")?;
/// assert_eq!(edges.scan_prefix("ada")?.count(), 2);
/// // Such keys have no range scans, and every key needs a prefix.
/// let refused = [edges.scan("ada".."b").err(), edges.put("ada", "").err()];
/// assert!(refused.iter().flatten().all(|e| e.kind() == ErrorKind::InvalidArgument));
/// # assert_eq!(refused.iter().flatten().count(), 2);
/// # Ok::<(), hedgerow::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum KeyOrder {
    /// By their bytes: any range can be scanned.
    #[default]
    Sorted,
    /// By a hash of a first fragment, the *prefix*, then by a hash of the rest: the keys of one
    /// prefix can be scanned (SlimDB, Ren et al., 2017, section 3).
    SemiSorted(PrefixRule),
    /// By a hash of the key: only everything can be scanned (LSM-trie, Wu et al., 2015).
    Hashed,
}

/// The rule that finds the prefix of a key. A key too short for its rule is `InvalidArgument`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PrefixRule {
    /// This many bytes, 1 to 65,536.
    Bytes(u32),
    /// The bytes before the first occurrence of this byte, which belongs to neither fragment.
    Delimiter(u8),
    /// The bytes that follow a variable-length integer (LEB128), which is their count.
    LengthPrefixed,
}

impl KeyOrder {
    pub(crate) fn check(self) -> Result<()> {
        match self {
            KeyOrder::SemiSorted(PrefixRule::Bytes(bytes)) => {
                check_range("bytes of a prefix", bytes.into(), 1, PREFIX_BYTES_MAX)
            }
            _ => Ok(()),
        }
    }
}

impl fmt::Display for KeyOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyOrder::Sorted => write!(f, "sorted"),
            KeyOrder::SemiSorted(rule) => write!(f, "semi-sorted:{rule}"),
            KeyOrder::Hashed => write!(f, "hashed"),
        }
    }
}

impl fmt::Display for PrefixRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PrefixRule::Bytes(bytes) => write!(f, "{bytes}"),
            PrefixRule::Delimiter(byte) if byte.is_ascii_graphic() => {
                write!(f, "delimiter={}", char::from(*byte))
            }
            PrefixRule::Delimiter(byte) => write!(f, "delimiter={byte:#04x}"),
            PrefixRule::LengthPrefixed => write!(f, "length-prefixed"),
        }
    }
}

impl FromStr for KeyOrder {
    type Err = Error;

    /// `sorted`, `semi-sorted:BYTES`, `semi-sorted:delimiter=C` (a character, or a byte as `0x1f`),
    /// `semi-sorted:length-prefixed` or `hashed`.
    fn from_str(spec: &str) -> Result<Self> {
        let order = match spec.split_once(':') {
            None if spec == "sorted" => Some(KeyOrder::Sorted),
            None if spec == "hashed" => Some(KeyOrder::Hashed),
            Some(("semi-sorted", rule)) => prefix_rule(rule).map(KeyOrder::SemiSorted),
            _ => None,
        };
        let order = order.ok_or_else(|| {
            Error::invalid(format!(
                "expected a key order such as `sorted`, `semi-sorted:8`, `semi-sorted:delimiter=/`, `semi-sorted:length-prefixed` or `hashed`, found `{spec}`"
            ))
        })?;
        order.check()?;
        Ok(order)
    }
}

fn prefix_rule(rule: &str) -> Option<PrefixRule> {
    if rule == "length-prefixed" {
        return Some(PrefixRule::LengthPrefixed);
    }
    let Some(delimiter) = rule.strip_prefix("delimiter=") else {
        return rule.parse().ok().map(PrefixRule::Bytes);
    };
    let byte = match (delimiter.as_bytes(), delimiter.strip_prefix("0x")) {
        ([byte], _) => Some(*byte),
        ([_, _, _, _], Some(digits)) => u8::from_str_radix(digits, 16).ok(),
        _ => None,
    };
    byte.map(PrefixRule::Delimiter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_read_as_they_are_printed() {
        let rules = [
            PrefixRule::Bytes(8),
            PrefixRule::Delimiter(b'/'),
            PrefixRule::Delimiter(b'0'),
            PrefixRule::Delimiter(b' '),
            PrefixRule::Delimiter(0xFF),
            PrefixRule::LengthPrefixed,
        ];
        let orders = rules.map(KeyOrder::SemiSorted).into_iter();
        for order in orders.chain([KeyOrder::Sorted, KeyOrder::Hashed]) {
            assert_eq!(order.to_string().parse::<KeyOrder>().unwrap(), order);
        }
        let spelled = "semi-sorted:delimiter=0x2f".parse::<KeyOrder>();
        let slash = KeyOrder::SemiSorted(PrefixRule::Delimiter(b'/'));
        assert_eq!(spelled.unwrap(), slash);
    }

    #[test]
    fn what_is_no_order_is_refused() {
        for spec in [
            "",
            "sort",
            "sorted:8",
            "semi-sorted",
            "semi-sorted:",
            "semi-sorted:0",
            "semi-sorted:65537",
            "semi-sorted:-1",
            "semi-sorted:delimiter=",
            "semi-sorted:delimiter=ab",
            "semi-sorted:delimiter=0xfff",
            "semi-sorted:delimiter=é",
            "hashed:1",
        ] {
            let error = spec.parse::<KeyOrder>().unwrap_err();
            assert_eq!(
                error.kind(),
                crate::base::error::ErrorKind::InvalidArgument,
                "{spec}"
            );
        }
    }
}
