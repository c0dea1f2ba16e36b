//! The database: opening, keyspaces, whole-database operations, closing.

mod bounds;
mod consumers;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use hedgerow_io::{Environment, ReadMode};

use crate::api::asynchronous;
use crate::api::asynchronous::Pending;
use crate::api::batch::{Batch, IndexedBatch};
use crate::api::keyspace::{Keyspace, check_name};
use crate::api::snapshot::Snapshot;
use crate::base::error::Result;
use crate::base::merge_operator::{MergeOperator, Operators};
use crate::base::options::{Design, Layout, LevelPaths};
use crate::base::runtime::lock;
use crate::base::stats::{DbStats, Event};
use crate::design::advisor::Device;
use crate::paths::background;
use crate::paths::background::wait;
use crate::paths::checkpoint;
use crate::paths::destroy;
use crate::paths::keyspaces;
use crate::paths::recover;
use crate::paths::recover::OpenOptions;
use crate::paths::recover::files::{self, DatabaseFiles};
use crate::paths::statistics;
use crate::paths::verify;
use crate::paths::verify::{VerifyProgress, VerifyReport};
use crate::paths::write;
use crate::table::memory::BUDGET_BYTES_DEFAULT;
use crate::tree::engine::{Engine, Handle, KeyspaceCell};
use crate::tree::version::manifest;

/// A database: a directory of keyspaces. A cheap handle, `Send + Sync`.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// use hedgerow::{Db, Layout};
///
/// let db = Db::open(dir.path())?;
/// let users = db.keyspace("users", Layout::sorted())?;
/// users.put(b"ada", b"1815")?;
/// assert_eq!(users.get(b"ada")?.as_deref(), Some(&b"1815"[..]));
/// db.close()?;
/// # Ok::<(), hedgerow::Error>(())
/// ```
///
/// When the last handle (of the database, its keyspaces, snapshots and cursors) is dropped, the
/// database is closed as by [`Db::close`], but errors are lost.
#[derive(Clone)]
pub struct Db {
    engine: Handle,
}

/// The options for opening a database. Made by [`Db::builder`].
///
/// Three settings matter most:
///
/// 1. the memory of the whole database ([`Builder::memory_budget`]): more memory means fewer reads
///    and fewer merges;
/// 2. the design of each keyspace: let the keyspace tune itself ([`Keyspace::set_self_tuning`]), or
///    choose a merge policy ([`Design::policy`]);
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
    dir: PathBuf,
    options: OpenOptions,
}

impl Builder {
    /// Sets the memory in bytes that caches, indexes, filters, memtables, pinned values and merges
    /// share: 1 MiB to 16 TiB, and at least 6.5 KiB for each tree. 256 MiB by default. More memory
    /// means fewer reads, and larger memtables, hence less write amplification.
    pub fn memory_budget(mut self, bytes: u64) -> Builder {
        self.options.memory_budget = bytes;
        self
    }

    /// Opens without the lock and changes nothing, so a writer may have the database open as well.
    /// Reads see everything that the writer had written when the database was opened.
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
        let db = Db {
            engine: Handle::new(recover::open(&self.dir, &self.options)?),
        };
        let options = &self.options;
        asynchronous::start(&db.engine, options.workers, options.worker_queue_tasks)?;
        Ok(db)
    }
}

impl Db {
    /// Opens or creates a database with a memory budget of 256 MiB.
    ///
    /// # Errors
    /// As [`Builder::open`].
    pub fn open(dir: impl AsRef<Path>) -> Result<Db> {
        Db::builder(dir).open()
    }

    /// Returns true if the directory has a database, also a damaged one.
    ///
    /// ```
    /// # use hedgerow::Db;
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let dir = dir.path().join("db");
    /// Db::open(&dir)?.close()?;
    /// assert!(Db::exists(&dir)?);
    /// Db::destroy(&dir)?;
    /// assert!(!Db::exists(&dir)? && !dir.exists());
    /// # Ok::<(), hedgerow::Error>(())
    /// ```
    ///
    /// # Errors
    /// `Io`.
    pub fn exists(dir: impl AsRef<Path>) -> Result<bool> {
        Db::builder(dir).exists()
    }

