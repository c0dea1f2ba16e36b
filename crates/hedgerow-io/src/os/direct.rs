//! Reads and writes past the system's page cache.
//!
//! A direct read moves whole sectors between the device and memory that begins at a sector
//! boundary. So it goes into memory of our own first. The copy out of it replaces the copy out of
//! the page cache. A direct read saves the cache's own work for a page (about 5 us of the 12 us of
//! processor time of a random read of 4 KiB on our machine), and the memory for a second copy of a
//! cached page.

use std::cell::RefCell;
use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use super::open_files::ReopenedFile;
use super::read::check_bounds;
use super::write::Steps;
use crate::RandomRead;

/// An upper bound on sector sizes: we know of no device with larger ones.
const SECTOR_BYTES: usize = 4096;
/// The memory that a thread keeps for reads, in bytes: enough for those of merges. A longer read
/// allocates. Untouched pages of it take no memory.
const KEPT_BYTES: usize = (256 << 10) + 2 * SECTOR_BYTES;

thread_local! {
    static BOUNCE: RefCell<Sectors> = RefCell::new(Sectors::new(KEPT_BYTES));
}

/// A file opened with `O_DIRECT`.
#[derive(Debug)]
pub(super) struct DirectFile {
    pub(super) file: ReopenedFile,
    pub(super) bytes: u64,
}

/// Opens a file for direct reads; `Unsupported` if the file system has none.
pub(super) fn open(path: &Path) -> io::Result<File> {
    open_with(OpenOptions::new().read(true), path)
}

/// Creates a file for direct writes; `Unsupported` if the file system has none. The file may exist
/// even then.
pub(super) fn create(path: &Path) -> io::Result<File> {
    open_with(OpenOptions::new().write(true).create_new(true), path)
}

fn open_with(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    #[cfg(target_os = "linux")]
    return options
        .custom_flags(libc::O_DIRECT)
        .open(path)
        .map_err(|error| match error.kind() {
            io::ErrorKind::InvalidInput => unsupported(),
            _ => error,
        });
    #[cfg(not(target_os = "linux"))]
    return Err(unsupported());
}

fn unsupported() -> io::Error {
    io::Error::new(
        io::ErrorKind::Unsupported,
        "expected a file system with direct reads and writes, found one without",
    )
}

impl RandomRead for DirectFile {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        check_bounds(offset, buf.len(), self.bytes)?;
        if buf.is_empty() {
            return Ok(());
        }
        let span = Span::around(offset, buf.len());
        if span.bytes > KEPT_BYTES {
            return self.read_by_way_of(&mut Sectors::new(span.bytes), &span, buf);
        }
        BOUNCE.with_borrow_mut(|bounce| self.read_by_way_of(bounce, &span, buf))
    }
}

impl DirectFile {
    /// Returns true if a read of this range goes to the device: the file is direct, and the range
    /// is inside it and not empty.
    pub(super) fn is_to_be_read(file: &dyn RandomRead, offset: u64, len: usize) -> bool {
        let any: &dyn std::any::Any = file;
        any.is::<DirectFile>() && len > 0 && check_bounds(offset, len, file.bytes()).is_ok()
    }

    fn read_by_way_of(&self, sectors: &mut Sectors, span: &Span, buf: &mut [u8]) -> io::Result<()> {
        let file = self.file.get()?;
        let into = &mut sectors.bytes_mut()[..span.bytes];
        let mut read = 0;
        while read < span.wanted.end {
            match file.read_at(&mut into[read..], span.start + read as u64) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(bytes) => read += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        buf.copy_from_slice(&into[span.wanted.clone()]);
        Ok(())
    }
}

/// The size of a direct write in bytes. The device takes as long for it as for a few small writes.
const DIRECT_BYTES: usize = 512 << 10;

/// A file opened with `O_DIRECT`. It takes whole sectors.
#[derive(Debug)]
pub(super) struct DirectWriter {
    file: File,
    /// The bytes that follow `start`.
    sectors: Sectors,
    held_bytes: usize,
    /// The file offset of `sectors`: a multiple of a sector.
    start: u64,
}

impl DirectWriter {
    /// A writer of an empty file.
    pub(super) fn new(file: File) -> DirectWriter {
        DirectWriter {
            file,
            sectors: Sectors::new(DIRECT_BYTES),
            held_bytes: 0,
            start: 0,
        }
    }
}

impl Steps for DirectWriter {
    fn append(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let room = &mut self.sectors.bytes_mut()[self.held_bytes..];
            let (part, rest) = bytes.split_at(bytes.len().min(room.len()));
            room[..part.len()].copy_from_slice(part);
            self.held_bytes += part.len();
            bytes = rest;
            if self.held_bytes == DIRECT_BYTES {
                self.hand_over()?;
            }
        }
        Ok(())
    }

    /// Writes all bytes. The last sector is padded, and the padding is then cut off. The sector
    /// stays in memory, because later bytes rewrite it.
    fn hand_over(&mut self) -> io::Result<()> {
        let tail_bytes = self.held_bytes % SECTOR_BYTES;
        let whole_bytes = self.held_bytes - tail_bytes;
        let sectors = self.sectors.bytes_mut();
        let padded_bytes = self.held_bytes.next_multiple_of(SECTOR_BYTES);
        sectors[self.held_bytes..padded_bytes].fill(0);
        self.file
            .write_all_at(&sectors[..padded_bytes], self.start)?;
        if tail_bytes > 0 {
            self.file.set_len(self.start + self.held_bytes as u64)?;
            sectors.copy_within(whole_bytes..padded_bytes, 0);
        }
        self.start += whole_bytes as u64;
        self.held_bytes = tail_bytes;
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn into_file(self) -> io::Result<File> {
        Ok(self.file)
    }

    fn bytes(&self) -> u64 {
        self.start + self.held_bytes as u64
    }

    fn memory_bytes(&self) -> usize {
        DIRECT_BYTES
    }
}

/// The whole sectors around a range of a file.
#[derive(Debug, Clone)]
pub(super) struct Span {
    pub(super) start: u64,
    pub(super) bytes: usize,
    /// The place of the range in these sectors.
    pub(super) wanted: Range<usize>,
}

impl Span {
    pub(super) fn around(offset: u64, len: usize) -> Span {
        let before = (offset % SECTOR_BYTES as u64) as usize;
        let wanted = before..before + len;
        Span {
            start: offset - before as u64,
            bytes: wanted.end.next_multiple_of(SECTOR_BYTES),
            wanted,
        }
    }
}

/// Memory that begins at a multiple of a sector size.
#[derive(Debug)]
pub(super) struct Sectors {
    memory: Vec<u8>,
    start: usize,
    bytes: usize,
}

impl Sectors {
    pub(super) fn new(bytes: usize) -> Sectors {
        let memory = vec![0; bytes + SECTOR_BYTES];
        let start = memory.as_ptr().align_offset(SECTOR_BYTES);
        Sectors {
            memory,
            start,
            bytes,
        }
    }

    #[cfg(all(feature = "io-uring", target_os = "linux"))]
    pub(super) fn bytes(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.bytes]
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.bytes]
    }
}
