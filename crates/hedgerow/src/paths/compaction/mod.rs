//! Compaction: merging tables into deeper levels, in the background.
//!
//! The decisions are pure: [`planner`](crate::design::planner) selects the tables to merge,
//! [`retain`] the entries to keep, [`output`] the places to cut the result. [`job`] carries out one
//! plan. This file requests plans whenever a flush or a job has ended, and when a user asks for a
//! compaction.

pub(crate) mod filters;
pub(crate) mod job;
pub(crate) mod output;
pub(crate) mod retain;
pub(crate) mod seeks;
mod warming;

use std::ops::Bound;
use std::sync::Arc;

use crate::base::entry::SeqNo;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::page::TableId;
use crate::base::runtime::{Pressure, Priority};
use crate::base::stats::Event;
use crate::base::table_meta::TableMeta;
use crate::design::in_force::DesignInForce;
use crate::design::merge_policy::plan::{Plan, RunningJob, Target};
use crate::design::merge_policy::{SLICE_TABLES, Targets};
use crate::paths::flush;
use crate::tree::engine::Engine;
use crate::tree::partition::{Partition, Work};
use crate::tree::version::{SuperVersion, Version};

use crate::design::planner::{
    Debt, Manual, ManualStep, PlanLimits, debt, fills, fit_depth, place, plan, plan_level0,
    runs_limit,
};
use crate::group_filter::probes;

fn limits(engine: &Engine, design: &DesignInForce) -> PlanLimits {
    let oldest = engine.snapshots.numbers().first().copied();
    PlanLimits {
        merge_bytes_max: design.table_bytes * SLICE_TABLES,
        oldest_snapshot: oldest.unwrap_or(SeqNo(engine.publisher.published())),
    }
}

/// Begins as many jobs of a tree as it needs and the pool has room for. Called when its shape or
/// its running jobs have changed.
pub(crate) fn schedule(engine: &Arc<Engine>, partition: &Arc<Partition>) {
    while engine.check_open().is_ok() && !partition.is_dropped() {
        let Some(Next { design, plan, job }) = begin(engine, partition) else {
            break;
        };
        if let Some(job) = job {
            submit(engine, partition, design, plan, job);
        } else if let Err(error) = job::run(engine, partition, &design, &plan) {
            partition.work().merge_failure = Some(error.clone());
            engine.tell(Event::BackgroundError {
                doing: "begin a merge",
                error,
            });
            break;
        }
    }
    probes::schedule(engine, partition);
    end_retune(engine, partition);
    update_pressure(engine, partition);
    warming::schedule(engine, partition);
}

/// Submits a plan of a tree to the pool. Its job is among the running ones.
fn submit(
    engine: &Arc<Engine>,
    partition: &Arc<Partition>,
    design: Arc<DesignInForce>,
    plan: Plan,
    job: RunningJob,
) {
    let priority = if job.top == 0 {
        Priority::MergeTop
    } else {
        Priority::Merge
    };
    let (engine_ref, partition) = (Arc::downgrade(engine), partition.clone());
    engine.scheduler.submit(priority, move || {
        let Some(engine) = engine_ref.upgrade() else {
            return;
        };
        if run(&engine, &partition, &design, &plan, &job).is_ok() {
            schedule(&engine, &partition);
        }
        // Last, since a file system that tells the device of free blocks may take half a second.
        engine.remove_obsolete();
    });
}

/// Carries out a plan whose job is among the running ones, and removes the job from them. Returns
/// the bytes of the input tables.
fn run(
    engine: &Arc<Engine>,
    partition: &Arc<Partition>,
    design: &Arc<DesignInForce>,
    plan: &Plan,
    job: &RunningJob,
) -> Result<u64> {
    let mut on_panic = OnPanic {
        partition,
        job,
        armed: true,
    };
    let result = job::run(engine, partition, design, plan);
    on_panic.armed = false;
    drop(on_panic);
    end(engine, partition, job, result.as_ref().err());
    result
}

/// A plan, and the design for which it was made and with which it is carried out.
struct Next {
    design: Arc<DesignInForce>,
    plan: Plan,
    /// `None` for a plan that only edits the manifest.
    job: Option<RunningJob>,
}

/// Plans the next job and enters it among the running ones.
fn begin(engine: &Engine, partition: &Partition) -> Option<Next> {
    let mut work = partition.work();
    if work.running.len() >= engine.scheduler.merge_threads() {
        return None;
    }
    let next = next(engine, partition, &work)?;
    work.running.extend(next.job.clone());
    Some(next)
}

