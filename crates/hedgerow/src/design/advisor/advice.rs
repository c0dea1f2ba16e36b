//! The result of the search, and the constraints that it keeps to.

use super::cost::{Filter, Index, Merges};
use super::geometry::{Capacities, Geometry};
use super::tree::{Prediction, Tree};
use super::workload::Workload;
use crate::base::options::KeyOrder;

/// What a tree must keep to, and what it may be made of.
#[derive(Debug, Clone, PartialEq)]
pub struct Constraints {
    /// The memory for memtables, indexes, filters and cached data.
    pub memory_bytes: f64,
    /// The size of a memtable; `None` gives active and sealed ones together an eighth of the memory,
    /// 4 to 64 MiB.
    pub memtable_bytes: Option<f64>,
    /// How many times larger than the data tables may be.
    pub space_max: f64,
    /// How often an entry may be written, if the workload writes at all.
    pub entry_writes_max: f64,
    /// Runs of a level, at most; 1 is leveling.
    pub runs_max: u32,
    /// What levels may be filtered with.
    pub filters: Vec<Filter>,
    /// What levels may be indexed with.
    pub indexes: Vec<Index>,
    /// Which ratios are tried.
    pub geometries: Vec<Geometry>,
    /// How many runs of level 0 are merged down together: the numbers that are tried.
    pub level0_runs: Vec<u32>,
    /// The fan-outs of tries that are tried, of HTables.
    pub fan_outs: Vec<u32>,
    /// How merges are cut.
    pub merges: Merges,
    /// The least by which a level is larger than what comes into it at once.
    pub step_min: f64,
    /// Whether a level that holds several runs may have fewer of them than arrive until it is full:
    /// the newest then grows by merges \[Dostoevsky\].
    pub fluid: bool,
}

impl Constraints {
    /// What this version of the engine can open with sorted keys, space at most 3 times the data and 60 writes of an
    /// entry.
    pub fn new(memory_bytes: u64) -> Constraints {
        let scalings = [0.95, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4];
        let garnering = scalings.map(|scaling| Geometry::Garnering { scaling });
        let mut geometries = vec![Geometry::Uniform, Geometry::FrontLoaded];
        geometries.extend(garnering);
        geometries.push(Geometry::Bush);
        Constraints {
            memory_bytes: memory_bytes as f64,
            memtable_bytes: None,
            space_max: 3.0,
            entry_writes_max: 60.0,
            runs_max: 64,
            filters: vec![Filter::None, Filter::Bloom],
            indexes: vec![Index::Fence, Index::Paged],
            geometries,
            level0_runs: vec![1, 4],
            fan_outs: Vec::new(),
            merges: Merges::Full,
            step_min: 2.0,
            fluid: false,
        }
    }

    /// For keys of this order. Where keys are in the order of hashes there are also the designs of SlimDB: the
    /// three-level index, and cuckoo filters, for one run or for all of a level; and where it is that of hashes of
    /// whole keys, that of LSM-trie: tries of HTables, with clusters of filters.
    pub fn of_order(mut self, order: KeyOrder) -> Constraints {
        if order != KeyOrder::Sorted {
            self.filters
                .extend([Filter::Cuckoo, Filter::MultiLevelCuckoo]);
            self.indexes.push(Index::ThreeLevel);
        }
        if order == KeyOrder::Hashed {
            self.fan_outs = vec![4, 6, 8, 12, 16];
        }
        self
    }

    /// Also what the engine does not have, levels of any number of runs that grow by merges, or does not
    /// offer by itself: multi-level cuckoo filters, and, for keys in the order of a prefix's hash, the
    /// three-level index.
    pub fn hypothetical(mut self, is_prefix_order: bool) -> Constraints {
        self.runs_max = u32::MAX;
        self.step_min = 0.0;
        self.fluid = true;
        self.filters.push(Filter::MultiLevelCuckoo);
        if is_prefix_order {
            self.indexes.push(Index::ThreeLevel);
        }
        self
    }

    /// The size at which memtables are flushed.
    pub fn memtable(&self) -> f64 {
        const MIB: f64 = (1 << 20) as f64;
        let share = (self.memory_bytes / 8.0).floor();
        self.memtable_bytes
            .unwrap_or(share.clamp(4.0 * MIB, 64.0 * MIB) / 2.0)
    }
}

/// A tree that the search found.
#[derive(Debug, Clone, PartialEq)]
pub struct Advice {
    /// Its ratios.
    pub capacities: Capacities,
    /// Its levels.
    pub tree: Tree,
    /// What it costs.
    pub prediction: Prediction,
}

/// Whether entries are written too often.
pub(super) fn is_worn(
    prediction: &Prediction,
    workload: &Workload,
    constraints: &Constraints,
) -> bool {
    workload.mix.put > 0.0 && prediction.entry_writes > constraints.entry_writes_max
}
