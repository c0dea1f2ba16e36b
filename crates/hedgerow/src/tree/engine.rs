//! The state of an open database, on which the paths work: parts, and the locks between them.
//!
//! Lock order: `whole_trees` → `manifest` → the list of snapshots → `commit` → a partition's `work` → a partition's
//! replacing lock → the log's own. No lock but the first is held while waiting for a flush, a merge, a sync of the log
//! or a publication (invariant I17); `manifest` alone is held during I/O, that of appending an
//! edit.

mod events;
mod task;

pub(crate) use events::Events;
pub(crate) use task::{Access, Answer, Task, Write};

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use hedgerow_io::{Environment, FileLock};
use hedgerow_mem::Publisher;

use crate::base::entry::{KeyHash, KeyspaceId, PartitionId, SeqNo};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::page::{PageSlice, TableId};
use crate::base::runtime::{Pressure, Priority, RateLimiter, Scheduler, Throttle, Workers};
use crate::base::slice::Slice;
use crate::base::stats::{Event, Stats, WorkerStats};
use crate::base::table_meta::TableMeta;
use crate::design::advisor::Device;
use crate::design::merge_policy::edit::TreeEdit;
use crate::group_filter::clusters;
use crate::group_filter::clusters::StoredCluster;
use crate::table::memory::Memory;
use crate::table::open::table_name;
use crate::table::{Table, TableContext};
use crate::tree::partition::{KeyBounds, KeyspaceFacts, Partition};
use crate::tree::snapshot_list::{Registration, SnapshotList};
use crate::tree::version::edit::Change;
use crate::tree::version::places::Places;
use crate::tree::version::{Version, VersionSet};
use crate::tree::wal::{Log, Tail};

/// Writes that change the same stripe count as conflicting for `update`.
pub(crate) const STRIPES: usize = 4096;

/// Everything an open database consists of.
pub(crate) struct Engine {
    pub(crate) dir: PathBuf,
    /// Where its files are beside that.
    pub(crate) places: Places,
    pub(crate) environment: Environment,
    pub(crate) memory: Arc<Memory>,
    pub(crate) tables: Arc<TableContext>,
    pub(crate) stats: Arc<Stats>,
    pub(crate) scheduler: Scheduler,
    pub(crate) throttle: Throttle,
    pub(crate) rate_limiter: RateLimiter,
    pub(crate) events: Arc<Events>,
    /// What reads and writes cost, for keyspaces that tune themselves.
    pub(crate) device: Device,
    pub(crate) catalog: ArcSwap<Catalog>,
    /// Counts the changes after which a routed write has to be routed again, twice each: while one goes on it
    /// is odd.
    pub(crate) routing_epoch: AtomicU64,
    /// The number of the last of these changes.
    pub(crate) rerouted_at: AtomicU64,
    pub(crate) snapshots: SnapshotList,
    pub(crate) publisher: Publisher,
    /// `None` when the database was opened for reading only.
    pub(crate) writer: Option<Writer>,
    pub(crate) closed: AtomicBool,
    /// Memtables sealed at a later number are not flushed while a checkpoint is made, or a bulk load
    /// put in place, at this one.
    pub(crate) flushes_held_at: AtomicU64,
    /// Held by whoever deals with whole trees: a checkpoint, the end of a bulk load, a clear, a drop.
    pub(crate) whole_trees: Mutex<()>,
    /// Trees whose blocks may be read into the page cache when there is time.
    pub(crate) to_warm: Mutex<BTreeSet<PartitionId>>,
    /// Who does the asynchronous calls; set when it is open.
    pub(crate) workers: OnceLock<Workers<Task>>,
    /// The clusters of tables that are written and not in a tree yet.
    pub(crate) fresh_clusters: Mutex<BTreeMap<TableId, Arc<StoredCluster>>>,
    /// The first error of a write that nobody waited for.
    pub(crate) lost_error: Mutex<Option<Error>>,
    /// Versions of trees without tables, by depth.
    pub(crate) empty_versions: Mutex<BTreeMap<usize, Arc<Version>>>,
}

