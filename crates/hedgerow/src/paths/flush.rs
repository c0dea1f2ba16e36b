//! The path of a flush: writes the oldest sealed memtable of a partition to tables of a new run in
//! level 0.
//!
//! Recovery relies on the order of steps. The memtable is complete: everything numbered below its
//! seal is published. Its tables, and the log up to its last record, are durable before the edit
//! that installs the tables is logged. So a crash keeps the edit only together with every commit
//! before the newest entry of the tables. Only then is the memtable dropped and the log released.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::base::entry::RunId;
use crate::base::entry::{PartitionId, SeqNo};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::runtime::{Pressure, Priority};
use crate::base::stats::{Event, OperationKind};
use crate::base::table_meta::TableMeta;
use crate::design::merge_policy::shape::RUNS_MAX;
use crate::design::merge_policy::tree_edit::{Placement, TreeEdit};
use crate::group_filter::probes::ahead;
use crate::paths::compaction;
use crate::paths::compaction::output::OutputTables;
use crate::paths::compaction::retain::Retain;
use crate::paths::self_tuning;
use crate::table::iter::InternalIter;
use crate::tree::engine::Engine;
use crate::tree::memtable::Memtable;
use crate::tree::partition::Partition;

/// Schedules flushes of the sealed memtables of a partition.
pub(crate) fn schedule(engine: &Arc<Engine>, partition: PartitionId) {
    let engine_ref = Arc::downgrade(engine);
    engine.scheduler.submit(Priority::Flush, move || {
        let Some(engine) = engine_ref.upgrade() else {
            return;
        };
        let partition = engine.catalog.load().partitions.get(&partition).cloned();
        if let Some(partition) = partition {
            flush_all(&engine, &partition);
        }
    });
}

/// Flushes the sealed memtables of a partition, oldest first. One thread per partition does so at a
/// time; another thread finds the flag set and leaves the work to the first.
///
/// Flushes nothing while level 0 has no room for another run. The merge that makes room schedules
/// this again when it ends.
fn flush_all(engine: &Arc<Engine>, partition: &Arc<Partition>) {
    loop {
        {
            let mut work = partition.work();
            if work.flushing || !may_flush(engine, partition) || engine.check_open().is_err() {
                return;
            }
            // Checked by the one thread that fills level 0: another may just have added the last
            // run that fits.
            work.flushing = !level0_is_full(partition);
            if !work.flushing {
                drop(work);
                compaction::schedule(engine, partition);
                return;
            }
        }
        let mut on_panic = OnPanic {
            partition,
            armed: true,
        };
        let result = flush_oldest(engine, partition);
        on_panic.armed = false;
        let failed = result.is_err();
        {
            let mut work = partition.work();
            work.flushing = false;
            work.flush_failure = result.err();
            if let Some(error) = &work.flush_failure
                && error.kind() != ErrorKind::Closed
            {
                engine.tell(Event::BackgroundError {
                    doing: "flush a memtable",
                    error: error.clone(),
                });
            }
        }
        engine.scheduler.notify_progress();
        if failed {
            return;
        }
        self_tuning::consider(engine, partition);
        compaction::schedule(engine, partition);
    }
}

/// Returns true if level 0 has as many runs as a group can have.
pub(crate) fn level0_is_full(partition: &Partition) -> bool {
    let tree = partition.tree();
    let level0 = tree.version.levels.first();
    level0.is_some_and(|level| level.groups.iter().any(|g| g.runs.len() >= RUNS_MAX))
}

/// Called when a merge of the partition has ended. Flushes that had no room in level 0 resume, or
/// fail with the error of the merge.
pub(crate) fn after_merge(engine: &Arc<Engine>, partition: &Partition, failure: Option<&Error>) {
    if partition.tree().sealed.is_empty() {
        return;
    }
    match failure {
        None => schedule(engine, partition.id),
        Some(error) if level0_is_full(partition) => {
            partition.work().flush_failure = Some(error.clone());
        }
        Some(_) => {}
    }
}

/// A panic, which would be a bug, must not keep later flushes from being tried.
struct OnPanic<'a> {
    partition: &'a Partition,
    armed: bool,
}

