//! Capacities that are parts of the last level's size.
//!
//! The levels above the last may hold a fixed part of its size, up to the *base level*, the
//! smallest whose capacity is still worth a merge out of level 0. So a tree grows at its small end:
//! a new level is added above the base. No capacity ever jumps, and the manifest records nothing.
//! The data outside the last level is at most the sum of the parts (specification of the models,
//! 1.7; `level_compaction_dynamic_level_bytes` in RocksDB). Level 0 goes to the base level. Levels
//! above the base that still hold data are drained first.
//!
//! Such a policy is data: a [`LevelStep`] for each distance from the last level.

use crate::base::options::CutSpec;

use super::{Capacity, Cut, LevelTarget, Policy, Summary, Targets, default_cut};

/// Runs of level 0 that leveled trees merge down together. More runs make merging cheaper, because
/// they divide the cost of the first merge, and reads dearer.
pub(crate) const LEVEL0_RUNS: u32 = 4;

/// The largest tree that [`Policy::depth`] provides for: a pebibyte.
const TREE_BYTES_MAX: f64 = (1_u64 << 50) as f64;
/// The size of a base level that [`Policy::depth`] assumes: [`LEVEL0_RUNS`] memtables of 64 MiB.
const BASE_BYTES: f64 = (256 << 20) as f64;
const DEPTH_MIN: usize = 7;
/// The depth that ratio 2 needs.
pub(super) const DEPTH_MAX: usize = 24;
/// Capacities stop here, far from where sums of them would overflow.
const CAPACITY_MAX: f64 = (1_u64 << 62) as f64;
/// The base level stays in use until its capacity falls to this part of the capacity that adds it.
const REMOVAL: f64 = 0.5;
/// A capacity this close to the one that adds a level counts as equal to it.
const ROUNDING: f64 = 1.0 - 1e-9;

/// The rule for the levels at one distance from the last.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct LevelStep {
    /// The natural logarithm of the capacity over the size of the last level.
    pub(super) ln_share: f64,
    pub(super) runs_max: u32,
    pub(super) cut: Cut,
}

/// A policy of parts of the last level.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LevelShares {
    /// Runs in level 0 that are merged down together.
    pub(super) level0_runs: u32,
    /// The base level is worth at least this many merges out of level 0.
    pub(super) base_merges: f64,
    /// The steps by distance, the last level first.
    pub(super) steps: Vec<LevelStep>,
}

impl LevelShares {
    /// Makes a step for each distance. `ln_ratio` is the natural logarithm of the ratio of the
    /// level's capacity to that of the level above. `runs_max` is the number of runs of the level.
    pub(super) fn new(
        level0_runs: u32,
        ln_ratio: impl Fn(usize) -> f64,
        runs_max: impl Fn(usize) -> u32,
        cut: CutSpec,
    ) -> LevelShares {
        let mut ln_share = 0.0;
        let mut ln_below = f64::INFINITY;
        let step = |distance| {
            let runs_max = runs_max(distance);
            let step = LevelStep {
                ln_share,
                runs_max,
                cut: default_cut(cut, ln_below.exp()),
            };
            ln_below = ln_ratio(distance);
            ln_share -= ln_below;
            step
        };
        LevelShares {
            level0_runs,
            base_merges: 1.0,
            steps: (0..DEPTH_MAX).map(step).collect(),
        }
    }

    /// The target of the level at this distance, with this capacity.
    fn target(&self, distance: usize, capacity: Capacity) -> LevelTarget {
        let step = self.steps[distance.min(self.steps.len() - 1)];
        LevelTarget::runs(capacity, step.runs_max, step.cut)
    }
}

impl Policy for LevelShares {
    fn targets(&self, summary: &Summary) -> Targets {
        let anchor = summary.levels.iter().skip(1).map(|level| level.bytes).max();
        let ln_anchor = (anchor.unwrap_or(0) as f64).ln();
        let capacity = |step: &LevelStep| (ln_anchor + step.ln_share).exp();
        let merge_bytes = summary.memtable_bytes.max(1) as f64 * f64::from(self.level0_runs.max(1));
        let base_min = merge_bytes * self.base_merges;

        let is_wanted = |step: &&LevelStep| capacity(step) >= base_min * ROUNDING;
        let wanted = 1 + self.steps[1..].iter().take_while(is_wanted).count();
        let depth = match summary.levels.len() {
            found if found > wanted => found,
            found => found.max(self.depth()),
        };
        let target = |level| self.target(depth - 1 - level, Capacity::Unused);
        let mut targets: Vec<LevelTarget> = (0..depth).map(target).collect();
        targets[depth - 1].capacity = Capacity::Unlimited;
        for (level, step) in (1..depth - 1).rev().zip(&self.steps[1..]) {
            let bytes = summary.levels.get(level).map_or(0, |level| level.bytes);
            let in_use = if bytes > 0 { REMOVAL } else { 1.0 };
            let capacity = capacity(step);
            if capacity < base_min * in_use * ROUNDING {
                break;
            }
            let bytes = round(capacity.max(base_min), summary.table_bytes);
            targets[level].capacity = Capacity::Bytes(bytes);
        }
        targets[0] = LevelTarget::flushed(self.level0_runs);
        targets.into()
    }

    /// Enough levels below level 0 that a pebibyte has a base level of 256 MiB: 6 to 23. A
    /// shallower tree, left by another design, becomes this deep once it has no room for a level. A
    /// tree that outgrows the depth (because its memtables are tiny) keeps a large base level,
    /// which costs only write amplification.
    fn depth(&self) -> usize {
        let ln_least = (BASE_BYTES / TREE_BYTES_MAX * ROUNDING).ln();
        let steps = self.steps.iter();
        let levels = steps.take_while(|step| step.ln_share >= ln_least).count();
        (levels + 1).clamp(DEPTH_MIN, DEPTH_MAX)
    }
}

/// Rounds to the nearest number of whole tables, at least one. Each capacity is rounded by itself,
/// so that errors do not add up.
pub(super) fn round(capacity: f64, table_bytes: u64) -> u64 {
    let unit = table_bytes.max(1) as f64;
    ((capacity / unit).round().max(1.0) * unit).min(CAPACITY_MAX) as u64
}
