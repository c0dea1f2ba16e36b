//! The formats in which `dump` writes and `load` reads entries, one file per format.
//!
//! Each format keeps every byte: `load` restores exactly what `dump` wrote.

mod csv;
mod json;
mod ldb;
mod tsv;

use std::io::{self, BufRead, BufWriter, Write};
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use clap::ValueEnum;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use hedgerow::io::WallTime;
use hedgerow::{Expiry, StoredEntry};

use crate::encoding::Encoding;
use crate::exit::{Exit, Failure};

/// The part of the help about the formats that are written and read.
pub(crate) const FORMATS: &str = "\
Formats:
  json  lines such as {\"key\":\"ada\",\"value\":\"1815\"}; bytes that are not UTF-8 are
        {\"base64\":\"/w==\"} instead of a string; a value that expires has also
        \"expires\":1767225600000, in milliseconds since 1970; operands that no merge
        operator could combine are \"operands\":[\"1\",\"2\"], the oldest first, with or
        without a value under them
  csv   a line `key,value`, then a line per pair with its bytes unchanged; entries that
        expire or have operands are refused
  tsv   a line per pair, key TAB value, as `scan` prints them; no first line with
        names; \\\\, \\n, \\r, \\t and \\xNN stand for bytes";

/// The rest of the help about formats, for a command that reads.
pub(crate) const READ_FORMATS: &str = "  \
  ldb   the output of RocksDB's `ldb --db=DIR dump --hex` (see `hedgerow import`)

Other columns of csv and tsv, by the names in the first line, or by their numbers if it has \
none; their bytes are unchanged, the rest is ignored:
  id,name,born          load --format csv --columns key=id,value=name
  7 TAB Ada TAB 1815    load --format tsv --columns key=1,value=3";

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Lines of JSON objects.
    Json,
    /// Comma-separated values.
    Csv,
    /// Values separated by tabs.
    Tsv,
    /// The output of `ldb dump --hex`.
    Ldb,
}

/// The columns of a table that are key and value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Columns {
    /// By the names in the first line.
    Named([String; 2]),
    /// By their places, from 0; the first line is an entry.
    Numbered([usize; 2]),
}

impl FromStr for Columns {
    type Err = String;

    /// Parses `key=id,value=name`, or numbers from 1.
    fn from_str(text: &str) -> Result<Columns, String> {
        let unknown = || {
            format!(
                "expected columns such as `key=id,value=name` or `key=1,value=3`, found `{text}`"
            )
        };
        let (key, value) = text.split_once(',').ok_or_else(unknown)?;
        let key = key.strip_prefix("key=").ok_or_else(unknown)?;
        let value = value.strip_prefix("value=").ok_or_else(unknown)?;
        let number = |name: &str| name.parse::<usize>().ok();
        Ok(match (number(key), number(value)) {
            (Some(0), Some(_)) | (Some(_), Some(0)) => return Err(unknown()),
            (Some(key), Some(value)) => Columns::Numbered([key - 1, value - 1]),
            _ => Columns::Named([key.to_owned(), value.to_owned()]),
        })
    }
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
    /// Key and value, for a format without a place for anything else.
    fn pair(&self, format: &str) -> io::Result<[&Vec<u8>; 2]> {
        match (&self.value, self.expires, &self.operands[..]) {
            (Some(value), None, []) => Ok([&self.key, value]),
            _ => Err(io::Error::other(format!(
                "{format} has no place for the expiry or the operands of `{}`; use --format json",
                self.key.escape_ascii()
            ))),
        }
    }

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
            "tsv" => Ok(Format::Tsv),
            _ => {
                let message = format!(
                    "expected a name that ends in .jsonl, .ndjson, .json, .csv or .tsv, or --format, \
                     found {}",
                    file.display()
                );
                Err(Failure::new(Exit::Usage, message))
            }
        }
    }

    /// Parses the name of a format that `dump` writes.
    pub(crate) fn written() -> impl TypedValueParser<Value = Format> {
        let written = [Format::Json, Format::Csv, Format::Tsv];
        let names = written.iter().filter_map(Format::to_possible_value);
        PossibleValuesParser::new(names).try_map(|name| Format::from_str(&name, true))
    }

    /// A reader of `input`, whose key and value are in the given columns or in the usual ones.
    ///
    /// # Errors
    ///
    /// `Usage` if JSON is to have columns.
    pub(crate) fn source<'a>(
        self,
        input: impl BufRead + 'a,
        encoding: Encoding,
        columns: Option<&Columns>,
    ) -> Result<Box<dyn Source + 'a>, Failure> {
        if matches!(self, Format::Json | Format::Ldb) && columns.is_some() {
            let message = "expected --columns for csv or tsv, found another format";
            return Err(Failure::new(Exit::Usage, message));
        }
        Ok(match self {
            Format::Json => Box::new(json::Source::new(input, encoding)),
            Format::Csv => Box::new(csv::Source::comma_separated(input, encoding, columns)),
            Format::Tsv => Box::new(csv::Source::tab_separated(input, encoding, columns)),
            Format::Ldb => Box::new(ldb::Source::new(input)),
        })
    }

    /// A buffered writer to `output`.
    ///
    /// # Errors
    ///
    /// `Usage` if the format is only read.
    pub(crate) fn sink<'a>(
        self,
        output: impl Write + 'a,
        encoding: Encoding,
    ) -> Result<Box<dyn Sink + 'a>, Failure> {
        Ok(match self {
            Format::Json => Box::new(json::Sink::new(BufWriter::new(output), encoding)),
            Format::Csv => Box::new(csv::Sink::new(output, encoding)),
            Format::Tsv => Box::new(tsv::Sink::new(BufWriter::new(output), encoding)),
            Format::Ldb => {
                let message = "expected json, csv or tsv, found ldb, which `dump` does not write";
                return Err(Failure::new(Exit::Usage, message));
            }
        })
    }
}

#[cfg(test)]
mod conformance;
