//! The bytes of the log: segment headers, records and their operations. Pure: no I/O here.
//!
//! `docs/format/wal.md` draws them. Every checksum is seeded with the segment's number and the
//! offset, so that former contents of a recycled file do not verify. Nothing here panics on bytes
//! from disk.

use crate::base::codec::checksum::{agree, extend, place, seeded};
use crate::base::codec::features::Features;
use crate::base::codec::{ByteReader, varint};
use crate::base::entry::{
    Flags, KEY_BYTES_MAX, KEY_BYTES_MIN, Kind, LogPosition, PartitionId, SeqNo, Tag,
    VALUE_BYTES_MAX,
};
use crate::base::error::{Error, Result};

/// The size of a segment's header; the first record starts here.
pub(crate) const SEGMENT_HEADER_BYTES: usize = 64;
/// The size of a record's header; its payload starts there.
pub(crate) const RECORD_HEADER_BYTES: usize = 32;
/// Records start at multiples of this.
pub(crate) const RECORD_ALIGN: usize = 8;
/// The version of the log's format.
pub(crate) const VERSION: u32 = 0;
/// The longest encoding of an operation without its key and value: kind and flags, partition, two
/// lengths.
pub(crate) const OP_OVERHEAD_BYTES_MAX: usize = 1 + 5 + 5 + 5;

const MAGIC: [u8; 8] = *b"hedgelog";

/// The header of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    pub(crate) features: Features,
    pub(crate) segment: u32,
    /// The log was durable up to here when the segment was begun.
    pub(crate) known_durable: LogPosition,
    /// The number from which the segment's records count.
    pub(crate) first_seqno: SeqNo,
}

impl SegmentHeader {
    pub(crate) fn new(segment: u32, known_durable: LogPosition, first_seqno: SeqNo) -> Self {
        SegmentHeader {
            features: Features::plain(VERSION),
            segment,
            known_durable,
            first_seqno,
        }
    }

    pub(crate) fn encode(&self) -> [u8; SEGMENT_HEADER_BYTES] {
        let mut out = Vec::with_capacity(SEGMENT_HEADER_BYTES);
        out.extend_from_slice(&MAGIC);
        self.features.encode(&mut out);
        out.extend_from_slice(&self.segment.to_le_bytes());
        put_position(&mut out, self.known_durable);
        out.extend_from_slice(&self.first_seqno.0.to_le_bytes());
        out.resize(SEGMENT_HEADER_BYTES - 4, 0);
        let checksum = seeded(place(u64::from(self.segment), 0), &out);
        out.extend_from_slice(&checksum.to_le_bytes());
        std::array::from_fn(|i| out[i])
    }

    /// Reads the header of segment number `segment`. `None` if the bytes are not this header: the
    /// file is new, or was renamed for recycling and its new header never reached the disk. A later
    /// version is `FormatVersion`.
    pub(crate) fn decode(bytes: &[u8], segment: u32) -> Result<Option<SegmentHeader>> {
        let Some((covered, checksum)) = bytes
            .get(..SEGMENT_HEADER_BYTES)
            .and_then(|header| header.split_last_chunk::<4>())
        else {
            return Ok(None);
        };
        let expected = seeded(place(u64::from(segment), 0), covered);
        if !agree(u32::from_le_bytes(*checksum), expected) {
            return Ok(None);
        }
        let mut reader = ByteReader::new(covered);
        if reader.take(MAGIC.len(), "magic")? != MAGIC {
            return Ok(None);
        }
        let features = Features::decode(&mut reader)?;
        features.check_readable("a log segment", VERSION)?;
        Ok(Some(SegmentHeader {
            features,
            segment: reader.u32("segment number")?,
            known_durable: position(&mut reader)?,
            first_seqno: SeqNo(reader.u64("first sequence number")?),
        }))
    }
}

/// The header of a record, before its payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RecordHeader {
    /// The size of the payload without padding.
    pub(crate) payload_bytes: u32,
    pub(crate) payload_checksum: u32,
    /// The number of operations; each has its own sequence number.
    pub(crate) ops: u32,
    /// The number of the first operation.
    pub(crate) first_seqno: SeqNo,
    /// The log was durable up to here when the record was written.
    pub(crate) known_durable: LogPosition,
}

impl RecordHeader {
    /// The size of the whole record with its padding.
    pub(crate) fn record_bytes(&self) -> u64 {
        record_bytes(u64::from(self.payload_bytes))
    }

    /// The number of the last operation. Without operations, the number before the record.
    pub(crate) fn last_seqno(&self) -> SeqNo {
        SeqNo((self.first_seqno.0 + u64::from(self.ops)).saturating_sub(1))
    }

