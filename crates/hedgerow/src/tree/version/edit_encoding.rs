//! The bytes of edits (`docs/format/manifest.md`).
//!
//! An edit is a list of changes, each a code and its sized body. Every body ends with a list of
//! tagged fields ([`crate::base::codec::fields`]), to which later versions can add. Unknown codes
//! of changes and options are `FormatVersion`. No allocation is larger than the bytes at hand
//! justify.

mod keyspace_change;
mod tree_change;

use crate::base::codec::byte_reader::put_sized;
use crate::base::codec::fields::{FieldWriter, list, skip_fields};
use crate::base::codec::{ByteReader, varint};
use crate::base::entry::{LogPosition, SeqNo};
use crate::base::error::{Error, Result};

use super::edit::{Change, Edit, Slot};
use super::places::{Place, Places};

/// The codes of changes. A code is never reused. `docs/format/operations.md` has those to come.
mod change_code {
    pub(super) const CREATE_KEYSPACE: u64 = 1;
    pub(super) const DROP_KEYSPACE: u64 = 2;
    pub(super) const REPLACE_PARTITIONS: u64 = 3;
    pub(super) const SET_DESIGN: u64 = 4;
    pub(super) const TREE: u64 = 5;
    pub(super) const COUNTERS: u64 = 6;
    pub(super) const LOG_START: u64 = 7;
    pub(super) const CLOSED: u64 = 8;
    pub(super) const OPENED: u64 = 9;
    pub(super) const OPERATIONS: u64 = 10;
    pub(super) const SET_SELF_TUNING: u64 = 11;
    pub(super) const SET_PLACES: u64 = 12;
    pub(super) const WRITTEN: u64 = 13;
    pub(super) const SET_MERGE_OPERATOR: u64 = 14;
    pub(super) const RENAME_KEYSPACE: u64 = 15;
    pub(super) const SET_TIME_TO_LIVE: u64 = 16;
    pub(super) const CLOCK: u64 = 17;
    pub(super) const SET_SLOT: u64 = 18;
    pub(super) const PAST: u64 = 19;
    pub(super) const FEED_START: u64 = 20;
    pub(super) const NUMBERED: u64 = 21;
}

pub(crate) fn encode_edit(edit: &Edit) -> Vec<u8> {
    let mut out = Vec::new();
    varint::put(&mut out, edit.len() as u64);
    let mut body = Vec::new();
    for change in edit {
        body.clear();
        varint::put(&mut out, encode_change(change, &mut body));
        put_sized(&mut out, &body);
    }
    out
}

pub(crate) fn decode_edit(bytes: &[u8]) -> Result<Edit> {
    decode_changes(bytes, true)
}

/// Decodes an edit, which may have a past if it is not itself one.
fn decode_changes(bytes: &[u8], may_have_past: bool) -> Result<Edit> {
    let mut reader = ByteReader::new(bytes);
    let edit = list(&mut reader, "changes of an edit", |reader| {
        let code = reader.varint("change code")?;
        let mut body = ByteReader::new(reader.sized("change")?);
        if code == change_code::PAST && !may_have_past {
            return Err(Error::corruption("expected no past within a past"));
        }
        let change = decode_change(code, &mut body)?;
        body.finish("a change")?;
        Ok(change)
    })?;
    reader.finish("an edit")?;
    Ok(edit)
}

/// Appends the body and returns the code.
fn encode_change(change: &Change, out: &mut Vec<u8>) -> u64 {
    let code = match change {
        Change::CreateKeyspace { id, keyspace } => {
            keyspace_change::encode_creation(*id, keyspace, out);
            return change_code::CREATE_KEYSPACE;
        }
        Change::Keyspace(id, change) => keyspace_change::encode(*id, change, out),
        Change::Clock { ms } => numbers(change_code::CLOCK, [*ms], out),
        Change::Numbered { last } => numbers(change_code::NUMBERED, [last.0], out),
        Change::SetPlaces(places) => {
            encode_places(places, out);
            change_code::SET_PLACES
        }
        Change::Tree(edit) => {
            tree_change::encode(edit, out);
            return change_code::TREE;
        }
        Change::Counters {
            next_table,
            next_keyspace,
            next_partition,
        } => {
            let (keyspace, partition) = ((*next_keyspace).into(), (*next_partition).into());
            numbers(
                change_code::COUNTERS,
                [*next_table, keyspace, partition],
                out,
            )
        }
        Change::LogStart { segment } => numbers(change_code::LOG_START, [(*segment).into()], out),
        Change::Closed { end, last } => {
            let end = [end.segment.into(), end.offset.into(), last.0];
            numbers(change_code::CLOSED, end, out)
        }
        Change::Opened => change_code::OPENED,
        Change::SetSlot { name, slot } => {
            put_sized(out, name.as_bytes());
            varint::put(out, u64::from(slot.is_some()));
            if let Some(slot) = slot {
                varint::put(out, slot.position);
                varint::put(out, slot.log_bytes_max);
            }
            change_code::SET_SLOT
        }
        Change::Past { at, edit } => {
            varint::put(out, at.0);
            put_sized(out, &encode_edit(edit));
            change_code::PAST
        }
        Change::FeedStart { segment, at } => {
            numbers(change_code::FEED_START, [(*segment).into(), at.0], out)
        }
    };
    FieldWriter::new(out).finish();
    code
}