/// What every handle of the user holds. The database is closed when the last one goes, on the
/// thread that drops it: background jobs hold the engine alone and only for as long as they run.
#[derive(Clone)]
pub(crate) struct Handle(Arc<ClosesOnDrop>);

struct ClosesOnDrop {
    engine: Arc<Engine>,
    /// Not those of workers: they do not keep a database open.
    is_of_user: bool,
}

impl Handle {
    pub(crate) fn new(engine: Arc<Engine>) -> Handle {
        Handle(Arc::new(ClosesOnDrop {
            engine,
            is_of_user: true,
        }))
    }

    /// One that does not keep the database open.
    pub(crate) fn of_worker(engine: &Arc<Engine>) -> Handle {
        Handle(Arc::new(ClosesOnDrop {
            engine: engine.clone(),
            is_of_user: false,
        }))
    }
}

impl std::ops::Deref for Handle {
    type Target = Arc<Engine>;

    #[inline]
    fn deref(&self) -> &Arc<Engine> {
        &self.0.engine
    }
}

impl Drop for ClosesOnDrop {
    fn drop(&mut self) {
        if self.is_of_user {
            // Whoever wants to know of errors calls `close`.
            let _ = self.engine.close();
        }
    }
}

/// What only a database opened for writing has.
pub(crate) struct Writer {
    pub(crate) log: Log,
    pub(crate) log_bytes_max: u64,
    pub(crate) commit: Mutex<CommitState>,
    /// The number of the latest write to each stripe of keys; stored under the commit's lock.
    pub(crate) stripes: Box<[AtomicU64]>,
    pub(crate) manifest: Mutex<VersionSet>,
    pub(crate) next_table: AtomicU64,
    /// The first that was free when it was opened.
    pub(crate) first_table: TableId,
    pub(crate) next_keyspace: AtomicU32,
    pub(crate) next_partition: AtomicU32,
    pub(crate) preparing_spares: AtomicBool,
    pub(crate) locks: Mutex<Vec<Box<dyn FileLock>>>,
}

/// What the commit's short critical section guards.
#[derive(Debug)]
pub(crate) struct CommitState {
    pub(crate) next_seqno: SeqNo,
    pub(crate) tail: Tail,
}

/// The keyspaces at one moment; replaced, never changed. Its maps are sorted, so that whoever goes
/// through them does so in the same order in every run of a simulation.
#[derive(Default, Clone)]
pub(crate) struct Catalog {
    pub(crate) keyspaces: BTreeMap<String, Arc<KeyspaceCell>>,
    pub(crate) states: BTreeMap<KeyspaceId, Arc<KeyspaceState>>,
    pub(crate) partitions: BTreeMap<PartitionId, Arc<Partition>>,
}

/// The trees of a keyspace between two `clear`s.
pub(crate) struct KeyspaceState {
    pub(crate) facts: Arc<KeyspaceFacts>,
    pub(crate) partitions: Vec<Arc<Partition>>,
}

impl KeyspaceState {
    /// The tree in which a user key with this hash lives.
    #[inline]
    pub(crate) fn route(&self, user_key: &[u8], hash: KeyHash) -> &Arc<Partition> {
        &self.partitions[self.facts.router.route(user_key, hash)]
    }

    /// The trees that may hold keys within bounds.
    pub(crate) fn covering(&self, bounds: &KeyBounds) -> &[Arc<Partition>] {
        &self.partitions[self.facts.router.covering(bounds).partitions]
    }
}

/// What all handles of a keyspace share.
pub(crate) struct KeyspaceCell {
    pub(crate) facts: Arc<KeyspaceFacts>,
    pub(crate) state: ArcSwap<KeyspaceState>,
    pub(crate) dropped: AtomicBool,
    /// It is going to be dropped: no asynchronous call for it is taken on.
    pub(crate) dropping: AtomicBool,
}

