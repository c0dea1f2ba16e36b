//! Tiering, also called stepped merge.

use super::anchored::DEPTH_MAX;
use super::{Capacity, Cut, LEVEL0_RUNS_MAX, LevelTarget, Policy, Summary, Targets};

/// `runs` runs per level. A full level becomes one new run of the next level, so an entry is
/// written once per level \[Jagadish; SlimDB section 3\]. Levels have no capacity in bytes. The
/// last level of a tree is merged in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tiering {
    /// 2 to 64.
    pub(super) runs: u32,
}

impl Policy for Tiering {
    fn targets(&self, summary: &Summary) -> Targets {
        let level = LevelTarget::runs(Capacity::Unlimited, self.runs, Cut::PartitionedFull);
        let depth = summary.levels.len().max(self.depth());
        let mut targets = vec![level; depth];
        targets[0] = LevelTarget::flushed(self.runs.min(LEVEL0_RUNS_MAX));
        targets.into()
    }

    /// Enough levels that a last level of `runs` runs holds 2^24 memtables: a pebibyte at 64 MiB
    /// each.
    fn depth(&self) -> usize {
        let levels = (24.0 * 2.0_f64.ln() / f64::from(self.runs).ln()).ceil();
        (levels as usize).clamp(4, DEPTH_MAX)
    }
}
