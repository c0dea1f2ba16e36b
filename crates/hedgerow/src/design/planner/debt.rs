//! The merge debt of a tree.

use crate::design::merge_policy::shape::{Facts, RUNS_MAX, Shape};
use crate::design::merge_policy::{LevelSummary, LevelTarget};

use super::levels::{is_used, next_level, target_of};

/// Three quarters of the most runs of a group.
const HIGH_STACK: f64 = 0.75 * RUNS_MAX as f64;

/// The merges that are needed until the targets are met.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Debt {
    /// The approximate bytes that merges still have to write, saturating.
    pub(crate) bytes: u64,
    /// Runs in level 0, and the number that makes a merge due.
    pub(crate) level0_runs: u32,
    pub(crate) level0_runs_max: u32,
    pub(crate) level0_bytes: u64,
    /// Levels over their target, level 0 included.
    pub(crate) levels_over: u32,
    /// Bytes above the capacity of their level, or in more runs than the level may have.
    pub(crate) misplaced_bytes: u64,
}

/// The part that one level has in the debt.
#[derive(Default)]
struct LevelDebt {
    bytes: f64,
    misplaced_bytes: u64,
    is_over: bool,
    /// The bytes that go down to the next level.
    down: f64,
}

/// The debt of a tree. The surplus of a level goes down and takes along what it overlaps there,
/// estimated by the ratio of the two levels. So it may put the next level over its target, and so
/// on. The debt is smooth in the shape above level 0, so that a throttle can follow it. Cost: a few
/// operations per level.
pub(crate) fn debt<T: Facts>(shape: &Shape<T>, targets: &[LevelTarget]) -> Debt {
    let level0 = shape.levels[0].summary();
    let mut debt = Debt {
        level0_runs: level0.runs,
        level0_runs_max: targets.first().map_or(1, LevelTarget::runs_max),
        level0_bytes: level0.bytes,
        ..Debt::default()
    };
    let (mut bytes, mut incoming) = (0.0, 0.0);
    for level in 0..targets.len().min(shape.depth()) {
        if level > 0 && !is_used(shape, targets, level) {
            continue; // Data from above skips this level.
        }
        let owed = match level > 0 && targets[level].is_of_nodes() && targets[level].is_in_use() {
            true => owed_by_nodes(&shape.levels[level].summary()),
            false => owed_by(shape, targets, level, incoming),
        };
        debt.levels_over += u32::from(owed.is_over);
        debt.misplaced_bytes = debt.misplaced_bytes.saturating_add(owed.misplaced_bytes);
        bytes += owed.bytes;
        incoming = owed.down;
    }
    debt.bytes = bytes as u64;
    debt
}

/// The part of a level of nodes. Nodes feed in turn: a node owes a merge only when it is close to
/// the most runs of a group.
fn owed_by_nodes(summary: &LevelSummary) -> LevelDebt {
    let high = f64::from(summary.runs) / HIGH_STACK - 1.0;
    let bytes = summary.bytes as f64 * high.max(0.0);
    LevelDebt {
        bytes,
        misplaced_bytes: bytes as u64,
        is_over: bytes > 0.0,
        down: 0.0,
    }
}

/// The part of a level without nodes, to which `incoming` bytes come down.
fn owed_by<T: Facts>(
    shape: &Shape<T>,
    targets: &[LevelTarget],
    level: usize,
    incoming: f64,
) -> LevelDebt {
    let (target, summary) = (&targets[level], shape.levels[level].summary());
    let held = summary.bytes as f64 + incoming;
    let has_runs_due = summary.runs >= target.runs_due();
    let next = next_level(shape, targets, level);
    let capacity = target.capacity_bytes().map(|bytes| bytes as f64);
    let has_room = capacity.is_some_and(|most| held <= most);
    if level > 0 && has_runs_due && target.takes_several_runs() && (next.is_none() || has_room) {
        // Neighbouring runs are merged in place, about a share of the level.
        return LevelDebt {
            bytes: held / f64::from(target.runs_max()),
            is_over: true,
            ..LevelDebt::default()
        };
    }
    let is_swept = shape.levels[level].draining.is_some() && target.takes_several_runs();
    let over = match has_runs_due || is_swept {
        true => held,
        false => capacity.map_or(0.0, |most| (held - most).max(0.0)),
    };
    let misplaced_bytes = (over - incoming).max(0.0) as u64;
    if over <= 0.0 || held <= 0.0 {
        return LevelDebt {
            misplaced_bytes,
            ..LevelDebt::default()
        };
    }
    let (bytes, down) = match next {
        Some(next) => {
            let overlapped = match target_of(shape, targets, next).is_leveled() {
                true => shape.levels[next].bytes() as f64 * (over / held),
                false => 0.0,
            };
            (over + overlapped, over)
        }
        None if summary.runs > 1 => (over, 0.0),
        None => (0.0, 0.0),
    };
    LevelDebt {
        bytes,
        misplaced_bytes,
        is_over: true,
        down,
    }
}

/// Writers wait for the merge at this multiple of the number of level 0 runs that makes it due, or
/// at the most runs of a group.
const LEVEL0_RUNS_LIMIT_FACTOR: u32 = 6;

/// The fills of a tree by the runs in level 0 and by the bytes that merges owe. The larger one
/// delays writers; at 1 they stop.
pub(crate) fn fills(debt: &Debt, memtable_bytes: u64, tree_bytes: u64) -> (f64, f64) {
    let owed_max = 64 * memtable_bytes + tree_bytes / 4;
    let by_runs = f64::from(debt.level0_runs) / f64::from(runs_limit(debt));
    (by_runs, debt.bytes as f64 / owed_max as f64)
}

/// The number of level 0 runs at which writers wait for the merge.
pub(crate) fn runs_limit(debt: &Debt) -> u32 {
    (debt.level0_runs_max.max(1) * LEVEL0_RUNS_LIMIT_FACTOR).min(RUNS_MAX as u32)
}
