//! A bucket: the entries of a narrow range of hashes, with their user keys, in the order of their
//! order keys. Lengths, tags and keys come first, then all values. So a lookup scans a fifth of a
//! bucket of small entries.

use std::ops::{Deref, Range};

use crate::base::codec::{ByteReader, packed, varint};
use crate::base::entry::{SeqNo, Tag};
use crate::base::error::{Error, Result};
use crate::table::entry_parts::{
    ValueHandle, entry_code, other_bytes, other_tag, put_tag, tag_bytes, take_varint,
};

/// One entry. Its parts are offsets in the bucket's page.
#[derive(Debug, Clone, Copy)]
pub(super) struct BucketEntry {
    key: (u32, u32),
    value: (u32, u32),
    pub(super) seqno: SeqNo,
    pub(super) tag: Tag,
    /// True if the value's bytes are a [`ValueHandle`].
    pub(super) out_of_line: bool,
}

impl BucketEntry {
    /// The range of the user key.
    #[inline]
    pub(super) fn key(&self) -> Range<usize> {
        self.key.0 as usize..self.key.1 as usize
    }

    #[inline]
    pub(super) fn value(&self) -> Range<usize> {
        self.value.0 as usize..self.value.1 as usize
    }
}

/// A parsed bucket over its page.
#[derive(Debug, Clone)]
pub(super) struct Bucket<P> {
    page: P,
    base: u64,
    tag_bytes: usize,
    count: usize,
    /// The length of every key, and of every value except those of deletes. `None` if each entry
    /// has its own.
    key_bytes: Option<usize>,
    value_bytes: Option<usize>,
    heads: Range<usize>,
}

impl<P: Deref<Target = [u8]>> Bucket<P> {
    /// Parses the front and checks that all parts are inside the page.
    pub(super) fn parse(page: P) -> Result<Self> {
        let mut reader = ByteReader::new(&page);
        let base = reader.varint("base of sequence numbers")?;
        let tag_bytes = usize::from(reader.u8("bytes of a tag")?);
        let count: usize = reader.varint_as("number of entries")?;
        let head_bytes: usize = reader.varint_as("bytes of heads")?;
        let key_bytes = common_bytes(reader.varint_as::<u32>("bytes of all keys")?);
        let value_bytes = common_bytes(reader.varint_as::<u32>("bytes of all values")?);
        let start = reader.position();
        let valid = count > 0
            && count <= head_bytes
            && head_bytes <= reader.remaining()
            && (1..=8).contains(&tag_bytes)
            && u32::try_from(page.len()).is_ok();
        if !valid {
            return Err(Error::corruption(format!(
                "expected a bucket, found {count} entries with {head_bytes} bytes of heads and tags of {tag_bytes} in {} bytes",
                page.len()
            )));
        }
        Ok(Bucket {
            page,
            base,
            tag_bytes,
            count,
            key_bytes,
            value_bytes,
            heads: start..start + head_bytes,
        })
    }

    /// All entries in order.
    pub(super) fn entries(&self) -> Entries<'_> {
        Entries {
            page: &self.page,
            base: self.base,
            tag_bytes: self.tag_bytes,
            key_bytes: self.key_bytes,
            value_bytes: self.value_bytes,
            heads_end: self.heads.end,
            left: self.count,
            head: self.heads.start,
            value: self.heads.end,
        }
    }

    /// The newest version of a key numbered at most `seqno`.
    pub(super) fn find(&self, user_key: &[u8], seqno: SeqNo) -> Result<Option<BucketEntry>> {
        for entry in self.entries() {
            let entry = entry?;
            if self.page[entry.key()] == *user_key && entry.seqno <= seqno {
                return Ok(Some(entry));
            }
        }
        Ok(None)
    }
}

/// A walk over the entries of a bucket.
pub(super) struct Entries<'a> {
    page: &'a [u8],
    base: u64,
    tag_bytes: usize,
    key_bytes: Option<usize>,
    value_bytes: Option<usize>,
    heads_end: usize,
    left: usize,
    head: usize,
    value: usize,
}

