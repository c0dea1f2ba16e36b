//! Comma-separated values under the header `key,value` (RFC 4180).
//!
//! In the text encoding a field is the bytes themselves, in quotes if necessary, so that files of
//! other programs load unchanged. Binary data can be hexadecimal or base64 for such programs.

use std::io::{self, Read, Write};

use csv::{ByteRecord, ErrorKind, ReaderBuilder, WriterBuilder};

use super::{Problem, Record};
use crate::encoding::Encoding;

const HEADER: [&str; 2] = ["key", "value"];

pub(super) struct Source<R> {
    reader: csv::Reader<R>,
    encoding: Encoding,
    record: ByteRecord,
    header_read: bool,
    line: u64,
}

impl<R: Read> Source<R> {
    pub(super) fn new(input: R, encoding: Encoding) -> Source<R> {
        Source {
            // The fields are counted in this file, so that all errors have one form.
            reader: ReaderBuilder::new()
                .has_headers(false)
                .flexible(true)
                .from_reader(input),
            encoding,
            record: ByteRecord::new(),
            header_read: false,
            line: 1,
        }
    }

    /// Reads a record. Returns false at the end.
    fn advance(&mut self) -> Result<bool, Problem> {
        let read = self.reader.read_byte_record(&mut self.record);
        let there = read.map_err(|e| Problem::Io(io_error(e)))?;
        self.line = self
            .record
            .position()
            .map_or(self.line, csv::Position::line);
        Ok(there)
    }

    fn check_header(&mut self) -> Result<(), Problem> {
        self.header_read = true;
        if self.advance()? && self.record != HEADER[..] {
            let found: Vec<_> = self
                .record
                .iter()
                .map(|f| f.escape_ascii().to_string())
                .collect();
            let found: String = found.join(",").chars().take(40).collect();
            let what = format!("expected the header `key,value`, found `{found}`");
            return Err(Problem::Malformed(what));
        }
        Ok(())
    }

    fn record(&self) -> Result<Record, String> {
        let [key, value] = self.fields()?;
        let field = |name: &str, text: &[u8]| match self.encoding {
            Encoding::Text => Ok(text.to_vec()),
            encoding => encoding
                .decode(text)
                .map_err(|what| format!("{name}: {what}")),
        };
        Ok(Record {
            key: field("key", key)?,
            value: Some(field("value", value)?),
            ..Record::default()
        })
    }

    fn fields(&self) -> Result<[&[u8]; 2], String> {
        match self.record.len() {
            2 => Ok([&self.record[0], &self.record[1]]),
            n => Err(format!("expected 2 fields, key and value, found {n}")),
        }
    }
}

impl<R: Read> super::Source for Source<R> {
    fn next(&mut self) -> Result<Option<Record>, Problem> {
        if !self.header_read {
            self.check_header()?;
        }
        if !self.advance()? {
            return Ok(None);
        }
        self.record().map(Some).map_err(Problem::Malformed)
    }

    fn line(&self) -> u64 {
        self.line
    }

    fn bytes(&self) -> u64 {
        self.reader.position().byte()
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
        let (key, Some(value), None, []) = (
            &record.key,
            &record.value,
            record.expires,
            record.operands.as_slice(),
        ) else {
            return Err(io::Error::other(format!(
                "csv has no place for the expiry or the operands of `{}`; use --format json",
                record.key.escape_ascii()
            )));
        };
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
