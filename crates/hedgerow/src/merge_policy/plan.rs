//! What the planner decides, as plain data.

use crate::page::TableId;

use super::shape::RunId;

/// Why a plan was made, for events and statistics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    /// Level 0 has as many runs as it may have.
    Runs,
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
    /// The tables overlap nothing below: only the manifest changes.
    Move {
        input: Input,
        target: Target,
        reason: Reason,
    },
    /// Begin a partitioned full merge of a level: an edit that says `draining`. The sweep is over
    /// by itself when an edit takes the last awaited table down ([`super::shape::Shape::apply`]).
    Drain { level: usize, through: TableId },
    /// Append or drop empty levels at the bottom.
    #[allow(dead_code, reason = "policies that grow from the top ask for it")]
    SetDepth(usize),
}
