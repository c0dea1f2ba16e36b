//! The state of an open database, which the paths use: its parts and their locks.
//!
//! Lock order: `whole_trees` → `manifest` → the list of snapshots → `commit` → a partition's `work`
//! → a partition's replacing lock → the log's own. Only the first may be held while waiting for a
//! flush, a merge, a sync of the log or a publication (invariant I17). Only `manifest` is held
//! during I/O: that of appending an edit.

mod catalog;
mod directories;
mod events;
mod handle;
mod install;
mod kept_files;
mod task;
mod write_state;

pub(crate) use catalog::{Catalog, CurrentCatalog, KeyspaceCell, KeyspaceState};
pub(crate) use directories::{Directories, log_dir};
pub(crate) use events::Events;
pub(crate) use handle::{Handle, SnapshotGuard};
pub(crate) use kept_files::{kept_dir, kept_path};
pub(crate) use task::{Access, Answer, Asynchronous, Task, Write};
pub(crate) use write_state::{CommitState, Ids, Stripes, WholeTrees, Writer, stripe};

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hedgerow_io::Environment;
use hedgerow_mem::Publisher;

use crate::base::entry::{EXPIRY_BYTES, LogPosition, SeqNo};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::expiry;
use crate::base::expiry::Expiry;
use crate::base::merge_operator::Operators;
use crate::base::mutex::lock;
use crate::base::runtime::{Pressure, Priority, Scheduler, Throttle};
use crate::base::slice::Slice;
use crate::base::stats::{Event, Job, Stats};
use crate::base::table_meta::TableMeta;
use crate::table::memory::Memory;
use crate::table::{Table, TableContext};
use crate::tree::expiry_clock::ExpiryClock;
use crate::tree::partition::KeyspaceFacts;
use crate::tree::snapshot_list::{SnapshotFacts, SnapshotList};
use crate::tree::version::edit::Change;

/// All parts of an open database.
pub(crate) struct Engine {
    pub(crate) directories: Directories,
    pub(crate) environment: Environment,
    pub(crate) memory: Arc<Memory>,
    pub(crate) tables: Arc<TableContext>,
    pub(crate) stats: Arc<Stats>,
    pub(crate) scheduler: Scheduler,
    pub(crate) throttle: Throttle,
    pub(crate) events: Arc<Events>,
    pub(crate) operators: Operators,
    pub(crate) expiry: ExpiryClock,
    pub(crate) catalog: CurrentCatalog,
    pub(crate) snapshots: SnapshotList,
    pub(crate) publisher: Publisher,
    /// `None` when the database was opened for reading only.
    pub(crate) writer: Option<Writer>,
    pub(crate) asynchronous: Asynchronous,
    pub(crate) closed: AtomicBool,
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

    /// The smallest number at which somebody reads ([`SnapshotList::oldest_read`]).
    pub(crate) fn oldest_read(&self) -> SeqNo {
        self.snapshots.oldest_read(&self.publisher)
    }

    /// The facts about readers for a merge that begins now.
    pub(crate) fn held(&self) -> SnapshotFacts {
        self.snapshots.held(|| self.time())
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
        self.catalog.epoch(&self.publisher)
    }

    /// Waits until a flush or a merge may write this many bytes more.
    ///
    /// # Errors
    /// `Closed` if the database is closed.
    pub(crate) fn pace(&self, bytes: u64) -> Result<()> {
        if let Some(writer) = &self.writer {
            writer.rate_limiter.take(bytes);
        }
        self.check_open()
    }

    /// Queues an event for the listener, which is called soon and under no lock: after this job of
    /// the pool or another.
    pub(crate) fn report(&self, event: Event) {
        if self.events.put(event) {
            self.scheduler.submit(Priority::Log, || ());
        }
    }

    /// Queues the failure of a job for the listener. That a database was closed is none.
    pub(crate) fn report_failure(&self, job: Job, error: Error) {
        if error.kind() != ErrorKind::Closed {
            let doing = job.words();
            self.report(Event::BackgroundError { doing, error });
        }
    }

    /// Replaces the catalog.
    pub(crate) fn set_catalog(&self, catalog: Catalog) {
        self.memory.set_trees(catalog.partitions.len());
        self.catalog.store(catalog);
    }

    /// The table object for a tree.
    pub(crate) fn table(&self, meta: &TableMeta, facts: &KeyspaceFacts) -> Arc<Table> {
        let residency = facts.design().design.residency;
        Table::new(
            meta.clone(),
            self.directories.table(meta),
            residency,
            self.tables.clone(),
        )
    }

    /// Releases log segments that are no longer needed. A failure here concerns no caller, and the
    /// next flush tries again; if it poisons, the next write reports it.
    pub(crate) fn release_log(&self) {
        let Ok(writer) = self.writer() else { return };
        let published = SeqNo(self.publisher.published());
        let first_needed = writer
            .log
            .first_needed(published, |p| self.catalog.load().flushed_through(p));
        let end = LogPosition {
            segment: first_needed,
            offset: 0,
        };
        let mut manifest = lock(&writer.manifest);
        // The change feed reads these segments to their end. A flush syncs only as far as its
        // entries go, not the seal behind them.
        if manifest.state().feed.is_on() && writer.log.durable() < end {
            drop(manifest);
            if writer.log.sync_through(end).is_err() {
                return;
            }
            manifest = lock(&writer.manifest);
        }
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

    /// Subtracts sealed memtables that are gone. With the last of them, writers are not delayed for
    /// memtables any more.
    pub(crate) fn unseal(&self, bytes: u64) {
        if self.memory.sealed.fetch_sub(bytes, Ordering::Relaxed) == bytes {
            self.throttle.set(Pressure::Memtables, 0.0);
        }
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
}
