//! The bytes of the log: headers of segments and records. Pure: no I/O here.
//!
//! `docs/format/wal.md` draws them. Every checksum is seeded with the segment's number and the
//! offset, so that former contents of a recycled file do not verify. Nothing here panics on bytes
//! from disk.

use crate::base::codec::ByteReader;
use crate::base::codec::checksum::{agree, extend, place, seeded};
use crate::base::codec::features::Features;
use crate::base::entry::{LogPosition, SeqNo};
use crate::base::error::Result;

/// The size of a segment's header; the first record starts here.
pub(crate) const SEGMENT_HEADER_BYTES: usize = 64;
/// The size of a full record's header; its payload starts there.
pub(crate) const RECORD_HEADER_BYTES: usize = 32;
/// The size of a short record's header.
pub(crate) const SHORT_HEADER_BYTES: usize = 12;
/// Records start at multiples of this.
pub(crate) const RECORD_ALIGN: usize = 4;
/// The version of the log's format.
pub(crate) const VERSION: u32 = 1;
/// The incompatible feature of a segment whose payloads may be compressed.
const COMPRESSED: u32 = 1;
const MAGIC: [u8; 8] = *b"hedgelog";
/// This bit in the place of a full record's payload size marks a short record.
const SHORT: u32 = 1 << 31;
/// The largest payload of a short record. A reader that looks for records checks that many bytes at
/// each place that looks like a short one.
const SHORT_PAYLOAD_BYTES_MAX: usize = 1023;
/// The most operations of a short record.
const SHORT_OPS_MAX: u32 = 255;

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

    /// The header of a segment whose payloads may be compressed, if `compresses`.
    pub(crate) fn compressing(mut self, compresses: bool) -> Self {
        self.features.incompatible = if compresses { COMPRESSED } else { 0 };
        self
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
        features.check_readable("a log segment", VERSION, COMPRESSED)?;
        Ok(Some(SegmentHeader {
            features,
            segment: reader.u32("segment number")?,
            known_durable: position(&mut reader)?,
            first_seqno: SeqNo(reader.u64("first sequence number")?),
        }))
    }
}

/// The two forms of a record's header. A short one says neither what was durable nor its number in
/// full, and has one checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Full,
    Short,
}

impl Form {
    /// The shortest form for a record that need not say what was durable. `after` is its number
    /// counted from the segment's.
    pub(crate) fn shortest(payload_bytes: usize, ops: u32, after: u64) -> Form {
        let fits = payload_bytes <= SHORT_PAYLOAD_BYTES_MAX
            && (1..=SHORT_OPS_MAX).contains(&ops)
            && after <= u64::from(u32::MAX);
        if fits { Form::Short } else { Form::Full }
    }

    /// The form of a record, by its first 8 bytes.
    pub(crate) fn of(front: &[u8]) -> Option<Form> {
        let word = front.get(4..)?.first_chunk::<4>()?;
        Some(match u32::from_le_bytes(*word) & SHORT {
            0 => Form::Full,
            _ => Form::Short,
        })
    }

    pub(crate) fn header_bytes(self) -> usize {
        match self {
            Form::Full => RECORD_HEADER_BYTES,
            Form::Short => SHORT_HEADER_BYTES,
        }
    }

    /// The offset behind a record at `offset`, with its padding.
    pub(crate) fn end(self, offset: u64, payload_bytes: u64) -> u64 {
        let end = offset + self.header_bytes() as u64 + payload_bytes;
        match self {
            Form::Full => end.next_multiple_of(8),
            Form::Short => end.next_multiple_of(RECORD_ALIGN as u64),
        }
    }
}

/// The header of a record, before its payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RecordHeader {
    pub(crate) form: Form,
    /// The size of the payload without padding.
    pub(crate) payload_bytes: u32,
    /// The number of operations; each has its own sequence number.
    pub(crate) ops: u32,
    /// The number of the first operation.
    pub(crate) first_seqno: SeqNo,
    /// The log was durable up to here when the record was written. Only full records say it.
    pub(crate) known_durable: Option<LogPosition>,
}

impl RecordHeader {
    /// Returns true if this is the seal of a segment, the record without operations: the log
    /// continues in the next segment.
    pub(crate) fn is_seal(&self) -> bool {
        self.ops == 0
    }

    /// The offset behind the record, if it is at this one.
    pub(crate) fn end(&self, offset: u32) -> u64 {
        self.form
            .end(u64::from(offset), u64::from(self.payload_bytes))
    }

    /// The payload among the bytes of the record.
    pub(crate) fn payload<'a>(&self, record: &'a [u8]) -> Option<&'a [u8]> {
        let from = self.form.header_bytes();
        record.get(from..from + self.payload_bytes as usize)
    }

    /// Returns true if these bytes, up to its end, are the record with this header, padding
    /// included.
    pub(crate) fn verifies(&self, record: &[u8], segment: u32, offset: u32) -> bool {
        let Some(payload) = self.payload(record) else {
            return false;
        };
        let (header, behind) = record.split_at(self.form.header_bytes());
        let (at, expected) = match self.form {
            Form::Full => (8, payload_checksum(payload, segment, offset)),
            Form::Short => (0, short_checksum(&header[4..], payload, segment, offset)),
        };
        let checksum = header[at..].first_chunk::<4>();
        checksum.is_some_and(|found| agree(u32::from_le_bytes(*found), expected))
            && behind[payload.len()..].iter().all(|&byte| byte == 0)
    }

    /// The number of the last operation. Without operations, the number before the record.
    pub(crate) fn last_seqno(&self) -> SeqNo {
        SeqNo((self.first_seqno.0 + u64::from(self.ops)).saturating_sub(1))
    }
}

