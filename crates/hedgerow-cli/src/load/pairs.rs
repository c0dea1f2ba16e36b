//! The records of all inputs, one after another, up to the first malformed or refused one.

use std::collections::VecDeque;
use std::fs::{File, Metadata};
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use hedgerow::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use indicatif::ProgressBar;

use crate::encoding::Encoding;
use crate::exit::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::output::{progress_bytes, wheel};
use crate::records::{self, Columns, Format, Problem, Record, Source};
use crate::standard_input;

/// The number of pairs read between two updates of the progress bar.
const PAIRS_PER_LOOK: u64 = 1024;

/// An iterator that ends after the last pair or before the first failure, and keeps that failure.
pub(crate) struct Pairs {
    /// The inputs that are not yet read to their end.
    inputs: VecDeque<Input>,
    pub(crate) failure: Option<Failure>,
    pub(super) count: u64,
    /// The number of records that are passed over, or the number of those before a malformed line.
    pub(super) skip: u64,
    interrupt: Interrupt,
    progress: Progress,
}

/// An open file or pipe.
struct Input {
    path: PathBuf,
    source: Box<dyn Source>,
    /// The bytes of a file; `None` for a pipe.
    bytes: Option<u64>,
}

impl Pairs {
    /// Opens all inputs, whose first `skip` records are passed over.
    pub(super) fn open(
        paths: &[PathBuf],
        format: Option<Format>,
        columns: Option<&Columns>,
        encoding: Encoding,
        skip: u64,
    ) -> Result<Pairs, Failure> {
        let inputs = paths.iter();
        let inputs = inputs.map(|path| Input::open(path, format, columns, encoding));
        Pairs::of(inputs.collect::<Result<_, _>>()?, skip)
    }

    /// The records of one source, of which `path` is the name in errors.
    pub(crate) fn of_source(
        path: PathBuf,
        source: Box<dyn Source>,
        skip: u64,
    ) -> Result<Pairs, Failure> {
        let bytes = None;
        Pairs::of(
            [Input {
                path,
                source,
                bytes,
            }]
            .into(),
            skip,
        )
    }

    fn of(inputs: VecDeque<Input>, skip: u64) -> Result<Pairs, Failure> {
        Ok(Pairs {
            progress: Progress::new(inputs.iter().map(|input| input.bytes).sum()),
            inputs,
            failure: None,
            count: 0,
            skip,
            interrupt: Interrupt::listen()?,
        })
    }

    /// Ends the records with the last one, which the engine refuses.
    pub(super) fn refuse(&mut self, what: &str) {
        self.failure = self.inputs.front().map(|input| input.malformed(what));
        self.inputs.clear();
        self.progress.bar.finish_and_clear();
    }
}

impl Iterator for Pairs {
    type Item = Record;

    fn next(&mut self) -> Option<Record> {
        while let Some(input) = self.inputs.front_mut() {
            let next = input.next();
            // Ctrl-C may have ended the program that writes the input, too, within a line.
            if self.interrupt.came() {
                self.failure = Some(Interrupt::failure());
                self.inputs.clear();
                break;
            }
            match next {
                Ok(Some(_)) if self.count < self.skip => self.count += 1,
                Ok(Some(pair)) => {
                    self.count += 1;
                    if self.count.is_multiple_of(PAIRS_PER_LOOK) {
                        self.progress.show(self.count, input.source.bytes());
                    }
                    return Some(pair);
                }
                Ok(None) => {
                    self.progress.bytes_before += input.source.bytes();
                    self.inputs.pop_front();
                }
                Err(problem) => {
                    if matches!(problem, Problem::Malformed(_)) {
                        // No load has passed this line: the entries behind it are not yet put.
                        self.skip = self.skip.min(self.count);
                    }
                    self.failure = Some(input.failure(problem));
                    self.inputs.clear();
                }
            }
        }
        self.progress.bar.finish_and_clear();
        None
    }
}

impl Input {
    fn open(
        path: &Path,
        format: Option<Format>,
        columns: Option<&Columns>,
        encoding: Encoding,
    ) -> Result<Input, Failure> {
        let file = records::file(path);
        let format = Format::choose(format, file)?;
        let (path, reader, bytes): (_, Box<dyn BufRead>, _) = match file {
            None => {
                let reader = Box::new(BufReader::new(standard_input::Input::standard()?));
                (PathBuf::from("standard input"), reader, None)
            }
            Some(file) => {
                let opened = open(file).map_err(|e| Failure::io("open", file, &e))?;
                let metadata = opened.metadata().ok().filter(Metadata::is_file);
                let reader = Box::new(BufReader::new(standard_input::Input::file(opened)?));
                (path.to_path_buf(), reader, metadata.map(|m| m.len()))
            }
        };
        Ok(Input {
            path,
            source: format.source(reader, encoding, columns)?,
            bytes,
        })
    }

    fn next(&mut self) -> Result<Option<Record>, Problem> {
        let pair = self.source.next()?;
        pair.as_ref().map_or(Ok(()), check)?;
        Ok(pair)
    }

    fn failure(&self, problem: Problem) -> Failure {
        match problem {
            Problem::Io(error) => Failure::io("read", &self.path, &error),
            Problem::Malformed(what) => self.malformed(&what),
        }
    }

    /// The failure of the last line.
    fn malformed(&self, what: &str) -> Failure {
        let (path, line) = (self.path.display(), self.source.line());
        let message = format!("{path}, line {line}: {what}");
        Failure::new(Exit::Failure, message).at(&self.path)
    }
}

#[allow(clippy::disallowed_methods, reason = "a file that the user names")]
fn open(path: &Path) -> io::Result<File> {
    File::open(path)
}

/// Refuses keys and values that are too long for any keyspace.
fn check(record: &Record) -> Result<(), Problem> {
    let values = record.value.iter().chain(&record.operands);
    let longest = values.map(Vec::len).max().unwrap_or(0);
    let what = if record.key.len() > KEY_BYTES_MAX {
        let found = record.key.len();
        format!("expected a key of at most {KEY_BYTES_MAX} bytes, found {found} bytes")
    } else if longest > VALUE_BYTES_MAX {
        let found = longest;
        format!("expected a value of at most {VALUE_BYTES_MAX} bytes, found {found} bytes")
    } else {
        return Ok(());
    };
    Err(Problem::Malformed(what))
}

/// A bar over the bytes of all inputs if their sizes are known, else a count of pairs.
struct Progress {
    bar: ProgressBar,
    counts_bytes: bool,
    /// The bytes of the inputs before the current one.
    bytes_before: u64,
}

impl Progress {
    fn new(total_bytes: Option<u64>) -> Progress {
        let bar = total_bytes.map(|total| progress_bytes("loading", total));
        Progress {
            counts_bytes: bar.is_some(),
            bar: bar.unwrap_or_else(|| wheel("loading")),
            bytes_before: 0,
        }
    }

    fn show(&self, pairs: u64, input_bytes: u64) {
        self.bar.set_position(match self.counts_bytes {
            true => self.bytes_before + input_bytes,
            false => pairs,
        });
    }
}
