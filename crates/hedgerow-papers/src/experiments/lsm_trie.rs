//! The experiments of Wu, Xu, Shao, Jiang, "LSM-trie: An LSM-tree-based Ultra-Large Key-Value Store
//! for Small Data", 2015.
//!
//! Stores grow part by part (1, 3), are written in other ways (2), and are read with all filters in
//! memory, with few, and from a cold start (4). The costs of 1 to 100 TB are computed and simulated
//! (5). At scale 1 there are 200 million entries of 16 + 100 bytes, 23 GB. Memory is an eighth of
//! that, which leaves the system another eighth if the process has a quarter. Memtables and tables
//! have 32 MiB as in the paper, but 256 KiB in 3, so that there are as many levels as with more
//! data. Memory, memtables and tables shrink with the data, except those of 256 KiB. `targets.rs`
//! has the targets.

mod targets;

use hedgerow::simulate::{Simulation, simulate};
use hedgerow::{Design, KeyOrder, Layout, Residency, TableSpec, advisor};
use hedgerow_bench::{Result, Workload, median};
use serde_json::{Value, json};

use super::micro::Micro;
use super::size::{Base, Size, UNIVERSAL};
use super::{Experiment, Runner, Step, Trial, unknown};

pub(super) use targets::targets;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const TERABYTE: f64 = 1e12;

const POLICY: &str = "trie";
const FILTER: &str = "cluster:16";
/// The bits per key of the peers' filters, and of ours beside theirs.
const PEER_FILTER: &str = "bloom:16";
const PEERS: [&str; 3] = ["rocksdb", UNIVERSAL, "leveldb"];

const ENTRIES: u64 = 200_000_000;
const KEY_BYTES: usize = 16;
const VALUE_BYTES: usize = 100;
/// The points of a curve: at scale 1 one for each 1.2 GB.
const PARTS: u64 = 20;
/// The parts of a fill that is no curve; a run can be timed and ended between them.
const FEW_PARTS: u64 = 4;
/// The data over the stores' memory.
const MEMORY_PART: u64 = 8;
/// The parts of the gets of a cold start, and the number of last parts whose median is the steady
/// rate.
const WARMING_PARTS: usize = 64;
const STEADY_PARTS: usize = 16;
const STEADY_SHARE: f64 = 0.9;
const COLD_START: &str = "cold start";

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
    let (title, trials) = match number {
        1 => ("Growing to the whole size", growth(size)?),
        2 => ("Other values, overwrites and deletes", other_loads(size)?),
        3 => ("Growing with tables of 256 KiB", small_tables(size)?),
        4 => ("Gets, and a cold start", gets(size)?),
        5 => ("1, 10 and 100 TB, as modeled", Vec::new()),
        _ => return unknown(number),
    };
    let title = format!("LSM-trie {number}. {title}");
    if number == 5 {
        return Micro::new(size, number, &title, runner, done).run(of_growing_data);
    }
    let experiment = Experiment {
        number,
        title,
        trials,
    };
    let mut warming = Vec::new();
    runner.run(&experiment, begun, &mut |mut row| {
        row["memory_per_terabyte"] = json!(memory_per_terabyte(&row));
        if row["workload"] != COLD_START {
            return done(row);
        }
        warming.push(row);
        match warming.len() {
            WARMING_PARTS => done(cold_start(&std::mem::take(&mut warming))),
            _ => Ok(()),
        }
    })
}

fn growth(size: &Size) -> Result<Vec<Trial>> {
    let base = base(size, ENTRIES, VALUE_BYTES, Step::fill_by_parts(PARTS))?;
    beside_peers(&base, "", &[POLICY, "leveling:10"])
}

/// Values of several sizes, with about the same bytes of data each.
fn other_loads(size: &Size) -> Result<Vec<Trial>> {
    let fill = || Step::fill_by_parts(FEW_PARTS);
    let write = |workload| Step::new(workload, 1);
    let mut trials = Vec::new();
    for value_bytes in [50, 400] {
        let entry_bytes = |value_bytes| (KEY_BYTES + value_bytes) as u64;
        let entries = ENTRIES * entry_bytes(VALUE_BYTES) / entry_bytes(value_bytes);
        let base = base(size, entries, value_bytes, fill())?;
        let case = format!("values of {value_bytes} bytes");
        trials.extend(beside_peers(&base, &case, &[POLICY])?);
    }
    let overwrites = [
        "overwrite, once",
        "overwrite, 2 times",
        "overwrite, 3 times",
    ]
    .map(|name| write(Workload::Overwrite).named(name));
    let deletes = [
        write(Workload::DeleteRandom),
        write(Workload::UpdateAll),
        write(Workload::DeleteRandom).named("deleterandom, again"),
    ];
    for (case, steps) in [("many overwrites", overwrites), ("many deletes", deletes)] {
        let steps = fill().into_iter().chain(steps).collect();
        let base = base(size, ENTRIES / 4, VALUE_BYTES, steps)?;
        trials.extend(beside_peers(&base, case, &[POLICY])?);
    }
    Ok(trials)
}