impl Entries<'_> {
    #[inline]
    fn decode(&mut self) -> Option<BucketEntry> {
        let heads = self.page.get(..self.heads_end)?;
        let mut at = self.head;
        let mut length = |common: Option<usize>| match common {
            Some(bytes) => Some(bytes),
            None => take_varint(heads, &mut at),
        };
        let key_bytes = length(self.key_bytes)?;
        let mut value_bytes = length(self.value_bytes)?;
        let tag = packed::get(heads, at, self.tag_bytes);
        at += self.tag_bytes;
        let (kind, out_of_line) = match tag & entry_code::OTHER {
            entry_code::PUT => (Tag::PUT, false),
            entry_code::DELETE => {
                if self.value_bytes.is_some() {
                    value_bytes = 0;
                }
                (Tag::DELETE, false)
            }
            entry_code::PUT_OUT_OF_LINE => (Tag::PUT, true),
            _ => {
                at += 1;
                other_tag(*heads.get(at - 1)?)?
            }
        };
        let (key_end, value_end) = (at + key_bytes, self.value + value_bytes);
        if key_end > heads.len() || value_end > self.page.len() {
            return None;
        }
        let entry = BucketEntry {
            key: (at as u32, key_end as u32),
            value: (self.value as u32, value_end as u32),
            seqno: SeqNo(self.base.checked_add(tag >> entry_code::BITS)?),
            tag: kind,
            out_of_line,
        };
        (self.head, self.value) = (key_end, value_end);
        Some(entry)
    }
}

impl Iterator for Entries<'_> {
    type Item = Result<BucketEntry>;

    /// Returns the next entry. After an error it returns no more.
    #[inline]
    fn next(&mut self) -> Option<Result<BucketEntry>> {
        self.left = self.left.checked_sub(1)?;
        let entry = self.decode();
        let at_end = (self.head, self.value) == (self.heads_end, self.page.len());
        match entry {
            Some(entry) if self.left > 0 || at_end => Some(Ok(entry)),
            _ => {
                let error = format!(
                    "expected {} more entries at {} of a bucket with heads up to {} in {} bytes",
                    self.left + 1,
                    self.head,
                    self.heads_end,
                    self.page.len()
                );
                self.left = 0;
                Some(Err(Error::corruption(error)))
            }
        }
    }
}

#[derive(Debug)]
struct EntryFacts {
    seqno: SeqNo,
    tag: Tag,
    out_of_line: bool,
    key_bytes: usize,
    value_bytes: usize,
}

/// The value of an entry, or its place.
#[derive(Debug, Clone, Copy)]
pub(super) enum Value<'a> {
    Inline(&'a [u8]),
    OutOfLine(ValueHandle),
}

/// Lengths that are stored once if they are all equal, and with each entry otherwise.
#[derive(Debug, Clone, Copy, Default)]
struct Lengths {
    first: Option<usize>,
    differ: bool,
    /// The bytes of all lengths, if each is stored.
    bytes: usize,
}

impl Lengths {
    fn add(&mut self, length: usize) {
        self.differ |= self.first.is_some_and(|first| first != length);
        self.first.get_or_insert(length);
        self.bytes += varint::size(length as u64);
    }

    fn with(mut self, length: usize) -> Lengths {
        self.add(length);
        self
    }

    /// Adds the length of a value. A delete has no value, so it does not count for the common
    /// length.
    fn add_value(&mut self, tag: Tag, length: usize) {
        match (tag, length) {
            (Tag::DELETE, 0) => self.bytes += 1,
            _ => {
                self.add(length);
                self.differ |= tag == Tag::DELETE;
            }
        }
    }

    /// The code in the front of the bucket: 0 if each entry has its own length, else the common
    /// length plus one.
    fn code(&self) -> u64 {
        match self.differ {
            true => 0,
            false => 1 + self.first.unwrap_or(0) as u64,
        }
    }
}

fn common_bytes(code: u32) -> Option<usize> {
    code.checked_sub(1).map(|bytes| bytes as usize)
}

/// Collects the entries of one bucket, and then of the next. The entries stay separate until the
/// bucket is full: only then the smallest sequence number is known, and the others are stored as
/// small distances above it.
#[derive(Debug, Default)]
pub(super) struct BucketBuilder {
    pending: Vec<EntryFacts>,
    keys: Vec<u8>,
    values: Vec<u8>,
    key_lengths: Lengths,
    /// The lengths of the values except those of deletes.
    value_lengths: Lengths,
    /// The bytes of the kinds that need one.
    others_bytes: usize,
    base: Option<SeqNo>,
    largest: SeqNo,
    heads: Vec<u8>,
}

