//! `hedgerow bench WORKLOAD,…`: measures the engine under the workloads of db_bench and YCSB.

mod failed;

use std::fs;
use std::path::{Path, PathBuf};

use clap::ValueHint;
use hedgerow::advisor::Mix;
use hedgerow::io::ReadMode;
use hedgerow::{
    Compression, Design, FilterSpec, IndexSpec, KeyOrder, Layout, Partitioning, PolicySpec,
    Residency, TableSpec,
};
use hedgerow_bench::{
    HedgerowStore, OpenOptions, Part, RecordShape, Session, Settings, Workload, read_results,
    report,
};
use serde_json::Value;

use self::failed::Failed;
use crate::arguments;
use crate::database;
use crate::design_file;
use crate::exit::{Exit, Failure};
use crate::output::{self, Output};

const HELP: &str = "\
Workloads of db_bench: fillseq fillrandom overwrite readrandom readmissing readhot readzipf seekrandom \
readwhilewriting deleterandom putrandom mergerandom multireadrandom mixed; readall updateall prefixscan; of YCSB: ycsb-load \
ycsb-a ycsb-b ycsb-c ycsb-d ycsb-e ycsb-f. A workload that reads needs a fill with the same numbers before it.

Examples:
  hedgerow bench fillrandom,readrandom,seekrandom --num 5000000 --memory-budget 512MiB --compression none
  hedgerow bench ycsb-load,ycsb-a,ycsb-f --threads 2 --json >> results.jsonl
  hedgerow bench fillrandom,readrandom --async=32 --workers 2 --partitions hash:4
  hedgerow bench --report page --from results.jsonl";

