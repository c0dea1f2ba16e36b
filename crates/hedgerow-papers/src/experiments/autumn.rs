//! The experiments of Zhao, Wu, Kong, Zhang, "Autumn: A Scalable Read Optimized LSM-tree based
//! Key-Value Store with Fast Point and Range Read Speed", and one of our own on the advisor's
//! model.
//!
//! At scale 1 sizes are the paper's if it states them, else those of its code: ratio 2 with
//! memtables of 4 MiB, tables of 2 MiB for the small benches, ratio 5 for YCSB. Memory shrinks with
//! the data, down to a floor, so trees keep their shape. A smaller c gains fewer runs, which trees
//! of 60 memtables do not show. So figures 3 to 5 have trees of 3,000 memtables and more.

mod targets;

use hedgerow::advisor::{Constraints, Device, advise};
use hedgerow::io::ReadMode;
use hedgerow::{Compression, Design};
use hedgerow_bench::{Result, Workload};

use super::size::{Base, Size, TABLE_BYTES_MIN};
use super::{Experiment, Step, Trial, model, unknown};

pub(super) use targets::targets;

const MIB: u64 = 1 << 20;
/// The bytes of a page in the cache.
const PAGE_BYTES: u64 = 4 << 10;

/// The options of RocksDB past the system's cache.
const DIRECT: &str = "use_direct_reads=true;use_direct_io_for_flush_and_compaction=true";

/// The case in which merges of different cuts are compared, and its number of flushes.
const FLUSHES: &str = "700 memtables";
const FLUSHES_COUNT: u64 = 700;
/// The case in which filters are compared, its policy, and the filters: allotted bits, and more
/// bits that are uniform. This number of flushes fills five levels.
const FIVE_LEVELS: &str = "five levels of ratio 8";
const FIVE_LEVELS_POLICY: &str = "leveling:8";
const FIVE_LEVELS_FLUSHES: u64 = 3500;
const ALLOTTED: [[&str; 2]; 2] = [["monkey:8", "bloom:10"], ["monkey:5", "bloom:7.5"]];
/// The memtables of a deep tree at its first read. A table has the size of two memtables.
const DEEP_FLUSHES: u64 = 3500;
/// The number of sizes at which a deep tree is read while it doubles, and the doublings of figure
/// 5.
const SIZES_PER_DOUBLING: u64 = 8;
const DOUBLINGS: u32 = 3;
/// The least bytes of a memtable: a 700th of little data.
const MEMTABLE_BYTES_MIN: u64 = 4 << 10;

/// The experiment with this number.
///
/// # Errors
/// An invalid number or scale; an error of the advisor.
pub fn experiment(size: &Size, number: u8, device: &Device) -> Result<Experiment> {
    size.check()?;
    let (title, trials) = match number {
        1 => ("Figure 2: leveling and garnering", figure_2(size)?),
        2 => ("Figure 3: sensitivity to c and T", figure_3(size)?),
        3 => ("Figure 4 and table 3: YCSB", figure_4(size)?),
        4 => (
            "Figure 5: growing data and few filter bits",
            figure_5(size)?,
        ),
        5 => ("The model's truth", truth(size, device)?),
        _ => return unknown(number),
    };
    Ok(Experiment {
        number,
        title: format!("Autumn {number}. {title}"),
        trials,
    })
}

