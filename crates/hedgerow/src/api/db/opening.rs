//! The options for opening a database, and opening it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hedgerow_io::{Environment, ReadMode};

use crate::api::asynchronous;
use crate::base::error::Result;
use crate::base::memory_plan::BUDGET_BYTES_DEFAULT;
use crate::base::merge_operator::{MergeOperator, Operators};
use crate::base::options::LevelPaths;
use crate::base::stats::Event;
use crate::design::advisor::Device;
use crate::paths::destroy;
use crate::paths::recover;
use crate::paths::recover::OpenOptions;
use crate::paths::recover::files::{self, DatabaseFiles};
use crate::tree::engine::Handle;
use crate::tree::version::manifest;

use super::Db;

/// The options for opening a database. Made by [`Db::builder`].
///
/// Three settings matter most:
///
/// 1. the memory of the whole database ([`Builder::memory_budget`]): more memory means fewer reads
///    and fewer merges;
/// 2. the design of each keyspace: let the keyspace tune itself
///    ([`Keyspace::set_self_tuning`](crate::Keyspace::set_self_tuning)), or choose a merge policy
///    ([`Design::policy`](crate::Design::policy));
/// 3. the durability of each write: [`Durability::Buffered`](crate::Durability::Buffered) or
///    [`Durability::Synced`](crate::Durability::Synced).
///
/// Every other setting has a default that follows from these and from the machine.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// use hedgerow::{Db, Event};
///
/// let db = Db::builder(dir.path())
///     .memory_budget(64 << 20)
///     .listener(|event| {
///         if let Event::BackgroundError { doing, error } = event {
///             eprintln!("could not {doing}: {error}");
///         }
///     })
///     .open()?;
/// assert_eq!(db.stats().memory.budget, 64 << 20);
/// # Ok::<(), hedgerow::Error>(())
/// ```
#[derive(Clone)]
#[must_use = "a builder does nothing until `open` is called"]
pub struct Builder {
    pub(super) dir: PathBuf,
    pub(super) options: OpenOptions,
}

impl Builder {
    pub(super) fn new(dir: &Path) -> Builder {
        Builder {
            dir: dir.to_path_buf(),
            options: OpenOptions {
                environment: Environment::os(),
                memory_budget: BUDGET_BYTES_DEFAULT,
                read_only: false,
                create_if_missing: true,
                read_mode: ReadMode::default(),
                io_bytes_per_second: None,
                log_bytes_max: None,
                log_segment_bytes: None,
                compress_log: false,
                listener: None,
                workers: 0,
                worker_queue_tasks: asynchronous::QUEUE_TASKS_MAX,
                device: Device::nvme(),
                operators: Operators::default(),
                level_paths: None,
            },
        }
    }

    /// Sets the memory in bytes that caches, indexes, filters, memtables, pinned values and merges
    /// share: 1 MiB to 16 TiB, and at least 6.5 KiB for each tree. 256 MiB by default. More memory
    /// means fewer reads, and larger memtables, hence less write amplification.
    pub fn memory_budget(mut self, bytes: u64) -> Builder {
        self.options.memory_budget = bytes;
        self
    }

    /// Opens without the lock and changes nothing, so a writer may have the database open as well.
    /// Reads see everything that the writer had written when the database was opened. Filters over
    /// several runs are those of the files that are there and fit the memory: none is built, and no
    /// file is removed.
    pub fn read_only(mut self, read_only: bool) -> Builder {
        self.options.read_only = read_only;
        self
    }

    /// Creates the database if it does not exist; true by default.
    pub fn create_if_missing(mut self, create: bool) -> Builder {
        self.options.create_if_missing = create;
        self
    }

    /// Sets the way to read table files; `Pread` by default.
    pub fn read_mode(mut self, mode: ReadMode) -> Builder {
        self.options.read_mode = mode;
        self
    }

    /// Limits the bytes per second that flushes and merges write together: 4 KiB to 1 TiB. There is
    /// no limit by default, or if it is 0.
    pub fn io_bytes_per_second(mut self, bytes: u64) -> Builder {
        self.options.io_bytes_per_second = (bytes > 0).then_some(bytes);
        self
    }

    /// Sets the length of the log beyond which memtables are flushed to shorten it: 8 KiB to 1 PiB,
    /// and at least two segments. Three quarters of the memory budget by default.
    pub fn log_bytes_max(mut self, bytes: u64) -> Builder {
        self.options.log_bytes_max = Some(bytes);
        self
    }

    /// Sets the size that log segments grow to: 4 KiB to 4 GiB less 4 KiB. The first one has at
    /// most 128 KiB, so that a small database takes little space. Derived from the memory budget
    /// by default.
    pub fn log_segment_bytes(mut self, bytes: u64) -> Builder {
        self.options.log_segment_bytes = Some(bytes);
        self
    }

    /// Compresses the log's records with LZ4 where that saves an eighth; false by default. It saves
    /// bytes of the device. A commit costs about 1 us more per KiB, and a buffer of its size. Every
    /// opening reads both kinds of records, so the option may change.
    pub fn compress_log(mut self, compress: bool) -> Builder {
        self.options.compress_log = compress;
        self
    }

