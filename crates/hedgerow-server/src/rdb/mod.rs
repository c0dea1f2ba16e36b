//! Values as DUMP gives them, RESTORE takes them and RDB files have them, so that values move
//! between this server and a real Redis. `file.rs` has the files. A payload is:
//!
//! ```text
//! type      1
//! value         by type; strings have a length in front
//! version   2   of the encoding, little-endian
//! checksum  8   CRC-64 of everything before, little-endian
//! ```
//!
//! The types that are written have been there since version 8, so that any Redis from 5 on reads
//! them; for streams it has to be 7, and for hashes whose fields expire 7.4, with version 12. Read
//! is what versions up to 12 write by default, compressed or not, but for modules. Bytes come from
//! anyone: whatever is wrong with them is an error.

pub(crate) mod file;
mod packed;
mod reader;
mod stream;

use std::borrow::Cow;
use std::collections::HashSet;

use crc::{CRC_64_REDIS, Crc};

use packed::{int_set, list_pack, zip_list, zip_map};
use reader::Reader;
pub(crate) use stream::{Members, Stream};

/// The version that is written, that of streams, and that of hashes whose fields expire.
const VERSION: u16 = 9;
const STREAM_VERSION: u16 = 10;
const EXPIRING_VERSION: u16 = 12;
/// The last version of Redis that is known, and that of Valkey 9, which has the same values.
const VERSION_MAX: u64 = 12;
const VALKEY_VERSION: u64 = 80;
const FOOTER_BYTES: usize = 10;
/// The memory of a value that is copied from elsewhere, which may be put by several commits.
const COPIED_BYTES_MAX: usize = 2 << 30;

static CRC: Crc<u64> = Crc::<u64>::new(&CRC_64_REDIS);

// The types of values. Those with another encoding of the same value follow in `decode_body`.
const STRING: u8 = 0;
const LIST: u8 = 1;
const SET: u8 = 2;
const HASH: u8 = 4;
const SORTED_SET: u8 = 5;
const EXPIRING_HASH: u8 = 24;

/// A field, its value, and when it expires; 0 is never.
type TimedField = (Vec<u8>, Vec<u8>, u64);

/// A value without its key.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    String(Vec<u8>),
    List(Vec<Vec<u8>>),
    Set(Vec<Vec<u8>>),
    Hash(Vec<(Vec<u8>, Vec<u8>)>),
    ExpiringHash(Vec<TimedField>),
    SortedSet(Vec<(Vec<u8>, f64)>),
    Stream(Box<Stream>),
}

/// The reason why bytes are no payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Damage {
    /// The version or the checksum is wrong.
    Footer,
    /// The value is not as its type says.
    Value,
    /// Values of this type are not read.
    Type(u8),
    /// The value takes more memory than it may.
    Size,
    /// The value continues behind the bytes.
    End,
}

