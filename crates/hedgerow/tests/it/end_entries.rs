//! The first and the last entry, pops, scans of keys alone, and estimates.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use hedgerow::io::sim::SimStorage;
use hedgerow::{Db, Durability, Error, ErrorKind, Keyspace, Layout};

use crate::support::{
    Contents, builder, contents, hashed, key, kind, open, plain, plain_small, small, value,
};

fn layouts() -> [Layout; 3] {
    [
        Layout::sorted(),
        Layout::sorted().hash(3),
        Layout::sorted().range(["key-000100", "key-000300"]),
    ]
}

fn popped(found: hedgerow::Result<Option<(hedgerow::Slice, hedgerow::Slice)>>) -> Option<Vec<u8>> {
    found.unwrap().map(|(key, _)| key.to_vec())
}

/// A generator of numbers below a bound.
fn numbers(mut state: u64) -> impl FnMut(u64) -> u64 {
    move |bound| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % bound
    }
}

#[test]
fn the_ends_of_every_order_are_found() {
    let disk = SimStorage::new(1);
    let db = open(&disk);
    let keyspace = plain_small(&db);
    let before = db.snapshot().unwrap();
    assert!(keyspace.is_empty().unwrap());
    assert_eq!(keyspace.first().unwrap(), None);
    for i in [5, 3, 9] {
        keyspace.put(key(i), value(i)).unwrap();
    }
    assert!(!keyspace.is_empty().unwrap());
    assert!(before.is_empty(&keyspace).unwrap());
    assert_eq!(before.last(&keyspace).unwrap(), None);
    let (first, last) = (keyspace.first().unwrap(), keyspace.last().unwrap());
    assert_eq!(first.unwrap().0, key(3).as_slice());
    assert_eq!(last.unwrap().1, value(9).as_slice());
    let now = db.snapshot().unwrap();
    assert_eq!(popped(now.first(&keyspace)), Some(key(3)));
    assert_eq!(now.scan_all(&keyspace).unwrap().count(), 3);

    let keyspace = hashed(&db, small());
    assert!(keyspace.is_empty().unwrap());
    keyspace.put("a", "1").unwrap();
    assert!(!keyspace.is_empty().unwrap());
    keyspace.delete("a").unwrap();
    assert!(keyspace.is_empty().unwrap());
    assert_eq!(kind(keyspace.first()), ErrorKind::InvalidArgument);
    assert_eq!(kind(keyspace.pop_last()), ErrorKind::InvalidArgument);
    let names = hashed(&db, small());
    names.put("b", vec![1; 9000]).unwrap();
    let mut keys = names.scan_unordered().unwrap().keys();
    assert_eq!(keys.next().unwrap().unwrap(), "b");
    let rest = names.scan_unordered_from(&keys.token()).unwrap();
    assert_eq!(rest.count(), 0);
}

/// Pops, puts anywhere, deletes, clears, loads and openings agree with a map.
#[test]
fn pops_take_the_nearest_entry_whatever_else_is_written() {
    for (seed, layout) in (1..).zip(layouts()) {
        let disk = SimStorage::new(seed);
        let mut db = open(&disk);
        let mut keyspace = db.keyspace_with("plain", layout, small()).unwrap();
        let mut expected = Contents::new();
        let mut below = numbers(seed);
        for step in 0..6000 {
            let i = below(500);
            match below(100) {
                0..=39 => {
                    keyspace.put(key(i), value(step)).unwrap();
                    expected.insert(key(i), value(step));
                }
                40..=64 => {
                    let first = expected.pop_first();
                    assert_eq!(popped(keyspace.pop_first()), first.map(|(key, _)| key));
                }
                65..=84 => {
                    let last = expected.pop_last();
                    let found = keyspace.pop_last().unwrap();
                    let found = found.map(|(key, value)| (key.to_vec(), value.to_vec()));
                    assert_eq!(found, last);
                }
                85..=94 => {
                    keyspace.delete(key(i)).unwrap();
                    expected.remove(&key(i));
                }
                95..=96 => {
                    let entries = (i..i + 5).map(|i| (key(i), value(step)));
                    expected.extend(entries.clone());
                    keyspace.bulk_load(entries.map(Ok::<_, Error>)).unwrap();
                }
                97 => keyspace.flush().unwrap(),
                98 if below(20) == 0 => {
                    keyspace.clear().unwrap();
                    expected.clear();
                }
                99 if below(10) == 0 => {
                    drop(keyspace);
                    db.close().unwrap();
                    db = open(&disk);
                    keyspace = db.existing_keyspace("plain").unwrap();
                }
                _ => {
                    let mut batch = db.batch();
                    batch.put(&keyspace, key(i), value(step)).unwrap();
                    batch.delete(&keyspace, key(i + 1)).unwrap();
                    batch.commit(Durability::Buffered).unwrap();
                    expected.insert(key(i), value(step));
                    expected.remove(&key(i + 1));
                }
            }
        }
        assert_eq!(contents(&keyspace), expected);
    }
}

