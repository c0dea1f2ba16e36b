//! Background work: the one place that decides which job a tree gets next, and hands jobs to the
//! pool.
//!
//! The other paths say what is due and how one job is carried out: [`flush`], [`compaction`],
//! [`paid`], [`warming`], [`group_filters`], [`self_tuning`]. They start nothing. A job returns
//! its outcome to this file, which records it and then decides:
//!
//! * A sealed memtable is flushed ([`spawn_flush`]). A flush that finds level 0 full leaves the
//!   memtable to the merge that makes room.
//! * After a flush, a merge, a retune and a compaction of a range, and when tables were loaded or
//!   the database was opened, [`settle`] begins what the tree needs: merges, then filters, then
//!   filling the page cache.
//! * After a merge, flushes that had no room resume.
//! * A job that failed is not repeated at once. The next flush of the tree does so, or the next
//!   caller that waits ([`wait`]).
//!
//! A tree has one record of the failure of flushes and another one of merges and filters. A flush
//! does not need merges, so its waiters are not told of a failed merge. Only while level 0 is full
//! they are: then the failure of the merge is that of the flush, too.
//!
//! All of it may be called from any thread. [`spawn_flush`] is called inside of the commit's
//! critical section, too, so it only submits a job.

pub(crate) mod wait;

use std::ops::{Bound, Range};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::base::entry::SeqNo;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::options::Design;
use crate::base::runtime::{Priority, Scheduler};
use crate::base::stats::Job;
use crate::design::merge_policy::plan::RunningJob;
use crate::design::planner::Manual;
use crate::paths::compaction;
use crate::paths::compaction::paid::Payer;
use crate::paths::compaction::{MergeJob, MergeStep, paid, warming};
use crate::paths::flush;
use crate::paths::group_filters;
use crate::paths::retune;
use crate::paths::self_tuning;
use crate::tree::engine::{Engine, KeyspaceCell, KeyspaceState, Writer};
use crate::tree::partition::Partition;

// ---- jobs ----

/// Hands a job to the pool that nobody waits for. Only a panic makes it fail.
pub(crate) fn spawn_upkeep(
    engine: &Arc<Engine>,
    priority: Priority,
    job: Job,
    carry_out: impl FnOnce(&Engine) + Send + 'static,
) {
    spawn(engine, priority, move |engine| {
        let carry_out = || {
            carry_out(engine);
            Ok(())
        };
        let _ = run(engine, job, carry_out, |_| ());
    });
}

/// Hands a job to the pool. A queued job does not keep the database open.
fn spawn(
    engine: &Arc<Engine>,
    priority: Priority,
    job: impl FnOnce(&Arc<Engine>) + Send + 'static,
) {
    let engine_ref = Arc::downgrade(engine);
    engine.scheduler.submit(priority, move || {
        if let Some(engine) = engine_ref.upgrade() {
            job(&engine);
        }
    });
}

/// Hands a job of a tree to the pool. A queued job does not keep the files of a dropped tree.
fn spawn_for(
    engine: &Arc<Engine>,
    partition: &Arc<Partition>,
    priority: Priority,
    job: impl FnOnce(&Arc<Engine>, &Arc<Partition>) + Send + 'static,
) {
    let partition_ref = Arc::downgrade(partition);
    spawn(engine, priority, move |engine| {
        let Some(partition) = partition_ref.upgrade() else {
            return;
        };
        let _busy =
            (priority != Priority::Warm).then(|| Busy::begin(&engine.scheduler, &partition));
        job(engine, &partition);
        // Last, and not on a thread that writers may be waiting for: a file system that tells the
        // device of free blocks may take half a second.
        if priority > Priority::Flush {
            engine.remove_obsolete();
        }
    });
}

/// Counts a job of a tree until the job has let go of all tables that it made obsolete.
struct Busy<'a> {
    scheduler: &'a Scheduler,
    partition: &'a Partition,
}

impl<'a> Busy<'a> {
    fn begin(scheduler: &'a Scheduler, partition: &'a Partition) -> Busy<'a> {
        partition.jobs.fetch_add(1, Ordering::Relaxed);
        Busy {
            scheduler,
            partition,
        }
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.partition.jobs.fetch_sub(1, Ordering::Release);
        self.scheduler.notify_progress();
    }
}

/// Runs a job on this thread. `end` records that the job is over, and its failure. A panic, which
/// would be a bug, is a failure like any other, so that the tree is busy no longer.
fn run<T>(
    engine: &Engine,
    job: Job,
    carry_out: impl FnOnce() -> Result<T>,
    end: impl FnOnce(Option<Error>),
) -> Result<T> {
    let result = catch_unwind(AssertUnwindSafe(carry_out));
    let panicked = || Error::new(ErrorKind::Io, format!("panicked: {}", job.words()));
    let failure = match &result {
        Ok(result) => result.as_ref().err().cloned(),
        Err(_) => Some(panicked()),
    };
    if let Some(error) = &failure {
        engine.report_failure(job, error.clone());
    }
    end(failure);
    engine.scheduler.notify_progress();
    result.unwrap_or_else(|panic| resume_unwind(panic))
}

