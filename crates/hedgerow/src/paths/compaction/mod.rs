//! Compaction: merging tables into deeper levels, in the background.
//!
//! What decides is pure: [`planner`] says which tables to merge, [`retain`] which of their entries
//! to keep, [`output`] where to cut the result. [`job`] carries one plan out; this file asks for
//! plans whenever a flush or a job has ended, and on a user's demand.

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
    Debt, Manual, ManualStep, PlanLimits, debt, fills, fit_depth, fitted_targets, place, plan,
    plan_level0, runs_limit,
};
use crate::group_filter::probes;

/// What a design wants of each level of a tree.
pub(crate) fn targets(design: &DesignInForce, version: &Version) -> Targets {
    let summary = version.summary(design.memtable_bytes, design.table_bytes);
    fitted_targets(&*design.policy, summary)
}

fn limits(engine: &Engine, design: &DesignInForce) -> PlanLimits {
    let oldest = engine.snapshots.numbers().first().copied();
    PlanLimits {
        merge_bytes_max: design.table_bytes * SLICE_TABLES,
        oldest_snapshot: oldest.unwrap_or(SeqNo(engine.publisher.published())),
    }
}

/// Begins as many jobs of a tree as it needs and the pool has room for. Called when its shape, or
/// what runs on it, has changed.
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

/// Has the pool carry out a plan of a tree, whose job is among the running ones.
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

/// Carries out a plan whose job is among the running ones, and takes it from them. Returns the bytes of tables
/// that it took.
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

/// A plan, and the design that it was made for, which it is carried out with.
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

/// What is to be done next to a tree. Levels change their numbers only while no job knows them; as
/// long as that is waited for, nothing begins but merges out of level 0, and those only beside
/// others, so that it comes to an end.
fn next(engine: &Engine, partition: &Partition, work: &Work) -> Option<Next> {
    let design = partition.keyspace.design_owned();
    let tree = partition.tree();
    let version = &tree.version;
    let (targets, limits) = (targets(&design, version), limits(engine, &design));
    let plan = match shift_first(&design, version, &targets, work) {
        None => plan(version, &targets, &work.running, &limits)?.0,
        Some(ManualStep::Run(shift)) => shift,
        Some(_) if work.running.iter().all(|job| job.top == 0) => return None,
        Some(_) => plan_level0(version, &targets, &work.running, &limits)?,
    };
    let job = RunningJob::of(version, &plan);
    Some(Next { design, plan, job })
}

/// A change of the numbers of levels, or waiting for it, where the tree has not the depth that the
/// design wants. Levels are taken away only when nothing runs anyway.
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

/// Tells when a tree has come to the shape that another design asked for.
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

/// Takes a job from the running ones.
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

/// Waits until level 0 of some trees is not so full of runs that writers would be held back for it.
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

/// A place in a tree for tables that are newer than all it holds; no merge comes in the way of it
/// while this lives.
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

/// Chooses a place for tables, at least one, in key order. What is still in memtables must be
/// newer than they are.
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
    let targets = targets(&design, &tree.version);
    let limits = limits(engine, &design);
    let target = place(&tree.version, &targets, &work.running, &limits, tables);
    let target = target.ok_or_else(|| {
        Error::new(
            ErrorKind::Conflict,
            "level 0 has as many runs as it can have; try again when they have been merged",
        )
    })?;
    // A new run of level 0 is in nobody's way, as that of a flush.
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

/// Tells the throttle how far merging of a tree is behind: writers are held back by the tree that is the furthest.
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

/// What a tree's merges still have to do.
pub(crate) fn tree_debt(partition: &Partition, tree: &SuperVersion) -> Debt {
    debt(
        &tree.version,
        &targets(&partition.keyspace.design(), &tree.version),
    )
}

/// Waits until no tree of these needs a merge or a filter any more: for tests and tools.
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
        // The thread of the last job may not have come to it.
        end_retune(engine, partition);
    }
    engine.check_open()
}

/// How far a manual compaction has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompactProgress {
    /// Bytes of tables rewritten or moved so far.
    pub done_bytes: u64,
    /// About how many there will be: the bytes of the range when the compaction began, from every
    /// level that is not the deepest once, and what they are merged into.
    pub total_bytes: u64,
}

/// Brings everything of a key range to the deepest level, on this thread. `go_on` is told of every
/// step and may end the work.
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
            let targets = targets(&design, &tree.version);
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
