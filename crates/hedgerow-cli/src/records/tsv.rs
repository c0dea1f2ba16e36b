//! Values separated by tabs, in the encoding in which `scan` prints them.

use std::io::{self, Write};

use super::Record;
use crate::encoding::Encoding;

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
        let [key, value] = record.pair("tsv")?;
        let (key, value) = (self.encoding.encode(key), self.encoding.encode(value));
        // At the beginning of a file it would be a byte order mark.
        let key = key.replacen('\u{feff}', r"\xef\xbb\xbf", 1);
        writeln!(self.output, "{key}\t{value}")
    }

    fn finish(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}