// ---- flushes ----

/// Has the sealed memtables of a tree flushed.
pub(crate) fn spawn_flush(engine: &Arc<Engine>, partition: &Arc<Partition>) {
    spawn_for(engine, partition, Priority::Flush, flush_all);
}

/// Has a tree flushed if it has sealed memtables.
fn resume_flushes(engine: &Arc<Engine>, partition: &Arc<Partition>) {
    if !partition.tree().sealed.is_empty() {
        spawn_flush(engine, partition);
    }
}

/// Flushes the sealed memtables of a tree, oldest first. One thread per tree does so at a time;
/// another thread leaves the work to the first.
fn flush_all(engine: &Arc<Engine>, partition: &Arc<Partition>) {
    while begin_flush(engine, partition) {
        let flush = || flush::flush_oldest(engine, partition);
        let flushed = run(engine, Job::Flush, flush, |failure| {
            let mut work = partition.work();
            work.flushing = false;
            work.flush_failure = failure;
        });
        if flushed.is_err() {
            return;
        }
        tune_and_settle(engine, partition);
    }
}

/// Returns true if the caller is to flush the oldest memtable of a tree. Begins merges if level 0
/// has no room for another run: the merge that makes room resumes flushes when it ends.
fn begin_flush(engine: &Arc<Engine>, partition: &Arc<Partition>) -> bool {
    {
        let mut work = partition.work();
        let is_due = |writer| flush::is_due(writer, partition);
        let is_due = engine.check_open().is_ok() && engine.writer.as_ref().is_some_and(is_due);
        if work.flushing || !is_due {
            return false;
        }
        // Checked by the one thread that fills level 0: another may just have added the last run
        // that fits.
        work.flushing = !partition.tree().version.level0_is_full();
        if work.flushing {
            return true;
        }
    }
    settle(engine, partition);
    false
}

/// Releases the flushes that an operation on whole trees holds back when it is dropped.
pub(crate) struct HeldFlushes<'a>(pub(crate) &'a Arc<Engine>);

impl Drop for HeldFlushes<'_> {
    fn drop(&mut self) {
        if let Some(writer) = &self.0.writer {
            writer.whole_trees.release_flushes();
        }
        for partition in self.0.catalog.load().partitions.values() {
            resume_flushes(self.0, partition);
        }
    }
}

// ---- what a tree needs ----

/// Begins the jobs that a tree needs and that the pool has room for. Called when the shape of the
/// tree, its design or its running jobs have changed.
pub(crate) fn settle(engine: &Arc<Engine>, partition: &Arc<Partition>) {
    begin_merges(engine, partition);
    begin_filters(engine, partition);
    compaction::end_retune(engine, partition);
    compaction::update_pressure(&engine.throttle, &engine.scheduler, partition);
    for partition in warming::begin(engine, partition) {
        spawn_for(engine, &partition, Priority::Warm, warm);
    }
}

fn begin_merges(engine: &Arc<Engine>, partition: &Arc<Partition>) {
    while engine.check_open().is_ok()
        && !partition.is_dropped()
        && let Some(merge) = compaction::begin(engine, partition)
    {
        if merge.running.is_some() {
            spawn_merge(engine, partition, merge);
            continue;
        }
        let edit = || merge.run(engine, partition);
        let edited = run(engine, Job::BeginMerge, edit, |failure| {
            if failure.is_some() {
                partition.work().merge_failure = failure;
            }
        });
        if edited.is_err() {
            return;
        }
    }
}

/// Hands a merge that is among the running ones to the pool.
fn spawn_merge(engine: &Arc<Engine>, partition: &Arc<Partition>, merge: MergeJob) {
    let priority = merge.priority();
    spawn_for(engine, partition, priority, move |engine, partition| {
        if carry_out(engine, partition, &merge).is_ok() {
            settle(engine, partition);
        }
    });
}

/// Carries out a step of a compaction on this thread: a merge that is among the running ones, or an
/// edit of the manifest. Returns the bytes of the input tables.
pub(crate) fn carry_out_step(
    engine: &Arc<Engine>,
    partition: &Arc<Partition>,
    merge: &MergeJob,
) -> Result<u64> {
    match merge.running {
        Some(_) => carry_out(engine, partition, merge),
        None => merge.run(engine, partition),
    }
}

/// Carries out a merge that is among the running ones, on this thread, and removes it from them.
/// Returns the bytes of the input tables.
fn carry_out(engine: &Arc<Engine>, partition: &Arc<Partition>, merge: &MergeJob) -> Result<u64> {
    let job = || merge.run(engine, partition);
    run(engine, Job::Merge, job, |failure| {
        let has_failed = failure.is_some();
        {
            let mut work = partition.work();
            let is_other = |job: &RunningJob| Some(job) != merge.running.as_ref();
            work.running.retain(is_other);
            // Flushes without room in level 0 wait for this merge.
            let tree = partition.tree();
            if has_failed && !tree.sealed.is_empty() && tree.version.level0_is_full() {
                work.flush_failure.clone_from(&failure);
            }
            work.merge_failure = failure;
        }
        compaction::update_pressure(&engine.throttle, &engine.scheduler, partition);
        if !has_failed {
            resume_flushes(engine, partition);
        }
    })
}

