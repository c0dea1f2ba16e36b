//! Real threads on a real directory: their observations must fit some order of all commits.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a failure of the engine fails the test, which tells what it did"
)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use hedgerow::io::sim::SimStorage;
use hedgerow::io::{Background, Environment, OsClock, OsSpawn};
use hedgerow::{Db, Durability, Keyspace, Layout, Partitioning};
use hedgerow_testkit::random::Random;
use hedgerow_testkit::setup::Setup;

const WRITERS: u64 = 3;
const COMMITS: u64 = 5_000;
const KEYS: u64 = 50;

/// A database of small parts, so that flushes and merges run all the time. The parts are not so
/// small that syncs take all time.
fn open(dir: &std::path::Path, partitioning: Partitioning) -> (Db, Keyspace, Keyspace) {
    let mut design = Setup::tiny(0).design;
    design.memtable_bytes = Some(64 << 10);
    design.table_bytes = Some(16 << 10);
    let db = Db::builder(dir)
        .memory_budget(4 << 20)
        .log_segment_bytes(64 << 10)
        .open()
        .unwrap();
    let layout = Layout {
        partitioning,
        ..Layout::sorted()
    };
    let a = db
        .keyspace_with("a", layout.clone(), design.clone())
        .unwrap();
    let b = db.keyspace_with("b", layout, design).unwrap();
    (db, a, b)
}

/// A division inside the keys of each test.
fn by_range() -> Partitioning {
    Partitioning::range([&b"\0\0\0\0\0\0\0\x03"[..], b"1/2", b"2"])
}

fn number(value: &[u8]) -> u64 {
    u64::from_le_bytes(value[..8].try_into().unwrap())
}

fn value(number: u64, filler: u64) -> Vec<u8> {
    let mut value = number.to_le_bytes().to_vec();
    value.resize(8 + filler as usize, number as u8);
    value
}

/// For each key, one reader sees values that only grow, by gets and scans together. A get that
/// finds an unpublished write waits until scans find it, too.
#[test]
fn a_reader_never_sees_a_key_go_back() {
    for partitioning in [Partitioning::Single, Partitioning::Hash(3), by_range()] {
        let dir = tempfile::tempdir().unwrap();
        let (_db, a, _) = open(dir.path(), partitioning);
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            let writers: Vec<_> = (0..WRITERS)
                .map(|writer| {
                    let a = &a;
                    scope.spawn(move || {
                        let mut random = Random::new(writer);
                        for n in 0..COMMITS {
                            // Each writer has its own keys.
                            let key = format!("{writer}/{}", random.below(KEYS));
                            a.put(key, value(n, random.below(200))).unwrap();
                        }
                    })
                })
                .collect();
            for reader in 0..2 {
                let (a, done) = (&a, &done);
                scope.spawn(move || {
                    let mut random = Random::new(100 + reader);
                    let mut seen = BTreeMap::new();
                    let mut see = |key: &[u8], value: &[u8]| {
                        let last = seen.insert(key.to_vec(), number(value));
                        assert!(last <= Some(number(value)), "{key:?} went back");
                        assert!(value[8..].iter().all(|&b| b == number(value) as u8));
                    };
                    while !done.load(Ordering::Relaxed) {
                        let key = format!("{}/{}", random.below(WRITERS), random.below(KEYS));
                        if let Some(value) = a.get(&key).unwrap() {
                            see(key.as_bytes(), &value);
                        }
                        if random.one_in(20) {
                            for item in a.scan(key.as_bytes()..).unwrap().take(30) {
                                let (key, value) = item.unwrap();
                                see(&key, &value);
                            }
                        }
                        if random.one_in(20) {
                            for item in a.scan(..key.as_bytes()).unwrap().rev().take(30) {
                                let (key, value) = item.unwrap();
                                see(&key, &value);
                            }
                        }
                    }
                });
            }
            writers.into_iter().for_each(|w| w.join().unwrap());
            done.store(true, Ordering::Relaxed);
        });
    }
}

