//! `hedgerow keyspaces`: the named maps of a database.

use hedgerow::{Db, Design, Keyspace, Operations, TableSpec};
use serde_json::{Value, json};

use crate::database::DatabaseArguments;
use crate::exit::Failure;
use crate::output::{Output, bytes, count};

const EXAMPLE: &str = "\
Example:
  hedgerow keyspaces --db people";

/// Lists the keyspaces of a database: name, layout, design, entries, bytes.
///
/// Entries include deletes and replaced values until a merge drops them, so there are at least as
/// many as keys (see `count`). Bytes are those of the tables, without the log.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Arguments {
    #[command(flatten)]
    database: DatabaseArguments,
}

pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    let db = arguments.database.open_to_read()?;
    let keyspaces = all(&db);
    print(&keyspaces, output);
    for keyspace in &keyspaces {
        output.object(&object(keyspace));
    }
    Ok(())
}

fn all(db: &Db) -> Vec<Keyspace> {
    let names = db.keyspaces();
    names
        .iter()
        .filter_map(|name| db.existing_keyspace(name))
        .collect()
}

/// Prints a line for each keyspace, in columns.
fn print(keyspaces: &[Keyspace], output: &mut Output) {
    let headings = ["name", "layout", "design", "entries", "bytes"];
    let mut rows = vec![headings.map(str::to_owned)];
    rows.extend(keyspaces.iter().map(row));
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.max().unwrap_or(0)
    };
    let [a, b, c, d, e] = [0, 1, 2, 3, 4].map(width);
    for [name, layout, design, entries, bytes] in &rows {
        output.line(format_args!(
            "{name:a$}  {layout:b$}  {design:c$}  {entries:>d$}  {bytes:>e$}"
        ));
    }
}

fn row(keyspace: &Keyspace) -> [String; 5] {
    let stats = keyspace.stats();
    [
        crate::output::shown(keyspace.name().as_bytes()),
        keyspace.layout().to_string(),
        design_text(&keyspace.design()),
        count(stats.entries()),
        bytes(stats.table_bytes()),
    ]
}

fn object(keyspace: &Keyspace) -> Value {
    let (design, stats) = (keyspace.design(), keyspace.stats());
    json!({
        "name": keyspace.name(),
        "order": keyspace.layout().order.to_string(),
        "partitions": keyspace.layout().partitioning.count(),
        "layout": keyspace.layout().to_string(),
        "design": design_object(&design),
        "entries": stats.entries(),
        "table_bytes": stats.table_bytes(),
    })
}

pub(crate) fn design_text(design: &Design) -> String {
    let Design { policy, filter, .. } = design;
    if design.table == TableSpec::HTable {
        return format!("{policy} {filter} htable");
    }
    let (index, compression) = (lower(design.index), lower(design.compression));
    format!("{policy} {filter} {index} {compression}")
}

pub(crate) fn design_object(design: &Design) -> Value {
    json!({
        "policy": design.policy.to_string(),
        "filter": design.filter.to_string(),
        "table": design.table.to_string(),
        "index": lower(design.index),
        "compression": lower(design.compression),
        "residency": lower(design.residency),
        "block_bytes": design.block_bytes,
        "table_bytes": design.table_bytes,
        "memtable_bytes": design.memtable_bytes,
    })
}

/// The recent operations of a keyspace, as shares of all.
pub(crate) fn operations_text(operations: &Operations) -> String {
    let all = operations.total();
    if all == 0 {
        return "none".to_owned();
    }
    let steps = operations.nexts as f64 / operations.seeks.max(1) as f64;
    let parts = [
        (operations.gets_found, "gets that found".to_owned()),
        (operations.gets_missed, "gets that missed".to_owned()),
        (operations.seeks, format!("scans of {steps:.1} steps")),
        (operations.puts, "puts".to_owned()),
        (operations.deletes, "deletes".to_owned()),
    ];
    let done = parts.iter().filter(|(count, _)| *count > 0);
    let done = done.map(|(count, what)| {
        let share = 100.0 * *count as f64 / all as f64;
        format!("{share:.1} % {what}")
    });
    let mut text = done.collect::<Vec<_>>().join(", ");
    let writes = operations.puts + operations.deletes;
    if writes > 0 {
        let replaced = operations.replaced as f64 / writes as f64;
        let percent = 100.0 * replaced.min(1.0);
        text += &format!("; {percent:.0} % of the writes replaced an entry");
    }
    text
}

pub(crate) fn operations_object(operations: &Operations) -> Value {
    json!({
        "gets_found": operations.gets_found,
        "gets_missed": operations.gets_missed,
        "seeks": operations.seeks,
        "nexts": operations.nexts,
        "puts": operations.puts,
        "deletes": operations.deletes,
        "replaced": operations.replaced,
        "since_retune": operations.since_retune,
    })
}

/// The name of a choice without parameters, in lower case as specs write it.
pub(crate) fn lower(choice: impl std::fmt::Debug) -> String {
    format!("{choice:?}").to_lowercase()
}
