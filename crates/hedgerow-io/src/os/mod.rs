//! The backends of the operating system.
//!
//! [`OsStorage`] keeps every promise of [`Storage`] with plain files. Immutable files are read with
//! `pread`, a map or direct reads. Sequential files are written with paced write-back or direct
//! writes. Log segments are written through a map or with `pwrite`. The file of each part names the
//! system call that keeps each promise.
//!
//! It trusts the disk to keep what `fdatasync` reported as kept.

#![allow(
    clippy::disallowed_methods,
    reason = "these backends are what the rest of the engine must use instead"
)]

mod clock;
mod direct;
mod memory;
mod open_files;
mod read;
mod readers;
mod reads;
#[cfg_attr(
    not(all(feature = "io-uring", target_os = "linux")),
    path = "no_ring.rs"
)]
mod ring;
mod segment;
mod spawn;
mod system;
mod write;

pub use clock::OsClock;
pub use memory::{give_back_freed_memory, limit_arenas};
pub use open_files::open_files_for_others;
pub use segment::SegmentMode;
pub use spawn::OsSpawn;

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use crate::{DirEntry, FileLock, RandomRead, ReadMode, Reads, Segment, SequentialWrite, Storage};
use open_files::OpenFiles;
use reads::OsReads;
use write::{PacedWriter, UntilFailure};

/// Files of the operating system.
#[derive(Debug, Clone)]
pub struct OsStorage {
    segments: SegmentMode,
    rings: Arc<ring::Rings>,
    readers: Arc<readers::Readers>,
    open_files: Arc<OpenFiles>,
}

impl Default for OsStorage {
    fn default() -> OsStorage {
        OsStorage {
            segments: SegmentMode::default(),
            rings: Arc::default(),
            readers: Arc::default(),
            open_files: OpenFiles::of_process(),
        }
    }
}

impl OsStorage {
    /// Files with memory-mapped log segments.
    pub fn new() -> OsStorage {
        OsStorage::default()
    }

    /// Files with log segments written by `segments`.
    pub fn with_segments(segments: SegmentMode) -> OsStorage {
        OsStorage {
            segments,
            ..OsStorage::default()
        }
    }

    /// Limits the files open for reading to about `limit`; other files are reopened when they are
    /// read. By default all storages of the process share half of its limit on open files.
    pub fn open_files(mut self, limit: usize) -> OsStorage {
        self.open_files = Arc::new(OpenFiles::with_limit(limit));
        self
    }
}

/// Raises the process's limit on open files to the maximum that the system allows. A library leaves
/// this to the program.
pub fn raise_open_files_max() {
    system::raise_open_files_max();
}

impl Storage for OsStorage {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        if dir.is_dir() || dir.as_os_str().is_empty() {
            return Ok(());
        }
        let parent = parent_of(dir);
        self.create_dir_all(parent)?;
        match fs::create_dir(dir) {
            // A concurrent caller made it, and may not have synced it yet.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && dir.is_dir() => {}
            result => result?,
        }
        self.sync_dir(parent)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            let bytes = match entry.metadata() {
                Ok(metadata) if metadata.is_file() => metadata.len(),
                Ok(_) => continue,
                // Removed since the directory was read.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            // The engine gives no file a name that is not text.
            if let Ok(name) = entry.file_name().into_string() {
                entries.push(DirEntry { name, bytes });
            }
        }
        entries.sort();
        Ok(entries)
    }

    fn size(&self, path: &Path) -> io::Result<u64> {
        fs::metadata(path).map(|metadata| metadata.len())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        fs::remove_dir(dir)
    }

    fn rename_dir(&self, from: &Path, to: &Path) -> io::Result<()> {
        // The system would replace an empty directory.
        match to.symlink_metadata() {
            Ok(_) => Err(io::ErrorKind::AlreadyExists.into()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => fs::rename(from, to),
            Err(error) => Err(error),
        }
    }

    fn sync_file(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_data()
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::hard_link(from, to).map_err(system::link_error)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        File::open(or_current(dir))?.sync_all()
    }

    fn available_bytes(&self, dir: &Path) -> io::Result<u64> {
        system::available_bytes(or_current(dir))
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn FileLock>> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Box::new(OsLock { file })),
            Err(TryLockError::WouldBlock) => Err(io::Error::new(
                io::ErrorKind::WouldBlock,
                format!("{} is locked by another user", path.display()),
            )),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    fn open(&self, path: &Path, mode: ReadMode) -> io::Result<Arc<dyn RandomRead>> {
        read::open(&self.open_files, path, mode)
    }

    fn reads(&self) -> Box<dyn Reads> {
        Box::new(OsReads::new(self.rings.clone(), self.readers.clone()))
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn SequentialWrite>> {
        let file = OpenOptions::new().write(true).create_new(true).open(path)?;
        Ok(Box::new(UntilFailure::new(PacedWriter::new(file))))
    }

    fn create_direct(&self, path: &Path) -> io::Result<Box<dyn SequentialWrite>> {
        match direct::create(path) {
            Ok(file) => Ok(Box::new(UntilFailure::new(direct::DirectWriter::new(file)))),
            Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                // Some systems create the file before they refuse direct writes.
                let _ = fs::remove_file(path);
                self.create(path)
            }
            Err(error) => Err(error),
        }
    }

    fn create_segment(&self, path: &Path, bytes: u64) -> io::Result<Arc<dyn Segment>> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .open(path)?;
        let segment = system::allocate(&file, bytes)
            .and_then(|()| file.sync_all())
            .and_then(|()| segment::open(file, self.segments));
        segment.map_err(|error| {
            // The first error says more than a failure to clean up.
            let _ = fs::remove_file(path);
            system::full_error(error)
        })
    }

    fn recycle_segment(&self, from: &Path, to: &Path) -> io::Result<Arc<dyn Segment>> {
        let file = OpenOptions::new().read(true).write(true).open(from)?;
        system::forget_unless_cached(&file, file.metadata()?.len());
        let segment = segment::open(file, self.segments)?;
        fs::rename(from, to)?;
        Ok(segment)
    }
}