impl BucketBuilder {
    pub(super) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// An upper bound on the bucket's size with one more entry. The entry's value has at most
    /// `value_bytes_max` bytes in the bucket, and may be out of line.
    pub(super) fn bytes_max_with(
        &self,
        user_key: &[u8],
        seqno: SeqNo,
        tag: Tag,
        value_bytes: (usize, bool),
    ) -> usize {
        let (value_bytes_max, out_of_line) = value_bytes;
        let entries = self.pending.len() + 1;
        let base = self.base.map_or(seqno, |base| base.min(seqno));
        let tags_bytes = entries * tag_bytes(base, self.largest.max(seqno));
        let key_lengths = self.key_lengths.with(user_key.len());
        let mut value_lengths = self.value_lengths;
        value_lengths.add_value(tag, value_bytes_max);
        // The length of a place is not known yet.
        value_lengths.differ |= out_of_line;
        let heads_bytes = self.keys.len()
            + user_key.len()
            + self.others_bytes
            + other_bytes(tag, out_of_line)
            + lengths_bytes(&key_lengths, &value_lengths)
            + tags_bytes;
        let numbers = [
            base.0,
            entries as u64,
            heads_bytes as u64,
            key_lengths.code(),
            // A place may have the common length.
            value_lengths.code().max(1 + value_bytes_max as u64),
        ];
        let front_bytes = 1 + numbers.map(varint::size).iter().sum::<usize>();
        front_bytes + heads_bytes + self.values.len() + value_bytes_max
    }

    /// Appends an entry.
    pub(super) fn add(&mut self, user_key: &[u8], seqno: SeqNo, tag: Tag, value: Value<'_>) {
        let start = self.values.len();
        match value {
            Value::Inline(value) => self.values.extend_from_slice(value),
            Value::OutOfLine(place) => place.put(&mut self.values),
        }
        let value_bytes = self.values.len() - start;
        let out_of_line = matches!(value, Value::OutOfLine(_));
        self.keys.extend_from_slice(user_key);
        self.key_lengths.add(user_key.len());
        self.value_lengths.add_value(tag, value_bytes);
        self.others_bytes += other_bytes(tag, out_of_line);
        self.base = Some(self.base.map_or(seqno, |base| base.min(seqno)));
        self.largest = self.largest.max(seqno);
        self.pending.push(EntryFacts {
            seqno,
            tag,
            out_of_line,
            key_bytes: user_key.len(),
            value_bytes,
        });
    }

    /// The approximate bytes of the entries so far.
    pub(super) fn bytes(&self) -> usize {
        let lengths = lengths_bytes(&self.key_lengths, &self.value_lengths);
        let base = self.base.unwrap_or(self.largest);
        let tags_bytes = self.pending.len() * tag_bytes(base, self.largest);
        self.keys.len() + self.values.len() + self.others_bytes + lengths + tags_bytes
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.keys.capacity()
            + self.values.capacity()
            + self.heads.capacity()
            + self.pending.capacity() * size_of::<EntryFacts>()
    }

    /// Replaces `out` with the bucket and starts the next one.
    pub(super) fn finish(&mut self, out: &mut Vec<u8>) {
        let base = self.base.take().expect("a bucket has entries");
        let tag_bytes = tag_bytes(base, self.largest);
        self.heads.clear();
        let mut keys = &self.keys[..];
        for pending in &self.pending {
            let (key, rest) = keys.split_at(pending.key_bytes);
            keys = rest;
            if self.key_lengths.differ {
                varint::put(&mut self.heads, pending.key_bytes as u64);
            }
            if self.value_lengths.differ {
                varint::put(&mut self.heads, pending.value_bytes as u64);
            }
            let above_base = pending.seqno.0 - base.0;
            let heads = &mut self.heads;
            put_tag(
                heads,
                pending.tag,
                pending.out_of_line,
                above_base,
                tag_bytes,
            );
            heads.extend_from_slice(key);
        }
        out.clear();
        varint::put(out, base.0);
        out.push(tag_bytes as u8);
        varint::put(out, self.pending.len() as u64);
        varint::put(out, self.heads.len() as u64);
        varint::put(out, self.key_lengths.code());
        varint::put(out, self.value_lengths.code());
        out.extend_from_slice(&self.heads);
        out.extend_from_slice(&self.values);
        self.pending.clear();
        self.keys.clear();
        self.values.clear();
        (self.key_lengths, self.value_lengths) = Default::default();
        self.others_bytes = 0;
        self.largest = SeqNo(0);
    }
}

