//! The program `hedgerow-papers`: the experiments and the cost tables of publications.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use hedgerow_papers::arguments::{Arguments, Setting};
use hedgerow_papers::experiments::{Paper, ours};
use hedgerow_papers::tables;

/// Runs the experiments of the publications that Hedgerow follows, on Hedgerow alone.
///
/// Each design runs on a store of its own, which is removed. docs/benchmarks.md has results.
#[derive(Debug, Parser)]
#[command(version)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs the experiments of the Autumn paper: leveling beside garnering
    #[command(after_help = AUTUMN)]
    Autumn(Arguments),
    /// Runs the experiments of the SlimDB paper: filters, indexes and mixed stores for grouped keys
    #[command(after_help = SLIMDB)]
    Slimdb(Arguments),
    /// Runs the experiments of the paper on parallel LSM-trees: partitions, workers, queues
    #[command(after_help = PARALLEL)]
    Parallel(Arguments),
    /// Runs the experiments of the LSM-trie paper: growth, gets with few filters in memory, cold
    /// starts
    #[command(after_help = LSM_TRIE)]
    LsmTrie(Arguments),
    /// Prints the cost tables of a paper, in symbols and in numbers
    Tables(tables::Arguments),
}

const AUTUMN: &str = "\
Experiments: 1 leveling and garnering (figure 2), 2 sensitivity to c and T (figure 3), 3 YCSB (figure 4,
table 3), 4 growing data with few filter bits (figure 5), 5 predicted and measured cost of 24 designs.
At scale 1 YCSB has 20 GB (the paper: 80).

Examples:
  hedgerow-papers autumn --experiment 1 --scale 0.25 --report page
  hedgerow-papers autumn --experiment 2 --only 'T = 3' --json >> rows.jsonl
  hedgerow-papers autumn --from rows.jsonl --report page";

const SLIMDB: &str = "\
Experiments: 1 the index of one table (tables 3 and 4), 2 filters of eight runs (tables 5 and 6, figure
10), 3 groups, out of memory (figures 11 to 13), 4 much data (table 7, figure 14), 5 the paper's model of
cost against memory (figure 9). At scale 1, 50 and 200 million entries, and 80 million in filters.

Examples:
  hedgerow-papers slimdb --experiment 2 --only '0 % duplicates' --scale 1
  hedgerow-papers slimdb --experiment 3 --only 'groups of 128, memory a third' --json >> rows.jsonl
  hedgerow-papers slimdb --from rows.jsonl --report page";

const PARALLEL: &str = "\
Experiments: 1 small values and many merges (figure 2), 2 few large values (figure 3), 3 more data than
memory (figure 4), 4 queues, deletions and reads out of memory, 5 one and two processors. Scale 1 is the
paper's size: 64 million entries. The page cache is dropped before reads, which needs root.

Examples:
  hedgerow-papers parallel --experiment 1 --scale 0.125 --rounds 3 --report page
  hedgerow-papers parallel --experiment 4 --only 'out of memory' --json >> rows.jsonl
  hedgerow-papers parallel --from rows.jsonl --report page";

const LSM_TRIE: &str = "\
Experiments: 1 growing to the whole size, 2 other values, overwrites and deletes, 3 growing with tables of
256 KiB, so that levels are many, 4 gets with all filters in memory and with few, and a cold start, 5 what 1
to 100 TB cost, as modeled. Scale 1 is 200 million entries, 23 GB. A cold start drops the page cache, which
needs root.

Examples:
  hedgerow-papers lsm-trie --experiment 1 --scale 0.1 --report page
  hedgerow-papers lsm-trie --experiment 4 --only 'all filters' --json >> rows.jsonl
  hedgerow-papers lsm-trie --from rows.jsonl --report page";

fn main() -> ExitCode {
    hedgerow::io::os::raise_open_files_max();
    let (paper, arguments) = match CommandLine::parse().command {
        Command::Autumn(arguments) => (Paper::Autumn, arguments),
        Command::Slimdb(arguments) => (Paper::SlimDb, arguments),
        Command::Parallel(arguments) => (Paper::Parallel, arguments),
        Command::LsmTrie(arguments) => (Paper::LsmTrie, arguments),
        Command::Tables(arguments) => return exit(arguments.run()),
    };
    let setting = Setting {
        open: &ours,
        machine: None,
        device: None,
    };
    exit(arguments.run(paper, setting))
}

fn exit(done: hedgerow_bench::Result<()>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("hedgerow-papers: {error}");
            ExitCode::FAILURE
        }
    }
}
