//! Merge policies by name, and tables of levels written by hand: the options and their
//! bounds. `crate::design::merge_policy` turns them into targets.

use std::sync::Arc;

use crate::base::error::{Error, Result};

use super::named::named;
use super::{FilterSpec, IndexSpec, KeyOrder};

/// The most runs of a group.
pub(crate) const RUNS_MAX: u32 = 64;
/// The largest ratio. Larger ones are beyond any tree: three levels of this ratio hold 2^60
/// memtables.
const RATIO_MAX: f64 = (1 << 20) as f64;
/// The fan-out of a node of the trie.
const FAN_OUT_MIN: u32 = 4;
const FAN_OUT_MAX: u32 = 16;
pub(super) const FAN_OUT_DEFAULT: u32 = 8;
/// The most levels of a table of levels.
pub(super) const LEVELS_MAX: usize = 32;

/// The cut of a merge out of a level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum CutSpec {
    /// The cut that measurements chose for the level (`docs/design/0003-merge-cuts.md`).
    #[default]
    Auto,
    /// One table at a time, the one that overlaps least with the level below.
    OneTable,
    /// All of a full level, in slices of its key range.
    PartitionedFull,
    /// A whole level at once.
    WholeLevel,
}

/// The sorted runs of a tree, and when they are merged.
///
/// The text is `leveling:10`, `tiering:8`, `garnering:5,0.8` and so on, or a table of levels:
/// `0=runs:4;1-2=tiering:8;3=leveling:8`. Level 0 holds the flushed runs. With *n* the number of
/// memtables in the tree:
///
/// | policy | runs | entry writes | space over the data |
/// |---|---|---|---|
/// | leveling, `T` | log_T n | T log_T n | 1/T |
/// | tiering, `r` | r log_r n | log_r n | r |
/// | Garnering, `T`, `c` | √log_{1/c} n | T c^-√(2 log_{1/c} n) | 1/T |
/// | lazy leveling, `r` | r log_r n | r + log_r n | 1/r |
/// | LSM-bush, `T` | √n | T + log log n | 1/T |
/// | trie, `f` | f log_f n | log_f n | 1, of the overwritten data |
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum PolicySpec {
    /// One run per level, each level `ratio` times the one above \[O'Neil\].
    Leveling {
        /// The ratio of the sizes of neighbouring levels, at least 2.
        ratio: f64,
        /// The cut of merges.
        cut: CutSpec,
    },
    /// Stepped merge: a full level of `runs` runs becomes one run of the next \[Jagadish\].
    Tiering {
        /// Runs per level, 2 to 64.
        runs: u32,
    },
    /// Leveling whose ratio grows towards small levels: `ratio / scaling^k` for the level `k` above
    /// the last, anchored at the last level's size \[Autumn\].
    Garnering {
        /// The ratio of the last two levels, at least 2.
        ratio: f64,
        /// The scaling factor c: above 0, at most 1; 1 is leveling.
        scaling: f64,
        /// The cut of merges.
        cut: CutSpec,
    },
    /// Tiering with a single run in the last level \[Dostoevsky\].
    LazyLeveling {
        /// Runs per level, and the ratio of neighbouring levels, 2 to 64.
        runs: u32,
    },
    /// Leveling whose first level is `ratio` times level 0, so that a merge out of level 0 costs
    /// the same as the other merges.
    FrontLoaded {
        /// The ratio of the sizes of neighbouring levels, at least 2.
        ratio: f64,
    },
    /// A level has as many runs as its ratio. The ratio is squared from level to level upwards.
    /// The last level has a single run \[LSM-bush, X = 2\].
    Bush {
        /// The ratio of the last two levels, at least 2.
        ratio: f64,
    },
    /// Garnering with the paper's capacities, counted from the top, and delayed last-level
    /// compaction.
    GarneringPaper {
        /// The ratio of the last two levels, at least 2.
        ratio: f64,
        /// The scaling factor c: above 0, at most 1.
        scaling: f64,
    },
    /// A trie of hash prefixes whose nodes hold stacks of runs. The oldest runs of a full node
    /// become one run in each of its children \[LSM-trie\]. Needs keys of the order `hashed`.
    ///
    /// Stale entries take space. A node of the last level is merged with itself when half of its
    /// entries are stale, by samples of its keys and counts of tombstones. Tombstones go down early
    /// when they are a quarter of a node and its children. The upper levels hold at most twice
    /// `fan_out` memtables for each node, and level 0 holds `fan_out`.
    /// [`compact`](crate::Keyspace::compact) leaves no stale entries.
    Trie {
        /// Children of a node, 4 to 16.
        fan_out: u32,
    },
    /// A table of levels. Level 0 comes first; the last level takes everything.
    Levels(Arc<[LevelSpec]>),
}

