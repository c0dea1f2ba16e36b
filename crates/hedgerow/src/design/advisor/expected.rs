//! Turns the result of the search into a design of the engine, and predicts the cost of any design.

use super::advice::Advice;
use super::cost::{CLUSTER_SHARE, FALSE_POSITIVES_MIN, Filter, Index, Level};
use super::device::Device;
use super::geometry::Geometry;
use super::growth;
use super::growth::{Grown, Sizes, Stage};
use super::prediction::Tree;
use super::workload::Workload;
use crate::base::entry::ENTRY_OVERHEAD_BYTES;
use crate::base::error::Result;
use crate::base::options::{
    CutSpec, Design, FilterSpec, IndexSpec, LevelSpec, PolicySpec, Residency, TableSpec,
};
use crate::design::allocation;
use crate::design::allocation::BLOOM;
use crate::design::merge_policy;
use crate::table::filter::cuckoo;
use crate::table::htable;

/// The fewest and the most bits per key of a filter of the engine. A level with less than half of
/// the fewest has no filter.
const BITS: (f64, f64) = (1.0, 32.0);
/// The default part of the memory budget that indexes leave to filters: nine tenths of their common
/// share.
const FILTERS_SHARE: f64 = 0.9 / 4.0;
/// The approximate bytes of an entry in a block-based table beside key and value: its part of
/// block, index and filter.
const STORED_BYTES: f64 = 8.0;
/// The least ratio of levels that the engine accepts.
const RATIO_MIN: f64 = 2.0;

/// The expected tree of a design.
#[derive(Debug, Clone, PartialEq)]
pub struct Expected {
    /// Its levels in their mean state.
    pub tree: Tree,
    /// The number of each of these levels in the engine, which counts unused levels, too.
    pub levels: Vec<usize>,
}

/// The tree of a keyspace of this design, grown to the workload's entries by puts of keys in random
/// order, within a memory budget. The memory beyond memtables, indexes and filters caches recently
/// used pages. The entry writes are those of the whole growth. They agree with the engine's planner
/// within a tenth. Arithmetic only: less than a millisecond.
///
/// # Errors
///
/// [`crate::base::error::ErrorKind::InvalidArgument`] if a number of the design or the workload is
/// out of bounds.
pub fn expect(
    design: &Design,
    workload: &Workload,
    device: &Device,
    memory_bytes: u64,
) -> Result<Expected> {
    workload.check()?;
    design.check()?;
    let sizes = sizes(design, workload, memory_bytes);
    let policy = merge_policy::policy(&design.policy);
    let bytes = workload.entries * workload.entry_bytes();
    let grown = growth::grow(&*policy, &sizes, bytes);
    let clusters = clusters(design, &grown, workload, memory_bytes);
    let level = |(nth, stage): (usize, &Stage)| {
        let (filter, false_positives) = match design.filter_at(stage.level) {
            FilterSpec::None => (Filter::None, 1.0),
            FilterSpec::Bloom { bits_per_key } => bloom(f64::from(bits_per_key)),
            FilterSpec::Cuckoo { fingerprint_bits } => {
                (Filter::Cuckoo, cuckoo::rate(fingerprint_bits))
            }
            FilterSpec::MultiLevelCuckoo {
                fingerprint_bits, ..
            } => {
                let filter = match stage.runs {
                    1 => Filter::Cuckoo,
                    _ => Filter::MultiLevelCuckoo,
                };
                (filter, cuckoo::rate(fingerprint_bits))
            }
            FilterSpec::Cluster { bits_per_key } => {
                let (_, false_positives) = bloom(f64::from(bits_per_key));
                let is_alone = stage.runs == 1;
                let filter = if is_alone {
                    Filter::Bloom
                } else {
                    clusters[nth]
                };
                (filter, false_positives)
            }
            FilterSpec::Monkey { bits_per_key } => bloom(monkey_bits(
                bits_per_key,
                stage,
                &grown,
                workload,
                memory_bytes,
            )),
        };
        Level {
            entries: stage.bytes / workload.entry_bytes(),
            runs: stage.runs,
            writes: stage.writes,
            versions: stage.versions,
            filter,
            false_positives,
            index: index(design, stage.level),
            cached: 0.0,
        }
    };
    let mut tree = Tree {
        level0_runs: f64::from(grown.level0_runs),
        levels: grown.stages.iter().enumerate().map(level).collect(),
        memtables_bytes: 2.0 * sizes.memtable_bytes as f64,
    };
    tree.fill_cache(workload, device, memory_bytes as f64);
    Ok(Expected {
        tree,
        levels: grown.stages.iter().map(|stage| stage.level).collect(),
    })
}

