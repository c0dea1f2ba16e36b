//! Compression of pages. A page that does not shrink by an eighth is stored uncompressed: the
//! repeated decompression would cost more than the space is worth.
//!
//! A compressed page is the raw size as a little-endian `u32`, then one LZ4 block or one frame of
//! Zstandard. Pages that must have one size are padded instead of compressed. Zstandard is there
//! with the feature `zstd` only.

use lz4_flex::block;

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::options::compression::Compression;

/// The raw bytes.
pub(crate) const RAW: u8 = 0;
/// The raw size, then an LZ4 block.
pub(crate) const LZ4: u8 = 1;
/// The raw bytes, then zeros, then the raw size: [`pad`].
pub(crate) const PADDED: u8 = 2;
/// The raw size, then a frame of Zstandard.
pub(crate) const ZSTD: u8 = 3;

/// The bytes of a raw size.
pub(crate) const SIZE_BYTES: usize = 4;
/// One byte of an LZ4 block stands for at most 255 raw bytes; a raw size beyond this is damage.
const LZ4_EXPANSION_MAX: usize = 255;
/// A block of Zstandard takes at least 4 bytes and stands for at most 128 KiB.
const ZSTD_EXPANSION_MAX: usize = 32 << 10;
/// The level of Zstandard's own default.
#[cfg(feature = "zstd")]
const ZSTD_LEVEL: i32 = 3;

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
    #[cfg(feature = "zstd")]
    zstd: Option<zstd::bulk::Compressor<'static>>,
}

impl Compressor {
    pub(crate) fn new(compression: Compression) -> Self {
        Compressor {
            compression,
            table: block::CompressTable::small(),
            #[cfg(feature = "zstd")]
            zstd: None,
        }
    }

    /// Replaces `stored` with the bytes to store for `raw`. Returns the code of the compression.
    pub(crate) fn compress(&mut self, raw: &[u8], stored: &mut Vec<u8>) -> u8 {
        stored.clear();
        let (code, is_worth_it) = match self.compression {
            Compression::None => (RAW, false),
            Compression::Lz4 => (LZ4, self.lz4(raw, stored)),
            Compression::Zstd => (ZSTD, self.zstd(raw, stored)),
        };
        if is_worth_it {
            return code;
        }
        stored.clear();
        stored.extend_from_slice(raw);
        RAW
    }

    fn lz4(&mut self, raw: &[u8], stored: &mut Vec<u8>) -> bool {
        let Some(packed) = begin(raw, block::get_maximum_output_size(raw.len()), stored) else {
            return false;
        };
        let packed = block::compress_into_with_table(raw, packed, &mut self.table);
        packed.is_ok_and(|bytes| end(raw, bytes, stored))
    }

    #[cfg(feature = "zstd")]
    fn zstd(&mut self, raw: &[u8], stored: &mut Vec<u8>) -> bool {
        if self.zstd.is_none() {
            self.zstd = zstd::bulk::Compressor::new(ZSTD_LEVEL).ok();
        }
        let room = zstd::zstd_safe::compress_bound(raw.len());
        match (&mut self.zstd, begin(raw, room, stored)) {
            (Some(zstd), Some(packed)) => {
                let packed = zstd.compress_to_buffer(raw, packed);
                packed.is_ok_and(|bytes| end(raw, bytes, stored))
            }
            _ => false,
        }
    }

    /// No design names this compression without the feature.
    #[cfg(not(feature = "zstd"))]
    fn zstd(&mut self, _: &[u8], _: &mut Vec<u8>) -> bool {
        false
    }
}

/// Begins a compressed page with the raw size. Returns the room behind it.
fn begin<'s>(raw: &[u8], room: usize, stored: &'s mut Vec<u8>) -> Option<&'s mut [u8]> {
    let raw_bytes = u32::try_from(raw.len()).ok()?;
    stored.resize(SIZE_BYTES + room, 0);
    stored[..SIZE_BYTES].copy_from_slice(&raw_bytes.to_le_bytes());
    Some(&mut stored[SIZE_BYTES..])
}