fn figure_2(size: &Size) -> Result<Vec<Trial>> {
    let designs = [
        "leveling:2",
        "garnering:2,0.8",
        "garnering:2,0.4",
        "garnering-paper:2,0.8",
        "garnering-paper:2,0.4",
        "leveling:5",
        "leveling:6",
        "leveling:10",
    ];
    let mut trials = Vec::new();
    for value_bytes in [50, 100, 200] {
        let case = format!("values of {value_bytes} bytes");
        let reads = size.reads(1_000_000);
        let mut steps = vec![
            Step::new(Workload::FillSeq, 1),
            Step::new(Workload::FillRandom, 1),
            Step::new(Workload::ReadRandom, reads),
        ];
        steps.extend([0, 10, 100].map(|nexts| Step::seek(nexts, reads)));
        let small = small(size, 2_000_000, value_bytes, steps)?;
        for design in designs {
            trials.push(small.of(&case, design, "none")?);
        }
        let its_settings = format!(
            "write_buffer_size={};target_file_size_base={};max_bytes_for_level_base={};\
             max_bytes_for_level_multiplier=2;level_compaction_dynamic_level_bytes=false;num_levels=20;\
             {DIRECT};\
             block_based_table_factory={{no_block_cache=true;filter_policy=nullptr;format_version=5}}",
            size.bytes(4 * MIB, TABLE_BYTES_MIN),
            size.bytes(2 * MIB, TABLE_BYTES_MIN),
            size.bytes(10 * MIB, 4 * TABLE_BYTES_MIN),
        );
        trials.push(small.peer(&case, "rocksdb", "paper's settings", &its_settings));
        trials.push(small.peer(&case, "rocksdb", "as ours", &as_ours(size)));
    }
    Ok(trials)
}

/// A tree of one million keys that grows to two million.
fn figure_3(size: &Size) -> Result<Vec<Trial>> {
    let deep = deep(size, 1)?;
    let mut trials = Vec::new();
    for ratio in [3, 5] {
        let case = format!("T = {ratio}");
        for scaling in ["0.4", "0.6", "0.8", "1"] {
            trials.push(deep.of(&case, &format!("garnering:{ratio},{scaling}"), "none")?);
        }
        trials.push(deep.of(&case, &format!("leveling:{ratio}"), "none")?);
    }
    for ratio in [2, 4, 8, 16] {
        trials.push(deep.of("c = 0.8", &format!("garnering:{ratio},0.8"), "none")?);
        trials.push(deep.of("c = 0.8", &format!("leveling:{ratio}"), "none")?);
    }
    trials.push(deep.of("c = 0.4", "garnering:2,0.4", "none")?);
    let cuts = flushed(
        size,
        FLUSHES_COUNT,
        vec![Step::new(Workload::FillRandom, 1)],
    )?;
    for ratio in [2, 3, 4, 6] {
        for cut in ["one-table", "partitioned"] {
            trials.push(cuts.of(FLUSHES, &format!("leveling:{ratio},{cut}"), "none")?);
        }
    }
    Ok(trials)
}

/// 20 GB of records, memtables of 6 MiB, of which there are 3,300; ratio 5; gets with 10 filter
/// bits.
fn figure_4(size: &Size) -> Result<Vec<Trial>> {
    let num = size.count(20_000_000);
    let ops = size.reads(1_000_000);
    let workloads = [
        Workload::YcsbLoad,
        Workload::YcsbA,
        Workload::YcsbB,
        Workload::YcsbC,
        Workload::YcsbF,
        Workload::YcsbD,
        Workload::YcsbE,
    ];
    let steps = workloads.map(|workload| Step::new(workload, ops)).to_vec();
    let mut ycsb = size.base(num, 23, 1000, steps, (1024 * MIB, 6 * MIB, 12 * MIB))?;
    ycsb.0.settings.threads = 2;
    ycsb.0.options.threads = 2;
    let mut trials = Vec::new();
    for design in [
        "leveling:5",
        "garnering:5,0.8",
        "garnering:5,0.4",
        "leveling:10",
    ] {
        trials.push(ycsb.of("", design, "bloom:10")?);
    }
    trials.push(ycsb.of("", "leveling:6", "monkey")?);
    trials.push(ycsb.of("", "garnering:5,0.8", "monkey")?);
    ycsb.0.options.design.filter = "bloom:10".parse()?;
    trials.push(ycsb.peer("", "rocksdb", "as ours", ""));
    trials.push(ycsb.peer("", "leveldb", "as ours", ""));
    ycsb.0.steps = vec![
        Step::new(Workload::FillRandom, 1),
        Step::new(Workload::ReadWhileWriting, ops),
    ];
    let case = "reads while writing";
    for design in ["leveling:5", "garnering:5,0.8", "leveling:10"] {
        trials.push(ycsb.of(case, design, "bloom:10")?);
    }
    trials.push(ycsb.of(case, "leveling:6", "monkey")?);
    for peer in ["rocksdb", "leveldb"] {
        trials.push(ycsb.peer(case, peer, "as ours", ""));
    }
    Ok(trials)
}

