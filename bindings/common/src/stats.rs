//! Statistics of a database as JSON.

use std::time::Duration;

use engine::{
    DbStats, KeyspaceStats, LevelStats, MemoryStats, Operations, PartitionStats, Stall, WorkerStats,
};
use serde_json::{Value, json};

/// The statistics as an object. Sizes are bytes, times are microseconds (`_us`).
pub fn json(stats: &DbStats) -> Value {
    json!({
        "puts": stats.puts,
        "deletes": stats.deletes,
        "gets": stats.gets,
        "get_hits": stats.get_hits,
        "memtable_hits": stats.memtable_hits,
        "seeks": stats.seeks,
        "nexts": stats.nexts,
        "user_bytes": stats.user_bytes,
        "log_bytes": stats.log_bytes,
        "log_syncs": stats.log_syncs,
        "log_live_bytes": stats.log_live_bytes,
        "flushes": stats.flushes,
        "flush_bytes": stats.flush_bytes,
        "flush_entries": stats.flush_entries,
        "bulk_load_bytes": stats.bulk_load_bytes,
        "merges": stats.merges,
        "moves": stats.moves,
        "merge_read_bytes": stats.merge_read_bytes,
        "merge_write_bytes": stats.merge_write_bytes,
        "merge_entries": stats.merge_entries,
        "filter_write_bytes": stats.filter_write_bytes,
        "block_reads": stats.block_reads,
        "device_reads": stats.device_reads,
        "filter_probes": stats.filter_probes,
        "filter_false_positives": stats.filter_false_positives,
        "update_retries": stats.update_retries,
        "transaction_conflicts": stats.transaction_conflicts,
        "read_amplification": stats.read_amplification(),
        "write_amplification": stats.write_amplification(),
        "stalls": {
            "memtables": stall(&stats.stalls.memtables),
            "level0": stall(&stats.stalls.level0),
            "merge_debt": stall(&stats.stalls.merge_debt),
            "log": stall(&stats.stalls.log),
        },
        "memory": memory(&stats.memory),
        "snapshots": stats.snapshots,
        "panics": stats.panics,
        "flush_cpu_us": us(stats.flush_cpu),
        "merge_cpu_us": us(stats.merge_cpu),
        "workers": stats.workers.iter().map(worker).collect::<Vec<_>>(),
        "keyspaces": stats.keyspaces.iter().map(keyspace).collect::<Vec<_>>(),
    })
}

/// The statistics of a keyspace as an object.
pub fn keyspace(stats: &KeyspaceStats) -> Value {
    json!({
        "name": stats.name,
        "design": stats.design.to_string(),
        "retuning": stats.retuning,
        "self_tuning": stats.tunes_itself,
        "operations": operations(&stats.operations),
        "key_bytes": stats.key_bytes,
        "entries": stats.entries(),
        "table_bytes": stats.table_bytes(),
        "space_amplification": stats.space_amplification(),
        "memtable_entries": stats.memtable_entries,
        "memtable_tombstones": stats.memtable_tombstones,
        "memtable_bytes": stats.memtable_bytes,
        "skipped": stats.skipped,
        "skipped_per_scan": stats.skipped_per_scan,
        "raw_bytes": stats.raw_bytes,
        "debt_bytes": stats.debt_bytes,
        "misplaced_bytes": stats.misplaced_bytes,
        "levels_over": stats.levels_over,
        "levels": stats.levels.iter().map(level).collect::<Vec<_>>(),
        "partitions": stats.partitions.iter().map(partition).collect::<Vec<_>>(),
    })
}

fn operations(operations: &Operations) -> Value {
    json!({
        "gets_found": operations.gets_found,
        "gets_missed": operations.gets_missed,
        "seeks": operations.seeks,
        "nexts": operations.nexts,
        "puts": operations.puts,
        "deletes": operations.deletes,
        "replaced": operations.replaced,
        "since_retune": operations.since_retune,
    })
}

fn level(level: &LevelStats) -> Value {
    json!({
        "level": level.level,
        "runs": level.runs,
        "tables": level.tables,
        "entries": level.entries,
        "tombstones": level.tombstones,
        "range_tombstones": level.range_tombstones,
        "bytes": level.bytes,
        "filter_bytes": level.filter_bytes,
        "filter_bits_per_key": level.filter_bits_per_key,
        "target_bytes": level.target_bytes,
        "target_runs": level.target_runs,
        "hits": level.hits,
    })
}

fn partition(partition: &PartitionStats) -> Value {
    json!({
        "worker": partition.worker,
        "memtable_entries": partition.memtable_entries,
        "memtable_tombstones": partition.memtable_tombstones,
        "memtable_bytes": partition.memtable_bytes,
        "runs": partition.runs,
        "tables": partition.tables,
        "entries": partition.entries,
        "bytes": partition.bytes,
        "debt_bytes": partition.debt_bytes,
    })
}

fn memory(memory: &MemoryStats) -> Value {
    json!({
        "budget": memory.budget,
        "total": memory.total(),
        "memtables": memory.memtables,
        "page_cache": memory.page_cache,
        "indexes": memory.indexes,
        "filters": memory.filters,
        "pinned": memory.pinned,
        "merges": memory.merges,
        "tables": memory.tables,
    })
}

fn worker(worker: &WorkerStats) -> Value {
    json!({
        "index": worker.index,
        "processor": worker.processor,
        "partitions": worker.partitions,
        "queued": worker.queued,
        "in_line": worker.in_line,
        "done": worker.done,
        "batches": worker.batches,
        "waited_us": us(worker.waited),
        "waited_max_us": us(worker.waited_max),
    })
}

fn stall(stall: &Stall) -> Value {
    json!({ "count": stall.count, "total_us": us(stall.total), "longest_us": us(stall.longest) })
}

fn us(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use engine::{Db, Layout};

    #[test]
    fn statistics_name_keyspaces_and_count_operations() {
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(dir.path()).unwrap();
        let users = db.keyspace("users", Layout::sorted()).unwrap();
        users.put("ada", "1815").unwrap();
        users.get("ada").unwrap();
        let json = super::json(&db.stats());
        assert_eq!(json["puts"], 1);
        assert_eq!(json["get_hits"], 1);
        assert_eq!(json["keyspaces"][0]["name"], "users");
        assert_eq!(json["keyspaces"][0]["memtable_entries"], 1);
        assert!(json["memory"]["budget"].as_u64().unwrap() > 0);
    }
}
