//! The types that every layer shares: sequence numbers, entry kinds and flags, key hashes, the
//! numbers of keyspaces and partitions, positions in the log.
//!
//! An *entry* is (order key, sequence number, kind, flags, value). Entries are ordered by order key
//! ascending, then by sequence number descending, so that the newest version of a key comes first.
//! Recency is the sequence number alone.

use crate::base::error::{Error, ErrorKind, Result};

/// The longest user key, in bytes. The empty key is a key like any other.
pub const KEY_BYTES_MAX: usize = 64 << 10;
/// The longest value, in bytes.
pub const VALUE_BYTES_MAX: usize = 64 << 20;

/// The memory that an entry takes in a memtable beyond its key and value: roughly one node of the
/// map.
pub(crate) const ENTRY_OVERHEAD_BYTES: usize = 48;

/// A number that orders all writes of a database: every operation of every batch has its own.
/// 0 is before every write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct SeqNo(pub u64);

impl SeqNo {
    /// After every write. A read at this number sees the newest version.
    pub(crate) const MAX: SeqNo = SeqNo((1 << 56) - 1);
    /// The largest number of a database when it is opened. It leaves half of all numbers: enough
    /// for more than a hundred years of ten million writes a second.
    pub(crate) const OPENED_MAX: SeqNo = SeqNo(SeqNo::MAX.0 / 2);
    /// The number of a put that every reader sees and that no older version lies below.
    pub(crate) const SETTLED: SeqNo = SeqNo(1);
    /// The first number of the operations of a batch that reads its own writes. Above the number of
    /// every commit.
    pub(crate) const OWN: SeqNo = SeqNo(SeqNo::MAX.0 / 4 * 3);
}

/// The number of a keyspace; never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyspaceId(pub u32);

/// The number of a run. Within a group a larger number is newer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId(pub u64);

/// The number of a partition, unique in the database; never reused. Log records name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartitionId(pub u32);

impl PartitionId {
    /// No partition: that of a mark in the log.
    pub(crate) const NONE: PartitionId = PartitionId(u32::MAX);
}

/// A position in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct LogPosition {
    /// The number of the segment.
    pub segment: u32,
    /// Bytes from the beginning of its file.
    pub offset: u32,
}

impl LogPosition {
    /// The position as one integer with the same order.
    pub(crate) fn packed(self) -> u64 {
        u64::from(self.segment) << 32 | u64::from(self.offset)
    }

    pub(crate) fn unpacked(packed: u64) -> LogPosition {
        LogPosition {
            segment: (packed >> 32) as u32,
            offset: packed as u32,
        }
    }
}

/// The effect of an entry on its key. The numbers are in the formats of log and tables.
/// `docs/format/operations.md` says what the reserved kinds will mean there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
#[non_exhaustive]
pub enum Kind {
    /// The key has no value from here on (a tombstone).
    Delete = 0,
    /// The key has this value.
    Put = 1,
    /// An operand that a merge operator combines with older versions.
    Merge = 2,
    /// The keys of a range have no value from here on: those from this key to the one in the
    /// value, or those with a prefix. Never an entry of a block: tables keep ranges by themselves.
    RangeDelete = 3,
    /// Reserved: the value is stored in another file.
    ValueRef = 4,
}

impl Kind {
    #[inline]
    pub(crate) fn from_code(code: u8) -> Result<Kind> {
        Ok(match code {
            0 => Kind::Delete,
            1 => Kind::Put,
            2 => Kind::Merge,
            3 => Kind::RangeDelete,
            4 => Kind::ValueRef,
            _ => return Err(unknown_kind(code)),
        })
    }
}

#[cold]
fn unknown_kind(code: u8) -> Error {
    Error::corruption(format!("expected an entry kind of 0 to 4, found {code}"))
}

/// Properties of one entry, a set of bits. Unknown bits are `Corruption` when decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct Flags(u8);

impl Flags {
    pub(crate) const NONE: Flags = Flags(0);
    /// The value begins with its time of expiry ([`crate::base::expiry`]).
    pub(crate) const EXPIRES: Flags = Flags(1);
    /// The value of an operand begins with the number of the oldest operand that it covers
    /// ([`covered`]).
    pub(crate) const COVERS: Flags = Flags(4);
    const KNOWN: u8 = 5;

    #[inline]
    pub(crate) fn from_bits(bits: u8) -> Result<Flags> {
        match bits & !Flags::KNOWN {
            0 => Ok(Flags(bits)),
            _ => Err(unknown_flags(bits)),
        }
    }

    pub(crate) fn bits(self) -> u8 {
        self.0
    }

    pub(crate) fn has(self, flags: Flags) -> bool {
        self.0 & flags.0 == flags.0
    }
}

#[cold]
fn unknown_flags(bits: u8) -> Error {
    Error::corruption(format!(
        "expected entry flags within 0x05, found {bits:#04x}"
    ))
}

/// Kind and flags in 16 bits, as memtables store them: kind in the low byte, flags in the high one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Tag {
    pub(crate) kind: Kind,
    pub(crate) flags: Flags,
}