/// Measures workloads on a database: rates, latencies, amplification, memory.
///
/// The workloads run one after the other. After each one, pending flushes and merges are completed
/// and measured separately. docs/benchmarks.md describes each workload and each field.
///
/// A workload that fails does not end the others, except those that need what it should have
/// written. Its result is an object with the reason. The page is written if a workload succeeds or
/// with --from. The exit code is that of the first failure.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Arguments {
    /// The workloads to run, in this order
    #[arg(
        value_name = "WORKLOADS",
        value_delimiter = ',',
        required_unless_present = "from"
    )]
    workloads: Vec<Workload>,

    /// The database [default: a temporary one, whatever HEDGEROW_DB says]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    db: Option<PathBuf>,
    /// The keyspace to fill and read
    #[arg(long, value_name = "NAME", default_value = "bench")]
    keyspace: String,
    /// The number of keys to fill it with
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    num: u64,
    /// The number of operations of each workload that reads, and of YCSB's [default: the number of
    /// keys]
    #[arg(long, value_name = "N")]
    reads: Option<u64>,
    /// The size of a key in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 16)]
    key_size: usize,
    /// The size of a value, half of which compresses; YCSB's records have 10 fields of 100 bytes
    #[arg(long, value_name = "SIZE", default_value = "100", value_parser = arguments::bytes)]
    value_size: u64,
    /// The number of keys that share a prefix of 8 bytes; 1 for no prefixes
    #[arg(long, value_name = "N", default_value_t = 1)]
    group_size: u64,
    /// The number of threads that divide the operations
    #[arg(long, value_name = "N", default_value_t = 1)]
    threads: usize,
    /// Entries per commit of fills and of overwrite [default: 1]; keys per call of multireadrandom
    /// [default: 32]
    #[arg(long, value_name = "N")]
    batch_size: Option<u64>,
    /// Steps after each seek of seekrandom, and in each scan of mixed
    #[arg(long, value_name = "N", default_value_t = 10)]
    seek_nexts: u64,
    /// The operations of mixed: shares of get, miss, scan, long-scan and put
    #[arg(long, value_name = "SHARES", default_value_t = Settings::MIX_EVEN)]
    mix: Mix,
    /// Syncs each commit to the disk
    #[arg(long)]
    sync: bool,
    /// Makes asynchronous calls. Each thread has at most CALLS gets, multi-gets, seeks, updates and
    /// synced writes under way [default of the number: 64]. Writes without --sync are awaited at
    /// the end only
    #[arg(long = "async", value_name = "CALLS", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "64")]
    window: Option<usize>,
    /// Worker threads for asynchronous calls, each for its own partitions; with 0, background
    /// threads do the calls
    #[arg(long, value_name = "N", default_value_t = 0)]
    workers: usize,
    /// The capacity of each worker's queue, in calls [default: 1024]
    #[arg(long, value_name = "N")]
    worker_queue: Option<usize>,
    /// The seed of keys, values and choices
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// A file with the design, as `hedgerow advise --write FILE` writes it
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    #[arg(conflicts_with_all = [
        "policy", "levels", "table", "index", "filter", "residency", "compression", "memtable_size", "table_size",
    ])]
    design: Option<PathBuf>,
    /// Lets the keyspace tune itself, beginning with this design (see `hedgerow retune --auto`)
    #[arg(long)]
    auto: bool,
    /// The order of keys: sorted, semi-sorted:8, hashed; seeks need sorted, prefixscan needs sorted
    /// or semi-sorted
    #[arg(long, value_name = "ORDER", default_value_t)]
    order: KeyOrder,
    /// The division into trees: single, hash:N (or N), range:KEY,KEY
    #[arg(long, value_name = "HOW", default_value_t)]
    partitions: Partitioning,
    /// The merge policy: leveling:T, tiering:RUNS, garnering:T,C, lazy-leveling:RUNS,
    /// front-loaded:T, bush:T, garnering-paper:T,C, trie[:FANOUT] (with --order hashed); leveling
    /// and garnering also with ,one-table ,partitioned ,whole-level
    #[arg(long, value_name = "POLICY", default_value_t)]
    policy: PolicySpec,
    /// A table of levels in place of a policy: slimdb, or such as
    /// 0=runs:4;1-2=tiering:8/bloom:12;3=leveling:8,partitioned/none
    #[arg(long, value_name = "LEVELS", conflicts_with = "policy", value_parser = arguments::levels)]
    levels: Option<PolicySpec>,
    /// The table format: block, block:BYTES, htable, htable:BYTES; the last two with --order hashed
    #[arg(long, value_name = "FORMAT", default_value = "block", value_parser = table_format)]
    table: (TableSpec, u32),
    /// The index of tables: fence, three-level, three-level:array; the last two need semi-sorted or
    /// hashed keys
    #[arg(long, value_name = "INDEX", default_value_t)]
    index: IndexSpec,
    /// The filter of tables: monkey, monkey:BITS, bloom:BITS, cuckoo:BITS, mlcf:BITS,
    /// mlcf:BITS,unique, cluster:BITS, none
    #[arg(long, value_name = "FILTER", default_value_t = Design::default().filter)]
    filter: FilterSpec,
    /// The residency of indexes and filters: auto, resident, paged
    #[arg(long, value_name = "WHERE", default_value_t)]
    residency: Residency,
    /// The way to read table files: pread, mmap, direct (past the system's cache)
    #[arg(long, value_name = "HOW", default_value_t)]
    io: ReadMode,
    /// The compression of pages: none, lz4, zstd (in a program built with the feature zstd)
    #[arg(long, value_name = "CODEC", default_value_t)]
    compression: Compression,
    /// The size at which memtables are flushed [default: follows from the budget]
    #[arg(long, value_name = "SIZE", value_parser = arguments::bytes)]
    memtable_size: Option<u64>,
    /// The size of tables [default: follows from the budget]
    #[arg(long, value_name = "SIZE", value_parser = arguments::bytes)]
    table_size: Option<u64>,
    /// The memory budget for caches, memtables, indexes and filters together
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = arguments::bytes)]
    memory_budget: u64,

    /// The directory to write a page with charts and the results to
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    report: Option<PathBuf>,
    /// Files of JSON lines with results of earlier runs, for the page
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    #[arg(num_args = 1.., requires = "report")]
    from: Vec<PathBuf>,
}

