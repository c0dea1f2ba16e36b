//! The bytes of edits (`docs/format/manifest.md`).
//!
//! An edit is a list of changes, each a code and its sized body. Every body ends with a list of
//! tagged fields ([`crate::base::codec::fields`]), to which later versions can add. Unknown codes
//! of changes and options are `FormatVersion`. No allocation is larger than the bytes at hand
//! justify.

use crate::base::codec::byte_reader::put_sized;
use crate::base::codec::fields;
use crate::base::codec::fields::{FieldReader, FieldWriter, list, skip_fields};
use crate::base::codec::{ByteReader, varint};
use crate::base::entry::RunId;
use crate::base::entry::{KeyspaceId, LogPosition, PartitionId, SeqNo};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::merge_operator;
use crate::base::page::TableId;
use crate::base::stats::Operations;
use crate::base::table_meta::TableMeta;

use super::edit::{Change, Edit, KeyspaceDescription, Slot, Written};
use super::options_encoding::{decode_design, decode_layout, encode_design, encode_layout};
use super::places::{Place, Places};
use crate::design::merge_policy::tree_edit::{Placement, TreeEdit};

/// The codes of changes. A code is never reused. `docs/format/operations.md` has those to come.
mod code {
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

/// Tags of the fields of [`TreeEdit`], and of other changes.
mod tag {
    pub(super) const FLUSHED_THROUGH: u64 = 1;
    pub(super) const DEPTH: u64 = 3;
    pub(super) const NOMINAL_DEPTH: u64 = 5;
    pub(super) const SHIFT_TO: u64 = 7;
    pub(super) const RANGES: u64 = 9;

    /// A field of a keyspace that is created.
    pub(super) const MERGE_OPERATOR: u64 = 1;
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
        if code == code::PAST && !may_have_past {
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
            encode_keyspace(*id, keyspace, out);
            return code::CREATE_KEYSPACE;
        }
        Change::DropKeyspace { id } => {
            varint::put(out, u64::from(id.0));
            code::DROP_KEYSPACE
        }
        Change::RenameKeyspace { id, name } => {
            varint::put(out, u64::from(id.0));
            put_sized(out, name.as_bytes());
            code::RENAME_KEYSPACE
        }
        Change::SetMergeOperator { id, name } => {
            varint::put(out, u64::from(id.0));
            put_sized(out, name.as_bytes());
            code::SET_MERGE_OPERATOR
        }
        Change::ReplacePartitions { id, partitions } => {
            varint::put(out, u64::from(id.0));
            put_partitions(out, partitions);
            code::REPLACE_PARTITIONS
        }
        Change::SetDesign { id, design } => {
            varint::put(out, u64::from(id.0));
            encode_design(design, out);
            code::SET_DESIGN
        }
        Change::Operations { id, operations } => {
            varint::put(out, u64::from(id.0));
            let numbers = operations.numbers();
            numbers.iter().for_each(|number| varint::put(out, *number));
            code::OPERATIONS
        }
        Change::Written { id, written } => {
            varint::put(out, u64::from(id.0));
            for number in [written.initial, written.ingested, written.written] {
                varint::put(out, number);
            }
            code::WRITTEN
        }
        Change::SetSelfTuning { id, on } => {
            varint::put(out, u64::from(id.0));
            varint::put(out, u64::from(*on));
            code::SET_SELF_TUNING
        }
        Change::SetTimeToLive { id, ms } => {
            varint::put(out, u64::from(id.0));
            varint::put(out, *ms);
            code::SET_TIME_TO_LIVE
        }
        Change::Clock { ms } => {
            varint::put(out, *ms);
            code::CLOCK
        }
        Change::Numbered { last } => {
            varint::put(out, last.0);
            code::NUMBERED
        }
        Change::SetPlaces(places) => {
            encode_places(places, out);
            code::SET_PLACES
        }
        Change::Tree(edit) => {
            encode_tree_edit(edit, out);
            return code::TREE;
        }
        Change::Counters {
            next_table,
            next_keyspace,
            next_partition,
        } => {
            varint::put(out, *next_table);
            varint::put(out, u64::from(*next_keyspace));
            varint::put(out, u64::from(*next_partition));
            code::COUNTERS
        }
        Change::LogStart { segment } => {
            varint::put(out, u64::from(*segment));
            code::LOG_START
        }
        Change::Closed { end, last } => {
            varint::put(out, u64::from(end.segment));
            varint::put(out, u64::from(end.offset));
            varint::put(out, last.0);
            code::CLOSED
        }
        Change::Opened => code::OPENED,
        Change::SetSlot { .. } | Change::Past { .. } | Change::FeedStart { .. } => {
            encode_of_feed(change, out)
        }
    };
    FieldWriter::new(out).finish();
    code
}