/// A tree of a million keys that doubles three times.
fn figure_5(size: &Size) -> Result<Vec<Trial>> {
    let mut trials = Vec::new();
    let mut growing = deep(size, DOUBLINGS)?;
    // Room for what is kept of each of thousands of tables, so that no page is asked for but those
    // of entries.
    growing.0.options.memory_budget = size.bytes(128 * MIB, 64 * MIB);
    for filter in ["none", "bloom:2", "monkey:2"] {
        for policy in [
            "leveling:2",
            "garnering:2,0.8",
            "garnering:2,0.4",
            "leveling:10",
        ] {
            trials.push(growing.of("", policy, filter)?);
        }
    }
    for filter in ["none", "bloom:2"] {
        let mut peer = growing.peer("", "leveldb", filter, "");
        peer.options.design.filter = filter.parse()?;
        trials.push(peer);
    }
    let steps = vec![
        Step::new(Workload::FillRandom, 1),
        Step::new(Workload::ReadMissing, size.reads(1_000_000)),
    ];
    let five_levels = flushed(size, FIVE_LEVELS_FLUSHES, steps)?;
    for filter in ALLOTTED.concat() {
        trials.push(five_levels.of(FIVE_LEVELS, FIVE_LEVELS_POLICY, filter)?);
    }
    Ok(trials)
}

/// 24 designs under five mixes, and for each mix the advisor's design.
fn truth(size: &Size, device: &Device) -> Result<Vec<Trial>> {
    let policies = [
        "leveling:3",
        "leveling:5",
        "leveling:10",
        "garnering:3,0.8",
        "garnering:5,0.8",
        "garnering:8,0.9",
        "tiering:4",
        "tiering:8",
        "lazy-leveling:4",
        "lazy-leveling:8",
        "front-loaded:6",
        "bush:4",
    ];
    let reads = size.reads(1_000_000);
    // Puts come first: with 25 memtables they show the cost of puts.
    let mixes = [
        ("puts", "put=0.9,get=0.1", size.count(2_000_000)),
        ("hits", "get=0.9,put=0.1", reads),
        ("misses", "miss=0.9,put=0.1", reads),
        ("scans", "scan=0.9,put=0.1", reads),
        ("all", "get=1,miss=1,scan=1,put=1", reads),
    ];
    let mut steps = vec![Step::new(Workload::FillRandom, 1)];
    for (name, mix, ops) in mixes {
        steps.push(Step::mixed(name, mix.parse()?, ops));
    }
    let memory = 256 * MIB;
    // The prediction assumes a full cache.
    for step in &mut steps[2..] {
        step.warm_up = size.count(memory / PAGE_BYTES);
    }
    let sizes = (memory, 8 * MIB, 8 * MIB);
    let mut base = size.base(size.count(8_000_000), 16, 100, steps, sizes)?;
    let mut trials = Vec::new();
    for policy in policies {
        for filter in ["bloom:4", "monkey:10"] {
            trials.push(base.of("", policy, filter)?);
        }
    }
    let steps = std::mem::take(&mut base.0.steps);
    let writes = &steps[..2];
    for step in &steps[1..] {
        let chosen = choose(&base.0, step, device)?;
        let mut trial = base.of("", "leveling:10", "none")?;
        trial.design = summary_name(&step.name);
        trial.options.design = chosen;
        trial.steps = writes.to_vec();
        trial
            .steps
            .extend((step.name != "puts").then(|| step.clone()));
        trials.push(trial);
    }
    Ok(trials)
}

/// The paper's small benches: memtables of 4 MiB, tables of 2 MiB, no compression, and a budget
/// that leaves most blocks outside of the cache.
fn small(size: &Size, num: u64, value_bytes: usize, steps: Vec<Step>) -> Result<Base> {
    let num = size.count(num);
    size.base(num, 16, value_bytes, steps, (64 * MIB, 4 * MIB, 2 * MIB))
}