/// The header of a full record for a payload of less than 2 GiB at this place. The caller writes
/// header, payload, and zeros up to [`Form::end`].
pub(crate) fn seal(
    payload: &[u8],
    ops: u32,
    first_seqno: SeqNo,
    known_durable: LogPosition,
    at: LogPosition,
) -> [u8; RECORD_HEADER_BYTES] {
    assert!(payload.len() < SHORT as usize);
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

/// The header of a short record, if that is the [shortest form](Form::shortest) of the record.
/// `after` is its number counted from the segment's.
pub(crate) fn seal_short(
    payload: &[u8],
    ops: u32,
    after: u64,
    at: LogPosition,
) -> [u8; SHORT_HEADER_BYTES] {
    assert!(Form::shortest(payload.len(), ops, after) == Form::Short);
    let mut header = [0; SHORT_HEADER_BYTES];
    let front = SHORT | ops << 16 | payload.len() as u32;
    header[4..8].copy_from_slice(&front.to_le_bytes());
    header[8..12].copy_from_slice(&(after as u32).to_le_bytes());
    let checksum = short_checksum(&header[4..], payload, at.segment, at.offset);
    header[..4].copy_from_slice(&checksum.to_le_bytes());
    header
}

/// The payload size of the short record that may begin with these bytes; `None` if none does.
fn short_payload_bytes(front: u32) -> Option<usize> {
    let payload_bytes = (front & 0xFFFF) as usize;
    let ops = (front & !SHORT) >> 16;
    let is_short = front & SHORT != 0
        && payload_bytes <= SHORT_PAYLOAD_BYTES_MAX
        && (1..=SHORT_OPS_MAX).contains(&ops);
    is_short.then_some(payload_bytes)
}

/// Returns true if a record may start with these 8 bytes. Rules out, without a checksum, bytes that
/// were never written and records that would not fit into `left` bytes.
pub(crate) fn may_start(start: [u8; 8], left: u64) -> bool {
    let word = u64::from_le_bytes(start);
    let front = (word >> 32) as u32;
    let end = match front & SHORT {
        0 => Form::Full.end(0, u64::from(front)),
        _ => match short_payload_bytes(front) {
            Some(payload_bytes) => Form::Short.end(0, payload_bytes as u64),
            None => return false,
        },
    };
    word != 0 && end <= left
}

/// Reads the header at an offset of a segment; `None` if no record of this segment starts here. The
/// checksum of a short record covers its payload, too: [`RecordHeader::verifies`].
#[inline]
pub(crate) fn decode_header(
    bytes: &[u8],
    segment: u32,
    offset: u32,
    first_seqno: SeqNo,
) -> Option<RecordHeader> {
    let header = match Form::of(bytes)? {
        Form::Full => decode_full(bytes.get(..RECORD_HEADER_BYTES)?, segment, offset)?,
        Form::Short => decode_short(bytes.get(..SHORT_HEADER_BYTES)?, first_seqno)?,
    };
    let plausible = header.first_seqno <= SeqNo::MAX
        && header.last_seqno() <= SeqNo::MAX
        && header.known_durable <= Some(LogPosition { segment, offset });
    plausible.then_some(header)
}

fn decode_full(bytes: &[u8], segment: u32, offset: u32) -> Option<RecordHeader> {
    let (checksum, covered) = bytes.split_first_chunk::<4>()?;
    let expected = seeded(seed(segment, offset), covered);
    if !agree(u32::from_le_bytes(*checksum), expected) {
        return None;
    }
    let mut reader = ByteReader::new(covered);
    let payload_bytes = reader.u32("payload size").ok()?;
    let _payload_checksum = reader.u32("payload checksum").ok()?;
    Some(RecordHeader {
        form: Form::Full,
        payload_bytes,
        ops: reader.u32("operation count").ok()?,
        first_seqno: SeqNo(reader.u64("first sequence number").ok()?),
        known_durable: Some(position(&mut reader).ok()?),
    })
}

fn decode_short(bytes: &[u8], first_seqno: SeqNo) -> Option<RecordHeader> {
    let mut reader = ByteReader::new(bytes.get(4..)?);
    let front = reader.u32("sizes").ok()?;
    let after = reader.u32("sequence number").ok()?;
    Some(RecordHeader {
        form: Form::Short,
        payload_bytes: short_payload_bytes(front)? as u32,
        ops: (front & !SHORT) >> 16,
        first_seqno: SeqNo(first_seqno.0.saturating_add(u64::from(after))),
        known_durable: None,
    })
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

/// The checksum of a short record, over its header after the checksum and its payload.
fn short_checksum(header: &[u8], payload: &[u8], segment: u32, offset: u32) -> u32 {
    extend(seeded(seed(segment, offset), header), payload)
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

#[cfg(test)]
mod tests;