/// One level of a table of levels.
///
/// ```
/// use hedgerow::{FilterSpec, LevelSpec, PolicySpec};
///
/// let written: PolicySpec = "0=runs:4;1-2=tiering:8/bloom:12;3=leveling:8/none".parse()?;
/// let tiered = LevelSpec::tiering(8).filter(FilterSpec::Bloom { bits_per_key: 12.0 });
/// let last = LevelSpec::leveling(8.0).filter(FilterSpec::None);
/// let table = [LevelSpec::tiering(4), tiered.clone(), tiered, last];
/// assert_eq!(written, PolicySpec::levels(table));
/// # Ok::<(), hedgerow::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct LevelSpec {
    /// The most sorted runs; 1 is leveling. For level 0: the number of flushed runs that are merged
    /// down together.
    pub runs: u32,
    /// The level's capacity over that of the level above. Level 0 has the capacity of `runs`
    /// memtables. The last level takes everything, whatever its ratio.
    pub ratio: f64,
    /// The cut of merges out of the level.
    pub cut: CutSpec,
    /// The filter of tables written into the level; the design's if `None`.
    pub filter: Option<FilterSpec>,
    /// The index of tables written into the level; the design's if `None`.
    pub index: Option<IndexSpec>,
}

impl LevelSpec {
    /// At most `runs` runs, and `ratio` times the capacity of the level above.
    pub fn fluid(runs: u32, ratio: f64) -> LevelSpec {
        LevelSpec {
            runs,
            ratio,
            cut: CutSpec::default(),
            filter: None,
            index: None,
        }
    }

    /// `runs` runs, merged when the last of them is there.
    pub fn tiering(runs: u32) -> LevelSpec {
        LevelSpec::fluid(runs, f64::from(runs))
    }

    /// One run, and `ratio` times the capacity of the level above.
    pub fn leveling(ratio: f64) -> LevelSpec {
        LevelSpec::fluid(1, ratio)
    }

    /// Sets the cut of merges out of the level.
    pub fn cut(mut self, cut: CutSpec) -> LevelSpec {
        self.cut = cut;
        self
    }

    /// Sets a filter in place of the design's.
    pub fn filter(mut self, filter: FilterSpec) -> LevelSpec {
        self.filter = Some(filter);
        self
    }

    /// Sets an index in place of the design's.
    pub fn index(mut self, index: IndexSpec) -> LevelSpec {
        self.index = Some(index);
        self
    }

    fn check(&self, level: usize) -> Result<()> {
        if level > 0 {
            check_ratio(self.ratio)?;
        }
        if self.runs != 1 {
            check_runs(self.runs)?;
        }
        if level > 0 && f64::from(self.runs) > self.ratio {
            return Err(Error::invalid(format!(
                "expected at most as many runs in level {level} as its ratio, found {} runs and a ratio of {}: \
                 the level would be full before it had that many",
                self.runs, self.ratio
            )));
        }
        match &self.filter {
            Some(filter) => filter.check(),
            None => Ok(()),
        }
    }
}

impl Default for PolicySpec {
    /// Leveling of ratio 6: as few runs as ratio 10, and up to 28 % fewer writes
    /// (docs/design/0003-merge-cuts.md).
    fn default() -> Self {
        PolicySpec::leveling(6.0)
    }
}

