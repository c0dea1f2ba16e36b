//! Everything the engine asks of the machine: files, time and threads.
//!
//! The engine reaches the operating system only through the traits of this crate, so that the
//! simulated disk ([`sim`]) can run the real engine and break it on purpose.
//!
//! * [`Storage`]: names, directories and the three kinds of files an LSM-tree needs: files written
//!   once from front to back ([`SequentialWrite`]), immutable files read at random
//!   ([`RandomRead`]), and preallocated log segments written by several threads ([`Segment`]).
//! * [`Clock`]: monotonic time and sleeping.
//! * [`Spawn`]: threads; [`Background`] says whether background work has threads of its own or is
//!   run by the callers in an order drawn from a seed.
//! * [`Environment`]: one of each, what a database is opened with.
//!
//! # What a crash keeps
//!
//! A backend promises no more than POSIX does. After a crash of the machine
//!
//! 1. the bytes of a file are durable only up to its last successful `sync`; later bytes may be
//!    there, missing or torn in any combination of 512-byte sectors;
//! 2. a name (created, renamed, linked, removed) is durable only after
//!    [`Storage::sync_dir`] of its directory; until then the old or the new state may appear;
//! 3. after a failed `sync` nothing is known of the bytes written since the last successful one,
//!    and a later successful `sync` says nothing about them.
//!
//! After a crash of the process alone everything written is there.

mod environment;
pub mod os;
mod reads;
pub mod sim;

#[cfg(test)]
mod conformance;

pub use os::{OsClock, OsSpawn, OsStorage, SegmentMode};
pub use reads::{OneByOne, Reads};

use std::any::Any;
use std::fmt::{self, Debug};
use std::io;
use std::ops::Range;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

/// How the pages of an immutable file are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReadMode {
    /// One system call per read. The default: it never reads more than was asked for.
    #[default]
    Pread,
    /// A memory map with random advice, so that the kernel reads no pages ahead.
    Mmap,
    /// Past the system's page cache, tables' writes, too: each read is one of the device, and what the engine caches is
    /// in memory once. For data much larger than memory. Linux only, and not on every file system.
    Direct,
}

impl fmt::Display for ReadMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ReadMode::Pread => "pread",
            ReadMode::Mmap => "mmap",
            ReadMode::Direct => "direct",
        })
    }
}

impl FromStr for ReadMode {
    type Err = String;

    fn from_str(text: &str) -> Result<ReadMode, String> {
        let all = [ReadMode::Pread, ReadMode::Mmap, ReadMode::Direct];
        let named = all.into_iter().find(|mode| mode.to_string() == text);
        named.ok_or_else(|| format!("expected `pread`, `mmap` or `direct`, found `{text}`"))
    }
}

/// What a reader tells the system about a range that it will or will not need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Advice {
    /// Start to read the range now.
    WillNeed,
    /// The range will not be read again soon: its pages may leave the system's cache.
    DontNeed,
}

/// A file in a directory listing.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DirEntry {
    /// The name without its directory.
    pub name: String,
    /// The size in bytes.
    pub bytes: u64,
}

/// Names, directories and files. All paths are complete; several roots are simply paths under
/// different directories. Every method may be called from any thread.
///
/// # Errors
/// `io::ErrorKind::NotFound`, `AlreadyExists`, `StorageFull` and `CrossesDevices` have their usual
/// meaning and are relied on; every other kind is passed on.
pub trait Storage: Debug + Send + Sync + 'static {
    /// Creates a directory and its parents, durably; succeeds if it exists. Databases make few
    /// directories, so none needs a `sync_dir` of its parent by the caller.
    fn create_dir_all(&self, dir: &Path) -> io::Result<()>;
    /// The files (not directories) of a directory, sorted by name.
    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>>;
    /// The size of a file in bytes; `NotFound` if there is none.
    fn size(&self, path: &Path) -> io::Result<u64>;
    /// Gives a file a new name, replacing the file that had it.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file. Open readers keep their bytes, unless there are more of them than files can be open.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Removes a directory that has nothing in it.
    fn remove_dir(&self, dir: &Path) -> io::Result<()>;
    /// Gives a file a second name; `CrossesDevices` when that is not possible, `AlreadyExists`
    /// when `to` is taken.
    fn link(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Makes the names of a directory durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// Bytes that can still be written under a directory.
    fn available_bytes(&self, dir: &Path) -> io::Result<u64>;
    /// Takes the exclusive lock that a file stands for, creating the file; `WouldBlock` when
    /// somebody else (also in this process) holds it. Dropping the guard releases it.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn FileLock>>;
    /// Opens an immutable file.
    ///
    /// # Errors
    /// `Unsupported` for direct reads where the file system has none.
    fn open(&self, path: &Path, mode: ReadMode) -> io::Result<Arc<dyn RandomRead>>;
    /// A place for reads, of any files that it opened, that are under way at the same time as far as it can.
    fn reads(&self) -> Box<dyn Reads> {
        Box::new(OneByOne::default())
    }
    /// Creates a file to be written from front to back; `AlreadyExists` if there is one.
    fn create(&self, path: &Path) -> io::Result<Box<dyn SequentialWrite>>;
    /// As [`Storage::create`], of a file that the system's page cache is to leave alone, where it can.
    fn create_direct(&self, path: &Path) -> io::Result<Box<dyn SequentialWrite>> {
        self.create(path)
    }
    /// Creates a log segment of `bytes` bytes, all of them zero and allocated on the medium, so
    /// that writing inside it cannot run out of space. `StorageFull` leaves no file behind.
    fn create_segment(&self, path: &Path, bytes: u64) -> io::Result<Arc<dyn Segment>>;
    /// Renames a segment that is not needed any more and opens it for new records. It keeps its
    /// size; each of its bytes is what it was, or zero.
    fn recycle_segment(&self, from: &Path, to: &Path) -> io::Result<Arc<dyn Segment>>;
}

