//! The steps of a get as JSON, with the names that the command line gives them. The keys of a table
//! are left out: they may be any bytes, and this JSON has no encoding for bytes.

use engine::explain::{Explanation, FilterAnswer, FoundEntry, PageRequest, TableProbe};
use serde_json::{Value, json};

/// The steps as an object. The value is its length only.
pub fn json(explanation: &Explanation) -> Value {
    let memtables = explanation.memtables.iter().map(|memtable| {
        json!({
            "sealed": memtable.sealed,
            "entries": memtable.entries,
            "found": found(memtable.found),
        })
    });
    let group_filters = explanation.group_filters.iter().map(|filter| {
        json!({
            "level": filter.level,
            "group": filter.group,
            "runs_left": filter.runs_left,
            "page": filter.page.as_ref().map(page),
        })
    });
    let runs = explanation.runs.iter().map(|run| {
        json!({
            "level": run.level,
            "group": run.group,
            "run": run.run,
            "table": run.table.as_ref().map(table),
        })
    });
    json!({
        "partition": explanation.partition,
        "partitions": explanation.partitions,
        "memtables": memtables.collect::<Vec<_>>(),
        "group_filters": group_filters.collect::<Vec<_>>(),
        "runs": runs.collect::<Vec<_>>(),
        "found": found(explanation.found()),
        "value_bytes": explanation.value.as_ref().map(|value| value.len()),
        "pages": explanation.pages().count(),
        "reads": explanation.reads(),
        "filters": explanation.filter_probes(),
        "filter_false_positives": explanation.filter_false_positives(),
    })
}

fn table(table: &TableProbe) -> Value {
    json!({
        "number": table.number,
        "path": table.path.to_string_lossy(),
        "opened": table.opened,
        "filter": match table.filter {
            FilterAnswer::No => json!("no"),
            FilterAnswer::Maybe => json!("maybe"),
            _ => Value::Null,
        },
        "pages": table.pages.iter().map(page).collect::<Vec<_>>(),
        "found": found(table.found),
    })
}

fn page(page: &PageRequest) -> Value {
    json!({
        "class": format!("{:?}", page.class).to_lowercase(),
        "offset": page.offset,
        "bytes": page.bytes,
        "cached": page.cached,
    })
}

fn found(found: Option<FoundEntry>) -> Value {
    found.map_or(Value::Null, |found| {
        let kind = format!("{:?}", found.kind).to_lowercase();
        json!({ "sequence_number": found.seqno, "kind": kind })
    })
}