impl Value {
    /// The payload of DUMP.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let (mut out, mut version) = (Vec::new(), VERSION);
        match self {
            Value::Stream(stream) => {
                version = STREAM_VERSION;
                out.push(stream::STREAM);
                stream.write(&mut out);
            }
            Value::String(text) => {
                out.push(STRING);
                string(&mut out, text);
            }
            Value::List(items) => strings(&mut out, LIST, items),
            Value::Set(members) => strings(&mut out, SET, members),
            Value::Hash(fields) => {
                out.push(HASH);
                length(&mut out, fields.len() as u64);
                for (name, value) in fields {
                    string(&mut out, name);
                    string(&mut out, value);
                }
            }
            Value::ExpiringHash(fields) => {
                version = EXPIRING_VERSION;
                expiring_hash(&mut out, fields);
            }
            Value::SortedSet(members) => {
                out.push(SORTED_SET);
                length(&mut out, members.len() as u64);
                for (member, score) in members {
                    string(&mut out, member);
                    out.extend_from_slice(&score.to_le_bytes());
                }
            }
        }
        out.extend_from_slice(&version.to_le_bytes());
        let checksum = CRC.checksum(&out);
        out.extend_from_slice(&checksum.to_le_bytes());
        out
    }

    /// The bytes of the strings, and some for each of them.
    pub(crate) fn bytes(&self) -> usize {
        let all = |items: &[Vec<u8>]| items.iter().map(|it| it.len() + 16).sum();
        match self {
            Value::String(text) => text.len(),
            Value::List(items) | Value::Set(items) => all(items),
            Value::Hash(fields) => fields.iter().map(|it| it.0.len() + it.1.len() + 32).sum(),
            Value::ExpiringHash(fields) => {
                fields.iter().map(|it| it.0.len() + it.1.len() + 40).sum()
            }
            Value::SortedSet(members) => members.iter().map(|it| it.0.len() + 32).sum(),
            Value::Stream(stream) => stream.items.iter().map(|it| all(&it.1) + 16).sum(),
        }
    }

    /// The value as parts of about `bytes` bytes. Strings and streams are one part.
    pub(crate) fn split(&self, bytes: usize) -> Vec<Cow<'_, Value>> {
        fn chunks<T: Clone>(
            items: &[T],
            parts: usize,
            of: fn(Vec<T>) -> Value,
        ) -> Vec<Cow<'static, Value>> {
            let chunks = items.chunks(items.len().div_ceil(parts).max(1));
            chunks.map(|it| Cow::Owned(of(it.to_vec()))).collect()
        }
        let parts = self.bytes().div_ceil(bytes).max(1);
        match self {
            Value::List(items) if parts > 1 => chunks(items, parts, Value::List),
            Value::Set(members) if parts > 1 => chunks(members, parts, Value::Set),
            Value::Hash(fields) if parts > 1 => chunks(fields, parts, Value::Hash),
            Value::SortedSet(members) if parts > 1 => chunks(members, parts, Value::SortedSet),
            whole => vec![Cow::Borrowed(whole)],
        }
    }

    /// The value of a payload.
    pub(crate) fn decode(payload: &[u8]) -> Result<Value, Damage> {
        decode_body(Reader::new(Value::body(payload)?))
    }

    /// The value of a payload that is copied from elsewhere.
    pub(crate) fn decode_copied(payload: &[u8]) -> Result<Value, Damage> {
        decode_body(Reader::within(Value::body(payload)?, COPIED_BYTES_MAX))
    }

    /// The payload without its footer, which is checked.
    fn body(payload: &[u8]) -> Result<&[u8], Damage> {
        let (body, footer) = payload
            .split_last_chunk::<FOOTER_BYTES>()
            .ok_or(Damage::Footer)?;
        let [low, high, checksum @ ..] = footer;
        let version = u16::from_le_bytes([*low, *high]);
        let checksum = u64::from_le_bytes(*checksum);
        // A checksum of 0 says that there is none.
        let found = CRC.checksum(&payload[..payload.len() - 8]);
        if !is_known(version.into()) || checksum != 0 && checksum != found {
            return Err(Damage::Footer);
        }
        Ok(body)
    }
}

/// Returns true if the values of a version of the encoding are read.
fn is_known(version: u64) -> bool {
    version <= VERSION_MAX || version == VALKEY_VERSION
}

/// Returns true if bytes are a type and a value as RESTORE takes them, without version and
/// checksum. For fuzzers.
pub fn is_value(bytes: &[u8]) -> bool {
    decode_body(Reader::new(bytes)).is_ok()
}

/// Returns true if bytes are a whole RDB file. For fuzzers.
pub fn is_rdb_file(bytes: &[u8]) -> bool {
    let Ok(mut file) = file::File::begin(bytes) else {
        return false;
    };
    loop {
        match file.next() {
            Ok(file::Part::End) => return true,
            Ok(_) => {}
            Err(_) => return false,
        }
    }
}

fn strings(out: &mut Vec<u8>, kind: u8, items: &[Vec<u8>]) {
    out.push(kind);
    length(out, items.len() as u64);
    items.iter().for_each(|item| string(out, item));
}

/// The first time, then each field behind its time: 0 for none, or 1 and the distance from the
/// first.
fn expiring_hash(out: &mut Vec<u8>, fields: &[TimedField]) {
    let times = fields.iter().map(|it| it.2).filter(|it| *it > 0);
    let first = times.min().unwrap_or(0);
    out.push(EXPIRING_HASH);
    out.extend_from_slice(&first.to_le_bytes());
    length(out, fields.len() as u64);
    for (name, value, time) in fields {
        length(out, if *time > 0 { time - first + 1 } else { 0 });
        string(out, name);
        string(out, value);
    }
}