fn index(design: &Design, level: usize) -> Index {
    match (design.table, design.residency, design.index_at(level)) {
        (TableSpec::HTable, ..) => Index::Marks,
        (_, Residency::Paged, _) => Index::Paged,
        (.., IndexSpec::Fence) => Index::Fence,
        (.., IndexSpec::ThreeLevel | IndexSpec::ThreeLevelArray) => Index::ThreeLevel,
    }
}

/// The reads of each level's clusters. Small levels stay in memory as far as they fit the filters'
/// share, a quarter of the memory, part of which tails and indexes take. Other levels keep their
/// tails in memory as far as these fit.
fn clusters(design: &Design, grown: &Grown, workload: &Workload, memory_bytes: u64) -> Vec<Filter> {
    let share = memory_bytes as f64 / 4.0;
    let (mut whole, mut tails) = match design.residency {
        Residency::Auto => (share * 0.67, share),
        Residency::Resident => (f64::INFINITY, f64::INFINITY),
        Residency::Paged => (0.0, 0.0),
    };
    let of_stage = |stage: &Stage| {
        let FilterSpec::Cluster { bits_per_key } = design.filter_at(stage.level) else {
            return Filter::None;
        };
        let entries = stage.bytes / workload.entry_bytes();
        let bytes = entries * f64::from(bits_per_key) / 8.0;
        whole -= bytes;
        tails -= if whole >= 0.0 {
            bytes
        } else {
            bytes * CLUSTER_SHARE
        };
        match (whole >= 0.0, tails >= 0.0) {
            (true, _) => Filter::Bloom,
            (false, true) => Filter::Cluster,
            (false, false) => Filter::PagedCluster,
        }
    };
    grown.stages.iter().map(of_stage).collect()
}

/// The sizes of memtables and tables. Sizes that the design leaves open are those of a database
/// with one keyspace of one partition.
fn sizes(design: &Design, workload: &Workload, memory_bytes: u64) -> Sizes {
    const ACTIVE_SHARE: (u64, u64) = (3, 32);
    let active = memory_bytes / ACTIVE_SHARE.1 * ACTIVE_SHARE.0;
    let memtable = design
        .memtable_bytes
        .unwrap_or(active.clamp(1 << 20, 256 << 20));
    let table = design
        .table_bytes
        .unwrap_or(memtable.clamp(2 << 20, 64 << 20));
    let entry = workload.entry_bytes();
    let stored = match design.table {
        TableSpec::HTable => htable::stored_bytes(entry, design.block_bytes) / entry,
        TableSpec::BlockBased => 1.0 + STORED_BYTES / entry,
    };
    Sizes {
        memtable_bytes: memtable,
        table_bytes: table,
        flush_bytes: memtable as f64 / (entry + ENTRY_OVERHEAD_BYTES as f64) * entry * stored,
        stored,
    }
}

/// The mean bits per key of the tables of a level.
fn monkey_bits(
    bits_per_key: Option<f32>,
    stage: &Stage,
    grown: &Grown,
    workload: &Workload,
    memory_bytes: u64,
) -> f64 {
    let levels = grown.stages.iter().map(|stage| allocation::Level {
        entries: stage.bytes / workload.entry_bytes(),
        weight: f64::from(stage.runs),
    });
    let levels: Vec<_> = levels.collect();
    let ln_price = match bits_per_key {
        Some(bits) => BLOOM.ln_price(&levels, f64::from(bits)),
        None => {
            let share = 8.0 * memory_bytes as f64 * FILTERS_SHARE;
            BLOOM
                .ln_price(&levels, share / workload.entries)
                .max(allocation::ln_price_of_page_cache(workload.entry_bytes()))
        }
    };
    let at = grown.stages.iter().position(|it| it.level == stage.level);
    at.map_or(0.0, |at| BLOOM.at_price(&levels, ln_price)[at])
}

