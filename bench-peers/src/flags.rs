//! The flags, and how they are handed on to the process that measures one store.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;
use hedgerow::io::ReadMode;
use hedgerow::{Compression, Design, FilterSpec, Layout};
use hedgerow_bench::{Error, OpenOptions, Part, RecordShape, Result, Settings, Workload};

/// The measurement, whatever the store.
#[derive(Debug, Clone, Args)]
pub(crate) struct Flags {
    /// Workloads in their order, each with its threads if not one: `fillrandom,readrandom@2`
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "fillrandom,readrandom,readrandom@2,readmissing,readmissing@2,\
                         seekrandom,seekrandom@2,multireadrandom"
    )]
    pub(crate) workloads: Vec<Task>,
    /// Keys that are written in all
    #[arg(long, default_value_t = 5_000_000)]
    pub(crate) num: u64,
    /// Operations of workloads that read; as many as there are keys if not given
    #[arg(long)]
    reads: Option<u64>,
    /// Bytes of a key
    #[arg(long, default_value_t = 16)]
    pub(crate) key_size: usize,
    /// Bytes of a value
    #[arg(long, default_value_t = 100)]
    pub(crate) value_size: usize,
    /// Entries per commit, keys per call of `multireadrandom`
    #[arg(long)]
    batch_size: Option<u64>,
    /// Steps after each seek of `seekrandom`
    #[arg(long, default_value_t = 10)]
    seek_nexts: u64,
    /// The seed of keys and values
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Sync each commit
    #[arg(long)]
    sync: bool,
    /// Filter bits per key; 0 for no filters
    #[arg(long, default_value_t = 10.0)]
    filter_bits: f32,
    /// The memory of each store for caches, memtables, indexes and filters together [default:
    /// 512MiB, or half of `--limit`]
    #[arg(long, value_parser = bytes)]
    pub(crate) memory_budget: Option<u64>,
    /// The way Hedgerow reads its tables: `pread`, `mmap` or `direct`
    #[arg(long, default_value_t)]
    io: ReadMode,
    /// Options for RocksDB before ours, in its own syntax: `use_direct_reads=true;…`
    #[arg(long, default_value = "")]
    pub(crate) rocksdb_options: String,
    /// A directory for the stores, which are removed afterwards
    #[arg(long)]
    pub(crate) dir: PathBuf,
}

/// The memory budget of a comparison without a limit.
const MEMORY_BUDGET_BYTES: u64 = 512 << 20;

impl Flags {
    /// Bytes of all keys and values.
    pub(crate) fn data_bytes(&self) -> u64 {
        self.num * (self.key_size + self.value_size) as u64
    }

    fn threads_max(&self) -> usize {
        let threads = self.workloads.iter().map(|task| task.threads);
        threads.max().unwrap_or(1)
    }

    /// The settings of a workload, except its threads.
    pub(crate) fn settings(&self) -> Settings {
        Settings {
            records: RecordShape {
                num: self.num,
                key_bytes: self.key_size,
                value_bytes: self.value_size,
                group_size: 1,
                seed: self.seed,
            },
            reads: self.reads,
            part: Part::WHOLE,
            threads: self.threads_max(),
            batch_size: self.batch_size,
            window: None,
            seek_nexts: self.seek_nexts,
            mix: Settings::MIX_EVEN,
        }
    }

    /// The options by which every store is opened.
    pub(crate) fn open_options(&self) -> OpenOptions {
        let filter = match self.filter_bits {
            0.0 => FilterSpec::None,
            bits_per_key => FilterSpec::Bloom { bits_per_key },
        };
        OpenOptions {
            dir: self.dir.clone(),
            fresh: false,
            keyspace: "bench".to_owned(),
            memory_budget: self.memory_budget.unwrap_or(MEMORY_BUDGET_BYTES),
            sync: self.sync,
            entries: self.num,
            key_bytes: self.key_size,
            value_bytes: self.value_size,
            threads: self.threads_max(),
            layout: Layout::sorted(),
            design: Design {
                compression: Compression::None,
                filter,
                ..Design::default()
            },
            self_tuning: false,
            read_mode: self.io,
            workers: 0,
            worker_queue: None,
        }
    }