fn string(out: &mut Vec<u8>, bytes: &[u8]) {
    length(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// A length: 6 or 14 bits behind two of kind, or 8 bytes, big-endian.
fn length(out: &mut Vec<u8>, length: u64) {
    match length {
        0..0x40 => out.push(length as u8),
        0x40..0x4000 => out.extend_from_slice(&(length as u16 | 0x4000).to_be_bytes()),
        _ => {
            out.push(0x81);
            out.extend_from_slice(&length.to_be_bytes());
        }
    }
}

/// The value of a type and its bytes, which must end with it.
fn decode_body(mut from: Reader<'_>) -> Result<Value, Damage> {
    let [kind] = from.chunk().ok_or(Damage::Value)?;
    let value = decode_value(kind, &mut from)?;
    if from.is_at_end() {
        Ok(value)
    } else {
        Err(Damage::Value)
    }
}

/// The value of a type at the front of bytes.
fn decode_value(kind: u8, from: &mut Reader<'_>) -> Result<Value, Damage> {
    if !matches!(kind, STRING..=SORTED_SET | 9..=20 | stream::WITH_ACTIVE | EXPIRING_HASH | 25) {
        return Err(Damage::Type(kind));
    }
    match value(kind, from).filter(is_whole) {
        Some(value) => Ok(value),
        None if from.is_too_large => Err(Damage::Size),
        None if from.ran_out => Err(Damage::End),
        None => Err(Damage::Value),
    }
}

fn value(kind: u8, from: &mut Reader<'_>) -> Option<Value> {
    Some(match kind {
        STRING => Value::String(from.string()?),
        LIST => Value::List(from.strings()?),
        SET => Value::Set(from.strings()?),
        3 => Value::SortedSet(from.members(Reader::score_text)?),
        HASH => Value::Hash(pairs(from.doubled_strings()?)?),
        SORTED_SET => Value::SortedSet(from.members(Reader::score)?),
        9 => Value::Hash(pairs(from.packed(zip_map)?)?),
        10 => Value::List(from.packed(zip_list)?),
        11 => Value::Set(from.packed(int_set)?),
        12 => Value::SortedSet(scored(from.packed(zip_list)?)?),
        13 => Value::Hash(pairs(from.packed(zip_list)?)?),
        14 => Value::List(from.nodes(|from| from.packed(zip_list))?),
        16 => Value::Hash(pairs(from.packed(list_pack)?)?),
        17 => Value::SortedSet(scored(from.packed(list_pack)?)?),
        18 => Value::List(from.nodes(|from| match from.count()? {
            // An element that is too large for a pack.
            1 => Some(vec![from.string()?]),
            2 => from.packed(list_pack),
            _ => None,
        })?),
        20 => Value::Set(from.packed(list_pack)?),
        EXPIRING_HASH => Value::ExpiringHash(from.expiring_fields()?),
        25 => {
            // The first time, which stands at its field, too.
            from.take(8)?;
            Value::ExpiringHash(timed(from.packed(list_pack)?)?)
        }
        stream::OLD | stream::STREAM | stream::WITH_ACTIVE => {
            Value::Stream(Box::new(Stream::read(from, kind)?))
        }
        _ => return None,
    })
}

/// Every second word belongs to the one before.
fn pairs(words: Vec<Vec<u8>>) -> Option<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut pairs = Vec::with_capacity(words.len() / 2);
    let mut words = words.into_iter();
    while let Some(first) = words.next() {
        pairs.push((first, words.next()?));
    }
    Some(pairs)
}

/// Every third word is the time of the field before.
fn timed(words: Vec<Vec<u8>>) -> Option<Vec<TimedField>> {
    let mut fields = Vec::with_capacity(words.len() / 3);
    let mut words = words.into_iter();
    while let Some(name) = words.next() {
        let (value, time) = (words.next()?, words.next()?);
        let time = u64::try_from(crate::number::integer(&time)?).ok()?;
        fields.push((name, value, time));
    }
    Some(fields)
}

fn scored(words: Vec<Vec<u8>>) -> Option<Vec<(Vec<u8>, f64)>> {
    let with_score = |(member, score): (Vec<u8>, Vec<u8>)| {
        let score = crate::number::parse_float(&score)?;
        Some((member, score))
    };
    pairs(words)?.into_iter().map(with_score).collect()
}

/// A collection has elements, and each name once.
fn is_whole(value: &Value) -> bool {
    fn are_new<'a>(names: impl ExactSizeIterator<Item = &'a Vec<u8>>) -> bool {
        let mut seen = HashSet::with_capacity(names.len());
        names.len() > 0 && names.into_iter().all(|it| seen.insert(it))
    }
    match value {
        // A stream stays when its last entry goes.
        Value::String(_) | Value::Stream(_) => true,
        Value::List(items) => !items.is_empty(),
        Value::Set(members) => are_new(members.iter()),
        Value::Hash(fields) => are_new(fields.iter().map(|it| &it.0)),
        Value::ExpiringHash(fields) => are_new(fields.iter().map(|it| &it.0)),
        Value::SortedSet(members) => {
            are_new(members.iter().map(|it| &it.0)) && members.iter().all(|it| !it.1.is_nan())
        }
    }
}

#[cfg(test)]
mod tests;