/// A held lock file.
pub trait FileLock: Debug + Send + Sync {}

/// An immutable file, read by any number of threads.
pub trait RandomRead: Any + Debug + Send + Sync {
    /// The size of the file in bytes.
    fn bytes(&self) -> u64;
    /// Fills `buf` from `offset`. Fewer bytes in the file are `UnexpectedEof`.
    /// Cost: one random read unless the system has the pages.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()>;
    /// Tells what will happen to a range; has no effect on what is read.
    fn advise(&self, _range: Range<u64>, _advice: Advice) {}
}

/// A file being written from front to back by one thread.
///
/// The backend starts writing back early and keeps little dirty at any time, so that one large
/// file never makes the writes of others wait. Dropping it without `sync` leaves an unsynced file.
pub trait SequentialWrite: Debug + Send {
    /// Appends bytes (buffered in memory at most until `flush` or `sync`).
    fn write(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Hands everything to the system: it then survives the end of the process.
    fn flush(&mut self) -> io::Result<()>;
    /// Makes everything written so far durable (not the file's name: [`Storage::sync_dir`]).
    fn sync(&mut self) -> io::Result<()>;
    /// The number of bytes written.
    fn bytes(&self) -> u64;
    /// The memory that it takes until it is dropped, in bytes.
    fn memory_bytes(&self) -> usize;
}

/// A preallocated log segment: a fixed number of bytes, written at any offset by any thread.
pub trait Segment: Debug + Send + Sync {
    /// The number of bytes that can be written.
    fn capacity_bytes(&self) -> u64;
    /// Copies `bytes` to `offset`. What was written survives the end of the process when this
    /// returns. Concurrent calls for disjoint ranges are allowed.
    /// Panics if the range is outside the segment: that is a bug of the caller.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// Makes everything durable whose `write_at` returned before this call.
    fn sync(&self) -> io::Result<()>;
    /// Prepares a range to be written soon, so that the writers need not wait for the system.
    /// The next `sync` may write the whole range: ask for a mebibyte or so at a time.
    fn prepare(&self, _range: Range<u64>) {}
    /// The writers are done with a range: what was made ready for them need not be kept, and the range begins to go to
    /// the medium, so that a later sync finds little to do. Nothing is durable by that. Writing there again is
    /// slower, not wrong.
    fn write_back(&self, _range: Range<u64>) {}
}

/// Time. `now` never goes backwards.
pub trait Clock: Debug + Send + Sync + 'static {
    /// Time since some fixed moment.
    fn now(&self) -> Duration;
    /// Seconds since 1970, for people to read: nothing may depend on it.
    fn unix_seconds(&self) -> u64;
    /// Waits. A simulated clock advances instead.
    fn sleep(&self, duration: Duration);
    /// Processor time of the calling thread, for statistics; zero where that is not known.
    fn thread_cpu(&self) -> Duration {
        Duration::ZERO
    }
}

/// A thread that can be waited for.
pub trait Join: Debug + Send {
    /// Waits until the thread has ended; `Err` if it panicked.
    fn join(self: Box<Self>) -> std::thread::Result<()>;
}

/// Starts threads.
pub trait Spawn: Debug + Send + Sync + 'static {
    /// Starts a named thread.
    fn spawn(&self, name: &str, body: Box<dyn FnOnce() + Send>) -> io::Result<Box<dyn Join>>;
    /// The processors that this process may run on, by number; none if that is not known.
    fn processors(&self) -> Vec<usize> {
        Vec::new()
    }
    /// Keeps the calling thread on one processor; `Unsupported` where that cannot be done.
    fn pin(&self, processor: usize) -> io::Result<()> {
        let message =
            format!("expected threads that can be kept on processor {processor}, found none");
        Err(io::Error::new(io::ErrorKind::Unsupported, message))
    }
}

/// Who runs background work: flushes and merges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Background {
    /// A pool of this many threads.
    Threads(usize),
    /// No threads: callers run the jobs between their own steps, at moments and in an order drawn
    /// from this seed, so that a run replays exactly.
    Inline {
        /// The seed of every choice.
        seed: u64,
    },
}

/// What a database runs on.
#[derive(Debug, Clone)]
pub struct Environment {
    /// Files.
    pub storage: Arc<dyn Storage>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Threads.
    pub spawn: Arc<dyn Spawn>,
    /// Who runs flushes and merges.
    pub background: Background,
}
