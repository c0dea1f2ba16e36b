//! `hedgerow simulate`: the costs of a design while a store grows, without a disk.

mod front;

use std::fs;
use std::path::{Path, PathBuf};

use clap::ValueHint;
use hedgerow::simulate::{GrowthPoint, Overwrites, Simulation, SimulationReport, simulate};
use hedgerow::{Design, PolicySpec};
use hedgerow_bench::report::Curve;
use serde_json::{Value, json};

use crate::arguments;
use crate::exit::{Exit, Failure};
use crate::output::{Output, bytes, count, counted};

const EXAMPLES: &str = "\
Examples:
  hedgerow simulate --entries 1e11 --key-size 16 --value-size 100 --policy leveling:6
  hedgerow simulate --entries 1e9 --overwrites zipf --deletes 0.1 --memory-budget 1GiB --picture growth.svg
  hedgerow simulate --entries 1e7 --memtable-size 1MiB --policy leveling:5 --pace 2
  hedgerow simulate --entries 2e6 --memtable-size 32KiB --table-size 64KiB --front
  hedgerow simulate --entries 1e9 --levels '0=runs:4;1-2=tiering:8;3=leveling:8'";

/// Simulates the growth of a store: levels, runs and amplification of merging virtual tables.
///
/// The planner is the engine's; the sizes of merged tables are expected values. Merging keeps up
/// with the writes unless a pace is given. Values do not compress.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The number of writes, deletes included: 1000000 or 1e6
    #[arg(long, value_name = "N", value_parser = number)]
    entries: u64,
    /// The size of a key in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 16)]
    key_size: u64,
    /// The size of a value as stored
    #[arg(long, value_name = "SIZE", default_value = "100", value_parser = arguments::bytes)]
    value_size: u64,
    /// The merge policy, as for `hedgerow bench`
    #[arg(long, value_name = "POLICY", default_value_t)]
    policy: PolicySpec,
    /// A table of levels in place of a policy: slimdb, or such as
    /// `0=runs:4;1-2=tiering:8;3=leveling:8,partitioned`
    #[arg(long, value_name = "LEVELS", conflicts_with = "policy", value_parser = arguments::levels)]
    levels: Option<PolicySpec>,
    /// The keys that are overwritten: none (each key is new), uniform, zipf
    #[arg(long, value_name = "KEYS", default_value = "none", value_parser = overwrites)]
    overwrites: Overwrites,
    /// The number of distinct keys to overwrite [default: a quarter of the entries]
    #[arg(long, value_name = "N", value_parser = number)]
    keys: Option<u64>,
    /// The share of writes that delete a key, 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    deletes: f64,
    /// The share of writes that delete a range of keys, 0 to 1
    #[arg(
        long,
        value_name = "SHARE",
        default_value_t = 0.0,
        requires = "range_entries"
    )]
    range_deletes: f64,
    /// The mean number of entries that such a delete covers
    #[arg(long, value_name = "N", default_value_t = 0.0)]
    range_entries: f64,
    /// The number of later writes after which a value expires [default: never]
    #[arg(long, value_name = "N", value_parser = number)]
    time_to_live: Option<u64>,
    /// The size at which memtables are flushed [default: follows from the budget]
    #[arg(long, value_name = "SIZE", value_parser = arguments::bytes)]
    memtable_size: Option<u64>,
    /// The size of tables [default: follows from the budget]
    #[arg(long, value_name = "SIZE", value_parser = arguments::bytes)]
    table_size: Option<u64>,
    /// The memory budget for caches, memtables, indexes and filters together [default: 256 MiB, or
    /// a 1024th of the bytes written if that is more]
    #[arg(long, value_name = "SIZE", value_parser = arguments::bytes)]
    memory_budget: Option<u64>,
    /// The maximal number of concurrent merges
    #[arg(long, value_name = "N", default_value_t = 1)]
    merge_threads: usize,
    /// The bytes that one merge thread merges while unthrottled writers write one byte, for a load
    /// at full speed [default: merging keeps up]
    #[arg(long, value_name = "BYTES")]
    pace: Option<f64>,
    /// The seed; the same seed gives the same result
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Compares leveling and Garnering at many ratios instead: writes of an entry against runs to
    /// read, means while the store doubles to its size
    #[arg(long, conflicts_with_all = ["policy", "levels", "picture"])]
    front: bool,
    /// Draws the growth to this SVG file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    picture: Option<PathBuf>,
}

/// The typical ratio of a store's size to the memory of its machine.
const MEMORY_PART: u64 = 1024;

impl Arguments {
    fn memory_budget(&self) -> u64 {
        let entry_bytes = self.key_size.saturating_add(self.value_size);
        let written_bytes = self.entries.saturating_mul(entry_bytes);
        let least = Simulation::default().memory_budget;
        self.memory_budget
            .unwrap_or((written_bytes / MEMORY_PART).max(least))
    }
}

/// Parses a count: `1000000` or `1e6`.
fn number(text: &str) -> Result<u64, String> {
    let unknown = || format!("expected a count such as `1000000` or `1e6`, found `{text}`");
    if let Ok(whole) = text.parse::<u64>() {
        return Ok(whole);
    }
    let number: f64 = text.parse().map_err(|_| unknown())?;
    if (0.0..=(1_u64 << 56) as f64).contains(&number) && number.fract() == 0.0 {
        Ok(number as u64)
    } else {
        Err(unknown())
    }
}

