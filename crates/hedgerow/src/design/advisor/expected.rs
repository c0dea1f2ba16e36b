//! Turns the result of the search into a design of the engine, and predicts the cost of any design.

use super::advice::Advice;
use super::cost::Level;
use super::device::Device;
use super::growth;
use super::growth::{GrownStore, Sizes, Stage};
use super::prediction::TreeModel;
use super::workload::Workload;
use crate::base::entry::ENTRY_OVERHEAD_BYTES;
use crate::base::error::Result;
use crate::base::options::{
    CLUSTER_SHARE, CutSpec, Design, FilterSpec, Index, LevelSpec, PolicySpec, Residency,
};
use crate::design::allocation;
use crate::design::allocation::BLOOM;
use crate::design::merge_policy;

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
pub struct ExpectedTree {
    /// Its levels in their mean state.
    pub tree: TreeModel,
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
) -> Result<ExpectedTree> {
    workload.check()?;
    design.check()?;
    let sizes = sizes(design, workload, memory_bytes);
    let policy = merge_policy::policy(&design.policy);
    let bytes = workload.entries * workload.entry_bytes();
    let grown = growth::grow(&*policy, &sizes, bytes);
    let in_memory = filters_in_memory(design, &grown, workload, memory_bytes);
    let level = |(nth, stage): (usize, &Stage)| {
        let spec = design.filter_at(stage.level).for_runs(stage.runs);
        let bits = match spec.bits_per_key(stage.runs) {
            average if spec.divides_bits() => {
                divided_bits(average, stage, &grown, workload, memory_bytes)
            }
            bits => bits.unwrap_or(0.0),
        };
        let (filter, false_positives) = spec.model(bits);
        Level {
            entries: stage.bytes / workload.entry_bytes(),
            runs: stage.runs,
            writes: stage.writes,
            versions: stage.versions,
            filter: filter.in_memory(in_memory[nth].0, in_memory[nth].1),
            false_positives,
            index: index(design, stage.level),
            cached: 0.0,
        }
    };
    let mut tree = TreeModel {
        level0_runs: f64::from(grown.level0_runs),
        levels: grown.stages.iter().enumerate().map(level).collect(),
        memtables_bytes: 2.0 * sizes.memtable_bytes as f64,
    };
    tree.fill_cache(workload, device, memory_bytes as f64);
    Ok(ExpectedTree {
        tree,
        levels: grown.stages.iter().map(|stage| stage.level).collect(),
    })
}

fn index(design: &Design, level: usize) -> Index {
    match design.table.index_of_buckets() {
        Some(index) => index,
        None if design.residency == Residency::Paged => Index::Paged,
        None => design.index_at(level).model(),
    }
}

/// For each level, whether all of its filters that are files beside the tables stay in memory, and
/// whether their newest part does. Small levels stay in memory as far as they fit the filters'
/// share, a quarter of the memory, part of which tails and indexes take. Other levels keep their
/// tails in memory as far as these fit.
fn filters_in_memory(
    design: &Design,
    grown: &GrownStore,
    workload: &Workload,
    memory_bytes: u64,
) -> Vec<(bool, bool)> {
    let share = memory_bytes as f64 / 4.0;
    let (mut whole, mut tails) = match design.residency {
        Residency::Auto => (share * 0.67, share),
        Residency::Resident => (f64::INFINITY, f64::INFINITY),
        Residency::Paged => (0.0, 0.0),
    };
    let of_stage = |stage: &Stage| {
        let entries = stage.bytes / workload.entry_bytes();
        let bytes = entries * design.filter_at(stage.level).bits_beside_tables() / 8.0;
        whole -= bytes;
        tails -= match whole >= 0.0 {
            true => bytes,
            false => bytes * CLUSTER_SHARE,
        };
        (whole >= 0.0, tails >= 0.0)
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
    let stored = match design.table.bucket_bytes(entry, design.block_bytes) {
        Some(bytes) => bytes / entry,
        None => 1.0 + STORED_BYTES / entry,
    };
    Sizes {
        memtable_bytes: memtable,
        table_bytes: table,
        flush_bytes: memtable as f64 / (entry + ENTRY_OVERHEAD_BYTES as f64) * entry * stored,
        stored,
    }
}

/// The mean bits per key of the tables of a level.
fn divided_bits(
    average: Option<f64>,
    stage: &Stage,
    grown: &GrownStore,
    workload: &Workload,
    memory_bytes: u64,
) -> f64 {
    let levels = grown.stages.iter().map(|stage| allocation::Level {
        entries: stage.bytes / workload.entry_bytes(),
        weight: f64::from(stage.runs),
    });
    let levels: Vec<_> = levels.collect();
    let ln_price = match average {
        Some(bits) => BLOOM.ln_price(&levels, bits),
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

impl Advice {
    /// The engine's design for this tree: one that was priced as a whole, or a table of levels that
    /// are merged in slices of the key range when full. Ratios below 2 become 2.
    pub fn design(&self, device: &Device) -> Design {
        if let Some(whole) = &self.whole {
            return Design {
                block_bytes: device.block_bytes as u32,
                ..whole.clone()
            };
        }
        let steps = self.capacities.steps();
        let level0_runs = self.capacities.level0_runs.round() as u32;
        let first = self.tree.levels.first();
        let filter = first.map(filter_spec).unwrap_or_default();
        let level0 = LevelSpec::fluid(level0_runs, f64::from(level0_runs.max(2))).filter(filter);
        let level0 = match first.and_then(|it| it.index.spec()) {
            Some(index) => level0.index(index),
            None => level0,
        };
        let levels = self.tree.levels.iter().zip(steps);
        let levels = levels.map(|(level, step)| level_spec(level, step));
        let paged = { self.tree.levels.iter() }.filter(|level| level.index == Index::Paged);
        let paged = paged.count();
        Design {
            policy: PolicySpec::levels(std::iter::once(level0).chain(levels)),
            filter: FilterSpec::default(),
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

fn level_spec(level: &Level, step: f64) -> LevelSpec {
    // The model is not more precise than hundredths.
    let rounded = (step * 100.0).round() / 100.0;
    let spec = match level.runs {
        1 => LevelSpec::leveling(rounded.max(RATIO_MIN)).cut(CutSpec::PartitionedFull),
        runs => LevelSpec::tiering(runs),
    };
    let spec = spec.filter(filter_spec(level));
    match level.index.spec() {
        Some(index) => spec.index(index),
        None => spec,
    }
}

fn filter_spec(level: &Level) -> FilterSpec {
    level.filter.spec(level.false_positives)
}
