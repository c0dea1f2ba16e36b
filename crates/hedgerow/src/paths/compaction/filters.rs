//! Chooses the filter of a table that is written. [`crate::design::allocation`] divides the
//! design's bits among the levels of the tree, by their average fill ([`occupancy`]).
//!
//! If the design leaves the number of bits to the memory budget, a tree may use its share, by
//! entries, of [`crate::table::memory::Memory::filter_bits_per_key`], but no more than pays: a bit
//! of filter saves reads of absent keys, the same bit of page cache saves reads of any key.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::base::options::FilterSpec;
use crate::base::page::TableId;
use crate::base::table_meta::TableMeta;
use crate::design::allocation;
use crate::design::allocation::BITS_FIRST;
use crate::design::allocation::BLOOM;
use crate::design::in_force::DesignInForce;
use crate::design::merge_policy::occupancy::occupancy;
use crate::design::merge_policy::plan::Target;
use crate::design::merge_policy::shape::Run;
use crate::design::merge_policy::tree_edit::Placement;
use crate::design::merge_policy::{LevelTarget, Summary};
use crate::group_filter::{self, TableBuilder};
use crate::table::Table;
use crate::table::filter::{cuckoo, table_filter};
use crate::tree::engine::Engine;
use crate::tree::partition::Partition;
use crate::tree::version::Version;

use crate::design::planner::fitted_targets;

/// The filters of the tables of a level.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Allotted {
    /// Bloom filters with this many bits per key, on average over the tables.
    Bloom(f64),
    /// Cuckoo filters with fingerprints of this many bits.
    Cuckoo(u8),
    /// One filter over several runs ([`crate::group_filter`]): the bits of a fingerprint,
    /// and the number of runs.
    Shared(u8, u32),
    /// Clusters with this many bits per key ([`crate::group_filter::cluster`]).
    Clustered(f32),
}

impl Default for Allotted {
    /// No filters.
    fn default() -> Self {
        Allotted::Bloom(0.0)
    }
}

impl Allotted {
    /// The bits per key, on average over the tables of the level.
    pub(crate) fn bits_per_key(self) -> f64 {
        match self {
            Allotted::Bloom(bits) => bits,
            Allotted::Clustered(bits) => bits.into(),
            Allotted::Cuckoo(fingerprint_bits) => cuckoo::bits_per_key(fingerprint_bits),
            Allotted::Shared(fingerprint_bits, runs) => {
                let run_bits = runs.next_power_of_two().ilog2() as u8;
                cuckoo::bits_per_key(fingerprint_bits + run_bits)
            }
        }
    }

    /// The bits per key of the tables' own filters.
    fn bits_per_key_of_tables(self) -> f64 {
        match self {
            Allotted::Shared(..) | Allotted::Clustered(_) => 0.0,
            own => own.bits_per_key(),
        }
    }

    /// The filter of one table of the level.
    pub(crate) fn of_table(self, id: TableId) -> Option<table_filter::Spec> {
        match self {
            Allotted::Bloom(bits) => allocation::of_table(bits, id).map(table_filter::Spec::Bloom),
            Allotted::Cuckoo(bits) => Some(table_filter::Spec::Cuckoo(bits)),
            Allotted::Shared(..) => Some(table_filter::Spec::Hashes),
            Allotted::Clustered(_) => None,
        }
    }
}

impl Allotted {
    /// The part of a table in a filter over several runs, if it is built with the table.
    pub(crate) fn beside(self) -> Option<Box<dyn TableBuilder>> {
        match self {
            Allotted::Clustered(bits_per_key) => {
                group_filter::begin_table(FilterSpec::Cluster { bits_per_key })
            }
            _ => None,
        }
    }
}

/// The filters of tables that are written now, by level.
pub(crate) fn allot(
    engine: &Engine,
    partition: &Partition,
    design: &DesignInForce,
    version: &Version,
) -> Vec<Allotted> {
    let ln_theta = partition.work().filters.ln_theta();
    let summary = version.summary(design.memtable_bytes, design.table_bytes);
    by_level(engine, design, &summary, ln_theta)
}

