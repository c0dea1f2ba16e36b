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
use crate::table::filter::table_filter;
use crate::table::memory::Memory;
use crate::tree::partition::Partition;
use crate::tree::version::Version;

use crate::design::planner::fitted_targets;

/// The filters of the tables of a level; none by default.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct FilterAllotment {
    /// The filter for the number of runs of the level.
    spec: FilterSpec,
    /// The bits per key, on average over the tables.
    pub(crate) bits_per_key: f64,
}

impl FilterAllotment {
    /// The bits per key of the tables' own filters.
    fn bits_per_key_of_tables(self) -> f64 {
        match self.spec.is_over_runs() {
            true => 0.0,
            false => self.bits_per_key,
        }
    }

    /// The filter of one table of the level.
    pub(crate) fn of_table(self, id: TableId) -> Option<table_filter::Spec> {
        table_filter::Spec::of(self.spec, allocation::of_table(self.bits_per_key, id))
    }

    /// The part of a table in a filter over several runs, if it is built with the table.
    pub(crate) fn beside(self) -> Option<Box<dyn TableBuilder>> {
        group_filter::begin_table(self.spec)
    }
}

/// The filters of tables that are written now, by level.
pub(crate) fn allot(
    memory: &Memory,
    partition: &Partition,
    design: &DesignInForce,
    version: &Version,
) -> Vec<FilterAllotment> {
    let ln_theta = partition.work().filters.ln_theta();
    let summary = version.summary(design.memtable_bytes, design.table_bytes);
    by_level(memory, design, &summary, ln_theta)
}

/// The filter for the output of this merge: the allotment of the tree as it will be after the
/// merge, corrected for the bits that other tables have above or below theirs, and by no more than
/// that difference.
pub(crate) fn of_merge(
    memory: &Memory,
    partition: &Partition,
    design: &DesignInForce,
    version: &Version,
    inputs: &BTreeMap<TableId, Arc<Table>>,
    target: &Target,
) -> FilterAllotment {
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
    let steered = by_level(memory, design, &summary, ln_theta)[target.level];
    let filters = by_level(memory, design, &summary, 0.0);
    if !steered.spec.divides_bits() {
        return steered;
    }
    let (bits, allotted) = (steered.bits_per_key, filters[target.level].bits_per_key);
    let others = version.tables().filter(|(_, table)| is_left(table));
    let excess = others.map(|(placement, table)| excess_bits(&filters, placement, table.meta()));
    let owed = excess.sum::<f64>() / written.max(1.0);
    FilterAllotment {
        bits_per_key: bits.clamp(allotted - owed.max(0.0), allotted - owed.min(0.0)),
        ..steered
    }
}

/// The number of bits by which a table's filter exceeds the allotment of its level.
fn excess_bits(filters: &[FilterAllotment], placement: Placement, table: &TableMeta) -> f64 {
    let allotted = filters[usize::from(placement.level)].bits_per_key_of_tables();
    8.0 * (table.filter_bytes as f64 - allocation::table_bytes(allotted, table.entries))
}

/// The filters of each level.
fn by_level(
    memory: &Memory,
    design: &DesignInForce,
    summary: &Summary,
    ln_theta: f64,
) -> Vec<FilterAllotment> {
    let targets = fitted_targets(&*design.policy, summary.clone());
    let levels = occupancy(summary, &targets);
    let depth = summary.levels.len();
    let divided = |bits_per_key: Option<f64>| match (&levels, summary.entry_bytes()) {
        (Some(levels), Some(entry_bytes)) => {
            let ln_price = match bits_per_key {
                Some(bits) => BLOOM.ln_price(levels, bits),
                None => BLOOM
                    .ln_price(levels, memory.filter_bits_per_key())
                    .max(allocation::ln_price_of_page_cache(entry_bytes)),
            };
            BLOOM.at_price(levels, ln_price + ln_theta)
        }
        _ => vec![bits_per_key.unwrap_or(BITS_FIRST); depth],
    };
    let runs_max = |level: usize| targets.get(level).map_or(1, LevelTarget::runs_max);
    // Levels may have filter specs of their own; mostly they share one.
    let mut shared = (FilterSpec::default(), Vec::new());
    let filter = |level| {
        let spec = design.design.filter_at(level).for_runs(runs_max(level));
        let mut bits = spec.bits_per_key(runs_max(level));
        if spec.divides_bits() {
            if shared.0 != spec {
                shared = (spec, divided(bits));
            }
            bits = Some(shared.1[level]);
        }
        FilterAllotment {
            spec,
            bits_per_key: bits.unwrap_or(0.0),
        }
    };
    (0..depth).map(filter).collect()
}

/// Called when `written` entries of a tree are being written. Steers the filters of later tables,
/// so that all tables together have the bits allotted to their levels.
pub(crate) fn steer(memory: &Memory, partition: &Partition, design: &DesignInForce, written: u64) {
    if !design.design.filter.divides_bits() {
        return;
    }
    let version = partition.tree().version.clone();
    let entries = version.entries() as f64;
    if entries == 0.0 {
        return;
    }
    let summary = version.summary(design.memtable_bytes, design.table_bytes);
    let filters = by_level(memory, design, &summary, 0.0);
    let excess = version
        .tables()
        .map(|(placement, table)| excess_bits(&filters, placement, table.meta()));
    let excess = excess.sum::<f64>() / entries;
    let controller = &mut partition.work().filters;
    controller.steer(excess, written as f64 / entries);
}