    /// The arguments that parse to these flags.
    pub(crate) fn to_args(&self) -> Vec<String> {
        let tasks: Vec<_> = self.workloads.iter().map(Task::to_string).collect();
        let mut args = vec![
            format!("--workloads={}", tasks.join(",")),
            format!("--num={}", self.num),
            format!("--key-size={}", self.key_size),
            format!("--value-size={}", self.value_size),
            format!("--seek-nexts={}", self.seek_nexts),
            format!("--seed={}", self.seed),
            format!("--filter-bits={}", self.filter_bits),
            format!("--io={}", self.io),
            format!("--rocksdb-options={}", self.rocksdb_options),
            format!("--dir={}", self.dir.display()),
        ];
        let optional = [
            ("--reads", self.reads),
            ("--batch-size", self.batch_size),
            ("--memory-budget", self.memory_budget),
        ];
        for (flag, value) in optional {
            args.extend(value.map(|value| format!("{flag}={value}")));
        }
        args.extend(self.sync.then(|| "--sync".to_owned()));
        args
    }
}

/// A workload and its threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Task {
    pub(crate) workload: Workload,
    pub(crate) threads: usize,
}

impl FromStr for Task {
    type Err = Error;

    fn from_str(text: &str) -> Result<Task> {
        let (name, threads) = text.split_once('@').unwrap_or((text, "1"));
        let threads = threads
            .parse()
            .map_err(|_| format!("expected a number of threads, found `{threads}`"))?;
        Ok(Task {
            workload: name.parse()?,
            threads,
        })
    }
}

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.threads {
            1 => write!(f, "{}", self.workload),
            threads => write!(f, "{}@{threads}", self.workload),
        }
    }
}

/// A number of bytes: `65536`, `64KiB`, `512MiB`, `2GiB`, `1200MB`.
pub(crate) fn bytes(text: &str) -> std::result::Result<u64, String> {
    let unknown = || format!("expected a size such as `512MiB` or `65536`, found `{text}`");
    let unit_at = text.find(|c: char| !c.is_ascii_digit());
    let (number, unit) = text.split_at(unit_at.unwrap_or(text.len()));
    let factor = match unit {
        "" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        _ => return Err(unknown()),
    };
    let number: u64 = number.parse().map_err(|_| unknown())?;
    number.checked_mul(factor).ok_or_else(unknown)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Program {
        #[command(flatten)]
        flags: Flags,
    }

    #[test]
    fn flags_survive_being_handed_on() {
        let given = [
            "program",
            "--workloads=fillrandom@2,readrandom",
            "--num=1000",
            "--reads=10",
            "--batch-size=8",
            "--memory-budget=64MiB",
            "--filter-bits=0",
            "--io=mmap",
            "--rocksdb-options=a=b;c=d",
            "--sync",
            "--dir=/x y",
        ];
        let flags = Program::parse_from(given).flags;
        let args = ["program".to_owned()].into_iter().chain(flags.to_args());
        let again = Program::parse_from(args).flags;
        assert_eq!(format!("{again:?}"), format!("{flags:?}"));
        assert_eq!(again.open_options().memory_budget, 64 << 20);
        assert_eq!(again.workloads[0].threads, 2);
    }

    #[test]
    fn sizes_that_cannot_be_are_refused() {
        assert_eq!(bytes("1200MB"), Ok(1_200_000_000));
        for bad in ["", "MiB", "1.5GiB", "99999999999GiB", "1 MiB"] {
            assert!(bytes(bad).unwrap_err().starts_with("expected "), "{bad}");
        }
    }
}