impl Drop for OnPanic<'_> {
    fn drop(&mut self) {
        if self.armed {
            let mut work = self.partition.work();
            work.flushing = false;
            work.flush_failure = Some(Error::new(ErrorKind::Io, "a flush panicked"));
        }
    }
}

/// Returns true if there is a sealed memtable that no checkpoint or bulk load holds back.
fn may_flush(engine: &Engine, partition: &Partition) -> bool {
    let tree = partition.tree();
    let oldest = tree.sealed.last().and_then(|m| m.sealed_at());
    oldest.is_some_and(|at| at.0 <= engine.flushes_held_at.load(Ordering::Acquire))
}

/// The failure of the last flush of any partition, if it failed.
pub(crate) fn failure(engine: &Engine) -> Option<Error> {
    let catalog = engine.catalog.load();
    catalog.partitions.values().find_map(|p| {
        let work = p.work();
        if work.flushing {
            None
        } else {
            work.flush_failure.clone()
        }
    })
}

/// Retries failed flushes.
pub(crate) fn retry(engine: &Arc<Engine>) {
    for partition in engine.catalog.load().partitions.values() {
        if partition.work().flush_failure.take().is_some() {
            schedule(engine, partition.id);
        }
    }
}

/// Holds back the flush of memtables sealed later than [`Engine::flushes_held_at`] until it is
/// dropped.
pub(crate) struct Held<'a>(pub(crate) &'a Arc<Engine>);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let engine = self.0;
        engine.flushes_held_at.store(u64::MAX, Ordering::Release);
        for partition in engine.catalog.load().partitions.values() {
            if !partition.tree().sealed.is_empty() {
                schedule(engine, partition.id);
            }
        }
    }
}

/// Waits until every write of these partitions with a number below `at` is in tables.
pub(crate) fn wait_for(
    engine: &Arc<Engine>,
    partitions: &[Arc<Partition>],
    at: SeqNo,
) -> Result<()> {
    retry(engine);
    for partition in partitions {
        let mut failure = None;
        let ended = engine.scheduler.wait_until(|| {
            failure = {
                let work = partition.work();
                if work.flushing {
                    None
                } else {
                    work.flush_failure.clone()
                }
            };
            failure.is_some()
                || !is_pending(partition, at)
                || partition.is_dropped()
                || engine.check_open().is_err()
        });
        // A cleared partition needs no flush any more.
        if partition.is_dropped() {
            continue;
        }
        if let Some(error) = failure {
            return Err(error);
        }
        engine.check_open()?;
        if !ended && is_pending(partition, at) {
            return Err(Error::new(ErrorKind::Io, "a flush was not carried out"));
        }
    }
    Ok(())
}

/// Flushes every write of these partitions with a number below `at`, on this thread. For a caller
/// that holds [`Engine::whole_trees`], because all threads of the pool may be waiting for that
/// lock.
///
/// # Errors
/// As [`wait_for`]; `Conflict` if level 0 has no room.
pub(crate) fn carry_out(
    engine: &Arc<Engine>,
    partitions: &[Arc<Partition>],
    at: SeqNo,
) -> Result<()> {
    for partition in partitions {
        partition.work().flush_failure = None;
        while is_pending(partition, at) && !partition.is_dropped() {
            flush_all(engine, partition);
            // Another thread may be flushing already.
            let is_over = || !partition.work().flushing || engine.check_open().is_err();
            engine.scheduler.wait_until(is_over);
            engine.check_open()?;
            let work = partition.work();
            if let Some(error) = &work.flush_failure {
                return Err(error.clone());
            }
            if is_pending(partition, at) && level0_is_full(partition) {
                let full =
                    "level 0 has as many runs as it can have; try again when they have been merged";
                let failure = work.merge_failure.clone();
                return Err(failure.unwrap_or_else(|| Error::new(ErrorKind::Conflict, full)));
            }
        }
    }
    Ok(())
}

/// Returns true if a partition has memtables sealed at or before `at`.
fn is_pending(partition: &Partition, at: SeqNo) -> bool {
    let tree = partition.tree();
    let mut sealed = tree.sealed.iter().filter_map(|it| it.sealed_at());
    sealed.any(|sealed| sealed <= at)
}