    /// Destroys the database in a directory, as [`Builder::destroy`] does.
    ///
    /// # Errors
    /// As [`Builder::destroy`].
    pub fn destroy(dir: impl AsRef<Path>) -> Result<()> {
        Db::builder(dir).destroy()
    }

    /// The options for opening the database in this directory.
    pub fn builder(dir: impl AsRef<Path>) -> Builder {
        Builder {
            dir: dir.as_ref().to_path_buf(),
            options: OpenOptions {
                environment: Environment::os(),
                memory_budget: BUDGET_BYTES_DEFAULT,
                read_only: false,
                create_if_missing: true,
                read_mode: ReadMode::default(),
                io_bytes_per_second: None,
                log_bytes_max: None,
                log_segment_bytes: None,
                listener: None,
                workers: 0,
                worker_queue_tasks: asynchronous::QUEUE_TASKS_MAX,
                device: Device::nvme(),
                operators: Operators::default(),
                level_paths: None,
            },
        }
    }

    pub(crate) fn new(engine: Handle) -> Db {
        Db { engine }
    }

    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    // ---- keyspaces ----

    /// Opens a keyspace, or creates it with the default design. An existing keyspace keeps its
    /// design.
    ///
    /// # Errors
    /// `InvalidArgument` if it exists with another layout, or for a bad name or layout;
    /// `Unsupported` if it does not exist and the database was opened for reading only; `Io`.
    pub fn keyspace(&self, name: &str, layout: Layout) -> Result<Keyspace> {
        self.keyspace_or(name, layout, None)
    }

    /// Opens or creates a keyspace with a design. An existing keyspace with another design is
    /// retuned ([`Keyspace::retune`]), unless it tunes itself ([`Keyspace::set_self_tuning`]).
    ///
    /// # Errors
    /// As [`Db::keyspace`]; `InvalidArgument` for a design out of bounds, or not for this key
    /// order.
    pub fn keyspace_with(&self, name: &str, layout: Layout, design: Design) -> Result<Keyspace> {
        design.check()?;
        design.check_order(layout.order)?;
        self.keyspace_or(name, layout, Some(design))
    }

    /// Opens several keyspaces as [`Db::keyspace`] does. Either all missing ones are created, or
    /// none.
    /// Cost: one sync of the manifest for any number of keyspaces.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// use hedgerow::{Db, Layout};
    ///
    /// let db = Db::open(dir.path())?;
    /// let names: Vec<String> = (0..1000).map(|i| format!("customer-{i}")).collect();
    /// let all = db.create_keyspaces(names.iter().map(|name| (name, Layout::sorted())))?;
    /// all[17].put("name", "Ada")?;
    /// # Ok::<(), hedgerow::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Db::keyspace`].
    pub fn create_keyspaces<N: AsRef<str>>(
        &self,
        keyspaces: impl IntoIterator<Item = (N, Layout)>,
    ) -> Result<Vec<Keyspace>> {
        let keyspaces = keyspaces.into_iter();
        self.create_keyspaces_with(
            keyspaces.map(|(name, layout)| (name, layout, Design::default())),
        )
    }

    /// Opens several keyspaces as [`Db::create_keyspaces`] does, with a design for each new one.
    /// Existing keyspaces keep theirs.
    ///
    /// # Errors
    /// As [`Db::keyspace_with`].
    pub fn create_keyspaces_with<N: AsRef<str>>(
        &self,
        keyspaces: impl IntoIterator<Item = (N, Layout, Design)>,
    ) -> Result<Vec<Keyspace>> {
        let keyspaces: Vec<_> = keyspaces.into_iter().collect();
        for (name, layout, design) in &keyspaces {
            check_name(name.as_ref())?;
            layout.check()?;
            design.check()?;
            design.check_order(layout.order)?;
        }
        let wanted = keyspaces.iter();
        let wanted =
            wanted.map(|(name, layout, design)| (name.as_ref(), layout.clone(), design.clone()));
        let cells = keyspaces::create(&self.engine, &wanted.collect::<Vec<_>>())?;
        let handles = cells.iter().map(|cell| Keyspace::new(&self.engine, cell));
        Ok(handles.collect())
    }

