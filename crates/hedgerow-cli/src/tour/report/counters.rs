//! The engine's counters: amplification, stalls, the log and memory.

use hedgerow::{DbStats, KeyspaceStats, MemoryStats};
use serde_json::{Map, Value, json};

use crate::output::{bytes, counted, seconds};
use crate::tour::load::Loaded;
use crate::tour::questions::Stat;
use crate::tour::store::{Contents, Store};
use crate::trees::{bar, memory_object, memory_parts};

use super::Report;

/// The columns of a part of the memory beside its bar.
const MEMORY_COLUMNS: usize = 51;

impl Report<'_> {
    pub(crate) fn engine(
        &mut self,
        store: &Store,
        loaded: &Loaded,
        stat: &Stat,
        contents: &[Contents; 2],
    ) {
        let stats = store.db.stats();
        self.output
            .heading("The engine", "since the database was opened");
        self.amplification(&stats, stat, contents);
        self.stalls_and_log(&stats);
        self.memory(&stats.memory, &loaded.memory_peak);
    }

    fn amplification(&mut self, stats: &DbStats, stat: &Stat, contents: &[Contents; 2]) {
        let tables: u64 = stats.keyspaces.iter().map(KeyspaceStats::table_bytes).sum();
        let live = contents[0].bytes + contents[1].bytes;
        let space = tables as f64 / live.max(1) as f64;
        let write = stats.write_amplification();
        let log = stats.log_bytes as f64 / stats.user_bytes.max(1) as f64;
        self.output.line(format_args!(
            "  write amplification {write:.2}: for {} of keys and values\n    {} wrote {}, {} wrote {};",
            bytes(stats.user_bytes),
            counted(stats.flushes, "flush"),
            bytes(stats.flush_bytes),
            counted(stats.merges, "merge"),
            bytes(stats.merge_write_bytes),
        ));
        self.output.line(format_args!(
            "    and the log {log:.2}: {}, {}; {} of it kept",
            bytes(stats.log_bytes),
            counted(stats.log_syncs, "sync"),
            bytes(stats.log_live_bytes),
        ));
        let read = stat.pages as f64 / stat.gets.max(1) as f64;
        self.output.line(format_args!(
            "  read amplification {read:.2} pages per get, measured by stat"
        ));
        self.output.line(format_args!(
            "  space amplification {space:.2}: {} of compressed tables for {} of live data",
            bytes(tables),
            bytes(live),
        ));
        let by_keyspace: Map<String, Value> = stats
            .keyspaces
            .iter()
            .map(|k| (k.name.clone(), json!(k.space_amplification())))
            .collect();
        self.put(
            "amplification",
            json!({
                "write": write,
                "log": log,
                "read": read,
                "space": space,
                "space_over_last_level": by_keyspace,
                "user_bytes": stats.user_bytes,
                "live_bytes": live,
                "table_bytes": tables,
                "flushes": stats.flushes,
                "flush_bytes": stats.flush_bytes,
                "merges": stats.merges,
                "moves": stats.moves,
                "merge_read_bytes": stats.merge_read_bytes,
                "merge_write_bytes": stats.merge_write_bytes,
            }),
        );
    }

    fn stalls_and_log(&mut self, stats: &DbStats) {
        let stalls = &stats.stalls;
        let reasons = [
            ("memtables", stalls.memtables),
            ("level 0", stalls.level0),
            ("merge debt", stalls.merge_debt),
            ("the log", stalls.log),
        ];
        let reasons: Vec<String> = reasons
            .iter()
            .filter(|(_, stall)| !stall.total.is_zero())
            .map(|(reason, stall)| format!("{} for {reason}", seconds(stall.total)))
            .collect();
        let reasons = match reasons.as_slice() {
            [] => String::new(),
            reasons => format!(": {}", reasons.join(", ")),
        };
        self.output.line(format_args!(
            "  writes were stalled for {}{reasons}",
            seconds(stalls.total()),
        ));
        self.check(
            "no background job panicked",
            stats.panics == 0,
            &counted(stats.panics as u64, "panic"),
        );
        self.put(
            "stalls",
            json!({
                "seconds": stalls.total().as_secs_f64(),
                "longest_seconds": stalls.longest().as_secs_f64(),
                "memtables_seconds": stalls.memtables.total.as_secs_f64(),
                "level0_seconds": stalls.level0.total.as_secs_f64(),
                "merge_debt_seconds": stalls.merge_debt.total.as_secs_f64(),
                "log_seconds": stalls.log.total.as_secs_f64(),
            }),
        );
        self.put(
            "log",
            json!({
                "bytes": stats.log_bytes,
                "syncs": stats.log_syncs,
                "live_bytes": stats.log_live_bytes,
            }),
        );
    }

    fn memory(&mut self, now: &MemoryStats, peak: &MemoryStats) {
        let cells = self.output.bar_cells(MEMORY_COLUMNS);
        self.output.line(format_args!(
            "  {:<13} {:<cells$} {:>8} {:>24}",
            "memory",
            format!("of {}", bytes(now.budget)),
            "now",
            "peak while loading",
        ));
        let sum = [("all", now.total(), peak.total())];
        let each = memory_parts(now).into_iter().zip(memory_parts(peak));
        let each = each.map(|((name, part), (_, highest))| (name, part, highest));
        for (name, part, highest) in each.chain(sum) {
            let drawn = bar(part, None, now.budget, cells, self.output.drawing);
            self.output.line(format_args!(
                "    {name:<11} {drawn} {:>8} {:>24}",
                bytes(part),
                bytes(highest),
            ));
        }
        self.check(
            "memory stays within the budget",
            now.total() <= now.budget && peak.total() <= peak.budget,
            &format!(
                "{} of {}",
                bytes(now.total().max(peak.total())),
                bytes(now.budget)
            ),
        );
        self.put(
            "memory",
            json!({
                "budget": now.budget,
                "now": memory_object(now),
                "peak_while_loading": memory_object(peak),
            }),
        );
    }
}
