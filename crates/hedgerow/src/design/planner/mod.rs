//! The planner of all merge policies. It returns the next step from a tree's shape to the targets
//! of its policy.
//!
//! Pure and deterministic: plain data in, plain data out, so that tests and the simulator run the
//! engine's code. The engine calls it whenever a flush or a job has ended, and again after every
//! job that it has started, while it has threads to spare. Jobs run concurrently.
//!
//! The rules of every plan:
//! - P1, recency: a merge takes along everything that overlaps it between the source and the
//!   target, the target's run included. So a newer version of a key is never below an older one.
//! - P2, one job per table: no input of a running job is an input of another.
//! - P3, disjoint outputs: no two jobs write overlapping key ranges into one level, and none writes
//!   an overlapping range into a level that another job's data skips.
//! - P4, groups in order: a job that takes tables out of a group of several runs takes along the
//!   older ones of the group that they overlap, and jobs that run at the same time have disjoint
//!   keys. Otherwise the second might finish with newer data first. Only one job at a time takes
//!   from level 0.
//! - P5, progress: every plan brings data down, reduces the number of runs, or drops tombstones
//!   that nothing keeps. So planning ends when no write comes.
//! - P6, lateness: a level that would be over twice its capacity waits for no sweep of a deeper
//!   one. So late merges write no more than those in time.

mod carry;
mod debt;
mod depth;
mod draft;
mod level0;
mod levels;
mod manual;
mod nodes;
mod place;
#[cfg(test)]
mod played;
mod ranges;
mod slices;
mod tiered;

use std::cmp::Ordering;
use std::collections::HashSet;

use crate::base::entry::RunId;
use crate::base::entry::SeqNo;
use crate::base::page::TableId;
use crate::design::merge_policy::plan::{Plan, Reason, RunningJob, Target};
use crate::design::merge_policy::shape::{Facts, Group, Level, RUNS_MAX, Run, Shape, is_within};
use crate::design::merge_policy::{Cut, LevelTarget, Targets};

pub(crate) use debt::{Debt, debt, fills, runs_limit};
pub(crate) use depth::{fit_depth, fitted_targets};
use draft::Draft;
use levels::{next_level, target_of};
pub(crate) use manual::{Manual, ManualStep};
pub(crate) use place::place;
use ranges::RangeStep;
pub(crate) use tiered::neighbours;

/// The limits of plans.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PlanLimits {
    /// The approximate size of a slice of a level. A slice has at least one table with its overlap.
    pub(crate) merge_bytes_max: u64,
    /// The oldest live snapshot, or the newest published number if there is none. Every reader sees
    /// all writes up to this number.
    pub(crate) oldest_snapshot: SeqNo,
}

/// The most urgent plan that can start beside the running jobs, and its urgency: the factor by
/// which the level exceeds its target. Below 1 it is useful but not necessary.
pub(crate) fn plan<T: Facts>(
    shape: &Shape<T>,
    targets: &Targets,
    running: &[RunningJob],
    limits: &PlanLimits,
) -> Option<(Plan, f64)> {
    if running.iter().any(|job| job.is_alone) {
        return None;
    }
    if let Some(plan) = plan_depth(shape, targets, running) {
        return Some((plan, DEPTH_URGENCY));
    }
    let planner = Planner::new(shape, targets, running, limits);
    match planner.plan_ranges() {
        None => planner.next(),
        Some(RangeStep::Run(plan)) => Some((plan, DEPTH_URGENCY)),
        Some(RangeStep::Wait) => None,
    }
}

/// [`plan`] for level 0 only. Level 0 may fill up while deeper levels have to wait.
pub(crate) fn plan_level0<T: Facts>(
    shape: &Shape<T>,
    targets: &[LevelTarget],
    running: &[RunningJob],
    limits: &PlanLimits,
) -> Option<Plan> {
    let planner = Planner::new(shape, targets, running, limits);
    let due = planner.urgency(0) >= 1.0;
    due.then(|| planner.plan_level0()).flatten()
}

/// A merge of level 0 before it is due, if no other job runs and each read then asks fewer runs
/// permanently.
pub(crate) fn plan_for_reads<T: Facts>(
    shape: &Shape<T>,
    targets: &[LevelTarget],
    limits: &PlanLimits,
) -> Option<Plan> {
    Planner::new(shape, targets, &[], limits).plan_for_reads()
}

/// The urgency of a level that the design does not use: before a level 0 that has just come due
/// (which would otherwise have to be merged into it), after a level that is twice over its target.
const DRAIN_URGENCY: f64 = 2.0;
/// The urgency of dropping tombstones early.
const TOMBSTONE_URGENCY: f64 = 0.5;