fn small_tables(size: &Size) -> Result<Vec<Trial>> {
    let mut base = base(size, ENTRIES, VALUE_BYTES, Step::fill_by_parts(PARTS))?;
    let design = &mut base.0.options.design;
    design.memtable_bytes = Some(256 * KIB);
    design.table_bytes = Some(256 * KIB);
    beside_peers(&base, "", &[POLICY, "trie:4"])
}

/// Memory for all filters, an eighth of the data, and for less than a tenth of them. Filters of 16
/// bits per key are a 58th of the data, and indexes and filters have a quarter of the memory.
fn gets(size: &Size) -> Result<Vec<Trial>> {
    let reads = size.reads(2_000_000);
    let warm = Step::new(Workload::ReadRandom, reads / WARMING_PARTS as u64).named(COLD_START);
    let mut steps = Step::fill_by_parts(FEW_PARTS);
    steps.extend([
        Step::new(Workload::ReadRandom, reads),
        Step::new(Workload::ReadMissing, reads),
        Step::new(Workload::ReadZipf, reads),
        warm.clone().cold(),
    ]);
    steps.resize(steps.len() - 1 + WARMING_PARTS, warm);
    let mut trials = Vec::new();
    for (case, part, residency) in [
        ("all filters in memory", MEMORY_PART, Residency::Resident),
        ("the small levels' filters in memory", 150, Residency::Auto),
    ] {
        let mut base = base(size, ENTRIES, VALUE_BYTES, steps.clone())?;
        let data = base.0.settings.records.num * (KEY_BYTES + VALUE_BYTES) as u64;
        base.0.options.memory_budget = (data / part).max(4 * MIB);
        base.0.options.design.residency = residency;
        trials.extend(beside_peers(&base, case, &[POLICY])?);
    }
    Ok(trials)
}

/// The common part of the trials: two threads, and a part of the data as memory.
fn base(size: &Size, entries: u64, value_bytes: usize, steps: Vec<Step>) -> Result<Base> {
    let num = size.count(entries);
    let budget = entries * (KEY_BYTES + value_bytes) as u64 / MEMORY_PART;
    let sizes = (budget, 32 * MIB, 32 * MIB);
    let mut base = size.base(num, KEY_BYTES, value_bytes, steps, sizes)?;
    base.0.settings.threads = 2;
    base.0.options.threads = 2;
    Ok(base)
}

/// Our designs with these policies (tries with all structures of LSM-trie), and the peers.
fn beside_peers(base: &Base, case: &str, policies: &[&str]) -> Result<Vec<Trial>> {
    let ours = |policy: &&str| -> Result<Trial> {
        if !policy.starts_with(POLICY) {
            return base.of(case, policy, PEER_FILTER);
        }
        let mut trial = base.of(case, policy, FILTER)?;
        trial.options.design.table = TableSpec::HTable;
        trial.options.layout = Layout {
            order: KeyOrder::Hashed,
            ..Layout::sorted()
        };
        Ok(trial)
    };
    let peers = PEERS.map(|peer| base.peer_of_our_sizes(case, peer, PEER_FILTER));
    { policies.iter().map(ours) }.chain(peers).collect()
}

/// The memory of tables for a terabyte of keys and values, without cached pages: our indexes (marks
/// of buckets), filters and table descriptions; for peers, their own counts. `None` after writes,
/// because filters are loaded at their first probe.
fn memory_per_terabyte(row: &Value) -> Option<Value> {
    let setting = |name: &str| row["settings"][name].as_f64();
    let data = setting("num")? * (setting("key_size")? + setting("value_size")?);
    let has_only_read = row["user_bytes"] == 0;
    let memory = row["memory"].as_object().filter(|_| has_only_read)?;
    let of_tables = ["indexes", "filters", "tables", "indexes_and_filters"];
    let parts = memory.iter();
    let parts = parts.filter(|(name, _)| of_tables.contains(&name.as_str()));
    let scaled = parts
        .filter_map(|(name, bytes)| Some((name.clone(), json!(bytes.as_f64()? / data * TERABYTE))));
    Some(Value::Object(scaled.collect()))
}

