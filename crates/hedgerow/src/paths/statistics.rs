//! Gathers the statistics of all parts of the engine.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::base::mutex::lock;
use crate::base::runtime::{Priority, Workers};
use crate::base::stats::{
    DbStats, KeyspaceStats, LevelStats, MemoryStats, OperationKind, PartitionStats, StallStats,
    WorkerStats,
};
use crate::design::merge_policy::LevelTarget;
use crate::design::merge_policy::shape::Level;
use crate::design::planner::debt;
use crate::paths::compaction;
use crate::table::Table;
use crate::table::memory::Memory;
use crate::tree::engine::{Asynchronous, Catalog, Engine, KeyspaceState};
use crate::tree::version::SuperVersion;

pub(crate) fn gather(engine: &Arc<Engine>) -> DbStats {
    let s = &engine.stats;
    let (log_bytes, log_syncs) = engine.writer.as_ref().map_or((0, 0), |w| w.log.counts());
    let [memtables, level0, merge_debt, log] = engine.throttle.stalls();
    let catalog = engine.catalog.load();
    let keyspaces = catalog.states.values();
    let operations = keyspaces
        .map(|state| state.facts.operations.counted())
        .fold(*lock(&s.of_dropped), |sum, it| sum.plus(&it));
    DbStats {
        puts: operations.puts + s.bulk_load_entries.get(),
        deletes: operations.deletes,
        gets: operations.gets_found + operations.gets_missed,
        get_hits: operations.gets_found,
        memtable_hits: s.memtable_hits.get(),
        seeks: operations.seeks,
        nexts: operations.nexts,
        user_bytes: s.user_bytes.get(),
        log_bytes,
        log_syncs,
        log_live_bytes: engine.writer.as_ref().map_or(0, |w| w.log.live_bytes()),
        flush_bytes: s.flush_bytes.get(),
        flush_entries: s.flush_entries.get(),
        bulk_load_bytes: s.bulk_load_bytes.get(),
        filter_write_bytes: s.filter_write_bytes.get(),
        merge_read_bytes: s.merge_read_bytes.get(),
        merge_write_bytes: s.merge_write_bytes.get(),
        merge_entries: s.merge_entries.get(),
        flushes: s.flushes.get(),
        merges: s.merges.get(),
        moves: s.moves.get(),
        block_reads: s.pages_requested.get(),
        device_reads: s.device_reads.get(),
        filter_probes: s.filter_probes.get(),
        filter_false_positives: s.filter_false_positives.get(),
        update_retries: s.update_retries.get(),
        transaction_conflicts: s.transaction_conflicts.get(),
        stalls: StallStats {
            memtables,
            level0,
            merge_debt,
            log,
        },
        memory: memory_stats(&engine.memory),
        snapshots: engine.snapshots.oldest().0,
        panics: engine.scheduler.panics() + engine.asynchronous.workers().map_or(0, |w| w.panics()),
        flush_cpu: engine.scheduler.cpu(&[Priority::Flush]),
        merge_cpu: (engine.scheduler).cpu(&[Priority::MergeTop, Priority::Merge]),
        workers: worker_stats(&engine.asynchronous, &catalog),
        keyspaces: catalog
            .states
            .values()
            .map(|state| keyspace_stats(engine, state))
            .collect(),
    }
}

fn worker_stats(asynchronous: &Asynchronous, catalog: &Catalog) -> Vec<WorkerStats> {
    let count = asynchronous.workers().map_or(0, Workers::count);
    (0..count)
        .filter_map(|worker| asynchronous.worker_stats(catalog, worker))
        .collect()
}

fn memory_stats(memory: &Memory) -> MemoryStats {
    MemoryStats {
        budget: memory.plan().budget,
        memtables: (memory.pool.held_bytes() + memory.pool.retained_bytes()) as u64,
        page_cache: memory.cache.memory_bytes(),
        indexes: memory.indexes.load(Ordering::Relaxed),
        filters: memory.filters.load(Ordering::Relaxed),
        pinned: memory.pinned.load(Ordering::Relaxed) as u64,
        merges: memory.merge_bytes(),
        tables: memory.described(),
    }
}

