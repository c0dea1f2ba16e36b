//! The planner's decisions, and its view of running jobs, as plain data.

use crate::base::entry::PartitionId;
use crate::base::page::TableId;

use super::shape::{Facts, Shape};
use super::tree_edit::TreeEdit;
use crate::base::entry::RunId;

/// The reason for a plan, for events and statistics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    /// Level 0 has as many runs as it may have.
    Runs,
    /// Level 0 has fewer, and seeks have paid for the merge.
    Seeks,
    /// A level is over its capacity.
    Capacity,
    /// Many of a table's entries are tombstones.
    Tombstones,
    /// The design does not use the level, so it is drained.
    Drain,
    /// The user requested it.
    Manual,
}

/// Some tables of one run, in key order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Input {
    pub(crate) level: usize,
    pub(crate) run: RunId,
    pub(crate) tables: Vec<TableId>,
}

/// The place of the output. A named run takes the output in place of the inputs; it is made if it
/// does not exist (any more). Without a name the output becomes the newest run of its group. In a
/// level of several groups, tables are cut at the borders and each goes to its own group; `group`
/// is the first of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) level: usize,
    pub(crate) group: usize,
    pub(crate) run: Option<RunId>,
}

/// One step towards the targets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Plan {
    /// Merges the inputs, newest first, into sorted tables of the target run.
    Merge {
        inputs: Vec<Input>,
        target: Target,
        reason: Reason,
    },
    /// Moves tables that overlap neither each other nor anything where they come to. Only the
    /// manifest changes.
    Move {
        inputs: Vec<Input>,
        target: Target,
        reason: Reason,
    },
    /// Drops tables unread, because range tombstones hide all that is in them from every reader.
    Discard { inputs: Vec<Input> },
    /// Begins a sweep over the runs of a level up to a number, by an edit with `draining`. The
    /// sweep ends with the edit that takes the last awaited table down
    /// ([`super::shape::Shape::apply`]).
    Drain { level: usize, through: RunId },
    /// Appends or drops empty levels at the bottom, and records the policy's note.
    SetDepth { depth: usize, policy_note: u8 },
    /// Cuts a level into `ranges` groups. Every table lies within one of them, and no running job
    /// uses the level.
    SetRanges { level: usize, ranges: u32 },
    /// Inserts or drops empty levels under level 0, so that the tree has this many. The other
    /// levels keep their data and their distance from the last level, but not their numbers. No job
    /// may run meanwhile.
    Shift(usize),
}

impl Plan {
    /// The edit of the plan itself: all of it for a plan that writes or moves no tables. A job adds
    /// the tables.
    pub(crate) fn edit(&self, partition: PartitionId) -> TreeEdit {
        let mut edit = TreeEdit::new(partition);
        match self {
            Plan::Drain { level, through } => edit.draining.push((*level as u8, Some(*through))),
            Plan::SetDepth { depth, policy_note } => {
                edit.depth = Some(*depth as u8);
                edit.policy_note = Some(*policy_note);
            }
            Plan::SetRanges { level, ranges } => edit.ranges.push((*level as u8, *ranges)),
            Plan::Shift(depth) => edit.shift_to = Some(*depth as u8),
            Plan::Discard { inputs } => {
                let ids = inputs.iter().flat_map(|input| &input.tables);
                edit.removed = ids.copied().collect();
            }
            Plan::Merge { .. } | Plan::Move { .. } => {}
        }
        edit
    }
}

/// The planner's view of a running job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RunningJob {
    pub(crate) inputs: Vec<TableId>,
    /// The smallest level of its inputs.
    pub(crate) top: usize,
    pub(crate) target: Target,
    /// The key range of all inputs, both ends inclusive. The output lies within.
    pub(crate) lo: Vec<u8>,
    pub(crate) hi: Vec<u8>,
    /// True if it blocks every other job, because it changes the levels.
    pub(crate) is_alone: bool,
}

impl RunningJob {
    /// The job of a plan; `None` for the beginning of a sweep, and if an input is not in the tree.
    pub(crate) fn of<T: Facts>(shape: &Shape<T>, plan: &Plan) -> Option<RunningJob> {
        let (inputs, target) = match plan {
            Plan::Merge { inputs, target, .. } | Plan::Move { inputs, target, .. } => {
                (inputs, *target)
            }
            Plan::Discard { inputs } => {
                // It writes nowhere. Its target is a level of its inputs.
                let target = Target {
                    level: inputs.iter().map(|input| input.level).min()?,
                    group: 0,
                    run: None,
                };
                (inputs, target)
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

    /// P3: true if a job from level `top` to `level` over these keys must wait for this one.
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

/// Widens an inclusive range of keys to include another.
pub(crate) fn widen<'s>(range: &mut Option<(&'s [u8], &'s [u8])>, lo: &'s [u8], hi: &'s [u8]) {
    *range = Some(match *range {
        Some((old_lo, old_hi)) => (old_lo.min(lo), old_hi.max(hi)),
        None => (lo, hi),
    });
}
