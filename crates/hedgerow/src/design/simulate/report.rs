//! The report of a simulation.

use crate::design::in_force::DesignInForce;
use crate::design::merge_policy::shape::Facts;

use super::virtual_table::VirtualTable;
use super::virtual_tree::VirtualTree;

/// The points of a report per tenfold growth of the store.
const POINTS_PER_DECADE: f64 = 8.0;

/// One level at one size of the store.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct LevelReport {
    /// The level's number; level 0 holds the flushed runs.
    pub level: usize,
    /// Sorted runs.
    pub runs: u64,
    /// Tables.
    pub tables: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Entries, tombstones and old versions included.
    pub entries: u64,
    /// Tombstones.
    pub tombstones: u64,
    /// The level's capacity by the policy; `None` if it has no bound.
    pub target_bytes: Option<u64>,
}

/// The store at one size. Counts begin with the first write.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct GrowthPoint {
    /// Writes so far.
    pub entries: u64,
    /// The levels that are not empty.
    pub levels: Vec<LevelReport>,
    /// Bytes of tables and filters written over bytes of keys and values written.
    pub write_amplification: f64,
    /// The part of it that is filters in files of their own.
    pub filter_write_amplification: f64,
    /// Entries written by flushes and merges over entries written.
    pub entry_writes: f64,
    /// Bytes of tables over those of one table with only the live entries.
    pub space_amplification: f64,
    /// Bytes of tables over those of the last level.
    pub space_over_last_level: f64,
    /// The mean number of sorted runs that a lookup reads, without memtables, since the last point.
    pub runs: f64,
    /// The largest size of all tables since the last point, outputs of running merges included,
    /// over that of one table with only the live entries.
    pub transient_space_amplification: f64,
}

/// The growth of a store under a design.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct SimulationReport {
    /// The size at which memtables are flushed, as the engine derives it.
    pub memtable_bytes: u64,
    /// The size of tables, as the engine derives it.
    pub table_bytes: u64,
    /// The points, from small to large; the last one is the end.
    pub points: Vec<GrowthPoint>,
    /// The bytes of the inputs of the largest merge of one job.
    pub largest_merge_bytes: u64,
    /// The largest size of all tables, outputs of running merges included, over one table with only
    /// the live entries, while the store grew from a tenth of its size to all of it. (A store of a
    /// few memtables is always merged as a whole.)
    pub transient_space_amplification: f64,
    /// The most virtual tables at once.
    pub virtual_tables_max: usize,
}

/// Collects the points of a report while the store grows.
#[derive(Debug, Default)]
pub(super) struct Growth {
    points: Vec<GrowthPoint>,
    virtual_tables_max: usize,
    /// The sum of the runs after each flush since the last point, and the number of these flushes.
    runs: f64,
    flushes: f64,
}

impl Growth {
    /// Called after every flush and the merges after it.
    pub(super) fn watch(&mut self, tree: &mut VirtualTree, is_end: bool) {
        let levels = tree.shape.levels.iter();
        self.runs += f64::from(levels.map(|level| level.summary().runs).sum::<u32>());
        self.flushes += 1.0;
        let step = 10_f64.powf(1.0 / POINTS_PER_DECADE);
        let due = self
            .points
            .last()
            .map_or(0.0, |last| last.entries as f64 * step);
        if tree.written() >= due || is_end {
            let runs = std::mem::take(&mut self.runs) / std::mem::take(&mut self.flushes);
            let transient = std::mem::take(&mut tree.work.transient_max);
            self.points.push(point(tree, runs, transient));
            let tables = tree.shape.tables().count();
            self.virtual_tables_max = self.virtual_tables_max.max(tables);
        }
    }

    pub(super) fn into_report(
        self,
        tree: &VirtualTree,
        design: &DesignInForce,
    ) -> SimulationReport {
        let is_late = |point: &&GrowthPoint| point.entries as f64 * 10.0 >= tree.written();
        let late = self.points.iter().filter(is_late);
        let transient = late
            .map(|point| point.transient_space_amplification)
            .fold(1.0, f64::max);
        SimulationReport {
            memtable_bytes: design.memtable_bytes,
            table_bytes: design.table_bytes,
            points: self.points,
            largest_merge_bytes: tree.work.largest_merge_bytes as u64,
            transient_space_amplification: transient,
            virtual_tables_max: self.virtual_tables_max,
        }
    }
}

fn point(tree: &VirtualTree, runs: f64, transient: f64) -> GrowthPoint {
    let (targets, sample) = (tree.targets(), tree.sample());
    let levels: Vec<LevelReport> = tree
        .shape
        .levels
        .iter()
        .zip(targets.iter())
        .enumerate()
        .filter(|(_, (level, _))| !level.is_empty())
        .map(|(number, (level, target))| {
            let (summary, weight) = (level.summary(), sample.weight(number) as u64);
            let tables: u64 = level.tables().map(|table| real_tables(tree, table)).sum();
            LevelReport {
                level: number,
                runs: u64::from(summary.runs),
                tables: tables * weight,
                bytes: summary.bytes * weight,
                entries: summary.entries * weight,
                tombstones: summary.tombstones * weight,
                target_bytes: target.capacity_bytes(),
            }
        })
        .collect();
    let bytes = tree.bytes();
    let last = levels.last().map_or(bytes, |level| level.bytes as f64);
    GrowthPoint {
        entries: tree.written() as u64,
        levels,
        write_amplification: tree.work.written_bytes / tree.work.user_bytes,
        filter_write_amplification: tree.work.filter_bytes / tree.work.user_bytes,
        entry_writes: tree.work.written_entries / tree.written(),
        space_amplification: ratio(bytes, tree.live_bytes()),
        space_over_last_level: ratio(bytes, last),
        runs,
        transient_space_amplification: transient.max(ratio(bytes, tree.live_bytes())),
    }
}

fn real_tables(tree: &VirtualTree, table: &VirtualTable) -> u64 {
    match table.stands_for() {
        1 => 1,
        _ => (table.meta().file_bytes as f64 / tree.table_bytes() as f64).round() as u64,
    }
}

/// The ratio; 1 if `of` is 0.
fn ratio(bytes: f64, of: f64) -> f64 {
    if of > 0.0 { bytes / of } else { 1.0 }
}
