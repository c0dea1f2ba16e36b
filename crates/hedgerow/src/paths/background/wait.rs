//! Waits for background jobs. A waiter first has what failed tried again, so that it gets the error
//! of its own try.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{flush_all, settle, spawn_flush};
use crate::base::entry::SeqNo;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::runtime::Pressure;
use crate::paths::compaction;
use crate::paths::group_filters;
use crate::tree::engine::Engine;
use crate::tree::partition::{Partition, Work};

/// Waits for a flush, because all memory of the memtables is in use. The active memtables alone may
/// have more than that after a batch over many trees. Then there is no flush to wait for, and the
/// next writes seal them.
///
/// # Errors
/// That of a flush that failed, whichever keyspace it was of: the error names it.
#[cold]
pub(crate) fn for_memory(engine: &Arc<Engine>) -> Result<()> {
    let began = engine.environment.clock.now();
    let is_full = || engine.memory.memtables_fill() >= 1.0;
    let mut failure = None;
    retry_flushes(engine);
    engine.scheduler.wait_until(|| {
        let catalog = engine.catalog.load();
        let mut partitions = catalog.partitions.values();
        failure = partitions.find_map(|it| {
            let failure = flush_failure(it)?;
            Some(failure.about(it.keyspace.name()))
        });
        let has_sealed = engine.memory.sealed.load(Ordering::Relaxed) != 0;
        failure.is_some() || !is_full() || !has_sealed || engine.check_open().is_err()
    });
    let waited = engine.environment.clock.now().saturating_sub(began);
    engine.throttle.count(Pressure::Memtables, waited);
    match failure {
        Some(error) if is_full() => Err(error),
        _ => Ok(()),
    }
}

/// The failure of the last flush of a tree, unless it is being tried again.
fn flush_failure(partition: &Partition) -> Option<Error> {
    let work = partition.work();
    let failure = work.flush_failure.as_ref();
    failure.filter(|_| !work.flushing).cloned()
}

fn retry_flushes(engine: &Arc<Engine>) {
    for partition in engine.catalog.load().partitions.values() {
        if partition.work().flush_failure.take().is_some() {
            spawn_flush(engine, partition);
        }
    }
}

/// Waits until every write of these partitions with a number below `at` is in tables.
pub(crate) fn for_flushes(
    engine: &Arc<Engine>,
    partitions: &[Arc<Partition>],
    at: SeqNo,
) -> Result<()> {
    retry_flushes(engine);
    for partition in partitions {
        let mut failure = None;
        let ended = engine.scheduler.wait_until(|| {
            failure = flush_failure(partition);
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
/// that holds `Writer::whole_trees`, because all threads of the pool may be waiting for that
/// lock.
///
/// # Errors
/// As [`for_flushes`]; `Conflict` if level 0 has no room.
pub(crate) fn flush_here(
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
            if is_pending(partition, at) && partition.tree().version.level0_is_full() {
                let failure = work.merge_failure.clone();
                return Err(failure.unwrap_or_else(compaction::level0_full));
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

/// Waits until level 0 of these trees has few enough runs that writers are not delayed for it.
pub(crate) fn for_room(engine: &Arc<Engine>, partitions: &[Arc<Partition>]) -> Result<()> {
    for partition in partitions {
        let has_room = || compaction::has_room(partition) || partition.is_dropped();
        if has_room() {
            continue;
        }
        partition.work().merge_failure = None;
        settle(engine, partition);
        let mut failure = None;
        engine.scheduler.wait_until(|| {
            failure = partition.work().merge_failure.clone();
            failure.is_some() || has_room() || engine.check_open().is_err()
        });
        if let Some(error) = failure.filter(|_| !has_room()) {
            return Err(error);
        }
    }
    engine.check_open()
}

fn is_idle(work: &Work) -> bool {
    work.running.is_empty() && !work.probing && !work.folding
}

/// Waits until none of these trees needs a merge or a filter, and the files are removed that no
/// reader holds: for tests and tools.
pub(crate) fn until_idle(engine: &Arc<Engine>, partitions: &[Arc<Partition>]) -> Result<()> {
    for partition in partitions {
        partition.work().merge_failure = None;
        loop {
            settle(engine, partition);
            engine.check_open()?;
            let mut failure = None;
            engine.scheduler.wait_until(|| {
                let work = partition.work();
                failure = work.merge_failure.clone();
                is_idle(&work) || engine.check_open().is_err()
            });
            if let Some(error) = failure {
                return Err(error);
            }
            // Between the end of a job and the beginning of the next nothing runs, either.
            let work = partition.work();
            if is_idle(&work)
                && compaction::next(engine, partition, &work).is_none()
                && group_filters::next(engine, partition).is_none()
            {
                break;
            }
        }
        // The thread of the last job may not have done the rest.
        compaction::end_retune(engine, partition);
        engine.scheduler.wait_until(|| {
            partition.jobs.load(Ordering::Acquire) == 0 || engine.check_open().is_err()
        });
    }
    engine.remove_obsolete();
    engine.check_open()
}
