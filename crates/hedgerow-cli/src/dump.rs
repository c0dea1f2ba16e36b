//! `hedgerow dump`: writes entries to a file or a pipe, for `load` and other programs.

use std::fs::File;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};

use clap::ValueHint;
use indicatif::{ProgressBar, ProgressDrawTarget};
use serde_json::json;

use crate::database::EntryArguments;
use crate::exit::Failure;
use crate::interrupt::Interrupt;
use crate::output::{Output, counted, progress};
use crate::range::{RangeArguments, StoredEntries};
use crate::records::{self, Format, Sink};

const EXAMPLE: &str = "\
Example:
  hedgerow dump --db people people.csv
  hedgerow dump --db people | gzip > people.jsonl.gz";

/// Writes the keys of a keyspace or of a range with their values and their expiry, all as of one
/// moment.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE, after_long_help = format!("{EXAMPLE}\n\n{}", records::FORMATS))]
pub(crate) struct Arguments {
    #[command(flatten)]
    entries: EntryArguments,

    #[command(flatten)]
    range: RangeArguments,

    /// The format [default: follows from the file's name; `json` for a pipe].
    #[arg(long, value_parser = Format::written())]
    format: Option<Format>,

    /// The file to write; an existing file is replaced; `-` is standard output.
    #[arg(value_name = "FILE", default_value = "-", value_hint = ValueHint::FilePath)]
    file: PathBuf,
}

pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    let encoding = arguments.entries.encoding.choice();
    let range = arguments.range.range(encoding)?;
    let file = records::file(&arguments.file);
    let format = Format::choose(arguments.format, file)?;
    let (_db, keyspace) = arguments.entries.keyspace.open_to_read()?;
    let mut stored = range.entries(&keyspace)?;
    let bar = progress("dumping", keyspace.stats().entries());
    let Some(file) = file else {
        if io::stdout().is_terminal() {
            bar.set_draw_target(ProgressDrawTarget::hidden());
        }
        let mut sink = format.sink(io::stdout().lock(), encoding)?;
        return write(&mut stored, &mut *sink, &bar, |e| Failure::output(&e)).map(drop);
    };
    let mut sink = format.sink(create(file)?, encoding)?;
    let entries = write(&mut stored, &mut *sink, &bar, |e| {
        Failure::io("write", file, &e)
    })?;
    let name = file.display();
    output.line(format_args!(
        "dumped {} to {name}",
        counted(entries, "entry")
    ));
    output.object(&json!({ "file": name.to_string(), "entries": entries }));
    Ok(())
}

#[allow(clippy::disallowed_methods, reason = "a file that the user names")]
fn create(path: &Path) -> Result<File, Failure> {
    File::create(path).map_err(|e| Failure::io("create", path, &e))
}

/// Writes all entries, until Ctrl-C, and returns their number.
fn write(
    stored: &mut StoredEntries,
    sink: &mut dyn Sink,
    bar: &ProgressBar,
    failed: impl Fn(io::Error) -> Failure,
) -> Result<u64, Failure> {
    let interrupt = Interrupt::listen()?;
    let mut entries = 0;
    for entry in stored {
        interrupt.check()?;
        sink.write(&entry?.into()).map_err(&failed)?;
        entries += 1;
        bar.set_position(entries);
    }
    sink.finish().map_err(failed)?;
    bar.finish_and_clear();
    Ok(entries)
}
