//! The arguments of a program that runs the experiments of a paper, and their run.

use std::io::{Write, stdout};
use std::path::{Path, PathBuf};
use std::time::Duration;

use hedgerow::advisor::Device;
use hedgerow::io::ReadMode;
use hedgerow_bench::device::profile;
use hedgerow_bench::{Open, Result, add_commit, read_results, report};
use serde_json::Value;

use crate::experiments::{EXPERIMENTS, Engine, Paper, Runner, Size, Step, Trial, summary};

/// The arguments of the experiments.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The experiment to run [default: all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=i64::from(EXPERIMENTS)))]
    experiment: Option<u8>,
    /// The size of data and memory, as a factor of the paper's
    #[arg(long, value_name = "FACTOR", default_value_t = 0.05)]
    scale: f64,
    /// The number of operations of each workload that reads [default: follows from the scale]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    reads: Option<u64>,
    /// The number of runs of each design
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1000))]
    rounds: u16,
    /// Runs only designs and cases whose names contain this text
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// The time limit of each design in minutes; later steps are skipped
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    minutes: Option<u64>,
    /// The device to predict costs for: nvme, ssd, hdd, cloud, or a file with a device's profile
    /// [default: the profile that `hedgerow advise --measure-device` wrote, else nvme]
    #[arg(long, value_name = "DEVICE")]
    device: Option<String>,
    /// The seed of keys, values and choices
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// The way to read table files: pread, mmap, direct (past the system's cache)
    #[arg(long, value_name = "HOW", default_value_t)]
    io: ReadMode,
    /// A directory for the stores [default: the system's temporary directory]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Prints a JSON object per row instead of a table
    #[arg(long)]
    json: bool,
    /// The directory to write a page with charts and all rows to
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
    /// Files of JSON lines with rows of earlier runs; they are shown, nothing is run
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with = "experiment")]
    from: Vec<PathBuf>,
}

/// The engines of a run, and the machine.
pub struct Setting<'a> {
    /// Opens an engine; returns `None` for a missing one, whose trials are skipped.
    pub open: &'a dyn Fn(&Engine) -> Option<Open>,
    /// The field `machine` of each row; `None` for none.
    pub machine: Option<Value>,
    /// The device to predict costs for, in place of the arguments'.
    pub device: Option<Device>,
}

impl Arguments {
    /// Returns true if nothing is run, because the rows are those of earlier runs.
    pub fn only_shows(&self) -> bool {
        !self.from.is_empty()
    }

    /// The directory for the stores.
    pub fn dir(&self) -> PathBuf {
        self.dir.clone().unwrap_or_else(std::env::temp_dir)
    }

    /// Runs the experiments of a paper, or takes the rows of earlier runs. Prints a table, or the
    /// rows of a run as they come. Writes the page.
    ///
    /// # Errors
    /// Those of [`Paper::run`]; an error of a file or of standard output.
    pub fn run(&self, paper: Paper, setting: Setting<'_>) -> Result<()> {
        let rows = match self.only_shows() {
            true => self.earlier_rows()?,
            false => self.measure(paper, setting)?,
        };
        if !self.json {
            writeln!(stdout(), "{}", summary::table(&rows))?;
        }
        if let Some(dir) = &self.report {
            let page = report::page_with(&rows, &summary::truths)?;
            eprintln!("wrote {}", report::write(dir, &rows, &page)?.display());
        }
        Ok(())
    }

    fn earlier_rows(&self) -> Result<Vec<Value>> {
        let mut rows = Vec::new();
        for path in &self.from {
            let read = read(path).and_then(|text| read_results(&text));
            rows.extend(read.map_err(|e| format!("{}: {e}", path.display()))?);
        }
        Ok(rows)
    }

    fn measure(&self, paper: Paper, setting: Setting<'_>) -> Result<Vec<Value>> {
        let runner = Runner {
            dir: self.dir(),
            rounds: usize::from(self.rounds),
            only: self.only.clone(),
            trial_time_max: self.minutes.map(|it| Duration::from_secs(60 * it)),
            device: match setting.device {
                Some(device) => device,
                None => find_device(self.device.as_deref())?,
            },
            open: setting.open,
        };
        let size = Size {
            scale: self.scale,
            reads: self.reads,
            seed: self.seed,
            read_mode: self.io,
        };
        let mut rows = Vec::new();
        let numbers = self.experiment.map_or(1..=EXPERIMENTS, |n| n..=n);
        for number in numbers {
            let mut begun =
                |trial: &Trial, step: &Step| eprintln!("{}: {}", trial.label(), step.name);
            paper.run(&size, number, &runner, &mut begun, &mut |mut row| {
                add_commit(&mut row);
                if let Some(machine) = &setting.machine {
                    row["machine"] = machine.clone();
                }
                if self.json {
                    writeln!(stdout(), "{row}")?;
                }
                rows.push(row);
                Ok(())
            })?;
        }
        Ok(rows)
    }
}

/// The device with this name or in this file. Without a name, the device measured last, else an
/// NVMe drive.
///
/// # Errors
/// A file that cannot be read, or that holds no profile.
pub fn find_device(name: Option<&str>) -> Result<Device> {
    let path = match name {
        Some(name) => match Device::preset(name) {
            Some(device) => return Ok(device),
            None => PathBuf::from(name),
        },
        None => match profile::kept().filter(|path| path.exists()) {
            Some(path) => path,
            None => return Ok(Device::nvme()),
        },
    };
    let text = read(&path).map_err(|e| {
        let presets = Device::PRESETS.join(", ");
        format!(
            "{}: {e}; devices without a file are {presets}",
            path.display()
        )
    })?;
    Ok(profile::parse(&text).map_err(|why| format!("{}: {why}", path.display()))?)
}

fn read(path: &Path) -> Result<String> {
    Ok(std::fs::read_to_string(path)?)
}
