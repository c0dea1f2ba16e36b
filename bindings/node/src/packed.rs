//! Keys and values packed in one buffer, in both directions. Numbers are little-endian.
//!
//! ```text
//! bytes    = length: u32, then so many bytes
//! optional = 0: u32, or length + 1: u32, then so many bytes
//! entry    = key: bytes, value: bytes
//! ```
//!
//! What JavaScript packs is checked as bytes from a file are.

use std::ops::{Deref, DerefMut};

use napi::bindgen_prelude::{BufferSlice, FromNapiValue, ValidateNapiValue};
use napi::sys::{napi_env, napi_value};

use crate::failure::{Failure, Result};

/// A buffer of JavaScript, for the length of a call. Anything else is refused; napi alone would end
/// the process.
pub struct Bytes<'env>(BufferSlice<'env>);

impl FromNapiValue for Bytes<'_> {
    unsafe fn from_napi_value(env: napi_env, value: napi_value) -> napi::Result<Self> {
        // SAFETY: the caller has the environment and the value from Node, for this call.
        unsafe { BufferSlice::validate(env, value) }?;
        // SAFETY: as above; and the value is a buffer.
        unsafe { BufferSlice::from_napi_value(env, value) }.map(Bytes)
    }
}

impl Deref for Bytes<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl DerefMut for Bytes<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

/// Reads what JavaScript packed.
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader(bytes)
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn byte(&mut self) -> Result<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    pub(crate) fn number(&mut self) -> Result<u32> {
        let mut number = [0; 4];
        number.copy_from_slice(self.take(4)?);
        Ok(u32::from_le_bytes(number))
    }

    pub(crate) fn double(&mut self) -> Result<f64> {
        let mut double = [0; 8];
        double.copy_from_slice(self.take(8)?);
        Ok(f64::from_le_bytes(double))
    }

    pub(crate) fn bytes(&mut self) -> Result<&'a [u8]> {
        let length = self.number()? as usize;
        self.take(length)
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or_else(|| {
            let found = self.0.len();
            Failure::invalid(format!(
                "expected {length} more packed bytes, found {found}"
            ))
        })?;
        self.0 = rest;
        Ok(taken)
    }
}

/// Packs a key or a value. Its length is within the bounds of the engine, far below 2^32.
pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(bytes);
}

/// Packs a value, if there is one.
pub(crate) fn put_optional(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    let length = bytes.map_or(0, |bytes| bytes.len() as u32 + 1);
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(bytes.unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_bytes_are_read_back_and_cut_ones_refused() {
        let mut packed = vec![7];
        put_bytes(&mut packed, b"key");
        packed.extend_from_slice(&2.5_f64.to_le_bytes());
        let mut reader = Reader::new(&packed);
        assert_eq!(reader.byte().unwrap(), 7);
        assert_eq!(reader.bytes().unwrap(), b"key");
        assert_eq!(reader.double().unwrap(), 2.5);
        assert!(reader.is_at_end());
        for cut in 0..packed.len() {
            let mut reader = Reader::new(&packed[..cut]);
            let read = reader
                .byte()
                .and_then(|_| reader.bytes())
                .and_then(|_| reader.double());
            assert!(read.is_err(), "{cut}");
        }
        assert!(Reader::new(&[255; 8]).bytes().is_err());
    }

    #[test]
    fn an_absent_value_is_not_an_empty_one() {
        let mut packed = Vec::new();
        put_optional(&mut packed, None);
        put_optional(&mut packed, Some(b""));
        put_optional(&mut packed, Some(b"v"));
        assert_eq!(packed, [0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, b'v']);
    }
}
