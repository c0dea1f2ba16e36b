//! Policies that fill in the table of levels in other ways.

use crate::base::options::{CutSpec, LevelSpec};

use super::anchored::{LEVEL0_RUNS, LevelShares, round};
use super::garnering::garnering;
use super::{
    Capacity, Cut, LEVEL0_RUNS_MAX, LevelTarget, Policy, RUNS_MAX, Summary, Targets, default_cut,
};

/// `runs` runs in every level but the last, which has one. This combines the merges of tiering in
/// the small levels with the reads and the space of leveling in the large one \[Dostoevsky, section
/// 4.1\].
pub(super) fn lazy_leveling(runs: u32) -> LevelShares {
    let runs_max = |distance| if distance == 0 { 1 } else { runs };
    let ln_ratio = |_| f64::from(runs).ln();
    let level0_runs = runs.min(LEVEL0_RUNS_MAX);
    LevelShares::new(level0_runs, ln_ratio, runs_max, CutSpec::Auto)
}

/// Leveling whose base level holds at least `ratio` merges out of level 0. This saves a level,
/// because the merge out of level 0 already merges several runs at once (specification of the
/// models, 1.8, where it ties with Garnering).
pub(super) fn front_loaded(ratio: f64) -> LevelShares {
    LevelShares {
        base_merges: ratio,
        ..garnering(ratio, 1.0, CutSpec::Auto)
    }
}

/// As many runs in a level as its ratio to the one above. The ratio is `ratio` for the level above
/// the last, and is squared from level to level upwards. The last level has a single run. So the
/// number of levels is log log, entries are written about `ratio` times, and small levels have many
/// runs \[Wacky, LSM-bush with X = 2; specification of the models, 1.5\].
pub(super) fn bush(ratio: f64) -> LevelShares {
    // The ratio of the level to the one above: T for the last two, then T^2, T^4, …
    let ln_ratio = |distance: usize| match distance {
        0 => ratio.ln(),
        _ => ratio.ln() * 2.0_f64.powi(distance as i32 - 1),
    };
    let runs_max = |distance: usize| match distance {
        0 => 1,
        _ => ln_ratio(distance).exp().round().min(f64::from(RUNS_MAX)) as u32,
    };
    LevelShares::new(LEVEL0_RUNS, ln_ratio, runs_max, CutSpec::Auto)
}

/// A table of levels written by hand, counted from the top. Level 0 has the capacity of its runs in
/// memtables, each level `ratio` times that of the one above, and the last one takes everything. It
/// is also the last level of the tree: levels in between, left by an earlier design, are drained.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct LevelTable {
    /// At least two.
    pub(super) levels: Vec<LevelSpec>,
}

impl Policy for LevelTable {
    fn targets(&self, summary: &Summary) -> Targets {
        let depth = summary.levels.len().max(self.depth());
        let last = self.levels.len() - 1;
        let unused = LevelTarget::leveled(Capacity::Unused, Cut::PartitionedFull);
        let mut targets = vec![unused; depth];
        targets[0] = LevelTarget::flushed(self.levels[0].runs.min(LEVEL0_RUNS_MAX));
        let mut capacity = summary.memtable_bytes.max(1) as f64 * f64::from(self.levels[0].runs);
        for (level, spec) in self.levels.iter().enumerate().skip(1) {
            capacity *= spec.ratio;
            let at = if level == last { depth - 1 } else { level };
            let ratio_below = self
                .levels
                .get(level + 1)
                .map_or(f64::INFINITY, |it| it.ratio);
            // A level with as many runs as its ratio is full when they are there.
            let by_runs = spec.runs > 1 && spec.ratio <= f64::from(spec.runs);
            let capacity = match level == last || by_runs {
                true => Capacity::Unlimited,
                false => Capacity::Bytes(round(capacity, summary.table_bytes)),
            };
            let cut = default_cut(spec.cut, ratio_below);
            targets[at] = LevelTarget::runs(capacity, spec.runs, cut);
        }
        targets.into()
    }

    fn depth(&self) -> usize {
        self.levels.len()
    }
}