/// A tree of a million keys that doubles this often. It is read at several sizes, since the number
/// of runs depends on where a tree is in its cycle of merges.
fn deep(size: &Size, doublings: u32) -> Result<Base> {
    let reads = size.reads(20_000);
    let parts = SIZES_PER_DOUBLING << doublings;
    let mut steps = Vec::new();
    let fills = Step::fill_by_parts(parts).into_iter();
    for (put, fill) in (1..parts).zip(fills) {
        let part = fill.part;
        steps.push(fill);
        // At 8, 9, 10 .. 15 eighths of the first size, then at 16, 18, 20 .. 30 of them, and so on.
        let mut step = 1;
        while put >= 2 * SIZES_PER_DOUBLING * step {
            step *= 2;
        }
        if put < SIZES_PER_DOUBLING || put % step != 0 {
            continue;
        }
        let range = match doublings {
            1 => String::new(),
            _ => format!(" from {step}/{}", parts / SIZES_PER_DOUBLING),
        };
        let read = |step: Step| Step {
            part,
            name: format!("{}{range}", step.name),
            ..step
        };
        steps.extend([
            read(Step::new(Workload::ReadRandom, reads)),
            read(Step::new(Workload::ReadMissing, reads)),
            read(Step::seek(0, reads)),
            read(Step::seek(10, reads)),
        ]);
    }
    let mut base = small(size, 1_000_000 << doublings, 100, steps)?;
    let records = base.0.settings.records;
    let bytes = records.num * (records.key_bytes + records.value_bytes) as u64;
    let memtable = ((bytes >> doublings) / DEEP_FLUSHES).max(MEMTABLE_BYTES_MIN);
    base.0.options.design.memtable_bytes = Some(memtable);
    base.0.options.design.table_bytes = Some(2 * memtable);
    Ok(base)
}

/// Like [`small`], with 2 million entries that fill `memtables` memtables. Tables have the least
/// size.
fn flushed(size: &Size, memtables: u64, steps: Vec<Step>) -> Result<Base> {
    let mut base = small(size, 2_000_000, 100, steps)?;
    let records = base.0.settings.records;
    let bytes = records.num * (records.key_bytes + records.value_bytes) as u64;
    let design = &mut base.0.options.design;
    let memtable = (bytes / memtables).max(MEMTABLE_BYTES_MIN);
    design.memtable_bytes = Some(memtable);
    design.table_bytes = Some(memtable.min(TABLE_BYTES_MIN));
    Ok(base)
}

/// RocksDB with our sizes and cache; past the system's cache if ours is.
fn as_ours(size: &Size) -> String {
    let direct = match size.read_mode {
        ReadMode::Direct => format!(";{DIRECT}"),
        _ => String::new(),
    };
    format!(
        "write_buffer_size={};target_file_size_base={};max_bytes_for_level_base={}{direct}",
        size.bytes(4 * MIB, TABLE_BYTES_MIN),
        size.bytes(2 * MIB, TABLE_BYTES_MIN),
        size.bytes(16 * MIB, 4 * TABLE_BYTES_MIN),
    )
}

/// The name in rows of the advisor's design for a mix.
fn summary_name(mix: &str) -> String {
    format!("{}{mix}", super::summary::ADVISED)
}

fn choose(base: &Trial, step: &Step, device: &Device) -> Result<Design> {
    let workload = model::workload(base, step.mix, step.seek_nexts);
    let options = &base.options;
    let constraints = Constraints {
        memtable_bytes: options.design.memtable_bytes.map(|bytes| bytes as f64),
        ..Constraints::new(options.memory_budget)
    };
    let found = advise(&workload, device, &constraints)?;
    let best = found
        .first()
        .ok_or("expected a design that keeps to the budget, found none")?;
    Ok(Design {
        compression: Compression::None,
        memtable_bytes: options.design.memtable_bytes,
        table_bytes: options.design.table_bytes,
        ..best.design(device)
    })
}
