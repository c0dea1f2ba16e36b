//! `hedgerow export DIR`: writes a range as tables for `ingest`.

use std::path::PathBuf;

use clap::ValueHint;
use serde_json::json;

use crate::database::EntryArguments;
use crate::encoding;
use crate::exit::Failure;
use crate::output::{Output, counted, waiting};
use crate::range::RangeArguments;

const EXAMPLE: &str = "\
Example:
  hedgerow export --db people outside --from a --to c";

/// Writes a keyspace, or a range of it, to new tables in a directory, all as of one moment.
///
/// `ingest` takes them in, into this database or another. Only for sorted keys.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE, after_long_help = format!("{EXAMPLE}\n\n{}", encoding::HELP))]
pub(crate) struct Arguments {
    #[command(flatten)]
    entries: EntryArguments,

    #[command(flatten)]
    range: RangeArguments,

    /// The directory of the tables; made if it is missing.
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    directory: PathBuf,
}

pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    let range = arguments.range.range(arguments.entries.encoding.choice())?;
    let (_db, keyspace) = arguments.entries.keyspace.open_to_read()?;
    let wheel = waiting("exporting");
    let files = keyspace.export::<&[u8]>(range.bounds(), &arguments.directory);
    wheel.finish_and_clear();
    let files = files?;
    let directory = arguments.directory.display();
    let tables = counted(files.len() as u64, "table");
    output.line(format_args!("wrote {tables} to {directory}"));
    let files: Vec<_> = files.iter().map(|file| file.to_string_lossy()).collect();
    output.object(&json!({ "files": files }));
    Ok(())
}
