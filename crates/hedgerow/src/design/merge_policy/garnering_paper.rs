//! Garnering as its paper counts levels: from the top.

use crate::base::options::CutSpec;

use super::anchored::{LEVEL0_RUNS, round};
use super::{Capacity, LevelTarget, Policy, Summary, Targets, default_cut};

/// The deepest tree. From then on the last level takes everything.
const DEPTH_MAX: usize = 60;
/// The tree loses a level when this part of the other levels' capacities would hold all data …
const SHRINK_TOTAL: f64 = 0.5;
/// … and none of them would exceed its own capacity more than this many times. So no storm of
/// merges follows.
const SHRINK_LEVEL: f64 = 2.0;

/// One run per level, with capacities `C_i = B T^i c^-(iL - i(i+1)/2)` for level `i` of `L`
/// \[Autumn, equation 5\], where `B` is a memtable. When the last level is full, the number of
/// levels `L` grows. This enlarges every capacity, and nothing moves: delayed last-level
/// compaction. The tables do not show `L`, the *nominal depth*, so it is the policy's
/// note ([`Summary::policy_note`]).
///
/// The `L` levels are the last ones of the tree. A tree that came from another design, or that has
/// shrunk, has unused levels above them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct GarneringPaper {
    pub(super) ratio: f64,
    pub(super) scaling: f64,
}

impl GarneringPaper {
    /// The capacity of level `level` (from 1) of `nominal`, in memtables.
    pub(super) fn capacity(&self, level: usize, nominal: usize) -> f64 {
        let (i, l) = (level as f64, nominal as f64);
        (i * self.ratio.ln() - (i * l - i * (i + 1.0) / 2.0) * self.scaling.ln()).exp()
    }

    /// The factors by which a tree of `depth` levels, of which `nominal` are used, exceeds its
    /// capacities: the largest factor of a level, and that of all data. Data above the used levels
    /// counts for the first of them.
    fn scores(&self, summary: &Summary, depth: usize, nominal: usize) -> (f64, f64) {
        let memtable = summary.memtable_bytes.max(1) as f64;
        let (mut largest, mut bytes, mut capacities) = (0.0_f64, 0.0, 0.0);
        for level in 1..=nominal {
            let capacity = self.capacity(level, nominal) * memtable;
            let at = depth - 1 - nominal + level;
            let from = if level == 1 { 1 } else { at };
            let of = summary.levels.iter().take(at + 1).skip(from);
            let held: f64 = of.map(|level| level.bytes as f64).sum();
            largest = largest.max(held / capacity);
            bytes += held;
            capacities += capacity;
        }
        (largest, bytes / capacities)
    }

    /// The depth that the tree should have, and its nominal depth.
    fn depths(&self, summary: &Summary) -> (usize, usize) {
        let depth = summary.levels.len().max(2);
        let fits = |nominal: &usize| self.scores(summary, depth, *nominal).0 <= 1.0;
        let nominal = match summary.policy_note {
            0 => (1..depth).find(fits).unwrap_or(depth - 1),
            nominal => usize::from(nominal).min(depth - 1),
        };
        let last = summary.levels.get(depth - 1).map_or(0, |level| level.bytes);
        let full = self.capacity(nominal, nominal) * summary.memtable_bytes.max(1) as f64;
        if last as f64 > full && depth < DEPTH_MAX {
            return (depth + 1, nominal + 1);
        }
        if nominal > 1 {
            let depth = if last == 0 { depth - 1 } else { depth };
            let (largest, total) = self.scores(summary, depth, nominal - 1);
            if largest <= SHRINK_LEVEL && total <= SHRINK_TOTAL {
                return (depth, nominal - 1);
            }
        }
        (depth, nominal)
    }
}

impl Policy for GarneringPaper {
    fn targets(&self, summary: &Summary) -> Targets {
        let (depth, nominal) = self.depths(summary);
        let target = |at: usize| {
            let distance = depth - 1 - at;
            let capacity = match nominal.checked_sub(distance) {
                _ if distance == 0 => Capacity::Unlimited,
                None | Some(0) => Capacity::Unused,
                Some(level) => {
                    let memtable = summary.memtable_bytes.max(1) as f64;
                    let capacity = self.capacity(level, nominal) * memtable;
                    Capacity::Bytes(round(capacity, summary.table_bytes))
                }
            };
            let ratio_below = self.ratio / self.scaling.powf(distance.saturating_sub(1) as f64);
            LevelTarget::leveled(capacity, default_cut(CutSpec::Auto, ratio_below))
        };
        let mut levels: Vec<LevelTarget> = (0..depth).map(target).collect();
        levels[0] = LevelTarget::flushed(LEVEL0_RUNS);
        Targets {
            levels,
            policy_note: nominal as u8,
        }
    }