fn bloom(bits: f64) -> (Filter, f64) {
    if bits == 0.0 {
        return (Filter::None, 1.0);
    }
    let (slope, _) = Filter::Bloom.bits(1);
    (
        Filter::Bloom,
        (-bits / slope).exp().max(FALSE_POSITIVES_MIN),
    )
}

impl Advice {
    /// The engine's design for this tree: a trie, or a table of levels that are merged in slices of
    /// the key range when full. Ratios below 2 become 2.
    pub fn design(&self, device: &Device) -> Design {
        if let Geometry::Trie { fan_out } = self.capacities.geometry {
            let is_filtered = |level: &&Level| level.filter != Filter::None;
            let levels = self.tree.levels.iter().filter(is_filtered);
            // Levels whose clusters fit the memory count as levels with a filter per table.
            let filter = levels.max_by_key(|level| level.filter != Filter::Bloom);
            return Design {
                block_bytes: device.block_bytes as u32,
                memtable_bytes: Some((self.tree.memtables_bytes / 2.0) as u64),
                ..trie(fan_out, filter.map_or(FilterSpec::None, filter_spec))
            };
        }
        let steps = self.capacities.steps();
        let level0_runs = self.capacities.level0_runs.round() as u32;
        let first = self
            .tree
            .levels
            .first()
            .map_or(FilterSpec::None, filter_spec);
        let level0 = LevelSpec::fluid(level0_runs, f64::from(level0_runs.max(2))).filter(first);
        let level0 = match self.tree.levels.first().map(|level| level.index) {
            Some(Index::ThreeLevel) => level0.index(IndexSpec::ThreeLevel),
            _ => level0,
        };
        let levels = self.tree.levels.iter().zip(steps);
        let levels = levels.map(|(level, step)| level_spec(level, step));
        let paged = { self.tree.levels.iter() }.filter(|level| level.index == Index::Paged);
        let paged = paged.count();
        Design {
            policy: PolicySpec::levels(std::iter::once(level0).chain(levels)),
            filter: FilterSpec::None,
            residency: match paged {
                0 => Residency::Resident,
                all if all == self.tree.levels.len() => Residency::Paged,
                _ => Residency::Auto,
            },
            block_bytes: device.block_bytes as u32,
            memtable_bytes: Some((self.tree.memtables_bytes / 2.0) as u64),
            ..Design::default()
        }
    }
}

/// A trie of HTables with this filter.
pub(super) fn trie(fan_out: u32, filter: FilterSpec) -> Design {
    Design {
        policy: PolicySpec::trie(fan_out),
        table: TableSpec::HTable,
        filter,
        ..Design::default()
    }
}

fn level_spec(level: &Level, step: f64) -> LevelSpec {
    // The model is not more precise than hundredths.
    let rounded = (step * 100.0).round() / 100.0;
    let spec = match level.runs {
        1 => LevelSpec::leveling(rounded.max(RATIO_MIN)).cut(CutSpec::PartitionedFull),
        runs => LevelSpec::tiering(runs),
    };
    let spec = spec.filter(filter_spec(level));
    match level.index {
        Index::ThreeLevel => spec.index(IndexSpec::ThreeLevel),
        Index::Fence | Index::Paged | Index::Marks => spec,
    }
}

/// The bits per key of a Bloom filter.
fn bits_for(false_positives: f64) -> f32 {
    let (slope, offset) = Filter::Bloom.bits(1);
    let bits = offset - slope * false_positives.ln();
    ((bits * 10.0).round() / 10.0).clamp(BITS.0, BITS.1) as f32
}

fn filter_spec(level: &Level) -> FilterSpec {
    let fingerprint_bits = cuckoo::fingerprint_bits_for(level.false_positives);
    match level.filter {
        Filter::None => FilterSpec::None,
        Filter::Bloom if level.filter_bits() < BITS.0 / 2.0 => FilterSpec::None,
        Filter::Bloom => FilterSpec::Bloom {
            bits_per_key: bits_for(level.false_positives),
        },
        Filter::Cluster | Filter::PagedCluster => FilterSpec::Cluster {
            bits_per_key: bits_for(level.false_positives),
        },
        Filter::Cuckoo => FilterSpec::Cuckoo { fingerprint_bits },
        Filter::MultiLevelCuckoo => FilterSpec::MultiLevelCuckoo {
            fingerprint_bits,
            unique: false,
        },
    }
}
