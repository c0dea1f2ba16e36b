//! The formats in which `dump` writes and `load` reads entries, one file per format.
//!
//! Each format keeps every byte: `load` restores exactly what `dump` wrote.

mod csv;
mod json;

use std::io::{self, BufRead, BufWriter, Write};
use std::path::Path;
use std::time::Duration;

use clap::ValueEnum;
use hedgerow::io::WallTime;
use hedgerow::{Expiry, StoredEntry};

use crate::encoding::Encoding;
use crate::exit::{Exit, Failure};

/// The part of the help about formats.
pub(crate) const HELP: &str = "\
Formats:
  json  lines such as {\"key\":\"ada\",\"value\":\"1815\"}; bytes that are not UTF-8 are
        {\"base64\":\"/w==\"} instead of a string; a value that expires has also
        \"expires\":1767225600000, in milliseconds since 1970; operands that no merge
        operator could combine are \"operands\":[\"1\",\"2\"], the oldest first, with or
        without a value under them
  csv   a line `key,value`, then a line per pair with its bytes unchanged; entries that
        expire or have operands are refused";

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Lines of JSON objects.
    Json,
    /// Comma-separated values.
    Csv,
}

/// A key with its value and what else a copy of it needs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) key: Vec<u8>,
    /// `None` if there are only operands.
    pub(crate) value: Option<Vec<u8>>,
    /// The time of expiry in milliseconds since 1970, if it expires.
    pub(crate) expires: Option<u64>,
    /// The operands that could not be combined with the value, the oldest first.
    pub(crate) operands: Vec<Vec<u8>>,
}

impl Record {
    /// The expiry of the value.
    pub(crate) fn expiry(&self) -> Expiry {
        let at = |ms| WallTime::UNIX_EPOCH.checked_add(Duration::from_millis(ms));
        self.expires.and_then(at).map_or(Expiry::Never, Expiry::At)
    }
}

impl From<StoredEntry> for Record {
    fn from(entry: StoredEntry) -> Record {
        let expires = match entry.expiry {
            Expiry::At(at) => at.duration_since(WallTime::UNIX_EPOCH).ok(),
            _ => None,
        };
        Record {
            key: entry.key.into(),
            value: entry.value.map(Vec::from),
            expires: expires.and_then(|it| u64::try_from(it.as_millis()).ok()),
            operands: entry.operands.into_iter().map(Vec::from).collect(),
        }
    }
}

/// A reader of records in the order of their file.
pub(crate) trait Source {
    /// The next record; `None` at the end.
    fn next(&mut self) -> Result<Option<Record>, Problem>;

    /// The line, counted from 1, of the record that [`Source::next`] returned or refused last.
    fn line(&self) -> u64;

    /// The number of bytes read so far.
    fn bytes(&self) -> u64;
}

/// A writer of records.
pub(crate) trait Sink {
    /// Writes a record, or refuses what the format has no place for.
    fn write(&mut self, record: &Record) -> io::Result<()>;

    /// Writes the records that are still buffered.
    fn finish(&mut self) -> io::Result<()>;
}

/// The reason why there is no next record.
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
