//! Compaction: merging tables into deeper levels, in the background.
//!
//! The decisions are pure: [`planner`](crate::design::planner) selects the tables to merge,
//! [`retain`] the entries to keep, [`output`] the places to cut the result. [`job`] carries out one
//! plan, [`merge_tables`] one merge. This file asks for plans: [`begin`] for the background,
//! [`step`] for a user. It starts no job; [`background`](crate::paths::background) does.

pub(crate) mod filtering;
pub(crate) mod filters;
pub(crate) mod fold;
pub(crate) mod job;
pub(crate) mod merge_tables;
pub(crate) mod output;
pub(crate) mod paid;
pub(crate) mod retain;
pub(crate) mod unsynced;
pub(crate) mod warming;

use std::sync::Arc;

use crate::base::entry::SeqNo;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::runtime::{Pressure, Priority, Scheduler, Throttle};
use crate::base::stats::Event;
use crate::base::table_meta::TableMeta;
use crate::design::in_force::DesignInForce;
use crate::design::merge_policy::plan::{Input, Plan, RunningJob, Target};
use crate::design::merge_policy::{SLICE_TABLES, Targets};
use crate::tree::engine::Engine;
use crate::tree::partition::{Partition, Work};
use crate::tree::version::{SuperVersion, Version};

use retain::hide_table;

use crate::design::planner::{
    Debt, Manual, ManualStep, PlanLimits, debt, fills, fit_depth, place, plan, plan_level0,
    runs_limit,
};

fn limits(oldest_read: SeqNo, design: &DesignInForce) -> PlanLimits {
    PlanLimits {
        merge_bytes_max: design.table_bytes * SLICE_TABLES,
        oldest_snapshot: oldest_read,
    }
}

/// A plan, and the design for which it was made and with which it is carried out.
pub(crate) struct MergeJob {
    design: Arc<DesignInForce>,
    plan: Plan,
    /// `None` for a plan that only edits the manifest.
    pub(crate) running: Option<RunningJob>,
}

impl MergeJob {
    fn new(design: Arc<DesignInForce>, version: &Version, plan: Plan) -> MergeJob {
        let running = RunningJob::of(version, &plan);
        MergeJob {
            design,
            plan,
            running,
        }
    }

    /// Enters the job among the running ones.
    fn entered(self, work: &mut Work) -> MergeJob {
        work.running.extend(self.running.clone());
        self
    }

    pub(crate) fn priority(&self) -> Priority {
        match &self.running {
            Some(job) if job.top > 0 => Priority::Merge,
            _ => Priority::MergeTop,
        }
    }

    /// Carries the plan out up to its edit. Returns the bytes of the input tables.
    pub(crate) fn run(&self, engine: &Arc<Engine>, partition: &Arc<Partition>) -> Result<u64> {
        job::run(engine, partition, &self.design, &self.plan)
    }
}

/// Plans the next merge of a tree, and enters it among the running ones. `None` if the tree needs
/// none, or the pool has no room.
pub(crate) fn begin(engine: &Engine, partition: &Partition) -> Option<MergeJob> {
    let tree = partition.tree_owned();
    if tree.has_ranges() {
        // Before the lock, because it may read. A read or a merge reports an error.
        drop(tree.ranges());
    }
    let mut work = partition.work();
    if work.running.len() >= engine.scheduler.merge_threads() {
        return None;
    }
    next(engine, partition, &work).map(|merge| merge.entered(&mut work))
}

/// The next merge of a tree, not among the running ones yet. Levels change their numbers only while
/// no job refers to them. While a shift waits for that, only merges out of level 0 begin, and only
/// beside other jobs, so that the wait ends.
pub(crate) fn next(engine: &Engine, partition: &Partition, work: &Work) -> Option<MergeJob> {
    let design = partition.keyspace.design_owned();
    let tree = partition.tree();
    let version = &tree.version;
    let targets = design.targets(version);
    let limits = limits(engine.oldest_read(), &design);
    if let Some(plan) = discard(engine, &tree, work) {
        return Some(MergeJob::new(design, version, plan));
    }
    let plan = match shift_first(&design, version, &targets, work) {
        None => plan(version, &targets, &work.running, &limits)?.0,
        Some(ManualStep::Run(shift)) => shift,
        Some(_) if work.running.iter().all(|job| job.top == 0) => return None,
        Some(_) => plan_level0(version, &targets, &work.running, &limits)?,
    };
    Some(MergeJob::new(design, version, plan))
}