impl PolicySpec {
    /// One run per level, each level `ratio` (at least 2) times the one above.
    pub fn leveling(ratio: f64) -> PolicySpec {
        let cut = CutSpec::default();
        PolicySpec::Leveling { ratio, cut }
    }

    /// Stepped merge with 2 to 64 runs per level.
    pub fn tiering(runs: u32) -> PolicySpec {
        PolicySpec::Tiering { runs }
    }

    /// A ratio of at least 2 for the last two levels, and a scaling factor above 0 and at most 1.
    pub fn garnering(ratio: f64, scaling: f64) -> PolicySpec {
        PolicySpec::Garnering {
            ratio,
            scaling,
            cut: CutSpec::default(),
        }
    }

    /// 2 to 64 runs in every level but the last.
    pub fn lazy_leveling(runs: u32) -> PolicySpec {
        PolicySpec::LazyLeveling { runs }
    }

    /// One run per level, each level `ratio` (at least 2) times the one above, the first one times
    /// level 0.
    pub fn front_loaded(ratio: f64) -> PolicySpec {
        PolicySpec::FrontLoaded { ratio }
    }

    /// A ratio of at least 2 for the last two levels, squared from level to level upwards.
    pub fn bush(ratio: f64) -> PolicySpec {
        PolicySpec::Bush { ratio }
    }

    /// [`PolicySpec::garnering`] with capacities counted from the top.
    pub fn garnering_paper(ratio: f64, scaling: f64) -> PolicySpec {
        PolicySpec::GarneringPaper { ratio, scaling }
    }

    /// A trie whose nodes have 4 to 16 children.
    pub fn trie(fan_out: u32) -> PolicySpec {
        PolicySpec::Trie { fan_out }
    }

    /// A table of 2 to 32 levels, level 0 first.
    pub fn levels(levels: impl IntoIterator<Item = LevelSpec>) -> PolicySpec {
        PolicySpec::Levels(levels.into_iter().collect())
    }

    /// The store of SlimDB's figure 4 as a table of five levels of ratio 8. The upper three use
    /// stepped merge and multi-level cuckoo filters. The other two have one run, and the last has
    /// no filter. All have three-level indexes. Needs keys of the order `hashed` or `semi-sorted`.
    pub fn slimdb() -> PolicySpec {
        let level = |level: LevelSpec| level.index(IndexSpec::ThreeLevel);
        let fingerprint_bits = 12;
        let upper = LevelSpec::tiering(8).filter(FilterSpec::MultiLevelCuckoo {
            fingerprint_bits,
            unique: false,
        });
        let lower = LevelSpec::leveling(8.0).filter(FilterSpec::Cuckoo { fingerprint_bits });
        let last = LevelSpec::leveling(8.0).filter(FilterSpec::None);
        PolicySpec::levels([upper.clone(), upper.clone(), upper, lower, last].map(level))
    }

    /// Sets the cut of merges. It has an effect on leveling, Garnering and every level of a table.
    pub fn cut(mut self, to: CutSpec) -> PolicySpec {
        match &mut self {
            PolicySpec::Leveling { cut, .. } | PolicySpec::Garnering { cut, .. } => *cut = to,
            PolicySpec::Levels(levels) => {
                return PolicySpec::levels(levels.iter().map(|level| level.clone().cut(to)));
            }
            _ => {}
        }
        self
    }

    /// The entries of a table of levels.
    pub(super) fn named_levels(&self) -> &[LevelSpec] {
        match self {
            PolicySpec::Levels(levels) => levels,
            _ => &[],
        }
    }

    /// The entry of a table of levels for the level that a table is written into. The last entry
    /// holds for all deeper levels, too.
    pub(crate) fn level(&self, level: usize) -> Option<&LevelSpec> {
        let levels = self.named_levels();
        levels.get(level).or(levels.last())
    }

    pub(super) fn check_order(&self, order: KeyOrder) -> Result<()> {
        match self {
            PolicySpec::Trie { .. } if order != KeyOrder::Hashed => Err(Error::invalid(format!(
                "expected keys of the order `hashed` for the policy `{self}`, found `{order}`: \
                 each node of the trie is a range of key hashes"
            ))),
            _ => Ok(()),
        }
    }

