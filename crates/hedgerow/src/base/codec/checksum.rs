//! CRC-32C, seeded so that bytes are valid only where they were meant to be.

/// The checksum of `bytes` at a place named by `seed` (a file number and an offset mixed in), so
/// that a record or page that was copied or left over from elsewhere does not verify.
pub(crate) fn seeded(seed: u64, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&seed.to_le_bytes()), bytes)
}

/// Whether a checksum that was found is the one expected. Fuzzers pass all of them: they test what
/// lies behind.
#[inline]
pub(crate) fn agree(found: u32, expected: u32) -> bool {
    cfg!(fuzzing) || found == expected
}

/// Continues a checksum over more bytes.
pub(crate) fn extend(checksum: u32, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(checksum, bytes)
}

/// The seed of something at an offset of a numbered file.
pub(crate) fn place(file: u64, offset: u64) -> u64 {
    file.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ offset
}
