//! The experiments of Ren, Zheng, Arulraj, Gibson, "SlimDB: A Space-Efficient Key-Value Storage
//! Engine For Semi-Sorted Data", 2017.
//!
//! Indexes and filters are measured alone and in memory (1, 2), stores like all stores (3, 4), and
//! the paper's model is computed (5). At scale 1, 50 million entries of 16 + 100 bytes in groups of
//! 128 replace the paper's data, and 200 million its largest data. Tables of 32 MiB and memtables
//! of 64 MiB are the paper's. Memory, memtables and tables shrink with the data. Half of the memory
//! is the budget of the engine; the other half is for the system's cache, which has no more if the
//! process is limited.

mod filter;
mod index;
mod leveldb_index;
mod model;
mod targets;

use hedgerow::{KeyOrder, Layout, PrefixRule};
use hedgerow_bench::{Result, Settings, Workload};
use serde_json::Value;

use super::micro::Micro;
use super::size::{Base, Size, UNIVERSAL};
use super::{Experiment, Runner, Step, Trial, unknown};

pub(super) use targets::targets;

const MIB: u64 = 1 << 20;

/// The bits per key of the peers' filters.
const PEER_FILTER: &str = "bloom:16";

/// Our designs by name: stepped merge everywhere, as for the paper's insertions; the mixture of its
/// figure 4, and one for less data; and a tree like the peers'.
const DESIGNS: [(&str, &str, &str, &str); 4] = [
    ("stepped merge", "tiering:8", "mlcf:12", "three-level"),
    ("slimdb", "slimdb", "mlcf:12", "three-level"),
    (
        "mixed",
        "0-1=tiering:8/mlcf:12;2=leveling:8/none",
        "none",
        "three-level",
    ),
    ("leveling, sorted", "leveling:10", "bloom:16", "fence"),
];

/// Runs the experiment with this number. `begun` is called before each step of a store, `done` with
/// each row.
///
/// # Errors
/// An invalid number or scale, and the errors of [`Runner::run`].
pub(super) fn run(
    size: &Size,
    number: u8,
    runner: &Runner<'_>,
    begun: &mut dyn FnMut(&Trial, &Step),
    done: &mut dyn FnMut(Value) -> Result<()>,
) -> Result<()> {
    size.check()?;
    let title = match number {
        1 => "Tables 3 and 4: the index of a table of 32 MiB",
        2 => "Tables 5 and 6, figure 10: filters of 8 runs",
        3 => "Figures 11 to 13: groups, out of memory",
        4 => "Table 7 and figure 14: much data",
        5 => "Figure 9: cost against memory, as modeled",
        _ => return unknown(number),
    };
    let title = format!("SlimDB {number}. {title}");
    let trials = match number {
        3 => figures_11_to_13(size)?,
        4 => table_7(size)?,
        _ => {
            return Micro::new(size, number, &title, runner, done).run(match number {
                1 => index::run,
                2 => filter::run,
                _ => model::run,
            });
        }
    };
    let experiment = Experiment {
        number,
        title,
        trials,
    };
    runner.run(&experiment, begun, done)
}

/// Groups of one size, or of 26 sizes up to 8000 by Zipf's law.
fn group_sizes(kind: &str, entries: usize) -> Vec<usize> {
    let sizes: Vec<usize> = match kind.parse() {
        Ok(size) => vec![size],
        Err(_) => (1..=26).map(|rank| 8000 / rank).collect(),
    };
    let mut left = entries;
    let mut groups = Vec::new();
    for size in sizes.into_iter().cycle() {
        if left == 0 {
            return groups;
        }
        groups.push(size.min(left));
        left -= size.min(left);
    }
    groups
}

