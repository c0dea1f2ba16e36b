//! Level 0: flushed runs, each of which may span all keys.

use crate::design::merge_policy::plan::{Plan, Reason, Target};
use crate::design::merge_policy::shape::{Facts, Run};

use super::draft::Draft;
use super::{Planner, draft_of};

impl<'s, T: Facts> Planner<'s, T> {
    /// Takes all runs down together. While a job takes runs out of level 0 or blocks the way below,
    /// it merges newer runs with each other once they are many, so that reads stay bearable. If the
    /// oldest runs can go down alone, more of them do, one after another, instead.
    pub(super) fn plan_level0(&self) -> Option<Plan> {
        self.runs_down().or_else(|| self.runs_together())
    }

    /// Takes all runs down before they are due, so that reads ask one run only. Does nothing
    /// if they would also become one run of several below.
    pub(super) fn plan_for_reads(&self) -> Option<Plan> {
        let next = self.next_level(0)?;
        if self.target(0).is_of_nodes() || self.target(next).takes_several_runs() {
            return None;
        }
        self.merge_down(draft_of(0, self.runs()), next, Reason::Seeks)
    }

    fn runs(&self) -> &'s [Run<T>] {
        &self.shape.levels[0].groups[0].runs
    }

    fn runs_down(&self) -> Option<Plan> {
        let runs = self.runs();
        if runs.iter().any(|run| self.is_busy(run)) {
            return None; // P4
        }
        let next = self.next_level(0)?;
        let target = self.target(0);
        if target.is_of_nodes() {
            let group = &self.shape.levels[0].groups[0];
            return self.merge_down(self.feed(0, group, &target), next, Reason::Runs);
        }
        if let Some(plan) = self.oldest_runs_down(next) {
            return Some(plan);
        }
        self.merge_down(draft_of(0, runs), next, Reason::Runs)
    }

    /// The oldest runs need no merge if they overlap neither another run nor anything below, as for
    /// keys written in order. They go down together if that holds for their whole range, otherwise
    /// the oldest goes alone.
    fn oldest_runs_down(&self, next: usize) -> Option<Plan> {
        let runs = self.runs();
        let is_apart = |nth: &usize| overlapping(&runs[*nth], &runs[..*nth]).is_none();
        let first = (0..runs.len()).rev().take_while(is_apart).last()?;
        let meets_nothing = |draft: &Draft<'s, T>| {
            let mut below = draft.clone();
            below.descend(self.shape, 1, next + 1);
            below.runs() == draft.runs()
        };
        let draft = [&runs[first..], &runs[runs.len() - 1..]]
            .map(|runs| draft_of(0, runs))
            .into_iter()
            .find(meets_nothing)?;
        self.merge_down(draft, next, Reason::Runs)
    }

    /// Merges the newest idle runs into one that keeps the number of the newest. The choice ends at
    /// a run larger than all newer ones together, so that no byte is merged again and again. Runs
    /// without overlap, of keys written in order, wait until they are twice as many: a key is in at
    /// most one of them, and they may go down unchanged as soon as the earlier runs are down. When
    /// they are that many, their tables move into one run, unread.
    fn runs_together(&self) -> Option<Plan> {
        let runs_max = self.target(0).runs_max() as usize;
        let runs = self.runs();
        if runs.len() <= 2 * runs_max || self.target(0).is_of_nodes() {
            return None;
        }
        let mut draft = Draft::default();
        let (mut count, mut bytes) = (0, 0_u64);
        for run in runs.iter().take_while(|run| !self.is_busy(run)) {
            if count >= 2 && run.bytes() > bytes {
                break;
            }
            draft.add(0, run.id, &run.tables);
            bytes = bytes.saturating_add(run.bytes());
            count += 1;
        }
        let are_bearable = runs.len() <= 4 * runs_max && are_apart(&runs[..count]);
        if count < runs_max.max(2) || are_bearable {
            return None;
        }
        let target = Target {
            level: 0,
            group: 0,
            run: Some(runs[0].id),
        };
        self.finish(draft, target, Reason::Runs)
    }
}

/// True if no run overlaps another one.
fn are_apart<T: Facts>(runs: &[Run<T>]) -> bool {
    let mut newer = (0..runs.len()).map(|nth| overlapping(&runs[nth], &runs[..nth]));
    newer.all(|overlapped| overlapped.is_none())
}

/// A run, out of `others`, with a table between the ends of `run`.
fn overlapping<'a, T: Facts>(run: &Run<T>, others: &'a [Run<T>]) -> Option<&'a Run<T>> {
    let (first, last) = run.tables.first().zip(run.tables.last())?;
    let (lo, hi) = (&first.meta().smallest_key, &last.meta().largest_key);
    others.iter().find(|it| !it.overlapping(lo, hi).is_empty())
}