fn encode_keyspace(id: KeyspaceId, keyspace: &KeyspaceDescription, out: &mut Vec<u8>) {
    varint::put(out, u64::from(id.0));
    put_sized(out, keyspace.name.as_bytes());
    encode_layout(&keyspace.layout, out);
    encode_design(&keyspace.design, out);
    out.extend_from_slice(&keyspace.seed.to_le_bytes());
    put_partitions(out, &keyspace.partitions);
    varint::put(out, u64::from(keyspace.depth));
    let mut fields = FieldWriter::new(out);
    if let Some(name) = &keyspace.layout.merge_operator {
        fields.put(tag::MERGE_OPERATOR, name.as_bytes());
    }
    fields.finish();
}

/// Appends a change of the change feed.
fn encode_of_feed(change: &Change, out: &mut Vec<u8>) -> u64 {
    match change {
        Change::SetSlot { name, slot } => {
            put_sized(out, name.as_bytes());
            varint::put(out, u64::from(slot.is_some()));
            if let Some(slot) = slot {
                varint::put(out, slot.position);
                varint::put(out, slot.log_bytes_max);
            }
            code::SET_SLOT
        }
        Change::Past { at, edit } => {
            varint::put(out, at.0);
            put_sized(out, &encode_edit(edit));
            code::PAST
        }
        Change::FeedStart { segment, at } => {
            varint::put(out, u64::from(*segment));
            varint::put(out, at.0);
            code::FEED_START
        }
        _ => unreachable!("every other change has its arm"),
    }
}

fn decode_change(code: u64, body: &mut ByteReader<'_>) -> Result<Change> {
    let change = match code {
        code::CREATE_KEYSPACE => return decode_keyspace(body),
        code::DROP_KEYSPACE => Change::DropKeyspace {
            id: keyspace(body)?,
        },
        code::RENAME_KEYSPACE => Change::RenameKeyspace {
            id: keyspace(body)?,
            name: name(body)?,
        },
        code::SET_MERGE_OPERATOR => Change::SetMergeOperator {
            id: keyspace(body)?,
            name: operator_name(body.sized("name of a merge operator")?)?,
        },
        code::REPLACE_PARTITIONS => Change::ReplacePartitions {
            id: keyspace(body)?,
            partitions: partitions(body)?,
        },
        code::SET_DESIGN => Change::SetDesign {
            id: keyspace(body)?,
            design: decode_design(body)?,
        },
        code::OPERATIONS => Change::Operations {
            id: keyspace(body)?,
            operations: operations(body)?,
        },
        code::WRITTEN => Change::Written {
            id: keyspace(body)?,
            written: Written {
                initial: body.varint("initial entries")?,
                ingested: body.varint("ingested entries")?,
                written: body.varint("entries written")?,
            },
        },
        code::SET_SELF_TUNING => Change::SetSelfTuning {
            id: keyspace(body)?,
            on: body.varint("self-tuning")? != 0,
        },
        code::SET_TIME_TO_LIVE => Change::SetTimeToLive {
            id: keyspace(body)?,
            ms: body.varint("time to live")?,
        },
        code::CLOCK => Change::Clock {
            ms: body.varint("time")?,
        },
        code::NUMBERED => Change::Numbered {
            last: SeqNo(body.varint("last sequence number")?),
        },
        code::SET_PLACES => Change::SetPlaces(decode_places(body)?),
        code::TREE => return Ok(Change::Tree(decode_tree_edit(body)?)),
        code::COUNTERS => Change::Counters {
            next_table: body.varint("next table")?,
            next_keyspace: body.varint_as("next keyspace")?,
            next_partition: body.varint_as("next partition")?,
        },
        code::LOG_START => Change::LogStart {
            segment: body.varint_as("log segment")?,
        },
        code::CLOSED => Change::Closed {
            end: LogPosition {
                segment: body.varint_as("log segment")?,
                offset: body.varint_as("log offset")?,
            },
            last: SeqNo(body.varint("last sequence number")?),
        },
        code::OPENED => Change::Opened,
        code::SET_SLOT => Change::SetSlot {
            name: name(body)?,
            slot: match body.varint("slot")? {
                0 => None,
                _ => Some(Slot {
                    position: body.varint("position of a slot")?,
                    log_bytes_max: body.varint("limit of a slot")?,
                }),
            },
        },
        code::PAST => Change::Past {
            at: SeqNo(body.varint("number of past changes")?),
            edit: decode_changes(body.sized("past changes")?, false)?,
        },
        code::FEED_START => Change::FeedStart {
            segment: body.varint_as("log segment")?,
            at: SeqNo(body.varint("start of the changes")?),
        },
        _ => {
            return Err(Error::new(
                ErrorKind::FormatVersion,
                format!("the manifest has a change {code} of a later version"),
            ));
        }
    };
    skip_fields(body, "a change")?;
    Ok(change)
}