/// A file locked with `flock`. The lock ends with the process at the latest, even if it crashes.
#[derive(Debug)]
struct OsLock {
    file: File,
}

impl FileLock for OsLock {}

impl Drop for OsLock {
    fn drop(&mut self) {
        // Closing is not enough. A child of this process shares the file between its fork and its
        // exec, and the lock ends only when the last of them closes it.
        let _ = self.file.unlock();
    }
}

/// The directory that holds `path`.
fn parent_of(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new(""))
}

/// Returns `.` for the empty parent of a one-component path, because no system call takes an empty
/// path.
fn or_current(dir: &Path) -> &Path {
    if dir.as_os_str().is_empty() {
        Path::new(".")
    } else {
        dir
    }
}

/// The part of a range that is in a map of `len` bytes.
fn clip(range: &Range<u64>, len: usize) -> Option<Range<usize>> {
    let start = usize::try_from(range.start).ok()?;
    let end = usize::try_from(range.end).unwrap_or(usize::MAX).min(len);
    (start < end).then_some(start..end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    fn a_lock_ends_though_a_forked_child_has_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("LOCK");
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .unwrap();
        file.try_lock().unwrap();
        let of_the_child = file.try_clone().unwrap();
        drop(OsLock { file });
        assert!(OsStorage::new().lock(&path).is_ok());
        drop(of_the_child);
    }

    #[test]
    #[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    fn direct_reads_of_a_file_that_was_cut_fail_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pages");
        fs::write(&path, vec![7; 40 << 10]).unwrap();
        let storage = OsStorage::new();
        let file = match storage.open(&path, ReadMode::Direct) {
            Ok(file) => file,
            // The file system has no direct reads.
            Err(error) => {
                assert_eq!(error.kind(), io::ErrorKind::Unsupported);
                return;
            }
        };
        File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .set_len(20 << 10)
            .unwrap();
        let mut reads = storage.reads();
        (0..10).for_each(|tag| reads.begin(&file, tag as u64 * 4000, 3000, tag));
        let mut ended = 0;
        while let Some((tag, read)) = reads.next() {
            match read {
                Ok(bytes) => assert_eq!(bytes, vec![7; 3000]),
                Err(ref error) => assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof),
            }
            let is_there = tag * 4000 + 3000 <= 20 << 10;
            assert_eq!(read.is_ok(), is_there, "{tag}");
            ended += 1;
        }
        assert_eq!(ended, 10);
    }

    #[test]
    #[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    fn a_recycled_segment_that_left_the_cache_has_old_bytes_or_zeros() {
        let dir = tempfile::tempdir().unwrap();
        let (old, new) = (dir.path().join("old"), dir.path().join("new"));
        let bytes = 64 << 10;
        let segment = OsStorage::new().create_segment(&old, bytes).unwrap();
        segment.write_at(0, &[7; 64 << 10]).unwrap();
        segment.sync().unwrap();
        drop(segment);
        system::advise_dont_need(&File::open(&old).unwrap(), 0..bytes);
        let segment = OsStorage::new().recycle_segment(&old, &new).unwrap();
        assert_eq!(segment.capacity_bytes(), bytes);
        segment.write_at(5000, &[8; 10]).unwrap();
        let found = fs::read(&new).unwrap();
        assert_eq!(found[5000..5010], [8; 10]);
        let others = [&found[..5000], &found[5010..]].concat();
        assert!(others == vec![7; others.len()] || others == vec![0; others.len()]);
    }
}