    pub(crate) fn check(&self) -> Result<()> {
        match self {
            PolicySpec::Leveling { ratio, .. }
            | PolicySpec::FrontLoaded { ratio }
            | PolicySpec::Bush { ratio } => check_ratio(*ratio),
            PolicySpec::Tiering { runs } | PolicySpec::LazyLeveling { runs } => check_runs(*runs),
            PolicySpec::Garnering { ratio, scaling, .. }
            | PolicySpec::GarneringPaper { ratio, scaling } => {
                check_ratio(*ratio)?;
                check_scaling(*scaling)
            }
            PolicySpec::Trie { fan_out } => check_fan_out(*fan_out),
            PolicySpec::Levels(levels) => {
                if !(2..=LEVELS_MAX).contains(&levels.len()) {
                    return Err(Error::invalid(format!(
                        "expected a table of 2 to {LEVELS_MAX} levels, found {}: \
                         level 0 takes the flushed runs, the last level the merged data",
                        levels.len()
                    )));
                }
                let mut levels = levels.iter().enumerate();
                levels.try_for_each(|(level, spec)| spec.check(level))
            }
        }
    }
}

fn check_ratio(ratio: f64) -> Result<()> {
    let effect = if !ratio.is_finite() || ratio > RATIO_MAX {
        "no level would ever be full"
    } else if ratio <= 0.0 {
        "levels would have no size"
    } else if ratio <= 1.0 {
        "the tree would deepen without end: no level would be larger than the one above"
    } else if ratio < 2.0 {
        "most of the data would be outside the last level"
    } else {
        return Ok(());
    };
    Err(Error::invalid(format!(
        "expected a ratio of levels of 2 to {RATIO_MAX}, found {ratio}: {effect}"
    )))
}

fn check_runs(runs: u32) -> Result<()> {
    let effect = match runs {
        0 => "a level without runs could hold nothing",
        1 => "each run would be merged by itself; one run per level is leveling",
        2..=RUNS_MAX => return Ok(()),
        _ => "a lookup probes the filters of at most 64 runs at once",
    };
    Err(Error::invalid(format!(
        "expected 2 to {RUNS_MAX} runs per level, found {runs}: {effect}"
    )))
}

fn check_fan_out(fan_out: u32) -> Result<()> {
    let effect = match fan_out {
        FAN_OUT_MIN..=FAN_OUT_MAX => return Ok(()),
        0..FAN_OUT_MIN => "the trie would be so deep that tiering writes less",
        _ => "a node would not hold the runs that its feed needs",
    };
    Err(Error::invalid(format!(
        "expected a fan-out of {FAN_OUT_MIN} to {FAN_OUT_MAX}, found {fan_out}: {effect}"
    )))
}

fn check_scaling(scaling: f64) -> Result<()> {
    let effect = if scaling > 1.0 {
        "the ratios of small levels would fall below 1, and the tree would deepen without end"
    } else if scaling > 0.0 {
        return Ok(());
    } else {
        "the ratio above the last level would be infinite"
    };
    Err(Error::invalid(format!(
        "expected a scaling factor above 0 and up to 1, found {scaling}: {effect}"
    )))
}

named!(CutSpec, "a cut", "auto" => Auto, "one-table" => OneTable, "partitioned" => PartitionedFull, "whole-level" => WholeLevel);

#[cfg(test)]
mod tests {
    use super::*;

    /// Every kind of policy.
    const SPECS: [&str; 16] = [
        "leveling:10",
        "leveling:2.5,one-table",
        "leveling:4,partitioned",
        "leveling:4,whole-level",
        "tiering:8",
        "garnering:5,0.8",
        "garnering:2,0.4,whole-level",
        "lazy-leveling:4",
        "front-loaded:5",
        "bush:2",
        "garnering-paper:2,0.8",
        "trie:8",
        "0=tiering:4;1-2=tiering:8/bloom:12/fence;3=leveling:8,partitioned/none",
        "0-1=tiering:8//fence;2=fluid:4,10",
        "0=leveling:1;1=leveling:2.5",
        "0-2=tiering:8/cuckoo:12/three-level;3=leveling:8/none/three-level:array",
    ];

