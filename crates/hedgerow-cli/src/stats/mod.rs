//! `hedgerow stats`: the trees of a database, the bytes written for them, and their memory.
//!
//! The database is opened for reading only, beside a writer if there is one. This shows everything
//! on disk, and the manifest lists every flush and merge since it was begun. Gets, stalls and
//! caches are counted in the writer's process only; the output says so.

pub(crate) mod written;

use std::time::Duration;

use hedgerow::inspect::{self, Manifest, Segment};
use hedgerow::io::{Clock, OsClock, OsStorage};
use hedgerow::{Db, KeyspaceStats, MemoryStats};
use serde_json::{Value, json};

use crate::database::DatabaseArguments;
use crate::exit::Failure;
use crate::explain::design;
use crate::interrupt::Interrupt;
use crate::keyspaces::{design_text, operations_object, operations_text};
use crate::output::{Output, bytes, count, counted, per_second, rate, shown};
use crate::trees::{self, bar, memory_object, memory_parts};
use written::Written;

const EXAMPLE: &str = "\
Example:
  hedgerow stats --db people
  hedgerow stats --db people --watch 5 --json";

/// The columns of a part of the memory beside its bar.
const MEMORY_COLUMNS: usize = 25;
const UNSEEN: &str = "cache hits, read amplification, stalls, worker queues and memory of a process that has \
the database open are counted there: see `Db::stats`";

/// Shows levels, runs, tables, entries and bytes with their targets, amplification, merge debt, the
/// log and memory.
///
/// The database is opened for reading only, beside a writer if there is one. That writer's gets,
/// stalls and memory are counted in its process and cannot be seen from here.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Arguments {
    #[command(flatten)]
    database: DatabaseArguments,

    /// Repeats every SECONDS, with changes per second, until ended.
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "2")]
    #[arg(value_parser = interval)]
    watch: Option<Duration>,
}

/// The longest wait after which Ctrl-C is noticed.
const PATIENCE: Duration = Duration::from_millis(100);

pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    let clock = OsClock::new();
    // Without --watch it ends by itself, and Ctrl-C ends it at once.
    let interrupt = arguments.watch.map(|_| Interrupt::listen()).transpose()?;
    let mut before: Option<Sample> = None;
    loop {
        let sample = Sample::take(&arguments.database, &clock)?;
        if arguments.watch.is_some() {
            output.clear_screen();
        }
        let change = before.as_ref().map(|before| sample.since(before));
        sample.print(change.as_ref(), output);
        output.object(&sample.object(change.as_ref()));
        output.end_screen();
        let Some(interval) = arguments.watch else {
            return Ok(());
        };
        before = Some(sample);
        let mut left = interval;
        while !left.is_zero() {
            if output.is_broken() || interrupt.as_ref().is_some_and(Interrupt::came) {
                return Ok(());
            }
            let step = left.min(PATIENCE);
            clock.sleep(step);
            left -= step;
        }
    }
}

fn interval(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().unwrap_or(-1.0);
    match Duration::try_from_secs_f64(seconds) {
        Ok(interval) if !interval.is_zero() => Ok(interval),
        _ => Err(format!(
            "expected a number of seconds above 0, found `{text}`"
        )),
    }
}

/// The database at one moment.
struct Sample {
    taken: Duration,
    /// The sequence number of the last write.
    seqno: u64,
    keyspaces: Vec<KeyspaceSample>,
    memory: MemoryStats,
    written: Written,
    /// The number of log segments in use.
    segments: usize,
}

struct KeyspaceSample {
    stats: KeyspaceStats,
    layout: String,
    design: String,
    /// The writes of an entry since the keyspace got its design, as `explain design` shows them;
    /// `None` while too few entries were added.
    entry_writes: Option<f64>,
}

/// The changes from one sample to the next.
struct Change {
    time: Duration,
    writes: u64,
    written: Written,
    keyspaces: Vec<Growth>,
}

/// The growth of a keyspace.
struct Growth {
    name: String,
    /// The growth in bytes of the memtables and of each level.
    bytes: Vec<(String, i64)>,
    tables: i64,
}

