//! Compression of pages. A page that does not shrink by an eighth is stored uncompressed: the
//! repeated decompression would cost more than the space is worth.
//!
//! An LZ4 page is the raw size as a little-endian `u32`, then one LZ4 block. Pages that must have
//! one size are padded instead of compressed.

use lz4_flex::block;

use crate::base::error::{Error, Result};
use crate::base::options::Compression;

/// The raw bytes.
pub(crate) const RAW: u8 = 0;
/// The raw size, then an LZ4 block.
pub(crate) const LZ4: u8 = 1;
/// The raw bytes, then zeros, then the raw size: [`pad`].
pub(crate) const PADDED: u8 = 2;

/// The bytes of a raw size.
pub(crate) const SIZE_BYTES: usize = 4;
/// One byte of an LZ4 block stands for at most 255 raw bytes; a raw size beyond this is damage.
const LZ4_EXPANSION_MAX: usize = 255;

/// Replaces `stored` with the `stored_bytes` bytes to store for `raw`. `raw` must leave room for
/// its size.
pub(crate) fn pad(raw: &[u8], stored_bytes: usize, stored: &mut Vec<u8>) {
    assert!(
        raw.len() + SIZE_BYTES <= stored_bytes,
        "a page has room for its size"
    );
    stored.clear();
    stored.extend_from_slice(raw);
    stored.resize(stored_bytes - SIZE_BYTES, 0);
    stored.extend_from_slice(&(raw.len() as u32).to_le_bytes());
}

/// Compresses pages one after the other and reuses its working memory.
pub(crate) struct Compressor {
    compression: Compression,
    table: block::CompressTable,
}

impl Compressor {
    pub(crate) fn new(compression: Compression) -> Self {
        Compressor {
            compression,
            table: block::CompressTable::small(),
        }
    }

    /// Replaces `stored` with the bytes to store for `raw`. Returns the code of the compression.
    pub(crate) fn compress(&mut self, raw: &[u8], stored: &mut Vec<u8>) -> u8 {
        stored.clear();
        if self.compression == Compression::Lz4 && self.lz4(raw, stored) {
            return LZ4;
        }
        stored.clear();
        stored.extend_from_slice(raw);
        RAW
    }

    fn lz4(&mut self, raw: &[u8], stored: &mut Vec<u8>) -> bool {
        let Ok(raw_bytes) = u32::try_from(raw.len()) else {
            return false;
        };
        let worth_bytes = raw.len() - raw.len() / 8;
        stored.resize(SIZE_BYTES + block::get_maximum_output_size(raw.len()), 0);
        stored[..SIZE_BYTES].copy_from_slice(&raw_bytes.to_le_bytes());
        let packed = &mut stored[SIZE_BYTES..];
        let Ok(bytes) = block::compress_into_with_table(raw, packed, &mut self.table) else {
            return false;
        };
        stored.truncate(SIZE_BYTES + bytes);
        stored.len() <= worth_bytes
    }
}

/// The size of the decompressed page: at most `bytes_max`, and at most the size that the stored
/// bytes can stand for. So damage cannot request a large allocation.
pub(crate) fn raw_bytes(id: u8, stored: &[u8], bytes_max: usize) -> Result<usize> {
    let bytes = match id {
        RAW => stored.len(),
        LZ4 => {
            let Some((size, packed)) = stored.split_first_chunk::<SIZE_BYTES>() else {
                return Err(Error::corruption(format!(
                    "expected the raw size of a compressed page, found {} bytes",
                    stored.len()
                )));
            };
            let bytes = u32::from_le_bytes(*size) as usize;
            if bytes > packed.len().saturating_mul(LZ4_EXPANSION_MAX) {
                return Err(Error::corruption(format!(
                    "expected at most {LZ4_EXPANSION_MAX} raw bytes for each of {} stored bytes, found {bytes}",
                    packed.len()
                )));
            }
            bytes
        }
        PADDED => {
            let size = stored.split_last_chunk::<SIZE_BYTES>();
            let found = size.map(|(front, size)| (front.len(), u32::from_le_bytes(*size) as usize));
            match found {
                Some((room, bytes)) if bytes <= room => bytes,
                _ => {
                    return Err(Error::corruption(format!(
                        "expected the raw size of a page padded to {} bytes, found {found:?}",
                        stored.len()
                    )));
                }
            }
        }
        _ => {
            return Err(Error::corruption(format!(
                "expected a compression of 0 to 2, found {id}"
            )));
        }
    };
    if bytes > bytes_max {
        return Err(Error::corruption(format!(
            "expected a page of at most {bytes_max} bytes, found {bytes}"
        )));
    }
    Ok(bytes)
}

