//! What the planner decides, and what it must know of plans being carried out, as plain data.

use crate::base::entry::PartitionId;
use crate::base::page::TableId;

use super::edit::TreeEdit;
use super::shape::{Facts, RunId, Shape};

/// Why a plan was made, for events and statistics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    /// Level 0 has as many runs as it may have.
    Runs,
    /// Level 0 has fewer, and seeks have paid for the merge.
    Seeks,
    /// A level holds more than its capacity.
    Capacity,
    /// Many of a table's entries are tombstones.
    Tombstones,
    /// A level that the design has no use for is emptied.
    Drain,
    /// The user asked.
    Manual,
}

/// Some tables of one run, in key order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Input {
    pub(crate) level: usize,
    pub(crate) run: RunId,
    pub(crate) tables: Vec<TableId>,
}

/// Where the output goes: into this run (its inputs are replaced; it is made if it does not exist,
/// or has gone meanwhile) or, when none is named, into a new run that is the newest of its group.
/// Where the level has several groups, tables are cut at the borders and each goes to its own;
/// `group` is the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) level: usize,
    pub(crate) group: usize,
    pub(crate) run: Option<RunId>,
}

/// One step towards the targets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Plan {
    /// Merge these into sorted tables of the target run. Inputs are newest first.
    Merge {
        inputs: Vec<Input>,
        target: Target,
        reason: Reason,
    },
    /// The tables overlap neither each other nor anything below: only the manifest changes.
    Move {
        inputs: Vec<Input>,
        target: Target,
        reason: Reason,
    },
    /// Begin a sweep over a level, of the runs up to a number: an edit that says `draining`. It is over
    /// by itself when an edit takes the last awaited table down ([`super::shape::Shape::apply`]).
    Drain { level: usize, through: RunId },
    /// Append or drop empty levels at the bottom, and remember how many the policy counts.
    SetDepth { depth: usize, nominal_depth: u8 },
    /// Cut a level into so many groups: every table lies within one of them. No job has anything to do with
    /// the level.
    SetRanges { level: usize, ranges: u32 },
    /// Insert or drop empty levels under level 0, so that the tree has so many: the others keep what
    /// they hold and their distance from the last, but not their numbers. No job may run meanwhile.
    Shift(usize),
}

impl Plan {
    /// What the plan itself changes: all of it, unless it takes tables, which are for who carries it out.
    pub(crate) fn edit(&self, partition: PartitionId) -> TreeEdit {
        let mut edit = TreeEdit::new(partition);
        match self {
            Plan::Drain { level, through } => edit.draining.push((*level as u8, Some(*through))),
            Plan::SetDepth {
                depth,
                nominal_depth,
            } => {
                edit.depth = Some(*depth as u8);
                edit.nominal_depth = Some(*nominal_depth);
            }
            Plan::SetRanges { level, ranges } => edit.ranges.push((*level as u8, *ranges)),
            Plan::Shift(depth) => edit.shift_to = Some(*depth as u8),
            Plan::Merge { .. } | Plan::Move { .. } => {}
        }
        edit
    }
}

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
    /// In the way of every other job: it changes which levels there are.
    pub(crate) is_alone: bool,
}

impl RunningJob {
    /// The job that runs a plan; `None` for the beginning of a sweep, and when an input is not in the
    /// tree.
    pub(crate) fn of<T: Facts>(shape: &Shape<T>, plan: &Plan) -> Option<RunningJob> {
        let (inputs, target) = match plan {
            Plan::Merge { inputs, target, .. } | Plan::Move { inputs, target, .. } => {
                (inputs, *target)
            }
            Plan::Drain { .. } => return None,
            Plan::SetDepth { .. } | Plan::SetRanges { .. } | Plan::Shift(_) => {
                return Some(RunningJob::alone());
            }
        };
        let ids = inputs.iter().flat_map(|input| input.tables.iter().copied());
        let mut job = RunningJob {
            inputs: ids.collect(),
            top: inputs.iter().map(|input| input.level).min()?,
            target,
            lo: Vec::new(),
            hi: Vec::new(),
            is_alone: false,
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

    fn alone() -> RunningJob {
        RunningJob {
            inputs: Vec::new(),
            top: 0,
            target: Target {
                level: 0,
                group: 0,
                run: None,
            },
            lo: Vec::new(),
            hi: Vec::new(),
            is_alone: true,
        }
    }

    /// P3: whether a job from level `top` to `level` over these keys must wait for this one.
    pub(crate) fn conflicts(&self, top: usize, level: usize, lo: &[u8], hi: &[u8]) -> bool {
        let overlaps = self.lo.as_slice() <= hi && lo <= self.hi.as_slice();
        let lands_where_this_passes = self.top < level && level < self.target.level;
        let passes_where_this_lands = top < self.target.level && self.target.level < level;
        self.is_alone
            || overlaps
                && (self.target.level == level
                    || lands_where_this_passes
                    || passes_where_this_lands)
    }
}

/// Makes a range of keys, both inclusive, wide enough for another.
pub(crate) fn widen<'s>(range: &mut Option<(&'s [u8], &'s [u8])>, lo: &'s [u8], hi: &'s [u8]) {
    *range = Some(match *range {
        Some((old_lo, old_hi)) => (old_lo.min(lo), old_hi.max(hi)),
        None => (lo, hi),
    });
}
