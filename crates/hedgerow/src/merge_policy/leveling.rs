//! Leveling: one run per level, each level `T` times the one above.
//!
//! The capacities are anchored at the bottom: the last level is as large as it is, the one above
//! it may hold a `T`-th of that, and so on up to the *base level*, the smallest whose capacity is
//! still worth a merge out of level 0. So a tree grows at its small end: a level is added above the
//! base, no capacity ever jumps, and what is not in the last level is at most `1 / (T - 1)` of it
//! (this is O'Neil's leveling with the capacities of `level_compaction_dynamic_level_bytes`, and
//! Garnering with scaling factor 1).

use super::{Cut, LevelTarget, Policy, Summary};

/// Runs in level 0 that are merged down together. More make merging cheaper (they divide the cost
/// of the first merge) and reads dearer.
pub(crate) const LEVEL0_RUNS: u32 = 4;

/// The largest tree that [`Policy::depth`] provides for: a pebibyte.
const TREE_BYTES_MAX: f64 = (1_u64 << 50) as f64;
/// The size of a base level that [`Policy::depth`] assumes: [`LEVEL0_RUNS`] memtables of 64 MiB.
const BASE_BYTES: f64 = (256 << 20) as f64;
const DEPTH_MIN: usize = 7;
/// What ratio 2 needs.
const DEPTH_MAX: usize = 23;
/// Capacities stop here, far from where sums of them would overflow.
const CAPACITY_MAX: f64 = (1_u64 << 62) as f64;
/// The base level stays in use until its capacity is this part of what would add it.
const REMOVAL: f64 = 0.5;

/// The policy and its parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Leveling {
    /// The ratio of the capacities of neighbouring levels, at least 2.
    pub(crate) ratio: u32,
    pub(crate) cut: Cut,
    /// Runs in level 0 that are merged down together.
    pub(crate) level0_runs: u32,
}

impl Leveling {
    pub(crate) fn new(ratio: u32, cut: Cut) -> Self {
        Leveling {
            ratio: ratio.max(2),
            cut,
            level0_runs: LEVEL0_RUNS,
        }
    }

    /// The capacity of the level `distance` above the last one, before rounding.
    fn capacity(&self, last_bytes: u64, distance: usize) -> f64 {
        last_bytes as f64 / f64::from(self.ratio).powf(distance as f64)
    }

    fn target(&self, capacity_bytes: u64) -> LevelTarget {
        LevelTarget {
            capacity_bytes,
            runs_max: 1,
            ranges: 1,
            cut: self.cut,
        }
    }
}

impl Policy for Leveling {
    fn targets(&self, summary: &Summary) -> Vec<LevelTarget> {
        let depth = summary.levels.len();
        let mut targets = vec![self.target(0); depth];
        let anchor = summary.levels.iter().skip(1).map(|level| level.bytes).max();
        let base_min = summary.memtable_bytes.max(1) as f64 * f64::from(self.level0_runs.max(1));
        if let Some(last) = targets.last_mut() {
            last.capacity_bytes = u64::MAX;
        }
        for distance in 1..depth.saturating_sub(1) {
            let level = depth - 1 - distance;
            let capacity = self.capacity(anchor.unwrap_or(0), distance);
            let in_use = summary.levels[level].bytes > 0;
            if capacity < base_min * if in_use { REMOVAL } else { 1.0 } {
                break;
            }
            targets[level].capacity_bytes = round(capacity, summary.table_bytes);
        }
        if let Some(first) = targets.first_mut() {
            first.capacity_bytes = u64::MAX;
            first.runs_max = self.level0_runs;
        }
        targets
    }

    /// Enough levels below level 0 that a pebibyte has a base level of 256 MiB: 7 to 23. A tree
    /// that outgrows them (because its memtables are tiny) works on with a large base level, which
    /// costs write amplification and nothing else.
    fn depth(&self) -> usize {
        let steps = (TREE_BYTES_MAX / BASE_BYTES).ln() / f64::from(self.ratio).ln();
        // Rounded first, so that an exact power does not become one level more.
        let levels = 1.0 + ((steps * 1e6).round() / 1e6).ceil();
        (levels as usize).clamp(DEPTH_MIN, DEPTH_MAX)
    }
}

/// To the nearest number of whole tables, at least one. Each capacity is rounded by itself, so that
/// errors do not add up.
fn round(capacity: f64, table_bytes: u64) -> u64 {
    let unit = table_bytes.max(1) as f64;
    ((capacity / unit).round().max(1.0) * unit).min(CAPACITY_MAX) as u64
}
