//! Garnering as its paper counts it: from the top.

use crate::options::CutSpec;

use super::anchored::{LEVEL0_RUNS, round};
use super::{LevelTarget, Policy, Summary, Targets, default_cut};

/// Trees stop growing here; the last level takes what comes.
const DEPTH_MAX: usize = 60;
/// A level fewer is wanted when this part of the capacities of the others would hold all data …
const SHRINK_TOTAL: f64 = 0.5;
/// … and none of them would be more than this many times over its own, so that no storm of merges
/// follows.
const SHRINK_LEVEL: f64 = 2.0;

/// One run per level, capacities `C_i = B T^i c^-(iL - i(i+1)/2)` for level `i` of `L` \[Autumn,
/// equation 5\], with `B` a memtable. When the last level is full the number of levels `L` grows,
/// which enlarges every capacity, and nothing moves: delayed last-level compaction. `L`, the *nominal
/// depth*, cannot be seen from the tables, so it is remembered in the manifest.
///
/// The `L` levels are the last ones of the tree; a tree that came from another design, or that has
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

    /// How far each level is over its capacity, in a tree of `depth` levels of which `nominal` are used:
    /// the largest, and that of all data.
    fn scores(&self, summary: &Summary, depth: usize, nominal: usize) -> (f64, f64) {
        let memtable = summary.memtable_bytes.max(1) as f64;
        let (mut largest, mut bytes, mut capacities) = (0.0_f64, 0.0, 0.0);
        for level in 1..=nominal {
            let capacity = self.capacity(level, nominal) * memtable;
            let at = summary.levels.get(depth - 1 - nominal + level);
            let held = at.map_or(0.0, |level| level.bytes as f64);
            largest = largest.max(held / capacity);
            bytes += held;
            capacities += capacity;
        }
        (largest, bytes / capacities)
    }

    /// The depth of the tree and the nominal one, as they are to be.
    fn depths(&self, summary: &Summary) -> (usize, usize) {
        let depth = summary.levels.len().max(2);
        let fits = |nominal: &usize| self.scores(summary, depth, *nominal).0 <= 1.0;
        let nominal = match summary.nominal_depth {
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
                _ if distance == 0 => u64::MAX,
                None | Some(0) => 0,
                Some(level) => {
                    let memtable = summary.memtable_bytes.max(1) as f64;
                    round(
                        self.capacity(level, nominal) * memtable,
                        summary.table_bytes,
                    )
                }
            };
            LevelTarget::leveled(capacity, default_cut(CutSpec::Auto, 1, distance))
        };
        let mut levels: Vec<LevelTarget> = (0..depth).map(target).collect();
        levels[0] = LevelTarget::level0(LEVEL0_RUNS);
        Targets {
            levels,
            nominal_depth: nominal as u8,
        }
    }

    /// A new tree has one level; the others are added as it grows.
    fn depth(&self) -> usize {
        2
    }
}
