//! The parts of an entry in a block.

use std::ops::Range;

use crate::codec::{ByteReader, varint};
use crate::entry::{Flags, Kind, SeqNo, Tag};
use crate::error::Result;
use crate::page::Handle;

/// In the byte of lengths, four bits each: this much and what a varint adds.
pub(super) const LENGTH_ESCAPE: usize = 15;

/// The two low bits of a tag; the rest is the sequence number above the block's base.
pub(super) mod code {
    /// Put, no flags, the value inline.
    pub(in super::super) const PUT: u64 = 0;
    /// Delete, no flags.
    pub(in super::super) const DELETE: u64 = 1;
    /// Put, no flags, the value out of line.
    pub(in super::super) const PUT_OUT_OF_LINE: u64 = 2;
    /// Anything else: a byte of kind, flags and place of the value follows the tag.
    pub(in super::super) const OTHER: u64 = 3;
    pub(in super::super) const BITS: u32 = 2;

    /// In the byte that follows: kind in bits 0..3, flags in 3..7, out of line in 7.
    pub(in super::super) const KIND_MASK: u8 = 7;
    pub(in super::super) const FLAGS_SHIFT: u32 = 3;
    pub(in super::super) const FLAGS_MASK: u8 = 15;
    pub(in super::super) const OUT_OF_LINE: u8 = 0x80;
}

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
    /// The value's bytes are a [`Place`].
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

/// Where a value out of line is stored, and its size in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Place {
    pub(in super::super) handle: Handle,
    pub(in super::super) bytes: u32,
}

impl Place {
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        varint::put(out, self.handle.offset);
        varint::put(out, u64::from(self.handle.bytes));
        varint::put(out, u64::from(self.bytes));
    }

    pub(in super::super) fn decode(bytes: &[u8]) -> Result<Place> {
        let mut reader = ByteReader::new(bytes);
        let place = Place {
            handle: Handle {
                offset: reader.varint("offset of a value")?,
                bytes: reader.varint_as("stored bytes of a value")?,
            },
            bytes: reader.varint_as("bytes of a value")?,
        };
        reader.finish("the place of a value")?;
        Ok(place)
    }
}

/// A varint that is a length, at most 32 bits: sums of a few of them do not overflow.
#[inline(always)]
pub(super) fn take_varint(bytes: &[u8], at: &mut usize) -> Option<usize> {
    let first = *bytes.get(*at)?;
    if first < 0x80 {
        *at += 1;
        return Some(usize::from(first));
    }
    let (value, taken) = varint::get(&bytes[*at..])?;
    *at += taken;
    Some(u32::try_from(value).ok()? as usize)
}

#[cold]
pub(super) fn other_tag(byte: u8) -> Option<(Tag, bool)> {
    let flags = (byte >> code::FLAGS_SHIFT) & code::FLAGS_MASK;
    let tag = Tag {
        kind: Kind::from_code(byte & code::KIND_MASK).ok()?,
        flags: Flags::from_bits(flags).ok()?,
    };
    Some((tag, byte & code::OUT_OF_LINE != 0))
}
