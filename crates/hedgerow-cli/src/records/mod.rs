//! Keys and values in files and pipes: what `dump` writes and `load` reads, one file per format.
//!
//! Each format keeps every byte: what was dumped is loaded exactly, whatever it was.

mod csv;
mod json;

use std::io::{self, BufRead, BufWriter, Write};
use std::path::Path;

use clap::ValueEnum;

use crate::encoding::Encoding;
use crate::exit::{Exit, Failure};

/// The part of the help that says what the formats are.
pub(crate) const HELP: &str = "\
Formats:
  json  lines such as {\"key\":\"ada\",\"value\":\"1815\"}; bytes that are not UTF-8 are
        {\"base64\":\"/w==\"} instead of a string
  csv   a line `key,value`, then a line for each pair, its bytes as they are";

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Lines of JSON objects.
    Json,
    /// Comma-separated values.
    Csv,
}

/// A key and its value.
pub(crate) type Pair = (Vec<u8>, Vec<u8>);

/// Pairs in the order of their file.
pub(crate) trait Source {
    /// The next pair; `None` at the end.
    fn next(&mut self) -> Result<Option<Pair>, Problem>;

    /// The line, counted from 1, of what [`Source::next`] gave or refused last.
    fn line(&self) -> u64;

    /// How many bytes were read so far.
    fn bytes(&self) -> u64;
}

/// Where pairs go.
pub(crate) trait Sink {
    fn write(&mut self, key: &[u8], value: &[u8]) -> io::Result<()>;

    /// Writes what is still held back.
    fn finish(&mut self) -> io::Result<()>;
}

/// Why there is no next pair.
#[derive(Debug)]
pub(crate) enum Problem {
    /// The system refused.
    Io(io::Error),
    /// What was expected, and what was found.
    Malformed(String),
}

/// The file of an argument; none for `-`, which is standard input or output.
pub(crate) fn file(argument: &Path) -> Option<&Path> {
    Some(argument).filter(|path| *path != Path::new("-"))
}

impl Format {
    /// What was asked for, else what the file's name ends in; JSON for a pipe.
    pub(crate) fn choose(asked: Option<Format>, file: Option<&Path>) -> Result<Format, Failure> {
        let (None, Some(file)) = (asked, file) else {
            return Ok(asked.unwrap_or(Format::Json));
        };
        let extension = file.extension().unwrap_or_default().to_string_lossy();
        match extension.to_ascii_lowercase().as_str() {
            "json" | "jsonl" | "ndjson" => Ok(Format::Json),
            "csv" => Ok(Format::Csv),
            _ => {
                let message = format!(
                    "expected a name that ends in .jsonl, .ndjson, .json or .csv, or --format, \
                     found {}",
                    file.display()
                );
                Err(Failure::new(Exit::Usage, message))
            }
        }
    }

    /// Reads `input`.
    pub(crate) fn source<'a>(
        self,
        input: impl BufRead + 'a,
        encoding: Encoding,
    ) -> Box<dyn Source + 'a> {
        match self {
            Format::Json => Box::new(json::Source::new(input, encoding)),
            Format::Csv => Box::new(csv::Source::new(input, encoding)),
        }
    }

    /// Writes to `output`, many pairs at once.
    pub(crate) fn sink<'a>(
        self,
        output: impl Write + 'a,
        encoding: Encoding,
    ) -> Box<dyn Sink + 'a> {
        match self {
            Format::Json => Box::new(json::Sink::new(BufWriter::new(output), encoding)),
            Format::Csv => Box::new(csv::Sink::new(output, encoding)),
        }
    }
}

#[cfg(test)]
mod conformance;
