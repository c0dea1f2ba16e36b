//! A plan in the making: tables from the newest layer to the oldest, and the keys they span.

use crate::merge_policy::plan::{Input, Plan, Target};
use crate::merge_policy::shape::{Facts, Run, RunId, Shape};
use crate::page::TableId;

/// What the planner has to know of a job that runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RunningJob {
    pub(crate) inputs: Vec<TableId>,
    /// The smallest level that it takes tables from.
    pub(crate) top: usize,
    pub(crate) target: Target,
    /// The keys of all inputs, both inclusive; the output lies within.
    pub(crate) lo: Vec<u8>,
    pub(crate) hi: Vec<u8>,
}

impl RunningJob {
    /// The job that runs a plan; `None` for plans that only edit the manifest, and when an input is
    /// not in the tree.
    pub(crate) fn of<T: Facts>(shape: &Shape<T>, plan: &Plan) -> Option<RunningJob> {
        let (inputs, target) = match plan {
            Plan::Merge { inputs, target, .. } => (inputs.as_slice(), *target),
            Plan::Move { input, target, .. } => (std::slice::from_ref(input), *target),
            Plan::Drain { .. } | Plan::SetDepth(_) => return None,
        };
        let ids = inputs.iter().flat_map(|input| input.tables.iter().copied());
        let mut job = RunningJob {
            inputs: ids.collect(),
            top: inputs.iter().map(|input| input.level).min()?,
            target,
            lo: Vec::new(),
            hi: Vec::new(),
        };
        let mut range: Option<(&[u8], &[u8])> = None;
        for id in &job.inputs {
            let meta = shape.table(*id)?.1.meta();
            widen(&mut range, &meta.smallest_key, &meta.largest_key);
        }
        let (lo, hi) = range?;
        job.lo = lo.to_vec();
        job.hi = hi.to_vec();
        Some(job)
    }

    /// P3: whether a job from level `top` to `level` over these keys must wait for this one.
    pub(super) fn conflicts(&self, top: usize, level: usize, lo: &[u8], hi: &[u8]) -> bool {
        let overlaps = self.lo.as_slice() <= hi && lo <= self.hi.as_slice();
        let lands_where_this_passes = self.top < level && level < self.target.level;
        let passes_where_this_lands = top < self.target.level && self.target.level < level;
        overlaps
            && (self.target.level == level || lands_where_this_passes || passes_where_this_lands)
    }
}

fn widen<'s>(range: &mut Option<(&'s [u8], &'s [u8])>, lo: &'s [u8], hi: &'s [u8]) {
    *range = Some(match *range {
        Some((old_lo, old_hi)) => (old_lo.min(lo), old_hi.max(hi)),
        None => (lo, hi),
    });
}

/// Tables of one run, in key order.
#[derive(Debug)]
struct Part<'s, T> {
    level: usize,
    run: RunId,
    tables: &'s [T],
}

impl<T> Clone for Part<'_, T> {
    fn clone(&self) -> Self {
        Part { ..*self }
    }
}

/// Inputs, newest first, and the keys they span.
#[derive(Debug)]
pub(super) struct Draft<'s, T> {
    parts: Vec<Part<'s, T>>,
    range: Option<(&'s [u8], &'s [u8])>,
}

impl<T> Default for Draft<'_, T> {
    fn default() -> Self {
        Draft {
            parts: Vec::new(),
            range: None,
        }
    }
}

impl<T> Clone for Draft<'_, T> {
    fn clone(&self) -> Self {
        Draft {
            parts: self.parts.clone(),
            range: self.range,
        }
    }
}

impl<'s, T: Facts> Draft<'s, T> {
    /// Adds neighbouring tables of a run that is older than all the draft has.
    pub(super) fn add(&mut self, level: usize, run: RunId, tables: &'s [T]) {
        if let (Some(first), Some(last)) = (tables.first(), tables.last()) {
            widen(
                &mut self.range,
                &first.meta().smallest_key,
                &last.meta().largest_key,
            );
            self.parts.push(Part { level, run, tables });
        }
    }

    /// Adds the tables of an older run that overlap what the draft spans.
    pub(super) fn extend(&mut self, level: usize, run: &'s Run<T>) {
        if let Some((lo, hi)) = self.range {
            self.add(level, run.id, run.overlapping(lo, hi));
        }
    }

    /// Extends by all runs of these levels, from the newest to the oldest. What a layer adds widens
    /// what is taken from the layers below it, which is all that recency asks for.
    pub(super) fn descend(&mut self, shape: &'s Shape<T>, from: usize, to: usize) {
        for level in from..to {
            let Some((lo, hi)) = self.range else { return };
            for group in shape.levels[level].groups_overlapping(lo, hi) {
                for run in &group.runs {
                    self.extend(level, run);
                }
            }
        }
    }

    pub(super) fn range(&self) -> Option<(&'s [u8], &'s [u8])> {
        self.range
    }

    /// The level of the newest input.
    pub(super) fn top(&self) -> Option<usize> {
        self.parts.first().map(|part| part.level)
    }

    /// The number of the newest input's run.
    pub(super) fn newest_run(&self) -> Option<RunId> {
        self.parts.first().map(|part| part.run)
    }

    /// Whether all inputs are from one run.
    pub(super) fn is_alone(&self) -> bool {
        self.parts.len() == 1
    }

    pub(super) fn tables(&self) -> impl Iterator<Item = &'s T> {
        self.parts.iter().flat_map(|part| part.tables)
    }

    pub(super) fn into_inputs(self) -> Vec<Input> {
        let input = |part: Part<'s, T>| Input {
            level: part.level,
            run: part.run,
            tables: part.tables.iter().map(|table| table.meta().id).collect(),
        };
        self.parts.into_iter().map(input).collect()
    }
}
