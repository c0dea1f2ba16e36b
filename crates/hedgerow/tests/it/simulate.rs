//! The simulator against the engine: the same writes, the same sizes.
#![allow(clippy::print_stdout, reason = "the measurement is printed")]

use hedgerow::io::Environment;
use hedgerow::io::sim::SimStorage;
use hedgerow::{
    Compression, Db, DbStats, Design, Layout, Overwrites, PolicySpec, Simulation, simulate,
};

use crate::support::DIR;

const KEY_BYTES: usize = 16;
const VALUE_BYTES: usize = 100;
const MEMTABLE_BYTES: u64 = 64 << 10;
const MEMORY_BUDGET: u64 = 16 << 20;

fn design(policy: PolicySpec) -> Design {
    Design {
        policy,
        compression: Compression::None,
        memtable_bytes: Some(MEMTABLE_BYTES),
        table_bytes: Some(MEMTABLE_BYTES),
        ..Design::default()
    }
}

/// A number without a pattern for each number, different ones for different ones.
fn scattered(i: u64) -> u64 {
    let mut z = i.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// What the engine counts for these writes.
fn measured(design: Design, entries: u64, key_of: impl Fn(u64) -> u64) -> DbStats {
    let disk = SimStorage::new(1);
    let db = Db::builder(DIR)
        .environment(Environment::simulated(&disk, 7))
        .memory_budget(MEMORY_BUDGET)
        .open()
        .unwrap();
    let keyspace = db.keyspace_with("plain", Layout::sorted(), design).unwrap();
    let value = [7; VALUE_BYTES];
    for i in 0..entries {
        let mut key = [0; KEY_BYTES];
        key[..8].copy_from_slice(&scattered(key_of(i)).to_be_bytes());
        key[8..].copy_from_slice(&key_of(i).to_be_bytes());
        keyspace.put(key, value).unwrap();
    }
    keyspace.flush().unwrap();
    keyspace.wait_until_merged().unwrap();
    db.stats()
}

/// How often an entry is written, by flushes and merges, and how far off the simulator is.
#[test]
fn entries_are_written_as_often_as_the_simulator_says() {
    let entries = 300_000;
    let keys = entries / 4;
    let mut missed = Vec::new();
    for (policy, overwrites, tolerance) in [
        // What a sweep carries along depends on which merges run at the same time, and the
        // simulator's run one after another: here, and with the ratios of 2 to 4 below.
        ("leveling:4,partitioned", Overwrites::None, 0.12),
        ("leveling:4,partitioned", Overwrites::Uniform, 0.12),
        ("leveling:4,whole-level", Overwrites::Uniform, 0.03),
        ("leveling:4,one-table", Overwrites::Uniform, 0.03),
        ("leveling:10", Overwrites::None, 0.03),
        ("tiering:4", Overwrites::None, 0.02),
        ("tiering:8", Overwrites::Uniform, 0.02),
        ("garnering:2,0.8", Overwrites::None, 0.09),
        ("garnering-paper:2,0.8", Overwrites::None, 0.03),
        ("lazy-leveling:4", Overwrites::None, 0.03),
        ("front-loaded:4", Overwrites::None, 0.04),
        ("bush:2", Overwrites::None, 0.03),
        (
            "0=runs:4;1-2=tiering:4;3=leveling:8",
            Overwrites::None,
            0.03,
        ),
    ] {
        let design = design(policy.parse().unwrap());
        let stats = measured(design.clone(), entries, |i| match overwrites {
            Overwrites::None => i,
            _ => scattered(!i) % keys,
        });
        let written = stats.flush_entries + stats.merge_entries;
        let measured = written as f64 / entries as f64;
        let report = simulate(&Simulation {
            entries,
            key_bytes: KEY_BYTES as u64,
            value_bytes: VALUE_BYTES as u64,
            design,
            memory_budget: MEMORY_BUDGET,
            overwrites,
            keys: Some(keys),
            ..Simulation::default()
        })
        .unwrap();
        let end = report.points.last().unwrap();
        let off = end.entry_writes / measured - 1.0;
        println!(
            "{policy} {overwrites:?}: measured {measured:.2}, predicted {:.2}, {:+.1} %",
            end.entry_writes,
            100.0 * off,
        );
        missed.extend((off.abs() >= tolerance).then_some((policy, overwrites, off)));
    }
    assert!(missed.is_empty(), "{missed:?}");
}
