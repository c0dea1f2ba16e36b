//! INFO: sections of facts, with the names that clients look for.

use std::fmt::Write;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{Args, COMMANDS};
use crate::client::lock;
use crate::freed_memory::resident_bytes;
use crate::pubsub::Kind;
use crate::resp::Reply;
use crate::server::Server;
use crate::session::Session;
use crate::store::{DATABASES, Mode, Txn};

/// The version whose commands and replies the server has.
pub(crate) const REDIS_VERSION: &str = "7.2.4";

/// A name, and what makes the lines.
type Section = (&'static str, fn(&Server) -> String);

const SECTIONS: &[Section] = &[
    ("Server", server),
    ("Clients", clients),
    ("Memory", memory),
    ("Persistence", persistence),
    ("Stats", stats),
    ("Replication", crate::replication::info),
    ("CPU", processors),
    ("Modules", |_| String::new()),
    ("Errorstats", errors),
    ("Cluster", |server| {
        let enabled = u8::from(server.cluster.is_some());
        format!("cluster_enabled:{enabled}\r\n")
    }),
    ("Keyspace", keyspace),
];

/// A section that is shown when it is asked for.
const EXTRA: (&str, fn(&Server) -> String) = ("Commandstats", commands);

pub(super) fn info(session: &mut Session, args: Args<'_>) -> Reply {
    let wanted: Vec<String> = args[1..]
        .iter()
        .map(|it| String::from_utf8_lossy(it).to_lowercase())
        .collect();
    let has = |name: &str| wanted.iter().any(|it| it == name);
    let whole = wanted.is_empty() || has("default");
    let all = has("all") || has("everything");
    let shown = SECTIONS
        .iter()
        .filter(|(name, _)| whole || all || has(&name.to_lowercase()));
    let extra = [EXTRA];
    let extra = extra.iter().filter(|_| all || has("commandstats"));
    let sections = shown.chain(extra).map(|(name, facts)| {
        let facts = tokio::task::block_in_place(|| facts(&session.server));
        format!("# {name}\r\n{facts}")
    });
    Reply::Text(sections.collect::<Vec<_>>().join("\r\n"))
}

fn lines(facts: &[(&str, String)]) -> String {
    facts
        .iter()
        .map(|(name, value)| format!("{name}:{value}\r\n"))
        .collect()
}

fn server(server: &Server) -> String {
    lines(&[
        ("redis_version", REDIS_VERSION.to_owned()),
        ("redis_mode", server.mode().to_owned()),
        ("hedgerow_version", env!("CARGO_PKG_VERSION").to_owned()),
        ("os", std::env::consts::OS.to_owned()),
        ("arch_bits", usize::BITS.to_string()),
        ("process_id", std::process::id().to_string()),
        ("run_id", server.run_id.clone()),
        ("tcp_port", server.port.to_string()),
        (
            "uptime_in_seconds",
            server.since.elapsed().as_secs().to_string(),
        ),
        (
            "uptime_in_days",
            (server.since.elapsed().as_secs() / 86_400).to_string(),
        ),
    ])
}

fn clients(server: &Server) -> String {
    let all = server.clients.all();
    let waiting = all
        .iter()
        .filter(|it| it.is_waiting.load(Ordering::Relaxed))
        .count();
    lines(&[
        ("connected_clients", all.len().to_string()),
        ("maxclients", server.config.clients_max().to_string()),
        ("blocked_clients", waiting.to_string()),
        (
            "tracking_clients",
            server.tracking.totals().clients.to_string(),
        ),
    ])
}

fn memory(server: &Server) -> String {
    let memory = server.db().stats().memory;
    let [resident, peak] = resident_bytes();
    lines(&[
        ("used_memory", memory.total().to_string()),
        ("used_memory_human", human(memory.total())),
        ("used_memory_rss", resident.to_string()),
        ("used_memory_rss_human", human(resident)),
        ("used_memory_peak", peak.to_string()),
        ("used_memory_peak_human", human(peak)),
        ("used_memory_budget", memory.budget.to_string()),
        ("used_memory_memtables", memory.memtables.to_string()),
        ("used_memory_page_cache", memory.page_cache.to_string()),
        ("used_memory_clients", server.buffers.bytes().to_string()),
        ("maxmemory", "0".to_owned()),
        ("maxmemory_policy", "noeviction".to_owned()),
    ]) + &scripts(server)
}

#[cfg(not(feature = "lua"))]
fn scripts(_server: &Server) -> String {
    String::new()
}

#[cfg(feature = "lua")]
fn scripts(server: &Server) -> String {
    let databases = server.databases();
    let scripts = &databases.scripts;
    let libraries = scripts.libraries();
    let functions: usize = libraries.iter().map(|it| it.functions.len()).sum();
    lines(&[
        ("used_memory_lua", scripts.bytes().to_string()),
        ("number_of_cached_scripts", scripts.count().to_string()),
        ("number_of_functions", functions.to_string()),
        ("number_of_libraries", libraries.len().to_string()),
    ])
}

/// A number of bytes for people, with the units of Redis.
fn human(bytes: u64) -> String {
    let units = [(30, 'G'), (20, 'M'), (10, 'K')];
    let unit = units.iter().find(|(bits, _)| bytes >> bits > 0);
    unit.map_or(format!("{bytes}B"), |(bits, unit)| {
        format!("{:.2}{unit}", bytes as f64 / f64::from(1 << bits))
    })
}

pub(crate) fn persistence(server: &Server) -> String {
    let status = |failed: &AtomicBool| match failed.load(Ordering::Relaxed) {
        true => "err".to_owned(),
        false => "ok".to_owned(),
    };
    lines(&[
        (
            "loading",
            u8::from(server.replication.is_loading()).to_string(),
        ),
        ("async_loading", "0".to_owned()),
        ("rdb_bgsave_in_progress", "0".to_owned()),
        (
            "rdb_last_save_time",
            server.last_save.load(Ordering::Relaxed).to_string(),
        ),
        ("rdb_last_bgsave_status", status(&server.save_failed)),
        (
            "rdb_changes_since_last_save",
            server.changes.load(Ordering::Relaxed).to_string(),
        ),
        ("aof_enabled", "1".to_owned()),
        ("aof_rewrite_in_progress", "0".to_owned()),
        ("aof_rewrite_scheduled", "0".to_owned()),
        ("aof_last_bgrewrite_status", "ok".to_owned()),
        ("aof_last_write_status", status(&server.log_failed)),
    ])
}

fn stats(server: &Server) -> String {
    let [hits, misses] = server.lookups.total();
    let engine = server.db().stats();
    let tracking = server.tracking.totals();
    lines(&[
        (
            "total_connections_received",
            server.connections.load(Ordering::Relaxed).to_string(),
        ),
        ("total_commands_processed", server.calls().to_string()),
        (
            "instantaneous_ops_per_sec",
            server.calls_per_second.load(Ordering::Relaxed).to_string(),
        ),
        (
            "rejected_connections",
            server.rejected.load(Ordering::Relaxed).to_string(),
        ),
        (
            "total_error_replies",
            server.errors.load(Ordering::Relaxed).to_string(),
        ),
        (
            "expired_keys",
            server.expired.load(Ordering::Relaxed).to_string(),
        ),
        (
            "expired_subkeys",
            server.expired_fields.load(Ordering::Relaxed).to_string(),
        ),
        ("evicted_keys", "0".to_owned()),
        ("keyspace_hits", hits.to_string()),
        ("keyspace_misses", misses.to_string()),
        (
            "pubsub_channels",
            server.pubsub.count(Kind::Channel).to_string(),
        ),
        (
            "pubsub_patterns",
            server.pubsub.count(Kind::Pattern).to_string(),
        ),
        (
            "pubsubshard_channels",
            server.pubsub.count(Kind::Shard).to_string(),
        ),
        ("tracking_total_keys", tracking.keys.to_string()),
        ("tracking_total_items", tracking.items.to_string()),
        ("tracking_total_prefixes", tracking.prefixes.to_string()),
        ("hedgerow_device_reads", engine.device_reads.to_string()),
        ("hedgerow_log_syncs", engine.log_syncs.to_string()),
        (
            "hedgerow_merge_write_bytes",
            engine.merge_write_bytes.to_string(),
        ),
    ]) + &crate::replication::statistics(server)
}

/// The time of processors, in hundredths of seconds, as Linux tells it.
#[allow(
    clippy::disallowed_methods,
    reason = "a file of the system, not of the database"
)]
fn processors(_server: &Server) -> String {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name of the program may have spaces; it ends with the last bracket.
    let fields: Vec<&str> = stat
        .rsplit(')')
        .next()
        .unwrap_or("")
        .split_whitespace()
        .collect();
    let seconds = |place: usize| {
        let ticks = fields.get(place).and_then(|it| it.parse::<f64>().ok());
        format!("{:.6}", ticks.unwrap_or(0.0) / 100.0)
    };
    lines(&[
        ("used_cpu_sys", seconds(12)),
        ("used_cpu_user", seconds(11)),
        ("used_cpu_sys_children", seconds(14)),
        ("used_cpu_user_children", seconds(13)),
    ])
}