/// The drop of tables of which no reader sees anything: range tombstones hide them, if the tree's
/// range tombstones are in memory, or all their entries have expired and hide nothing older. Every
/// table of the tree holds published entries only (invariant I4), so that a snapshot that is taken
/// from now on sees the tombstones.
fn discard(engine: &Engine, tree: &SuperVersion, work: &Work) -> Option<Plan> {
    let ranges = tree.known_ranges().filter(|ranges| !ranges.is_empty());
    if ranges.is_none() && !engine.expiry.is_used() || work.running.iter().any(|job| job.is_alone) {
        return None;
    }
    let held = engine.held();
    let is_hidden = |meta| ranges.is_some_and(|it| hide_table(it, meta, &held.snapshots));
    let is_expired = |level, run, meta: &TableMeta| {
        let keys = (meta.smallest_key.as_slice(), meta.largest_key.as_slice());
        meta.has_expired(held.expired)
            && meta.range_tombstones == 0
            && !tree
                .version
                .older_overlaps(level, Some(run), keys, |id| id == meta.id)
    };
    let is_busy = |id| work.running.iter().any(|job| job.inputs.contains(&id));
    let mut inputs: Vec<Input> = Vec::new();
    for (place, table) in tree.version.tables() {
        let meta = table.meta();
        let level = usize::from(place.level);
        if is_busy(meta.id) || !(is_hidden(meta) || is_expired(level, place.run, meta)) {
            continue;
        }
        inputs.push(Input {
            level: usize::from(place.level),
            run: place.run,
            tables: vec![meta.id],
        });
    }
    (!inputs.is_empty()).then_some(Plan::Discard { inputs })
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
pub(crate) fn end_retune(engine: &Engine, partition: &Partition) {
    let began = {
        let mut work = partition.work();
        let idle = work.running.is_empty();
        if work.retuned_at.is_none() || !idle || next(engine, partition, &work).is_some() {
            return;
        }
        work.retuned_at.take()
    };
    if let Some(began) = began {
        engine.report(Event::Reshaped {
            keyspace: partition.keyspace.name(),
            partition: partition.index,
            took: engine.environment.clock.now().saturating_sub(began),
        });
    }
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
/// than theirs. `oldest_read` is that of [`Engine::oldest_read`], now or a moment ago.
///
/// # Errors
/// `Conflict` when flushes and loads come faster than merges can make room for them.
pub(crate) fn claim<'a>(
    oldest_read: SeqNo,
    partition: &'a Partition,
    tables: &[TableMeta],
) -> Result<Claim<'a>> {
    let mut work = partition.work();
    let design = partition.keyspace.design_owned();
    let tree = partition.tree();
    let targets = design.targets(&tree.version);
    let limits = limits(oldest_read, &design);
    let target = place(&tree.version, &targets, &work.running, &limits, tables);
    let target = target.ok_or_else(level0_full)?;
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

/// The error of a caller that needs room in level 0 now.
pub(crate) fn level0_full() -> Error {
    let full = "level 0 has as many runs as it can have; try again when they have been merged";
    Error::new(ErrorKind::Conflict, full)
}

/// Reports the merge debt of a tree to the throttle. The tree with the largest debt delays the
/// writers.
pub(crate) fn update_pressure(throttle: &Throttle, scheduler: &Scheduler, partition: &Partition) {
    let fills = || {
        if partition.is_dropped() {
            return (0.0, 0.0);
        }
        let tree = partition.tree();
        let debt = tree_debt(partition, &tree);
        let memtable_bytes = partition.keyspace.design().memtable_bytes;
        fills(&debt, memtable_bytes, tree.version.bytes())
    };
    let part = partition.id.0;
    throttle.set_part(Pressure::Level0, part, || fills().0);
    throttle.set_part(Pressure::MergeDebt, part, || fills().1);
    scheduler.set_pressed(throttle.holds_back());
}

/// Returns true if level 0 has few enough runs that writers are not delayed for it.
pub(crate) fn has_room(partition: &Partition) -> bool {
    let debt = tree_debt(partition, &partition.tree());
    debt.level0_runs < runs_limit(&debt)
}

/// The merge debt of a tree.
fn tree_debt(partition: &Partition, tree: &SuperVersion) -> Debt {
    debt(
        &tree.version,
        &partition.keyspace.design().targets(&tree.version),
    )
}

/// A step of a compaction that a user requested.
pub(crate) enum MergeStep {
    /// A merge, which is among the running ones.
    Run(MergeJob),
    /// Fewer than this many jobs must run.
    Wait(usize),
    Done,
}

/// The next step of a compaction that a user requested, with `oldest_read` as [`claim`] gets it.
pub(crate) fn step(oldest_read: SeqNo, partition: &Partition, manual: &mut Manual) -> MergeStep {
    let mut work = partition.work();
    let design = partition.keyspace.design_owned();
    let version = partition.tree_owned().version.clone();
    let targets = design.targets(&version);
    let limits = limits(oldest_read, &design);
    let step = shift_first(&design, &version, &targets, &work)
        .unwrap_or_else(|| manual.next(&version, &targets, &work.running, &limits));
    match step {
        ManualStep::Run(plan) => {
            MergeStep::Run(MergeJob::new(design, &version, plan).entered(&mut work))
        }
        ManualStep::Wait => MergeStep::Wait(work.running.len()),
        ManualStep::Done => MergeStep::Done,
    }
}
