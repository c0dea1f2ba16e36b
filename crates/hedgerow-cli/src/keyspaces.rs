//! `hedgerow keyspaces`: the named maps of a database.

use hedgerow::{Db, Design, Keyspace};
use serde_json::{Value, json};

use crate::database::DatabaseArguments;
use crate::exit::Failure;
use crate::output::{Output, bytes, count};

const EXAMPLE: &str = "\
Example:
  hedgerow keyspaces --db people";

/// Lists the keyspaces of a database: name, layout, design, entries, bytes.
///
/// Entries count deletes and replaced values until they are merged away: at least as many as there
/// are keys, which `count` counts. Bytes are those of the tables; what is only in the log has none.
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

/// A line for each, names and designs in columns.
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
        "order": lower(keyspace.layout().order),
        "partitions": keyspace.layout().partitioning.count(),
        "layout": keyspace.layout().to_string(),
        "design": design_object(&design),
        "entries": stats.entries(),
        "table_bytes": stats.table_bytes(),
    })
}

pub(crate) fn design_text(design: &Design) -> String {
    let (index, compression) = (lower(design.index), lower(design.compression));
    format!("{} {} {index} {compression}", design.policy, design.filter)
}

pub(crate) fn design_object(design: &Design) -> Value {
    json!({
        "policy": design.policy.to_string(),
        "filter": design.filter.to_string(),
        "index": lower(design.index),
        "compression": lower(design.compression),
        "residency": lower(design.residency),
        "block_bytes": design.block_bytes,
        "table_bytes": design.table_bytes,
        "memtable_bytes": design.memtable_bytes,
    })
}

/// The name of a choice without parameters, as specs write it.
pub(crate) fn lower(choice: impl std::fmt::Debug) -> String {
    format!("{choice:?}").to_lowercase()
}
