//! The levels as a policy uses them, and the way of data from one to the next. The planner and the
//! debt both ask here.

use crate::design::merge_policy::shape::{Facts, Shape};
use crate::design::merge_policy::{Capacity, Cut, LevelTarget};

/// The target of a level. The policy does not use a level that it names no target for.
pub(super) fn target_of<T: Facts>(
    shape: &Shape<T>,
    targets: &[LevelTarget],
    level: usize,
) -> LevelTarget {
    targets.get(level).copied().unwrap_or_else(|| {
        let is_last = level + 1 == shape.depth();
        let capacity = match is_last {
            true => Capacity::Unlimited,
            false => Capacity::Unused,
        };
        LevelTarget::leveled(capacity, Cut::OneTable)
    })
}

/// Returns true if the design uses the level or if the level holds data.
pub(super) fn is_used<T: Facts>(shape: &Shape<T>, targets: &[LevelTarget], level: usize) -> bool {
    target_of(shape, targets, level).is_in_use() || !shape.levels[level].is_empty()
}

/// The next level for data of a level: the first used one below, so that no data is skipped.
pub(super) fn next_level<T: Facts>(
    shape: &Shape<T>,
    targets: &[LevelTarget],
    level: usize,
) -> Option<usize> {
    (level + 1..shape.depth()).find(|below| is_used(shape, targets, *below))
}
