//! The state of an open database, which the paths use: its parts and their locks.
//!
//! Lock order: `whole_trees` → `manifest` → the list of snapshots → `commit` → a partition's `work`
//! → a partition's replacing lock → the log's own. Only the first may be held while waiting for a
//! flush, a merge, a sync of the log or a publication (invariant I17). Only `manifest` is held
//! during I/O: that of appending an edit.

mod catalog;
mod events;
mod handle;
mod install;
mod kept_files;
mod task;

pub(crate) use catalog::{Catalog, KeyspaceCell, KeyspaceState};
pub(crate) use events::Events;
pub(crate) use handle::{Handle, SnapshotGuard};
pub(crate) use kept_files::{kept_dir, kept_path};
pub(crate) use task::{Access, Answer, Task, Write};

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use arc_swap::ArcSwap;
use hedgerow_io::{Environment, FileLock};
use hedgerow_mem::Publisher;

use crate::base::entry::{EXPIRY_BYTES, KeyHash, PartitionId, SeqNo};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::expiry;
use crate::base::expiry::Expiry;
use crate::base::merge_operator::Operators;
use crate::base::page::{PageSlice, TableId};
use crate::base::runtime::{Pressure, Priority, RateLimiter, Scheduler, Throttle, Workers, lock};
use crate::base::slice::Slice;
use crate::base::stats::{Event, Stats, WorkerStats};
use crate::base::table_meta::TableMeta;
use crate::design::advisor::Device;
use crate::table::memory::Memory;
use crate::table::open::table_name;
use crate::table::{Table, TableContext};
use crate::tree::expiry_clock::ExpiryClock;
use crate::tree::partition::KeyspaceFacts;
use crate::tree::snapshot_list::{Held, SnapshotList};
use crate::tree::version::edit::Change;
use crate::tree::version::places::Places;
use crate::tree::version::{Version, VersionSet};
use crate::tree::wal::{Log, Tail};

/// The number of stripes of keys. Writes to one stripe count as conflicting for `update`, and are
/// looked at by transactions.
pub(crate) const STRIPES: usize = 4096;

/// The stripe in which a key's writes are counted.
pub(crate) fn stripe(hash: KeyHash) -> usize {
    hash.high() as usize % STRIPES
}

/// All parts of an open database.
pub(crate) struct Engine {
    pub(crate) dir: PathBuf,
    /// The places of its files beside `dir`.
    pub(crate) places: Places,
    pub(crate) environment: Environment,
    pub(crate) memory: Arc<Memory>,
    pub(crate) tables: Arc<TableContext>,
    pub(crate) stats: Arc<Stats>,
    pub(crate) scheduler: Scheduler,
    pub(crate) throttle: Throttle,
    pub(crate) rate_limiter: RateLimiter,
    pub(crate) events: Arc<Events>,
    /// The costs of reads and writes, for keyspaces that tune themselves.
    pub(crate) device: Device,
    pub(crate) operators: Operators,
    pub(crate) expiry: ExpiryClock,
    pub(crate) catalog: ArcSwap<Catalog>,
    /// Counts the changes after which a routed write must be routed again, twice each: it is odd
    /// during a change.
    pub(crate) routing_epoch: AtomicU64,
    /// The sequence number of the last of these changes.
    pub(crate) rerouted_at: AtomicU64,
    pub(crate) snapshots: SnapshotList,
    pub(crate) publisher: Publisher,
    /// `None` when the database was opened for reading only.
    pub(crate) writer: Option<Writer>,
    pub(crate) closed: AtomicBool,
    /// While a checkpoint is made or a bulk load installed at this number, memtables sealed at a
    /// later one are not flushed.
    pub(crate) flushes_held_at: AtomicU64,
    /// Held by each operation on whole trees: a checkpoint, the end of a bulk load, a clear, a
    /// drop.
    pub(crate) whole_trees: Mutex<()>,
    /// Trees whose blocks may be read into the page cache when there is time.
    pub(crate) to_warm: Mutex<BTreeSet<PartitionId>>,
    /// The workers of asynchronous calls; set when the database is open.
    pub(crate) workers: OnceLock<Workers<Task>>,
    /// The first error of a write without a future.
    pub(crate) lost_error: Mutex<Option<Error>>,
    /// The versions of trees without tables, by depth.
    pub(crate) empty_versions: Mutex<BTreeMap<usize, Arc<Version>>>,
}

/// The parts of a database that is opened for writing.
pub(crate) struct Writer {
    pub(crate) log: Log,
    pub(crate) log_bytes_max: u64,
    pub(crate) commit: Mutex<CommitState>,
    /// The number of the latest write to each stripe of keys; stored under the commit lock.
    pub(crate) stripes: Box<[AtomicU64]>,
    /// The number of the latest write to any key: a range delete or a bulk load; stored likewise.
    pub(crate) every_stripe: AtomicU64,
    pub(crate) manifest: Mutex<VersionSet>,
    pub(crate) next_table: AtomicU64,
    /// The first free table id when the database was opened.
    pub(crate) first_table: TableId,
    pub(crate) next_keyspace: AtomicU32,
    pub(crate) next_partition: AtomicU32,
    pub(crate) preparing_spares: AtomicBool,
    /// True while there are slots. Changed only under [`Engine::whole_trees`].
    pub(crate) has_slots: AtomicBool,
    pub(crate) locks: Mutex<Vec<Box<dyn FileLock>>>,
}

/// The state that the commit's short critical section guards.
#[derive(Debug)]
pub(crate) struct CommitState {
    pub(crate) next_seqno: SeqNo,
    pub(crate) tail: Tail,
}

