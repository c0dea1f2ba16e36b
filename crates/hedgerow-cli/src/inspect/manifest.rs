//! `hedgerow inspect manifest`: the edits of the manifest, and the state that they add up to.

use hedgerow::inspect::{
    Change, Edit, Placement, Places, TableFacts, TableId, TreeEdit, manifest as read_manifest,
};
use serde_json::{Value, json};

use super::Report;
use crate::database::DatabaseArguments;
use crate::encoding::{Encoding, EncodingArguments};
use crate::exit::Failure;
use crate::keyspaces::{design_text, operations_object, operations_text};
use crate::output::{bytes, count, counted, shown};

const EXAMPLE: &str = "\
Example:
  hedgerow inspect manifest --db people";

/// Shows the edits of the manifest one by one, and the state that they add up to.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Arguments {
    #[command(flatten)]
    database: DatabaseArguments,

    #[command(flatten)]
    encoding: EncodingArguments,
}

pub(super) fn run(arguments: &Arguments, report: &mut Report<'_>) -> Result<(), Failure> {
    arguments.database.existing().map(drop)?;
    let encoding = arguments.encoding.choice();
    let manifest = read_manifest(&report.storage, &arguments.database.db)?;
    for record in &manifest.records {
        match record {
            Ok(record) => {
                let (offset, size) = (count(record.offset), bytes(record.bytes));
                report.tell(
                    &text(&format!("offset {offset}, {size}"), &record.edit, encoding),
                    &json!({
                        "offset": record.offset,
                        "bytes": record.bytes,
                        "changes": objects(&record.edit, encoding),
                    }),
                );
            }
            Err(error) => report.damage(error),
        }
    }
    if let Some(offset) = manifest.torn {
        report.tell(
            &format!(
                "torn at offset {}: {} of an incomplete edit, which is ignored",
                count(offset),
                bytes(manifest.bytes - offset)
            ),
            &json!({ "torn": offset, "bytes": manifest.bytes - offset }),
        );
    }
    if let Some(state) = &manifest.state {
        report.tell(
            &text("the state that they add up to", state, encoding),
            &json!({ "state": objects(state, encoding) }),
        );
    }
    Ok(())
}

fn text(title: &str, edit: &Edit, encoding: Encoding) -> String {
    let changes = edit.iter().map(|change| change_text(change, encoding));
    std::iter::once(title.to_owned())
        .chain(changes)
        .collect::<Vec<_>>()
        .join("\n  ")
}

fn objects(edit: &Edit, encoding: Encoding) -> Value {
    edit.iter()
        .map(|change| change_object(change, encoding))
        .collect()
}

// ---- for people ----

fn change_text(change: &Change, encoding: Encoding) -> String {
    match change {
        Change::Clock { ms } => format!("entries expired by {ms} ms since 1970"),
        Change::SetPlaces(places) => places_text(places),
        Change::Tree(edit) => tree_text(edit, encoding),
        Change::Counters {
            next_table,
            next_keyspace,
            next_partition,
        } => format!(
            "next numbers: table {next_table}, keyspace {next_keyspace}, partition {next_partition}"
        ),
        Change::LogStart { segment } => format!("the log begins with segment {segment}"),
        Change::Closed { end, last } => format!(
            "closed: the log ends in segment {} at offset {}, after sequence number {}",
            end.segment,
            count(u64::from(end.offset)),
            count(last.0)
        ),
        Change::Opened => "opened".to_owned(),
        other => keyspace_text(other, encoding),
    }
}

