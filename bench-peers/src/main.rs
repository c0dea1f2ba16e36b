//! The workloads of `hedgerow-bench` over Hedgerow and its peers.

mod bf_tree;
mod c_api;
mod compare;
mod device;
mod fjall;
mod flags;
mod group;
mod leveldb;
mod lmdb;
mod machine;
mod paper;
mod queue;
mod redb;
mod rocksdb;
mod run;
mod shares;
mod stores;
mod summary;
mod transactions;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use hedgerow_papers::experiments::Paper;

/// Measures Hedgerow and its peers with the same operations and memory, and with the nearest
/// durability that each peer has.
#[derive(Debug, Parser)]
#[command(version)]
struct Program {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Every store in turn, several rounds: medians and ratios
    ///
    /// Example: hedgerow-bench-peers compare --dir /data/bench
    Compare(compare::Compare),
    /// The same with more data than memory, in control groups (needs root)
    ///
    /// Example: hedgerow-bench-peers limited --dir /data/bench --num 40000000 --limit 1200MB
    Limited(compare::Limited),
    /// One store in this process, a JSON object per workload
    ///
    /// Example: hedgerow-bench-peers run --store rocksdb --dir /data/bench
    Run(run::Run),
    /// A job queue: workers take jobs from the front, in Hedgerow or redb
    ///
    /// Example: hedgerow-bench-peers queue --dir /data/queue --store redb --jobs 1000000
    Queue(queue::Queue),
    /// Optimistic transactions of many clients: Hedgerow beside fjall and RocksDB
    ///
    /// Example: hedgerow-bench-peers transactions --dir /data/bench
    /// --stores hedgerow,hedgerow-plain,fjall,rocksdb --workloads mixed,counters
    Transactions(transactions::Transactions),
    /// The experiments of the Autumn paper: leveling and garnering beside RocksDB and LevelDB
    ///
    /// Example: hedgerow-bench-peers paper-autumn --dir /data/bench --experiment 1 --scale 0.25
    /// --report page
    PaperAutumn(paper::PaperArguments),
    /// The experiments of the SlimDB paper: filters, indexes, and mixed stores beside RocksDB and
    /// LevelDB
    ///
    /// Example: hedgerow-bench-peers paper-slimdb --dir /data/bench --experiment 3 --scale 0.1
    /// --report page
    PaperSlimdb(paper::PaperArguments),
    /// The experiments of the paper on parallel LSM-trees: partitions, workers and queues beside
    /// RocksDB
    ///
    /// Example: hedgerow-bench-peers paper-parallel --dir /data/bench --experiment 1 --scale 0.125
    /// --report page
    PaperParallel(paper::PaperArguments),
    /// The experiments of the LSM-trie paper: growth, gets with few filters in memory, cold starts
    ///
    /// Example: hedgerow-bench-peers paper-lsm-trie --dir /data/bench --experiment 1 --scale 0.1
    /// --report page
    PaperLsmTrie(paper::PaperArguments),
}

fn main() -> ExitCode {
    let done = match Program::parse().command {
        Command::Compare(compare) => compare.run(),
        Command::Limited(limited) => limited.run(),
        Command::Run(run) => run.run(),
        Command::Queue(queue) => queue.run(),
        Command::Transactions(transactions) => transactions.run(),
        Command::PaperAutumn(paper) => paper.run(Paper::Autumn),
        Command::PaperSlimdb(paper) => paper.run(Paper::SlimDb),
        Command::PaperParallel(paper) => paper.run(Paper::Parallel),
        Command::PaperLsmTrie(paper) => paper.run(Paper::LsmTrie),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// The version of a dependency, from the lock file that this program was built with.
fn locked_version(package: &str) -> String {
    let lock = include_str!("../Cargo.lock");
    let name = format!("name = \"{package}\"\nversion = \"");
    let version = lock
        .split_once(&name)
        .and_then(|(_, rest)| rest.split_once('"'));
    version.map_or("unknown", |(version, _)| version).to_owned()
}
