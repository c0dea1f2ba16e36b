//! Bytes: integers, checksums, compression. Decoders never panic; they say what they expected.

pub(crate) mod checksum;
pub(crate) mod features;
pub(crate) mod fields;
#[cfg(test)]
pub(crate) mod hex;
pub(crate) mod reader;
pub(crate) mod varint;

pub(crate) use reader::ByteReader;
