//! `hedgerow load FILE…`: puts the keys and values of files or pipes.

pub(crate) mod pairs;
mod put;

use std::path::PathBuf;

use clap::ValueHint;
use hedgerow::Durability;
use serde_json::json;

use crate::creation::CreationArguments;
use crate::database::{EntryArguments, KeyspaceArguments};
use crate::exit::{Exit, Failure};
use crate::output::{Output, bytes, count, counted};
use crate::records::{Columns, FORMATS, Format, READ_FORMATS};
use pairs::Pairs;
use put::Loaded;

const EXAMPLE: &str = "\
Example:
  hedgerow load --db people people.csv
  zcat people.jsonl.gz | hedgerow load --db people
  hedgerow load --db people staff.csv --columns key=id,value=name";

/// Puts the entries of files or pipes; an existing key gets the new value.
///
/// Creates the database and the keyspace if they are missing. Everything is durable when the
/// command ends. Pairs before a malformed or refused line stay, and those before Ctrl-C; `--skip`
/// resumes there. Sorted input is written to tables without the log and becomes visible as a whole.
/// From the first key that is not greater than the one before it, or that has operands, pairs are
/// written in batches. Values without an expiry get the keyspace's time to live. Operands need a
/// keyspace with their merge operator.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE, after_long_help = format!("{EXAMPLE}\n\n{FORMATS}\n{READ_FORMATS}"))]
pub(crate) struct Arguments {
    #[command(flatten)]
    entries: EntryArguments,

    #[command(flatten)]
    creation: CreationArguments,

    /// The format [default: follows from each file's name; `json` for a pipe].
    #[arg(long)]
    format: Option<Format>,

    /// The columns of csv or tsv that are key and value: `key=id,value=name` by the names in the
    /// first line, `key=1,value=3` by numbers if it has none; others are ignored.
    #[arg(long, value_name = "COLUMNS")]
    columns: Option<Columns>,

    /// Passes over the first N entries, which a load that ended early has put.
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    skip: u64,

    /// Syncs each batch before the next one.
    #[arg(long)]
    sync: bool,

    /// The files, loaded one after another; `-` is standard input.
    #[arg(value_name = "FILE", default_value = "-", value_hint = ValueHint::FilePath)]
    files: Vec<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    let encoding = arguments.entries.encoding.choice();
    // Opened before anything is created.
    let mut pairs = Pairs::open(
        &arguments.files,
        arguments.format,
        arguments.columns.as_ref(),
        encoding,
        arguments.skip,
    )?;
    let durability = match arguments.sync {
        true => Durability::Synced,
        false => Durability::Buffered,
    };
    let keyspace = &arguments.entries.keyspace;
    put_all(
        &mut pairs,
        keyspace,
        &arguments.creation,
        durability,
        output,
    )
}

/// Puts all pairs into a keyspace, which is created if it is missing, and says how many.
pub(crate) fn put_all(
    pairs: &mut Pairs,
    arguments: &KeyspaceArguments,
    creation: &CreationArguments,
    durability: Durability,
    output: &mut Output,
) -> Result<(), Failure> {
    let (db, keyspace) = arguments.open_or_create(creation)?;
    let mut loaded = Loaded::default();
    let put = put::put(&db, &keyspace, pairs, durability, &mut loaded);
    let closed = db.close();
    let entries = counted(loaded.entries, "entry");
    // Pairs before a malformed or refused line stay.
    if let Some(failure) = put.err().map(Failure::from).or(pairs.failure.take()) {
        let done = pairs.skip + loaded.entries;
        let kept = match done {
            0 => "; nothing was loaded".to_owned(),
            _ => {
                format!("; loaded {entries} before it; the same with `--skip {done}` resumes there")
            }
        };
        return Err(failure.adding(&kept));
    }
    closed?;
    if pairs.count < pairs.skip {
        let message = format!(
            "expected an input of at least {}, which `--skip` passes over, found one of {}",
            counted(pairs.skip, "entry"),
            count(pairs.count),
        );
        return Err(Failure::new(Exit::Usage, message));
    }
    let name = &arguments.name;
    let size = bytes(loaded.bytes);
    let sorted = match loaded.bulk_entries {
        0 => String::new(),
        n => format!("; {} of them sorted, as tables", count(n)),
    };
    output.line(format_args!(
        "loaded {entries}, {size}, into `{name}`{sorted}"
    ));
    output.object(&json!({
        "keyspace": name,
        "entries": loaded.entries,
        "bytes": loaded.bytes,
        "bulk_loaded_entries": loaded.bulk_entries,
    }));
    Ok(())
}
