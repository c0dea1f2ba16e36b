//! Cuts levels into the groups of the policy, for a new level and after a change of the design.
//!
//! A level can be cut if no table straddles a border. Tables that do are first rewritten in their
//! place. Merges that write into the level meanwhile already cut their tables at the new borders.

use crate::base::page::TableId;
use crate::design::merge_policy::plan::{Plan, Reason, RunningJob, Target};
use crate::design::merge_policy::shape::{Facts, is_within};

use super::Planner;
use super::draft::Draft;

/// The step that a level needs before anything else is planned.
pub(super) enum RangeStep {
    Run(Plan),
    /// Running jobs are in the way.
    Wait,
}

impl<T: Facts> Planner<'_, T> {
    /// The next step for the first level whose groups differ from its target.
    pub(super) fn plan_ranges(&self) -> Option<RangeStep> {
        let levels = 0..self.shape.depth();
        let level = levels
            .into_iter()
            .find(|level| self.shape.levels[*level].ranges() != self.target(*level).ranges())?;
        let ranges = self.target(level).ranges();
        if !self.shape.levels[level].fits_ranges(ranges) {
            let plan = self.plan_division(level, ranges);
            return Some(plan.map_or(RangeStep::Wait, RangeStep::Run));
        }
        let concerns_it = |job: &&RunningJob| {
            let takes = |id: &TableId| {
                let found = self.shape.table(*id);
                found.is_some_and(|(at, _)| usize::from(at.level) == level)
            };
            job.target.level == level || job.inputs.iter().any(takes)
        };
        Some(match self.running.iter().find(concerns_it) {
            Some(_) => RangeStep::Wait,
            None => RangeStep::Run(Plan::SetRanges { level, ranges }),
        })
    }

    /// Divides a table that straddles a border.
    fn plan_division(&self, level: usize, ranges: u32) -> Option<Plan> {
        let groups = self.shape.levels[level].groups.iter().enumerate();
        let runs = groups.flat_map(|(at, group)| group.runs.iter().map(move |run| (at, run)));
        let mut tables =
            runs.flat_map(|(at, run)| run.tables.chunks(1).map(move |it| (at, run, it)));
        tables.find_map(|(group, run, table)| {
            if is_within(table[0].meta(), ranges) {
                return None;
            }
            let mut draft = Draft::default();
            draft.add(level, run.id, table);
            let target = Target {
                level,
                group,
                run: Some(run.id),
            };
            self.finish(draft, target, Reason::Drain)
        })
    }
}
