//! The hashes of a table's keys, collected until their number is known.

use crate::base::entry::KeyHash;

/// Keeps the hashes in pieces. A list that grows by copying would hold three times as much for a
/// moment, and would leave holes in memory.
#[derive(Debug, Default)]
pub(crate) struct HashList {
    pieces: Vec<Vec<u64>>,
    keys: usize,
}

impl HashList {
    /// The hashes of a piece, which is allocated at once: 32 KiB.
    const PIECE: usize = 4096;

    pub(crate) fn add(&mut self, hash: KeyHash) {
        if self.keys.is_multiple_of(Self::PIECE) {
            self.pieces.push(Vec::with_capacity(Self::PIECE));
        }
        self.keys += 1;
        if let Some(piece) = self.pieces.last_mut() {
            piece.push(hash.low());
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.keys
    }

    /// The low halves of the hashes.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u64> {
        self.pieces.iter().flatten().copied()
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.pieces.len() * Self::PIECE * size_of::<u64>()
    }
}