/// Decompresses into `raw`, whose length is that of [`raw_bytes`].
pub(crate) fn decompress_into(id: u8, stored: &[u8], raw: &mut [u8]) -> Result<()> {
    if id == RAW || id == PADDED {
        raw.copy_from_slice(&stored[..raw.len()]);
        return Ok(());
    }
    let packed = stored.get(SIZE_BYTES..).unwrap_or_default();
    match block::decompress_into(packed, raw) {
        Ok(bytes) if bytes == raw.len() => Ok(()),
        Ok(bytes) => Err(Error::corruption(format!(
            "expected {} decompressed bytes, found {bytes}",
            raw.len()
        ))),
        Err(error) => Err(Error::corruption(format!(
            "cannot decompress a page: {error}"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(compression: Compression, raw: &[u8]) -> (u8, usize) {
        let mut stored = Vec::new();
        let id = Compressor::new(compression).compress(raw, &mut stored);
        let mut back = vec![0; raw_bytes(id, &stored, raw.len()).unwrap()];
        decompress_into(id, &stored, &mut back).unwrap();
        assert_eq!(back, raw);
        (id, stored.len())
    }

    #[test]
    fn pages_are_compressed_when_it_pays() {
        let noise: Vec<u8> = (0u32..4000)
            .map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8)
            .collect();
        assert_eq!(round_trip(Compression::Lz4, &[]).0, RAW);
        assert_eq!(round_trip(Compression::Lz4, b"abc").0, RAW);
        assert_eq!(round_trip(Compression::None, &[7; 5000]), (RAW, 5000));
        assert_eq!(round_trip(Compression::Lz4, &[7; 5000]).0, LZ4);
        assert_eq!(round_trip(Compression::Lz4, &vec![7; 1 << 20]).0, LZ4);
        round_trip(Compression::Lz4, &noise);
    }

    #[test]
    fn padded_pages_have_one_size() {
        for raw in [&b""[..], b"abc", &[7; 96]] {
            let mut stored = vec![1; 5];
            pad(raw, 100, &mut stored);
            assert_eq!(stored.len(), 100);
            let mut back = vec![0; raw_bytes(PADDED, &stored, 96).unwrap()];
            decompress_into(PADDED, &stored, &mut back).unwrap();
            assert_eq!(back, raw);
        }
        assert!(raw_bytes(PADDED, &[1, 0, 0, 0], 10).is_err());
        assert!(raw_bytes(PADDED, &[0, 0, 0], 10).is_err());
    }

    #[test]
    fn damaged_sizes_do_not_allocate() {
        assert!(raw_bytes(LZ4, &[0xFF, 0xFF, 0xFF, 0x7F, 1, 2], usize::MAX).is_err());
        assert!(raw_bytes(LZ4, &[1, 0], usize::MAX).is_err());
        assert!(raw_bytes(RAW, &[0; 9], 8).is_err());
        assert!(raw_bytes(9, &[0; 9], 10).is_err());
        assert!(decompress_into(LZ4, &[9, 0, 0, 0, 0xF0], &mut [0; 9]).is_err());
    }
}