/// Appends the numbers of a change that has nothing else. Returns the code.
fn numbers<const N: usize>(code: u64, numbers: [u64; N], out: &mut Vec<u8>) -> u64 {
    numbers.iter().for_each(|number| varint::put(out, *number));
    code
}

fn decode_change(code: u64, body: &mut ByteReader<'_>) -> Result<Change> {
    let change = match code {
        change_code::CREATE_KEYSPACE => return keyspace_change::decode_creation(body),
        change_code::CLOCK => Change::Clock {
            ms: body.varint("time")?,
        },
        change_code::NUMBERED => Change::Numbered {
            last: SeqNo(body.varint("last sequence number")?),
        },
        change_code::SET_PLACES => Change::SetPlaces(decode_places(body)?),
        change_code::TREE => return Ok(Change::Tree(tree_change::decode(body)?)),
        change_code::COUNTERS => Change::Counters {
            next_table: body.varint("next table")?,
            next_keyspace: body.varint_as("next keyspace")?,
            next_partition: body.varint_as("next partition")?,
        },
        change_code::LOG_START => Change::LogStart {
            segment: body.varint_as("log segment")?,
        },
        change_code::CLOSED => Change::Closed {
            end: LogPosition {
                segment: body.varint_as("log segment")?,
                offset: body.varint_as("log offset")?,
            },
            last: SeqNo(body.varint("last sequence number")?),
        },
        change_code::OPENED => Change::Opened,
        change_code::SET_SLOT => Change::SetSlot {
            name: name(body)?,
            slot: slot(body)?,
        },
        change_code::PAST => Change::Past {
            at: SeqNo(body.varint("number of past changes")?),
            edit: decode_changes(body.sized("past changes")?, false)?,
        },
        change_code::FEED_START => Change::FeedStart {
            segment: body.varint_as("log segment")?,
            at: SeqNo(body.varint("start of the changes")?),
        },
        _ => keyspace_change::decode(code, body)?,
    };
    skip_fields(body, "a change")?;
    Ok(change)
}

/// Directories are UTF-8, like names.
fn encode_places(places: &Places, out: &mut Vec<u8>) {
    varint::put(out, places.others.len() as u64);
    for (number, place) in &places.others {
        varint::put(out, u64::from(*number));
        put_sized(out, place.dir.as_bytes());
        out.extend_from_slice(&place.mark.to_le_bytes());
    }
    varint::put(out, places.levels.len() as u64);
    for (from, to, place) in &places.levels {
        for number in [from, to, place] {
            varint::put(out, u64::from(*number));
        }
    }
    varint::put(out, u64::from(places.log));
    varint::put(out, u64::from(places.filters));
}

fn decode_places(body: &mut ByteReader<'_>) -> Result<Places> {
    let others = list(body, "places", |body| {
        let number = body.varint_as("place")?;
        let place = Place {
            dir: name(body)?,
            mark: body.u64("mark")?,
        };
        Ok((number, place))
    })?;
    let levels = list(body, "levels of places", |body| {
        Ok((
            body.varint_as("level")?,
            body.varint_as("level")?,
            body.varint_as("place")?,
        ))
    })?;
    Ok(Places {
        others: others.into_iter().collect(),
        levels,
        log: body.varint_as("place of the log")?,
        filters: body.varint_as("place of filters")?,
    })
}

fn slot(body: &mut ByteReader<'_>) -> Result<Option<Slot>> {
    Ok(match body.varint("slot")? {
        0 => None,
        _ => Some(Slot {
            position: body.varint("position of a slot")?,
            log_bytes_max: body.varint("limit of a slot")?,
        }),
    })
}

fn name(body: &mut ByteReader<'_>) -> Result<String> {
    let bytes = body.sized("keyspace name")?;
    match std::str::from_utf8(bytes) {
        Ok(name) => Ok(name.to_owned()),
        Err(_) => Err(Error::corruption("expected a keyspace name in UTF-8")),
    }
}

#[cfg(test)]
pub(crate) mod tests;
