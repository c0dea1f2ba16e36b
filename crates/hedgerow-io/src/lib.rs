//! The engine's interface to the machine: files, time and threads.
//!
//! The engine reaches the operating system only through the traits of this crate. So the simulated
//! disk ([`sim`]) can run the real engine and break it on purpose.
//!
//! * [`Storage`]: names, directories and the three kinds of files of an LSM-tree. A sequential file
//!   is written once from front to back ([`SequentialWrite`]). An immutable file is read at random
//!   ([`RandomRead`]). A log segment is preallocated and written by several threads ([`Segment`]).
//! * [`Clock`]: monotonic time and sleeping.
//! * [`Spawn`]: threads. [`Background`] chooses who runs background work: threads of its own, or
//!   the callers in an order drawn from a seed.
//! * [`Environment`]: one of each. A database is opened with it.
//!
//! # Guarantees after a crash
//!
//! A backend promises no more than POSIX does. After a crash of the machine
//!
//! 1. the bytes of a file are durable only up to its last successful `sync`. Later bytes may be
//!    there, missing or torn in any combination of 512-byte sectors;
//! 2. a name (created, renamed, linked, removed) is durable only after [`Storage::sync_dir`] of its
//!    directory. Until then the old or the new state may appear;
//! 3. after a failed `sync`, the bytes written since the last successful one are unknown. A later
//!    successful `sync` does not change that.
//!
//! After a crash of the process alone, every written byte is there.

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

/// The way to read the pages of an immutable file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReadMode {
    /// One system call per read. The default: it never reads more than the caller wants.
    #[default]
    Pread,
    /// A memory map with random advice, so that the kernel reads no pages ahead.
    Mmap,
    /// Past the system's page cache, for reads and writes of tables. Every read goes to the device,
    /// and a page that the engine caches is in memory only once. For data much larger than memory.
    /// Linux only, and not on every file system.
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

/// Advice of a reader to the system about a range.
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

