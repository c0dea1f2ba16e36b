//! The formats in which `dump` writes and `load` reads keys and values, one file per format.
//!
//! Each format keeps every byte: `load` restores exactly what `dump` wrote.

mod csv;
mod json;

use std::io::{self, BufRead, BufWriter, Write};
use std::path::Path;

use clap::ValueEnum;

use crate::encoding::Encoding;
use crate::exit::{Exit, Failure};

/// The part of the help about formats.
pub(crate) const HELP: &str = "\
Formats:
  json  lines such as {\"key\":\"ada\",\"value\":\"1815\"}; bytes that are not UTF-8 are
        {\"base64\":\"/w==\"} instead of a string
  csv   a line `key,value`, then a line per pair with its bytes unchanged";

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Lines of JSON objects.
    Json,
    /// Comma-separated values.
    Csv,
}

/// A key and its value.
pub(crate) type Pair = (Vec<u8>, Vec<u8>);

/// A reader of pairs in the order of their file.
pub(crate) trait Source {
    /// The next pair; `None` at the end.
    fn next(&mut self) -> Result<Option<Pair>, Problem>;

    /// The line, counted from 1, of the pair that [`Source::next`] returned or refused last.
    fn line(&self) -> u64;

    /// The number of bytes read so far.
    fn bytes(&self) -> u64;
}

/// A writer of pairs.
pub(crate) trait Sink {
    fn write(&mut self, key: &[u8], value: &[u8]) -> io::Result<()>;

    /// Writes the pairs that are still buffered.
    fn finish(&mut self) -> io::Result<()>;
}

/// The reason why there is no next pair.
#[derive(Debug)]
pub(crate) enum Problem {
    /// An error of the operating system.
    Io(io::Error),
    /// A malformed line: the text says what was expected and found.
    Malformed(String),
}

/// The file of an argument; `None` for `-`, which is standard input or output.
pub(crate) fn file(argument: &Path) -> Option<&Path> {
    Some(argument).filter(|path| *path != Path::new("-"))
}

impl Format {
    /// The requested format, else the one of the file's extension; JSON for a pipe.
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

    /// A reader of `input`.
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

    /// A buffered writer to `output`.
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
