//! The three-level index of a table whose keys begin with two hashes, of a prefix and of a suffix.
//! It takes less than one bit per key and is exact. After SlimDB (Ren et al., 2017, section 4) and
//! the entropy-coded tries of SILT (Lim et al., 2011), with two additions: a fence for prefixes
//! that level 1 does not know, and tails for suffixes between two blocks.
//!
//! ```text
//! prefix ─► 1 prefixes     its rank among the prefixes that blocks begin or end with, if any
//!           2 boundaries   the blocks that hold it
//! suffix ─► 3 routes       the one of several blocks
//! ```
//!
//! The places of consecutive blocks of one size take no space. If the table never cuts between
//! entries of equal hashes, a lookup reads at most one block for any key, present or absent.
//! Lookups decode some tens of codewords and allocate nothing. The format is in
//! `docs/format/three_level.md`.

pub(crate) mod three_level;

mod bits;
mod boundaries;
mod code;
mod hash_trie;
mod prefixes;
mod routes;
mod segment;
mod segment_layout;

#[cfg(test)]
mod samples;

use crate::base::codec::{ByteReader, packed};
use crate::base::error::Result;

/// The size of a hash in an order key. The prefix's hash comes first, then the suffix's.
const HASH_BYTES: usize = 8;

/// The part of an order key that the index uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Hashes {
    prefix: u64,
    suffix: u64,
}

impl Hashes {
    /// The hashes of an order key. Missing bytes count as zeros.
    #[inline]
    fn of(key: &[u8]) -> Hashes {
        Hashes {
            prefix: packed::get_ordered(key, 0, HASH_BYTES),
            suffix: packed::get_ordered(key, HASH_BYTES, HASH_BYTES),
        }
    }

    /// Both hashes as one integer that compares as they do.
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