    /// A new tree has one level below level 0. Others are added as it grows.
    fn depth(&self) -> usize {
        2
    }
}

#[cfg(test)]
mod tests {
    use super::super::LevelSummary;
    use super::*;

    /// Specification of the models, 1.9 (`reference/garnering.py`), in memtables.
    #[test]
    fn capacities_are_those_of_the_reference() {
        let expected: [(f64, &[f64]); 8] = [
            (0.8, &[3.13, 7.81, 15.6]),
            (0.8, &[3.91, 12.2, 30.5, 61.0]),
            (0.8, &[4.88, 19.1, 59.6, 149.0, 298.0]),
            (0.8, &[6.10, 29.8, 116.0, 364.0, 910.0, 1819.0]),
            (0.4, &[12.5, 62.5, 125.0]),
            (0.4, &[31.3, 391.0, 1953.0, 3906.0]),
            (0.4, &[78.1, 2441.0, 3.05e4, 1.53e5, 3.05e5]),
            (0.4, &[195.0, 1.53e4, 4.77e5, 5.96e6, 2.98e7, 5.96e7]),
        ];
        for (scaling, capacities) in expected {
            let policy = GarneringPaper {
                ratio: 2.0,
                scaling,
            };
            for (at, expected) in capacities.iter().enumerate() {
                let found = policy.capacity(at + 1, capacities.len());
                let error = (found / expected - 1.0).abs();
                assert!(
                    error < 0.005,
                    "c={scaling} level {}: {found} {expected}",
                    at + 1
                );
            }
        }
    }

    /// Otherwise merging would not end: the data of the lost level would make the last level exceed
    /// its capacity, and a new last level would take it up again.
    #[test]
    fn a_tree_that_loses_a_level_has_room_for_what_it_held() {
        let mut random = 23_u64;
        let mut below = |bound: u64| {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (random >> 33) % bound
        };
        let summary = |bytes: &[u64], memtable_bytes, policy_note| Summary {
            levels: bytes.iter().map(|&bytes| held(bytes)).collect(),
            memtable_bytes,
            table_bytes: 1,
            policy_note,
        };
        let mut lost = 0;
        for _ in 0..20_000 {
            let policy = GarneringPaper {
                ratio: 2.0 + below(80) as f64 / 10.0,
                scaling: (1 + below(10)) as f64 / 10.0,
            };
            let (nominal, unused, memtable_bytes) = (1 + below(5), below(2), 1 + below(10));
            let mut bytes = vec![0];
            for _ in 0..nominal + unused {
                let bound = 1 << below(12);
                bytes.push(below(bound));
            }
            let before = policy.targets(&summary(&bytes, memtable_bytes, nominal as u8));
            if before.policy_note >= nominal as u8 {
                continue;
            }
            lost += 1;
            for at in 1..before.len() {
                let mut all_in_one = vec![0; before.len()];
                all_in_one[at] = bytes.iter().sum();
                let after = summary(&all_in_one, memtable_bytes, before.policy_note);
                let grown = policy.targets(&after).policy_note > before.policy_note;
                assert!(!grown, "{policy:?} {bytes:?} {after:?}");
            }
        }
        assert!(lost > 1000, "{lost}");
    }

    fn held(bytes: u64) -> LevelSummary {
        LevelSummary {
            bytes,
            ..LevelSummary::default()
        }
    }

    /// The table of level counts of 1.9: entries of 116 bytes, memtables of 64 MiB. A last level
    /// that is not full yet makes fewer physical levels. A tree is filled level by level.
    #[test]
    fn level_counts_are_those_of_the_reference() {
        let expected = [
            (2.0, 0.8, [3, 5, 6, 7, 8, 9]),
            (3.0, 0.8, [3, 4, 5, 6, 7, 8]),
            (5.0, 0.8, [2, 3, 4, 5, 6, 7]),
            (2.0, 0.6, [3, 4, 5, 6, 6, 7]),
            (2.0, 0.4, [3, 3, 4, 5, 5, 6]),
            (5.0, 0.4, [2, 3, 3, 4, 4, 5]),
            (10.0, 1.0, [2, 3, 4, 5, 6, 7]),
        ];
        for (ratio, scaling, counts) in expected {
            let policy = GarneringPaper { ratio, scaling };
            for (exponent, expected) in (7..).zip(counts) {
                let memtables = 10_f64.powi(exponent) * 116.0 / f64::from(64 << 20);
                let holds = |levels: &usize| {
                    let all = (1..=*levels).map(|level| policy.capacity(level, *levels));
                    all.sum::<f64>() >= memtables
                };
                let found = (1..).find(holds);
                assert_eq!(found, Some(expected), "T={ratio} c={scaling} 10^{exponent}");
            }
        }
    }
}
