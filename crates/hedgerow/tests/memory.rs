//! The memory budget holds: the accounted sum stays within it, and the process's anonymous resident
//! memory within 32 MiB of it. A test binary of its own, because resident memory is the process's.
#![cfg(target_os = "linux")]
#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test that looks at the process from outside the database"
)]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use hedgerow::{Db, Design, KeyOrder, Layout, MemoryStats, PrefixRule, TableSpec};

const MIB: u64 = 1 << 20;
const SLACK_BYTES: u64 = 32 * MIB;

fn key(i: u64) -> [u8; 16] {
    let mixed = hedgerow::io::sim::mix(i.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let mut key = [0; 16];
    key[..8].copy_from_slice(&mixed.to_be_bytes());
    key[8..].copy_from_slice(&i.to_be_bytes());
    key
}

fn anonymous_resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|l| l.starts_with("RssAnon:")).unwrap();
    let kib: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kib * 1024
}

/// The highest accounted sum and resident memory seen by a thread that keeps looking.
#[derive(Default)]
struct Peaks {
    accounted: AtomicU64,
    resident: AtomicU64,
    stop: AtomicBool,
}

impl Peaks {
    /// Looks until this is dropped, be it by a panic.
    fn keep_looking<'a>(&'a self, scope: &'a std::thread::Scope<'a, '_>, db: &'a Db) -> Stop<'a> {
        scope.spawn(|| {
            while !self.stop.load(Ordering::Relaxed) {
                self.look(db);
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
        });
        Stop(&self.stop)
    }

    fn look(&self, db: &Db) {
        // The parts are read one after another, and what moves from one to another meanwhile counts
        // twice: not so three times in a row.
        let looks = [(); 3].map(|()| db.stats().memory);
        let least = looks.into_iter().min_by_key(MemoryStats::total);
        let memory = least.expect("three looks");
        let accounted = memory.total();
        if accounted > memory.budget {
            println!("over the budget: {memory:?}");
        }
        self.accounted.fetch_max(accounted, Ordering::Relaxed);
        let resident = anonymous_resident_bytes();
        self.resident.fetch_max(resident, Ordering::Relaxed);
    }

    fn check(&self, doing: &str, budget: u64, before: u64) {
        let accounted = self.accounted.swap(0, Ordering::Relaxed);
        let resident = self
            .resident
            .swap(0, Ordering::Relaxed)
            .saturating_sub(before);
        println!(
            "{doing}: accounted {} MiB, resident {} MiB",
            accounted / MIB,
            resident / MIB
        );
        assert!(
            accounted <= budget,
            "{doing}: {accounted} bytes are accounted for, of {budget}"
        );
        let limit = budget + SLACK_BYTES;
        assert!(
            resident <= limit,
            "{doing}: {resident} bytes are resident, limit {limit}"
        );
    }
}

struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// `before` is what was resident before there was any database in this process.
fn budget_is_kept(before: u64, budget: u64, entries: u64, layout: Layout, design: Design) {
    let is_sorted = layout.order == KeyOrder::Sorted;
    let dir = tempfile::tempdir().unwrap();
    let db = Db::builder(dir.path())
        .memory_budget(budget)
        .open()
        .unwrap();
    let keyspace = db.keyspace_with("k", layout, design).unwrap();
    let peaks = Peaks::default();
    std::thread::scope(|scope| {
        let _stop = peaks.keep_looking(scope, &db);
        let value = [5; 100];
        for i in 0..entries {
            keyspace.put(key(i), value).unwrap();
        }
        peaks.check("fill", budget, before);

        let scan_from = |i| -> Box<dyn Iterator<Item = hedgerow::Result<()>>> {
            match is_sorted {
                true => Box::new(keyspace.scan(&key(i)[..]..).unwrap().map(|it| it.map(drop))),
                false => Box::new(keyspace.scan_unordered().unwrap().map(|it| it.map(drop))),
            }
        };
        let mut scans: Vec<_> = (0..16).map(scan_from).collect();
        for _ in 0..2000 {
            for scan in &mut scans {
                let _ = scan.next().transpose().unwrap();
            }
        }
        peaks.check("16 open scans", budget, before);

        for round in 0..20u64 {
            let nth = |i: u64| key((round * 7919 + i * 31) % entries);
            let keys: Vec<_> = (0..10_000).map(nth).collect();
            let values = keyspace.multi_get(&keys).unwrap();
            assert!(values.iter().all(Option::is_some));
        }
        drop(scans);
        peaks.check("multi_gets of 10000", budget, before);

        // Long values pin their pages: the page cache makes room for them.
        for i in 0..8_000u64 {
            keyspace.put(key(i), vec![6; 1500]).unwrap();
        }
        keyspace.flush().unwrap();
        let pinned: Vec<_> = (0..8_000)
            .map(|i| keyspace.get(key(i)).unwrap().unwrap())
            .collect();
        assert!(pinned.iter().all(|value| value.len() == 1500));
        peaks.look(&db);
        drop(pinned);
        peaks.check("8000 pinned values", budget, before);

        for i in 0..entries.min(400_000) {
            assert!(keyspace.get(key(i * 3 % entries)).unwrap().is_some());
        }
        keyspace.wait_until_merged().unwrap();
        peaks.look(&db);
        peaks.check("gets and merges", budget, before);
    });
    assert_eq!(db.stats().panics, 0);
    db.close().unwrap();
}

fn of_policy(policy: &str) -> Design {
    Design {
        policy: policy.parse().unwrap(),
        ..Design::default()
    }
}

/// One test, so that nothing else is resident meanwhile. It includes LSM-trie's design, whose
/// merges have an output for each child of a node, and SlimDB's, whose filters are copied when a
/// run is added.
#[test]
fn sixty_four_mebibytes_hold_two_million_entries() {
    let before = anonymous_resident_bytes();
    let lsm_trie = Design {
        table: TableSpec::HTable,
        filter: "cluster:16".parse().unwrap(),
        ..of_policy("trie:8")
    };
    let slimdb = Design {
        filter: "mlcf:12".parse().unwrap(),
        index: "three-level".parse().unwrap(),
        ..of_policy("tiering:4")
    };
    for (entries, layout, design) in [
        (2_000_000, Layout::sorted(), of_policy("leveling:10")),
        (
            500_000,
            Layout::sorted().hash(8),
            of_policy("leveling:4,partitioned"),
        ),
        (500_000, Layout::hashed(), lsm_trie),
        (1_000_000, Layout::semi_sorted(PrefixRule::Bytes(2)), slimdb),
    ] {
        budget_is_kept(before, 64 * MIB, entries, layout, design);
    }
}

/// On demand: `cargo test --release -p hedgerow --test memory -- --ignored`.
#[test]
#[ignore = "writes 4.6 GB"]
fn sixty_four_mebibytes_hold_forty_million_entries() {
    let before = anonymous_resident_bytes();
    let design = of_policy("leveling:10");
    budget_is_kept(before, 64 * MIB, 40_000_000, Layout::sorted(), design);
}
