//! A user's `compact(range)`: all data in the range goes down to the deepest level.

use std::ops::Bound;

use crate::base::page::TableId;
use crate::base::table_meta::TableMeta;
use crate::design::merge_policy::LevelTarget;
use crate::design::merge_policy::plan::{Plan, Reason, RunningJob, Target};
use crate::design::merge_policy::shape::{Facts, Group, Shape};

use super::draft::Draft;
use super::{PlanLimits, Planner};

/// The progress of a manual compaction: by level, then by group, then in key order. So it ends
/// although writes continue.
#[derive(Debug, Clone)]
pub(crate) struct Manual {
    lo: Bound<Vec<u8>>,
    hi: Bound<Vec<u8>>,
    /// True if all tables of the deepest level are rewritten, too.
    rewrites: bool,
    /// Entries that expire up to this time have expired.
    expired: u64,
    /// Tables with a larger number were written since it began. At the bottom they need no rewrite.
    through: TableId,
    /// The depth of the tree at the last step. In a tree of another depth, levels have other
    /// numbers.
    depth: usize,
    level: usize,
    group: usize,
    /// Keys of this group up to here are done.
    done_to: Option<Vec<u8>>,
}

/// The next step of a manual compaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ManualStep {
    /// Run this plan, and call again after it has been installed.
    Run(Plan),
    /// A running job is in the way: call again after one has ended.
    Wait,
    Done,
}

impl Manual {
    /// A compaction of the order keys within the bounds. `through` is the largest table number so
    /// far.
    pub(crate) fn new(lo: Bound<Vec<u8>>, hi: Bound<Vec<u8>>, through: TableId) -> Self {
        Manual {
            lo,
            hi,
            rewrites: false,
            expired: 0,
            through,
            depth: 0,
            level: 0,
            group: 0,
            done_to: None,
        }
    }

    /// Has tables of the deepest level rewritten: those with an entry that has expired at a time,
    /// or all, so that a filter is asked about each entry.
    pub(crate) fn rewriting(self, expired: u64, all: bool) -> Self {
        Manual {
            rewrites: all,
            expired,
            ..self
        }
    }

    /// The next step. The previous plan must have been installed or given up.
    pub(crate) fn next<T: Facts>(
        &mut self,
        shape: &Shape<T>,
        targets: &[LevelTarget],
        running: &[RunningJob],
        limits: &PlanLimits,
    ) -> ManualStep {
        if std::mem::replace(&mut self.depth, shape.depth()) != shape.depth() {
            self.level = 0;
            self.group = 0;
            self.done_to = None;
        }
        let planner = Planner::new(shape, targets, running, limits);
        let bottom = planner.bottom();
        while self.level <= bottom {
            let Some(group) = shape.levels[self.level].groups.get(self.group) else {
                self.level += 1;
                self.group = 0;
                continue;
            };
            let whole = self.level == 0
                || group.runs.len() > 1
                || (self.level < bottom && planner.target(self.level).takes_several_runs());
            let draft = if whole {
                self.all_runs(group, self.level == bottom)
            } else {
                self.slice(&planner, group, self.level == bottom)
            };
            let Some(draft) = draft else {
                self.end_group();
                continue;
            };
            let end = draft.range().map(|(_, hi)| hi.to_vec());
            let Some(plan) = self.complete(&planner, draft, bottom) else {
                return ManualStep::Wait;
            };
            if whole {
                self.end_group();
            } else {
                self.done_to = self.done_to.take().max(end);
            }
            return ManualStep::Run(plan);
        }
        ManualStep::Done
    }

    fn end_group(&mut self) {
        self.group += 1;
        self.done_to = None;
    }

    fn complete<'s, T: Facts>(
        &self,
        planner: &Planner<'s, T>,
        draft: Draft<'s, T>,
        bottom: usize,
    ) -> Option<Plan> {
        if self.level < bottom {
            let next = planner.next_level(self.level)?;
            return planner.merge_down(draft, next, Reason::Manual);
        }
        let target = Target {
            level: bottom,
            group: self.group,
            run: draft.newest_run(),
        };
        planner.finish(draft, target, Reason::Manual)
    }

    /// All runs from the newest that overlaps the range to the oldest. At the bottom only if they
    /// are several.
    fn all_runs<'s, T: Facts>(&self, group: &'s Group<T>, at_bottom: bool) -> Option<Draft<'s, T>> {
        let newest = group
            .runs
            .iter()
            .position(|run| run.tables.iter().any(|table| self.awaits(table.meta())))?;
        let mut draft = Draft::default();
        for run in &group.runs[newest..] {
            draft.add(self.level, run.id, &run.tables);
        }
        Some(draft).filter(|draft| !(at_bottom && draft.runs() == 1))
    }

    /// The next tables of the group's only run, in key order, up to the size of a slice. At the
    /// bottom, only tables with tombstones or operands that existed when the compaction began.
    fn slice<'s, T: Facts>(
        &self,
        planner: &Planner<'s, T>,
        group: &'s Group<T>,
        at_bottom: bool,
    ) -> Option<Draft<'s, T>> {
        let run = group.runs.first()?;
        let awaited =
            |table: &TableMeta| self.awaits(table) && (!at_bottom || self.is_dirty(table));
        let from = run.tables.iter().position(|table| awaited(table.meta()))?;
        let mut to = from;
        let mut bytes = 0_u64;
        for table in &run.tables[from..] {
            bytes = bytes.saturating_add(table.meta().file_bytes);
            if !awaited(table.meta()) || (to > from && bytes > planner.limits.merge_bytes_max) {
                break;
            }
            to += 1;
        }
        let mut draft = Draft::default();
        draft.add(self.level, run.id, &run.tables[from..to]);
        Some(draft)
    }

    fn awaits(&self, table: &TableMeta) -> bool {
        let begins_before_end = match &self.hi {
            Bound::Included(hi) => table.smallest_key <= *hi,
            Bound::Excluded(hi) => table.smallest_key < *hi,
            Bound::Unbounded => true,
        };
        let ends_after_begin = match &self.lo {
            Bound::Included(lo) => table.largest_key >= *lo,
            Bound::Excluded(lo) => table.largest_key > *lo,
            Bound::Unbounded => true,
        };
        let is_new = self
            .done_to
            .as_ref()
            .is_none_or(|key| table.largest_key > *key);
        begins_before_end && ends_after_begin && is_new
    }

    fn is_dirty(&self, table: &TableMeta) -> bool {
        let rewritable = [table.tombstones, table.range_tombstones, table.operands];
        let expires = table
            .expiry
            .is_some_and(|(earliest, _)| earliest <= self.expired);
        let is_rewritable = self.rewrites || expires || rewritable.iter().any(|count| *count > 0);
        table.id <= self.through && is_rewritable
    }
}

impl<T: Facts> Planner<'_, T> {
    /// The deepest level that holds data. While all data is in level 0, the level that it goes to.
    fn bottom(&self) -> usize {
        let deepest = self
            .shape
            .levels
            .iter()
            .rposition(|level| !level.is_empty());
        match deepest {
            Some(level) if level > 0 => level,
            _ => self.next_level(0).unwrap_or(0),
        }
    }
}