fn errors(server: &Server) -> String {
    let codes = lock(&server.error_codes);
    let line = |(code, count)| format!("errorstat_{code}:count={count}\r\n");
    codes.iter().map(line).collect()
}

fn commands(server: &Server) -> String {
    let mut text = String::new();
    for (command, counters) in COMMANDS.iter().zip(&server.counters.totals()) {
        let calls = counters.calls();
        if calls == 0 {
            continue;
        }
        let micros = counters.micros.load(Ordering::Relaxed);
        // Writing to a string does not fail.
        let _ = write!(
            text,
            "cmdstat_{}:calls={calls},usec={micros},usec_per_call={:.2},rejected_calls=0,\
             failed_calls={}\r\n",
            command.name,
            micros as f64 / calls as f64,
            counters.failed.load(Ordering::Relaxed),
        );
    }
    text
}

/// The databases that have keys, and the number of keys of each.
pub(crate) fn sizes(server: &Server) -> Vec<(usize, i64)> {
    let databases = server.databases();
    let Ok(mut txn) = Txn::new(&databases, Mode::Device, server.now()) else {
        return Vec::new();
    };
    let sizes = (0..DATABASES).map(|db| (db, txn.size(db).unwrap_or(0)));
    sizes.filter(|(_, keys)| *keys > 0).collect()
}

fn keyspace(server: &Server) -> String {
    let line = |(db, keys)| format!("db{db}:keys={keys},expires=0,avg_ttl=0\r\n");
    sizes(server).into_iter().map(line).collect()
}
