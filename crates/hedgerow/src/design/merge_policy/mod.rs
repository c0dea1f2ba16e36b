//! Merge policies: the shape that a tree is to have.
//!
//! A policy is a table of targets, one per level, computed from plain data; one generic planner
//! ([`crate::design::planner`]) turns the difference between targets and shape into plans.
//! Nothing here touches a disk or an engine object, so the engine, the tests and the simulator run
//! the same code.

mod anchored;
mod garnering;
mod garnering_paper;
pub(crate) mod occupancy;
mod presets;
mod tiering;
mod trie;

#[cfg(test)]
mod conformance;
pub(crate) mod edit;
pub(crate) mod plan;
pub(crate) mod shape;
#[cfg_attr(
    not(test),
    allow(dead_code, reason = "tests and the simulator read what is printed")
)]
pub(crate) mod text;

use std::fmt::Debug;
use std::ops::Deref;
use std::sync::Arc;

use crate::base::options::{CutSpec, PolicySpec};

/// A group holds at most this many runs.
const RUNS_MAX: u32 = shape::RUNS_MAX as u32;
/// Level 0 merges at most this many flushed runs down together, also where other levels have more, so that
/// there is room for three times as many while it does. A tree whose levels have more runs than this
/// writes an entry at most once more for it.
const LEVEL0_RUNS_MAX: u32 = RUNS_MAX / 4;

/// How a merge out of a level is cut (specification of the models, 1.3). It is part of the target
/// because it matters more than the geometry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    /// One table at a time, the one that overlaps least with the level below; the level stays full.
    OneTable,
    /// When the level is over its capacity, all of it goes down in slices of the key range; then it
    /// fills again. Halves the merging into the next level, which is half full on average. Slices go
    /// through a level that they would fill.
    PartitionedFull,
    /// The whole level at once (the first seed's merge).
    WholeLevel,
    /// The oldest runs of one group at a time, about half of its share of the capacity; they become a new
    /// run in each group below that they overlap. Groups do so in turn, each when it is between half
    /// full and full, or has too many runs \[LSM-trie\].
    OldestRuns,
}

/// Of [`Cut::OldestRuns`]: the part of half of its share that a group gives away at least, so that a run which is a
/// little small does not make it one run more.
pub(crate) const FEED: f64 = 0.9;

/// Of the same: a pile of the last level is merged when this part of its entries is stale, so that what is won is as
/// much as is written.
pub(crate) const STALE: f64 = 0.5;

/// A group has its turn when its tombstones are this share of its entries and those of its children. Each
/// tombstone is stale and hides a stale entry, so the stale share is twice as large.
pub(crate) const TOMBSTONES: f64 = STALE / 2.0;

/// What a policy wants of one level.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LevelTarget {
    /// The level is over its capacity above this; `u64::MAX` for the last level. 0 for a level that
    /// is to be emptied.
    pub(crate) capacity_bytes: u64,
    /// Sorted runs per group, at most; 1 is leveling.
    pub(crate) runs_max: u32,
    /// Into how many key ranges (groups) the level is cut.
    pub(crate) ranges: u32,
    pub(crate) cut: Cut,
}

impl LevelTarget {
    /// Of flushed runs, of which so many are merged down together.
    fn level0(runs_max: u32) -> LevelTarget {
        LevelTarget {
            runs_max,
            ..LevelTarget::leveled(u64::MAX, Cut::WholeLevel)
        }
    }

    /// Of one run.
    pub(crate) fn leveled(capacity_bytes: u64, cut: Cut) -> LevelTarget {
        LevelTarget {
            capacity_bytes,
            runs_max: 1,
            ranges: 1,
            cut,
        }
    }
}

/// What a policy wants of a tree.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Targets {
    /// Of as many levels as the tree is to have: it gets new ones below its last, and loses those that
    /// are not named when they are empty.
    pub(crate) levels: Vec<LevelTarget>,
    /// What is to be remembered as [`Summary::nominal_depth`].
    pub(crate) nominal_depth: u8,
}

impl From<Vec<LevelTarget>> for Targets {
    fn from(levels: Vec<LevelTarget>) -> Targets {
        Targets {
            levels,
            nominal_depth: 0,
        }
    }
}

impl Deref for Targets {
    type Target = [LevelTarget];

    fn deref(&self) -> &[LevelTarget] {
        &self.levels
    }
}

/// What policies read of one level.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct LevelSummary {
    pub(crate) bytes: u64,
    /// The largest number of runs in a group: what a lookup has to ask.
    pub(crate) runs: u32,
    pub(crate) entries: u64,
    pub(crate) tombstones: u64,
}

/// What policies read of a tree: its levels from 0, and the size that memtables are flushed at.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Summary {
    pub(crate) levels: Vec<LevelSummary>,
    pub(crate) memtable_bytes: u64,
    pub(crate) table_bytes: u64,
    /// How many levels the policy counted when it last changed that; 0 where none counts.
    pub(crate) nominal_depth: u8,
}

impl Summary {
    /// What an entry takes on average; `None` for an empty tree.
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
    /// One target per level, from level 0. Level 0's `runs_max` is the number of flushed runs at
    /// which they are merged down.
    fn targets(&self, summary: &Summary) -> Targets;
    /// How many levels a new tree has.
    fn depth(&self) -> usize;
}

/// The policy that the options ask for.
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
        PolicySpec::Levels(levels) => Arc::new(presets::Table {
            levels: levels.to_vec(),
        }),
    }
}

/// A slice of a level reads about this many tables' worth.
pub(crate) const SLICE_TABLES: u64 = 16;
/// A slice that is carried through levels may read so many times as much, and levels are carried only where two tables of
/// the upper one fit into that. Tables of the levels between that reach over the end of a slice make the next one merge
/// again what they overlapped: half a table of each, which only slices of several tables of the upper level
/// make small (measured in docs/design/0003-merge-cuts.md).
pub(crate) const CARRY_FACTOR: u64 = 8;
/// See [`CARRY_FACTOR`].
pub(crate) const CARRIED_TABLES_MIN: u64 = 2;

/// Up to this ratio of the next level to a level, merges of all of it in slices cost less than those of
/// one table at a time, which can choose where the least lies below.
const SLICED_RATIO_MAX: f64 = 6.5;

/// How merges out of a level of so many runs, with a next level so many times larger, are cut where the
/// options leave it open (`docs/design/0003-merge-cuts.md`).
fn default_cut(spec: CutSpec, runs_max: u32, ratio_below: f64) -> Cut {
    match spec {
        CutSpec::OneTable => Cut::OneTable,
        CutSpec::PartitionedFull => Cut::PartitionedFull,
        CutSpec::WholeLevel => Cut::WholeLevel,
        CutSpec::Auto if runs_max > 1 || ratio_below <= SLICED_RATIO_MAX => Cut::PartitionedFull,
        CutSpec::Auto => Cut::OneTable,
    }
}
