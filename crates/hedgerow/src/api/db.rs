//! The database: opening, keyspaces, whole-database operations, closing.

mod bounds;
mod statistics;

pub(crate) use statistics::keyspace_stats;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use hedgerow_io::{Environment, ReadMode};

use crate::api::asynchronous;
use crate::api::asynchronous::Pending;
use crate::api::batch;
use crate::api::batch::Batch;
use crate::api::keyspace::{Keyspace, check_name};
use crate::api::snapshot::Snapshot;
use crate::base::entry::{KeyspaceId, PartitionId, SeqNo};
use crate::base::error::{Error, Result};
use crate::base::options::{Design, Layout, LevelPaths};
use crate::base::stats::{DbStats, Event, Operations};
use crate::design::advisor::Device;
use crate::design::merge_policy;
use crate::design::merge_policy::edit::TreeEdit;
use crate::group_filter::probes::stored;
use crate::paths::checkpoint;
use crate::paths::compaction;
use crate::paths::flush;
use crate::paths::recover;
use crate::paths::recover::OpenOptions;
use crate::paths::retune;
use crate::paths::verify;
use crate::paths::verify::{VerifyProgress, VerifyReport};
use crate::paths::write;
use crate::table::memory::BUDGET_BYTES_DEFAULT;
use crate::tree::engine::{Engine, Handle, KeyspaceCell, KeyspaceState, Writer, lock};
use crate::tree::version::edit::{Change, Written};
use crate::tree::version::state::Keyspace as KeyspaceDescription;

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

    /// Sets the size of a log segment: 4 KiB to 4 GiB less 4 KiB. Derived from the memory budget by
    /// default.
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
                level_paths: None,
            },
        }
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
        let cells = self.create(&wanted.collect::<Vec<_>>())?;
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
        let cell = match found {
            Some(cell) => cell,
            None => {
                let wanted = (name, layout.clone(), design.clone().unwrap_or_default());
                self.create(&[wanted])?.remove(0)
            }
        };
        check_layout(&cell, &layout)?;
        let tunes_itself = cell.facts.tunes_itself.load(Ordering::Acquire);
        if let Some(design) = design.filter(|_| !tunes_itself)
            && cell.facts.design().design != design
        {
            retune::retune(&self.engine, &cell, design)?;
        }
        Ok(Keyspace::new(&self.engine, &cell))
    }

    /// Creates the missing ones of these keyspaces by one edit. Returns all of them.
    fn create(&self, wanted: &[(&str, Layout, Design)]) -> Result<Vec<Arc<KeyspaceCell>>> {
        let engine = &self.engine;
        let writer = engine.writer()?;
        let mut manifest = writer.manifest();
        let mut catalog = (**engine.catalog.load()).clone();
        let (mut cells, mut edit) = (Vec::with_capacity(wanted.len()), Vec::new());
        for (name, layout, design) in wanted {
            let cell = match catalog.keyspaces.get(*name) {
                Some(cell) => cell.clone(),
                None => {
                    let id = KeyspaceId(writer.next_keyspace.fetch_add(1, Ordering::Relaxed));
                    let keyspace = describe(engine, writer, id, (name, layout, design));
                    let (cell, state) = recover::open_keyspace(engine, id, &keyspace, |_, _| {
                        let version = engine.empty_version(usize::from(keyspace.depth));
                        Ok((version, SeqNo(0)))
                    })?;
                    catalog.add(&cell, &state);
                    edit.push(keyspace.creation(id));
                    cell
                }
            };
            check_layout(&cell, layout)?;
            cells.push(cell);
        }
        if !edit.is_empty() {
            engine.memory.check_trees(catalog.partitions.len())?;
            engine.log_edit(writer, &mut manifest, edit)?;
            engine.set_catalog(catalog);
        }
        Ok(cells)
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
        let engine = &self.engine;
        engine.writer()?;
        {
            let _one = lock(&engine.whole_trees);
            let cell = engine.catalog.load().keyspaces.get(name).cloned();
            let cell = cell.ok_or_else(|| {
                Error::invalid(format!("expected a keyspace, found none named `{name}`"))
            })?;
            let id = cell.facts.id;
            replace_trees(engine, &cell, None, vec![Change::DropKeyspace { id }])?;
        }
        engine.release_log();
        engine.remove_obsolete();
        Ok(())
    }

    // ---- the whole database ----

    /// An empty batch of writes.
    pub fn batch(&self) -> Batch {
        Batch::new(&self.engine)
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
        batch::sync(&self.engine)
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
            let db = Db {
                engine: Handle::of_worker(engine),
            };
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
        flush::wait_for(&self.engine, &partitions, at)
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

impl Engine {
    /// Closes once; a later call does nothing. The workers first finish the calls in their queues.
    pub(crate) fn close(&self) -> Result<()> {
        if let Some(workers) = self.workers.get() {
            workers.finish();
        }
        let Some(writer) = &self.writer else {
            self.closed.store(true, Ordering::Release);
            self.scheduler.stop();
            self.events.tell_all();
            return Ok(());
        };
        let (end, last) = {
            let state = writer.commit();
            if self.closed.swap(true, Ordering::AcqRel) {
                return Ok(());
            }
            (state.tail.position(), SeqNo(state.next_seqno.0 - 1))
        };
        self.publisher.wait(last.0);
        self.scheduler.notify_progress();
        self.scheduler.stop();
        if writer.log.check_poison().is_ok() {
            stored::write_all(self, writer);
        }
        let synced = writer.log.sync_through(end);
        let noted = synced.and_then(|()| {
            writer.log.check_poison()?;
            let mut edit = self.operations_to_note();
            edit.extend([writer.counters(), Change::Closed { end, last }]);
            writer.manifest().commit(edit)
        });
        self.remove_obsolete();
        lock(&writer.locks).clear();
        self.events.tell_all();
        noted
    }
}

impl Engine {
    /// The operations of each keyspace that the manifest does not have yet.
    fn operations_to_note(&self) -> Vec<Change> {
        let catalog = self.catalog.load();
        let note = |state: &Arc<KeyspaceState>| {
            let entries = state
                .partitions
                .iter()
                .map(|partition| partition.tree().version.entries());
            let operations = state.facts.operations.note(entries.sum())?;
            let id = state.facts.id;
            Some(Change::Operations { id, operations })
        };
        catalog.states.values().filter_map(note).collect()
    }

    /// Stops without recording a clean close. The next recovery finishes what this one did not; a
    /// recorded close would make it take a log for continued that is not.
    pub(crate) fn abandon(&self) {
        self.closed.store(true, Ordering::Release);
        self.scheduler.stop();
        if let Some(writer) = &self.writer {
            lock(&writer.locks).clear();
        }
        self.events.tell_all();
    }
}

/// Describes a new keyspace, with ids for its partitions.
fn describe(
    engine: &Engine,
    writer: &Writer,
    id: KeyspaceId,
    (name, layout, design): (&str, &Layout, &Design),
) -> KeyspaceDescription {
    let count = layout.partitioning.count() as u32;
    let first = writer.next_partition.fetch_add(count, Ordering::Relaxed);
    KeyspaceDescription {
        name: name.to_owned(),
        layout: layout.clone(),
        design: design.clone(),
        seed: seed(engine, id.0),
        partitions: (first..first + count).map(PartitionId).collect(),
        depth: merge_policy::policy(&design.policy).depth() as u8,
        operations: Operations::default(),
        written: Written::default(),
        tunes_itself: false,
    }
}

fn check_layout(cell: &KeyspaceCell, layout: &Layout) -> Result<()> {
    let found = &cell.facts.layout;
    if found == layout {
        return Ok(());
    }
    let name = &cell.facts.name;
    Err(Error::invalid(format!(
        "expected the keyspace `{name}` to have the layout {layout}, found {found}"
    )))
}

/// The seed of a new keyspace. Seeds differ between keyspaces and databases, so that keys chosen to
/// collide in one do not collide in another. Seeds are stored: any value will do.
fn seed(engine: &Engine, id: u32) -> u64 {
    let clock = &engine.environment.clock;
    let mut x = clock.now().as_nanos() as u64 ^ clock.unix_seconds().rotate_left(32);
    x ^= u64::from(id).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x ^ (x >> 31)
}

/// Removes the trees of a keyspace, or replaces them, at one sequence number. Every write with a
/// smaller number was routed to the old trees, and is durable before the edit. Every write with a
/// larger number is routed after the edit. No snapshot is taken in between. The caller holds
/// [`Engine::whole_trees`].
fn replace_trees(
    engine: &Engine,
    cell: &Arc<KeyspaceCell>,
    new: Option<Arc<KeyspaceState>>,
    edit: Vec<Change>,
) -> Result<()> {
    let writer = engine.writer()?;
    let rerouting = write::begin_rerouting(engine)?;
    engine.publisher.wait(rerouting.0.seqno.0 - 1);
    writer.log.sync_through(rerouting.0.log_end)?;
    let mut manifest = writer.manifest();
    engine.log_edit(writer, &mut manifest, edit)?;
    engine.snapshots.while_none_is_taken(|| {
        let commits = writer.commit();
        let old = cell.state.load_full();
        for partition in &old.partitions {
            partition.mark_dropped();
            compaction::update_pressure(engine, partition);
            let tree = partition.tree();
            let sealed: u64 = tree.sealed.iter().map(|m| m.reserved_bytes()).sum();
            engine.memory.sealed.fetch_sub(sealed, Ordering::Relaxed);
            (engine.memory).remove_active(&old.facts.active, tree.active.reserved_bytes());
        }
        let catalog = engine.catalog.load();
        let catalog = match new {
            Some(new) => {
                let catalog = catalog.with(cell, &new);
                cell.state.store(new);
                catalog
            }
            None => {
                cell.dropped.store(true, Ordering::Release);
                let mut of_dropped = lock(&engine.stats.of_dropped);
                *of_dropped = of_dropped.plus(&cell.facts.operations.counted());
                catalog.without(cell.facts.id)
            }
        };
        engine.set_catalog(catalog);
        drop(commits);
        drop(rerouting);
    });
    Ok(())
}

/// Empties a keyspace: new, empty trees take the place of the old ones.
pub(crate) fn clear(engine: &Arc<Engine>, cell: &Arc<KeyspaceCell>) -> Result<()> {
    let writer = engine.writer()?;
    let whole_trees = lock(&engine.whole_trees);
    cell.check_not_dropped()?;
    let count = cell.state.load().partitions.len() as u32;
    let first = writer.next_partition.fetch_add(count, Ordering::Relaxed);
    let ids: Vec<_> = (first..first + count).map(PartitionId).collect();
    let depth = cell.facts.design().policy.depth();
    let partitions = ids.iter().enumerate().map(|(index, &id)| {
        let version = engine.empty_version(depth);
        crate::tree::partition::Partition::new(
            id,
            index,
            cell.facts.clone(),
            version,
            SeqNo(0),
            &engine.memory.pool,
        )
    });
    let new = Arc::new(KeyspaceState {
        facts: cell.facts.clone(),
        partitions: partitions.collect(),
    });
    // The design may have changed since the keyspace was made, and with it the depth.
    let deep = ids.iter().map(|&id| {
        Change::Tree(TreeEdit {
            depth: Some(depth as u8),
            ..TreeEdit::new(id)
        })
    });
    let mut edit: Vec<_> = deep.collect();
    let replaced = Change::ReplacePartitions {
        id: cell.facts.id,
        partitions: ids,
    };
    edit.insert(0, replaced);
    replace_trees(engine, cell, Some(new), edit)?;
    drop(whole_trees);
    engine.release_log();
    engine.remove_obsolete();
    Ok(())
}
