//! The calls of a database that wait: keyspaces, the whole database, closing.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::api::batch::{Batch, IndexedBatch};
use crate::api::keyspace::{Keyspace, check_name};
use crate::api::snapshot::Snapshot;
use crate::base::error::Result;
use crate::base::options::{Design, Layout};
use crate::base::stats::DbStats;
use crate::paths::background;
use crate::paths::background::wait;
use crate::paths::checkpoint;
use crate::paths::keyspaces;
use crate::paths::statistics;
use crate::paths::verify;
use crate::paths::verify::{VerifyProgress, VerifyReport};
use crate::paths::write;
use crate::tree::engine::{Engine, Handle, KeyspaceCell};

use super::{Builder, Db};

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
        Builder::new(dir.as_ref())
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

    /// Returns true if a write waits for a flush now: all memory of the memtables is in use. A
    /// caller that must be able to stop waiting has another thread wait for memory first. Cost: one
    /// or two atomic loads.
    pub fn writes_wait(&self) -> bool {
        write::waits(&self.engine.memory)
    }

    /// Returns true if a write that begins now waits because background work is behind: for a
    /// flush, as [`Db::writes_wait`] tells, or up to 20 ms so that merges keep pace. `bytes` is the
    /// size of the write, as [`Batch::bytes`](crate::Batch::bytes) counts it. Other writes between
    /// this call and the write may change the answer. For a thread that should not wait: another
    /// one writes then. Cost: a few atomic loads; while merges are behind, a look at the clock.
    ///
    /// ```
    /// # use hedgerow::Db;
    /// # let dir = tempfile::tempdir().unwrap();
    /// let db = Db::open(dir.path())?;
    /// assert!(!db.delays_write(1000), "nothing was written yet");
    /// # Ok::<(), hedgerow::Error>(())
    /// ```
    pub fn delays_write(&self, bytes: usize) -> bool {
        write::is_delayed(&self.engine.memory, &self.engine.throttle, bytes)
    }

    /// Waits for a flush as long as a write that begins now, and writes nothing.
    ///
    /// # Errors
    /// The error of a flush that failed, such as `NoSpace`; `Unsupported` when opened for reading
    /// only, `Closed`, `Poisoned`.
    pub fn wait_for_memory(&self) -> Result<()> {
        write::wait_for_memory(&self.engine)
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
