//! Stored pages: bytes, perhaps compressed, then a trailer. The format is in
//! `docs/format/block_based_table.md`.
//!
//! A page's checksum is seeded with its table and offset, so that a page that was written or read
//! at another place fails. Every page is checked each time it is read from storage.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hedgerow_io::RandomRead;
use hedgerow_mem::PageMut;

use crate::base::codec::checksum;
use crate::base::codec::compress;
use crate::base::entry::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use crate::base::error::{Error, Result};
use crate::base::page::{
    BUFFER_BYTES_MAX, Handle, Page, PageId, PageSource, TRAILER_BYTES, TableId,
};

use super::block_based::short_keys;
use super::block_based::short_keys::SHORT_KEYS;

/// The largest decompressed page. It is one value of the largest size, or a block that its largest
/// entry made too long; the latter is far smaller.
pub(crate) const PAGE_BYTES_MAX: usize = VALUE_BYTES_MAX + 4 * KEY_BYTES_MAX;

/// Appends the trailer of a page stored at `offset`.
pub(crate) fn seal(stored: &mut Vec<u8>, compression: u8, table: TableId, offset: u64) {
    stored.push(compression);
    let sum = checksum::seeded(checksum::place(table.0, offset), stored);
    stored.extend_from_slice(&sum.to_le_bytes());
}

/// Returns true if a trailer may begin with this byte.
pub(super) fn is_compression(byte: u8) -> bool {
    byte & !SHORT_KEYS <= compress::ZSTD
}

/// Checks the bytes of a page against its trailer. Returns the stored bytes and their compression.
pub(crate) fn check(bytes: &[u8], table: TableId, offset: u64) -> Result<(&[u8], u8)> {
    let (Some((body, sum)), true) = (
        bytes.split_last_chunk::<4>(),
        bytes.len() >= TRAILER_BYTES as usize,
    ) else {
        return Err(Error::corruption(format!(
            "expected a page with a trailer of {TRAILER_BYTES} bytes, found {} bytes",
            bytes.len()
        )));
    };
    let found = u32::from_le_bytes(*sum);
    let expected = checksum::seeded(checksum::place(table.0, offset), body);
    if !checksum::agree(found, expected) {
        return Err(Error::corruption(format!(
            "expected a page with checksum {expected:#010x}, found {found:#010x}"
        )));
    }
    Ok((&body[..body.len() - 1], body[body.len() - 1]))
}

/// Verifies and decompresses the bytes of a page. Cost: one allocation.
pub(crate) fn decode(bytes: &[u8], id: PageId) -> Result<Page> {
    decode_into(bytes, id, PageMut::allocate)
}

/// Decodes as [`decode`] does, into memory of the given size from `allocate`.
pub(crate) fn decode_into(
    bytes: &[u8],
    id: PageId,
    allocate: impl Fn(usize) -> PageMut,
) -> Result<Page> {
    check(bytes, id.table, id.handle.offset)
        .and_then(|(stored, compression)| decompress(stored, compression, id, allocate))
        .map_err(|e| e.at_offset(id.handle.offset))
}

/// Reads, verifies and decompresses a page, into memory of the given size from `allocate`. Cost:
/// one read, and one allocation if the page is not compressed, else two.
///
/// # Errors
/// `Corruption`, with file and offset, if the bytes are not the page that was written.
pub(crate) fn read(
    file: &dyn RandomRead,
    path: &Path,
    id: PageId,
    allocate: impl Fn(usize) -> PageMut,
) -> Result<Page> {
    check_place(file, path, id)?;
    let Handle { offset, bytes } = id.handle;
    let mut stored = allocate(bytes as usize);
    file.read_at(offset, &mut stored)
        .map_err(|e| Error::io("read", path, e).at_offset(offset))?;
    decode_stored(stored, id, allocate).map_err(|e| e.at(path, Some(offset)))
}

/// Checks before a read that the file has the page and that the page is not too large.
pub(crate) fn check_place(file: &dyn RandomRead, path: &Path, id: PageId) -> Result<()> {
    let Handle { offset, bytes } = id.handle;
    check_range(file, path, offset, bytes as usize)?;
    if bytes as usize > PAGE_BYTES_MAX + TRAILER_BYTES as usize {
        let error = Error::corruption(format!(
            "expected a page of at most {PAGE_BYTES_MAX} bytes, found {bytes}"
        ));
        return Err(error.at(path, Some(offset)));
    }
    Ok(())
}

/// Verifies and decompresses a page that was read into borrowed memory.
pub(crate) fn copy(
    read: io::Result<&[u8]>,
    path: &Path,
    id: PageId,
    allocate: impl Fn(usize) -> PageMut,
) -> Result<Page> {
    let offset = id.handle.offset;
    let stored = read.map_err(|e| Error::io("read", path, e).at_offset(offset))?;
    decode_into(stored, id, allocate).map_err(|e| e.at(path, Some(offset)))
}

