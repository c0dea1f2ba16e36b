//! The experiments of papers, on all stores that they name.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use clap::{Args, ValueEnum};
use hedgerow_bench::{Open, Result, device};
use hedgerow_papers::arguments::{Arguments, Setting};
use hedgerow_papers::experiments::{Engine, Paper};

use crate::group::{self, Group};
use crate::machine;
use crate::stores::Kind;

/// The arguments of the experiments.
#[derive(Debug, Args)]
pub(crate) struct PaperArguments {
    #[command(flatten)]
    experiments: Arguments,
    /// The memory of the process, page cache and all, in a control group (needs root)
    #[arg(long, conflicts_with = "from", value_parser = crate::flags::bytes)]
    limit: Option<u64>,
    /// The control group to go into first: it has been made with `--limit`
    #[arg(long, hide = true)]
    group: Option<PathBuf>,
    /// Measures the device first, which costs are then predicted for
    #[arg(long, conflicts_with_all = ["from", "device"])]
    measure_device: bool,
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
        let dir = self.experiments.dir();
        let (mut machine, mut measured) = (None, None);
        if !self.experiments.only_shows() {
            std::fs::create_dir_all(&dir)?;
            machine = Some(machine::describe(&dir)?);
        }
        if self.measure_device {
            measured = Some(device::measure(&dir, DEVICE_FILE_BYTES, DEVICE_TIME)?);
        }
        let setting = Setting {
            open: &open,
            machine,
            device: measured,
        };
        self.experiments.run(paper, setting)
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