/// The next plan of a tree. Levels change their numbers only while no job refers to them. While a
/// shift waits for that, only merges out of level 0 begin, and only beside other jobs, so that the
/// wait ends.
fn next(engine: &Engine, partition: &Partition, work: &Work) -> Option<Next> {
    let design = partition.keyspace.design_owned();
    let tree = partition.tree();
    let version = &tree.version;
    let (targets, limits) = (design.targets(version), limits(engine, &design));
    let plan = match shift_first(&design, version, &targets, work) {
        None => plan(version, &targets, &work.running, &limits)?.0,
        Some(ManualStep::Run(shift)) => shift,
        Some(_) if work.running.iter().all(|job| job.top == 0) => return None,
        Some(_) => plan_level0(version, &targets, &work.running, &limits)?,
    };
    let job = RunningJob::of(version, &plan);
    Some(Next { design, plan, job })
}

/// The shift of level numbers, or the wait for it, if the tree does not have the depth of the
/// design. Levels are removed only while nothing runs.
fn shift_first(
    design: &DesignInForce,
    version: &Version,
    targets: &Targets,
    work: &Work,
) -> Option<ManualStep> {
    let shift = fit_depth(version, targets, design.policy.depth())?;
    if work.running.is_empty() {
        return Some(ManualStep::Run(shift));
    }
    (version.depth() < design.policy.depth()).then_some(ManualStep::Wait)
}

/// Reports the end of a retune, when a tree has reached the shape of its new design.
fn end_retune(engine: &Engine, partition: &Partition) {
    let began = {
        let mut work = partition.work();
        let idle = work.running.is_empty();
        if work.retuned_at.is_none() || !idle || next(engine, partition, &work).is_some() {
            return;
        }
        work.retuned_at.take()
    };
    if let Some(began) = began {
        engine.tell(Event::Reshaped {
            keyspace: partition.keyspace.name.clone(),
            partition: partition.index,
            took: engine.environment.clock.now().saturating_sub(began),
        });
    }
}

/// A panic, which would be a bug, must not keep the tables of the job busy.
struct OnPanic<'a> {
    partition: &'a Partition,
    job: &'a RunningJob,
    armed: bool,
}

impl Drop for OnPanic<'_> {
    fn drop(&mut self) {
        if self.armed {
            let mut work = self.partition.work();
            work.running.retain(|running| running != self.job);
            work.merge_failure = Some(Error::new(ErrorKind::Io, "a merge panicked"));
        }
    }
}

/// Removes a job from the running ones.
fn end(engine: &Arc<Engine>, partition: &Partition, job: &RunningJob, error: Option<&Error>) {
    {
        let mut work = partition.work();
        work.running.retain(|running| running != job);
        work.merge_failure = error.cloned();
    }
    if let Some(error) = error.filter(|e| e.kind() != ErrorKind::Closed) {
        engine.tell(Event::BackgroundError {
            doing: "merge tables",
            error: error.clone(),
        });
    }
    update_pressure(engine, partition);
    flush::after_merge(engine, partition, error);
    engine.scheduler.notify_progress();
}

/// Waits until level 0 of these trees has few enough runs that writers are not delayed for it.
pub(crate) fn wait_for_room(engine: &Arc<Engine>, partitions: &[Arc<Partition>]) -> Result<()> {
    for partition in partitions {
        let has_room = || {
            let debt = tree_debt(partition, &partition.tree());
            debt.level0_runs < runs_limit(&debt) || partition.is_dropped()
        };
        if has_room() {
            continue;
        }
        partition.work().merge_failure = None;
        schedule(engine, partition);
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

/// A place in a tree for tables that are newer than everything it holds. No merge interferes with
/// it while this lives.
pub(crate) struct Claim<'a> {
    partition: &'a Partition,
    pub(crate) target: Target,
    job: Option<RunningJob>,
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let mut work = self.partition.work();
        work.running.retain(|job| Some(job) != self.job.as_ref());
    }
}

/// Chooses a place for tables, at least one, in key order. Entries still in memtables must be newer
/// than theirs.
///
/// # Errors
/// `Conflict` when flushes and loads come faster than merges can make room for them.
pub(crate) fn claim<'a>(
    engine: &Engine,
    partition: &'a Partition,
    tables: &[TableMeta],
) -> Result<Claim<'a>> {
    let mut work = partition.work();
    let design = partition.keyspace.design_owned();
    let tree = partition.tree();
    let targets = design.targets(&tree.version);
    let limits = limits(engine, &design);
    let target = place(&tree.version, &targets, &work.running, &limits, tables);
    let target = target.ok_or_else(|| {
        Error::new(
            ErrorKind::Conflict,
            "level 0 has as many runs as it can have; try again when they have been merged",
        )
    })?;
    // A new run of level 0 conflicts with no merge, like that of a flush.
    let job = (target.level > 0).then(|| RunningJob {
        inputs: Vec::new(),
        top: 0,
        target,
        lo: tables[0].smallest_key.clone(),
        hi: tables[tables.len() - 1].largest_key.clone(),
        is_alone: false,
    });
    work.running.extend(job.clone());
    Ok(Claim {
        partition,
        target,
        job,
    })
}