/// All statistics but the worker and the debt.
fn partition_stats(tree: &SuperVersion) -> PartitionStats {
    let mut stats = PartitionStats::default();
    for memtable in tree.memtables() {
        stats.memtable_entries += memtable.entries();
        stats.memtable_tombstones += memtable.tombstones();
        stats.memtable_bytes += memtable.memory_bytes() as u64;
    }
    for level in &tree.version.levels {
        let summary = level.summary();
        stats.runs += summary.runs as usize;
        stats.tables += level.tables().count();
        stats.entries += summary.entries;
        stats.bytes += summary.bytes;
    }
    stats
}

pub(crate) fn keyspace_stats(engine: &Engine, state: &KeyspaceState) -> KeyspaceStats {
    let design = state.facts.design_owned();
    let mut stats = KeyspaceStats {
        name: state.facts.name(),
        design: design.design.clone(),
        operations: state.facts.operations.recent(),
        key_bytes: state.key_bytes(),
        tunes_itself: state.facts.tunes_itself.load(Ordering::Acquire),
        ..KeyspaceStats::default()
    };
    let operations = &state.facts.operations;
    stats.skipped = operations.get(OperationKind::Skipped);
    let seeks = operations.get(OperationKind::Seeks);
    stats.skipped_per_scan = stats.skipped as f64 / seeks.max(1) as f64;
    let mut levels: Vec<LevelStats> = Vec::new();
    for partition in &state.partitions {
        let tree = partition.tree();
        let targets = design.targets(&tree.version);
        let debt = debt(&tree.version, &targets);
        let of_tree = PartitionStats {
            worker: engine.asynchronous.worker_of(partition.index),
            debt_bytes: debt.bytes,
            ..partition_stats(&tree)
        };
        stats.memtable_entries += of_tree.memtable_entries;
        stats.memtable_tombstones += of_tree.memtable_tombstones;
        stats.memtable_bytes += of_tree.memtable_bytes;
        stats.debt_bytes += of_tree.debt_bytes;
        stats.partitions.push(of_tree);
        stats.misplaced_bytes += debt.misplaced_bytes;
        stats.levels_over = stats.levels_over.max(debt.levels_over as usize);
        stats.retuning |= partition.work().retuned_at.is_some();
        let allotted =
            compaction::filters::allot(&engine.memory, partition, &design, &tree.version);
        for (i, level) in tree.version.levels.iter().enumerate() {
            if levels.len() <= i {
                let hits = engine.stats.hits_by_level.get(i);
                levels.push(LevelStats {
                    level: i,
                    hits: hits.map_or(0, |hits| hits.get()),
                    filter_bits_allotted: allotted.get(i).map_or(0.0, |it| it.bits_per_key),
                    ..LevelStats::default()
                });
            }
            add_level(&mut levels[i], level, targets.get(i));
        }
        stats.raw_bytes += tree
            .version
            .tables()
            .map(|(_, t)| t.meta().raw_bytes)
            .sum::<u64>();
    }
    levels.retain(|l| l.tables > 0 || l.level == 0 || l.target_bytes.is_some_and(|t| t > 0));
    for level in &mut levels {
        level.filter_bits_per_key = 8.0 * level.filter_bytes as f64 / level.entries.max(1) as f64;
    }
    stats.levels = levels;
    stats
}

/// Adds a level of one tree to the sum over the trees of its keyspace.
fn add_level(sum: &mut LevelStats, level: &Level<Arc<Table>>, target: Option<&LevelTarget>) {
    let summary = level.summary();
    sum.runs = sum.runs.max(summary.runs as usize);
    sum.tables += level.tables().count();
    sum.entries += summary.entries;
    sum.tombstones += summary.tombstones;
    sum.range_tombstones += level.range_tombstones();
    sum.bytes += summary.bytes;
    sum.target_runs = target.map_or(1, |t| t.runs_max() as usize);
    let filters = level.tables().map(|table| table.meta().filter_bytes);
    let probes = level.groups.iter().flat_map(|group| &group.filters.probes);
    let shared = probes.map(|probe| probe.filter.bytes());
    sum.filter_bytes += filters.sum::<u64>() + shared.sum::<u64>();
    if let Some(target) = target.and_then(LevelTarget::capacity_bytes) {
        sum.target_bytes = Some(sum.target_bytes.unwrap_or(0).saturating_add(target));
    }
}
