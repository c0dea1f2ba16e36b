//! Reads fields from bytes that may be damaged. Every error names the expected field.

use crate::base::error::{Error, Result};

use super::varint;

/// A position in a byte string. Errors carry the offset within it.
#[derive(Debug, Clone)]
pub(crate) struct ByteReader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> ByteReader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        ByteReader { bytes, at: 0 }
    }

    /// The number of bytes read.
    pub(crate) fn position(&self) -> usize {
        self.at
    }

    /// The number of bytes left.
    pub(crate) fn remaining(&self) -> usize {
        self.bytes.len() - self.at
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.remaining() == 0
    }

    /// The next `count` bytes; `what` names them in the error.
    pub(crate) fn take(&mut self, count: usize, what: &str) -> Result<&'a [u8]> {
        if count > self.remaining() {
            return Err(Error::corruption(format!(
                "expected {count} bytes of {what}, found {} bytes",
                self.remaining()
            )));
        }
        let taken = &self.bytes[self.at..self.at + count];
        self.at += count;
        Ok(taken)
    }

    pub(crate) fn u8(&mut self, what: &str) -> Result<u8> {
        Ok(self.take(1, what)?[0])
    }

    pub(crate) fn u32(&mut self, what: &str) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array(what)?))
    }

    pub(crate) fn u64(&mut self, what: &str) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array(what)?))
    }

    /// A variable-length integer.
    #[inline]
    pub(crate) fn varint(&mut self, what: &str) -> Result<u64> {
        let Some((value, taken)) = varint::get(&self.bytes[self.at..]) else {
            return Err(Error::corruption(format!(
                "expected a variable-length {what}"
            )));
        };
        self.at += taken;
        Ok(value)
    }

    /// A variable-length integer that must fit the type.
    pub(crate) fn varint_as<T: TryFrom<u64>>(&mut self, what: &str) -> Result<T> {
        let value = self.varint(what)?;
        T::try_from(value)
            .map_err(|_| Error::corruption(format!("{what} is out of range: {value}")))
    }

    /// Bytes preceded by their length.
    pub(crate) fn sized(&mut self, what: &str) -> Result<&'a [u8]> {
        let count = self.varint_as::<usize>(what)?;
        self.take(count, what)
    }

    /// All bytes that are left.
    pub(crate) fn rest(&mut self) -> &'a [u8] {
        let rest = &self.bytes[self.at..];
        self.at = self.bytes.len();
        rest
    }

    /// Checks that nothing is left.
    pub(crate) fn finish(self, what: &str) -> Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        Err(Error::corruption(format!(
            "expected the end of {what}, found {} more bytes",
            self.remaining()
        )))
    }

    fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N]> {
        let taken = self.take(N, what)?;
        Ok(std::array::from_fn(|i| taken[i]))
    }
}

/// Appends bytes preceded by their length.
pub(crate) fn put_sized(out: &mut Vec<u8>, bytes: &[u8]) {
    varint::put(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}
