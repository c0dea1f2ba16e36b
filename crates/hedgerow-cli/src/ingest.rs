//! `hedgerow ingest FILE…`: takes in tables that were written outside of the database.

use std::fs;
use std::path::PathBuf;

use clap::ValueHint;
use serde_json::json;

use crate::database::KeyspaceArguments;
use crate::exit::Failure;
use crate::output::{Output, bytes, counted, waiting};

const EXAMPLE: &str = "\
Example:
  hedgerow export --db people outside
  hedgerow ingest --db copy outside/*.table";

/// Takes in tables of `export`, or of a program, as one commit: all entries or none.
///
/// The tables are checked first, and stay as they are. Their entries replace older ones of the same
/// keys.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Arguments {
    #[command(flatten)]
    keyspace: KeyspaceArguments,

    /// The tables; their keys must not overlap.
    #[arg(required = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    files: Vec<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    for file in &arguments.files {
        fs::metadata(file).map_err(|e| Failure::io("read", file, &e))?;
    }
    let (db, keyspace) = arguments.keyspace.open_to_write()?;
    let wheel = waiting("ingesting");
    let ingested = keyspace.ingest(&arguments.files);
    wheel.finish_and_clear();
    db.close()?;
    let report = ingested?;
    let (entries, tables) = (report.entries, report.tables);
    output.line(format_args!(
        "ingested {} as {} of {}",
        counted(entries, "entry"),
        counted(tables, "table"),
        bytes(report.bytes),
    ));
    output.object(&json!({ "entries": entries, "tables": tables, "bytes": report.bytes }));
    Ok(())
}
