//! The bytes of a tree's edit: the tables that it removes, moves and adds.

use crate::base::codec::byte_reader::ByteReader;
use crate::base::codec::fields;
use crate::base::codec::fields::{FieldReader, FieldWriter, list};
use crate::base::codec::varint;
use crate::base::entry::{PartitionId, RunId, SeqNo};
use crate::base::error::{Error, Result};
use crate::base::page::TableId;
use crate::base::table_meta::TableMeta;
use crate::design::merge_policy::tree_edit::{Placement, TreeEdit};

/// The tags of its fields.
mod tree_field {
    pub(super) const FLUSHED_THROUGH: u64 = 1;
    pub(super) const DEPTH: u64 = 3;
    pub(super) const POLICY_NOTE: u64 = 5;
    pub(super) const SHIFT_TO: u64 = 7;
    pub(super) const RANGES: u64 = 9;
}

pub(super) fn encode(edit: &TreeEdit, out: &mut Vec<u8>) {
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
    fields.put_number(
        tree_field::FLUSHED_THROUGH,
        edit.flushed_through.map(|s| s.0),
    );
    fields.put_number(tree_field::DEPTH, edit.depth.map(u64::from));
    fields.put_number(tree_field::POLICY_NOTE, edit.policy_note.map(u64::from));
    fields.put_number(tree_field::SHIFT_TO, edit.shift_to.map(u64::from));
    if !edit.ranges.is_empty() {
        let mut bytes = Vec::new();
        for (level, ranges) in &edit.ranges {
            varint::put(&mut bytes, u64::from(*level));
            varint::put(&mut bytes, u64::from(*ranges));
        }
        fields.put(tree_field::RANGES, &bytes);
    }
    fields.finish();
}

pub(super) fn decode(body: &mut ByteReader<'_>) -> Result<TreeEdit> {
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
            tree_field::FLUSHED_THROUGH => {
                edit.flushed_through = Some(SeqNo(fields::number(field, "flushed number")?));
            }
            tree_field::DEPTH => edit.depth = Some(fields::number(field, "depth")?),
            tree_field::SHIFT_TO => edit.shift_to = Some(fields::number(field, "depth")?),
            tree_field::RANGES => edit.ranges = ranges(field)?,
            tree_field::POLICY_NOTE => {
                edit.policy_note = Some(fields::number(field, "policy note")?);
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

fn table(body: &mut ByteReader<'_>) -> Result<TableId> {
    Ok(TableId(body.varint("table")?))
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
