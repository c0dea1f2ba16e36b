//! Merge policies: the target shape of a tree.
//!
//! A policy is a table of targets, one per level, computed from plain data. One generic planner
//! ([`crate::design::planner`]) turns the difference between targets and shape into plans. This
//! module knows no disk and no engine object, so the engine, the tests and the simulator run the
//! same code.

mod anchored;
mod garnering;
mod garnering_paper;
pub(in crate::design) mod geometry;
mod level_target;
pub(crate) mod occupancy;
mod presets;
mod tiering;
mod trie;

#[cfg(test)]
mod conformance;
pub(crate) mod plan;
pub(crate) mod shape;
pub(crate) mod text;
pub(crate) mod tree_edit;

use std::fmt::Debug;
use std::ops::Deref;
use std::sync::Arc;

use crate::base::options::{CutSpec, Design, PolicySpec};

use geometry::Geometry;
pub(crate) use level_target::{Capacity, Cut, LevelTarget};

/// The most runs of a group.
const RUNS_MAX: u32 = shape::RUNS_MAX as u32;
/// The most flushed runs that level 0 merges down together, also where other levels have more. So
/// there is room for three times as many during the merge. A tree whose levels have more runs than
/// this writes an entry at most once more for it.
const LEVEL0_RUNS_MAX: u32 = RUNS_MAX / 4;

/// The least part of half its share that a node feeds. A run that is slightly small then does not
/// cost the node one run more.
pub(crate) const FEED: f64 = 0.9;

/// A node of the last level is merged when this part of its entries is stale, so that the merge
/// frees as much as it writes.
pub(crate) const STALE: f64 = 0.5;

/// A node has its turn when its tombstones are this share of its entries and those of its
/// children. Each tombstone is stale and hides a stale entry, so the stale share is twice as large.
pub(crate) const TOMBSTONES: f64 = STALE / 2.0;

/// The targets of a tree.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Targets {
    /// One target per level that the tree should have. The tree gets missing levels below its last
    /// one, and loses surplus levels once they are empty.
    pub(crate) levels: Vec<LevelTarget>,
    /// A number that the policy wants to see again as [`Summary::policy_note`]. The manifest keeps
    /// it.
    pub(crate) policy_note: u8,
}

impl From<Vec<LevelTarget>> for Targets {
    fn from(levels: Vec<LevelTarget>) -> Targets {
        Targets {
            levels,
            policy_note: 0,
        }
    }
}

impl Deref for Targets {
    type Target = [LevelTarget];

    fn deref(&self) -> &[LevelTarget] {
        &self.levels
    }
}

/// The facts of one level that policies read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct LevelSummary {
    pub(crate) bytes: u64,
    /// The largest number of runs in a group, which a lookup may have to probe.
    pub(crate) runs: u32,
    pub(crate) entries: u64,
    pub(crate) tombstones: u64,
}

/// The facts of a tree that policies read: its levels from 0, and the bytes of tables that a
/// memtable becomes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Summary {
    pub(crate) levels: Vec<LevelSummary>,
    pub(crate) memtable_bytes: u64,
    pub(crate) table_bytes: u64,
    /// The policy's note about the tree ([`Targets::policy_note`]), which nobody else reads; 0 if
    /// there is none.
    pub(crate) policy_note: u8,
}

impl Summary {
    /// The mean size of an entry; `None` for an empty tree.
    pub(crate) fn entry_bytes(&self) -> Option<f64> {
        let sum = |of: fn(&LevelSummary) -> u64| -> f64 {
            self.levels.iter().map(|level| of(level) as f64).sum()
        };
        let entries = sum(|level| level.entries);
        (entries > 0.0).then(|| (sum(|level| level.bytes) / entries).max(1.0))
    }
}

/// A merge policy.
pub(crate) trait Policy: Debug + Send + Sync {
    /// One target per level, from level 0.
    fn targets(&self, summary: &Summary) -> Targets;
    /// The number of levels of a new tree.
    fn depth(&self) -> usize;
}

/// The policy of the options.
pub(crate) fn policy(spec: &PolicySpec) -> Arc<dyn Policy> {
    match spec {
        PolicySpec::Leveling { ratio, cut } => Arc::new(garnering::garnering(*ratio, 1.0, *cut)),
        PolicySpec::Tiering { runs } => Arc::new(tiering::Tiering { runs: *runs }),
        PolicySpec::Garnering {
            ratio,
            scaling,
            cut,
        } => Arc::new(garnering::garnering(*ratio, *scaling, *cut)),
        PolicySpec::LazyLeveling { runs } => Arc::new(presets::lazy_leveling(*runs)),
        PolicySpec::FrontLoaded { ratio } => Arc::new(presets::front_loaded(*ratio)),
        PolicySpec::Bush { ratio } => Arc::new(presets::bush(*ratio)),
        PolicySpec::GarneringPaper { ratio, scaling } => {
            Arc::new(garnering_paper::GarneringPaper {
                ratio: *ratio,
                scaling: *scaling,
            })
        }
        PolicySpec::Trie { fan_out } => Arc::new(trie::Trie { fan_out: *fan_out }),
        PolicySpec::Levels(levels) => Arc::new(presets::LevelTable {
            levels: levels.to_vec(),
        }),
    }
}

/// The designs that the advisor prices as a whole, each with its geometry: tries with these
/// fan-outs.
pub(in crate::design) fn whole_designs(
    fan_outs: &[u32],
) -> impl Iterator<Item = (Geometry, Design)> {
    trie::designs(fan_outs)
}

/// The approximate size of a slice of a level, in tables.
pub(crate) const SLICE_TABLES: u64 = 16;
/// The factor by which a carried slice may be larger. Levels are carried only if two tables of the
/// upper one fit into it. Tables of the levels between that straddle the end of a slice make the
/// next slice merge what they overlapped again: half a table of each. Only slices of several tables
/// of the upper level make this small (measured in docs/design/0003-merge-cuts.md).
pub(crate) const CARRY_FACTOR: u64 = 8;
/// The least tables of the upper level in a carried slice, see [`CARRY_FACTOR`].
pub(crate) const CARRIED_TABLES_MIN: u64 = 2;

/// The largest ratio of the next level to a level at which sliced merges of the whole level cost
/// less than merges of one table at a time, which choose the table with the least overlap.
const SLICED_RATIO_MAX: f64 = 6.5;

/// The cut of merges out of a level of one run, with a next level `ratio_below` times as large, if
/// the options leave it open (`docs/design/0003-merge-cuts.md`).
fn default_cut(spec: CutSpec, ratio_below: f64) -> Cut {
    match spec {
        CutSpec::OneTable => Cut::OneTable,
        CutSpec::PartitionedFull => Cut::PartitionedFull,
        CutSpec::WholeLevel => Cut::WholeLevel,
        CutSpec::Auto if ratio_below <= SLICED_RATIO_MAX => Cut::PartitionedFull,
        CutSpec::Auto => Cut::OneTable,
    }
}
