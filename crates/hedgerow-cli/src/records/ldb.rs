//! The output of `ldb dump --hex`, a program of RocksDB that reads databases of RocksDB and
//! LevelDB: lines such as `0x616461 ==> 0x31383135`, and at the end `Keys in range: 1`.

use std::io::BufRead;

use super::{Problem, Record};
use crate::encoding::Encoding;

const END: &str = "Keys in range: ";

pub(super) struct Source<R> {
    input: R,
    text: String,
    line: u64,
    bytes: u64,
    records: u64,
    /// The number at the end, which shows that nothing is missing, has been read.
    is_complete: bool,
}

impl<R: BufRead> Source<R> {
    pub(super) fn new(input: R) -> Source<R> {
        Source {
            input,
            text: String::new(),
            line: 0,
            bytes: 0,
            records: 0,
            is_complete: false,
        }
    }
}

impl<R: BufRead> super::Source for Source<R> {
    fn next(&mut self) -> Result<Option<Record>, Problem> {
        self.text.clear();
        let bytes = self.input.read_line(&mut self.text).map_err(Problem::Io)?;
        self.line += 1;
        self.bytes += bytes as u64;
        let line = self.text.trim_end();
        if bytes == 0 {
            return match self.is_complete {
                true => Ok(None),
                false => Err(malformed(format!(
                    "expected `{END}{}` at the end, found the end of the input",
                    self.records
                ))),
            };
        }
        if let Some(count) = line.strip_prefix(END) {
            self.is_complete = count.parse() == Ok(self.records);
            return match self.is_complete {
                true => self.next(),
                false => Err(malformed(format!(
                    "expected {} entries, found {count} in the last line",
                    self.records
                ))),
            };
        }
        let (key, value) = line.split_once(" ==> ").ok_or_else(|| {
            malformed(format!(
                "expected a line such as `0x616461 ==> 0x31383135`, found `{}`",
                line.chars().take(80).collect::<String>()
            ))
        })?;
        self.records += 1;
        Ok(Some(Record {
            key: decode("key", key)?,
            value: Some(decode("value", value)?),
            ..Record::default()
        }))
    }

    fn line(&self) -> u64 {
        self.line
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }
}

fn decode(name: &str, text: &str) -> Result<Vec<u8>, Problem> {
    let digits = text.strip_prefix("0x").ok_or_else(|| {
        malformed(format!(
            "{name}: expected `0x` and hexadecimal digits, found others; `ldb` prints them with --hex"
        ))
    })?;
    let decoded = Encoding::Hex.decode(digits.as_bytes());
    decoded.map_err(|what| malformed(format!("{name}: {what}")))
}

fn malformed(what: String) -> Problem {
    Problem::Malformed(what)
}