/// A change of a keyspace or of the change feed.
fn keyspace_text(change: &Change, encoding: Encoding) -> String {
    match change {
        Change::CreateKeyspace {
            id,
            name,
            layout,
            design,
            partitions,
            depth,
            ..
        } => format!(
            "keyspace {} is created: `{}`, {}, {}, {}, partitions {}",
            id.0,
            shown(name.as_bytes()),
            layout,
            design_text(design),
            counted(u64::from(*depth), "level"),
            list(partitions.iter().map(|id| id.0.to_string())),
        ),
        Change::DropKeyspace { id } => format!("keyspace {} is dropped", id.0),
        Change::ReplacePartitions { id, partitions } => format!(
            "keyspace {} is cleared: partitions {}",
            id.0,
            list(partitions.iter().map(|id| id.0.to_string()))
        ),
        Change::SetDesign { id, design } => {
            format!("keyspace {} gets the design {}", id.0, design_text(design))
        }
        Change::RenameKeyspace { id, name } => {
            let name = shown(name.as_bytes());
            format!("keyspace {} gets the name {name}", id.0)
        }
        Change::SetMergeOperator { id, name } => {
            let name = shown(name.as_bytes());
            format!("keyspace {} gets the merge operator {name}", id.0)
        }
        Change::SetTimeToLive { id, ms: 0 } => format!("keyspace {} keeps its puts", id.0),
        Change::SetTimeToLive { id, ms } => {
            format!("keyspace {} keeps its puts for {ms} ms", id.0)
        }
        Change::SetSelfTuning { id, on } => match on {
            true => format!("keyspace {} tunes itself", id.0),
            false => format!("keyspace {} does not tune itself", id.0),
        },
        Change::Operations { id, operations } => format!(
            "keyspace {} counted operations: {}",
            id.0,
            operations_text(operations)
        ),
        Change::Written { id, written } => format!(
            "keyspace {} had {} when it got its design; since then {} added, {} written",
            id.0,
            counted(written.initial, "entry"),
            count(written.added),
            count(written.written)
        ),
        other => feed_text(other, encoding),
    }
}

/// The changes of the change feed.
fn feed_text(change: &Change, encoding: Encoding) -> String {
    match change {
        Change::Numbered { last } => format!("sequence numbers up to {} are used", count(last.0)),
        Change::SetSlot { name, slot } => {
            let name = shown(name.as_bytes());
            let Some(slot) = slot else {
                return format!("slot {name} is dropped");
            };
            let (position, limit) = (count(slot.position), bytes(slot.log_bytes_max));
            format!("slot {name} is behind sequence number {position}, with at most {limit} of log")
        }
        Change::Past { at, edit } => {
            let changes = edit.iter().map(|change| change_text(change, encoding));
            let changes = changes.collect::<Vec<_>>().join("; ");
            let at = count(at.0);
            format!("kept for slots, at sequence number {at}: {changes}")
        }
        Change::FeedStart { segment, at } => format!(
            "changes are kept behind sequence number {}, from segment {segment} on",
            count(at.0)
        ),
        other => format!("{other:?}"),
    }
}

fn places_text(places: &Places) -> String {
    let dir = |place: u8| match places.others.get(&place) {
        Some(other) => shown(other.dir.as_bytes()),
        None => "the database's directory".to_owned(),
    };
    let levels = places.levels.iter();
    let levels = levels.map(|(from, to, place)| (format!("levels {from} to {to}"), *place));
    let others = [
        ("the log".to_owned(), places.log),
        ("filters".to_owned(), places.filters),
    ];
    let all = levels.chain(others);
    let all = all.map(|(what, place)| format!("{what} in {} (place {place})", dir(place)));
    format!("places: {}", list(all))
}

