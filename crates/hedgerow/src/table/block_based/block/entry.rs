//! The parts of an entry in a block.

use std::ops::Range;

use crate::base::entry::{SeqNo, Tag};

/// In the byte of lengths, four bits each: this much and what a varint adds.
pub(super) const LENGTH_ESCAPE: usize = 15;

/// Where an entry is in its page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Cursor {
    /// Of the head.
    pub(in super::super) head: u32,
    /// Of the value.
    pub(in super::super) value: u32,
}

/// One entry of a block, in offsets of the block's page.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct RawEntry {
    /// How many bytes of the key are those of the key before.
    pub(in super::super) shared: usize,
    pub(super) key_start: u32,
    pub(super) value_start: u32,
    pub(in super::super) seqno: SeqNo,
    pub(in super::super) tag: Tag,
    /// The value's bytes are the place where it is.
    pub(in super::super) out_of_line: bool,
    /// Where the next entry is; this one's key and value end there.
    pub(in super::super) next: Cursor,
}

/// The front of an entry.
pub(super) struct Head {
    pub(super) shared: usize,
    pub(super) key_start: usize,
    /// The next head is here.
    pub(super) key_end: usize,
    pub(super) value_bytes: usize,
    /// The sequence number above the base, and the code.
    pub(super) tag: u64,
}

impl RawEntry {
    /// The rest of the key.
    #[inline]
    pub(in super::super) fn key(&self) -> Range<usize> {
        self.key_start as usize..self.next.head as usize
    }

    #[inline]
    pub(in super::super) fn value(&self) -> Range<usize> {
        self.value_start as usize..self.next.value as usize
    }
}
