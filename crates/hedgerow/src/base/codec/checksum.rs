//! CRC-32C with a seed, so that bytes verify only at their own place.

/// The checksum of `bytes` at the place that `seed` names (a file number and an offset mixed in). A
/// record or page that was copied or left over from elsewhere does not verify.
pub(crate) fn seeded(seed: u64, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&seed.to_le_bytes()), bytes)
}

/// True if the found checksum is the expected one. Under a fuzzer it is always true, so that
/// fuzzing reaches the code behind the check.
#[inline]
pub(crate) fn agree(found: u32, expected: u32) -> bool {
    cfg!(fuzzing) || found == expected
}

/// Continues a checksum over more bytes.
pub(crate) fn extend(checksum: u32, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(checksum, bytes)
}

/// The seed for the bytes at an offset of a numbered file.
pub(crate) fn place(file: u64, offset: u64) -> u64 {
    file.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ offset
}
