//! The operations of a record: the bytes that a batch collects are the bytes that the log writes,
//! or compresses. Pure; nothing here panics on bytes from disk.

use std::borrow::Cow;

use crate::base::codec::compress::{self, Compressor};
use crate::base::codec::{ByteReader, varint};
use crate::base::entry::{
    Flags, KEY_BYTES_MAX, Kind, PartitionId, Tag, VALUE_BYTES_MAX, front_bytes,
};
use crate::base::error::{Error, Result};
use crate::base::options::Compression;

/// The largest payload: a place in a segment has 32 bits.
pub(crate) const PAYLOAD_BYTES_MAX: usize = 1 << 30;
/// The first byte of a compressed payload. Others begin with the kind of their first operation.
const COMPRESSED: u8 = 0x0F;
/// A shorter payload is not worth the time.
const COMPRESSED_BYTES_MIN: usize = 64;

/// The longest encoding of an operation without its key and value: kind and flags, partition, two
/// lengths.
pub(crate) const OP_OVERHEAD_BYTES_MAX: usize = 1 + 5 + 5 + 5;

/// The payload of a mark: a delete of the empty key in no partition. It stands for a number that
/// has no other record.
pub(crate) const MARK: [u8; 7] = [0, 0xFF, 0xFF, 0xFF, 0xFF, 0x0F, 0];

/// Operations in the encoding of the log.
#[derive(Debug, Clone, Default)]
pub(crate) struct Payload {
    bytes: Vec<u8>,
    ops: u32,
}

impl Payload {
    pub(crate) fn new() -> Payload {
        Payload::default()
    }

    #[cfg(test)]
    pub(crate) fn put(&mut self, partition: PartitionId, user_key: &[u8], value: &[u8]) {
        self.push(partition, Tag::PUT, user_key, value);
    }

    #[cfg(test)]
    pub(crate) fn delete(&mut self, partition: PartitionId, user_key: &[u8]) {
        self.push(partition, Tag::DELETE, user_key, b"");
    }

    /// Appends an operation. Deletes have no value. The caller has checked key and value.
    pub(crate) fn push(&mut self, partition: PartitionId, tag: Tag, user_key: &[u8], value: &[u8]) {
        debug_assert!(user_key.len() <= KEY_BYTES_MAX + usize::from(tag.kind == Kind::RangeDelete));
        debug_assert!(value.len() <= VALUE_BYTES_MAX + front_bytes(tag));
        self.bytes
            .reserve(OP_OVERHEAD_BYTES_MAX + user_key.len() + value.len());
        self.bytes.push(pack(tag));
        varint::put(&mut self.bytes, u64::from(partition.0));
        varint::put(&mut self.bytes, user_key.len() as u64);
        self.bytes.extend_from_slice(user_key);
        if has_value(tag.kind) {
            varint::put(&mut self.bytes, value.len() as u64);
            self.bytes.extend_from_slice(value);
        } else {
            debug_assert!(value.is_empty());
        }
        self.ops += 1;
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The number of operations.
    pub(crate) fn count(&self) -> u32 {
        self.ops
    }

    /// Removes the operations and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.ops = 0;
    }

    pub(crate) fn iter(&self) -> Ops<'_> {
        ops(&self.bytes, self.ops)
    }

    /// The place behind the last operation.
    pub(crate) fn end(&self) -> Mark {
        Mark {
            bytes: self.bytes.len(),
            ops: self.ops,
        }
    }

    /// The operations behind a place.
    pub(crate) fn since(&self, mark: Mark) -> Ops<'_> {
        ops(&self.bytes[mark.bytes..], self.ops - mark.ops)
    }

    /// Removes the operations behind a place.
    pub(crate) fn truncate(&mut self, mark: Mark) {
        self.bytes.truncate(mark.bytes);
        self.ops = mark.ops;
    }
}