    /// An existing keyspace of any layout; `None` if there is none.
    pub fn existing_keyspace(&self, name: &str) -> Option<Keyspace> {
        let catalog = self.engine.catalog.load();
        catalog
            .keyspaces
            .get(name)
            .map(|cell| Keyspace::new(&self.engine, cell))
    }

    /// The names of all keyspaces, sorted.
    pub fn keyspaces(&self) -> Vec<String> {
        self.engine
            .catalog
            .load()
            .keyspaces
            .keys()
            .cloned()
            .collect()
    }

    fn keyspace_or(&self, name: &str, layout: Layout, design: Option<Design>) -> Result<Keyspace> {
        self.engine.check_open()?;
        check_name(name)?;
        layout.check()?;
        let found = self.engine.catalog.load().keyspaces.get(name).cloned();
        let is_whole =
            |cell: &Arc<KeyspaceCell>| keyspaces::missing_operator(cell, &layout).is_none();
        let cell = match found.filter(is_whole) {
            Some(cell) => cell,
            None => {
                let wanted = (name, layout.clone(), design.clone().unwrap_or_default());
                keyspaces::create(&self.engine, &[wanted])?.remove(0)
            }
        };
        keyspaces::check_layout(&cell, &layout)?;
        let tunes_itself = cell.facts.tunes_itself.load(Ordering::Acquire);
        if let Some(design) = design.filter(|_| !tunes_itself)
            && cell.facts.design().design != design
        {
            background::retune(&self.engine, &cell, design)?;
        }
        Ok(Keyspace::new(&self.engine, &cell))
    }

    /// Drops a keyspace with everything in it. The drop, and everything written before it, is
    /// durable when this returns. Its handles are `Closed` from then on. Its files are removed when
    /// no snapshot or cursor reads them.
    /// Cost: a sync of the log and one of the manifest; writes of other threads wait for both.
    ///
    /// # Errors
    /// `InvalidArgument` if there is none of that name, `Unsupported` when opened for reading only,
    /// `Io`, `Poisoned`.
    pub fn drop_keyspace(&self, name: &str) -> Result<()> {
        keyspaces::drop_keyspace(&self.engine, name)
    }

    /// Gives a keyspace another name, durably. Its handles, batches and snapshots stay in use.
    /// Cost: a sync of the manifest.
    ///
    /// # Errors
    /// `InvalidArgument` if there is none of that name, if there is one of the new name, or for a
    /// bad name; `Unsupported` when opened for reading only, `NoSpace`, `Io`, `Poisoned`.
    pub fn rename_keyspace(&self, from: &str, to: &str) -> Result<()> {
        check_name(to)?;
        keyspaces::rename(&self.engine, from, to)
    }

    // ---- the whole database ----

    /// An empty batch of writes.
    pub fn batch(&self) -> Batch {
        Batch::new(&self.engine)
    }

    /// An empty batch that reads its own writes, over a snapshot of now.
    ///
    /// # Errors
    /// `Closed`.
    pub fn indexed_batch(&self) -> Result<IndexedBatch> {
        Ok(self.snapshot()?.indexed_batch())
    }

    /// The state of all keyspaces now. It stays readable whatever is written after.
    ///
    /// # Errors
    /// `Closed`.
    pub fn snapshot(&self) -> Result<Snapshot> {
        Snapshot::take(&self.engine)
    }

    /// Makes everything written so far durable. Cost: a sync of the log, shared.
    ///
    /// # Errors
    /// `Io`, `Poisoned`, `Closed`, `Unsupported` when opened for reading only.
    pub fn sync(&self) -> Result<()> {
        write::sync(&self.engine)
    }