    /// Sets the listener, which is called for flushes, merges and failures: for one event after
    /// another, soon after each happened. Closing the database delivers the events that remain. No
    /// lock is held during the call, so the listener may call the database.
    pub fn listener(mut self, listener: impl Fn(&Event) + Send + Sync + 'static) -> Builder {
        self.options.listener = Some(Arc::new(listener));
        self
    }

    /// Sets the costs of reading and writing, for keyspaces that tune themselves; an NVMe drive by
    /// default. Each number is 1e-9 to 1e15.
    pub fn device(mut self, device: Device) -> Builder {
        self.options.device = device;
        self
    }

    /// Registers a merge operator, for keyspaces that name it
    /// ([`Layout::merge_operator`](crate::Layout::merge_operator)). It takes the place of another
    /// one with its name. The built-in operators need no registration.
    pub fn merge_operator(mut self, operator: impl MergeOperator) -> Builder {
        self.options.operators.add(Arc::new(operator));
        self
    }

    /// Sets the files, clock and threads to run on; the machine's by default. A simulated
    /// environment makes every run repeatable.
    pub fn environment(mut self, environment: Environment) -> Builder {
        self.options.environment = environment;
        self
    }

    /// Sets the number of threads that flush and merge: 2 to 1,024. Two more than processors by
    /// default.
    pub fn background_threads(mut self, threads: usize) -> Builder {
        self.options.environment.background = hedgerow_io::Background::Threads(threads);
        self
    }

    /// Sets the number of workers, the threads that make the asynchronous calls: 0 to 1,024. Each
    /// owns a part of every keyspace's trees, and is kept on a processor of its own where the
    /// system allows it. With 0, the default, the background threads make these calls.
    pub fn workers(mut self, count: usize) -> Builder {
        self.options.workers = count;
        self
    }

    /// Sets the number of calls that the queue of each worker holds: 1 to 1,048,576; 1,024 by
    /// default. A call beyond it waits in line, or is refused as `WouldBlock`.
    pub fn worker_queue(mut self, calls: usize) -> Builder {
        self.options.worker_queue_tasks = calls;
        self
    }

    /// Assigns directories, possibly on other disks, to levels, the log and filters. Missing
    /// directories are created; each must belong to this database only. The assignment is stored: a
    /// later open without this call keeps it. A table moves to another directory when it is merged,
    /// the log when the database is opened. A file in each directory identifies it: after moving a
    /// directory, give its new path here.
    ///
    /// ```
    /// # use hedgerow::Db;
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let [fast, slow] = ["fast", "slow"].map(|name| dir.path().join(name));
    /// use hedgerow::LevelPaths;
    ///
    /// let paths = LevelPaths::new().levels(0..=1, &fast).levels(2.., &slow).log(&fast);
    /// let db = Db::builder(dir.path().join("db")).level_paths(paths).open()?;
    /// # Ok::<(), hedgerow::Error>(())
    /// ```
    pub fn level_paths(mut self, paths: LevelPaths) -> Builder {
        self.options.level_paths = Some(paths);
        self
    }

    /// Returns true if the directory has a database, also a damaged one.
    ///
    /// # Errors
    /// `Io`.
    pub fn exists(&self) -> Result<bool> {
        manifest::exists(&*self.options.environment.storage, &self.dir)
    }

    /// Destroys the database: removes its files, also those in the directories of
    /// [`Builder::level_paths`], and nothing else. Directories are removed if they are empty then.
    /// If it is cut short, it can be called again.
    /// Cost: removes every file.
    ///
    /// # Errors
    /// `InvalidArgument` if there is no database, `Locked` if it is open for writing, `Io`.
    pub fn destroy(self) -> Result<()> {
        destroy::destroy(&*self.options.environment.storage, &self.dir)
    }

    /// Finds the files that make up the database at this moment, for a copy of it. A process may
    /// have it open, also this one; its writes up to the last one that has reached the system are
    /// in the files.
    /// Cost: reads the manifest and the log; opens every table.
    ///
    /// # Errors
    /// `Conflict` if a writer changed the files in each of 20 attempts; as [`Builder::open`].
    pub fn files(&self) -> Result<DatabaseFiles> {
        self.options.check()?;
        files::find(&self.dir, &self.options)
    }

    /// The directory and the options, for `repair`.
    pub(crate) fn parts(&self) -> (PathBuf, OpenOptions) {
        (self.dir.clone(), self.options.clone())
    }

    /// Opens the database, or creates it. Replays the writes that only the log has.
    /// Cost: reads the log, at most `log_bytes_max` of it; tables are opened when needed.
    ///
    /// # Errors
    /// `Locked` if it is already open for writing, `Corruption`, `FormatVersion`, `InvalidArgument`
    /// for a number out of its bounds or a database that does not exist, `NoSpace`, `Io`.
    pub fn open(self) -> Result<Db> {
        self.options.check()?;
        let db = Db::new(Handle::new(recover::open(&self.dir, &self.options)?));
        let options = &self.options;
        asynchronous::start(&db.engine, options.workers, options.worker_queue_tasks)?;
        Ok(db)
    }
}
