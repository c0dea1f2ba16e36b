//! `hedgerow bench paper-autumn`, `paper-slimdb`, `paper-parallel` and `paper-lsm-trie`: the
//! experiments of papers, on Hedgerow alone.

use std::path::PathBuf;
use std::time::Duration;

use hedgerow::io::ReadMode;
use hedgerow_bench::experiments::{EXPERIMENTS, Paper, Runner, Size, ours, summary};

use super::{failure, read_all, write_report};
use crate::advise::profile;
use crate::exit::Failure;
use crate::output::{self, Output};

pub(super) const AUTUMN: &str = "\
Experiments: 1 leveling and garnering (figure 2), 2 sensitivity to c and T (figure 3), 3 YCSB (figure 4,
table 3), 4 growing data with few filter bits (figure 5), 5 predicted and measured cost of 24 designs.
Scale 1 is the paper's size, 20 GB for YCSB.

Examples:
  hedgerow bench paper-autumn --experiment 1 --scale 0.25 --report page
  hedgerow bench paper-autumn --experiment 2 --only 'T = 3' --json >> rows.jsonl
  hedgerow bench paper-autumn --from rows.jsonl --report page";

pub(super) const SLIMDB: &str = "\
Experiments: 1 the index of one table (tables 3 and 4), 2 filters of eight runs (tables 5 and 6, figure
10), 3 groups, out of memory (figures 11 to 13), 4 much data (table 7, figure 14), 5 the paper's model of
cost against memory (figure 9). At scale 1, 50 and 200 million entries, and 80 million in filters.

Examples:
  hedgerow bench paper-slimdb --experiment 2 --only '0 % duplicates' --scale 1
  hedgerow bench paper-slimdb --experiment 3 --only 'groups of 128, memory a third' --json >> rows.jsonl
  hedgerow bench paper-slimdb --from rows.jsonl --report page";

pub(super) const PARALLEL: &str = "\
Experiments: 1 small values and many merges (figure 2), 2 few large values (figure 3), 3 more data than
memory (figure 4), 4 queues, deletions and reads out of memory, 5 one and two processors. Scale 1 is the
paper's size: 64 million entries. The page cache is dropped before reads, which needs root.

Examples:
  hedgerow bench paper-parallel --experiment 1 --scale 0.125 --rounds 3 --report page
  hedgerow bench paper-parallel --experiment 4 --only 'out of memory' --json >> rows.jsonl
  hedgerow bench paper-parallel --from rows.jsonl --report page";

pub(super) const LSM_TRIE: &str = "\
Experiments: 1 growing to the whole size, 2 other values, overwrites and deletes, 3 growing with tables of
256 KiB, so that levels are many, 4 gets with all filters in memory and with few, and a cold start, 5 what 1
to 100 TB cost, as modeled. Scale 1 is 200 million entries, 23 GB. A cold start drops the page cache, which
needs root.

Examples:
  hedgerow bench paper-lsm-trie --experiment 1 --scale 0.1 --report page
  hedgerow bench paper-lsm-trie --experiment 4 --only 'all filters' --json >> rows.jsonl
  hedgerow bench paper-lsm-trie --from rows.jsonl --report page";

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
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
    /// The device to predict costs for: a preset or a profile, as for `hedgerow advise`
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
    /// The directory to write a page with charts and all rows to
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
    /// Files of JSON lines with rows of earlier runs; they are shown, nothing is run
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with = "experiment")]
    from: Vec<PathBuf>,
}

pub(super) fn run(paper: Paper, arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    let mut rows = read_all(&arguments.from)?;
    if arguments.from.is_empty() {
        let runner = Runner {
            dir: arguments.dir.clone().unwrap_or_else(std::env::temp_dir),
            rounds: usize::from(arguments.rounds),
            only: arguments.only.clone(),
            trial_time_max: arguments.minutes.map(|it| Duration::from_secs(60 * it)),
            device: profile::find(arguments.device.as_deref())?,
            open: &ours,
        };
        let size = Size {
            scale: arguments.scale,
            reads: arguments.reads,
            seed: arguments.seed,
            read_mode: arguments.io,
        };
        let wheel = output::waiting("the experiments");
        let numbers = arguments.experiment.map_or(1..=EXPERIMENTS, |n| n..=n);
        for number in numbers {
            let ran = paper.run(
                &size,
                number,
                &runner,
                &mut |trial, step| wheel.set_prefix(format!("{}: {}", trial.label(), step.name)),
                &mut |row| {
                    output.object(&row);
                    rows.push(row);
                    Ok(())
                },
            );
            ran.map_err(failure)?;
        }
        wheel.finish_and_clear();
    }
    output.line(format_args!("{}", summary::table(&rows)));
    match &arguments.report {
        Some(dir) => write_report(dir, &rows, output),
        None => Ok(()),
    }
}