    /// Returns true if these are the header's payload bytes. Padding is not part of them.
    pub(crate) fn covers(&self, payload: &[u8], segment: u32, offset: u32) -> bool {
        payload.len() == self.payload_bytes as usize
            && agree(
                self.payload_checksum,
                payload_checksum(payload, segment, offset),
            )
    }
}

/// The size in the log of a record with this much payload: header, payload, padding.
pub(crate) const fn record_bytes(payload_bytes: u64) -> u64 {
    (RECORD_HEADER_BYTES as u64 + payload_bytes).next_multiple_of(RECORD_ALIGN as u64)
}

/// The header for a payload of less than 4 GiB at this place. The caller writes header, payload,
/// and zeros up to [`record_bytes`].
pub(crate) fn seal(
    payload: &[u8],
    ops: u32,
    first_seqno: SeqNo,
    known_durable: LogPosition,
    at: LogPosition,
) -> [u8; RECORD_HEADER_BYTES] {
    assert!(payload.len() <= u32::MAX as usize);
    debug_assert!((at.offset as usize).is_multiple_of(RECORD_ALIGN));
    debug_assert!(known_durable <= at);
    let mut header = [0; RECORD_HEADER_BYTES];
    header[4..8].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    header[8..12].copy_from_slice(&payload_checksum(payload, at.segment, at.offset).to_le_bytes());
    header[12..16].copy_from_slice(&ops.to_le_bytes());
    header[16..24].copy_from_slice(&first_seqno.0.to_le_bytes());
    header[24..28].copy_from_slice(&known_durable.segment.to_le_bytes());
    header[28..32].copy_from_slice(&known_durable.offset.to_le_bytes());
    let checksum = seeded(seed(at.segment, at.offset), &header[4..]);
    header[..4].copy_from_slice(&checksum.to_le_bytes());
    header
}

/// Reads the header at an offset of a segment; `None` if no record of this segment starts here.
#[inline]
pub(crate) fn decode_header(bytes: &[u8], segment: u32, offset: u32) -> Option<RecordHeader> {
    let (checksum, covered) = bytes.get(..RECORD_HEADER_BYTES)?.split_first_chunk::<4>()?;
    let expected = seeded(seed(segment, offset), covered);
    if !agree(u32::from_le_bytes(*checksum), expected) {
        return None;
    }
    let mut reader = ByteReader::new(covered);
    let header = RecordHeader {
        payload_bytes: reader.u32("payload size").ok()?,
        payload_checksum: reader.u32("payload checksum").ok()?,
        ops: reader.u32("operation count").ok()?,
        first_seqno: SeqNo(reader.u64("first sequence number").ok()?),
        known_durable: position(&mut reader).ok()?,
    };
    let plausible = header.first_seqno <= SeqNo::MAX
        && header.last_seqno() <= SeqNo::MAX
        && header.known_durable <= LogPosition { segment, offset };
    plausible.then_some(header)
}

/// The seed of a record's checksums.
fn seed(segment: u32, offset: u32) -> u64 {
    place(u64::from(segment), u64::from(offset))
}

/// The checksum of a payload. A leading byte makes its seed differ from the header's, so that a
/// payload cannot pass for a header.
fn payload_checksum(payload: &[u8], segment: u32, offset: u32) -> u32 {
    extend(seeded(seed(segment, offset), b"p"), payload)
}

fn put_position(out: &mut Vec<u8>, position: LogPosition) {
    out.extend_from_slice(&position.segment.to_le_bytes());
    out.extend_from_slice(&position.offset.to_le_bytes());
}

fn position(reader: &mut ByteReader<'_>) -> Result<LogPosition> {
    Ok(LogPosition {
        segment: reader.u32("segment of a log position")?,
        offset: reader.u32("offset of a log position")?,
    })
}

/// Operations in the encoding of the log: the bytes that a batch collects are the bytes that the
/// log writes.
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
        debug_assert!((KEY_BYTES_MIN..=KEY_BYTES_MAX).contains(&user_key.len()));
        debug_assert!(value.len() <= VALUE_BYTES_MAX);
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
        if !(KEY_BYTES_MIN..=KEY_BYTES_MAX).contains(&user_key.len())
            || value.len() > VALUE_BYTES_MAX
        {
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
    Ok(Tag {
        kind: Kind::from_code(bits & 0x0F)?,
        flags: Flags::from_bits(bits >> 4)?,
    })
}

#[cfg(test)]
mod tests;
