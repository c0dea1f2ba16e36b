//! The three-level index of a table whose keys begin with two hashes, of a prefix and of a suffix:
//! below one bit per key, and exact. After SlimDB (Ren et al., 2017, section 4) and the
//! entropy-coded tries of SILT (Lim et al., 2011), with what these leave open: a fence for prefixes
//! that level 1 does not know, and tails for suffixes between two blocks.
//!
//! ```text
//! prefix ─► 1 prefixes     which of the prefixes that blocks begin or end with is it, if any?
//!           2 boundaries   in which blocks is this one?
//! suffix ─► 3 routes       which of several?
//! ```
//!
//! The places of blocks that have one size and follow each other take no space. At most one block is
//! read for every key, whether the table has it or not, if it never cuts between entries of equal
//! hashes. Lookups decode some tens of codewords and allocate nothing. The format is in
//! `docs/format/three_level.md`.

pub(crate) mod three_level;

mod bits;
mod boundaries;
mod code;
mod prefixes;
mod routes;
mod segment;
mod trie;

#[cfg(test)]
mod testing;

use crate::base::codec::{ByteReader, packed};
use crate::base::error::Result;

/// The size of a hash in an order key: that of the prefix comes first, then that of the suffix.
const HASH_BYTES: usize = 8;

/// What the index sees of an order key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Hashes {
    prefix: u64,
    suffix: u64,
}

impl Hashes {
    /// Of an order key; bytes that it lacks count as zeros.
    #[inline]
    fn of(key: &[u8]) -> Hashes {
        Hashes {
            prefix: packed::get_ordered(key, 0, HASH_BYTES),
            suffix: packed::get_ordered(key, HASH_BYTES, HASH_BYTES),
        }
    }

    /// Both as one integer that compares as they do.
    fn joined(self) -> u128 {
        u128::from(self.prefix) << 64 | u128::from(self.suffix)
    }

    fn split(joined: u128) -> Hashes {
        Hashes {
            prefix: (joined >> 64) as u64,
            suffix: joined as u64,
        }
    }

    fn put(self, out: &mut Vec<u8>) {
        out.extend(self.prefix.to_be_bytes());
        out.extend(self.suffix.to_be_bytes());
    }

    fn parse(reader: &mut ByteReader<'_>) -> Result<Hashes> {
        let (prefix, suffix) = (parse_hash(reader)?, parse_hash(reader)?);
        Ok(Hashes { prefix, suffix })
    }
}

fn parse_hash(reader: &mut ByteReader<'_>) -> Result<u64> {
    let bytes = reader.take(HASH_BYTES, "a hash")?;
    Ok(packed::get_ordered(bytes, 0, HASH_BYTES))
}
