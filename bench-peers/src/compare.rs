//! Every store in turn, several times: each in a process of its own, so that no allocator, cache or
//! thread of one is there when the next is measured.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::Args;
use hedgerow_bench::{Result, add_commit, report};
use serde_json::{Value, json};

use crate::flags::Flags;
use crate::group::{self, Group};
use crate::stores::Kind;
use crate::summary::Results;
use crate::{device, machine};

/// The arguments of a comparison.
#[derive(Debug, Args)]
pub(crate) struct Compare {
    #[command(flatten)]
    flags: Flags,
    /// The stores
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "hedgerow,rocksdb,leveldb,fjall,lmdb,lmdb-writemap,redb,bf-tree"
    )]
    stores: Vec<Kind>,
    /// The number of times that each store is measured, from an empty directory
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// A file that all results are appended to, a JSON object per line [default: results.jsonl in
    /// `--dir`]
    #[arg(long)]
    out: Option<PathBuf>,
    /// Writes a page with charts to this directory
    #[arg(long)]
    report: Option<PathBuf>,
}

/// A comparison with little memory.
#[derive(Debug, Args)]
pub(crate) struct Limited {
    #[command(flatten)]
    compare: Compare,
    /// The memory of each store's process, page cache and all [default: a quarter of the data]
    #[arg(long, value_parser = crate::flags::bytes)]
    limit: Option<u64>,
}

impl Compare {
    /// Measures all stores and prints a table.
    pub(crate) fn run(self) -> Result<()> {
        Run::new(self, None)?.all()
    }
}

impl Limited {
    /// Measures the device, and then all stores in control groups.
    pub(crate) fn run(self) -> Result<()> {
        let Limited { mut compare, limit } = self;
        let flags = &mut compare.flags;
        let data = flags.data_bytes();
        let limit = limit.unwrap_or(data / 4);
        flags.memory_budget.get_or_insert(limit / 2);
        let mut run = Run::new(compare, Some(limit))?;
        // Before anything is measured: it is here that a lack of permission shows.
        drop(Group::create(&group::name(), limit)?);
        group::drop_page_cache()?;
        let device = device::measure(&run.compare.flags.dir, data)?;
        eprintln!("device: {}", device["reads_per_second"]);
        run.keep(device)?;
        run.all()
    }
}

/// A comparison under way.
struct Run {
    compare: Compare,
    limit: Option<u64>,
    machine: Value,
    out: (PathBuf, File),
    results: Results,
    failures: Vec<String>,
}

impl Run {
    fn new(compare: Compare, limit: Option<u64>) -> Result<Run> {
        let dir = &compare.flags.dir;
        fs::create_dir_all(dir)?;
        let path = compare
            .out
            .clone()
            .unwrap_or_else(|| dir.join("results.jsonl"));
        let file = File::options()
            .create(true)
            .append(true)
            .open(&path)
            .map_err(|e| format!("{}: {e}", path.display()))?;
        Ok(Run {
            machine: machine::describe(dir)?,
            compare,
            limit,
            out: (path, file),
            results: Results::default(),
            failures: Vec::new(),
        })
    }

    fn all(mut self) -> Result<()> {
        for round in 0..self.compare.rounds {
            let mut stores = self.compare.stores.clone();
            let first = round % stores.len().max(1);
            stores.rotate_left(first);
            for store in stores {
                if let Err(error) = self.measure(store, round) {
                    let failure = format!("{} in round {round}: {error}", store.name());
                    eprintln!("{failure}");
                    self.failures.push(failure);
                }
            }
        }
        let table = self
            .results
            .table(&self.compare.flags.workloads, &self.compare.stores);
        write!(std::io::stdout(), "{table}")?;
        eprintln!("all results are in {}", self.out.0.display());
        if let Some(dir) = &self.compare.report {
            let results = self.results.all();
            let page = report::page(&results)?;
            eprintln!("wrote {}", report::write(dir, &results, &page)?.display());
        }
        match self.failures.is_empty() {
            true => Ok(()),
            false => Err(self.failures.join("\n").into()),
        }
    }

    /// One store, from an empty directory, in a process of its own.
    fn measure(&mut self, store: Kind, round: usize) -> Result<()> {
        let mut flags = self.compare.flags.clone();
        flags.dir.push(store.name());
        remove(&flags.dir)?;
        let mut child = Command::new(std::env::current_exe()?);
        child.arg("run").arg(format!("--store={}", store.name()));
        child.args(flags.to_args());
        let group = match self.limit {
            Some(bytes) => {
                group::drop_page_cache()?;
                Some(Group::create(&group::name(), bytes)?)
            }
            None => None,
        };
        if let Some(group) = &group {
            child.arg("--group").arg(group.dir());
            child.arg("--measure-device");
        }
        let measured = self.read_results(store, round, &mut child);
        remove(&flags.dir)?;
        measured
    }

    /// Keeps what a child prints, line by line, until it ends.
    fn read_results(&mut self, store: Kind, round: usize, child: &mut Command) -> Result<()> {
        let mut child = child.stdout(Stdio::piped()).spawn()?;
        let lines =
            BufReader::new(child.stdout.take().ok_or("expected the child's output")?).lines();
        let mut kept = Ok(());
        for (task, line) in lines.enumerate() {
            kept = kept.and(self.keep_result(store, round, task, &line?));
        }
        let status = child.wait()?;
        if !status.success() {
            return Err(format!("expected it to end well, found {status}").into());
        }
        kept
    }

    fn keep_result(&mut self, store: Kind, round: usize, task: usize, line: &str) -> Result<()> {
        let mut result: Value = serde_json::from_str(line)?;
        result["round"] = json!(round);
        let rate = result["ops_per_second"].as_f64().unwrap_or(0.0);
        let name = self.compare.flags.workloads[task];
        eprintln!(
            "round {round}: {} {name}: {rate:.0} per second",
            store.name()
        );
        self.results.add(store, task, result.clone());
        self.keep(result)
    }

    /// Writes a line of results, with what every one of them has.
    fn keep(&mut self, mut result: Value) -> Result<()> {
        add_commit(&mut result);
        result["machine"] = self.machine.clone();
        result["memory_limit"] = json!(self.limit);
        Ok(writeln!(self.out.1, "{result}")?)
    }
}

fn remove(dir: &Path) -> Result<()> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}
