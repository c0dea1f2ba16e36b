//! The experiments of papers, on all stores that they name.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use clap::{Args, ValueEnum};
use hedgerow::advisor::Device;
use hedgerow::io::ReadMode;
use hedgerow_bench::experiments::{EXPERIMENTS, Engine, Paper, Runner, Size, Step, Trial, summary};
use hedgerow_bench::{Open, Result, device, read_results};
use serde_json::Value;

use crate::group::{self, Group};
use crate::machine;
use crate::report;
use crate::stores::Kind;

/// The arguments of the experiments.
#[derive(Debug, Args)]
pub(crate) struct PaperArguments {
    /// Which of them; all unless given
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..=i64::from(EXPERIMENTS)))]
    experiment: Option<u8>,
    /// The size of data and memory
    #[arg(long, default_value_t = 0.05)]
    scale: f64,
    /// Operations of each workload that reads, instead of what the scale says
    #[arg(long)]
    reads: Option<u64>,
    /// The number of times that each design is run
    #[arg(long, default_value_t = 1)]
    rounds: usize,
    /// Only designs and cases with this in their name
    #[arg(long)]
    only: Option<String>,
    /// The time limit of each design: parts that it has not begun by then are left out
    #[arg(long)]
    minutes: Option<u64>,
    /// The memory of the process, page cache and all, in a control group (needs root)
    #[arg(long, value_parser = crate::flags::bytes)]
    limit: Option<u64>,
    /// The control group to go into first: it has been made with `--limit`
    #[arg(long, hide = true)]
    group: Option<PathBuf>,
    /// Measures the device first, which costs are then predicted for; else an NVMe drive is taken
    #[arg(long)]
    measure_device: bool,
    /// The seed of keys and choices
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The way Hedgerow reads its tables: `pread`, `mmap` or `direct`
    #[arg(long, default_value_t)]
    io: ReadMode,
    /// A directory for the stores, which are removed afterwards
    #[arg(long, required_unless_present = "from")]
    dir: Option<PathBuf>,
    /// Prints a JSON object per row instead of a table
    #[arg(long)]
    json: bool,
    /// Writes a page with charts, and all rows, to this directory
    #[arg(long)]
    report: Option<PathBuf>,
    /// Shows rows of earlier runs instead of running any
    #[arg(long, num_args = 1.., conflicts_with_all = ["dir", "limit"])]
    from: Vec<PathBuf>,
}

/// The file that is made to measure a device, and the time for each of its numbers.
const DEVICE_FILE_BYTES: u64 = 1 << 30;
const DEVICE_TIME: Duration = Duration::from_secs(2);

impl PaperArguments {
    /// Runs the trials in one process, one after the other: this one, unless its memory is to be
    /// limited.
    pub(crate) fn run(self, paper: Paper) -> Result<()> {
        match (&self.group, self.limit) {
            (Some(group), _) => {
                group::enter(group)?;
                self.run_here(paper)
            }
            (None, Some(bytes)) => in_group(bytes),
            (None, None) => self.run_here(paper),
        }
    }

    fn run_here(self, paper: Paper) -> Result<()> {
        let mut rows = Vec::new();
        for path in &self.from {
            let text = std::fs::read_to_string(path);
            rows.extend(read_results(
                &text.map_err(|e| format!("{}: {e}", path.display()))?,
            )?);
        }
        if let Some(dir) = &self.dir {
            self.measure(paper, dir, &mut rows)?;
        }
        if !self.json {
            write!(std::io::stdout(), "{}", summary::table(&rows))?;
        }
        self.report.map_or(Ok(()), |dir| report::write(&dir, &rows))
    }

    /// Adds a row per step of each trial.
    fn measure(&self, paper: Paper, dir: &Path, rows: &mut Vec<Value>) -> Result<()> {
        std::fs::create_dir_all(dir)?;
        let machine = machine::describe(dir)?;
        let runner = Runner {
            dir: dir.to_owned(),
            rounds: self.rounds,
            only: self.only.clone(),
            trial_time_max: self.minutes.map(|it| Duration::from_secs(60 * it)),
            device: match self.measure_device {
                true => device::measure(dir, DEVICE_FILE_BYTES, DEVICE_TIME)?,
                false => Device::nvme(),
            },
            open: &open,
        };
        let size = Size {
            scale: self.scale,
            reads: self.reads,
            seed: self.seed,
            read_mode: self.io,
        };
        let numbers = self.experiment.map_or(1..=EXPERIMENTS, |n| n..=n);
        for number in numbers {
            let mut begun =
                |trial: &Trial, step: &Step| eprintln!("{}: {}", trial.label(), step.name);
            paper.run(&size, number, &runner, &mut begun, &mut |mut row| {
                row["machine"] = machine.clone();
                if self.json {
                    writeln!(std::io::stdout(), "{row}")?;
                }
                rows.push(row);
                Ok(())
            })?;
        }
        Ok(())
    }
}

/// Runs this program again with its arguments, in a control group of its own.
fn in_group(bytes: u64) -> Result<()> {
    group::drop_page_cache()?;
    let group = Group::create(&group::name(), bytes)?;
    let mut child = Command::new(std::env::current_exe()?);
    child.args(std::env::args_os().skip(1));
    child.arg("--group").arg(group.dir());
    match child.status()? {
        status if status.success() => Ok(()),
        status => Err(format!("expected the experiments to end well, found {status}").into()),
    }
}

fn open(engine: &Engine) -> Option<Open> {
    let kind = Kind::from_str(engine.name, false).ok()?;
    let its_options = engine.options.clone();
    Some(Box::new(move |options| kind.open(options, &its_options)))
}
