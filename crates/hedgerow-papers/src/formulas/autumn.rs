//! Table 2 of Autumn: the costs of policies as data grows, in symbols and in numbers.

use std::fmt;

use hedgerow::advisor::Geometry;

use super::entropy;

/// A policy of Table 2 with its parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum PaperPolicy {
    /// The tree of quasi-logarithmic depth with this ratio at the last level.
    Bush(f64),
    /// This many runs per level.
    Tiering(f64),
    /// Tiering with one run in the last level.
    LazyLeveling(f64),
    /// One run per level, each this many times larger than the one above.
    Leveling(f64),
    /// Leveling with this ratio at the last level. The ratio grows by 1 / the scaling factor with
    /// each level above.
    Garnering(f64, f64),
}

/// A row of Table 2 in symbols: n is the data over the memtable, m the filter bits per entry,
/// a = ln^2 2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Symbols {
    /// The policy.
    pub policy: &'static str,
    /// Runs that a range query reads, or a point query without filters.
    pub range: &'static str,
    /// Reads of a point query of an absent key, with filter memory divided as in Monkey.
    pub point: &'static str,
    /// Writes of an entry.
    pub write: &'static str,
    /// Space beyond the data.
    pub space: &'static str,
}

/// A row of Table 2 in numbers, for one size of data.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Growth {
    /// Levels on disk.
    pub levels: usize,
    /// Levels on disk with Autumn's delayed last-level compaction: the last level keeps growing
    /// where others begin a new one.
    pub levels_delayed: usize,
    /// Sorted runs when all levels are full.
    pub runs: f64,
    /// Reads of a point query of an absent key.
    pub reads: f64,
    /// Writes of an entry in the worst case: every merge meets a full level.
    pub writes: f64,
    /// Space beyond the data, over the data, when the last level is full.
    pub space_excess: f64,
}

impl PaperPolicy {
    /// The five policies of the table, with the parameters that the paper measures.
    pub const ALL: [PaperPolicy; 5] = [
        PaperPolicy::Bush(2.0),
        PaperPolicy::Tiering(5.0),
        PaperPolicy::LazyLeveling(5.0),
        PaperPolicy::Leveling(5.0),
        PaperPolicy::Garnering(2.0, 0.8),
    ];

    /// The row in symbols.
    pub fn symbols(self) -> Symbols {
        let (policy, range, point, write, space) = match self {
            PaperPolicy::Bush(_) => (
                "QLSM-bush (X = 2)",
                "O(√n)",
                "O(e^(-m a))",
                "O(T + log log n)",
                "O(1/T)",
            ),
            PaperPolicy::Tiering(_) => (
                "Tiering",
                "O(T log_T n)",
                "O(T e^(-m a))",
                "O(log_T n)",
                "O(T)",
            ),
            PaperPolicy::LazyLeveling(_) => (
                "Lazy leveling",
                "O(T log_T n)",
                "O(e^(-m a))",
                "O(T + log_T n)",
                "O(1/T)",
            ),
            PaperPolicy::Leveling(_) => (
                "Leveling",
                "O(log_T n)",
                "O(e^(-m a))",
                "O(T log_T n)",
                "O(1/T)",
            ),
            PaperPolicy::Garnering(..) => (
                "Garnering",
                "O(√(log_1/c n))",
                "O(e^(-m a))",
                "O(T c^-√(2 log_1/c n))",
                "O(1/T)",
            ),
        };
        Symbols {
            policy,
            range,
            point,
            write,
            space,
        }
    }

    fn ratios(self, levels: usize) -> Vec<f64> {
        match self {
            PaperPolicy::Bush(ratio) => Geometry::Bush.ratios(levels, ratio, 1.0),
            PaperPolicy::Garnering(ratio, scaling) => {
                Geometry::Garnering { scaling }.ratios(levels, ratio, 1.0)
            }
            PaperPolicy::Tiering(ratio)
            | PaperPolicy::LazyLeveling(ratio)
            | PaperPolicy::Leveling(ratio) => Geometry::Uniform.ratios(levels, ratio, 1.0),
        }
    }

    /// The runs of each full level.
    fn runs(self, ratios: &[f64]) -> Vec<f64> {
        let last = ratios.len() - 1;
        let runs = |(i, ratio): (usize, &f64)| match self {
            PaperPolicy::Tiering(_) => *ratio,
            PaperPolicy::LazyLeveling(_) | PaperPolicy::Bush(_) if i < last => ratio.floor(),
            _ => 1.0,
        };
        ratios.iter().enumerate().map(runs).collect()
    }

    /// The fewest levels that hold `data` memtables. With the delayed last-level merge, a level
    /// holds its capacity in a tree of one level more.
    pub fn levels(self, data: f64, is_delayed: bool) -> usize {
        const LEVELS_MAX: usize = 64;
        let holds = |levels: usize| -> f64 {
            let ratios = self.ratios(levels + usize::from(is_delayed));
            capacities(&ratios).iter().take(levels).sum()
        };
        (1..LEVELS_MAX)
            .find(|levels| holds(*levels) >= data)
            .unwrap_or(LEVELS_MAX)
    }

    /// The row in numbers for `data` memtables of entries, with `bits` of Bloom filter per entry, 0
    /// for no filter.
    pub fn growth(self, data: f64, bits: f64) -> Growth {
        let levels = self.levels(data, false);
        let ratios = self.ratios(levels);
        let capacities = capacities(&ratios);
        let runs = self.runs(&ratios);
        let (last, above) = (capacities[levels - 1], &capacities[..levels - 1]);
        let each = runs.iter().zip(&capacities);
        let run_sizes: Vec<f64> = each
            .flat_map(|(runs, size)| std::iter::repeat_n(size / runs, *runs as usize))
            .collect();
        let merged = |(ratio, runs): (&f64, &f64)| if *runs > 1.0 { 1.0 } else { *ratio };
        Growth {
            levels,
            levels_delayed: self.levels(data, true),
            runs: runs.iter().sum(),
            reads: if bits > 0.0 {
                entropy::false_positives(&run_sizes, bits)
            } else {
                runs.iter().sum()
            },
            writes: ratios.iter().zip(&runs).map(merged).sum(),
            space_excess: above.iter().sum::<f64>() / last + runs[levels - 1] - 1.0,
        }
    }
}

/// The capacities in memtables of levels of these ratios.
pub fn capacities(ratios: &[f64]) -> Vec<f64> {
    let grow = |size: &mut f64, ratio: &f64| {
        *size *= ratio;
        Some(*size)
    };
    ratios.iter().scan(1.0, grow).collect()
}

/// The name of the policy in the options.
impl fmt::Display for PaperPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PaperPolicy::Bush(ratio) => write!(f, "bush:{ratio}"),
            PaperPolicy::Tiering(ratio) => write!(f, "tiering:{ratio}"),
            PaperPolicy::LazyLeveling(ratio) => write!(f, "lazy-leveling:{ratio}"),
            PaperPolicy::Leveling(ratio) => write!(f, "leveling:{ratio}"),
            PaperPolicy::Garnering(ratio, scaling) => write!(f, "garnering:{ratio},{scaling}"),
        }
    }
}
