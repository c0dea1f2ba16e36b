//! Bytes: integers, checksums, compression. Decoders never panic; they say what they expected.

pub(crate) mod checksum;
pub(crate) mod fields;
pub(crate) mod reader;
pub(crate) mod varint;

pub(crate) use reader::ByteReader;