/// The bytes of the lengths that are stored with each entry.
fn lengths_bytes(keys: &Lengths, values: &Lengths) -> usize {
    let stored = [keys, values].into_iter().filter(|lengths| lengths.differ);
    stored.map(|lengths| lengths.bytes).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::entry::{Flags, Kind};
    use crate::base::page::Handle;

    /// A key, its number and tag, and the value unless it is out of line.
    type Version = (Vec<u8>, SeqNo, Tag, Option<Vec<u8>>);

    fn entries() -> Vec<Version> {
        let operand = Tag {
            kind: Kind::Merge,
            flags: Flags::NONE,
        };
        let entry = |i: u64| {
            let tag = [Tag::PUT, Tag::DELETE, operand, Tag::PUT][i as usize % 4];
            let value = (i % 4 != 3).then(|| vec![i as u8; (i as usize * 7) % 300]);
            let key = vec![b'k'; 1 + i as usize * 13 % 200];
            (key, SeqNo(9000 - i * 31), tag, value)
        };
        (0..40).map(entry).collect()
    }

    fn build() -> Vec<u8> {
        let (mut builder, mut out) = (BucketBuilder::default(), Vec::new());
        let elsewhere = ValueHandle {
            handle: Handle {
                offset: 1 << 40,
                bytes: 5000,
            },
            bytes: 6000,
        };
        for (key, seqno, tag, value) in entries() {
            let value_bytes = value.as_ref().map_or(16, Vec::len);
            let place = (value_bytes, value.is_none());
            let most = builder.bytes_max_with(&key, seqno, tag, place);
            let value = value
                .as_deref()
                .map_or(Value::OutOfLine(elsewhere), Value::Inline);
            builder.add(&key, seqno, tag, value);
            let mut same = BucketBuilder::default();
            std::mem::swap(&mut same, &mut builder);
            same.finish(&mut out);
            assert!(out.len() <= most, "{} of {most}", out.len());
            // The same entries make the same bucket again.
            for entry in Bucket::parse(&out[..]).unwrap().entries() {
                let entry = entry.unwrap();
                let value = match entry.out_of_line {
                    true => Value::OutOfLine(ValueHandle::decode(&out[entry.value()]).unwrap()),
                    false => Value::Inline(&out[entry.value()]),
                };
                builder.add(&out[entry.key()], entry.seqno, entry.tag, value);
            }
        }
        builder.finish(&mut out);
        out
    }

    #[test]
    fn entries_are_read_as_they_were_added() {
        let page = build();
        let bucket = Bucket::parse(&page[..]).unwrap();
        let found: Vec<BucketEntry> = bucket.entries().map(Result::unwrap).collect();
        assert_eq!(found.len(), entries().len());
        for (found, (key, seqno, tag, value)) in found.iter().zip(entries()) {
            assert_eq!(page[found.key()], key);
            assert_eq!((found.seqno, found.tag), (seqno, tag));
            assert_eq!(found.out_of_line, value.is_none());
            assert!(value.is_none_or(|value| page[found.value()] == value));
            let newest = bucket.find(&key, SeqNo::MAX).unwrap().unwrap();
            let first = entries().into_iter().find(|entry| entry.0 == key).unwrap();
            assert_eq!(newest.seqno, first.1);
        }
        assert!(bucket.find(b"absent", SeqNo::MAX).unwrap().is_none());
        assert!(bucket.find(&entries()[0].0, SeqNo(5)).unwrap().is_none());
    }

    #[test]
    fn damaged_buckets_do_not_panic() {
        let page = build();
        let go_over = |bytes: &[u8]| {
            if let Ok(bucket) = Bucket::parse(bytes) {
                let _ = bucket.find(b"kkk", SeqNo(7));
                let whole = bucket.entries().collect::<Result<Vec<_>>>();
                return whole.is_ok();
            }
            false
        };
        assert!(go_over(&page));
        for cut in 0..page.len() {
            assert!(!go_over(&page[..cut]), "cut to {cut} bytes");
        }
        for bit in 0..page.len() * 8 {
            let mut damaged = page.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            go_over(&damaged);
        }
    }
}