/// The filter for the output of this merge: the allotment of the tree as it will be after the
/// merge, corrected for the bits that other tables have above or below theirs, and by no more than
/// that difference.
pub(crate) fn of_merge(
    engine: &Engine,
    partition: &Partition,
    design: &DesignInForce,
    version: &Version,
    inputs: &BTreeMap<TableId, Arc<Table>>,
    target: &Target,
) -> Allotted {
    let is_left = |table: &Arc<Table>| !inputs.contains_key(&table.meta().id);
    let mut summary = version.summary(design.memtable_bytes, design.table_bytes);
    let mut written = 0.0;
    for (placement, table) in inputs.keys().filter_map(|&id| version.table(id)) {
        let meta = table.meta();
        written += meta.entries as f64;
        let from = &mut summary.levels[usize::from(placement.level)];
        from.entries = from.entries.saturating_sub(meta.entries);
        from.bytes = from.bytes.saturating_sub(meta.file_bytes);
        let to = &mut summary.levels[target.level];
        to.entries = to.entries.saturating_add(meta.entries);
        to.bytes = to.bytes.saturating_add(meta.file_bytes);
    }
    let stays = |run: &&Run<_>| Some(run.id) != target.run && run.tables.iter().any(is_left);
    let group = &version.levels[target.level].groups[target.group];
    summary.levels[target.level].runs = 1 + group.runs.iter().filter(stays).count() as u32;

    let ln_theta = partition.work().filters.ln_theta();
    let steered = by_level(engine, design, &summary, ln_theta)[target.level];
    let filters = by_level(engine, design, &summary, 0.0);
    let (Allotted::Bloom(bits), Allotted::Bloom(allotted)) = (steered, filters[target.level])
    else {
        return steered;
    };
    let others = version.tables().filter(|(_, table)| is_left(table));
    let excess = others.map(|(placement, table)| excess_bits(&filters, placement, table.meta()));
    let owed = excess.sum::<f64>() / written.max(1.0);
    Allotted::Bloom(bits.clamp(allotted - owed.max(0.0), allotted - owed.min(0.0)))
}

/// The number of bits by which a table's filter exceeds the allotment of its level.
fn excess_bits(filters: &[Allotted], placement: Placement, table: &TableMeta) -> f64 {
    let allotted = filters[usize::from(placement.level)].bits_per_key_of_tables();
    8.0 * (table.filter_bytes as f64 - allocation::table_bytes(allotted, table.entries))
}

/// The filters of each level.
fn by_level(
    engine: &Engine,
    design: &DesignInForce,
    summary: &Summary,
    ln_theta: f64,
) -> Vec<Allotted> {
    let targets = fitted_targets(&*design.policy, summary.clone());
    let levels = occupancy(summary, &targets);
    let depth = summary.levels.len();
    let monkey = |bits_per_key: Option<f64>| match (&levels, summary.entry_bytes()) {
        (Some(levels), Some(entry_bytes)) => {
            let ln_price = match bits_per_key {
                Some(bits) => BLOOM.ln_price(levels, bits),
                None => BLOOM
                    .ln_price(levels, engine.memory.filter_bits_per_key())
                    .max(allocation::ln_price_of_page_cache(entry_bytes)),
            };
            BLOOM.at_price(levels, ln_price + ln_theta)
        }
        _ => vec![bits_per_key.unwrap_or(BITS_FIRST); depth],
    };
    let several_runs = |level: usize| targets.get(level).and_then(LevelTarget::several_runs);
    // Levels may have filter specs of their own; mostly they share one.
    let mut shared = (FilterSpec::None, Vec::new());
    let filter = |level| match design.design.filter_at(level) {
        FilterSpec::None => Allotted::default(),
        FilterSpec::Bloom { bits_per_key } => Allotted::Bloom(bits_per_key.into()),
        FilterSpec::Cuckoo { fingerprint_bits } => Allotted::Cuckoo(fingerprint_bits),
        FilterSpec::MultiLevelCuckoo {
            fingerprint_bits, ..
        } => match several_runs(level) {
            None => Allotted::Cuckoo(fingerprint_bits),
            Some(runs) => Allotted::Shared(fingerprint_bits, runs),
        },
        FilterSpec::Cluster { bits_per_key } => match several_runs(level) {
            None => Allotted::Bloom(bits_per_key.into()),
            Some(_) => Allotted::Clustered(bits_per_key),
        },
        spec @ FilterSpec::Monkey { bits_per_key } => {
            if shared.0 != spec {
                shared = (spec, monkey(bits_per_key.map(f64::from)));
            }
            Allotted::Bloom(shared.1[level])
        }
    };
    (0..depth).map(filter).collect()
}

/// Called when `written` entries of a tree are being written. Steers the filters of later tables,
/// so that all tables together have the bits allotted to their levels.
pub(crate) fn steer(engine: &Engine, partition: &Partition, design: &DesignInForce, written: u64) {
    let FilterSpec::Monkey { .. } = design.design.filter else {
        return;
    };
    let version = partition.tree().version.clone();
    let entries = version.entries() as f64;
    if entries == 0.0 {
        return;
    }
    let summary = version.summary(design.memtable_bytes, design.table_bytes);
    let filters = by_level(engine, design, &summary, 0.0);
    let excess = version
        .tables()
        .map(|(placement, table)| excess_bits(&filters, placement, table.meta()));
    let excess = excess.sum::<f64>() / entries;
    let controller = &mut partition.work().filters;
    controller.steer(excess, written as f64 / entries);
}