    #[test]
    fn policies_are_read_as_they_are_printed() {
        for spec in SPECS {
            let policy: PolicySpec = spec.parse().unwrap();
            assert_eq!(policy.to_string(), spec);
            policy.check().unwrap();
        }
        let runs: PolicySpec = "0=runs:4;1=leveling:8".parse().unwrap();
        assert_eq!(runs.to_string(), "0=tiering:4;1=leveling:8");
        assert_eq!("trie".parse::<PolicySpec>().unwrap(), PolicySpec::trie(8));
    }

    #[test]
    fn the_store_of_slimdb_is_a_table_of_levels() {
        let table = "0-2=tiering:8/mlcf:12/three-level;3=leveling:8/cuckoo:12/three-level;\
                     4=leveling:8/none/three-level";
        let parsed = |text: &str| text.parse::<PolicySpec>().unwrap();
        assert_eq!(parsed("slimdb"), parsed(table));
        assert_eq!(PolicySpec::slimdb().to_string(), table);
    }

    #[test]
    fn a_table_of_levels_says_what_is_written_where() {
        let policy: PolicySpec = SPECS[12].parse().unwrap();
        let filter = |level| policy.level(level).unwrap().filter;
        assert_eq!(filter(0), None);
        assert_eq!(filter(2), Some(FilterSpec::Bloom { bits_per_key: 12.0 }));
        assert_eq!(filter(3), Some(FilterSpec::None));
        assert_eq!(filter(40), Some(FilterSpec::None));
        assert_eq!(PolicySpec::default().level(3), None);
    }

    #[test]
    fn values_without_sense_are_told_what_they_would_do() {
        let told = |spec: &str| spec.parse::<PolicySpec>().unwrap_err().to_string();
        for (spec, effect) in [
            (
                "leveling:1",
                "found 1: the tree would deepen without end: no level would be larger than the one above",
            ),
            (
                "leveling:1.5",
                "most of the data would be outside the last level",
            ),
            ("leveling:0", "levels would have no size"),
            ("leveling:inf", "no level would ever be full"),
            ("bush:NaN", "no level would ever be full"),
            ("tiering:1", "one run per level is leveling"),
            (
                "tiering:65",
                "expected 2 to 64 runs per level, found 65: a lookup probes",
            ),
            ("lazy-leveling:0", "a level without runs could hold nothing"),
            (
                "garnering:5,0",
                "the ratio above the last level would be infinite",
            ),
            (
                "garnering:5,NaN",
                "the ratio above the last level would be infinite",
            ),
            (
                "garnering:5,1.1",
                "the ratios of small levels would fall below 1, and the tree would deepen without end",
            ),
            ("garnering:1,0.8", "the tree would deepen without end"),
            ("0=runs:4", "expected a table of 2 to 32 levels, found 1"),
            (
                "0=runs:4;1=fluid:8,4",
                "the level would be full before it had that many",
            ),
            (
                "0=runs:4;1=leveling:8/bloom:99",
                "expected 1 to 32 filter bits per key, found 99",
            ),
            (
                "0=runs:4;2=leveling:8",
                "from level 1, found `2=leveling:8`",
            ),
            (
                "0=runs:4;1-40=leveling:8",
                "from level 1, found `1-40=leveling:8`",
            ),
            ("0=runs:4;1=leveling", "expected a level such as"),
            (
                "0=runs:4;1=leveling:8/bloom:12/tree",
                "expected an index, one of fence",
            ),
            ("tiering:8,partitioned", "expected a merge policy such as"),
            ("trie:3", "expected a fan-out of 4 to 16, found 3"),
            (
                "trie:17",
                "a node would not hold the runs that its feed needs",
            ),
            ("trie:8,one-table", "expected a merge policy such as"),
            ("garnering:5", "expected a merge policy such as"),
        ] {
            let found = told(spec);
            assert!(found.contains(effect), "{spec}: {found}");
        }
    }
}