fn decode_keyspace(body: &mut ByteReader<'_>) -> Result<Change> {
    let id = keyspace(body)?;
    let mut keyspace = KeyspaceDescription::new(
        name(body)?,
        (decode_layout(body)?, decode_design(body)?),
        body.u64("seed")?,
        partitions(body)?,
        body.varint_as("depth")?,
    );
    let mut fields = FieldReader::new(body, "a keyspace");
    while let Some((tag, mut field)) = fields.next()? {
        match tag {
            tag::MERGE_OPERATOR => {
                keyspace.layout.merge_operator = Some(operator_name(field.rest())?.into());
            }
            _ => fields.unknown(tag)?,
        }
    }
    Ok(Change::CreateKeyspace { id, keyspace })
}

fn operator_name(bytes: &[u8]) -> Result<String> {
    let name = std::str::from_utf8(bytes).ok();
    let name = name.filter(|name| merge_operator::check_name(name).is_ok());
    name.map(str::to_owned).ok_or_else(|| {
        Error::corruption("expected the name of a merge operator, found other bytes")
    })
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

fn encode_tree_edit(edit: &TreeEdit, out: &mut Vec<u8>) {
    varint::put(out, u64::from(edit.partition.0));
    varint::put(out, edit.removed.len() as u64);
    for id in &edit.removed {
        varint::put(out, id.0);
    }
    varint::put(out, edit.moved.len() as u64);
    for (id, placement) in &edit.moved {
        varint::put(out, id.0);
        put_placement(out, placement);
    }
    varint::put(out, edit.added.len() as u64);
    for (placement, meta) in &edit.added {
        put_placement(out, placement);
        meta.encode(out);
    }
    varint::put(out, edit.draining.len() as u64);
    for (level, through) in &edit.draining {
        varint::put(out, u64::from(*level));
        varint::put(out, u64::from(through.is_some()));
        if let Some(id) = through {
            varint::put(out, id.0);
        }
    }
    let mut fields = FieldWriter::new(out);
    fields.put_number(tag::FLUSHED_THROUGH, edit.flushed_through.map(|s| s.0));
    fields.put_number(tag::DEPTH, edit.depth.map(u64::from));
    fields.put_number(tag::NOMINAL_DEPTH, edit.policy_note.map(u64::from));
    fields.put_number(tag::SHIFT_TO, edit.shift_to.map(u64::from));
    if !edit.ranges.is_empty() {
        let mut bytes = Vec::new();
        for (level, ranges) in &edit.ranges {
            varint::put(&mut bytes, u64::from(*level));
            varint::put(&mut bytes, u64::from(*ranges));
        }
        fields.put(tag::RANGES, &bytes);
    }
    fields.finish();
}

fn decode_tree_edit(body: &mut ByteReader<'_>) -> Result<TreeEdit> {
    let mut edit = TreeEdit::new(PartitionId(body.varint_as("partition")?));
    edit.removed = list(body, "removed tables", table)?;
    edit.moved = list(body, "moved tables", |body| {
        Ok((table(body)?, placement(body)?))
    })?;
    edit.added = list(body, "added tables", |body| {
        Ok((placement(body)?, TableMeta::decode(body)?))
    })?;
    edit.draining = list(body, "draining levels", |body| {
        let level = body.varint_as("level")?;
        let through = match body.varint("draining state")? {
            0 => None,
            1 => Some(RunId(body.varint("run")?)),
            other => {
                return Err(Error::corruption(format!(
                    "expected a draining state of 0 or 1, found {other}"
                )));
            }
        };
        Ok((level, through))
    })?;
    let mut fields = FieldReader::new(body, "a tree's change");
    while let Some((tag, field)) = fields.next()? {
        match tag {
            tag::FLUSHED_THROUGH => {
                edit.flushed_through = Some(SeqNo(fields::number(field, "flushed number")?));
            }
            tag::DEPTH => edit.depth = Some(fields::number(field, "depth")?),
            tag::SHIFT_TO => edit.shift_to = Some(fields::number(field, "depth")?),
            tag::RANGES => edit.ranges = ranges(field)?,
            tag::NOMINAL_DEPTH => {
                edit.policy_note = Some(fields::number(field, "nominal depth")?);
            }
            _ => fields.unknown(tag)?,
        }
    }
    Ok(edit)
}

/// Pairs of a level and its number of groups, up to the end of the field.
fn ranges(mut field: ByteReader<'_>) -> Result<Vec<(u8, u32)>> {
    let mut ranges = Vec::new();
    while field.remaining() > 0 {
        ranges.push((field.varint_as("level")?, field.varint_as("groups")?));
    }
    Ok(ranges)
}

fn keyspace(body: &mut ByteReader<'_>) -> Result<KeyspaceId> {
    Ok(KeyspaceId(body.varint_as("keyspace")?))
}

fn operations(body: &mut ByteReader<'_>) -> Result<Operations> {
    let mut numbers = Operations::default().numbers();
    for number in &mut numbers {
        *number = body.varint("number of operations")?;
    }
    Ok(Operations::of(numbers))
}

fn table(body: &mut ByteReader<'_>) -> Result<TableId> {
    Ok(TableId(body.varint("table")?))
}

fn name(body: &mut ByteReader<'_>) -> Result<String> {
    let bytes = body.sized("keyspace name")?;
    match std::str::from_utf8(bytes) {
        Ok(name) => Ok(name.to_owned()),
        Err(_) => Err(Error::corruption("expected a keyspace name in UTF-8")),
    }
}

fn put_partitions(out: &mut Vec<u8>, partitions: &[PartitionId]) {
    varint::put(out, partitions.len() as u64);
    for id in partitions {
        varint::put(out, u64::from(id.0));
    }
}

fn partitions(body: &mut ByteReader<'_>) -> Result<Vec<PartitionId>> {
    list(body, "partitions", |body| {
        Ok(PartitionId(body.varint_as("partition")?))
    })
}

fn put_placement(out: &mut Vec<u8>, placement: &Placement) {
    varint::put(out, u64::from(placement.level));
    varint::put(out, u64::from(placement.group));
    varint::put(out, placement.run.0);
}

fn placement(body: &mut ByteReader<'_>) -> Result<Placement> {
    Ok(Placement {
        level: body.varint_as("level")?,
        group: body.varint_as("group")?,
        run: RunId(body.varint("run")?),
    })
}

#[cfg(test)]
pub(crate) mod tests;
