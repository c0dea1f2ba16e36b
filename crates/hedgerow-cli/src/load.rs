//! `hedgerow load FILE…`: puts the keys and values of files or pipes.

use std::fs::{File, Metadata};
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use clap::ValueHint;
use hedgerow::{Durability, ErrorKind, Layout};
use indicatif::ProgressBar;
use serde_json::json;

use crate::database::KeyspaceArguments;
use crate::encoding::EncodingArguments;
use crate::exit::{Exit, Failure};
use crate::loader::Loader;
use crate::output::{Output, bytes, counted, progress_bytes, wheel};
use crate::records::{self, Format, Problem, Source};

const EXAMPLE: &str = "\
Example:
  hedgerow load --db people people.csv
  zcat people.jsonl.gz | hedgerow load --db people";

/// How many pairs are read between two looks at the progress.
const PAIRS_PER_LOOK: u64 = 1024;

/// Puts the keys and values of files or pipes; a key that is there already gets the new value.
///
/// A database or keyspace that is not there is made. Everything is durable when the command ends.
/// If it fails, what it read before stays.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE, after_long_help = format!("{EXAMPLE}\n\n{}", records::HELP))]
pub(crate) struct Arguments {
    #[command(flatten)]
    keyspace: KeyspaceArguments,

    #[command(flatten)]
    encoding: EncodingArguments,

    /// The format; unless set, what each file's name ends in, `json` for a pipe.
    #[arg(long)]
    format: Option<Format>,

    /// Makes each batch durable before the next one.
    #[arg(long)]
    sync: bool,

    /// The files, one after another; `-` is standard input.
    #[arg(value_name = "FILE", default_value = "-", value_hint = ValueHint::FilePath)]
    files: Vec<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    // Before anything is made.
    let inputs: Vec<Input> = arguments.inputs().collect::<Result<_, _>>()?;
    let (db, keyspace) = arguments.keyspace.open_or_create(Layout::sorted())?;
    let durability = match arguments.sync {
        true => Durability::Synced,
        false => Durability::Buffered,
    };
    let mut loader = Loader::new(&db, &keyspace, durability);
    let mut progress = Progress::of(&inputs);
    let mut inputs = inputs.into_iter();
    let loaded = inputs.try_for_each(|input| load(arguments, input, &mut loader, &mut progress));
    progress.bar.finish_and_clear();
    // What came before a malformed line stays.
    let finished = loader.finish().and(db.clone().close());
    let entries = counted(loader.entries, "entry");
    loaded.map_err(|failure| failure.adding(&format!("; loaded {entries} before it")))?;
    finished?;
    let name = &arguments.keyspace.name;
    let size = bytes(loader.bytes);
    output.line(format_args!("loaded {entries}, {size}, into `{name}`"));
    output.object(&json!({
        "keyspace": name,
        "entries": loader.entries,
        "bytes": loader.bytes,
    }));
    Ok(())
}

/// A file or pipe that is open.
struct Input {
    path: PathBuf,
    format: Format,
    reader: Box<dyn BufRead>,
    /// Of a file, not of a pipe.
    bytes: Option<u64>,
}

impl Arguments {
    fn inputs(&self) -> impl Iterator<Item = Result<Input, Failure>> {
        self.files.iter().map(|path| {
            let file = records::file(path);
            let format = Format::choose(self.format, file)?;
            let Some(file) = file else {
                return Ok(Input {
                    path: PathBuf::from("standard input"),
                    format,
                    reader: Box::new(BufReader::new(io::stdin())),
                    bytes: None,
                });
            };
            let opened = open(file).map_err(|e| Failure::io("open", file, &e))?;
            Ok(Input {
                path: path.clone(),
                format,
                bytes: opened
                    .metadata()
                    .ok()
                    .filter(Metadata::is_file)
                    .map(|m| m.len()),
                reader: Box::new(BufReader::new(opened)),
            })
        })
    }
}

#[allow(clippy::disallowed_methods, reason = "a file that the user names")]
fn open(path: &Path) -> io::Result<File> {
    File::open(path)
}

/// Puts everything that an input holds.
fn load(
    arguments: &Arguments,
    input: Input,
    loader: &mut Loader<'_>,
    progress: &mut Progress,
) -> Result<(), Failure> {
    let mut source = input
        .format
        .source(input.reader, arguments.encoding.choice());
    let path = &input.path;
    loop {
        let added = match source.next() {
            Ok(Some((key, value))) => loader.add(&key, &value),
            Ok(None) => break,
            Err(Problem::Io(error)) => return Err(Failure::io("read", path, &error)),
            Err(Problem::Malformed(what)) => return Err(malformed(path, source.line(), &what)),
        };
        added.map_err(|error| match error.kind() {
            ErrorKind::InvalidArgument => malformed(path, source.line(), &error.to_string()),
            _ => Failure::from(error),
        })?;
        progress.look(&*source);
    }
    progress.end(&*source);
    Ok(())
}

fn malformed(path: &Path, line: u64, what: &str) -> Failure {
    let message = format!("{}, line {line}: {what}", path.display());
    Failure::new(Exit::Failure, message).at(path)
}

/// A bar if the size of all inputs is known.
struct Progress {
    bar: ProgressBar,
    counts_bytes: bool,
    pairs: u64,
    /// Bytes of the inputs before the present one.
    bytes_before: u64,
}

impl Progress {
    fn of(inputs: &[Input]) -> Progress {
        let total: Option<u64> = inputs.iter().map(|input| input.bytes).sum();
        Progress {
            bar: total.map_or_else(
                || wheel("loading"),
                |total| progress_bytes("loading", total),
            ),
            counts_bytes: total.is_some(),
            pairs: 0,
            bytes_before: 0,
        }
    }

    /// After each pair.
    fn look(&mut self, source: &dyn Source) {
        self.pairs += 1;
        if self.pairs.is_multiple_of(PAIRS_PER_LOOK) {
            self.bar.set_position(match self.counts_bytes {
                true => self.bytes_before + source.bytes(),
                false => self.pairs,
            });
        }
    }

    /// After each input.
    fn end(&mut self, source: &dyn Source) {
        self.bytes_before += source.bytes();
    }
}