/// Ends a compressed page. Returns true if it saves an eighth.
fn end(raw: &[u8], packed_bytes: usize, stored: &mut Vec<u8>) -> bool {
    stored.truncate(SIZE_BYTES + packed_bytes);
    stored.len() <= raw.len() - raw.len() / 8
}

/// The size of the decompressed page: at most `bytes_max`, and at most the size that the stored
/// bytes can stand for. So damage cannot request a large allocation.
pub(crate) fn raw_bytes(id: u8, stored: &[u8], bytes_max: usize) -> Result<usize> {
    let bytes = match id {
        RAW => stored.len(),
        LZ4 | ZSTD => {
            let expansion_max = match id {
                LZ4 => LZ4_EXPANSION_MAX,
                _ => ZSTD_EXPANSION_MAX,
            };
            let Some((size, packed)) = stored.split_first_chunk::<SIZE_BYTES>() else {
                return Err(Error::corruption(format!(
                    "expected the raw size of a compressed page, found {} bytes",
                    stored.len()
                )));
            };
            let bytes = u32::from_le_bytes(*size) as usize;
            if bytes > packed.len().saturating_mul(expansion_max) {
                return Err(Error::corruption(format!(
                    "expected at most {expansion_max} raw bytes for each of {} stored bytes, found {bytes}",
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
                "expected a compression of 0 to 3, found {id}"
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
    let bytes = match id {
        ZSTD => unzstd(packed, raw)?,
        _ => block::decompress_into(packed, raw).map_err(|e| undecodable(&e))?,
    };
    if bytes != raw.len() {
        return Err(Error::corruption(format!(
            "expected {} decompressed bytes, found {bytes}",
            raw.len()
        )));
    }
    Ok(())
}

fn undecodable(error: &dyn std::fmt::Display) -> Error {
    Error::corruption(format!("cannot decompress a page: {error}"))
}

#[cfg(feature = "zstd")]
fn unzstd(packed: &[u8], raw: &mut [u8]) -> Result<usize> {
    use std::cell::RefCell;

    thread_local! {
        /// Its tables take some 100 KB, too much to make for each page.
        static DECOMPRESSOR: RefCell<Option<zstd::bulk::Decompressor<'static>>> =
            const { RefCell::new(None) };
    }
    DECOMPRESSOR.with_borrow_mut(|kept| {
        let decompressor = match kept {
            Some(kept) => kept,
            None => {
                let made = zstd::bulk::Decompressor::new();
                let made = made.map_err(|e| Error::new(ErrorKind::Io, e.to_string()))?;
                kept.insert(made)
            }
        };
        let bytes = decompressor.decompress_to_buffer(packed, raw);
        bytes.map_err(|e| undecodable(&e))
    })
}

#[cfg(not(feature = "zstd"))]
fn unzstd(_: &[u8], _: &mut [u8]) -> Result<usize> {
    Err(Error::new(
        ErrorKind::Unsupported,
        "expected a page that is raw or compressed with LZ4, found one of Zstandard; build with the feature `zstd`",
    ))
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

    #[cfg(feature = "zstd")]
    #[test]
    fn pages_of_zstandard_round_trip_and_damage_shows() {
        let text: Vec<u8> = (0u32..9000).map(|i| (i % 7 * i % 11) as u8).collect();
        for raw in [&text[..], &[7; 1 << 20]] {
            let (id, bytes) = round_trip(Compression::Zstd, raw);
            assert_eq!(id, ZSTD);
            assert!(bytes < raw.len() / 2);
        }
        assert_eq!(round_trip(Compression::Zstd, b"abc").0, RAW);
        let mut stored = Vec::new();
        Compressor::new(Compression::Zstd).compress(&text, &mut stored);
        for cut in 0..stored.len() {
            let decoded = raw_bytes(ZSTD, &stored[..cut], 1 << 20)
                .and_then(|bytes| decompress_into(ZSTD, &stored[..cut], &mut vec![0; bytes]));
            assert!(decoded.is_err(), "{cut} bytes");
        }
    }

    #[cfg(not(feature = "zstd"))]
    #[test]
    fn a_page_of_zstandard_names_the_feature() {
        let error = decompress_into(ZSTD, &[1, 0, 0, 0, 9, 9], &mut [0]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("build with the feature `zstd`"));
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
