//! Garnering, with leveling as its simplest case.

use crate::base::options::CutSpec;

use super::anchored::{LEVEL0_RUNS, LevelShares};

/// One run per level. The ratio of the level `k` above the last to the one above it is `ratio /
/// scaling^k`. So small levels are merged less often and there are fewer of them: the number of
/// levels grows with the square root of the logarithm of the size \[Autumn, section 3\]. With
/// scaling factor 1 it is leveling \[O'Neil\].
///
/// The capacities are the closed form `c^(k(k-1)/2) / T^k` of the last level's actual size, which
/// does not contain the number of levels (specification of the models, 1.2 and 1.7). The data
/// outside the last level is less than `1 / (T - 1)` of it.
pub(super) fn garnering(ratio: f64, scaling: f64, cut: CutSpec) -> LevelShares {
    let ln_ratio = |distance: usize| ratio.ln() - distance as f64 * scaling.ln();
    LevelShares::new(LEVEL0_RUNS, ln_ratio, |_| 1, cut)
}

#[cfg(test)]
mod tests {
    use crate::design::merge_policy::{LevelSummary, Policy, Summary};

    use super::*;

    /// `C_{L-k} / C_L` of equation 5 (specification of the models, 1.2), multiplied up from the
    /// last level as in `reference/anchored.py`.
    #[test]
    fn capacities_are_those_of_the_reference() {
        for (ratio, scaling) in [(5.0, 1.0), (2.0, 0.8), (4.0, 0.8), (6.0, 0.9), (2.0, 0.4)] {
            let policy = garnering(ratio, scaling, CutSpec::Auto);
            let last = 1_u64 << 50;
            let mut levels = vec![LevelSummary::default(); policy.depth()];
            levels.last_mut().unwrap().bytes = last;
            let targets = policy.targets(&Summary {
                levels,
                memtable_bytes: 1 << 20,
                table_bytes: 1,
                policy_note: 0,
            });
            let mut expected = last as f64;
            let above = targets[1..].iter().rev().skip(1);
            let mut used = 0;
            for (k, target) in above.take_while(|it| it.is_in_use()).enumerate() {
                expected *= scaling.powi(k as i32) / ratio;
                let error = (target.capacity_bytes().unwrap() as f64 / expected - 1.0).abs();
                assert!(error < 1e-6, "T={ratio} c={scaling}: {target:?} {expected}");
                used += 1;
            }
            // All the levels that are worth a merge of four memtables, and no more.
            let next = expected * scaling.powi(used) / ratio;
            let has_room = targets.len() > used as usize + 2;
            assert!(expected >= 4e6 && (next < 4.2e6 || !has_room), "{next}");
        }
    }
}
