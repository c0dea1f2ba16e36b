//! Garnering, and leveling as its simplest case.

use crate::options::CutSpec;

use super::anchored::{Anchored, LEVEL0_RUNS};
use super::default_cut;

/// One run per level; the ratio of the level `k` above the last to the one above it is
/// `ratio / scaling^k`, so small levels are merged less often and there are fewer of them: the number
/// of levels grows with the square root of the logarithm of the size \[Autumn, section 3\]. With
/// scaling factor 1 it is leveling \[O'Neil\].
///
/// The capacities are the closed form `c^(k(k-1)/2) / T^k` of the last level's actual size, which
/// does not contain the number of levels (specification of the models, 1.2 and 1.7). What is not in
/// the last level is less than `1 / (T - 1)` of it.
pub(super) fn garnering(ratio: f64, scaling: f64, cut: CutSpec) -> Anchored {
    let ln_ratio = |distance: usize| ratio.ln() - distance as f64 * scaling.ln();
    Anchored::new(LEVEL0_RUNS, ln_ratio, |distance| {
        (1, default_cut(cut, 1, distance))
    })
}