/// Names, directories and files. All paths are complete. Several roots are paths under different
/// directories. Every method may be called from any thread.
///
/// # Errors
/// The engine relies on the usual meaning of `io::ErrorKind::NotFound`, `AlreadyExists`,
/// `StorageFull` and `CrossesDevices`. It passes every other kind on.
pub trait Storage: Debug + Send + Sync + 'static {
    /// Creates a directory and its parents, durably; succeeds if it exists. The caller need not
    /// `sync_dir` the parent. A database makes few directories, so this may be slow.
    fn create_dir_all(&self, dir: &Path) -> io::Result<()>;
    /// The files (not directories) of a directory, sorted by name.
    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>>;
    /// The size of a file in bytes; `NotFound` if there is none.
    fn size(&self, path: &Path) -> io::Result<u64>;
    /// Gives a file a new name, replacing the file that had it.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file. Open readers keep its bytes, unless the limit on open files closed them.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Removes an empty directory.
    fn remove_dir(&self, dir: &Path) -> io::Result<()>;
    /// Gives a directory, with everything in it, a name that nothing has; otherwise
    /// `AlreadyExists`. [`Storage::sync_dir`] of its parent makes the name durable.
    fn rename_dir(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Makes the bytes of a file durable that another process or handle wrote.
    fn sync_file(&self, path: &Path) -> io::Result<()>;
    /// Gives a file a second name; `CrossesDevices` when that is not possible, `AlreadyExists`
    /// when `to` is taken.
    fn link(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Makes the names of a directory durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// The bytes that can still be written under a directory.
    fn available_bytes(&self, dir: &Path) -> io::Result<u64>;
    /// Locks a file exclusively and creates it if needed. `WouldBlock` if another user (also in
    /// this process) holds the lock. Dropping the guard releases it.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn FileLock>>;
    /// Opens an immutable file.
    ///
    /// # Errors
    /// `Unsupported` for direct reads where the file system has none.
    fn open(&self, path: &Path, mode: ReadMode) -> io::Result<Arc<dyn RandomRead>>;
    /// A queue for reads of files of this storage. It overlaps them as far as the system can.
    fn reads(&self) -> Box<dyn Reads> {
        Box::new(OneByOne::default())
    }
    /// Creates a file to be written from front to back; `AlreadyExists` if there is one.
    fn create(&self, path: &Path) -> io::Result<Box<dyn SequentialWrite>>;
    /// Creates a file as [`Storage::create`] does, and keeps it out of the system's page cache
    /// where that is possible.
    fn create_direct(&self, path: &Path) -> io::Result<Box<dyn SequentialWrite>> {
        self.create(path)
    }
    /// Creates a log segment of `bytes` bytes. All of them are zero and allocated on the medium, so
    /// a write inside it cannot run out of space. `StorageFull` leaves no file behind.
    fn create_segment(&self, path: &Path, bytes: u64) -> io::Result<Arc<dyn Segment>>;
    /// Renames an unused segment and opens it for new records. The segment keeps its size. Each of
    /// its bytes keeps its value or becomes zero.
    fn recycle_segment(&self, from: &Path, to: &Path) -> io::Result<Arc<dyn Segment>>;
}

/// A held lock file.
pub trait FileLock: Debug + Send + Sync {}

/// An immutable file, read by any number of threads.
pub trait RandomRead: Any + Debug + Send + Sync {
    /// The size of the file in bytes.
    fn bytes(&self) -> u64;
    /// Fills `buf` from `offset`. A file that ends before is `UnexpectedEof`. Cost: one random read
    /// unless the system has the pages.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()>;
    /// Advises the system about a range. Reads return the same bytes.
    fn advise(&self, _range: Range<u64>, _advice: Advice) {}
}

/// The sync of a file that was written and handed over. It makes all of the file's bytes durable,
/// but not its name. It holds the file open, but no memory.
pub type LaterSync = Box<dyn FnOnce() -> io::Result<()> + Send>;

/// A file that one thread writes from front to back.
///
/// The backend starts write-back early and keeps little dirty, so that one large file never makes
/// other writes wait. Dropping the writer without `sync` leaves an unsynced file.
pub trait SequentialWrite: Debug + Send {
    /// Appends bytes. They stay in memory until `flush` or `sync` at the latest.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Hands all bytes to the system: they then survive the end of the process.
    fn flush(&mut self) -> io::Result<()>;
    /// Makes all written bytes durable, but not the file's name: see [`Storage::sync_dir`].
    fn sync(&mut self) -> io::Result<()>;
    /// Ends the file: hands all bytes to the system, which begins to write them to the disk. The
    /// result makes them durable. Many small files share the cost of their syncs if they are handed
    /// over before the first of them. By default it syncs at once.
    fn hand_over(mut self: Box<Self>) -> io::Result<LaterSync> {
        self.sync()?;
        Ok(Box::new(|| Ok(())))
    }
    /// The number of bytes written.
    fn bytes(&self) -> u64;
    /// The bytes of memory that the writer holds until it is dropped.
    fn memory_bytes(&self) -> usize;
}

/// A preallocated log segment. Any thread may write its fixed number of bytes at any offset.
pub trait Segment: Debug + Send + Sync {
    /// The number of bytes that can be written.
    fn capacity_bytes(&self) -> u64;
    /// Copies `bytes` to `offset`. On return they survive the end of the process. Concurrent calls
    /// for disjoint ranges are allowed. Panics if the range is outside the segment: that is a bug
    /// of the caller.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// Makes durable every write that returned before this call.
    fn sync(&self) -> io::Result<()>;
    /// Prepares a range for writes soon, so that the writers need not wait for the system. The next
    /// `sync` may write the whole range: prepare about a mebibyte at a time.
    fn prepare(&self, _range: Range<u64>) {}
    /// Reports that the writers are done with a range. The backend drops what `prepare` did for it
    /// and starts its write-back, so that a later sync finds little to do. Nothing becomes durable.
    /// A later write to the range is slower, not wrong.
    fn write_back(&self, _range: Range<u64>) {}
}

/// Time. `now` never goes backwards.
pub trait Clock: Debug + Send + Sync + 'static {
    /// Time since some fixed moment.
    fn now(&self) -> Duration;
    /// Milliseconds since 1970 by the system's clock, which may jump.
    fn unix_millis(&self) -> u64;
    /// Seconds since 1970, for people to read.
    fn unix_seconds(&self) -> u64 {
        self.unix_millis() / 1000
    }
    /// Waits. A simulated clock advances instead.
    fn sleep(&self, duration: Duration);
    /// The processor time of the calling thread, for statistics; zero if it is unknown.
    fn thread_cpu(&self) -> Duration {
        Duration::ZERO
    }
}

/// A moment by the system's clock, as a value.
pub use std::time::SystemTime as WallTime;

/// A thread that can be waited for.
pub trait Join: Debug + Send {
    /// Waits until the thread ends. Returns `Err` if it panicked.
    fn join(self: Box<Self>) -> std::thread::Result<()>;
}

/// Starts threads.
pub trait Spawn: Debug + Send + Sync + 'static {
    /// Starts a named thread.
    fn spawn(&self, name: &str, body: Box<dyn FnOnce() + Send>) -> io::Result<Box<dyn Join>>;
    /// The numbers of the processors that this process may run on; empty if unknown.
    fn processors(&self) -> Vec<usize> {
        Vec::new()
    }
    /// Pins the calling thread to one processor; `Unsupported` if the system cannot.
    fn pin(&self, processor: usize) -> io::Result<()> {
        let message =
            format!("expected threads that can be kept on processor {processor}, found none");
        Err(io::Error::new(io::ErrorKind::Unsupported, message))
    }
}

/// The threads that run background work: flushes and merges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Background {
    /// A pool of `n` threads.
    Threads(usize),
    /// No threads. The callers run the jobs between their own steps. The moments and the order are
    /// drawn from this seed, so that a run replays exactly.
    Inline {
        /// The seed of every choice.
        seed: u64,
    },
}

/// The machine that a database runs on.
#[derive(Debug, Clone)]
pub struct Environment {
    /// Files.
    pub storage: Arc<dyn Storage>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Threads.
    pub spawn: Arc<dyn Spawn>,
    /// The threads that run flushes and merges.
    pub background: Background,
}