impl Tag {
    pub(crate) const PUT: Tag = Tag::new(Kind::Put, Flags::NONE);
    pub(crate) const DELETE: Tag = Tag::new(Kind::Delete, Flags::NONE);
    pub(crate) const MERGE: Tag = Tag::new(Kind::Merge, Flags::NONE);
    /// An operand that stands for all operands of its key from a number to its own. They may still
    /// be there, for readers who do not see this one.
    pub(crate) const MERGE_COVERING: Tag = Tag::new(Kind::Merge, Flags::COVERS);
    pub(crate) const PUT_EXPIRING: Tag = Tag::new(Kind::Put, Flags::EXPIRES);
    pub(crate) const RANGE_DELETE: Tag = Tag::new(Kind::RangeDelete, Flags::NONE);

    const fn new(kind: Kind, flags: Flags) -> Tag {
        Tag { kind, flags }
    }

    pub(crate) fn to_bits(self) -> u16 {
        self.kind as u16 | (u16::from(self.flags.bits()) << 8)
    }

    #[inline]
    pub(crate) fn from_bits(bits: u16) -> Result<Tag> {
        let [kind, flags] = bits.to_le_bytes();
        Ok(Tag {
            kind: Kind::from_code(kind)?,
            flags: Flags::from_bits(flags)?,
        })
    }

    /// The error of an entry of a kind that is not known yet.
    #[cold]
    pub(crate) fn of_later_version(self) -> Error {
        let kind = self.kind;
        Error::new(
            ErrorKind::FormatVersion,
            format!(
                "expected a put, a delete or an operand, found an entry of kind {kind:?} of a \
                 later version"
            ),
        )
    }
}

/// The bytes before the value proper that a tag stands for.
pub(crate) fn front_bytes(tag: Tag) -> usize {
    match tag.flags.has(Flags::EXPIRES) {
        true => EXPIRY_BYTES,
        false => 0,
    }
}

/// The bytes of the time at the beginning of a value that expires.
pub(crate) const EXPIRY_BYTES: usize = 8;
/// The bytes of the number at the beginning of a covering operand.
pub(crate) const COVERING_BYTES: usize = 8;

/// The number of the oldest operand that an operand stands for, and the operand itself.
pub(crate) fn covered(seqno: SeqNo, tag: Tag, value: &[u8]) -> Result<(SeqNo, &[u8])> {
    if !tag.flags.has(Flags::COVERS) {
        return Ok((seqno, value));
    }
    let number = value.split_first_chunk();
    let number = number.map(|(from, operand)| (SeqNo(u64::from_le_bytes(*from)), operand));
    let in_order = number.filter(|(from, _)| *from <= seqno);
    in_order.ok_or_else(|| {
        Error::corruption(format!(
            "expected an operand that covers others from a number up to {} on, found {:?}",
            seqno.0,
            value.escape_ascii().to_string()
        ))
    })
}

/// The bits of the high half of a hash that choose the partition.
const PARTITION_BITS: u32 = 16;

/// The hash of a user key, computed once per operation. `docs/format/hash.md` lists the use of
/// every bit. Partition, trie path and bucket use the high half; fingerprints and filter positions
/// use the low half. So no two uses share a bit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct KeyHash(pub(crate) u128);

impl KeyHash {
    /// Hashes a user key with the seed of its keyspace.
    pub(crate) fn of(user_key: &[u8], seed: u64) -> KeyHash {
        KeyHash(xxhash_rust::xxh3::xxh3_128_with_seed(user_key, seed))
    }

    /// The half that routes. Bits 48..64 choose the partition.
    pub(crate) fn high(self) -> u64 {
        (self.0 >> 64) as u64
    }

    /// The first sort key of the order `hashed`: the bits of the high half that do not choose the
    /// partition, then the bits that do.
    pub(crate) fn order(self) -> u64 {
        self.high().rotate_left(PARTITION_BITS)
    }

    /// The half that filters.
    pub(crate) fn low(self) -> u64 {
        self.0 as u64
    }
}

pub(crate) fn check_key(key: &[u8]) -> Result<()> {
    if key.len() > KEY_BYTES_MAX {
        return Err(Error::invalid(format!(
            "expected a key of at most {KEY_BYTES_MAX} bytes, found {} bytes",
            key.len()
        )));
    }
    Ok(())
}

pub(crate) fn check_value(value: &[u8]) -> Result<()> {
    check_stored(Tag::PUT, value)
}

/// Checks a value as it is stored with a tag.
#[inline]
pub(crate) fn check_stored(tag: Tag, value: &[u8]) -> Result<()> {
    let bytes = value.len().saturating_sub(front_bytes(tag));
    match bytes <= VALUE_BYTES_MAX {
        true => Ok(()),
        false => Err(too_long(bytes)),
    }
}

#[cold]
fn too_long(bytes: usize) -> Error {
    Error::invalid(format!(
        "expected a value of at most {VALUE_BYTES_MAX} bytes, found {bytes} bytes"
    ))
}
