//! The slot of a key, as Redis' clients compute it.

use crc::{CRC_16_XMODEM, Crc};

/// The number of slots.
pub(crate) const SLOTS: u16 = 16_384;

static CRC: Crc<u16> = Crc::<u16>::new(&CRC_16_XMODEM);

/// The slot of a key: a checksum of the text in its first braces, or of all of it if there is none.
pub(crate) fn slot(key: &[u8]) -> u16 {
    let tag = key.iter().position(|it| *it == b'{').and_then(|open| {
        let behind = &key[open + 1..];
        let close = behind.iter().position(|it| *it == b'}')?;
        Some(&behind[..close]).filter(|it| !it.is_empty())
    });
    CRC.checksum(tag.unwrap_or(key)) % SLOTS
}