/// Workers pop from both ends while others put below, between and above what they read ahead.
#[test]
fn concurrent_pops_take_every_entry_once() {
    const JOBS: u64 = 4000;
    let dir = tempfile::tempdir().unwrap();
    let db = Db::builder(dir.path())
        .memory_budget(1 << 20)
        .open()
        .unwrap();
    let jobs = db
        .keyspace_with("jobs", Layout::sorted().hash(2), small())
        .unwrap();
    let (putting, taken) = (AtomicU64::new(2), AtomicU64::new(0));
    let work = |last: bool| {
        let mut mine = Vec::new();
        loop {
            let done = putting.load(Ordering::Acquire) == 0;
            let job = if last {
                jobs.pop_last()
            } else {
                jobs.pop_first()
            };
            match job.unwrap() {
                Some((key, _)) => {
                    taken.fetch_add(1, Ordering::Relaxed);
                    mine.push(key.to_vec());
                }
                None if done => return mine,
                None => std::thread::yield_now(),
            }
        }
    };
    let all: Vec<Vec<u8>> = std::thread::scope(|scope| {
        for producer in 0..2 {
            let (jobs, putting) = (&jobs, &putting);
            scope.spawn(move || {
                for i in 0..JOBS {
                    // One ascends, the other descends.
                    let number = if producer == 0 { i } else { 3 * JOBS - i };
                    jobs.put(number.to_be_bytes(), "job").unwrap();
                }
                putting.fetch_sub(1, Ordering::Release);
            });
        }
        let workers: Vec<_> = [false, false, true, true]
            .map(|last| scope.spawn(move || work(last)))
            .into_iter()
            .collect();
        workers
            .into_iter()
            .flat_map(|it| it.join().unwrap())
            .collect()
    });
    assert_eq!(all.len() as u64, 2 * JOBS);
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len() as u64, 2 * JOBS);
    assert!(jobs.is_empty().unwrap());
}

/// The entries that a pop steps over do not grow with the number of pops before, in memtables and
/// in tables.
#[test]
fn a_pop_steps_over_few_entries_however_many_were_popped() {
    let disk = SimStorage::new(1);
    let db = open(&disk);
    for (name, design) in [
        ("memtable", hedgerow::Design::default()),
        ("tables", small()),
    ] {
        let jobs = db.keyspace_with(name, Layout::sorted(), design).unwrap();
        let mut next = 0;
        for _ in 0..2000 {
            jobs.put(key(next), value(next)).unwrap();
            next += 1;
        }
        for i in 0..6000 {
            jobs.put(key(next), value(next)).unwrap();
            next += 1;
            assert_eq!(popped(jobs.pop_first()), Some(key(i)));
        }
        let stats = jobs.stats();
        assert!(stats.skipped <= 2 * 6000, "{name}: {}", stats.skipped);
        assert!(stats.skipped_per_scan < 300.0, "{}", stats.skipped_per_scan);
        assert!(
            stats.memtable_tombstones > 0 || name == "tables",
            "{stats:?}"
        );
    }
    let stats = db.existing_keyspace("tables").unwrap().stats();
    assert_eq!(
        stats.memtable_tombstones,
        stats.partitions[0].memtable_tombstones
    );
}

