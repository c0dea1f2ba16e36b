//! The system calls that the standard library lacks, each with a substitute for other systems. So
//! no other file depends on the system.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit};

/// The smallest page of any processor that Linux runs on.
#[cfg(target_os = "linux")]
const SMALLEST_PAGE_BYTES: usize = 4096;

/// The bytes that an ordinary user can still write.
pub(super) fn available_bytes(dir: &Path) -> io::Result<u64> {
    let system = rustix::fs::statvfs(dir)?;
    Ok(system.f_bavail.saturating_mul(system.f_frsize))
}

/// The process's limit on open files, if there is one.
pub(super) fn open_files_max() -> Option<u64> {
    rustix::process::getrlimit(Resource::Nofile).current
}

/// Raises the limit on open files to its maximum. A failure leaves the limit as it was.
pub(super) fn raise_open_files_max() {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    let _ = rustix::process::setrlimit(Resource::Nofile, raised);
}

/// Returns true if a file was not opened because too many are open.
pub(super) fn is_out_of_files(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::MFILE | Errno::NFILE)
    )
}

/// Extends an empty file to `bytes` zero bytes in allocated blocks.
pub(super) fn allocate(file: &File, bytes: u64) -> io::Result<()> {
    // A failing allocation first takes all free blocks. For that moment the disk would be full for
    // everybody.
    let system = rustix::fs::fstatvfs(file)?;
    if system.f_bavail.saturating_mul(system.f_frsize) < bytes {
        return Err(io::ErrorKind::StorageFull.into());
    }
    #[cfg(target_os = "linux")]
    loop {
        match rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), 0, bytes) {
            Err(Errno::INTR) => {}
            // The file system cannot allocate: write the zeros.
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => break,
            result => return Ok(result?),
        }
    }
    write_zeros(file, bytes)
}

fn write_zeros(file: &File, bytes: u64) -> io::Result<()> {
    let zeros = [0; 64 << 10];
    let mut offset = 0;
    while offset < bytes {
        let len = (bytes - offset).min(zeros.len() as u64) as usize;
        file.write_all_at(&zeros[..len], offset)?;
        offset += len as u64;
    }
    Ok(())
}

/// Zeroes a file that is not in the page cache and keeps its blocks, so that a write into part of a
/// page does not read the page first. Does nothing where the system cannot.
pub(super) fn forget_unless_cached(file: &File, bytes: u64) {
    #[cfg(target_os = "linux")]
    if is_cached(file).is_ok_and(|is_cached| !is_cached) {
        let zero = rustix::fs::FallocateFlags::ZERO_RANGE;
        let _ = rustix::fs::fallocate(file, zero, 0, bytes);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (file, bytes);
}

/// Returns true if the whole file is in the page cache.
#[cfg(target_os = "linux")]
fn is_cached(file: &File) -> io::Result<bool> {
    let map = memmap2::MmapOptions::new().map_raw(file)?;
    // If pages are larger, the end of the vector keeps its ones.
    let mut pages = vec![1_u8; map.len().div_ceil(SMALLEST_PAGE_BYTES)];
    // SAFETY: the call reads nothing of the map, which is alive and begins at a page. It writes one
    // byte into `pages` for each page, and no page is smaller than assumed.
    let result = unsafe { libc::mincore(map.as_mut_ptr().cast(), map.len(), pages.as_mut_ptr()) };
    match result {
        0 => Ok(pages.iter().all(|page| page & 1 == 1)),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Maps a used-up quota to a full disk.
pub(super) fn full_error(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::QuotaExceeded => io::Error::new(io::ErrorKind::StorageFull, error),
        _ => error,
    }
}

/// Maps every "a second name is not possible here" to the kind that makes the caller copy.
pub(super) fn link_error(error: io::Error) -> io::Error {
    match Errno::from_io_error(&error) {
        Some(Errno::PERM | Errno::OPNOTSUPP | Errno::MLINK) => {
            io::Error::new(io::ErrorKind::CrossesDevices, error)
        }
        _ => error,
    }
}

/// Stops the kernel's read-ahead around pages.
pub(super) fn advise_random(file: &File) {
    #[cfg(target_os = "linux")]
    let _ = rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::Random);
    #[cfg(not(target_os = "linux"))]
    let _ = file;
}

/// Starts to read a range into the page cache.
pub(super) fn advise_will_need(file: &File, range: Range<u64>) {
    #[cfg(target_os = "linux")]
    if let Some(bytes) = length(&range) {
        let _ = rustix::fs::fadvise(file, range.start, Some(bytes), rustix::fs::Advice::WillNeed);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (file, range);
}

/// Lets the clean pages of a range leave the page cache.
pub(super) fn advise_dont_need(file: &File, range: Range<u64>) {
    #[cfg(target_os = "linux")]
    if let Some(bytes) = length(&range) {
        let _ = rustix::fs::fadvise(file, range.start, Some(bytes), rustix::fs::Advice::DontNeed);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (file, range);
}

#[cfg(target_os = "linux")]
fn length(range: &Range<u64>) -> Option<std::num::NonZeroU64> {
    // To the kernel, zero would mean "up to the end of the file".
    std::num::NonZeroU64::new(range.end.saturating_sub(range.start))
}

/// Starts the write-back of a range and does not wait for it.
pub(super) fn start_write_back(file: &File, range: Range<u64>) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    return sync_file_range(file, range, libc::SYNC_FILE_RANGE_WRITE);
    #[cfg(not(target_os = "linux"))]
    return Ok(drop((file, range)));
}

/// Waits for a write-back that [`start_write_back`] started. Nothing becomes durable: neither the
/// file's size nor the disk's own cache is flushed.
pub(super) fn wait_for_write_back(file: &File, range: Range<u64>) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    return sync_file_range(file, range, libc::SYNC_FILE_RANGE_WAIT_BEFORE);
    #[cfg(not(target_os = "linux"))]
    return Ok(drop((file, range)));
}

#[cfg(target_os = "linux")]
fn sync_file_range(file: &File, range: Range<u64>, flags: libc::c_uint) -> io::Result<()> {
    use std::os::fd::AsRawFd;

    let offset = i64::try_from(range.start).map_err(io::Error::other)?;
    let bytes = i64::try_from(range.end - range.start).map_err(io::Error::other)?;
    loop {
        // SAFETY: the call takes no pointers, and the descriptor is open while `file` is borrowed.
        let result = unsafe { libc::sync_file_range(file.as_raw_fd(), offset, bytes, flags) };
        if result == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        match Errno::from_io_error(&error) {
            Some(Errno::INTR) => {}
            // Pacing is a courtesy: a file system without it still writes.
            Some(Errno::NOSYS | Errno::INVAL | Errno::SPIPE | Errno::OPNOTSUPP) => return Ok(()),
            // The kernel reports a failed write-back only once. If it were ignored, the next
            // `fdatasync` would succeed.
            _ => return Err(error),
        }
    }
}
