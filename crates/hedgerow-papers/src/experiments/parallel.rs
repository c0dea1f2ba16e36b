//! The experiments of Vitillo, "Parallel LSM tree", and what the paper left out: deletions, reads
//! out of memory, queues, and the same work on fewer processors.
//!
//! At scale 1 data have the paper's size: 64 million entries of 10 + 6 bytes, one million of 10 +
//! 1000, and 40 million of the latter for more data than memory. Tables and memtables have the
//! paper's sizes at scales above 1/16; below, they shrink with the data. Between the steps of a
//! trial the store is reopened, and the page cache is dropped if the process may do so.
//! `targets.rs` has the targets.

mod targets;

pub(super) use targets::{is_of_paper, targets};

use hedgerow::Layout;
use hedgerow::PolicySpec;
use hedgerow::io::ReadMode;
use hedgerow_bench::{Result, Workload};

use super::size::{Base, Size};
use super::{Experiment, Step, Trial, unknown};

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// The paper's levels of `10^i` tables, each merged as a whole. Ours have 20, 200 and 2,000 tables
/// of 4 MiB at scale 1.
const WHOLE_LEVELS: &str = "0=runs:1;1-5=leveling:10,whole-level";
const FILTER: &str = "bloom:10";
/// The beginning of the experiments' titles.
const TITLE: &str = "Parallel LSM-trees";
const DIRECT: &str = "direct calls";
/// The beginning of the cases whose reads come from the device; the size of values follows.
const OUT_OF_MEMORY: &str = "out of memory";
/// The asynchronous gets that one client has under way.
const WINDOWS: [usize; 3] = [32, 64, 128];
/// The least size of tables and memtables.
const BYTES_MIN: u64 = 64 << 10;

/// The engine's default.
fn default_policy() -> String {
    PolicySpec::default().to_string()
}

/// The experiment with this number.
///
/// # Errors
/// An invalid number or scale.
pub(super) fn experiment(size: &Size, number: u8) -> Result<Experiment> {
    size.check()?;
    let (title, trials) = match number {
        1 => (
            "Experiment 1: small values, many merges",
            small_values(size)?,
        ),
        2 => ("Experiment 2: few large values", large_values(size)?),
        3 => ("Experiment 3: more data than memory", much_data(size)?),
        4 => (
            "Queues, deletions, and reads out of memory",
            left_out(size)?,
        ),
        5 => ("One and two processors", processors(size)?),
        _ => return unknown(number),
    };
    Ok(Experiment {
        number,
        title: format!("{TITLE} {number}. {title}"),
        trials,
    })
}

/// The sizes of an experiment.
struct Sizes {
    num: u64,
    value_bytes: usize,
    budget: u64,
    /// The memtables' bytes of each partition.
    memtable: u64,
    table: u64,
    threads: usize,
}

impl Sizes {
    /// The paper's first experiment, with 16 clients; `budget` is for the full size.
    fn of_small_values(size: &Size, num: u64, budget: u64) -> Sizes {
        Sizes {
            num,
            value_bytes: 6,
            budget: bytes(size, budget).max(16 * MIB),
            memtable: bytes(size, 8 * MIB),
            table: bytes(size, 4 * MIB),
            threads: 16,
        }
    }

    fn base(&self, size: &Size, steps: Vec<Step>) -> Result<Base> {
        let bytes = (self.budget, self.memtable, self.table);
        let mut base = size.base(self.num, 10, self.value_bytes, steps, bytes)?;
        let trial = &mut base.0;
        trial.settings.threads = self.threads;
        trial.options.threads = self.threads;
        trial.options.memory_budget = self.budget;
        trial.options.design.memtable_bytes = Some(self.memtable);
        trial.options.design.table_bytes = Some(self.table);
        Ok(base)
    }
}

/// The paper's size at scales above 1/16.
fn bytes(size: &Size, at_full_scale: u64) -> u64 {
    let shrunk = at_full_scale as f64 * (size.scale * 16.0).min(1.0);
    (shrunk as u64).max(BYTES_MIN)
}

/// The number of operations of a step that reads.
fn reads(size: &Size, num: u64) -> u64 {
    size.reads.unwrap_or(num)
}

/// Hedgerow with this number of trees, each with its own memtables.
fn ours(base: &Base, case: &str, policy: &str, partitions: u16) -> Result<Trial> {
    let mut trial = base.of(case, policy, FILTER)?;
    trial.options.layout = match partitions {
        1 => Layout::sorted(),
        _ => Layout::sorted().hash(partitions),
    };
    let memtable = &mut trial.options.design.memtable_bytes;
    *memtable = memtable.map(|bytes| bytes * u64::from(partitions));
    Ok(trial)
}

