//! The store answers for attributes, lists and sums.

use serde_json::{Value, json};

use crate::output::{bytes, count, counted, per_second, rate, shown};
use crate::tour::load::Loaded;
use crate::tour::questions::{Large, List, Stat, Totals};

use super::{Report, comparison_object, lossy};

impl Report<'_> {
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