/// The pages of one file. Every access reads.
pub(crate) struct FilePages {
    pub(crate) file: Arc<dyn RandomRead>,
    pub(crate) path: PathBuf,
}

impl PageSource for FilePages {
    fn page(&self, id: PageId) -> Result<Page> {
        read(&*self.file, &self.path, id, PageMut::allocate)
    }
}

/// Decodes a page in place if it is stored uncompressed.
fn decode_stored(
    mut stored: PageMut,
    id: PageId,
    allocate: impl Fn(usize) -> PageMut,
) -> Result<Page> {
    let (body, compression) = check(&stored, id.table, id.handle.offset)?;
    if [compress::RAW, compress::PADDED].contains(&compression) {
        let bytes = compress::raw_bytes(compression, body, PAGE_BYTES_MAX)?;
        stored.truncate(bytes);
        return Ok(Page::of_table(stored, id));
    }
    decompress(body, compression, id, allocate)
}

fn decompress(
    stored: &[u8],
    compression: u8,
    id: PageId,
    allocate: impl Fn(usize) -> PageMut,
) -> Result<Page> {
    if compression & SHORT_KEYS != 0 {
        return restore(stored, compression & !SHORT_KEYS, id, allocate);
    }
    let mut raw = allocate(compress::raw_bytes(compression, stored, PAGE_BYTES_MAX)?);
    compress::decompress_into(compression, stored, &mut raw)?;
    Ok(Page::of_table(raw, id))
}

/// Restores a block that is stored with user keys.
fn restore(
    stored: &[u8],
    compression: u8,
    id: PageId,
    allocate: impl Fn(usize) -> PageMut,
) -> Result<Page> {
    let mut short = vec![0; compress::raw_bytes(compression, stored, PAGE_BYTES_MAX)?];
    compress::decompress_into(compression, stored, &mut short)?;
    let whole = short_keys::restore(&short)?;
    let mut raw = allocate(whole.len());
    raw.copy_from_slice(&whole);
    Ok(Page::of_table(raw, id))
}

fn check_range(file: &dyn RandomRead, path: &Path, offset: u64, bytes: usize) -> Result<()> {
    let file_bytes = file.bytes();
    if offset > file_bytes || bytes as u64 > file_bytes - offset {
        return Err(Error::corruption(format!(
            "expected {bytes} bytes in a file of {file_bytes} bytes"
        ))
        .at(path, Some(offset)));
    }
    Ok(())
}

/// Reads `bytes` bytes after a check that the file has them and that a buffer can hold them.
pub(crate) fn read_range(
    file: &dyn RandomRead,
    path: &Path,
    offset: u64,
    bytes: usize,
) -> Result<PageMut> {
    check_range(file, path, offset, bytes)?;
    if bytes > BUFFER_BYTES_MAX {
        let error = Error::corruption(format!(
            "expected at most {BUFFER_BYTES_MAX} bytes, found {bytes}"
        ));
        return Err(error.at(path, Some(offset)));
    }
    let mut buffer = PageMut::allocate(bytes);
    file.read_at(offset, &mut buffer)
        .map_err(|e| Error::io("read", path, e).at_offset(offset))?;
    Ok(buffer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::error::ErrorKind;
    use crate::base::options::Compression;
    use crate::base::page::PageClass;

    fn id(table: u64, offset: u64, bytes: usize) -> PageId {
        PageId {
            table: TableId(table),
            handle: Handle {
                offset,
                bytes: bytes as u32,
            },
            class: PageClass::Data,
        }
    }

    /// A file that claims to have a size.
    #[derive(Debug)]
    struct Claims(u64);

    impl RandomRead for Claims {
        fn bytes(&self) -> u64 {
            self.0
        }

        fn read_at(&self, _: u64, _: &mut [u8]) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_range_that_no_buffer_can_count_is_refused() {
        for bytes in [BUFFER_BYTES_MAX + 1, usize::MAX / 2, usize::MAX] {
            let read = read_range(&Claims(u64::MAX), Path::new("/file"), 0, bytes);
            let error = read.expect_err("too many bytes");
            assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
        }
    }

    #[test]
    fn a_page_verifies_only_at_its_place() {
        for raw in [&b"some bytes"[..], &[7; 1000], &[]] {
            let mut stored = Vec::new();
            let compression =
                compress::Compressor::new(Compression::Lz4).compress(raw, &mut stored);
            seal(&mut stored, compression, TableId(5), 96);
            let bytes = stored.len();
            assert_eq!(&*decode(&stored, id(5, 96, bytes)).unwrap(), raw);
            assert!(decode(&stored, id(5, 97, bytes)).is_err());
            assert!(decode(&stored, id(6, 96, bytes)).is_err());
            for bit in 0..bytes * 8 {
                stored[bit / 8] ^= 1 << (bit % 8);
                assert!(decode(&stored, id(5, 96, bytes)).is_err());
                stored[bit / 8] ^= 1 << (bit % 8);
            }
            for cut in 0..bytes {
                assert!(decode(&stored[..cut], id(5, 96, cut)).is_err());
            }
        }
    }
}