/// Asynchronous calls, with `window` under way per thread; background threads make them without
/// workers.
fn asynchronous(mut trial: Trial, workers: usize, window: usize) -> Trial {
    trial.options.workers = workers;
    let steps = trial.steps.iter_mut();
    steps
        .filter(|step| step.batch_size.is_none() && step.workload.may_be_asynchronous())
        .for_each(|step| step.window = Some(window));
    trial
}

fn of_workers(count: usize) -> String {
    match count {
        0 => "background threads".to_owned(),
        1 => "1 worker".to_owned(),
        _ => format!("{count} workers"),
    }
}

fn cases(partitions: u16) -> String {
    match partitions {
        1 => "1 partition".to_owned(),
        _ => format!("{partitions} partitions"),
    }
}

/// Figure 2: insert, read in the same order, update in the same order, by 16 clients.
fn small_values(size: &Size) -> Result<Vec<Trial>> {
    let num = size.count(64_000_000);
    let sizes = Sizes::of_small_values(size, num, 4 * GIB);
    let steps = vec![
        Step::new(Workload::FillRandom, num),
        Step::new(Workload::ReadAll, reads(size, num)).cold(),
        Step::new(Workload::ReadAll, reads(size, num))
            .batches(16)
            .named("readall, 16 per call")
            .cold(),
        Step::new(Workload::UpdateAll, num).cold(),
    ];
    let base = sizes.base(size, steps)?;
    let mut trials = Vec::new();
    for partitions in [1, 2, 4, 8, 16] {
        let case = cases(partitions);
        for (name, policy) in [
            ("whole levels", WHOLE_LEVELS),
            ("default", &default_policy()),
        ] {
            let mut trial = ours(&base, &case, policy, partitions)?;
            trial.design = name.to_owned();
            trials.push(trial);
        }
    }
    trials.push(base.peer_of_our_sizes(&cases(1), "rocksdb", FILTER)?);
    Ok(trials)
}

/// Figure 3: one feeder, memtables that hold all data, tables of 256 MB.
fn large_values(size: &Size) -> Result<Vec<Trial>> {
    let sizes = Sizes {
        num: size.count(1_000_000),
        value_bytes: 1000,
        budget: bytes(size, 6 * GIB).max(16 * MIB),
        memtable: bytes(size, GIB),
        table: bytes(size, 256 * MIB),
        threads: 1,
    };
    let base = sizes.base(size, vec![Step::new(Workload::FillRandom, 1)])?;
    let mut trials = Vec::new();
    for partitions in [1, 2, 4, 8, 16] {
        let mut direct = ours(&base, &cases(partitions), &default_policy(), partitions)?;
        // The memtables of all trees together are as large as the paper's single one.
        direct.options.design.memtable_bytes = Some(sizes.memtable);
        direct.design = DIRECT.to_owned();
        let mut workers = asynchronous(direct.clone(), 2, 64);
        workers.design = of_workers(2);
        trials.extend([direct, workers]);
    }
    trials.push(base.peer_of_our_sizes(&cases(1), "rocksdb", FILTER)?);
    Ok(trials)
}

/// Figure 4: random and sequential insertion of four times the memory.
fn much_data(size: &Size) -> Result<Vec<Trial>> {
    let num = size.count(40_000_000);
    let sizes = Sizes {
        num,
        value_bytes: 1000,
        budget: (num * 1010 / 4).clamp(16 * MIB, 4 * GIB),
        memtable: bytes(size, 256 * MIB),
        table: bytes(size, GIB),
        threads: 1,
    };
    let mut trials = Vec::new();
    for workload in [Workload::FillRandom, Workload::FillSeq] {
        let base = sizes.base(size, vec![Step::new(workload, 1)])?;
        for partitions in [1, 4] {
            let mut trial = ours(&base, "", &default_policy(), partitions)?;
            trial.options.design.memtable_bytes = Some(sizes.memtable);
            trial.design = cases(partitions);
            trials.push(trial);
        }
        trials.push(base.peer_of_our_sizes("", "rocksdb", FILTER)?);
    }
    Ok(trials)
}