fn tree_text(edit: &TreeEdit, encoding: Encoding) -> String {
    let mut lines = vec![format!("partition {}", edit.partition.0)];
    if let Some(through) = edit.flushed_through {
        lines[0] += &format!(", flushed through {}", count(through.0));
    }
    if let Some(depth) = edit.depth {
        lines[0] += &format!(", {}", counted(u64::from(depth), "level"));
    }
    if let Some(depth) = edit.shift_to {
        lines[0] += &format!(", shifted to {}", counted(u64::from(depth), "level"));
    }
    if let Some(note) = edit.policy_note {
        lines[0] += &format!(", policy note {note}");
    }
    for (level, ranges) in &edit.ranges {
        let groups = counted(u64::from(*ranges), "group");
        lines.push(format!("level {level} is cut into {groups}"));
    }
    for (level, through) in &edit.draining {
        lines.push(match through {
            Some(run) => format!("level {level} drains through run {}", run.0),
            None => format!("level {level} is drained"),
        });
    }
    if !edit.removed.is_empty() {
        let tables = list(edit.removed.iter().map(|id| id.0.to_string()));
        lines.push(format!("- tables {tables}"));
    }
    for (id, to) in &edit.moved {
        lines.push(format!("> table {} to {}", id.0, place_text(to)));
    }
    for (place, table) in &edit.added {
        lines.push(format!(
            "+ table {} in {}{}: {}, {}, `{}` to `{}`",
            table.id.0,
            place_text(place),
            if table.place == 0 {
                String::new()
            } else {
                format!(", place {}", table.place)
            },
            bytes(table.file_bytes),
            counted(table.entries, "entry"),
            encoding.encode(&table.smallest_key),
            encoding.encode(&table.largest_key),
        ));
    }
    lines.join("\n    ")
}

fn place_text(place: &Placement) -> String {
    match place.group {
        0 => format!("level {} run {}", place.level, place.run.0),
        group => format!("level {} group {group} run {}", place.level, place.run.0),
    }
}

fn list(items: impl Iterator<Item = String>) -> String {
    items.collect::<Vec<_>>().join(", ")
}

// ---- for programs ----

fn change_object(change: &Change, encoding: Encoding) -> Value {
    match change {
        Change::Clock { ms } => json!({ "change": "clock", "milliseconds": ms }),
        Change::SetPlaces(places) => places_object(places),
        Change::Tree(edit) => tree_object(edit, encoding),
        Change::Counters {
            next_table,
            next_keyspace,
            next_partition,
        } => json!({
            "change": "counters",
            "next_table": next_table,
            "next_keyspace": next_keyspace,
            "next_partition": next_partition,
        }),
        Change::LogStart { segment } => json!({ "change": "log start", "segment": segment }),
        Change::Closed { end, last } => json!({
            "change": "closed",
            "segment": end.segment,
            "offset": end.offset,
            "last_sequence_number": last.0,
        }),
        Change::Opened => json!({ "change": "opened" }),
        other => keyspace_object(other, encoding),
    }
}

/// A change of a keyspace or of the change feed.
fn keyspace_object(change: &Change, encoding: Encoding) -> Value {
    match change {
        Change::CreateKeyspace {
            id,
            name,
            layout,
            design,
            seed,
            partitions,
            depth,
        } => json!({
            "change": "create keyspace",
            "keyspace": id.0,
            "name": name,
            "layout": layout.to_string(),
            "design": design_text(design),
            "seed": seed,
            "partitions": partitions.iter().map(|id| id.0).collect::<Vec<_>>(),
            "levels": depth,
        }),
        Change::DropKeyspace { id } => json!({ "change": "drop keyspace", "keyspace": id.0 }),
        Change::ReplacePartitions { id, partitions } => json!({
            "change": "replace partitions",
            "keyspace": id.0,
            "partitions": partitions.iter().map(|id| id.0).collect::<Vec<_>>(),
        }),
        Change::SetDesign { id, design } => json!({
            "change": "set design", "keyspace": id.0, "design": design_text(design),
        }),
        Change::RenameKeyspace { id, name } => json!({
            "change": "rename keyspace", "keyspace": id.0, "name": name,
        }),
        Change::SetMergeOperator { id, name } => json!({
            "change": "set merge operator", "keyspace": id.0, "operator": name,
        }),
        Change::SetTimeToLive { id, ms } => json!({
            "change": "set time to live", "keyspace": id.0, "milliseconds": ms,
        }),
        Change::SetSelfTuning { id, on } => json!({
            "change": "self-tuning", "keyspace": id.0, "on": on,
        }),
        Change::Operations { id, operations } => json!({
            "change": "operations",
            "keyspace": id.0,
            "operations": operations_object(operations),
        }),
        Change::Written { id, written } => json!({
            "change": "written",
            "keyspace": id.0,
            "initial": written.initial,
            "added": written.added,
            "written": written.written,
        }),
        other => feed_object(other, encoding),
    }
}