impl KeyspaceCell {
    /// `Closed` when the keyspace was dropped.
    #[inline]
    pub(crate) fn check_not_dropped(&self) -> Result<()> {
        self.check_not(&self.dropped)
    }

    /// `Closed` while it is being dropped.
    pub(crate) fn check_not_dropping(&self) -> Result<()> {
        self.check_not(&self.dropping)
    }

    #[inline]
    fn check_not(&self, gone: &AtomicBool) -> Result<()> {
        if gone.load(Ordering::Acquire) {
            let why = format!("the keyspace `{}` was dropped", self.facts.name);
            return Err(Error::new(ErrorKind::Closed, why));
        }
        Ok(())
    }
}

impl KeyspaceState {
    /// Bytes of a key: the bounds of tables are keys like any others, and nothing has to be read for
    /// them. 0 if there are no tables.
    pub(crate) fn key_bytes(&self) -> f64 {
        let (mut keys, mut bytes) = (0_u64, 0);
        for partition in &self.partitions {
            for (_, table) in partition.tree().version.tables() {
                let meta = table.meta();
                keys += 2;
                bytes += meta.smallest_key.len() + meta.largest_key.len();
            }
        }
        bytes as f64 / keys.max(1) as f64
    }
}

/// Keeps a number registered, so that merges keep what is visible at it.
pub(crate) struct SnapshotGuard {
    pub(crate) engine: Handle,
    pub(crate) registration: Registration,
    pub(crate) seqno: SeqNo,
    pub(crate) taken: Duration,
    /// The trees of that time: a keyspace cleared later still reads as it was.
    pub(crate) catalog: Arc<Catalog>,
}

impl Drop for SnapshotGuard {
    fn drop(&mut self) {
        self.engine.snapshots.release(self.registration);
    }
}

impl Catalog {
    /// The same with a keyspace added or its trees replaced.
    pub(crate) fn with(&self, cell: &Arc<KeyspaceCell>, state: &Arc<KeyspaceState>) -> Catalog {
        let mut catalog = self.without(cell.facts.id);
        catalog.add(cell, state);
        catalog
    }

    /// Adds a keyspace that is not there.
    pub(crate) fn add(&mut self, cell: &Arc<KeyspaceCell>, state: &Arc<KeyspaceState>) {
        let facts = &cell.facts;
        self.keyspaces.insert(facts.name.clone(), cell.clone());
        let partitions = state.partitions.iter();
        self.partitions
            .extend(partitions.map(|p| (p.id, p.clone())));
        self.states.insert(facts.id, state.clone());
    }

    /// The same without a keyspace.
    pub(crate) fn without(&self, id: KeyspaceId) -> Catalog {
        let mut catalog = self.clone();
        if let Some(state) = catalog.states.remove(&id) {
            catalog.keyspaces.remove(&state.facts.name);
            state
                .partitions
                .iter()
                .for_each(|p| drop(catalog.partitions.remove(&p.id)));
        }
        catalog
    }
}

impl Engine {
    /// Which worker makes the asynchronous calls for the keys of a partition.
    pub(crate) fn worker_of(&self, partition: usize) -> usize {
        partition % self.workers.get().map_or(1, |workers| workers.count())
    }

    /// A worker, its partitions and its queue; nothing while the database is being opened.
    pub(crate) fn worker_stats(&self, worker: usize) -> Option<WorkerStats> {
        let catalog = self.catalog.load();
        let partitions = catalog.partitions.values();
        Some(WorkerStats {
            partitions: { partitions }
                .filter(|partition| self.worker_of(partition.index) == worker)
                .count(),
            ..self.workers.get()?.stats(worker)
        })
    }

    /// What writing needs; `Unsupported` when opened for reading only, `Closed` after `close`,
    /// `Poisoned` after a failed write of the log.
    #[inline]
    pub(crate) fn writer(&self) -> Result<&Writer> {
        self.check_open()?;
        let Some(writer) = &self.writer else {
            return Err(Error::new(
                ErrorKind::Unsupported,
                "the database was opened for reading only; open it without `read_only` to write",
            ));
        };
        writer.log.check_poison()?;
        Ok(writer)
    }

