//! The division of a keyspace into trees, and its text.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use super::check_range;
use crate::base::error::{Error, Result};

/// The division of a keyspace into independent LSM-trees.
///
/// The text is `single`, `hash:8`, or `range:KEY,KEY` with split keys, in which `\xHH` stands for a
/// byte. A number `n` alone means `hash:n`, and 1 means `single`.
///
/// ```
/// use hedgerow::Partitioning;
///
/// let partitioning: Partitioning = r"range:h,q\x2c".parse()?;
/// assert_eq!(partitioning, Partitioning::range(["h", "q,"]));
/// assert_eq!("8".parse::<Partitioning>()?, Partitioning::Hash(8));
/// # Ok::<(), hedgerow::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Partitioning {
    /// One tree.
    #[default]
    Single,
    /// This many trees, 1 to 256, by a hash of the key. The trees are even for any keys, but a scan
    /// reads all of them. For semi-sorted keys the hash is that of the prefix: a scan of one prefix
    /// reads one tree, and the trees are only as even as the prefixes.
    Hash(u16),
    /// Range partitioning at these ascending split keys: `n` splits make `n + 1` trees. Tree 0
    /// holds the keys below the first split, tree `i` those from split `i - 1` (inclusive) to split
    /// `i`. A scan reads only the trees of its range, one after the other. Up to 255 splits of up
    /// to 1 KiB.
    Range(Arc<[Vec<u8>]>),
}

/// The longest split key, in bytes. The manifest holds all split keys.
const SPLIT_BYTES_MAX: u64 = 1 << 10;

impl Partitioning {
    /// Range partitioning at these split keys.
    pub fn range<K: AsRef<[u8]>>(splits: impl IntoIterator<Item = K>) -> Partitioning {
        let splits = splits.into_iter().map(|key| key.as_ref().to_vec());
        Partitioning::Range(splits.collect())
    }

    /// The number of trees.
    pub fn count(&self) -> usize {
        match self {
            Partitioning::Single => 1,
            Partitioning::Hash(n) => usize::from(*n),
            Partitioning::Range(splits) => splits.len() + 1,
        }
    }

    pub(super) fn check(&self) -> Result<()> {
        if !(1..=256).contains(&self.count()) {
            return Err(Error::invalid(format!(
                "expected 1 to 256 partitions, found {}",
                self.count()
            )));
        }
        let Partitioning::Range(splits) = self else {
            return Ok(());
        };
        for split in splits.iter() {
            let bytes = split.len() as u64;
            check_range(
                "bytes of a key between partitions",
                bytes,
                1,
                SPLIT_BYTES_MAX,
            )?;
        }
        match splits.windows(2).find(|pair| pair[0] >= pair[1]) {
            None => Ok(()),
            Some(pair) => Err(Error::invalid(format!(
                "expected ascending split keys, found `{}` after `{}`",
                pair[1].escape_ascii(),
                pair[0].escape_ascii()
            ))),
        }
    }
}

impl fmt::Display for Partitioning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Partitioning::Single => f.write_str("single"),
            Partitioning::Hash(n) => write!(f, "hash:{n}"),
            Partitioning::Range(splits) => {
                f.write_str("range:")?;
                for (i, split) in splits.iter().enumerate() {
                    f.write_str(if i == 0 { "" } else { "," })?;
                    write_key(split, f)?;
                }
                Ok(())
            }
        }
    }
}

fn write_key(key: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    key.iter().try_for_each(|&byte| match byte {
        b'\\' | b',' => write!(f, "\\x{byte:02x}"),
        0x21..=0x7E => write!(f, "{}", char::from(byte)),
        _ => write!(f, "\\x{byte:02x}"),
    })
}

/// Reads a key; `None` if a backslash begins no `\xHH`.
fn read_key(text: &str) -> Option<Vec<u8>> {
    let mut pieces = text.split('\\');
    let mut key = pieces.next()?.as_bytes().to_vec();
    for piece in pieces {
        let digits = piece.strip_prefix('x')?.get(..2)?;
        key.push(u8::from_str_radix(digits, 16).ok()?);
        key.extend_from_slice(&piece.as_bytes()[3..]);
    }
    Some(key)
}

impl FromStr for Partitioning {
    type Err = Error;

    fn from_str(spec: &str) -> Result<Self> {
        let unknown = || {
            Error::invalid(format!(
                "expected a partitioning such as `single`, `hash:8` or `range:KEY,KEY`, found `{spec}`"
            ))
        };
        let (name, argument) = spec.split_once(':').unwrap_or((spec, ""));
        let partitioning = match name {
            "single" if spec == name => Partitioning::Single,
            "1" => Partitioning::Single,
            "range" => {
                let keys = argument
                    .split(',')
                    .map(read_key)
                    .collect::<Option<Vec<_>>>();
                Partitioning::range(keys.ok_or_else(unknown)?)
            }
            _ => {
                let count = if name == "hash" { argument } else { spec };
                Partitioning::Hash(count.parse().map_err(|_| unknown())?)
            }
        };
        partitioning.check()?;
        Ok(partitioning)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_read_as_it_is_printed(
            splits in prop::collection::btree_set(prop::collection::vec(any::<u8>(), 1..5), 1..9),
            count in 1_u16..=256,
        ) {
            for partitioning in [
                Partitioning::Single,
                Partitioning::Hash(count),
                Partitioning::range(splits),
            ] {
                let text = partitioning.to_string();
                prop_assert_eq!(text.parse::<Partitioning>().unwrap(), partitioning, "{}", text);
            }
        }
    }

    #[test]
    fn what_is_none_is_refused_with_what_was_expected() {
        for spec in [
            "",
            "0",
            "257",
            "hash",
            "hash:x",
            "hash:0",
            "single:1",
            "range",
            "range:",
            "range:b,a",
            "range:a,a",
            r"range:\",
            r"range:\x4",
            r"range:\xé",
            "by name",
        ] {
            let error = spec.parse::<Partitioning>().unwrap_err();
            assert!(error.to_string().contains("expected"), "{spec}: {error}");
        }
        let many = Partitioning::range((0..256_u16).map(u16::to_be_bytes));
        let long = Partitioning::range([[0; 1025]]);
        assert!(many.check().is_err() && long.check().is_err());
    }
}
