//! Reading immutable files: a system call per read, or a memory map; past the page cache: [`direct`].

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::ptr;
use std::sync::Arc;

use memmap2::{MmapOptions, MmapRaw, UncheckedAdvice};

use super::direct::{self, DirectFile};
use super::open_files::{OpenFiles, ReopenedFile};
use super::system;
use crate::{Advice, RandomRead, ReadMode};

/// Opens a file for reading in the given way.
pub(super) fn open(
    files: &Arc<OpenFiles>,
    path: &Path,
    mode: ReadMode,
) -> io::Result<Arc<dyn RandomRead>> {
    let (file, opened) = match mode {
        ReadMode::Direct => files.open(path, direct::open)?,
        ReadMode::Pread | ReadMode::Mmap => files.open(path, open_random)?,
    };
    let metadata = opened.metadata()?;
    if metadata.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    let bytes = metadata.len();
    Ok(match mode {
        ReadMode::Pread => Arc::new(PreadFile { file, bytes }),
        ReadMode::Direct => Arc::new(DirectFile { file, bytes }),
        // There is nothing to map, and no read of it that would reach the file.
        ReadMode::Mmap if bytes == 0 => Arc::new(PreadFile { file, bytes }),
        ReadMode::Mmap => Arc::new(MappedFile::new(&opened, file)?),
    })
}

/// The system reads nothing ahead.
fn open_random(path: &Path) -> io::Result<File> {
    let file = File::open(path)?;
    system::advise_random(&file);
    Ok(file)
}

/// Checks a read against the size that the file had when it was opened.
pub(super) fn check_bounds(offset: u64, len: usize, bytes: u64) -> io::Result<()> {
    match offset.checked_add(len as u64) {
        Some(end) if end <= bytes => Ok(()),
        _ => Err(io::Error::new(
            io::ErrorKind::UnexpectedEof,
            format!("read of {len} bytes at {offset} in a file of {bytes} bytes"),
        )),
    }
}

/// A file read with `pread`.
#[derive(Debug)]
struct PreadFile {
    file: ReopenedFile,
    bytes: u64,
}

impl RandomRead for PreadFile {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        check_bounds(offset, buf.len(), self.bytes)?;
        self.file.get()?.read_exact_at(buf, offset)
    }

    fn advise(&self, range: Range<u64>, advice: Advice) {
        let Ok(file) = self.file.get() else { return };
        match advice {
            Advice::WillNeed => system::advise_will_need(&file, range),
            Advice::DontNeed => system::advise_dont_need(&file, range),
        }
    }
}

/// A file read through a map of all of it.
///
/// No reference into the map is ever made: its bytes are copied out through a raw pointer, so a
/// process that changes the file meanwhile can change what a read returns (the checksum of the
/// page tells) but breaks no rule of the language. A process that *truncates* the file makes reads
/// past the new end raise `SIGBUS`; the engine never truncates, and the lock file keeps other
/// databases away. A disk error is a `SIGBUS` too: who wants an error instead reads with `pread`.
#[derive(Debug)]
struct MappedFile {
    map: MmapRaw,
    /// For advice only.
    file: ReopenedFile,
}

impl MappedFile {
    fn new(opened: &File, file: ReopenedFile) -> io::Result<MappedFile> {
        let map = MmapOptions::new().map_raw_read_only(opened)?;
        // Advice that is not taken costs speed only.
        let _ = map.advise(memmap2::Advice::Random);
        Ok(MappedFile { map, file })
    }
}

impl RandomRead for MappedFile {
    fn bytes(&self) -> u64 {
        self.map.len() as u64
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        check_bounds(offset, buf.len(), self.bytes())?;
        let source = self.map.as_ptr().wrapping_add(offset as usize);
        // SAFETY: `check_bounds` keeps `source..source + buf.len()` inside the map, which lives as
        // long as `self`; `buf` is borrowed exclusively and so does not overlap it.
        unsafe { ptr::copy_nonoverlapping(source, buf.as_mut_ptr(), buf.len()) };
        Ok(())
    }

    fn advise(&self, range: Range<u64>, advice: Advice) {
        let Some(mapped) = super::clip(&range, self.map.len()) else {
            return;
        };
        let (offset, len) = (mapped.start, mapped.len());
        match advice {
            Advice::WillNeed => {
                let _ = self
                    .map
                    .advise_range(memmap2::Advice::WillNeed, offset, len);
            }
            Advice::DontNeed => {
                // Mapped pages stay in the cache, so they are unmapped first.
                // SAFETY: the map is shared with the file and read-only: a page that is dropped is
                // read from the file again, with the same bytes.
                let _ = unsafe {
                    self.map
                        .unchecked_advise_range(UncheckedAdvice::DontNeed, offset, len)
                };
                if let Ok(file) = self.file.get() {
                    system::advise_dont_need(&file, range);
                }
            }
        }
    }
}