    /// Becomes ready when every asynchronous call made before it has ended. Its result is the first
    /// error, since the last barrier, of a write that returned no future
    /// ([`Keyspace::put_later`](crate::Keyspace::put_later)). The barrier adds no durability to
    /// these writes; [`Db::sync`] makes them durable.
    ///
    /// ```
    /// # use hedgerow::{Db, Layout};
    /// # let dir = tempfile::tempdir().unwrap();
    /// let db = Db::builder(dir.path()).workers(1).open()?;
    /// let events = db.keyspace("events", Layout::sorted())?;
    /// for i in 0..1000_u32 {
    ///     events.put_later(i.to_be_bytes(), "something happened")?;
    /// }
    /// db.barrier().wait()?;
    /// assert_eq!(events.scan::<&[u8]>(..)?.count(), 1000);
    /// # Ok::<(), hedgerow::Error>(())
    /// ```
    pub fn barrier(&self) -> Pending<()> {
        let all = asynchronous::all_workers(&self.engine);
        asynchronous::call_behind(&self.engine, &all, |engine| {
            match lock(&engine.lost_error).take() {
                Some(error) => Err(error),
                None => Ok(()),
            }
        })
    }

    /// Drops a keyspace as [`Db::drop_keyspace`] does, after every call for it that was made
    /// before. Calls made after it are `Closed`.
    pub fn drop_keyspace_async(&self, name: &str) -> Pending<()> {
        let name = name.to_owned();
        let all = asynchronous::all_workers(&self.engine);
        let cell = self.engine.catalog.load().keyspaces.get(&name).cloned();
        if let Some(cell) = &cell {
            cell.dropping.store(true, Ordering::Release);
        }
        asynchronous::call_behind(&self.engine, &all, move |engine: &Arc<Engine>| {
            let db = Db::new(Handle::of_worker(engine));
            let dropped = db.drop_keyspace(&name);
            if let Some(cell) = cell {
                cell.dropping.store(false, Ordering::Release);
            }
            dropped
        })
    }

    /// Writes the entries of all memtables to tables, and waits until this is done.
    ///
    /// # Errors
    /// `NoSpace`, `Io`, `Closed`, `Poisoned`.
    pub fn flush(&self) -> Result<()> {
        let (at, partitions) = write::seal_database(&self.engine, false)?;
        wait::for_flushes(&self.engine, &partitions, at)
    }

    /// Copies the database as it is now into a new directory, which opens like any other. A table
    /// on the same file system is linked, not copied.
    /// Cost: a flush; then one link per table.
    ///
    /// # Errors
    /// `InvalidArgument` if the directory exists and is not empty; as [`Db::flush`].
    pub fn checkpoint(&self, dir: impl AsRef<Path>) -> Result<()> {
        checkpoint::make(&self.engine, dir.as_ref())
    }

    /// Reads everything, and checks every checksum and every invariant of the manifest, of each
    /// table, and of the durable part of the log.
    ///
    /// # Errors
    /// `Corruption` with the file and offset of the first damage, `Io`, `Closed`.
    pub fn verify(&self) -> Result<VerifyReport> {
        self.verify_with(|_| true)
    }

    /// Verifies as [`Db::verify`] does. `go_on` receives the progress, and ends the work by
    /// returning false.
    ///
    /// # Errors
    /// As [`Db::verify`]; `Cancelled`.
    pub fn verify_with(
        &self,
        mut go_on: impl FnMut(VerifyProgress) -> bool,
    ) -> Result<VerifyReport> {
        verify::verify(&self.engine, &mut go_on)
    }

    /// Statistics of the work since the database was opened, and of its present state.
    pub fn stats(&self) -> DbStats {
        statistics::gather(&self.engine)
    }

    /// Makes everything durable and closes the database: every later call on any handle is
    /// `Closed`. Memtables are not flushed; they are read from the log when the database is opened
    /// again.
    ///
    /// # Errors
    /// `Io`, `Poisoned` if the log could not be made durable. The database is closed all the same.
    pub fn close(self) -> Result<()> {
        self.engine.close()
    }
}

impl fmt::Debug for Db {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Db").field("dir", &self.engine.dir).finish()
    }
}