/// Each batch gives all keys of both keyspaces one number. A snapshot sees one number.
#[test]
fn batches_are_seen_whole() {
    for partitioning in [Partitioning::Hash(4), by_range()] {
        let dir = tempfile::tempdir().unwrap();
        let (db, a, b) = open(dir.path(), partitioning);
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            let writers: Vec<_> = (0..WRITERS)
                .map(|writer| {
                    let (db, a, b) = (&db, &a, &b);
                    scope.spawn(move || {
                        for n in 0..COMMITS / 5 {
                            let mut batch = db.batch();
                            for key in 0..8_u64 {
                                batch
                                    .put(a, key.to_be_bytes(), value(writer << 32 | n, 50))
                                    .unwrap();
                                batch
                                    .put(b, key.to_be_bytes(), value(writer << 32 | n, 9))
                                    .unwrap();
                            }
                            let synced = n % 50 == 0;
                            batch
                                .commit(if synced {
                                    Durability::Synced
                                } else {
                                    Durability::Buffered
                                })
                                .unwrap();
                        }
                    })
                })
                .collect();
            for _ in 0..2 {
                let (db, a, b, done) = (&db, &a, &b, &done);
                scope.spawn(move || {
                    while !done.load(Ordering::Relaxed) {
                        let snapshot = db.snapshot().unwrap();
                        let mut numbers = Vec::new();
                        for keyspace in [a, b] {
                            for item in snapshot.scan::<&[u8]>(keyspace, ..).unwrap() {
                                numbers.push(number(&item.unwrap().1));
                            }
                            for item in snapshot.scan::<&[u8]>(keyspace, ..).unwrap().rev() {
                                numbers.push(number(&item.unwrap().1));
                            }
                        }
                        assert!(numbers.is_empty() || numbers.len() == 32, "{numbers:?}");
                        assert!(numbers.windows(2).all(|w| w[0] == w[1]), "{numbers:?}");
                        let third = snapshot.get(a, 3_u64.to_be_bytes()).unwrap();
                        assert_eq!(third.map(|v| number(&v)), numbers.first().copied());
                        // A scan of the present sees one moment, too.
                        let scan = a.scan::<&[u8]>(..).unwrap();
                        let now: Vec<_> = scan.map(|item| number(&item.unwrap().1)).collect();
                        assert!(now.windows(2).all(|w| w[0] == w[1]), "{now:?}");
                    }
                });
            }
            writers.into_iter().for_each(|w| w.join().unwrap());
            done.store(true, Ordering::Relaxed);
        });
        db.verify().unwrap();
    }
}

/// No increment is lost beside writes to other keys, flushes and merges.
#[test]
fn updates_count_exactly() {
    const COUNTERS: u64 = 5;
    let dir = tempfile::tempdir().unwrap();
    let (db, a, _) = open(dir.path(), Partitioning::Hash(3));
    thread::scope(|scope| {
        for writer in 0..4 {
            let a = &a;
            scope.spawn(move || {
                let mut random = Random::new(writer);
                for n in 0..COMMITS / 2 {
                    let counter = format!("counter/{}", n % COUNTERS);
                    a.update(counter, |old| {
                        let old = old.map_or(0, number);
                        Some(value(old + 1, 30))
                    })
                    .unwrap();
                    a.put(format!("other/{}", random.below(KEYS)), value(n, 100))
                        .unwrap();
                    if random.one_in(200) {
                        a.flush().unwrap();
                    }
                }
            });
        }
    });
    let counts = (0..COUNTERS).map(|c| number(&a.get(format!("counter/{c}")).unwrap().unwrap()));
    assert_eq!(counts.sum::<u64>(), 4 * (COMMITS / 2));
    db.verify().unwrap();
}