/// Parses a table format and the size of its blocks or buckets.
pub(crate) fn table_format(text: &str) -> Result<(TableSpec, u32), String> {
    let unknown = || {
        format!("expected a table format such as `block`, `block:4096` or `htable`, found `{text}`")
    };
    let (table, bytes) = match text.split_once(':') {
        Some((table, size)) => (table, u32::try_from(arguments::bytes(size)?)),
        None => (text, Ok(Design::default().block_bytes)),
    };
    let table = table.parse().map_err(|_| unknown())?;
    Ok((table, bytes.map_err(|_| unknown())?))
}

impl Arguments {
    fn settings(&self) -> Settings {
        Settings {
            records: RecordShape {
                num: self.num,
                key_bytes: self.key_size,
                value_bytes: usize::try_from(self.value_size).unwrap_or(usize::MAX),
                group_size: self.group_size,
                seed: self.seed,
            },
            reads: self.reads,
            part: Part::WHOLE,
            threads: self.threads,
            batch_size: self.batch_size,
            window: self.window,
            seek_nexts: self.seek_nexts,
            mix: self.mix,
        }
    }

    fn options(&self, dir: &Path) -> Result<OpenOptions, Failure> {
        let adds = self.workloads.contains(&Workload::MergeRandom);
        Ok(OpenOptions {
            keyspace: self.keyspace.clone(),
            memory_budget: self.memory_budget,
            sync: self.sync,
            layout: Layout {
                order: self.order,
                partitioning: self.partitions.clone(),
                merge_operator: adds.then(|| "add_i64".into()),
            },
            design: self.design()?,
            self_tuning: self.auto,
            read_mode: self.io,
            workers: self.workers,
            worker_queue: self.worker_queue,
            ..OpenOptions::new(dir, &self.settings())
        })
    }

    fn design(&self) -> Result<Design, Failure> {
        if let Some(path) = &self.design {
            return design_file::read(path);
        }
        Ok(Design {
            policy: self.levels.as_ref().unwrap_or(&self.policy).clone(),
            compression: self.compression,
            table: self.table.0,
            index: self.index,
            filter: self.filter,
            residency: self.residency,
            block_bytes: self.table.1,
            table_bytes: self.table_size,
            memtable_bytes: self.memtable_size,
        })
    }
}

pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    let mut results = read_all(&arguments.from)?;
    let mut failed = Failed::default();
    let measured = match arguments.workloads.is_empty() {
        true => Ok(()),
        false => measure(arguments, output, &mut results, &mut failed),
    };
    // A run in which nothing succeeds leaves the page of an earlier one.
    let old_or_done = !arguments.from.is_empty() || results.iter().any(|it| it["error"].is_null());
    let written = match arguments.report.as_ref().filter(|_| old_or_done) {
        Some(dir) => write_report(dir, &results, output),
        None => Ok(()),
    };
    let ended = measured.and_then(|()| failed.end(arguments.workloads.len()));
    match (ended, written) {
        (Err(first), Err(page)) => {
            let said = format!("{first}; {page}");
            Err(first.saying(said))
        }
        (ended, written) => ended.and(written),
    }
}

fn read_all(paths: &[PathBuf]) -> Result<Vec<Value>, Failure> {
    let mut results = Vec::new();
    for path in paths {
        let text = fs::read_to_string(path).map_err(|e| Failure::io("read", path, &e))?;
        let read = read_results(&text);
        results.extend(
            read.map_err(|e| Failure::new(Exit::Failure, format!("{}: {e}", path.display())))?,
        );
    }
    Ok(results)
}