fn overwrites(text: &str) -> Result<Overwrites, String> {
    match text {
        "none" => Ok(Overwrites::None),
        "uniform" => Ok(Overwrites::Uniform),
        "zipf" => Ok(Overwrites::Zipf),
        _ => Err(format!(
            "expected one of none, uniform, zipf; found `{text}`"
        )),
    }
}

pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    let simulation = Simulation {
        entries: arguments.entries,
        key_bytes: arguments.key_size,
        value_bytes: arguments.value_size,
        design: Design {
            policy: arguments
                .levels
                .as_ref()
                .unwrap_or(&arguments.policy)
                .clone(),
            memtable_bytes: arguments.memtable_size,
            table_bytes: arguments.table_size,
            ..Design::default()
        },
        memory_budget: arguments.memory_budget(),
        overwrites: arguments.overwrites,
        keys: arguments.keys,
        deletes: arguments.deletes,
        range_deletes: arguments.range_deletes,
        range_entries: arguments.range_entries,
        time_to_live: arguments.time_to_live,
        merge_threads: arguments.merge_threads,
        pace: arguments.pace,
        seed: arguments.seed,
        ..Simulation::default()
    };
    if arguments.front {
        return front::run(&simulation, output);
    }
    let report = simulate(&simulation)?;
    print(&report, arguments.memory_budget(), output);
    output.object(&object(&report));
    if let Some(path) = &arguments.picture {
        let svg = picture(&report).map_err(|problem| Failure::new(Exit::Failure, problem))?;
        write(path, &svg)?;
    }
    Ok(())
}

#[allow(clippy::disallowed_methods, reason = "a file that the user names")]
fn write(path: &Path, svg: &str) -> Result<(), Failure> {
    fs::write(path, svg).map_err(|e| Failure::io("write", path, &e))
}

fn print(report: &SimulationReport, budget: u64, output: &mut Output) {
    output.line(format_args!(
        "a memory budget of {}: memtables of {}, tables of {}",
        bytes(budget),
        bytes(report.memtable_bytes),
        bytes(report.table_bytes)
    ));
    output.heading("growth", "");
    output.line(format_args!(
        "{:>18}  levels   runs  entry writes  write amp  space amp  while merging",
        "entries"
    ));
    for point in &report.points {
        output.line(format_args!(
            "{:>18}  {:>6}  {:>5.1}  {:>12.2}  {:>9.2}  {:>9.2}  {:>13.2}",
            count(point.entries),
            point.levels.len(),
            point.runs,
            point.entry_writes,
            point.write_amplification,
            point.space_amplification,
            point.transient_space_amplification
        ));
    }
    if let Some(end) = report.points.last() {
        output.heading("levels", "at the end");
        for level in &end.levels {
            let target = level.target_bytes.map_or("no bound".to_owned(), bytes);
            output.line(format_args!(
                "{:>4}  {:>8}  {:>19}  {:>10} of {target}",
                level.level,
                counted(level.runs, "run"),
                counted(level.tables, "table"),
                bytes(level.bytes)
            ));
        }
    }
    let merging = format!(
        "largest merge {}; space while merging at most {:.2} times the live data, from a tenth of this size on",
        bytes(report.largest_merge_bytes),
        report.transient_space_amplification
    );
    output.line(format_args!(""));
    output.wrapped("", &merging);
}

fn object(report: &SimulationReport) -> Value {
    let point = |point: &GrowthPoint| {
        let levels = point.levels.iter().map(|level| {
            json!({
                "level": level.level,
                "runs": level.runs,
                "tables": level.tables,
                "bytes": level.bytes,
                "entries": level.entries,
                "tombstones": level.tombstones,
                "target_bytes": level.target_bytes,
            })
        });
        json!({
            "entries": point.entries,
            "levels": levels.collect::<Vec<Value>>(),
            "runs": point.runs,
            "entry_writes": point.entry_writes,
            "write_amplification": point.write_amplification,
            "filter_write_amplification": point.filter_write_amplification,
            "space_amplification": point.space_amplification,
            "space_over_last_level": point.space_over_last_level,
            "transient_space_amplification": point.transient_space_amplification,
        })
    };
    json!({
        "memtable_bytes": report.memtable_bytes,
        "table_bytes": report.table_bytes,
        "points": report.points.iter().map(point).collect::<Vec<Value>>(),
        "largest_merge_bytes": report.largest_merge_bytes,
        "transient_space_amplification": report.transient_space_amplification,
        "virtual_tables_max": report.virtual_tables_max,
    })
}

fn picture(report: &SimulationReport) -> Result<String, String> {
    let line = |name: &str, of: fn(&GrowthPoint) -> f64| {
        let points = report.points.iter();
        let points = points.map(|point| (point.entries as f64, of(point)));
        (name.to_owned(), points.collect())
    };
    let curve = Curve {
        title: "a growing store".to_owned(),
        x: "entries written".to_owned(),
        y: String::new(),
        lines: vec![
            line("writes of an entry", |point| point.entry_writes),
            line("runs", |point| point.runs),
            line("levels", |point| point.levels.len() as f64),
            line("space amplification", |point| point.space_amplification),
        ],
    };
    let svg = curve.to_svg(|entries| format!("{entries:.0e}"));
    svg.map_err(|error| error.to_string())
}