/// Keyspaces are cleared, dropped and made again while other threads write and read them.
#[test]
fn clearing_and_dropping_goes_on_beside_writers() {
    let dir = tempfile::tempdir().unwrap();
    let (db, a, b) = open(dir.path(), Partitioning::Hash(3));
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for writer in 0..2_u64 {
            let (db, a, b, done) = (&db, &a, &b, &done);
            scope.spawn(move || {
                let mut random = Random::new(writer);
                while !done.load(Ordering::Relaxed) {
                    let key = random.below(KEYS).to_be_bytes();
                    let mut batch = db.batch();
                    batch.put(a, key, value(1, 200)).unwrap();
                    batch.put(b, key, value(1, 200)).unwrap();
                    batch.commit(Durability::Buffered).unwrap();
                    if let Some(temporary) = db.existing_keyspace("temporary") {
                        // The keyspace may be gone by now.
                        let _ = temporary.put(key, value(1, 500));
                        let _ = temporary.get(key);
                    }
                    let snapshot = db.snapshot().unwrap();
                    let first: Vec<_> = snapshot.scan::<&[u8]>(a, ..).unwrap().collect();
                    let second: Vec<_> = snapshot.scan::<&[u8]>(a, ..).unwrap().collect();
                    assert_eq!(first.len(), second.len(), "a snapshot changed");
                }
            });
        }
        for _ in 0..20 {
            a.clear().unwrap();
            db.keyspace_with("temporary", Layout::sorted(), Setup::tiny(0).design)
                .unwrap();
            b.compact::<&[u8]>(..).unwrap();
            db.drop_keyspace("temporary").unwrap();
        }
        done.store(true, Ordering::Relaxed);
    });
    db.verify().unwrap();
    db.close().unwrap();
    drop((a, b));
    let (db, _, _) = open(dir.path(), Partitioning::Hash(3));
    db.verify().unwrap();
}

/// Keys move between two keyspaces and back, all together, by a batch and then a clear. At any
/// moment they are in one of the two or in both. So they are in every snapshot and in every
/// checkpoint.
#[test]
fn what_moves_between_keyspaces_is_in_every_snapshot_and_checkpoint() {
    const MOVES: u64 = 1_500;
    /// A machine that is busy makes few copies beside the moves; then there are more moves.
    const COPIES: u64 = 50;
    const MOVED: u64 = 20;
    let disk = SimStorage::new(5);
    let environment = || Environment {
        storage: Arc::new(disk.clone()),
        clock: Arc::new(OsClock::new()),
        spawn: Arc::new(OsSpawn),
        background: Background::Threads(3),
    };
    let open = |dir: &str| {
        let builder = Db::builder(dir).memory_budget(4 << 20);
        builder.environment(environment()).open().unwrap()
    };
    let db = open("/db");
    let keyspaces = ["a", "b"].map(|name| db.keyspace(name, Layout::sorted()).unwrap());
    let fill = |keyspace: &Keyspace| {
        let mut batch = db.batch();
        for key in 0..MOVED {
            batch.put(keyspace, key.to_be_bytes(), b"moved").unwrap();
        }
        batch.commit(Durability::Buffered).unwrap();
    };
    fill(&keyspaces[0]);
    let (done, copies) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        let copier = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let dir = format!("/copy-{}", copies.fetch_add(1, Ordering::Relaxed));
                db.checkpoint(&dir).unwrap();
                let copy = open(&dir);
                let copied = ["a", "b"].map(|name| copy.existing_keyspace(name).unwrap());
                for key in (0..MOVED).map(u64::to_be_bytes) {
                    let found = copied.iter().any(|it| it.contains_key(key).unwrap());
                    assert!(found, "{key:?} is not in {dir}");
                }
            }
        });
        scope.spawn(|| {
            let mut taken = 0_u64;
            while !done.load(Ordering::Relaxed) {
                let snapshot = db.snapshot().unwrap();
                let key = (taken % MOVED).to_be_bytes();
                let has = |keyspace| snapshot.contains_key(keyspace, key).unwrap();
                assert!(
                    keyspaces.iter().any(has),
                    "{key:?} is not in snapshot {taken}"
                );
                taken += 1;
            }
            println!("{taken} snapshots");
        });
        for i in 0.. {
            fill(&keyspaces[(i + 1) as usize % 2]);
            keyspaces[i as usize % 2].clear().unwrap();
            let copied = copies.load(Ordering::Relaxed) >= COPIES || copier.is_finished();
            if i >= MOVES && copied {
                break;
            }
        }
        done.store(true, Ordering::Relaxed);
    });
}
