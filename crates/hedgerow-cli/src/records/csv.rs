//! Comma-separated values under the header `key,value` (RFC 4180), and the reader of other tables.
//!
//! In the text encoding a field is the bytes themselves, in quotes if necessary, so that files of
//! other programs load unchanged. Binary data can be hexadecimal or base64 for such programs.

use std::io::{self, Read, Write};

use csv::{ByteRecord, ErrorKind, ReaderBuilder, WriterBuilder};

use super::{Columns, Problem, Record};
use crate::encoding::Encoding;

const HEADER: [&str; 2] = ["key", "value"];

/// The line ends behind an input. A record that has both of them is in a quote that is not closed,
/// which the parser does not say.
const TAIL: &[u8] = b"\n\n";

pub(super) struct Source<R> {
    reader: csv::Reader<Input<R>>,
    /// `None` for bytes that stand for themselves.
    encoding: Option<Encoding>,
    record: ByteRecord,
    columns: Places,
    /// The number of fields of each line, if it is known.
    width: Option<usize>,
    line: u64,
    /// The lines that the parser counts too few at the beginning of a record: 1 if lines end with
    /// `\r\n`, of which it leaves the `\n` to the next record.
    lines_left: u64,
}

/// An input, then [`TAIL`].
struct Input<R> {
    input: R,
    /// The bytes of the input that were read.
    bytes: u64,
    tail: &'static [u8],
}

impl<R: Read> Read for Input<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // A terminal would wait for more behind its end.
        let read = match self.tail.len() == TAIL.len() {
            true => self.input.read(buffer)?,
            false => 0,
        };
        self.bytes += read as u64;
        match read {
            0 => self.tail.read(buffer),
            _ => Ok(read),
        }
    }
}

/// The places of key and value in a line.
enum Places {
    /// The first line is to be `key,value`.
    Usual,
    /// The first line is to have these names.
    Named([String; 2]),
    Known([usize; 2]),
}

impl<R: Read> Source<R> {
    /// Fields in quotes where they need them, under a first line with names.
    pub(super) fn comma_separated(
        input: R,
        encoding: Encoding,
        columns: Option<&Columns>,
    ) -> Source<R> {
        let reader = ReaderBuilder::new();
        let encoding = Some(encoding).filter(|it| *it != Encoding::Text);
        Source::new(reader, input, encoding, Places::of(columns, Places::Usual))
    }

    /// Fields without quotes, whose encoding leaves no tab in them. A table with other columns is
    /// of another program: its text stands for itself, as in CSV.
    pub(super) fn tab_separated(
        input: R,
        encoding: Encoding,
        columns: Option<&Columns>,
    ) -> Source<R> {
        let mut reader = ReaderBuilder::new();
        reader.delimiter(b'\t').quoting(false);
        let places = Places::of(columns, Places::Known([0, 1]));
        let encoding = Some(encoding).filter(|it| columns.is_none() || *it != Encoding::Text);
        let mut source = Source::new(reader, input, encoding, places);
        source.width = columns.is_none().then_some(HEADER.len());
        source
    }

    fn new(
        mut reader: ReaderBuilder,
        input: R,
        encoding: Option<Encoding>,
        columns: Places,
    ) -> Source<R> {
        Source {
            // The fields are counted in this file, so that all errors have one form.
            reader: reader.has_headers(false).flexible(true).from_reader(Input {
                input,
                bytes: 0,
                tail: TAIL,
            }),
            encoding,
            record: ByteRecord::new(),
            columns,
            width: None,
            line: 1,
            lines_left: 0,
        }
    }

    /// Reads a record. Returns false at the end.
    fn advance(&mut self) -> Result<bool, Problem> {
        let is_first = self.reader.position().byte() == 0;
        let read = self.reader.read_byte_record(&mut self.record);
        let there = read.map_err(|e| Problem::Io(io_error(e)))?;
        let begin = self.record.position().map(csv::Position::line);
        self.line = begin.map_or(self.line, |line| line + self.lines_left);
        let end = self.reader.position();
        if is_first {
            self.lines_left = u64::from(end.line() == 1);
        }
        if there && end.byte() > self.reader.get_ref().bytes + 1 {
            let message = "expected a closing quote, found the end of the input";
            return Err(Problem::Malformed(message.to_owned()));
        }
        Ok(there)
    }

