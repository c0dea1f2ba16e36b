//! Levels of several runs: their way down, and merges that keep their runs few while they fill.

use std::cmp::Reverse;
use std::ops::Range;

use crate::base::entry::RunId;
use crate::design::merge_policy::plan::{Plan, Reason, Target};
use crate::design::merge_policy::shape::{Facts, Group, Run};

use super::draft::Draft;
use super::{Planner, draft_of};

/// The size of a slice per run of a level of several runs, as a multiple of
/// [`super::PlanLimits::merge_bytes_max`]. At the end of a slice about half a table of each run is
/// written twice, so larger slices than those of leveling pay: 1 table in 64, at 16 tables in a
/// slice of leveling.
const SLICE_FACTOR: u64 = 2;

impl<'s, T: Facts> Planner<'s, T> {
    /// True if a level goes down by a sweep over all its runs: if it has several runs, or if its
    /// output is one run among several.
    pub(super) fn is_swept(&self, level: usize, next: usize) -> bool {
        let runs = self.shape.levels[level].summary().runs;
        let several = |level: usize| self.target(level).takes_several_runs();
        several(level) || runs > 1 || several(next)
    }

    /// Stepped merge: the present runs of a level become one run of the next level, or go into its
    /// only run. Little data goes at once. More goes slice by slice of the key range, which bounds
    /// a merge and its disk space for a level of any size. If the next level has several runs, the
    /// slices join one new run. It takes over the number of the newest swept run: larger than all
    /// below, smaller than that of any later run.
    ///
    /// Reads stay correct all the while. A slice takes along all older tables that its keys
    /// overlap, so each key is either still in this level, with all its versions there, or in the
    /// new run.
    pub(super) fn plan_sweep(&self, level: usize, next: usize, reason: Reason) -> Option<Plan> {
        let data = &self.shape.levels[level];
        let group = &data.groups[0];
        let below = &self.shape.levels[next];
        let through = data.draining.or(data.newest_run())?;
        let joins = data.draining.is_some();
        let has_place = below
            .newest_run()
            .is_none_or(|newest| newest < through || joins && newest == through);
        let limit = self.slice_bytes_max(group.runs.len());
        let is_small = !joins && data.bytes().saturating_add(below.bytes()) <= limit;
        if is_small {
            return self.merge_down(draft_of(level, &group.runs), next, reason);
        }
        if !has_place && self.target(next).takes_several_runs() {
            return self.renumber(level, group.runs.first()?, reason);
        }
        if !joins {
            return Some(Plan::Drain { level, through });
        }
        let swept = group.runs.iter().position(|run| run.id <= through)?;
        let runs = &group.runs[swept..];
        (0..runs.len())
            .find_map(|newest| self.plan_swept_slice(level, next, &runs[newest..], through, reason))
    }

    /// Gives the newest run of a level a new number, because a run below has its number or a larger
    /// one. This happens after a bulk load, if a level of one run that keeps its number is above a
    /// level of several, and after a change of the design. Only the manifest changes.
    fn renumber(&self, level: usize, newest: &'s Run<T>, reason: Reason) -> Option<Plan> {
        let mut draft = Draft::default();
        draft.add(level, newest.id, &newest.tables);
        let target = Target {
            level,
            group: 0,
            run: None,
        };
        self.finish(draft, target, reason)
    }

    fn slice_bytes_max(&self, runs: usize) -> u64 {
        let per_run = self.limits.merge_bytes_max.saturating_mul(SLICE_FACTOR);
        per_run.saturating_mul(runs as u64)
    }

    /// The first slice of the newest of these runs that can go down now, with its overlap in the
    /// others.
    fn plan_swept_slice(
        &self,
        level: usize,
        next: usize,
        runs: &'s [Run<T>],
        through: RunId,
        reason: Reason,
    ) -> Option<Plan> {
        let (newest, older) = runs.split_first()?;
        let data = &self.shape.levels[level];
        let limit = self.slice_bytes_max(runs.len());
        let mut from = 0;
        while from < newest.tables.len() {
            let mut draft = Draft::default();
            let mut to = from;
            while let Some(table) = newest.tables.get(to) {
                let meta = table.meta();
                if self.busy.contains(&meta.id) || !data.sweep_awaits(newest.id, meta) {
                    break;
                }
                let mut longer = Draft::default();
                longer.add(level, newest.id, &newest.tables[from..=to]);
                older.iter().for_each(|run| longer.extend(level, run));
                if to > from && longer.bytes() / table.stands_for() > limit {
                    break;
                }
                draft = longer;
                to += 1;
            }
            if to > from
                && let Some(plan) = self.sweep_down(draft, next, through, reason)
            {
                return Some(plan);
            }
            from = to.max(from + 1);
        }
        None
    }

    fn sweep_down(
        &self,
        mut draft: Draft<'s, T>,
        next: usize,
        through: RunId,
        reason: Reason,
    ) -> Option<Plan> {
        if self.target(next).is_leveled() {
            return self.merge_down(draft, next, reason);
        }
        let group = &self.shape.levels[next].groups[0];
        if let Some(run) = group.run(through) {
            draft.extend(next, run);
        }
        let target = Target {
            level: next,
            group: 0,
            run: Some(through),
        };
        self.finish(draft, target, reason)
    }

    /// Merges neighbouring runs in place: as many as have `share_bytes` together, or else the two
    /// that are smallest together. Neighbours keep the recency of the level, because nothing lies
    /// between them.
    pub(super) fn plan_neighbours(
        &self,
        level: usize,
        group: &'s Group<T>,
        share_bytes: u64,
    ) -> Option<Plan> {
        let index = self.shape.levels[level].group_for(&group.lower);
        let bytes: Vec<u64> = group.runs.iter().map(Run::bytes).collect();
        neighbours(&bytes, share_bytes).into_iter().find_map(|it| {
            let runs = &group.runs[it];
            if runs.iter().any(|run| self.is_busy(run)) {
                return None;
            }
            let target = Target {
                level,
                group: index,
                run: Some(runs[0].id),
            };
            self.finish(draft_of(level, runs), target, Reason::Runs)
        })
    }
}

/// The neighbours among runs of these bytes that a merge in place may take, the best first: as many
/// as have `share` together, then pairs, the smaller ones first.
pub(crate) fn neighbours(bytes: &[u64], share: u64) -> Vec<Range<usize>> {
    let mut windows: Vec<(usize, u64, usize)> = Vec::new();
    for from in 0..bytes.len() {
        let mut sum = bytes[from];
        for (count, more) in (2..).zip(&bytes[from + 1..]) {
            sum = sum.saturating_add(*more);
            if count > 2 && sum > share {
                break;
            }
            // A pair always counts; one that is too large gets worth 0.
            let worth = if sum <= share { count } else { 0 };
            windows.push((worth, sum, from));
        }
    }
    windows.sort_by_key(|(worth, sum, _)| (Reverse(*worth), *sum));
    let ranges = windows.into_iter();
    ranges
        .map(|(worth, _, from)| from..from + worth.max(2))
        .collect()
}
