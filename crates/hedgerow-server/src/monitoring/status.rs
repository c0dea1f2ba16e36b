//! The data of the page, as JSON. Counters are since the start: the page makes rates of them.

use std::sync::atomic::Ordering;

use hedgerow::{DbStats, KeyspaceStats};
use serde_json::{Value, json};

use crate::commands::COMMANDS;
use crate::commands::info::sizes;
use crate::counters::DURATION_MICROS;
use crate::server::Server;

/// The slow commands that are shown.
const SLOW_MAX: usize = 20;

pub(super) fn text(server: &Server) -> String {
    let stats = server.db().stats();
    let sizes = sizes(server).into_iter();
    let databases = sizes.map(|(db, keys)| json!({ "db": db, "keys": keys }));
    let slow = server.slow_log.last(SLOW_MAX).into_iter().map(|slow| {
        let args: Vec<String> = slow
            .args
            .iter()
            .map(|it| it.escape_ascii().to_string())
            .collect();
        json!({
            "id": slow.id,
            "unix_seconds": slow.unix_seconds,
            "micros": slow.micros,
            "command": args.join(" "),
            "client": slow.address,
        })
    });
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "port": server.port,
        "uptime_micros": server.since.elapsed().as_micros() as u64,
        "clients": server.clients.count(),
        "client_buffer_bytes": server.buffers.bytes(),
        "databases": databases.collect::<Vec<_>>(),
        "duration_micros": DURATION_MICROS,
        "commands": commands(server),
        "memory": memory(&stats),
        "engine": engine(&stats),
        "trees": stats.keyspaces.iter().map(tree).collect::<Vec<_>>(),
        "slow": slow.collect::<Vec<_>>(),
    })
    .to_string()
}

fn commands(server: &Server) -> Vec<Value> {
    let totals = server.counters.totals();
    let called = COMMANDS.iter().zip(&totals);
    let called = called.filter(|(_, it)| it.calls() > 0);
    let commands = called.map(|(command, it)| {
        let durations = it.durations.iter().map(|it| it.load(Ordering::Relaxed));
        json!({
            "name": command.name,
            "calls": it.calls(),
            "failed": it.failed.load(Ordering::Relaxed),
            "micros": it.micros.load(Ordering::Relaxed),
            "durations": durations.collect::<Vec<_>>(),
        })
    });
    commands.collect()
}

fn memory(stats: &DbStats) -> Value {
    let memory = &stats.memory;
    json!({
        "budget": memory.budget,
        "parts": {
            "memtables": memory.memtables,
            "page cache": memory.page_cache,
            "indexes": memory.indexes,
            "filters": memory.filters,
            "pinned": memory.pinned,
            "merges": memory.merges,
            "tables": memory.tables,
        },
    })
}

fn engine(stats: &DbStats) -> Value {
    json!({
        "log_bytes": stats.log_bytes,
        "log_syncs": stats.log_syncs,
        "flush_bytes": stats.flush_bytes,
        "merge_read_bytes": stats.merge_read_bytes,
        "merge_write_bytes": stats.merge_write_bytes,
        "device_reads": stats.device_reads,
        "stalls": stats.stalls.count(),
        "stall_micros": stats.stalls.total().as_micros() as u64,
        "write_amplification": stats.write_amplification(),
    })
}

fn tree(keyspace: &KeyspaceStats) -> Value {
    let levels = keyspace.levels.iter().map(|level| {
        json!({
            "level": level.level,
            "runs": level.runs,
            "tables": level.tables,
            "entries": level.entries,
            "bytes": level.bytes,
            "target_bytes": level.target_bytes,
        })
    });
    json!({
        "name": keyspace.name,
        "entries": keyspace.entries(),
        "memtable_bytes": keyspace.memtable_bytes,
        "table_bytes": keyspace.table_bytes(),
        "debt_bytes": keyspace.debt_bytes,
        "levels": levels.collect::<Vec<_>>(),
    })
}
