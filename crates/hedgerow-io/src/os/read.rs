//! Reads of immutable files by system call or memory map. [`direct`] reads past the page cache.

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

/// Opens a file for reading by `mode`.
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
        // An empty file cannot be mapped, and no read of it reaches the file.
        ReadMode::Mmap if bytes == 0 => Arc::new(PreadFile { file, bytes }),
        ReadMode::Mmap => Arc::new(MappedFile::new(&opened, file)?),
    })
}

/// Opens a file without read-ahead.
fn open_random(path: &Path) -> io::Result<File> {
    let file = File::open(path)?;
    system::advise_random(&file);
    Ok(file)
}

/// Checks a read against the size of the file when it was opened.
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

/// A file read through a map of its whole length.
///
/// No reference into the map exists: reads copy its bytes through a raw pointer. So a process that
/// changes the file meanwhile can change what a read returns (the checksum of the page detects it)
/// but breaks no rule of the language. A process that *truncates* the file makes reads past the new
/// end raise `SIGBUS`. The engine never truncates, and the lock file keeps other databases away. A
/// disk error is a `SIGBUS` too; use `pread` to get an error instead.
#[derive(Debug)]
struct MappedFile {
    map: MmapRaw,
    /// For advice only.
    file: ReopenedFile,
}

impl MappedFile {
    fn new(opened: &File, file: ReopenedFile) -> io::Result<MappedFile> {
        let map = MmapOptions::new().map_raw_read_only(opened)?;
        // Refused advice costs only speed.
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
                // A mapped page stays in the cache, so it is unmapped first. SAFETY: the map is
                // shared with the file and read-only: a dropped page is read from the file again,
                // with the same bytes.
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
