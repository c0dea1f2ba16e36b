//! Tagged fields at the end of a structure, so that later versions can add to it.
//!
//! A list of fields is (tag, length, bytes)* then tag 0. Tags ascend. A reader skips an even tag
//! that it does not know and refuses an odd one with [`ErrorKind::FormatVersion`]. A new field that
//! must not be ignored gets an odd tag.

use crate::base::error::{Error, ErrorKind, Result};

use super::byte_reader::put_sized;
use super::{ByteReader, varint};

/// Writes fields. [`FieldWriter::finish`] must be called.
pub(crate) struct FieldWriter<'a> {
    out: &'a mut Vec<u8>,
    last: u64,
}

impl<'a> FieldWriter<'a> {
    pub(crate) fn new(out: &'a mut Vec<u8>) -> Self {
        FieldWriter { out, last: 0 }
    }

    /// Appends one field. Tags must ascend.
    pub(crate) fn put(&mut self, tag: u64, bytes: &[u8]) {
        debug_assert!(tag > self.last);
        self.last = tag;
        varint::put(self.out, tag);
        put_sized(self.out, bytes);
    }

    /// Appends a field of one number, unless it is `None`.
    pub(crate) fn put_number(&mut self, tag: u64, number: Option<u64>) {
        if let Some(number) = number {
            let mut bytes = Vec::with_capacity(varint::BYTES_MAX);
            varint::put(&mut bytes, number);
            self.put(tag, &bytes);
        }
    }

    /// Appends a field of two numbers, unless it is `None`.
    pub(crate) fn put_pair(&mut self, tag: u64, pair: Option<(u64, u64)>) {
        if let Some((first, second)) = pair {
            let mut bytes = Vec::with_capacity(2 * varint::BYTES_MAX);
            varint::put(&mut bytes, first);
            varint::put(&mut bytes, second);
            self.put(tag, &bytes);
        }
    }

    pub(crate) fn finish(self) {
        varint::put(self.out, 0);
    }
}

/// Reads fields until the end of the list.
pub(crate) struct FieldReader<'r, 'a> {
    reader: &'r mut ByteReader<'a>,
    what: &'static str,
    last: u64,
}

impl<'r, 'a> FieldReader<'r, 'a> {
    pub(crate) fn new(reader: &'r mut ByteReader<'a>, what: &'static str) -> Self {
        FieldReader {
            reader,
            what,
            last: 0,
        }
    }

    /// The next field; `None` at the end of the list. The caller passes tags that it does not know
    /// to [`FieldReader::unknown`].
    pub(crate) fn next(&mut self) -> Result<Option<(u64, ByteReader<'a>)>> {
        let tag = self.reader.varint("field tag")?;
        if tag == 0 {
            return Ok(None);
        }
        if tag <= self.last {
            return Err(Error::corruption(format!(
                "expected a field of {} after {}, found {tag}",
                self.what, self.last
            )));
        }
        self.last = tag;
        Ok(Some((tag, ByteReader::new(self.reader.sized(self.what)?))))
    }

    /// Skips a field of a later version if its tag is even, and refuses it otherwise.
    pub(crate) fn unknown(&self, tag: u64) -> Result<()> {
        if tag.is_multiple_of(2) {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::FormatVersion,
            format!("{} has a field {tag} of a later version", self.what),
        ))
    }
}

/// Reads a field of one number.
pub(crate) fn number<T: TryFrom<u64>>(mut field: ByteReader<'_>, what: &str) -> Result<T> {
    let number = field.varint_as(what)?;
    field.finish(what)?;
    Ok(number)
}

/// Reads a field of two numbers.
pub(crate) fn pair(mut field: ByteReader<'_>, what: &str) -> Result<(u64, u64)> {
    let pair = (field.varint(what)?, field.varint(what)?);
    field.finish(what)?;
    Ok(pair)
}

/// Reads a count `n` and `n` items of at least one byte each.
pub(crate) fn list<'a, T>(
    reader: &mut ByteReader<'a>,
    what: &str,
    mut item: impl FnMut(&mut ByteReader<'a>) -> Result<T>,
) -> Result<Vec<T>> {
    let count: usize = reader.varint_as(what)?;
    if count > reader.remaining() {
        return Err(Error::corruption(format!(
            "expected {count} {what} in {} bytes",
            reader.remaining()
        )));
    }
    let mut items = Vec::with_capacity(count.min(64));
    for _ in 0..count {
        items.push(item(reader)?);
    }
    Ok(items)
}

/// Reads a list of fields of which this version knows none.
pub(crate) fn skip_fields(reader: &mut ByteReader<'_>, what: &'static str) -> Result<()> {
    let mut fields = FieldReader::new(reader, what);
    while let Some((tag, _)) = fields.next()? {
        fields.unknown(tag)?;
    }
    Ok(())
}