/// Begins what some reads of a keyspace have paid for: merges, and memory for what they
/// read. Called once in [`paid::LOOK_EVERY`] reads.
#[cold]
pub(crate) fn serve_reads(
    engine: &Arc<Engine>,
    state: &KeyspaceState,
    payer: Payer,
    asked: Range<usize>,
) {
    for (partition, merge) in paid::begin_paid(engine, state, payer, asked) {
        spawn_merge(engine, partition, merge);
    }
    if engine.memory.cache.take_shortage() {
        spawn_upkeep(engine, Priority::Warm, Job::PrepareMemory, |engine| {
            engine.memory.cache.prepare_slab();
        });
    }
}

/// Has the versions of a key merged down to the deepest level, unless the same is done for another
/// key of the tree: a get met many operands.
#[cold]
pub(crate) fn fold_operands(engine: &Arc<Engine>, partition: &Arc<Partition>, order_key: &[u8]) {
    let Ok(writer) = engine.writer() else { return };
    if std::mem::replace(&mut partition.work().folding, true) {
        return;
    }
    let at = || Bound::Included(order_key.to_vec());
    let mut manual = Manual::new(at(), at(), writer.ids.next_table());
    spawn_for(
        engine,
        partition,
        Priority::Merge,
        move |engine, partition| {
            let fold = || {
                // A merge in the way ends it: the next get of such a key begins another. So does a
                // failure, which the merge has told of.
                while let MergeStep::Run(merge) =
                    compaction::step(engine.oldest_read(), partition, &mut manual)
                    && carry_out_step(engine, partition, &merge).is_ok()
                {}
                Ok(())
            };
            let end = |_| partition.work().folding = false;
            let _ = run(engine, Job::FoldOperands, fold, end);
            settle(engine, partition);
        },
    );
}

/// Has the filters built that a tree lacks, unless a job does so already.
fn begin_filters(engine: &Arc<Engine>, partition: &Arc<Partition>) {
    {
        let mut work = partition.work();
        if work.probing || group_filters::next(engine, partition).is_none() {
            return;
        }
        work.probing = true;
    }
    spawn_for(engine, partition, Priority::MergeTop, build_filters);
}

fn build_filters(engine: &Arc<Engine>, partition: &Arc<Partition>) {
    let build = || build_lacking_filters(engine, partition);
    let _ = run(engine, Job::BuildFilter, build, |failure| {
        if failure.is_some() {
            let mut work = partition.work();
            work.probing = false;
            work.merge_failure = failure;
        }
    });
}

fn build_lacking_filters(engine: &Engine, partition: &Partition) -> Result<()> {
    loop {
        let step = {
            let mut work = partition.work();
            let step = group_filters::next(engine, partition);
            // If nothing is lacking, the next change of the tree starts a new job.
            work.probing = step.is_some();
            step
        };
        let Some(step) = step else { return Ok(()) };
        group_filters::carry_out(engine, partition, step)?;
    }
}

fn warm(engine: &Arc<Engine>, partition: &Arc<Partition>) {
    let fill = || {
        warming::fill(engine, partition);
        Ok(())
    };
    let _ = run(engine, Job::FillCache, fill, |failure| {
        if failure.is_some() {
            partition.work().warming = false;
        }
    });
}

// ---- designs ----

/// Puts a design in force, and begins to bring the trees to its shape. Does nothing if it is in
/// force already.
pub(crate) fn retune(engine: &Arc<Engine>, cell: &KeyspaceCell, design: Design) -> Result<()> {
    if retune::put_in_force(engine, cell, design)? {
        for partition in &cell.state.load().partitions {
            settle(engine, partition);
        }
        // Before the caller continues.
        engine.events.deliver();
    }
    Ok(())
}

/// Retunes the keyspace of a tree if it tunes itself, it is its turn and the new design pays. Then
/// settles the tree.
pub(crate) fn tune_and_settle(engine: &Arc<Engine>, partition: &Arc<Partition>) {
    let adopt = || match self_tuning::adopted(engine, partition)? {
        Some((cell, design)) => retune(engine, &cell, design),
        None => Ok(()),
    };
    let _ = run(engine, Job::AdoptDesign, adopt, |_| {
        settle(engine, partition);
    });
}

// ---- the log ----

/// Has the next segments of the log prepared, unless a job does so already.
pub(crate) fn prepare_spares(engine: &Arc<Engine>, writer: &Writer, next: SeqNo) {
    if writer.preparing_spares.swap(true, Ordering::AcqRel) {
        return;
    }
    spawn(engine, Priority::Log, move |engine| {
        let Ok(writer) = engine.writer() else { return };
        let prepare = || {
            // A failure shows when a commit needs the segment and prepares it itself.
            let _ = writer.log.prepare_spares(next);
            Ok(())
        };
        let end = |_| writer.preparing_spares.store(false, Ordering::Release);
        let _ = run(engine, Job::PrepareSegment, prepare, end);
    });
}

#[cfg(test)]
mod tests;