/// Four partitions with values of 100 bytes, in memory by 1 and by 16 clients, and out of memory.
fn left_out(size: &Size) -> Result<Vec<Trial>> {
    let num = size.count(16_000_000);
    let in_memory = |threads| Sizes {
        num,
        value_bytes: 100,
        budget: bytes(size, 4 * GIB).max(16 * MIB),
        memtable: bytes(size, 16 * MIB),
        table: bytes(size, 16 * MIB),
        threads,
    };
    let steps = vec![
        Step::new(Workload::FillRandom, 1),
        Step::new(Workload::ReadAll, reads(size, num)).cold(),
        Step::new(Workload::UpdateAll, num).cold(),
        Step::new(Workload::DeleteRandom, num).cold(),
    ];
    let mut trials = Vec::new();
    for (case, threads) in [("1 client", 1), ("16 clients", 16)] {
        let sizes = in_memory(threads);
        let base = sizes.base(size, steps.clone())?;
        let direct = ours(&base, case, &default_policy(), 4)?;
        for workers in [0, 1, 2] {
            let mut trial = asynchronous(direct.clone(), workers, 64);
            trial.design = of_workers(workers);
            trials.push(trial);
        }
        trials.push(Trial {
            design: DIRECT.to_owned(),
            ..direct
        });
        trials.push(base.peer_of_our_sizes(case, "rocksdb", FILTER)?);
    }
    trials.extend(queues(size, &in_memory(16))?);
    // The same bytes in values that share a page of the device, and in values of a quarter of a
    // page.
    for value_bytes in [100, 1000] {
        trials.extend(out_of_memory(size, num * 1000 / value_bytes, value_bytes)?);
    }
    Ok(trials)
}

/// Writes of 16 clients through queues of different lengths: their wait, and the writes per commit.
fn queues(size: &Size, sizes: &Sizes) -> Result<Vec<Trial>> {
    let base = sizes.base(size, vec![Step::new(Workload::FillRandom, 1)])?;
    let trial = |calls| {
        let mut trial = asynchronous(ours(&base, "", &default_policy(), 4)?, 2, 64);
        trial.options.worker_queue = Some(calls);
        trial.design = format!("queues of {calls}");
        Ok(trial)
    };
    [1, 16, 64, 256, 1024, 4096]
        .map(trial)
        .into_iter()
        .collect()
}

/// Gets of one client from a device, past the system's cache: direct gets, multi-gets, and windows
/// of asynchronous gets. The device's own rate is measured before and after each.
fn out_of_memory(size: &Size, num: u64, value_bytes: u64) -> Result<Vec<Trial>> {
    let case = format!("{OUT_OF_MEMORY}, values of {value_bytes}");
    let sizes = Sizes {
        num,
        value_bytes: value_bytes as usize,
        // Filters, indexes and a little of the data.
        budget: (num * (2 + (10 + value_bytes) / 64)).max(16 * MIB),
        memtable: bytes(size, 16 * MIB),
        table: bytes(size, 16 * MIB),
        threads: 1,
    };
    let get = Step::new(
        Workload::ReadRandom,
        reads(size, num * value_bytes / 16_000),
    );
    let get = get.cold().beside_device();
    let fill = Step::new(Workload::FillSeq, 1);
    let multi = Step {
        workload: Workload::MultiReadRandom,
        ..get.clone().batches(32).named("multi-gets of 32")
    };
    let windows = WINDOWS.map(|window| Step {
        window: Some(window),
        ..get.clone().named(&format!("gets, window of {window}"))
    });
    let calls = vec![fill, get.named("gets"), multi];
    let of_peer = sizes.base(size, calls.clone())?;
    let base = sizes.base(size, [calls, windows.to_vec()].concat())?;
    let mut trials = Vec::new();
    for workers in [1, 2] {
        let mut trial = ours(&base, &case, &default_policy(), 4)?;
        trial.options.read_mode = ReadMode::Direct;
        trial.options.workers = workers;
        trial.design = of_workers(workers);
        trials.push(trial);
    }
    let mut peer = of_peer.peer_of_our_sizes(&case, "rocksdb", FILTER)?;
    peer.engine.options += ";use_direct_reads=true";
    trials.push(peer);
    Ok(trials)
}

/// The work of 16 clients on one processor and on two.
fn processors(size: &Size) -> Result<Vec<Trial>> {
    let num = size.count(16_000_000);
    let sizes = Sizes::of_small_values(size, num, 2 * GIB);
    let steps = vec![
        Step::new(Workload::FillRandom, 1),
        Step::new(Workload::ReadAll, reads(size, num)).cold(),
        Step::new(Workload::UpdateAll, num).cold(),
    ];
    let base = sizes.base(size, steps)?;
    let direct = ours(&base, "", &default_policy(), 4)?;
    let mut trials = Vec::new();
    for processors in [1, 2] {
        for (name, mut trial) in [
            (DIRECT, direct.clone()),
            ("workers", asynchronous(direct.clone(), processors, 64)),
        ] {
            trial.processors = Some(processors);
            trial.design = format!("{name}, on {processors}");
            trials.push(trial);
        }
    }
    Ok(trials)
}
