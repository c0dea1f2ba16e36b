//! Fits a tree to a policy that wants another number of levels.
//!
//! Capacities are anchored at the last level, so levels come and go at the other end, directly
//! under level 0, and no table moves. Levels that a policy does not use are drained like any other
//! before they go.

use crate::design::merge_policy::plan::Plan;
use crate::design::merge_policy::shape::{Facts, Level, Shape};
use crate::design::merge_policy::{Capacity, LevelSummary, LevelTarget, Policy, Summary, Targets};

/// The targets of a policy for each level of a tree. A tree that lacks levels gets the targets that
/// it will have with them.
pub(crate) fn fitted_targets(policy: &dyn Policy, mut summary: Summary) -> Targets {
    let lacking = policy.depth().saturating_sub(summary.levels.len());
    let empty = std::iter::repeat_n(LevelSummary::default(), lacking);
    summary.levels.splice(1..1, empty);
    let mut targets = policy.targets(&summary);
    targets.levels.drain(1..1 + lacking);
    targets
}

/// The shift towards the policy's depth. Missing levels are inserted at once. Surplus levels are
/// removed only while they are empty and have no capacity target; a level with a target belongs to
/// the policy.
pub(crate) fn fit_depth<T: Facts>(
    shape: &Shape<T>,
    targets: &[LevelTarget],
    depth: usize,
) -> Option<Plan> {
    let found = shape.depth();
    let below = shape.levels.iter().zip(targets).skip(1);
    let is_spare = |(level, target): &(&Level<T>, &LevelTarget)| {
        level.is_empty() && !matches!(target.capacity, Capacity::Bytes(_))
    };
    let empty = below.take_while(is_spare).count();
    let spare = found.saturating_sub(depth).min(empty);
    let fitted = depth.max(found - spare);
    (fitted != found).then_some(Plan::Shift(fitted))
}