fn measure(
    arguments: &Arguments,
    output: &mut Output,
    results: &mut Vec<Value>,
    failed: &mut Failed,
) -> Result<(), Failure> {
    let temporary;
    let dir = match &arguments.db {
        Some(dir) => dir.as_path(),
        None => {
            let made = tempfile::Builder::new().prefix("hedgerow-bench-").tempdir();
            temporary =
                made.map_err(|e| Failure::io("make a directory in", &std::env::temp_dir(), &e))?;
            temporary.path()
        }
    };
    if arguments.db.is_some() {
        expect_filled(arguments, dir)?;
    }
    let settings = arguments.settings();
    let mut session = Session::new(HedgerowStore::opener(), arguments.options(dir)?, settings)
        .map_err(failure)?;
    output.line(format_args!("{HEADINGS}"));
    for workload in &arguments.workloads {
        let bar = output::progress(workload.name(), workload.ops(&settings));
        let result = match failed.lacks(*workload) {
            Some(lack) => Err(lack),
            None => session.run(*workload, &|ops| bar.inc(ops)).map_err(failure),
        };
        bar.finish_and_clear();
        match result {
            Ok(result) => {
                print(&result, output);
                results.push(result);
                failed.remove_lack(*workload);
            }
            Err(failure) => {
                let result = session.failed(*workload, &failure.to_string());
                output.object(&result);
                output.line(format_args!("{:<16}  failed: {failure}", workload.name()));
                results.push(result);
                failed.add(*workload, failure);
            }
        }
    }
    Ok(())
}

fn print(result: &Value, output: &mut Output) {
    output.object(result);
    output.line(format_args!("{}", row(result)));
    if let Some(queues) = queues(result) {
        output.line(format_args!("{queues}"));
    }
}

/// Checks that there is something to read, unless the first workload puts it there.
///
/// # Errors
/// `NotFound` if there is no database or no keyspace.
fn expect_filled(arguments: &Arguments, dir: &Path) -> Result<(), Failure> {
    let puts = |it: &Workload| {
        it.loads()
            || matches!(
                it,
                Workload::Overwrite | Workload::PutRandom | Workload::MergeRandom
            )
    };
    match arguments.workloads.first() {
        Some(first) if !puts(first) => {
            let found = database::open_to_read(dir, &arguments.keyspace);
            let fill = format!("; `{first}` needs a fill before it, such as fillrandom,{first}");
            found.map(drop).map_err(|failure| failure.adding(&fill))
        }
        _ => Ok(()),
    }
}

const HEADINGS: &str = "\
workload             ops/s    p50 us    p99 us  p99.9 us      max us  write amp  space amp  device/op  settled in";

/// Counts and waits of the calls that went through queues; `None` without such calls.
fn queues(result: &Value) -> Option<String> {
    let number = |name: &str| result["queue"][name].as_f64();
    Some(format!(
        "  queues: {:.0} calls, {:.1} per batch, {:.1} us mean wait",
        number("calls").filter(|calls| *calls > 0.0)?,
        number("calls_per_batch")?,
        number("wait_us")?,
    ))
}

/// One line with the most important numbers; the JSON has all of them.
fn row(result: &Value) -> String {
    let number = |value: &Value, decimals: usize| match value.as_f64() {
        Some(number) => format!("{number:.decimals$}"),
        None => "-".to_owned(),
    };
    let latency = |name| number(&result["latency_us"][name], 1);
    let reads = result["device_reads"].as_f64().zip(result["ops"].as_f64());
    let reads = reads.map_or("-".to_owned(), |(reads, ops)| {
        format!("{:.3}", reads / ops.max(1.0))
    });
    format!(
        "{:<16} {:>9} {:>9} {:>9} {:>9} {:>11} {:>10} {:>10} {reads:>10} {:>9} s",
        result["workload"].as_str().unwrap_or_default(),
        output::count(result["ops_per_second"].as_f64().unwrap_or(0.0) as u64),
        latency("p50"),
        latency("p99"),
        latency("p999"),
        latency("max"),
        number(&result["write_amplification"], 2),
        number(&result["space_amplification"], 2),
        number(&result["settle_seconds"], 1),
    )
}

fn write_report(dir: &Path, results: &[Value], output: &mut Output) -> Result<(), Failure> {
    let page = report::page(results).map_err(failure)?;
    let written = report::write(dir, results, &page).map_err(failure)?;
    output.line(format_args!("wrote {}", written.display()));
    Ok(())
}

pub(crate) fn failure(error: hedgerow_bench::Error) -> Failure {
    match error.downcast::<hedgerow::Error>() {
        Ok(error) => Failure::from(*error),
        Err(error) => Failure::new(Exit::Failure, error.to_string()),
    }
}