/// Scans that begin at the front of a queue step over its tombstones, and over what ranges have
/// deleted. This makes flushes due.
#[test]
fn deleted_entries_that_scans_step_over_are_flushed() {
    for by_ranges in [false, true] {
        let disk = SimStorage::new(1);
        let db = builder(&disk).memory_budget(64 << 20).open().unwrap();
        let jobs = plain(&db);
        for i in 0..3000 {
            jobs.put(key(i), "job").unwrap();
        }
        for _ in 0..2500 {
            let (first, _) = jobs.first().unwrap().unwrap();
            match by_ranges {
                false => jobs.delete(first).unwrap(),
                true => jobs.delete_range(first.clone()..=first).unwrap(),
            }
        }
        let flushes = db.stats().flushes;
        // Scans seek past what ranges hide in a table that has nothing newer.
        assert!(flushes >= if by_ranges { 1 } else { 2 }, "{flushes}");
        assert!(jobs.stats().skipped > 1 << 20);
        assert!(jobs.stats().memtable_tombstones < 2000);
        assert_eq!(jobs.scan_all().unwrap().count(), 500);
    }
}

/// The page of a long value is not read.
#[test]
fn scans_of_keys_read_no_values() {
    let disk = SimStorage::new(1);
    let db = open(&disk);
    let keyspace = plain(&db);
    for i in 0..50 {
        keyspace.put(key(i), vec![i as u8; 5000]).unwrap();
    }
    keyspace.flush().unwrap();
    let reads = |scan: &dyn Fn() -> usize| {
        let before = db.stats().block_reads;
        assert_eq!(scan(), 50);
        db.stats().block_reads - before
    };
    let keys = reads(&|| keyspace.scan_all().unwrap().keys().count());
    let back = reads(&|| keyspace.scan_all().unwrap().keys().rev().count());
    let unordered = reads(&|| keyspace.scan_unordered().unwrap().keys().count());
    let pairs = reads(&|| keyspace.scan_all().unwrap().count());
    assert!(
        keys.max(back).max(unordered) <= 5,
        "{keys}, {back}, {unordered} pages"
    );
    assert!(pairs >= 50 + keys, "{pairs} pages");
    let both: Vec<_> = keyspace.scan(key(10)..key(12)).unwrap().keys().collect();
    assert_eq!(both.len(), 2);
}

fn within(keyspace: &Keyspace, from: u64, to: u64) -> (u64, u64) {
    let range = (Bound::Included(key(from)), Bound::Excluded(key(to)));
    (
        keyspace.approximate_entries(range.clone()).unwrap(),
        keyspace.approximate_bytes(range).unwrap(),
    )
}

#[test]
fn estimates_come_from_indexes_alone() {
    for layout in layouts() {
        let disk = SimStorage::new(1);
        let db = builder(&disk).memory_budget(64 << 20).open().unwrap();
        let design = hedgerow::Design {
            memtable_bytes: None,
            ..small()
        };
        let keyspace = db.keyspace_with("plain", layout, design).unwrap();
        for i in 0..4000 {
            keyspace.put(key(i), [7; 90]).unwrap();
        }
        for state in ["memtables", "level 0", "merged"] {
            let before = db.stats().block_reads;
            let (all, bytes) = within(&keyspace, 0, 4000);
            assert_eq!(
                keyspace.approximate_entries::<&[u8]>(..).unwrap(),
                4000,
                "{state}"
            );
            assert!((3900..=4000).contains(&all), "{state}: {all}");
            assert!((360_000..500_000).contains(&bytes), "{state}: {bytes}");
            for (from, to) in [(0, 2000), (1000, 3000), (3500, 4000), (70, 1170)] {
                let (entries, bytes) = within(&keyspace, from, to);
                let expected = to - from;
                let near = expected * 3 / 4..=expected * 5 / 4;
                assert!(near.contains(&entries), "{state}: {entries} of {expected}");
                assert!((80..130).contains(&(bytes / expected)), "{state}: {bytes}");
            }
            let (few, _) = within(&keyspace, 100, 110);
            assert!(few <= 40, "{state}: {few}");
            assert_eq!(within(&keyspace, 4000, 9000), (0, 0), "{state}");
            assert_eq!(within(&keyspace, 20, 10), (0, 0), "{state}");
            assert_eq!(db.stats().block_reads, before, "{state}");
            match state {
                "memtables" => keyspace.flush().unwrap(),
                _ => keyspace.compact::<&[u8]>(..).unwrap(),
            }
        }
    }
    let disk = SimStorage::new(1);
    let db = open(&disk);
    let unsorted = hashed(&db, small());
    unsorted.put("a", "1").unwrap();
    assert_eq!(unsorted.approximate_entries::<&[u8]>(..).unwrap(), 1);
    assert_eq!(
        kind(unsorted.approximate_bytes("a"..)),
        ErrorKind::InvalidArgument
    );
}

