//! Fitting a tree to a policy that wants another number of levels than it has.
//!
//! Capacities are anchored at the last level, so levels come and go at the other end, directly under
//! level 0: no table has to go anywhere. Those that a policy has no use for are drained like any
//! other before they go.

use crate::merge_policy::plan::Plan;
use crate::merge_policy::shape::{Facts, Shape};

/// The shift that brings a tree nearer to a depth: all levels that it lacks, or as many of those it
/// has too many as are empty.
pub(crate) fn fit_depth<T: Facts>(shape: &Shape<T>, depth: usize) -> Option<Plan> {
    let found = shape.depth();
    let below = shape.levels.iter().skip(1);
    let empty = below.take_while(|level| level.is_empty()).count();
    let spare = found.saturating_sub(depth).min(empty);
    let fitted = depth.max(found - spare);
    (fitted != found).then_some(Plan::Shift(fitted))
}