/// Combines the rows of all parts: the time and the reads until the rate of a part reached nine
/// tenths of the steady rate.
fn cold_start(parts: &[Value]) -> Value {
    let number = |row: &Value, name: &str| row[name].as_f64().unwrap_or(0.0);
    let sum = |parts: &[Value], name| parts.iter().map(|row| number(row, name)).sum::<f64>();
    let rate = |row: &Value| number(row, "ops_per_second");
    let last = &parts[parts.len().saturating_sub(STEADY_PARTS)..];
    let steady = median(last.iter().map(rate)).unwrap_or(0.0);
    let warm = parts
        .iter()
        .position(|row| rate(row) >= STEADY_SHARE * steady);
    let until = &parts[..warm.map_or(parts.len(), |it| it + 1)];
    let first = parts.first().cloned().unwrap_or_default();
    let mut row = first.clone();
    for name in ["ops", "seconds", "block_reads", "device_reads"] {
        row[name] = json!(sum(parts, name));
    }
    row["ops_per_second"] = json!((sum(parts, "ops") / sum(parts, "seconds")).round());
    // These are the first part's.
    row["latency_us"] = Value::Null;
    row["cold_start"] = json!({
        "steady_ops_per_second": steady,
        "gets": sum(until, "ops"),
        "seconds": number(&first, "open_seconds") + sum(until, "seconds"),
        "read_bytes": number(&first, "open_read_bytes") + sum(until, "storage_read_bytes"),
        "device_reads": sum(until, "device_reads"),
    });
    row
}

/// The costs of stores of 1 to 100 TB: by the advisor's closed form and by the planner itself, with
/// a 1024th of the data as memory.
fn of_growing_data(micro: &mut Micro<'_>) -> Result<()> {
    for policy in [POLICY, "trie:4", "trie:16", "leveling:10"] {
        for terabytes in [1.0, 10.0, 100.0] {
            let data = TERABYTE * terabytes * micro.size.scale;
            let case = format!("{} GB", data / 1e9);
            if micro.wants(policy, &case) {
                let row = of_terabytes(policy, data)?;
                micro.row((policy, &case), "model", None, row)?;
            }
        }
    }
    Ok(())
}

fn of_terabytes(policy: &str, data: f64) -> Result<Value> {
    let is_trie = policy.starts_with(POLICY);
    let design = Design {
        policy: policy.parse()?,
        table: if is_trie {
            TableSpec::HTable
        } else {
            TableSpec::BlockBased
        },
        filter: if is_trie { FILTER } else { PEER_FILTER }.parse()?,
        memtable_bytes: Some(32 * MIB),
        table_bytes: Some(32 * MIB),
        ..Design::default()
    };
    let entries = data / (KEY_BYTES + VALUE_BYTES) as f64;
    let memory_budget = ((data / 1024.0) as u64).max(512 * MIB);
    let puts = advisor::Mix {
        put: 1.0,
        ..advisor::Mix::default()
    };
    let workload = advisor::Workload {
        key_bytes: KEY_BYTES as f64,
        value_bytes: VALUE_BYTES as f64,
        ..advisor::Workload::new(puts, entries)
    };
    let device = advisor::Device::nvme();
    let expected = advisor::expect(&design, &workload, &device, memory_budget)?;
    let report = simulate(&Simulation {
        entries: entries as u64,
        key_bytes: KEY_BYTES as u64,
        value_bytes: VALUE_BYTES as u64,
        design,
        memory_budget,
        ..Simulation::default()
    })?;
    let end = report.points.last();
    let end = end.ok_or("expected a store that grows, found none")?;
    let below = end.levels.iter().filter(|level| level.level > 0);
    Ok(json!({
        "entry_writes": {
            "closed_form": expected.tree.predict(&workload, &device).entry_writes,
            "simulated": end.entry_writes,
        },
        "levels": below.count(),
        "write_amplification": end.write_amplification,
        "filter_write_amplification": end.filter_write_amplification,
    }))
}