/// The urgency of a change of depth or groups. A tree gets the levels of its policy, cut as the
/// policy wants, before anything else is planned.
const DEPTH_URGENCY: f64 = f64::INFINITY;

/// Appends new levels beside any job. Drops levels only when they are empty and no job runs that
/// might fill them.
fn plan_depth<T: Facts>(
    shape: &Shape<T>,
    targets: &Targets,
    running: &[RunningJob],
) -> Option<Plan> {
    let droppable = |level: &Level<T>| running.is_empty() && level.is_empty();
    let dropped = shape.levels.iter().rev().take_while(|it| droppable(it));
    let least = shape.depth() - dropped.count();
    let depth = targets.levels.len().max(least);
    let policy_note = targets.policy_note;
    let is_so = depth == shape.depth() && policy_note == shape.policy_note;
    (!is_so).then_some(Plan::SetDepth { depth, policy_note })
}

struct Planner<'s, T: Facts> {
    shape: &'s Shape<T>,
    targets: &'s [LevelTarget],
    running: &'s [RunningJob],
    limits: &'s PlanLimits,
    busy: HashSet<TableId>,
}

impl<'s, T: Facts> Planner<'s, T> {
    fn new(
        shape: &'s Shape<T>,
        targets: &'s [LevelTarget],
        running: &'s [RunningJob],
        limits: &'s PlanLimits,
    ) -> Self {
        Planner {
            shape,
            targets,
            running,
            limits,
            busy: running
                .iter()
                .flat_map(|job| job.inputs.iter().copied())
                .collect(),
        }
    }