/// The changes of the change feed.
fn feed_object(change: &Change, encoding: Encoding) -> Value {
    match change {
        Change::Numbered { last } => {
            json!({ "change": "numbered", "last_sequence_number": last.0 })
        }
        Change::SetSlot { name, slot } => json!({
            "change": "set slot",
            "slot": name,
            "position": slot.map(|it| it.position),
            "limit": slot.map(|it| it.log_bytes_max),
        }),
        Change::Past { at, edit } => {
            let changes = edit.iter().map(|change| change_object(change, encoding));
            json!({
                "change": "past",
                "sequence_number": at.0,
                "changes": changes.collect::<Vec<_>>(),
            })
        }
        Change::FeedStart { segment, at } => json!({
            "change": "feed start", "segment": segment, "sequence_number": at.0,
        }),
        other => json!({ "change": format!("{other:?}") }),
    }
}

fn places_object(places: &Places) -> Value {
    let others = places.others.iter();
    let others = others.map(|(number, place)| {
        json!({ "place": number, "dir": place.dir, "mark": format!("{:016x}", place.mark) })
    });
    let levels = places.levels.iter();
    let levels = levels.map(|(from, to, place)| json!({ "from": from, "to": to, "place": place }));
    json!({
        "change": "set places",
        "places": others.collect::<Vec<_>>(),
        "levels": levels.collect::<Vec<_>>(),
        "log": places.log,
        "filters": places.filters,
    })
}

fn tree_object(edit: &TreeEdit, encoding: Encoding) -> Value {
    let number = |id: &TableId| id.0;
    let moved = edit.moved.iter().map(|(id, to)| placed(*id, to));
    let added = edit
        .added
        .iter()
        .map(|(to, table)| added_object(to, table, encoding));
    let draining = edit
        .draining
        .iter()
        .map(|(level, through)| json!({ "level": level, "through": through.map(|id| id.0) }));
    let groups = edit.ranges.iter();
    let groups = groups.map(|(level, groups)| json!({ "level": level, "groups": groups }));
    json!({
        "change": "tree",
        "partition": edit.partition.0,
        "removed": edit.removed.iter().map(number).collect::<Vec<_>>(),
        "moved": moved.collect::<Vec<_>>(),
        "added": added.collect::<Vec<_>>(),
        "flushed_through": edit.flushed_through.map(|seqno| seqno.0),
        "draining": draining.collect::<Vec<_>>(),
        "levels": edit.depth,
        "shifted_to_levels": edit.shift_to,
        "groups": groups.collect::<Vec<_>>(),
        "policy_note": edit.policy_note,
    })
}

fn placed(id: TableId, place: &Placement) -> Value {
    json!({ "table": id.0, "level": place.level, "group": place.group, "run": place.run.0 })
}

fn added_object(place: &Placement, table: &TableFacts, encoding: Encoding) -> Value {
    let mut object = placed(table.id, place);
    object["bytes"] = json!(table.file_bytes);
    object["entries"] = json!(table.entries);
    object["tombstones"] = json!(table.tombstones);
    object["operands"] = json!(table.operands);
    object["range_tombstones"] = json!(table.range_tombstones);
    object["smallest_key"] = encoding.encode_json(&table.smallest_key);
    object["largest_key"] = encoding.encode_json(&table.largest_key);
    object
}
