//! `hedgerow repair`: rebuilds a database from its tables and its log.

use serde_json::{Value, json};

use crate::database::DatabaseArguments;
use crate::exit::Failure;
use crate::output::{Output, counted, waiting};

const EXAMPLE: &str = "\
Example:
  hedgerow repair --db people

Nothing is thrown away: what cannot be used is moved to the directory `lost` of the database.";

/// Rebuilds a database whose manifest, log or tables are damaged, from what is left.
///
/// Reads and writes every table once, and needs as much free space as they take.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Arguments {
    #[command(flatten)]
    database: DatabaseArguments,
}

pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    let builder = arguments.database.existing()?;
    let wheel = waiting("repairing");
    let report = hedgerow::repair_with(builder)?;
    wheel.finish_and_clear();
    output.line(format_args!(
        "recovered {} from {}; {} known by name, {} only from tables",
        counted(report.entries, "entry"),
        counted(report.tables as u64, "table"),
        counted(report.keyspaces_known as u64, "keyspace"),
        report.keyspaces_guessed,
    ));
    for (path, reason) in &report.lost {
        output.line(format_args!("lost {}: {reason}", path.display()));
    }
    let lost = report.lost.iter();
    let lost: Vec<Value> = lost
        .map(|(path, reason)| json!({ "path": path.to_string_lossy(), "reason": reason }))
        .collect();
    output.object(&json!({
        "tables": report.tables,
        "entries": report.entries,
        "keyspaces_known": report.keyspaces_known,
        "keyspaces_guessed": report.keyspaces_guessed,
        "lost": lost,
    }));
    Ok(())
}
