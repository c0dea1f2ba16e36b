//! The parts of an entry in a block.

use std::ops::Range;

use crate::base::entry::{SeqNo, Tag};

/// The escape value of the two 4-bit lengths in a byte. The length is this plus a varint.
pub(super) const LENGTH_ESCAPE: usize = 15;

/// The place of an entry in its page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Cursor {
    /// The offset of the head.
    pub(in super::super) head: u32,
    /// The offset of the value.
    pub(in super::super) value: u32,
}

/// One entry of a block. Its parts are offsets in the block's page.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct RawEntry {
    /// The number of bytes that the key shares with the key before.
    pub(in super::super) shared: usize,
    pub(super) key_start: u32,
    pub(super) value_start: u32,
    pub(in super::super) seqno: SeqNo,
    pub(in super::super) tag: Tag,
    /// True if the value's bytes are a place.
    pub(in super::super) out_of_line: bool,
    /// The place of the next entry. This entry's key and value end there.
    pub(in super::super) next: Cursor,
}

/// The front of an entry.
pub(super) struct Head {
    pub(super) shared: usize,
    pub(super) key_start: usize,
    /// The offset of the next head.
    pub(super) key_end: usize,
    pub(super) value_bytes: usize,
    /// The sequence number above the base, and the code.
    pub(super) tag: u64,
}

impl RawEntry {
    /// The range of the key without the shared bytes.
    #[inline]
    pub(in super::super) fn key(&self) -> Range<usize> {
        self.key_start as usize..self.next.head as usize
    }

    #[inline]
    pub(in super::super) fn value(&self) -> Range<usize> {
        self.value_start as usize..self.next.value as usize
    }
}