impl Engine {
    /// The time that entries expire by, in milliseconds since 1970.
    pub(crate) fn time(&self) -> u64 {
        self.expiry.now(&*self.environment.clock)
    }

    /// The value of a stored put that may expire, and its time of expiry; `None` if it has expired
    /// at a time, or now.
    #[cold]
    pub(crate) fn unexpired(
        &self,
        stored: Slice,
        time: Option<u64>,
    ) -> Result<Option<(u64, Slice)>> {
        let now = time.unwrap_or_else(|| self.time());
        let at = expiry::unexpired(&stored, now)?.map(|(at, _)| at);
        Ok(at.map(|at| (at, stored.without_front(EXPIRY_BYTES))))
    }

    /// The time of an expiry of an entry that is to be written; `None` is never.
    pub(crate) fn time_of(&self, expiry: Expiry) -> Option<u64> {
        let at = expiry.time(|| self.time());
        if at.is_some() {
            self.expiry.note_use();
        }
        at
    }

    /// The facts about readers for a merge that begins now.
    pub(crate) fn held(&self) -> Held {
        self.snapshots.held(|| self.time())
    }

    /// The worker that makes the asynchronous calls for the keys of a partition.
    pub(crate) fn worker_of(&self, partition: usize) -> usize {
        partition % self.workers.get().map_or(1, |workers| workers.count())
    }

    /// A worker, its partitions and its queue; `None` while the database is being opened.
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

    /// The parts needed for writing. `Unsupported` when opened for reading only, `Closed` after
    /// `close`, `Poisoned` after a failed write of the log.
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

    /// The epoch for a routing that begins now. Waits while trees are replaced.
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

    /// Queues an event for the listener, which is called soon and under no lock: after this job of
    /// the pool or another.
    pub(crate) fn tell(&self, event: Event) {
        if self.events.put(event) {
            self.scheduler.submit(Priority::Log, || ());
        }
    }

    /// Queues the failure of a job for the listener. That a database was closed is none.
    pub(crate) fn tell_failure(&self, doing: &'static str, error: Error) {
        if error.kind() != ErrorKind::Closed {
            self.tell(Event::BackgroundError { doing, error });
        }
    }

    /// Replaces the catalog.
    pub(crate) fn set_catalog(&self, catalog: Catalog) {
        self.memory.set_trees(catalog.partitions.len());
        self.catalog.store(Arc::new(catalog));
    }

    /// The version of a tree without tables; trees of the same depth share it.
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

    /// The table object for a tree.
    pub(crate) fn table(&self, meta: &TableMeta, facts: &KeyspaceFacts) -> Arc<Table> {
        let residency = facts.design().design.residency;
        Table::new(
            meta.clone(),
            self.table_path(meta),
            residency,
            self.tables.clone(),
        )
    }

    /// Opens all tables. An open file stays readable when the writer removes it.
    pub(crate) fn hold_tables(&self) -> Result<()> {
        for partition in self.catalog.load().partitions.values() {
            for (_, table) in partition.tree().version.tables() {
                table.reader()?;
            }
        }
        Ok(())
    }

    /// The number up to which a partition is flushed; `None` if it was dropped.
    pub(crate) fn flushed_through(&self, id: PartitionId) -> Option<SeqNo> {
        self.catalog
            .load()
            .partitions
            .get(&id)
            .map(|p| p.tree().flushed_through)
    }

    /// Releases log segments that are no longer needed. A failure here concerns no caller, and the
    /// next flush tries again; if it poisons, the next write reports it.
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
            let feed = &manifest.state().feed;
            let kept = if feed.is_on() { feed.segment } else { u32::MAX };
            writer.log.retire(first_needed, kept);
            self.update_log_pressure(writer);
            self.release_kept(writer, &mut manifest);
        }
    }

    /// Reports the length of the log to the throttle. Writers wait at twice its limit.
    pub(crate) fn update_log_pressure(&self, writer: &Writer) {
        let fill = writer.log.live_bytes() as f64 / (2 * writer.log_bytes_max) as f64;
        self.throttle.set(Pressure::Log, fill);
    }

    /// Removes the files of obsolete tables without readers, and their cached pages. Waits for
    /// another thread that does so.
    pub(crate) fn remove_obsolete(&self) {
        let _one_at_a_time = lock(&self.tables.removing);
        let obsolete = std::mem::take(&mut *lock(&self.tables.graveyard));
        for file in &obsolete {
            // A file that stays behind is removed when the database is opened again.
            let _ = self.environment.storage.remove(&file.path);
        }
        let bytes = obsolete.iter().map(|file| file.cached_bytes_max).sum();
        let tables = obsolete.iter().map(|file| file.id);
        self.memory.cache.forget(tables, bytes);
    }

    /// The bytes of a page for the user: copied when short; otherwise the page is pinned.
    pub(crate) fn slice(&self, bytes: PageSlice) -> Slice {
        let pins = Slice::pins(&bytes);
        let slice = Slice::from_page(bytes, &self.memory.pinned);
        if pins {
            self.memory.note();
        }
        slice
    }
}

impl Writer {
    /// The number of the latest write that may be one to a key of this stripe.
    pub(crate) fn latest_write(&self, stripe: usize) -> SeqNo {
        let of_all = self.every_stripe.load(Ordering::Acquire);
        SeqNo(self.stripes[stripe].load(Ordering::Acquire).max(of_all))
    }

    /// The change that records the next free ids.
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