    #[inline]
    pub(crate) fn check_open(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) {
            return Err(Error::new(ErrorKind::Closed, "the database was closed"));
        }
        Ok(())
    }

    /// What a routing that begins now is good for. Waits while trees are replaced.
    #[inline]
    pub(crate) fn routing_epoch(&self) -> u64 {
        loop {
            let epoch = self.routing_epoch.load(Ordering::Acquire);
            if epoch.is_multiple_of(2) {
                return epoch;
            }
            self.publisher
                .wait(self.rerouted_at.load(Ordering::Acquire));
        }
    }

    /// Has the listener hear of an event, soon and where no lock is held: behind this job of the pool or another.
    pub(crate) fn tell(&self, event: Event) {
        if self.events.put(event) {
            self.scheduler.submit(Priority::Log, || ());
        }
    }

    /// Puts other keyspaces in place of those that there are.
    pub(crate) fn set_catalog(&self, catalog: Catalog) {
        self.memory.set_trees(catalog.partitions.len());
        self.catalog.store(Arc::new(catalog));
    }

    /// The version of a tree without tables: all that have the same depth share it.
    pub(crate) fn empty_version(&self, depth: usize) -> Arc<Version> {
        let mut versions = lock(&self.empty_versions);
        let version = versions.entry(depth);
        version
            .or_insert_with(|| Arc::new(Version::new(depth)))
            .clone()
    }

    /// The directory of the log's place.
    pub(crate) fn log_root(&self) -> PathBuf {
        self.places.log_root(&self.dir)
    }

    /// The directory of the tables of a place.
    pub(crate) fn tables_dir(&self, place: u8) -> PathBuf {
        crate::tree::partition::tables_dir(&self.places.dir(&self.dir, place))
    }

    /// The path of a table's file.
    pub(crate) fn table_path(&self, meta: &TableMeta) -> PathBuf {
        self.tables_dir(meta.path).join(table_name(meta.id))
    }

    /// The table as the tree will hold it.
    pub(crate) fn table(&self, meta: &TableMeta, facts: &KeyspaceFacts) -> Arc<Table> {
        let residency = facts.design().design.residency;
        Table::new(
            meta.clone(),
            self.table_path(meta),
            residency,
            self.tables.clone(),
        )
    }

    /// Logs an edit of a tree and then puts its result in place, as one step among all others that
    /// change a tree. The files of tables that it removes go when nobody reads them any more.
    ///
    /// If the manifest cannot be written, its state is unknown: writes are refused from then on.
    pub(crate) fn install(
        &self,
        partition: &Partition,
        edit: TreeEdit,
        flushed: Option<(&Arc<crate::tree::memtable::Memtable>, SeqNo)>,
    ) -> Result<()> {
        self.install_with(partition, edit, flushed, |_| ())
    }

    /// As [`Engine::install`]; `complete` adds to the version what its tables do not say: filters over them.
    pub(crate) fn install_with(
        &self,
        partition: &Partition,
        mut edit: TreeEdit,
        flushed: Option<(&Arc<crate::tree::memtable::Memtable>, SeqNo)>,
        complete: impl FnOnce(&mut Version),
    ) -> Result<()> {
        let writer = self.writer()?;
        let mut manifest = lock(&writer.manifest);
        let tree = partition.tree_owned();
        let mut version = self.edited(partition, &mut edit)?;
        complete(&mut version);
        let removed: Vec<_> = edit
            .removed
            .iter()
            .filter_map(|id| tree.version.table(*id))
            .collect();
        let (entries, bytes) = edit.written();
        let mut changes = vec![Change::Tree(edit)];
        if flushed.is_some() {
            changes.extend(operations_to_note(partition, &version));
        }
        self.log_edit(writer, &mut manifest, changes)?;
        if flushed.is_some() {
            // Before anybody can find the tables: who waits for the flush may look at the statistics next.
            self.stats.flushes.add(1);
            self.stats.flush_entries.add(entries);
            self.stats.flush_bytes.add(bytes);
        }
        partition.install(Arc::new(version), flushed);
        removed.iter().for_each(|(_, table)| table.mark_obsolete());
        Ok(())
    }

    /// As [`Engine::install`], for tables that come into several trees together, and `publish`,
    /// which makes what is in them visible: no snapshot is taken between the one and the other.
    pub(crate) fn install_together(
        &self,
        mut edits: Vec<(&Partition, TreeEdit)>,
        publish: impl FnOnce(),
    ) -> Result<()> {
        let writer = self.writer()?;
        let mut manifest = lock(&writer.manifest);
        let versions = edits.iter_mut().map(|(p, edit)| self.edited(p, edit));
        let versions: Vec<_> = versions.collect::<Result<_>>()?;
        let (partitions, changes): (Vec<_>, Vec<_>) = edits
            .into_iter()
            .map(|(partition, edit)| (partition, Change::Tree(edit)))
            .unzip();
        self.log_edit(writer, &mut manifest, changes)?;
        self.snapshots.while_none_is_taken(|| {
            for (partition, version) in partitions.into_iter().zip(versions) {
                partition.install(Arc::new(version), None);
            }
            publish();
        });
        Ok(())
    }

    /// The version that an edit makes of a tree's. The edit is told which sweeps are over then: they would
    /// begin again when the database is opened. Under the manifest's lock.
    fn edited(&self, partition: &Partition, edit: &mut TreeEdit) -> Result<Version> {
        if partition.is_dropped() {
            return Err(Error::new(
                ErrorKind::Closed,
                "the keyspace was dropped or cleared",
            ));
        }
        let before = partition.tree_owned();
        let mut version = (*before.version).clone();
        self.apply(&before.version, &mut version, edit, &partition.keyspace)?;
        let levels = (0..).zip(before.version.levels.iter().zip(&version.levels));
        let over = levels
            .filter(|(_, (before, after))| before.draining.is_some() && after.draining.is_none());
        edit.draining.extend(over.map(|(level, _)| (level, None)));
        Ok(version)
    }

    /// Changes a version, which is a copy of the one before, as an edit says.
    pub(crate) fn apply(
        &self,
        before: &Version,
        version: &mut Version,
        edit: &TreeEdit,
        facts: &KeyspaceFacts,
    ) -> Result<()> {
        version.apply(edit, |meta| self.table(meta, facts))?;
        let fresh = self.take_fresh(edit.added.iter().map(|(_, meta)| meta.id));
        clusters::carry(before, version, edit, fresh);
        Ok(())
    }

    /// The clusters that were written of tables, which are in no tree yet.
    fn take_fresh(&self, tables: impl Iterator<Item = TableId>) -> Vec<Arc<StoredCluster>> {
        let mut fresh = lock(&self.fresh_clusters);
        tables.filter_map(|id| fresh.remove(&id)).collect()
    }

    /// Removes tables that no edit has named, because what wrote them failed. After a failure that
    /// poisons one may: then they stay, and go when the database is opened again.
    pub(crate) fn remove_unnamed<'a>(&self, tables: impl IntoIterator<Item = &'a TableMeta>) {
        let tables: Vec<&TableMeta> = tables.into_iter().collect();
        drop(self.take_fresh(tables.iter().map(|meta| meta.id)));
        if self.writer().is_ok() {
            for meta in tables {
                let _ = self.environment.storage.remove(&self.table_path(meta));
            }
        }
    }

    /// Makes an edit durable; rotates the manifest when it has grown. `NoSpace`, with nothing
    /// written, when the disk is full; `Closed` when the manifest has been closed meanwhile.
    pub(crate) fn log_edit(
        &self,
        writer: &Writer,
        manifest: &mut VersionSet,
        mut edit: Vec<Change>,
    ) -> Result<()> {
        self.check_open()?;
        edit.push(writer.counters());
        manifest.commit(edit).map_err(|e| {
            if !manifest.is_poisoned() {
                return e;
            }
            let cause = writer.log.poison_with(e);
            self.tell(Event::Poisoned {
                error: cause.clone(),
            });
            cause
        })
    }

    /// How far a partition is flushed; `None` if it was dropped.
    pub(crate) fn flushed_through(&self, id: PartitionId) -> Option<SeqNo> {
        self.catalog
            .load()
            .partitions
            .get(&id)
            .map(|p| p.tree().flushed_through)
    }

    /// Lets go of log segments that nothing needs any more. What fails here was not asked for by
    /// anybody and is tried again behind the next flush; if it poisons, the next write says so.
    pub(crate) fn release_log(&self) {
        let Ok(writer) = self.writer() else { return };
        let published = SeqNo(self.publisher.published());
        let first_needed = writer
            .log
            .first_needed(published, |p| self.flushed_through(p));
        let mut manifest = lock(&writer.manifest);
        if manifest.log_start() >= first_needed {
            return;
        }
        let change = Change::LogStart {
            segment: first_needed,
        };
        if self.log_edit(writer, &mut manifest, vec![change]).is_ok() {
            writer.log.retire(first_needed);
            self.update_log_pressure(writer);
        }
    }

    /// Tells the throttle how long the log is; at twice its limit writers wait.
    pub(crate) fn update_log_pressure(&self, writer: &Writer) {
        let fill = writer.log.live_bytes() as f64 / (2 * writer.log_bytes_max) as f64;
        self.throttle.set(Pressure::Log, fill);
    }

    /// Removes the files of obsolete tables that nobody reads any more, and their cached pages.
    pub(crate) fn remove_obsolete(&self) {
        let obsolete = std::mem::take(&mut *lock(&self.tables.graveyard));
        for file in &obsolete {
            // What stays behind is removed when the database is opened again.
            let _ = self.environment.storage.remove(&file.path);
        }
        let bytes = obsolete.iter().map(|file| file.cached_bytes_max).sum();
        let tables = obsolete.iter().map(|file| file.id);
        self.memory.cache.forget(tables, bytes);
    }

    /// The bytes of a page for the user: copied when short, else the page is pinned.
    pub(crate) fn slice(&self, bytes: PageSlice) -> Slice {
        let pins = Slice::pins(&bytes);
        let slice = Slice::from_page(bytes, &self.memory.pinned);
        if pins {
            self.memory.note();
        }
        slice
    }
}

