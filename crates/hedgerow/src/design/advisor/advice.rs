//! The result of the search, and the constraints that it keeps to.

use super::capacities::Capacities;
use super::cost::Merges;
use super::prediction::{Prediction, TreeModel};
use super::workload::Workload;
use crate::base::options::{Design, Filter, Index, KeyOrder};
use crate::design::merge_policy::geometry::Geometry;

/// The limits of a tree, and the structures that it may use.
#[derive(Debug, Clone, PartialEq)]
pub struct Constraints {
    /// The memory for memtables, indexes, filters and cached data.
    pub memory_bytes: f64,
    /// The size of a memtable. `None` gives active and sealed ones together an eighth of the
    /// memory, 4 to 64 MiB.
    pub memtable_bytes: Option<f64>,
    /// The largest size of the tables relative to the data.
    pub space_max: f64,
    /// The most writes of an entry, if the workload writes at all.
    pub entry_writes_max: f64,
    /// The most runs of a level; 1 is leveling.
    pub runs_max: u32,
    /// The filters that levels may have.
    pub filters: Vec<Filter>,
    /// The indexes that levels may have.
    pub indexes: Vec<Index>,
    /// The geometries to try.
    pub geometries: Vec<Geometry>,
    /// The numbers to try of level 0 runs that are merged down together.
    pub level0_runs: Vec<u32>,
    /// The fan-outs to try of tries of HTables.
    pub fan_outs: Vec<u32>,
    /// The cut of merges.
    pub merges: Merges,
    /// The least size of a level relative to an arrival.
    pub step_min: f64,
    /// Allows a level of several runs to have fewer runs than arrivals until it is full. The newest
    /// run then grows by merges \[Dostoevsky\].
    pub fluid: bool,
}

impl Constraints {
    /// The trees that this version of the engine can open with sorted keys, with space at most 3
    /// times the data and at most 60 writes of an entry.
    pub fn new(memory_bytes: u64) -> Constraints {
        Constraints {
            memory_bytes: memory_bytes as f64,
            memtable_bytes: None,
            space_max: 3.0,
            entry_writes_max: 60.0,
            runs_max: 64,
            filters: Filter::OF_ALL_ORDERS.to_vec(),
            indexes: Index::OF_ALL_ORDERS.to_vec(),
            geometries: Geometry::usual(),
            level0_runs: vec![1, 4],
            fan_outs: Vec::new(),
            merges: Merges::Full,
            step_min: 2.0,
            fluid: false,
        }
    }

    /// Adds the structures for keys of this order. Keys in the order of hashes may have SlimDB's:
    /// the three-level index, and cuckoo filters for one run or for all of a level. Keys in the
    /// order of whole hashes may also have LSM-trie's: tries of HTables with clustered filters.
    pub fn of_order(mut self, order: KeyOrder) -> Constraints {
        self.filters.extend(Filter::of_order(order));
        self.indexes.extend(Index::of_order(order));
        if order == KeyOrder::Hashed {
            self.fan_outs = vec![4, 6, 8, 12, 16];
        }
        self
    }

    /// Adds structures that the engine lacks, such as levels of any number of runs that grow by
    /// merges, or does not offer by itself: multi-level cuckoo filters, and, for keys in the order
    /// of a prefix's hash, the three-level index.
    pub fn hypothetical(mut self, is_prefix_order: bool) -> Constraints {
        self.runs_max = u32::MAX;
        self.step_min = 0.0;
        self.fluid = true;
        self.filters.push(Filter::OVER_RUNS);
        if is_prefix_order {
            self.indexes.extend(Index::of_order(KeyOrder::Hashed));
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

/// A tree found by the search.
#[derive(Debug, Clone, PartialEq)]
pub struct Advice {
    /// Its ratios.
    pub capacities: Capacities,
    /// Its levels.
    pub tree: TreeModel,
    /// Its predicted cost.
    pub prediction: Prediction,
    /// Its design, if that was priced as a whole.
    pub(super) whole: Option<Design>,
}

/// True if entries are written too often.
pub(super) fn is_worn(
    prediction: &Prediction,
    workload: &Workload,
    constraints: &Constraints,
) -> bool {
    workload.mix.put > 0.0 && prediction.entry_writes > constraints.entry_writes_max
}