/// The bytes that the log writes for a payload: compressed, if asked for and an eighth shorter.
/// Cost of compression: about 1 us per KiB; a buffer of the payload's size, which no budget counts.
pub(crate) fn logged(payload: &[u8], compresses: bool) -> Cow<'_, [u8]> {
    if compresses && payload.len() >= COMPRESSED_BYTES_MIN {
        // One that was used before would make other bytes of the same payload.
        let mut compressor = Compressor::new(Compression::Lz4);
        let mut packed = Vec::new();
        let code = compressor.compress(payload, &mut packed);
        if code == compress::LZ4 {
            packed.insert(0, COMPRESSED);
            return Cow::Owned(packed);
        }
    }
    Cow::Borrowed(payload)
}

/// A place between two operations of a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Mark {
    bytes: usize,
    pub(crate) ops: u32,
}

/// One operation of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Op<'a> {
    pub(crate) partition: PartitionId,
    pub(crate) tag: Tag,
    /// The key as the user gave it, not the order key.
    pub(crate) user_key: &'a [u8],
    /// Empty for a delete.
    pub(crate) value: &'a [u8],
}

/// Returns the operations of these bytes of the log: the bytes themselves, or what they decompress
/// to. The latter is put into `raw`.
///
/// # Errors
/// `Corruption`.
pub(crate) fn unpacked<'a>(logged: &'a [u8], raw: &'a mut Vec<u8>) -> Result<&'a [u8]> {
    let Some((&COMPRESSED, packed)) = logged.split_first() else {
        return Ok(logged);
    };
    raw.clear();
    raw.resize(
        compress::raw_bytes(compress::LZ4, packed, PAYLOAD_BYTES_MAX)?,
        0,
    );
    compress::decompress_into(compress::LZ4, packed, raw)?;
    Ok(raw)
}

/// The operations of a payload; there must be exactly `count`.
pub(crate) fn ops(payload: &[u8], count: u32) -> Ops<'_> {
    Ops {
        reader: ByteReader::new(payload),
        left: count,
        failed: false,
    }
}

/// See [`ops`]. Ends after the first error, whose offset is relative to the payload.
#[derive(Debug, Clone)]
pub(crate) struct Ops<'a> {
    reader: ByteReader<'a>,
    left: u32,
    failed: bool,
}

impl<'a> Iterator for Ops<'a> {
    type Item = Result<Op<'a>>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.failed || (self.left == 0 && self.reader.is_empty()) {
            return None;
        }
        let op = self.decode();
        self.failed = op.is_err();
        Some(op)
    }
}

impl<'a> Ops<'a> {
    fn decode(&mut self) -> Result<Op<'a>> {
        if self.left == 0 {
            return Err(Error::corruption(format!(
                "expected the end of a record's operations, found {} more bytes",
                self.reader.remaining()
            )));
        }
        self.left -= 1;
        let tag = unpack(self.reader.u8("operation kind")?)?;
        let partition = PartitionId(self.reader.varint_as("partition of an operation")?);
        let user_key = self.reader.sized("key")?;
        let value = if has_value(tag.kind) {
            self.reader.sized("value")?
        } else {
            b""
        };
        // A range may begin behind the longest key.
        let longest = KEY_BYTES_MAX + usize::from(tag.kind == Kind::RangeDelete);
        if user_key.len() > longest || value.len() > VALUE_BYTES_MAX + front_bytes(tag) {
            return Err(Error::corruption(format!(
                "a key of {} bytes or a value of {} bytes is out of bounds",
                user_key.len(),
                value.len()
            )));
        }
        Ok(Op {
            partition,
            tag,
            user_key,
            value,
        })
    }
}

fn has_value(kind: Kind) -> bool {
    kind != Kind::Delete
}

/// Kind in the low four bits, flags in the high four.
fn pack(tag: Tag) -> u8 {
    tag.kind as u8 | tag.flags.bits() << 4
}

fn unpack(bits: u8) -> Result<Tag> {
    if bits == COMPRESSED {
        return Err(Error::corruption(
            "expected operations, found compressed ones that cannot be decompressed",
        ));
    }
    Ok(Tag {
        kind: Kind::from_code(bits & 0x0F)?,
        flags: Flags::from_bits(bits >> 4)?,
    })
}