/// Reports the merge debt of a tree to the throttle. The tree with the largest debt delays the
/// writers.
pub(crate) fn update_pressure(engine: &Engine, partition: &Partition) {
    let fills = || {
        if partition.is_dropped() {
            return (0.0, 0.0);
        }
        let tree = partition.tree();
        let debt = tree_debt(partition, &tree);
        let memtable_bytes = partition.keyspace.design().memtable_bytes;
        fills(&debt, memtable_bytes, tree.version.bytes())
    };
    let (throttle, part) = (&engine.throttle, partition.id.0);
    throttle.set_part(Pressure::Level0, part, || fills().0);
    throttle.set_part(Pressure::MergeDebt, part, || fills().1);
    engine.scheduler.set_pressed(throttle.holds_back());
}

/// The merge debt of a tree.
pub(crate) fn tree_debt(partition: &Partition, tree: &SuperVersion) -> Debt {
    debt(
        &tree.version,
        &partition.keyspace.design().targets(&tree.version),
    )
}

/// Waits until none of these trees needs a merge or a filter: for tests and tools.
pub(crate) fn wait_until_idle(engine: &Arc<Engine>, partitions: &[Arc<Partition>]) -> Result<()> {
    for partition in partitions {
        partition.work().merge_failure = None;
        loop {
            schedule(engine, partition);
            engine.check_open()?;
            let mut failure = None;
            engine.scheduler.wait_until(|| {
                let work = partition.work();
                failure = work.merge_failure.clone();
                let is_idle = work.running.is_empty() && !work.probing;
                is_idle || engine.check_open().is_err()
            });
            if let Some(error) = failure {
                return Err(error);
            }
            // Between the end of a job and the beginning of the next nothing runs, either.
            let work = partition.work();
            let is_idle = work.running.is_empty() && !work.probing;
            if is_idle
                && next(engine, partition, &work).is_none()
                && probes::next(engine, partition).is_none()
            {
                break;
            }
        }
        // The thread of the last job may not have done this yet.
        end_retune(engine, partition);
    }
    engine.check_open()
}

/// The progress of a manual compaction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompactProgress {
    /// Bytes of tables rewritten or moved so far.
    pub done_bytes: u64,
    /// The approximate total: the bytes of the range when the compaction began, once for every
    /// level but the deepest, and those that they are merged into.
    pub total_bytes: u64,
}

/// Merges everything of a key range into the deepest level, on this thread. `go_on` receives the
/// progress after every step, and may end the work.
pub(crate) fn compact(
    engine: &Arc<Engine>,
    partition: &Arc<Partition>,
    (lower, upper): &(Bound<Vec<u8>>, Bound<Vec<u8>>),
    progress: &mut CompactProgress,
    go_on: &mut dyn FnMut(CompactProgress) -> bool,
) -> Result<()> {
    let through = TableId(engine.writer()?.next_table().0);
    let mut manual = Manual::new(lower.clone(), upper.clone(), through);
    loop {
        if !go_on(*progress) {
            return Err(Error::new(
                ErrorKind::Cancelled,
                "the compaction was ended by its caller",
            ));
        }
        engine.writer()?;
        let step = {
            let mut work = partition.work();
            let design = partition.keyspace.design_owned();
            let tree = partition.tree_owned();
            let targets = design.targets(&tree.version);
            let limits = limits(engine, &design);
            let step = shift_first(&design, &tree.version, &targets, &work)
                .unwrap_or_else(|| manual.next(&tree.version, &targets, &work.running, &limits));
            match step {
                ManualStep::Run(plan) => {
                    let job = RunningJob::of(&tree.version, &plan);
                    let next = Next { design, plan, job };
                    work.running.extend(next.job.clone());
                    Ok(next)
                }
                ManualStep::Wait => Err(work.running.len()),
                ManualStep::Done => break,
            }
        };
        match step {
            Ok(Next { design, plan, job }) => {
                progress.done_bytes += match job {
                    Some(job) => run(engine, partition, &design, &plan, &job)?,
                    None => job::run(engine, partition, &design, &plan)?,
                };
                engine.remove_obsolete();
            }
            Err(running) => drop(engine.scheduler.wait_until(|| {
                partition.work().running.len() < running || engine.check_open().is_err()
            })),
        }
    }
    schedule(engine, partition);
    Ok(())
}