/// What was asked of a keyspace since the manifest was told; its trees are about of one size.
fn operations_to_note(partition: &Partition, version: &Version) -> Option<Change> {
    let facts = &partition.keyspace;
    let partitions = facts.layout.partitioning.count() as u64;
    let entries = version.entries().saturating_mul(partitions);
    let operations = facts.operations.note(entries)?;
    let id = facts.id;
    Some(Change::Operations { id, operations })
}

impl Writer {
    /// The numbers below which ids may have been used.
    pub(crate) fn counters(&self) -> Change {
        Change::Counters {
            next_table: self.next_table.load(Ordering::Relaxed),
            next_keyspace: self.next_keyspace.load(Ordering::Relaxed),
            next_partition: self.next_partition.load(Ordering::Relaxed),
        }
    }

    pub(crate) fn next_table(&self) -> TableId {
        TableId(self.next_table.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) fn commit(&self) -> MutexGuard<'_, CommitState> {
        lock(&self.commit)
    }

    pub(crate) fn manifest(&self) -> MutexGuard<'_, VersionSet> {
        lock(&self.manifest)
    }
}

/// The directory of log segments under the database's directory.
pub(crate) fn log_dir(root: &Path) -> PathBuf {
    root.join("log")
}

/// The data behind every mutex of the engine is whole between statements, so that a panic
/// elsewhere does not make it useless.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