    /// The places of key and value, from the first line if it says so.
    fn places(&mut self) -> Result<[usize; 2], Problem> {
        if let Places::Known(places) = self.columns {
            return Ok(places);
        }
        if !self.advance()? {
            return Ok([0, 1]);
        }
        let found = self.record.iter().map(|f| f.escape_ascii().to_string());
        let found: Vec<String> = found.collect();
        let places = match &self.columns {
            Places::Named(names) => {
                let place = |name: &String| {
                    let missing = || format!("expected a column `{name}`, found {}", shown(&found));
                    found.iter().position(|it| it == name).ok_or_else(missing)
                };
                place(&names[0]).and_then(|key| Ok([key, place(&names[1])?]))
            }
            _ if found == HEADER => Ok([0, 1]),
            _ => Err(format!(
                "expected the header `key,value`, found {}; --columns names others",
                shown(&found)
            )),
        };
        let places = places.map_err(Problem::Malformed)?;
        self.columns = Places::Known(places);
        self.width = Some(found.len());
        Ok(places)
    }

    fn record(&self, [key, value]: [usize; 2]) -> Result<Record, String> {
        let found = self.record.len();
        let least = key.max(value) + 1;
        match self.width {
            Some(width) if found != width => {
                return Err(format!("expected {width} fields, found {found}"));
            }
            None if found < least => {
                return Err(format!("expected at least {least} fields, found {found}"));
            }
            _ => {}
        }
        let field = |name: &str, text: &[u8]| match self.encoding {
            None => Ok(text.to_vec()),
            Some(encoding) => encoding
                .decode(text)
                .map_err(|what| format!("{name}: {what}")),
        };
        Ok(Record {
            key: field("key", &self.record[key])?,
            value: Some(field("value", &self.record[value])?),
            ..Record::default()
        })
    }
}

impl Places {
    fn of(columns: Option<&Columns>, otherwise: Places) -> Places {
        match columns {
            Some(Columns::Named(names)) => Places::Named(names.clone()),
            Some(Columns::Numbered(places)) => Places::Known(*places),
            None => otherwise,
        }
    }
}

/// The names of columns, cut off if they are long.
fn shown(names: &[String]) -> String {
    let names = names.join(",");
    format!("`{}`", names.chars().take(40).collect::<String>())
}

impl<R: Read> super::Source for Source<R> {
    fn next(&mut self) -> Result<Option<Record>, Problem> {
        let places = self.places()?;
        if !self.advance()? {
            return Ok(None);
        }
        self.record(places).map(Some).map_err(Problem::Malformed)
    }

    fn line(&self) -> u64 {
        self.line
    }

    fn bytes(&self) -> u64 {
        self.reader
            .position()
            .byte()
            .min(self.reader.get_ref().bytes)
    }
}

pub(super) struct Sink<W: Write> {
    writer: csv::Writer<W>,
    encoding: Encoding,
    header_written: bool,
}

impl<W: Write> Sink<W> {
    pub(super) fn new(output: W, encoding: Encoding) -> Sink<W> {
        Sink {
            writer: WriterBuilder::new().from_writer(output),
            encoding,
            header_written: false,
        }
    }

    fn write_header(&mut self) -> io::Result<()> {
        if !self.header_written {
            self.header_written = true;
            self.writer.write_record(HEADER).map_err(io_error)?;
        }
        Ok(())
    }
}

impl<W: Write> super::Sink for Sink<W> {
    fn write(&mut self, record: &Record) -> io::Result<()> {
        let [key, value] = record.pair("csv")?;
        self.write_header()?;
        let written = match self.encoding {
            Encoding::Text => self.writer.write_record([key, value]),
            encoding => {
                let fields = [key, value].map(|bytes| encoding.encode(bytes));
                self.writer.write_record(fields)
            }
        };
        written.map_err(io_error)
    }

    fn finish(&mut self) -> io::Result<()> {
        self.write_header()?;
        self.writer.flush()
    }
}

/// Returns the original error of the system, whose kind says if a pipe was closed.
fn io_error(error: csv::Error) -> io::Error {
    match error.into_kind() {
        ErrorKind::Io(error) => error,
        other => io::Error::other(format!("{other:?}")),
    }
}