impl Sample {
    fn take(database: &DatabaseArguments, clock: &OsClock) -> Result<Sample, Failure> {
        let db = database.open_to_read()?;
        let storage = OsStorage::default();
        let manifest = inspect::manifest(&storage, &database.db)?;
        let written = Written::of(&manifest);
        let mut segments = 0;
        for number in inspect::segments(&storage, &database.db)? {
            let needed = number >= written.log_start;
            // A segment that the writer has just recycled is not in use.
            let begun = || {
                let segment = Segment::open(&storage, &database.db, number);
                segment.is_ok_and(|segment| segment.first_seqno().is_some())
            };
            segments += usize::from(needed && begun());
        }
        let stats = db.stats();
        Ok(Sample {
            taken: clock.now(),
            seqno: db.snapshot()?.number(),
            memory: stats.memory,
            keyspaces: stats
                .keyspaces
                .into_iter()
                .map(|k| described(&db, &manifest, k))
                .collect(),
            written,
            segments,
        })
    }

    fn since(&self, before: &Sample) -> Change {
        let keyspaces = self.keyspaces.iter().map(|keyspace| {
            let name = &keyspace.stats.name;
            let old = before.keyspaces.iter().find(|k| k.stats.name == *name);
            let old = old.map_or_else(Vec::new, KeyspaceSample::rows);
            let mut tables = 0;
            let rows = keyspace.rows().into_iter().map(|row| {
                let old = old.iter().find(|old| old.name == row.name);
                tables += row.tables as i64 - old.map_or(0, |old| old.tables as i64);
                let growth = row.bytes as i64 - old.map_or(0, |old| old.bytes as i64);
                (row.name, growth)
            });
            Growth {
                name: name.clone(),
                bytes: rows.collect(),
                tables,
            }
        });
        Change {
            time: self.taken.saturating_sub(before.taken),
            writes: self.seqno.saturating_sub(before.seqno),
            written: self.written.since(&before.written),
            keyspaces: keyspaces.collect(),
        }
    }

    // ---- for people ----

    fn print(&self, change: Option<&Change>, output: &mut Output) {
        if let Some(change) = change {
            change.print(output);
        }
        for keyspace in &self.keyspaces {
            keyspace.print(output);
        }
        output.heading("Written", "since the manifest was begun");
        for line in self.written.lines() {
            output.line(format_args!("  {line}"));
        }
        let in_log: u64 = self
            .keyspaces
            .iter()
            .map(|k| k.stats.memtable_entries)
            .sum();
        output.line(format_args!(
            "  log: {} in use; {} only in the log",
            counted(self.segments as u64, "segment"),
            counted(in_log, "entry"),
        ));
        self.print_memory(output);
        output.line(format_args!(""));
        output.wrapped("", &format!("({UNSEEN})"));
    }

    fn print_memory(&self, output: &mut Output) {
        let budget = self.memory.budget;
        output.heading(
            "Memory",
            &format!("of this process, budget {}", bytes(budget)),
        );
        let all = [("all", self.memory.total())];
        let cells = output.bar_cells(MEMORY_COLUMNS);
        for (name, part) in memory_parts(&self.memory).into_iter().chain(all) {
            let drawn = bar(part, None, budget, cells, output.drawing);
            output.line(format_args!("  {name:<11} {drawn} {:>10}", bytes(part)));
        }
    }

    // ---- for programs ----

    fn object(&self, change: Option<&Change>) -> Value {
        let mut memory = memory_object(&self.memory);
        memory["budget"] = json!(self.memory.budget);
        json!({
            "sequence_number": self.seqno,
            "keyspaces": self.keyspaces.iter().map(KeyspaceSample::object).collect::<Vec<_>>(),
            "written": self.written.object(),
            "log_segments": self.segments,
            "memory": memory,
            "not_seen": UNSEEN,
            "change": change.map(Change::object),
        })
    }
}

fn described(db: &Db, manifest: &Manifest, stats: KeyspaceStats) -> KeyspaceSample {
    let keyspace = db.existing_keyspace(&stats.name);
    let layout = keyspace.as_ref().map(|k| k.layout().to_string());
    let design = keyspace.as_ref().map(|k| design_text(&k.design()));
    KeyspaceSample {
        entry_writes: design::written(manifest, &stats.name).entry_writes(),
        stats,
        layout: layout.unwrap_or_default(),
        design: design.unwrap_or_default(),
    }
}

impl KeyspaceSample {
    /// The rows of the levels. Hits are this process's, which reads nothing.
    fn rows(&self) -> Vec<trees::Row> {
        let mut rows = trees::rows(&self.stats, None);
        rows.iter_mut().for_each(|row| row.hits = None);
        rows
    }