#[test]
fn a_batch_is_looked_into_cleared_reused_and_sent() {
    use hedgerow::BatchOp;
    let disk = SimStorage::new(1);
    let db = open(&disk);
    let (a, b) = (plain(&db), db.keyspace("b", Layout::hashed()).unwrap());
    let mut batch = db.batch();
    batch.put(&a, "k", "1").unwrap().delete(&b, "k").unwrap();
    let ops: Vec<_> = batch.iter().collect();
    let (key, value) = (&b"k"[..], &b"1"[..]);
    let put = BatchOp::Put {
        expiry: hedgerow::Expiry::Never,
        keyspace: "plain".to_owned(),
        key,
        value,
    };
    assert_eq!(
        ops,
        [
            put,
            BatchOp::Delete {
                keyspace: "b".to_owned(),
                key
            }
        ]
    );
    batch.clear();
    assert!(batch.is_empty() && batch.bytes() == 0);
    // The keyspace gets other trees meanwhile.
    a.clear().unwrap();
    let keyspace = a.clone();
    let fill = move || {
        batch.put(&keyspace, "x", "1").unwrap();
        batch.commit_and_clear(Durability::Buffered).unwrap();
        batch
    };
    let mut batch = std::thread::scope(|scope| scope.spawn(fill).join().unwrap());
    assert!(batch.is_empty());
    batch.put(&a, "y", "2").unwrap();
    a.clear().unwrap();
    batch.commit_and_clear(Durability::Synced).unwrap();
    batch.put(&b, "z", "3").unwrap();
    db.drop_keyspace("b").unwrap();
    assert_eq!(
        kind(batch.commit_and_clear(Durability::Buffered)),
        ErrorKind::Closed
    );
    assert_eq!(batch.len(), 1);
    assert_eq!(popped(a.first()), Some(b"y".to_vec()));
}

#[test]
fn an_update_that_changes_nothing_writes_nothing() {
    let disk = SimStorage::new(1);
    let db = open(&disk);
    let keyspace = plain(&db);
    keyspace.put("k", "v").unwrap();
    let written = db.stats().log_bytes;
    let same = keyspace.update("k", |old| old.map(<[u8]>::to_vec)).unwrap();
    assert_eq!(same.as_deref(), Some(&b"v"[..]));
    assert_eq!(keyspace.update("absent", |_| None).unwrap(), None);
    let called = AtomicBool::new(false);
    let refused = keyspace.try_update("k", |_| {
        called.store(true, Ordering::Relaxed);
        Err(Box::<dyn std::error::Error>::from("no"))
    });
    assert_eq!(refused.unwrap_err().to_string(), "no");
    assert!(called.load(Ordering::Relaxed));
    assert_eq!(db.stats().log_bytes, written);
    // The value that it found is durable all the same.
    keyspace
        .update_with("k", |old| old.map(<[u8]>::to_vec), Durability::Synced)
        .unwrap();
    let disk = disk.crash();
    let db = open(&disk);
    assert_eq!(plain(&db).get("k").unwrap().as_deref(), Some(&b"v"[..]));
}
