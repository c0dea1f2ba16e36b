//! The parts of an entry in a block.

use std::ops::Range;

use crate::base::codec::packed;
use crate::base::entry::{SeqNo, Tag};
use crate::table::entry_parts::take_varint;

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
    /// The offset of the tag: the sequence number above the base, and the code.
    pub(super) tag_at: usize,
}

/// The lengths at the front of an entry, and the byte behind them.
pub(super) struct Lengths {
    pub(super) shared: usize,
    pub(super) unshared: usize,
    pub(super) value_bytes: usize,
    /// The offset behind them, which is that of the tag.
    pub(super) end: usize,
    /// The first byte of the tag. Its two low bits are the code.
    pub(super) tag_byte: u64,
}

impl Lengths {
    /// Decodes the lengths at `at`. One word has those of a small entry and the byte behind them. A
    /// search walks over eight entries on average, and reads one word for each.
    #[inline(always)]
    pub(super) fn take(page: &[u8], at: usize) -> Option<Lengths> {
        let word = packed::get(page, at, 8);
        let (mut shared, mut unshared) = ((word >> 4 & 15) as usize, (word & 15) as usize);
        let (mut rest, mut end) = (word >> 8, at + 1);
        // A varint of more than one byte has this bit in its first one.
        let mut longer = 0;
        for length in [&mut shared, &mut unshared] {
            if *length == LENGTH_ESCAPE {
                *length += (rest & 0xFF) as usize;
                longer |= rest;
                rest >>= 8;
                end += 1;
            }
        }
        if (longer | rest) & 0x80 != 0 {
            return Lengths::take_longer(page, at);
        }
        Some(Lengths {
            shared,
            unshared,
            value_bytes: (rest & 0xFF) as usize,
            end: end + 1,
            tag_byte: rest >> 8 & 0xFF,
        })
    }

    /// Decodes lengths of any size.
    #[inline(never)]
    fn take_longer(page: &[u8], mut at: usize) -> Option<Lengths> {
        let lengths = usize::from(*page.get(at)?);
        at += 1;
        let mut take = |length: usize| match length {
            LENGTH_ESCAPE => Some(length + take_varint(page, &mut at)?),
            _ => Some(length),
        };
        let (shared, unshared) = (take(lengths >> 4)?, take(lengths & 15)?);
        let value_bytes = take_varint(page, &mut at)?;
        Some(Lengths {
            shared,
            unshared,
            value_bytes,
            end: at,
            tag_byte: u64::from(*page.get(at)?),
        })
    }
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
