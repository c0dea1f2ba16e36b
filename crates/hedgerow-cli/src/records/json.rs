//! JSON lines: one object per line.

use std::io::{self, BufRead, Read, Write};

use hedgerow::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use serde_json::{Map, Value, json};

use super::{Problem, Record};
use crate::encoding::Encoding;

/// The longest line of a key and a value: JSON needs at most six bytes for one (`\u0000`).
const LINE_BYTES_MAX: u64 = 6 * (KEY_BYTES_MAX + VALUE_BYTES_MAX) as u64 + 1024;

/// The first bytes of files that some editors write.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

pub(super) struct Source<R> {
    input: R,
    encoding: Encoding,
    line: u64,
    bytes: u64,
    text: Vec<u8>,
}

impl<R: BufRead> Source<R> {
    pub(super) fn new(input: R, encoding: Encoding) -> Source<R> {
        Source {
            input,
            encoding,
            line: 0,
            bytes: 0,
            text: Vec::new(),
        }
    }

    /// Reads a line. Returns false at the end.
    fn advance(&mut self) -> io::Result<bool> {
        self.text.clear();
        let mut input = self.input.by_ref().take(LINE_BYTES_MAX);
        let length = input.read_until(b'\n', &mut self.text)?;
        self.line += 1;
        self.bytes += length as u64;
        Ok(length > 0)
    }
}

impl<R: BufRead> super::Source for Source<R> {
    fn next(&mut self) -> Result<Option<Record>, Problem> {
        while self.advance().map_err(Problem::Io)? {
            let mark = (self.line == 1).then(|| self.text.strip_prefix(BYTE_ORDER_MARK));
            let text = mark.flatten().unwrap_or(&self.text).trim_ascii();
            if !text.is_empty() {
                let record = record(text, self.encoding).map_err(Problem::Malformed)?;
                return Ok(Some(record));
            }
        }
        Ok(None)
    }

    fn line(&self) -> u64 {
        self.line
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }
}

fn record(text: &[u8], encoding: Encoding) -> Result<Record, String> {
    const EXPECTED: &str = "expected {\"key\": …, \"value\": …}";
    let mut object: Map<String, Value> = serde_json::from_slice(text).map_err(|error| {
        let error = error.to_string();
        // The parser's own line number is always 1, so it is cut off.
        let what = error.split(" at line ").next().unwrap_or_default();
        format!("{EXPECTED}, found `{}`: {what}", beginning(text))
    })?;
    let mut member = |name: &str| object.remove(name).unwrap_or_default();
    let decoded = |name: &str, value: Value| match value {
        Value::Null => Err(format!("{EXPECTED}, found no \"{name}\"")),
        value => { encoding.decode_json(value) }.map_err(|what| format!("\"{name}\": {what}")),
    };
    let key = decoded("key", member("key"))?;
    let operands = match member("operands") {
        Value::Null => Vec::new(),
        Value::Array(all) => {
            let all = all.into_iter().map(|it| decoded("operands", it));
            all.collect::<Result<_, _>>()?
        }
        other => return Err(format!("\"operands\": expected an array, found {other}")),
    };
    let value = match member("value") {
        Value::Null if !operands.is_empty() => None,
        value => Some(decoded("value", value)?),
    };
    let expires =
        match member("expires") {
            Value::Null => None,
            ms => Some(ms.as_u64().ok_or_else(|| {
                format!("\"expires\": expected milliseconds since 1970, found {ms}")
            })?),
        };
    match object.keys().next() {
        Some(other) => Err(format!("{EXPECTED}, found also \"{other}\"")),
        None => Ok(Record {
            key,
            value,
            expires,
            operands,
        }),
    }
}

/// The beginning of a line, enough to recognize it.
fn beginning(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let mut shown: String = text.chars().take(40).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}

pub(super) struct Sink<W> {
    output: W,
    encoding: Encoding,
}

impl<W: Write> Sink<W> {
    pub(super) fn new(output: W, encoding: Encoding) -> Sink<W> {
        Sink { output, encoding }
    }
}

impl<W: Write> super::Sink for Sink<W> {
    fn write(&mut self, record: &Record) -> io::Result<()> {
        let encoded = |bytes: &Vec<u8>| self.encoding.encode_json(bytes);
        let mut object = Map::from_iter([("key".to_owned(), encoded(&record.key))]);
        let mut add = |name: &str, value| drop(object.insert(name.to_owned(), value));
        if let Some(value) = &record.value {
            add("value", encoded(value));
        }
        if let Some(ms) = record.expires {
            add("expires", json!(ms));
        }
        if !record.operands.is_empty() {
            add("operands", record.operands.iter().map(encoded).collect());
        }
        writeln!(self.output, "{}", Value::Object(object))
    }

    fn finish(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}