/// Flushes one memtable.
fn flush_oldest(engine: &Arc<Engine>, partition: &Arc<Partition>) -> Result<()> {
    let tree = partition.tree_owned();
    let Some(memtable) = tree.sealed.last() else {
        return Ok(());
    };
    // Sealed memtables take memory from the page cache, too.
    let _memory = engine.memory.merge();
    let began = engine.environment.clock.now();
    let sealed_at = memtable.sealed_at().expect("sealed memtables have a seal");
    let through = SeqNo(sealed_at.0 - 1);
    engine.publisher.wait(through.0);

    engine.writer()?.log.sync_through(memtable.log_end())?;
    let (entries, bytes) = to_tables(engine, partition, memtable, through)?;

    let sealed = &engine.memory.sealed;
    sealed.fetch_sub(memtable.reserved_bytes(), Ordering::Relaxed);
    if sealed.load(Ordering::Relaxed) == 0 {
        engine.throttle.set(Pressure::Memtables, 0.0);
    }
    engine.release_log();
    engine.tell(Event::Flushed {
        keyspace: partition.keyspace.name.clone(),
        partition: partition.index,
        entries,
        bytes,
        took: engine.environment.clock.now().saturating_sub(began),
    });
    Ok(())
}

/// Writes a sealed memtable to tables and replaces it by them. Returns their entries and bytes.
/// Everything up to `through` must be durable in the log.
fn to_tables(
    engine: &Engine,
    partition: &Partition,
    memtable: &Arc<Memtable>,
    through: SeqNo,
) -> Result<(u64, u64)> {
    let edit = edit_for(engine, partition, memtable, through)?;
    let written = edit.written();
    let tables = edit.added.iter().map(|(_, meta)| meta);
    let written_tables: Vec<_> = tables.cloned().collect();
    let replaced = memtable.entries().saturating_sub(written.0);
    partition
        .keyspace
        .operations
        .add(OperationKind::Replaced, replaced);
    let design = partition.keyspace.design_owned();
    let mut ahead = ahead::build(engine, partition, &design, &edit);
    let flushed = Some((memtable, through));
    let installed = engine.install_with(partition, edit, flushed, |it| ahead.put(it));
    if installed.is_err() {
        engine.remove_unnamed(&written_tables);
    }
    installed.map(|()| written)
}

/// Writes a sealed memtable to tables, and returns the edit that replaces it by them. Recovery does
/// this, too.
pub(crate) fn edit_for(
    engine: &Engine,
    partition: &Partition,
    memtable: &Arc<Memtable>,
    through: SeqNo,
) -> Result<TreeEdit> {
    let run = RunId(engine.writer()?.next_table().0);
    let tables = write_tables(engine, partition, memtable, run)?;
    let mut edit = TreeEdit::new(partition.id);
    let placement = Placement {
        level: 0,
        group: 0,
        run,
    };
    edit.added = tables.into_iter().map(|meta| (placement, meta)).collect();
    edit.flushed_through = Some(through);
    Ok(edit)
}

/// Writes the entries that a reader can still see.
fn write_tables(
    engine: &Engine,
    partition: &Partition,
    memtable: &Arc<Memtable>,
    run: RunId,
) -> Result<Vec<TableMeta>> {
    let snapshots = engine.snapshots.numbers();
    let design = partition.keyspace.design_owned();
    let mut output = OutputTables::new(engine, partition, design, 0, run);
    let mut retain = Retain::new(&snapshots);
    let mut key = Vec::new();
    let mut first = true;
    let mut iter = memtable.iter();
    iter.seek_first()?;
    while let Some(entry) = iter.entry() {
        let is_new = first || entry.key != key;
        if is_new {
            key.clear();
            key.extend_from_slice(entry.key);
            first = false;
        }
        // Tables may have older versions, so a tombstone stays.
        if retain.keep(is_new, entry.seqno, entry.tag, || false) {
            let crate::table::iter::ValueSource::Inline(value) = entry.value else {
                unreachable!("memtables hold their values")
            };
            output.add(&entry, value)?;
        }
        iter.advance()?;
    }
    output.finish()
}