/// A fill in random order; then random reads, blind and non-blind updates, scans of prefixes.
fn figures_11_to_13(size: &Size) -> Result<Vec<Trial>> {
    let num = size.count(50_000_000);
    let data = num * 116;
    let reads = size.reads(2_000_000);
    let create = Step::new(Workload::FillRandom, 1);
    let read = Step::new(Workload::ReadRandom, reads);
    let scan = Step::new(Workload::PrefixScan, (reads / 10).max(1));
    let all = vec![
        create.clone(),
        read.clone(),
        Step::new(Workload::ReadMissing, reads),
        Step::mixed("blind updates", "get=0.5,put=0.5".parse()?, reads),
        Step::new(Workload::UpdateRandom, reads / 2),
        scan.clone(),
    ];
    let mut trials = Vec::new();
    let mut add = |group: u64, part: u64, steps: &[Step], designs: &[&str]| -> Result<()> {
        let case = format!("groups of {group}, memory a {part}th");
        let case = case.replace("3th", "third");
        let base = base(size, num, group, data / part, steps.to_vec())?;
        trials.extend(of_designs(&base, &case, designs)?);
        Ok(())
    };
    let names = DESIGNS.map(|design| design.0);
    let peers = ["rocksdb", UNIVERSAL, "leveldb"];
    add(128, 3, &all, &[&names[..], &peers].concat())?;
    let few = ["stepped merge", "rocksdb", UNIVERSAL];
    for group in [256, 512] {
        add(
            group,
            3,
            &[create.clone(), read.clone(), scan.clone()],
            &few,
        )?;
    }
    for part in [6, 12] {
        add(128, part, &[create.clone(), read.clone()], &few)?;
    }
    Ok(trials)
}

/// The largest data: inserts, then reads while a thread writes.
fn table_7(size: &Size) -> Result<Vec<Trial>> {
    let num = size.count(200_000_000);
    let reads = size.reads(2_000_000);
    let steps = vec![
        Step::new(Workload::FillRandom, 1),
        Step::new(Workload::ReadRandom, reads),
        Step::new(Workload::ReadWhileWriting, reads),
    ];
    let base = base(size, num, 128, num * 116 / 6, steps)?;
    let designs = [
        "stepped merge",
        "slimdb",
        "mixed",
        "rocksdb",
        UNIVERSAL,
        "leveldb",
    ];
    of_designs(&base, "", &designs)
}

/// The common part of the trials: two threads, memtables of 64 MiB and tables of 32 MiB at scale 1,
/// half of the memory.
fn base(size: &Size, num: u64, group: u64, memory: u64, steps: Vec<Step>) -> Result<Base> {
    let sizes = (memory / 2, 64 * MIB, 32 * MIB);
    let mut base = size.base(num, 16, 100, steps, sizes)?;
    // The number of keys is already scaled.
    base.0.options.memory_budget = (memory / 2).max(4 * MIB);
    let settings = Settings {
        threads: 2,
        ..base.0.settings
    };
    base.0.settings = settings;
    base.0.settings.records.group_size = group;
    base.0.options.threads = settings.threads;
    Ok(base)
}

fn of_designs(base: &Base, case: &str, names: &[&str]) -> Result<Vec<Trial>> {
    let trial = |name: &&str| -> Result<Trial> {
        let Some((_, policy, filter, index)) = DESIGNS.iter().find(|it| it.0 == *name) else {
            return base.peer_by_design(case, name, PEER_FILTER);
        };
        let mut trial = base.of(case, policy, filter)?;
        trial.design = (*name).to_owned();
        trial.options.design.index = index.parse()?;
        if *index != "fence" {
            trial.options.layout = Layout {
                order: KeyOrder::SemiSorted(PrefixRule::Bytes(8)),
                ..Layout::sorted()
            };
        }
        Ok(trial)
    };
    names.iter().map(trial).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_have_all_entries() {
        for kind in ["16", "64", "zipf"] {
            for entries in [0, 1, 100, 131_072] {
                assert_eq!(group_sizes(kind, entries).iter().sum::<usize>(), entries);
            }
        }
    }
}
