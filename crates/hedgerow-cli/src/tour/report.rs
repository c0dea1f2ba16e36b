//! The report of the tour: text for people, section by section, and one object for programs at the
//! end. Every claim is a check; the tour fails if a check fails.

mod answers;
mod counters;

use std::path::Path;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::changes::Changes;
use super::copies::Reopened;
use super::load::Loaded;
use super::place::Directories;
use super::questions::Comparison;
use super::shape;
use super::store::{Background, Contents, Settings, Store};
use crate::exit::{Exit, Failure};
use crate::output::{Output, bytes, count, counted, per_second, rate, seconds, shown};
use crate::trees;

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
        self.put("load", loaded_object(loaded, others, count_time));
    }

    pub(crate) fn shape(&mut self, name: &str, title: &str, store: &Store) {
        let legend = trees::legend(self.output.drawing);
        self.output.heading(title, legend);
        let mut object = Map::new();
        for stats in [store.entries.stats(), store.inodes.stats()] {
            let rows = trees::rows(&stats, self.memtable_bytes);
            for line in trees::draw(Some(&stats.name), &rows, self.output) {
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

fn loaded_object(loaded: &Loaded, others: u64, count_time: Duration) -> Value {
    json!({
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
            "permission": loaded.problems.permission,
            "vanished": loaded.problems.vanished,
            "other": loaded.problems.other,
            "example": loaded.problems.example,
        },
    })
}