    fn next(&self) -> Option<(Plan, f64)> {
        let mut due: Vec<(f64, usize)> = (0..self.shape.depth())
            .map(|level| (self.urgency(level), level))
            .filter(|(urgency, _)| *urgency >= 1.0)
            .collect();
        due.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));

        // A merge out of level 0 that waits for jobs keeps new jobs out of the level it waits for:
        // otherwise it would wait for ever while they take turns. If it appends a run it waits for
        // none of them. It only needs room for a run, which they make.
        let mut kept_free = None;
        for (urgency, level) in due {
            if kept_free == Some(level) || self.is_carried(level) {
                continue;
            }
            if let Some(plan) = self.plan_level(level) {
                return Some((plan, urgency));
            }
            if level == 0 {
                let takes_from = |level: &usize| self.target(*level).is_leveled();
                kept_free = self.next_level(0).filter(takes_from);
            }
        }
        self.plan_tombstones(kept_free)
            .map(|plan| (plan, TOMBSTONE_URGENCY))
    }

    fn target(&self, level: usize) -> LevelTarget {
        target_of(self.shape, self.targets, level)
    }

    fn next_level(&self, level: usize) -> Option<usize> {
        next_level(self.shape, self.targets, level)
    }

    /// The bytes of a level, less those that running jobs take down.
    fn remaining_bytes(&self, level: usize) -> u64 {
        let leaving = self
            .running
            .iter()
            .filter(|job| job.target.level > level)
            .flat_map(|job| &job.inputs)
            .filter_map(|id| self.shape.table(*id))
            .filter(|(placement, _)| usize::from(placement.level) == level)
            .fold(0_u64, |sum, (_, table)| {
                sum.saturating_add(table.meta().file_bytes)
            });
        self.shape.levels[level].bytes().saturating_sub(leaving)
    }

    /// The factor by which a level exceeds its target; at least 1 if a merge is due.
    fn urgency(&self, level: usize) -> f64 {
        let target = self.target(level);
        let runs = self.shape.levels[level].summary().runs;
        if level == 0 {
            return f64::from(runs) / f64::from(target.runs_max());
        }
        if self.is_of_nodes(level) {
            return self.urgency_of_nodes(level);
        }
        let by_runs = if runs >= target.runs_due() {
            f64::from(runs) / f64::from(target.runs_max())
        } else {
            0.0
        };
        by_runs.max(self.urgency_by_size(level, &target))
    }

    fn urgency_by_size(&self, level: usize, target: &LevelTarget) -> f64 {
        let bytes = self.remaining_bytes(level);
        if bytes == 0 || self.next_level(level).is_none() {
            return 0.0;
        }
        if !target.is_in_use() {
            return DRAIN_URGENCY;
        }
        let part = |capacity: u64| bytes as f64 / capacity as f64;
        let over = target.capacity_bytes().map_or(0.0, part);
        let sweeping = self.shape.levels[level].draining.is_some()
            && (target.goes_down_in_slices()
                || self
                    .next_level(level)
                    .is_some_and(|next| self.is_swept(level, next)));
        if sweeping || target.is_exceeded_by(bytes) {
            over.max(1.0)
        } else {
            0.0
        }
    }

    fn plan_level(&self, level: usize) -> Option<Plan> {
        if level == 0 {
            return self.plan_level0();
        }
        if self.is_of_nodes(level) {
            return self.plan_nodes(level);
        }
        let target = self.target(level);
        let data = &self.shape.levels[level];
        let runs_are_due = data.summary().runs >= target.runs_due();
        let Some(next) = self.next_level(level) else {
            return self.plan_runs(level, &target, data.bytes());
        };
        if runs_are_due && target.is_in_use() {
            // Leveling collapses the runs of an earlier design. A level with many runs that is not
            // full gets fewer of them. A swept level has room because it is being emptied.
            let capacity_bytes = target.capacity_bytes();
            let has_room = capacity_bytes.is_some_and(|most| data.bytes() <= most);
            if target.is_leveled() || has_room && data.draining.is_none() {
                let bytes = capacity_bytes.unwrap_or(data.bytes());
                return self.plan_runs(level, &target, bytes);
            }
        }
        let reason = match (target.is_in_use(), runs_are_due) {
            (false, _) => Reason::Drain,
            (true, true) => Reason::Runs,
            (true, false) => Reason::Capacity,
        };
        if self.is_swept(level, next) {
            return self.plan_sweep(level, next, reason);
        }
        if !target.is_in_use() {
            return self.plan_slice(level, next, Reason::Drain);
        }
        match target.cut()? {
            Cut::OneTable => self.plan_one_table(level, next),
            Cut::WholeLevel => self.plan_whole_level(level, next),
            Cut::PartitionedFull if data.draining.is_none() => self.begin_sweep(level, 0),
            Cut::PartitionedFull => self.plan_sweep_slice(level),
        }
    }

    /// Merges runs of a level with as many runs as it may have that has no next level or is not
    /// full. If the target has several runs, neighbours are merged, so that each run has about its
    /// share of the capacity \[Dostoevsky, section 4.3\]. If it has one, the runs of an earlier
    /// design are merged into the oldest, slice by slice.
    fn plan_runs(&self, level: usize, target: &LevelTarget, capacity_bytes: u64) -> Option<Plan> {
        let mut groups: Vec<&Group<T>> = self.shape.levels[level]
            .used_groups()
            .map(|(_, group)| group)
            .filter(|group| group.runs.len() >= target.runs_due() as usize)
            .collect();
        // The group with the most runs first; equal ones keep their order, because the sort is
        // stable.
        groups.sort_by_key(|group| std::cmp::Reverse(group.runs.len()));
        groups.into_iter().find_map(|group| {
            if target.is_leveled() {
                self.plan_collapse(level, group)
            } else {
                let share = capacity_bytes / u64::from(target.runs_max());
                self.plan_neighbours(level, group, share)
            }
        })
    }

    /// A slice of the newest run, with its overlap, into the oldest run of the same group.
    fn plan_collapse(&self, level: usize, group: &'s Group<T>) -> Option<Plan> {
        let newest = group.runs.first()?;
        let oldest = group.runs.last()?;
        let index = self.shape.levels[level].group_for(&group.lower);
        self.slices(level, newest, |tables| {
            let mut draft = Draft::default();
            draft.add(level, newest.id, tables);
            for run in &group.runs[1..] {
                draft.extend(level, run);
            }
            let target = Target {
                level,
                group: index,
                run: Some(oldest.id),
            };
            (draft, target)
        })
        .find_map(|(draft, target)| self.finish(draft, target, Reason::Runs))
    }

    fn is_busy(&self, run: &Run<T>) -> bool {
        let mut tables = run.tables.iter();
        tables.any(|table| self.busy.contains(&table.meta().id))
    }

    fn plan_whole_level(&self, level: usize, next: usize) -> Option<Plan> {
        let mut draft = Draft::default();
        for (_, run) in self.shape.levels[level].runs() {
            draft.add(level, run.id, &run.tables);
        }
        self.merge_down(draft, next, Reason::Capacity)
    }

    /// Takes down early the tables that every reader sees and whose entries are at least half
    /// tombstones, smallest numbers first. Once nothing older is below, they are rewritten in
    /// place. This drops all tombstones, so it happens once.
    fn plan_tombstones(&self, kept_free: Option<usize>) -> Option<Plan> {
        let mut dense: Vec<&'s [T]> = Vec::new();
        for (level, data) in self.shape.levels.iter().enumerate().skip(1) {
            if data.summary().tombstones == 0 || kept_free == Some(level) {
                continue;
            }
            // Only the oldest run of a group has no older data before the next level.
            let oldest = data
                .used_groups()
                .filter_map(|(_, group)| group.runs.last());
            let tables = oldest.flat_map(|run| run.tables.chunks(1));
            dense.extend(tables.filter(|table| self.is_dense(&table[0])));
        }
        dense.sort_by_key(|table| table[0].meta().id);
        dense.into_iter().find_map(|table| {
            let (place, _) = self.shape.table(table[0].meta().id)?;
            let level = usize::from(place.level);
            let mut draft = Draft::default();
            draft.add(level, place.run, table);
            let mut below = draft.clone();
            below.descend(self.shape, level + 1, self.shape.depth());
            if below.runs() == 1 {
                let target = Target {
                    level,
                    group: place.group as usize,
                    run: Some(place.run),
                };
                return self.finish(draft, target, Reason::Tombstones);
            }
            if self.target(level).takes_several_runs() {
                return None;
            }
            self.merge_down(draft, self.next_level(level)?, Reason::Tombstones)
        })
    }

    fn is_dense(&self, table: &T) -> bool {
        let meta = table.meta();
        meta.tombstones > 0
            && meta.tombstones >= meta.entries.div_ceil(2)
            && meta.largest_seqno <= self.limits.oldest_snapshot
            && !self.busy.contains(&meta.id)
    }

    /// Completes a draft that goes down to a level: adds its overlap in the levels between, and the
    /// overlapping tables of the run that it is merged into.
    fn merge_down(&self, mut draft: Draft<'s, T>, level: usize, reason: Reason) -> Option<Plan> {
        let source = draft.top()?;
        draft.descend(self.shape, source + 1, level);
        let run = if self.target(level).is_leveled() {
            draft.descend(self.shape, level, level + 1);
            Some(self.leveled_run(level))
        } else {
            let (lo, hi) = draft.range()?;
            let groups = self.shape.levels[level].groups_overlapping(lo, hi);
            if groups.iter().any(|group| group.runs.len() >= RUNS_MAX) {
                return None;
            }
            None
        };
        let group = self.shape.levels[level].group_for(draft.range()?.0);
        self.finish(draft, Target { level, group, run }, reason)
    }

    /// The run of a leveled level: the existing one, else the one that a running job will make,
    /// else number 0. So jobs into an empty level make one run together.
    fn leveled_run(&self, level: usize) -> RunId {
        let runs = self.shape.levels[level].runs().map(|(_, run)| run.id);
        let made = self
            .running
            .iter()
            .filter(|job| job.target.level == level)
            .filter_map(|job| job.target.run);
        runs.min().or(made.min()).unwrap_or(RunId(0))
    }

    /// The plan of a complete draft, unless a running job is in the way.
    fn finish(&self, draft: Draft<'s, T>, target: Target, reason: Reason) -> Option<Plan> {
        let (lo, hi) = draft.range()?;
        let top = draft.top()?;
        if draft
            .tables()
            .any(|table| self.busy.contains(&table.meta().id))
            || self
                .running
                .iter()
                .any(|job| job.conflicts(top, target.level, lo, hi))
        {
            return None;
        }
        let groups = self.shape.levels[target.level].ranges();
        let is_cut = |table: &T| !is_within(table.meta(), groups);
        let is_whole = !draft.tables().any(is_cut);
        // Within a level, a move only gives a run a new number.
        let is_renumbered = draft.runs() == 1 && target.run.is_none();
        // A manual compaction merges, so that pieces of tables become whole ones.
        let may_move = draft.runs() == 1 || reason != Reason::Manual;
        // Runs of level 0 without overlap become one run unread.
        let is_apart = match target.level {
            0 => draft.is_apart(),
            level => draft.is_apart_above(level),
        };
        let moves = is_whole && (is_renumbered || may_move && is_apart);
        let inputs = draft.into_inputs();
        Some(match moves {
            true => Plan::Move {
                inputs,
                target,
                reason,
            },
            false => Plan::Merge {
                inputs,
                target,
                reason,
            },
        })
    }
}

/// All tables of some runs, newest first.
fn draft_of<T: Facts>(level: usize, runs: &[Run<T>]) -> Draft<'_, T> {
    let mut draft = Draft::default();
    for run in runs {
        draft.add(level, run.id, &run.tables);
    }
    draft
}

/// Compares a.0 / a.1 with b.0 / b.1 exactly.
fn compare_ratios(a: (u64, u64), b: (u64, u64)) -> Ordering {
    let left = u128::from(a.0) * u128::from(b.1);
    let right = u128::from(b.0) * u128::from(a.1);
    left.cmp(&right)
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod text_tests;
