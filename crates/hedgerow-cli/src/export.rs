//! `hedgerow export TARGET`: writes a range as tables for `ingest`, or all keys into a Redis.

use std::path::PathBuf;

use clap::ValueHint;
use serde_json::json;

use crate::database::EntryArguments;
use crate::encoding;
use crate::exit::{Exit, Failure};
use crate::output::{Output, counted, waiting};
use crate::range::RangeArguments;
use crate::transfer::{self, TransferArguments};

const EXAMPLE: &str = "\
Example:
  hedgerow export --db people outside --from a --to c
  hedgerow export --db data redis://:password@localhost:6379";

/// Writes a keyspace, or a range of it, to new tables in a directory, all as of one moment. Or
/// copies all keys of a database of `hedgerow serve` into a Redis.
///
/// DIR: `ingest` takes the tables in, into this database or another. Only for sorted keys.
///
/// URL: the Redis must be of version 7 for streams and functions, or of version 5. Keys that are
/// there are replaced. An export that Ctrl-C or a crash has ended resumes where it was, if the same
/// Redis still runs. While `serve` has the database open, `--db` is the URL of that server.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE, after_long_help = format!("{EXAMPLE}\n\n{}", encoding::HELP))]
pub(crate) struct Arguments {
    #[command(flatten)]
    entries: EntryArguments,

    #[command(flatten)]
    range: RangeArguments,

    #[command(flatten)]
    transfer: TransferArguments,

    /// The directory of the tables, made if it is missing, or the URL of a Redis:
    /// redis://[[user]:password@]host[:port][/database].
    #[arg(value_name = "DIR|URL", value_hint = ValueHint::AnyPath)]
    directory: PathBuf,
}

pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    if transfer::is_url(&arguments.directory) {
        if arguments.range.is_given() || arguments.entries.keyspace.name != "default" {
            let text =
                "expected no range and no `--keyspace` for an export into a Redis, found one";
            return Err(Failure::new(Exit::Usage, text));
        }
        let database = &arguments.entries.keyspace.database;
        return transfer::export(database, &arguments.directory, &arguments.transfer, output);
    }
    if arguments.transfer.is_given() {
        let text = "expected no `--restart` and no `--slots` but for a Redis, found one";
        return Err(Failure::new(Exit::Usage, text));
    }
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
