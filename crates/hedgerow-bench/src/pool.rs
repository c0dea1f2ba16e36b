//! The bytes of values.

use crate::permutation::{below, mix};

/// The number of start offsets in the pool. The pool fits the second-level cache of a core. It is
/// large against a block, so values in one block are hardly ever copies of each other.
const PLACES: usize = 256 << 10;
const MARK_BYTES: usize = 8;
const HEAD_BYTES: usize = MARK_BYTES + 4;
/// The least bytes that carry an offset; shorter bytes have zeros after the mark.
const PLACED_BYTES_MIN: usize = 16;
/// The bytes of a unit of the pool.
const PIECE_BYTES: usize = 32;
/// The random bytes of each unit; they are repeated in the rest of it.
const RANDOM_BYTES: usize = 7;

/// A pool of bytes that a fast compressor halves.
#[derive(Debug)]
pub(crate) struct Pool {
    bytes: Vec<u8>,
}

impl Pool {
    /// A pool for values, or fields of values, of at most `bytes_max` bytes.
    pub(crate) fn new(bytes_max: usize) -> Pool {
        let mut rng = fastrand::Rng::with_seed(0);
        let pieces = (PLACES + bytes_max).div_ceil(PIECE_BYTES);
        let mut bytes = Vec::with_capacity(pieces * PIECE_BYTES);
        for _ in 0..pieces {
            let mut random = [0; RANDOM_BYTES];
            rng.fill(&mut random);
            bytes.extend(random.iter().cycle().take(PIECE_BYTES));
        }
        Pool { bytes }
    }

    /// Appends `bytes` bytes with a mark; another `version` has other bytes.
    #[inline]
    pub(crate) fn append(&self, mark: u64, version: u64, bytes: usize, out: &mut Vec<u8>) {
        let end = out.len() + bytes;
        out.extend_from_slice(&mark.to_le_bytes());
        if bytes >= PLACED_BYTES_MIN {
            let place = below(mix(mark ^ version), PLACES as u64) as u32;
            out.extend_from_slice(&place.to_le_bytes());
            out.extend_from_slice(&self.bytes[place as usize..][..bytes - HEAD_BYTES]);
        }
        out.resize(end, 0);
    }

    /// Returns true if these bytes were made with this mark.
    #[inline]
    pub(crate) fn holds(&self, mark: u64, bytes: &[u8]) -> bool {
        let (found, rest) = bytes.split_at(bytes.len().min(MARK_BYTES));
        if *found != mark.to_le_bytes()[..found.len()] {
            return false;
        }
        if bytes.len() < PLACED_BYTES_MIN {
            return rest.iter().all(|byte| *byte == 0);
        }
        let Some((place, rest)) = rest.split_first_chunk::<4>() else {
            return false;
        };
        let place = u32::from_le_bytes(*place) as usize;
        place < PLACES && self.bytes[place..].starts_with(rest)
    }
}
