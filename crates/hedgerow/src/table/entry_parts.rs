//! The parts of an entry that blocks and buckets store alike: its tag, and the place of a value out
//! of line.

use crate::base::codec::{ByteReader, packed, varint};
use crate::base::entry::{Flags, Kind, SeqNo, Tag};
use crate::base::error::Result;
use crate::base::page::Handle;

/// The two low bits of a tag. The other bits are the sequence number above the block's base.
pub(super) mod entry_code {
    /// Put, no flags, the value inline.
    pub(crate) const PUT: u64 = 0;
    /// Delete, no flags.
    pub(crate) const DELETE: u64 = 1;
    /// Put, no flags, the value out of line.
    pub(crate) const PUT_OUT_OF_LINE: u64 = 2;
    /// Any other entry. A byte of kind, flags and place of the value follows the tag.
    pub(crate) const OTHER: u64 = 3;
    pub(crate) const BITS: u32 = 2;

    /// The layout of that byte: kind in bits 0..3, flags in 3..7, out of line in 7.
    pub(super) const KIND_MASK: u8 = 7;
    pub(super) const FLAGS_SHIFT: u32 = 3;
    pub(super) const FLAGS_MASK: u8 = 15;
    pub(super) const OUT_OF_LINE: u8 = 0x80;
}

/// The number of bytes of each tag among entries with these sequence numbers.
pub(super) fn tag_bytes(base: SeqNo, largest: SeqNo) -> usize {
    packed::width_for(((largest.0 - base.0) << entry_code::BITS) | entry_code::OTHER)
}

fn code_of(tag: Tag, out_of_line: bool) -> u64 {
    match (tag, out_of_line) {
        (Tag::PUT, false) => entry_code::PUT,
        (Tag::DELETE, false) => entry_code::DELETE,
        (Tag::PUT, true) => entry_code::PUT_OUT_OF_LINE,
        _ => entry_code::OTHER,
    }
}

/// The number of bytes that follow a tag.
pub(super) fn other_bytes(tag: Tag, out_of_line: bool) -> usize {
    usize::from(code_of(tag, out_of_line) == entry_code::OTHER)
}

/// Appends a tag in `bytes` bytes, and the byte that may follow it.
pub(super) fn put_tag(
    out: &mut Vec<u8>,
    tag: Tag,
    out_of_line: bool,
    above_base: u64,
    tag_bytes: usize,
) {
    let tag_code = code_of(tag, out_of_line);
    packed::put(out, above_base << entry_code::BITS | tag_code, tag_bytes);
    if tag_code == entry_code::OTHER {
        let place = if out_of_line {
            entry_code::OUT_OF_LINE
        } else {
            0
        };
        out.push(tag.kind as u8 | tag.flags.bits() << entry_code::FLAGS_SHIFT | place);
    }
}

/// The place of a value out of line, and its size in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ValueHandle {
    pub(super) handle: Handle,
    pub(super) bytes: u32,
}

impl ValueHandle {
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        varint::put(out, self.handle.offset);
        varint::put(out, u64::from(self.handle.bytes));
        varint::put(out, u64::from(self.bytes));
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<ValueHandle> {
        let mut reader = ByteReader::new(bytes);
        let place = ValueHandle {
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

/// Decodes a varint that is a length of at most 32 bits. Sums of a few such lengths do not
/// overflow.
#[inline(always)]
pub(super) fn take_varint(bytes: &[u8], at: &mut usize) -> Option<usize> {
    let value = varint::take(bytes, at)?;
    Some(u32::try_from(value).ok()? as usize)
}

/// Decodes the byte behind a tag of code [`entry_code::OTHER`].
#[cold]
pub(super) fn other_tag(byte: u8) -> Option<(Tag, bool)> {
    let flags = (byte >> entry_code::FLAGS_SHIFT) & entry_code::FLAGS_MASK;
    let tag = Tag {
        kind: Kind::from_code(byte & entry_code::KIND_MASK).ok()?,
        flags: Flags::from_bits(flags).ok()?,
    };
    Some((tag, byte & entry_code::OUT_OF_LINE != 0))
}
