//! The report of the tour: text for people, section by section, and one object for programs at the
//! end. Every claim is a check; the tour fails if a check fails.

use std::path::Path;
use std::time::Duration;

use hedgerow::{DbStats, KeyspaceStats, MemoryStats};
use serde_json::{Map, Value, json};

use super::changes::Changes;
use super::copies::Reopened;
use super::load::Loaded;
use super::place::Directories;
use super::questions::{Comparison, Large, List, Stat, Totals};
use super::shape;
use super::store::{Background, Contents, Settings, Store};
use crate::exit::{Exit, Failure};
use crate::output::{Output, bytes, count, counted, per_second, rate, seconds, shown};
use crate::trees::{self, bar, memory_object, memory_parts};

const MEMORY_CELLS: usize = 22;

pub(crate) struct Report<'a> {
    output: &'a mut Output,
    memtable_bytes: Option<u64>,
    object: Map<String, Value>,
    checks: Vec<Check>,
}

struct Check {
    claim: String,
    passed: bool,
}

impl<'a> Report<'a> {
    pub(crate) fn new(output: &'a mut Output, root: &Path, settings: &Settings) -> Report<'a> {
        let design = &settings.design;
        let root = shown(root.as_os_str().as_encoded_bytes());
        let partitions = settings.layout.partitioning.count();
        output.line(format_args!(
            "{} of {root}: its metadata in {}, {} and memtables of {},\n  {} of memory, at {}",
            output.bold("A tour"),
            counted(2 * partitions as u64, "LSM-tree"),
            design.policy,
            bytes(design.memtable_bytes.unwrap_or(0)),
            bytes(settings.memory_budget),
            settings.path.display(),
        ));
        let mut report = Report {
            output,
            memtable_bytes: design.memtable_bytes,
            object: Map::new(),
            checks: Vec::new(),
        };
        report.put("directory", json!(root));
        report.put(
            "settings",
            json!({
                "database": settings.path.to_string_lossy(),
                "memory_budget_bytes": settings.memory_budget,
                "memtable_bytes": design.memtable_bytes,
                "table_bytes": design.table_bytes,
                "policy": design.policy.to_string(),
                "filter": design.filter.to_string(),
                "partitions": partitions,
            }),
        );
        report
    }

    // ---- load ----

    pub(crate) fn loaded(&mut self, loaded: &Loaded, count_time: Duration) {
        let others = loaded.entries - loaded.directories - loaded.files - loaded.links;
        self.output.heading("Load", "");
        self.output.line(format_args!(
            "  {}: {}, {}, {}, {others} other; {} in files",
            counted(loaded.entries, "name"),
            counted(loaded.files, "file"),
            counted(loaded.directories, "directory"),
            counted(loaded.links, "link"),
            bytes(loaded.file_bytes),
        ));
        self.output.line(format_args!(
            "  counted in {}, walked and stored in {}: {} names per second",
            seconds(count_time),
            seconds(loaded.time),
            rate(loaded.entries, loaded.time),
        ));
        self.output.line(format_args!(
            "  the store took {} of it for {} in {}: {} puts per second\n  \
             the rates exclude {} of waiting for merges, so that each level shows",
            seconds(loaded.store_time),
            counted(loaded.puts, "put"),
            counted(loaded.batches, "batch"),
            rate(loaded.puts, loaded.store_time),
            seconds(loaded.pause_time + loaded.settle_time),
        ));
        let problems = &loaded.problems;
        if problems.total() > 0 {
            self.output.line(format_args!(
                "  skipped: {} without permission, {} removed meanwhile, {} for other reasons ({})",
                problems.permission,
                problems.vanished,
                problems.other,
                problems.example.as_deref().unwrap_or_default(),
            ));
        }
        let object = json!({
            "entries": loaded.entries,
            "files": loaded.files,
            "directories": loaded.directories,
            "links": loaded.links,
            "others": others,
            "hard_links": loaded.names_again,
            "file_bytes": loaded.file_bytes,
            "puts": loaded.puts,
            "batches": loaded.batches,
            "count_seconds": count_time.as_secs_f64(),
            "seconds": loaded.time.as_secs_f64(),
            "store_seconds": loaded.store_time.as_secs_f64(),
            "pause_seconds": loaded.pause_time.as_secs_f64(),
            "settle_seconds": loaded.settle_time.as_secs_f64(),
            "entries_per_second": per_second(loaded.entries, loaded.time),
            "puts_per_second": per_second(loaded.puts, loaded.store_time),
            "passed_over": {
                "permission": problems.permission,
                "vanished": problems.vanished,
                "other": problems.other,
                "example": problems.example,
            },
        });
        self.put("load", object);
    }

    pub(crate) fn shape(&mut self, name: &str, title: &str, store: &Store) {
        let legend = trees::legend(self.output.drawing);
        self.output.heading(title, legend);
        let mut object = Map::new();
        for stats in [store.entries.stats(), store.inodes.stats()] {
            let rows = trees::rows(&stats, self.memtable_bytes);
            for line in trees::draw(&stats.name, &rows, self.output.drawing) {
                self.output.line(format_args!("{line}"));
            }
            object.insert(stats.name.clone(), trees::object(&stats, &rows));
        }
        let deep = shape::deep_levels(&store.entries.stats());
        if deep < 2 && name == "after_loading" {
            self.output.line(format_args!(
                "  (a tree this small has {} below level 0; memtables have at least 4 KiB)",
                counted(deep as u64, "level"),
            ));
        }
        self.put(name, Value::Object(object));
    }

    // ---- query ----

    pub(crate) fn stat(&mut self, stat: &Stat) {
        self.output.heading("Query", "from the store alone");
        self.output.line(format_args!(
            "  stat {}, one get per component: {} gets per second",
            counted(stat.paths, "path"),
            rate(stat.gets, stat.time),
        ));
        let pages = stat.pages as f64 / stat.gets.max(1) as f64;
        let device = stat.device_reads as f64 / stat.gets.max(1) as f64;
        self.output.line(format_args!(
            "    {pages:.2} pages per get, {device:.2} of them from files; {} false positives in {}",
            count(stat.filter_false_positives),
            counted(stat.filter_probes, "probe"),
        ));
        self.compare("stat gives the file system's attributes", &stat.comparison);
        self.put(
            "stat",
            json!({
                "paths": stat.paths,
                "gets": stat.gets,
                "seconds": stat.time.as_secs_f64(),
                "gets_per_second": per_second(stat.gets, stat.time),
                "pages_per_get": pages,
                "device_reads_per_get": device,
                "filter_probes": stat.filter_probes,
                "filter_false_positives": stat.filter_false_positives,
                "memtable_hits": stat.memtable_hits,
                "comparison": comparison_object(&stat.comparison),
            }),
        );
    }

    pub(crate) fn list(&mut self, list: &List) {
        self.output.line(format_args!(
            "  list {} by scans of a prefix: {} scans and {} names per second",
            counted(list.directories, "directory"),
            rate(list.directories, list.time),
            rate(list.entries, list.time),
        ));
        for (name, attributes) in &list.root {
            let target = match shown(&attributes.target) {
                target if target.is_empty() => target,
                target => format!(" -> {target}"),
            };
            self.output.line(format_args!(
                "    {} {:>5} {:>5} {:>10}  {}{target}",
                attributes.mode_shown(),
                attributes.owner,
                attributes.group,
                bytes(attributes.size),
                shown(name),
            ));
        }
        let more = list.root_entries - list.root.len() as u64;
        if more > 0 {
            self.output
                .line(format_args!("    and {} more", count(more)));
        }
        self.compare("list gives the file system's names", &list.comparison);
        let root: Vec<String> = list.root.iter().map(|(name, _)| lossy(name)).collect();
        self.put(
            "list",
            json!({
                "directories": list.directories,
                "entries": list.entries,
                "seconds": list.time.as_secs_f64(),
                "scans_per_second": per_second(list.directories, list.time),
                "entries_per_second": per_second(list.entries, list.time),
                "root_entries": list.root_entries,
                "root_begins_with": root,
                "comparison": comparison_object(&list.comparison),
            }),
        );
    }

    pub(crate) fn largest(&mut self, totals: &Totals, loaded: &Loaded) {
        self.output.line(format_args!(
            "  the ten largest directories, from a full scan: {} names per second",
            rate(totals.scanned, totals.time),
        ));
        self.output.line(format_args!(
            "    {:<38} {:>10}",
            format!("{:>10}", "by size"),
            "by names"
        ));
        let lines = totals.by_bytes.len().max(totals.by_entries.len());
        for i in 0..lines {
            let left = totals.by_bytes.get(i).map_or(String::new(), |large| {
                column(&bytes(large.total.bytes), &large.path)
            });
            let right = totals.by_entries.get(i).map_or(String::new(), |large| {
                column(&count(large.total.entries), &large.path)
            });
            let line = format!("    {left:<38} {right}");
            self.output.line(format_args!("{}", line.trim_end()));
        }
        let root = totals.root();
        self.check(
            "the scan adds up to the walk",
            totals.scanned == loaded.entries && root.bytes == loaded.file_bytes,
            &format!(
                "{} names and {} in files",
                count(totals.scanned),
                bytes(root.bytes)
            ),
        );
        let object = |all: &[Large]| -> Vec<Value> {
            let one = |large: &Large| {
                json!({
                    "path": lossy(&large.path),
                    "bytes": large.total.bytes,
                    "entries": large.total.entries,
                })
            };
            all.iter().map(one).collect()
        };
        self.put(
            "largest",
            json!({
                "entries_scanned": totals.scanned,
                "file_bytes": root.bytes,
                "seconds": totals.time.as_secs_f64(),
                "entries_per_second": per_second(totals.scanned, totals.time),
                "by_bytes": object(&totals.by_bytes),
                "by_entries": object(&totals.by_entries),
            }),
        );
    }

    // ---- change ----

    pub(crate) fn changes(&mut self, changes: &Changes) {
        self.output.heading("Change", "under a snapshot");
        self.output.line(format_args!(
            "  touched {}: {} updates per second, each an atomic read and write",
            counted(changes.touched, "file"),
            rate(changes.touched, changes.touch_time),
        ));
        let deletes = changes.deleted + changes.inodes_deleted;
        self.output.line(format_args!(
            "  deleted {}, {}:\n    {} deletes per second",
            counted(changes.deleted, "name"),
            all_of(&changes.subtree),
            rate(deletes, changes.delete_time),
        ));
        let [before, inodes_before] = changes.before;
        let [after, inodes_after] = changes.contents;
        self.check(
            "the snapshot sees everything as it was",
            changes.snapshot_contents == changes.before,
            &counted(changes.snapshot_contents[0].entries, "name"),
        );
        self.check(
            "the store has everything that was not deleted",
            after.entries + changes.deleted == before.entries
                && inodes_after.entries + changes.inodes_deleted == inodes_before.entries,
            &format!("{} names", count(after.entries)),
        );
        self.check(
            "every touch and delete is in the store and not in the snapshot",
            changes.touches_lost == 0 && changes.deletes_lost == 0,
            &format!(
                "{} of {}, {} of {} lost",
                count(changes.touches_lost),
                count(changes.touched),
                count(changes.deletes_lost),
                count(changes.deleted),
            ),
        );
        self.put(
            "changes",
            json!({
                "touched": changes.touched,
                "touch_seconds": changes.touch_time.as_secs_f64(),
                "updates_per_second": per_second(changes.touched, changes.touch_time),
                "deleted_subtree": lossy(&changes.subtree),
                "deleted": changes.deleted,
                "inodes_deleted": changes.inodes_deleted,
                "delete_seconds": changes.delete_time.as_secs_f64(),
                "deletes_per_second": per_second(deletes, changes.delete_time),
                "entries_before": before.entries,
                "entries_in_snapshot": changes.snapshot_contents[0].entries,
                "entries_after": after.entries,
            }),
        );
    }

    // ---- the engine ----

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
        self.output.line(format_args!(
            "  {:<11} {:<MEMORY_CELLS$} {:>10} {:>24}",
            "memory",
            format!("of {}", bytes(now.budget)),
            "now",
            "peak while loading",
        ));
        let sum = [("all", now.total(), peak.total())];
        let each = memory_parts(now).into_iter().zip(memory_parts(peak));
        let each = each.map(|((name, part), (_, highest))| (name, part, highest));
        for (name, part, highest) in each.chain(sum) {
            let drawn = bar(part, None, now.budget, MEMORY_CELLS, self.output.drawing);
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

    // ---- copies ----

    pub(crate) fn checkpoint(&mut self, copy: &Reopened, contents: &[Contents; 2]) {
        self.output.heading("Copy, close, reopen", "");
        self.output.line(format_args!(
            "  a checkpoint took {}; opening it {}, verifying its {} {}",
            seconds(copy.leave_time),
            seconds(copy.open_time),
            counted(copy.verified.tables, "table"),
            seconds(copy.verify_time),
        ));
        self.same("the checkpoint holds the same", copy, contents);
        self.put("checkpoint", reopened_object(copy));
    }

    pub(crate) fn reopened(&mut self, reopened: &Reopened, contents: &[Contents; 2]) {
        self.output.line(format_args!(
            "  closing took {}, opening {}, verifying {} with {} {}",
            seconds(reopened.leave_time),
            seconds(reopened.open_time),
            counted(reopened.verified.tables, "table"),
            bytes(reopened.verified.bytes),
            seconds(reopened.verify_time),
        ));
        self.same("the reopened database holds the same", reopened, contents);
        self.put("reopen", reopened_object(reopened));
    }

    fn same(&mut self, claim: &str, found: &Reopened, contents: &[Contents; 2]) {
        let detail = format!(
            "{} names, {} inodes, byte for byte",
            count(found.contents[0].entries),
            count(found.contents[1].entries)
        );
        self.check(claim, found.contents == *contents, &detail);
    }

    // ---- the end ----

    pub(crate) fn finish(
        mut self,
        background: &Background,
        time: Duration,
        place: &Directories,
    ) -> Result<(), Failure> {
        let errors = background.errors();
        let first = errors.first().map_or("none", String::as_str).to_owned();
        self.check(
            "no background job reported an error",
            errors.is_empty(),
            &first,
        );
        let kept = match (place.keeps_database, place.keeps_checkpoint) {
            (true, true) => format!(
                "; the database stays in {}, the checkpoint in {}",
                place.database.display(),
                place.checkpoint.display()
            ),
            (true, false) => format!("; the database stays in {}", place.database.display()),
            _ => String::new(),
        };
        let failed: Vec<&str> = self
            .checks
            .iter()
            .filter(|c| !c.passed)
            .map(|c| c.claim.as_str())
            .collect();
        let passed = self.checks.len() - failed.len();
        self.output.line(format_args!(
            "\n{} of {} checks passed, in {}{kept}",
            passed,
            self.checks.len(),
            seconds(time),
        ));
        let failure = format!(
            "{} of {} checks failed: {}",
            failed.len(),
            self.checks.len(),
            failed.join("; ")
        );
        let all = failed.is_empty();
        let checks: Vec<Value> = self
            .checks
            .iter()
            .map(|c| json!({"claim": c.claim, "passed": c.passed}))
            .collect();
        self.put("checks", json!(checks));
        self.put("passed", json!(all));
        self.put("seconds", json!(time.as_secs_f64()));
        self.put("database_kept", json!(place.keeps_database));
        self.output.object(&Value::Object(self.object));
        if all {
            Ok(())
        } else {
            Err(Failure::new(Exit::Failure, failure))
        }
    }

    fn compare(&mut self, claim: &str, comparison: &Comparison) {
        let mut detail = format!("{} equal", count(comparison.equal));
        if comparison.changed_meanwhile > 0 {
            let changed = count(comparison.changed_meanwhile);
            detail += &format!(", {changed} changed on disk meanwhile");
        }
        if let Some(first) = comparison.different.first() {
            let different = comparison.different.len();
            detail += &format!(", {different} different, such as {first}");
        }
        self.check(claim, comparison.different.is_empty(), &detail);
    }

    fn check(&mut self, claim: &str, passed: bool, detail: &str) {
        let mark = match (passed, self.output.drawing) {
            (true, true) => self.output.green("✓"),
            (true, false) => "ok:".to_owned(),
            (false, true) => self.output.red("✗"),
            (false, false) => "FAILED:".to_owned(),
        };
        self.output.line(format_args!("  {mark} {claim}: {detail}"));
        self.checks.push(Check {
            claim: claim.to_owned(),
            passed,
        });
    }

    fn put(&mut self, name: &str, value: Value) {
        self.object.insert(name.to_owned(), value);
    }
}

/// The text for a deleted subtree. It is empty if the tree is too small to delete a part.
fn all_of(subtree: &[u8]) -> String {
    if subtree.is_empty() {
        "the tree has no fitting directory".to_owned()
    } else {
        format!("all of {}", shown(subtree))
    }
}

/// Formats a number and a path in 36 columns.
fn column(number: &str, path: &[u8]) -> String {
    const PATH_CHARACTERS: usize = 26;
    let path = shown(path);
    let length = path.chars().count();
    let path = if length > PATH_CHARACTERS {
        let end: String = path.chars().skip(length - PATH_CHARACTERS + 2).collect();
        format!("..{end}")
    } else {
        path
    };
    format!("{number:>10} {path}")
}

/// A name as Unicode, for JSON.
fn lossy(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}

fn comparison_object(comparison: &Comparison) -> Value {
    json!({
        "equal": comparison.equal,
        "changed_meanwhile": comparison.changed_meanwhile,
        "different": comparison.different,
    })
}

fn reopened_object(reopened: &Reopened) -> Value {
    json!({
        "leave_seconds": reopened.leave_time.as_secs_f64(),
        "open_seconds": reopened.open_time.as_secs_f64(),
        "verify_seconds": reopened.verify_time.as_secs_f64(),
        "entries": reopened.contents[0].entries,
        "inodes": reopened.contents[1].entries,
        "verified": {
            "tables": reopened.verified.tables,
            "entries": reopened.verified.entries,
            "bytes": reopened.verified.bytes,
            "log_records": reopened.verified.log_records,
        },
    })
}