    fn runs(&self) -> usize {
        self.stats.levels.iter().map(|level| level.runs).sum()
    }

    fn print(&self, output: &mut Output) {
        let name = shown(self.stats.name.as_bytes());
        let tunes = if self.stats.tunes_itself {
            ", tunes itself"
        } else {
            ""
        };
        let about = format!("{}, {}{tunes}", self.layout, self.design);
        output.heading(&name, &about);
        for line in trees::draw(None, &self.rows(), output) {
            output.line(format_args!("{line}"));
        }
        for line in trees::partition_lines(&self.stats) {
            output.line(format_args!("{line}"));
        }
        if let Some(writes) = self.entry_writes {
            output.line(format_args!(
                "  writes of an entry {writes:.2}, since the keyspace got its design"
            ));
        }
        output.line(format_args!(
            "  space amplification {:.2} at most, merge debt {}, a get reads at most {}",
            self.stats.space_amplification(),
            bytes(self.stats.debt_bytes),
            counted(self.runs() as u64, "run"),
        ));
        let operations = operations_text(&self.stats.operations);
        output.wrapped("  ", &format!("recent operations: {operations}"));
        if self.stats.levels_over > 0 {
            output.line(format_args!(
                "  {} over target, by {}",
                counted(self.stats.levels_over as u64, "level"),
                bytes(self.stats.misplaced_bytes),
            ));
        }
    }

    fn object(&self) -> Value {
        let mut object = trees::object(&self.stats, &self.rows());
        object["name"] = json!(self.stats.name);
        object["layout"] = json!(self.layout);
        object["design"] = json!(self.design);
        object["entries"] = json!(self.stats.entries());
        object["table_bytes"] = json!(self.stats.table_bytes());
        object["space_amplification"] = json!(self.stats.space_amplification());
        object["runs"] = json!(self.runs());
        object["entry_writes"] = json!(self.entry_writes);
        object["misplaced_bytes"] = json!(self.stats.misplaced_bytes);
        object["self_tuning"] = json!(self.stats.tunes_itself);
        object["operations"] = operations_object(&self.stats.operations);
        object["levels_over"] = json!(self.stats.levels_over);
        object
    }
}

impl Change {
    fn print(&self, output: &mut Output) {
        output.line(format_args!(
            "in the last {:.1} s: {} writes per second, {} flushed and {} merged per second",
            self.time.as_secs_f64(),
            rate(self.writes, self.time),
            bytes(per_second(self.written.flush_bytes, self.time) as u64),
            bytes(per_second(self.written.merge_write_bytes, self.time) as u64),
        ));
        for Growth {
            name,
            bytes,
            tables,
        } in &self.keyspaces
        {
            let changed = bytes.iter().filter(|(_, growth)| *growth != 0);
            let mut parts: Vec<String> = changed
                .map(|(row, growth)| format!("{row} {}{}", sign(*growth), size(*growth)))
                .collect();
            if *tables != 0 {
                let n = count(tables.unsigned_abs());
                parts.push(format!("tables {}{n}", sign(*tables)));
            }
            if !parts.is_empty() {
                let name = shown(name.as_bytes());
                output.line(format_args!("  {name}: {}", parts.join(", ")));
            }
        }
    }

    fn object(&self) -> Value {
        let keyspaces = self.keyspaces.iter().map(|growth| {
            let rows = growth.bytes.iter();
            let rows = rows.map(|(row, bytes)| (row.clone(), json!(bytes)));
            json!({
                "name": growth.name,
                "tables": growth.tables,
                "bytes": rows.collect::<serde_json::Map<_, _>>(),
            })
        });
        json!({
            "seconds": self.time.as_secs_f64(),
            "writes": self.writes,
            "writes_per_second": per_second(self.writes, self.time),
            "written": self.written.object(),
            "keyspaces": keyspaces.collect::<Vec<_>>(),
        })
    }
}

fn sign(growth: i64) -> char {
    if growth < 0 { '-' } else { '+' }
}

fn size(growth: i64) -> String {
    bytes(growth.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::interval;
    use std::time::Duration;

    #[test]
    fn intervals_are_above_zero() {
        assert_eq!(interval("0.5"), Ok(Duration::from_millis(500)));
        for text in ["0", "-1", "soon", "NaN", "inf", ""] {
            assert!(interval(text).is_err(), "{text}");
        }
    }
}
