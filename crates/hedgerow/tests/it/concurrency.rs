//! Many threads at once, on the machine's threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use hedgerow::io::sim::SimStorage;
use hedgerow::io::{Background, Environment, OsClock, OsSpawn};
use hedgerow::{Db, Durability, ErrorKind, Layout};

use crate::support::{DIR, contents, key, kind, small, value};

/// A simulated disk under real threads.
pub(crate) fn threaded(disk: &SimStorage) -> hedgerow::Builder {
    let environment = Environment {
        storage: Arc::new(disk.clone()),
        clock: Arc::new(OsClock::new()),
        spawn: Arc::new(OsSpawn),
        background: Background::Threads(2),
    };
    Db::builder(DIR)
        .environment(environment)
        .memory_budget(1 << 20)
        .log_segment_bytes(16 << 10)
}

#[test]
fn update_is_atomic_under_threads() {
    const THREADS: u64 = 4;
    const UPDATES: u64 = 400;
    let disk = SimStorage::new(1);
    let db = threaded(&disk).open().unwrap();
    let counters = db
        .keyspace_with("c", Layout::sorted().hash(2), small())
        .unwrap();
    let count = |old: Option<&[u8]>| {
        let old = old.map_or(0, |bytes| u64::from_be_bytes(bytes.try_into().unwrap()));
        Some((old + 1).to_be_bytes().to_vec())
    };
    thread::scope(|scope| {
        for t in 0..THREADS {
            let counters = counters.clone();
            scope.spawn(move || {
                for i in 0..UPDATES {
                    counters.update(b"all", count).unwrap();
                    counters.update(key(i % 3), count).unwrap();
                    // Other keys, to flush now and then.
                    counters.put(key(1000 + t * UPDATES + i), value(i)).unwrap();
                }
            });
        }
    });
    let total = |key: &[u8]| {
        u64::from_be_bytes(counters.get(key).unwrap().unwrap()[..].try_into().unwrap())
    };
    assert_eq!(total(b"all"), THREADS * UPDATES);
    assert_eq!(
        (0..3).map(|i| total(&key(i))).sum::<u64>(),
        THREADS * UPDATES
    );
}

#[test]
fn update_sees_every_put_that_came_before_it() {
    let disk = SimStorage::new(2);
    let db = threaded(&disk).open().unwrap();
    let keyspace = db.keyspace("k", Layout::sorted()).unwrap();
    // Puts set the upper half, updates add to the lower one. Whatever the order, an update never
    // brings an upper half back that a put has replaced.
    let puts = Arc::new(AtomicU64::new(0));
    thread::scope(|scope| {
        let (writer, last) = (keyspace.clone(), puts.clone());
        scope.spawn(move || {
            for i in 1..=3000u64 {
                writer.put(b"k", (i << 32).to_be_bytes()).unwrap();
                last.store(i, Ordering::SeqCst);
            }
        });
        for _ in 0..2 {
            let (updater, last) = (keyspace.clone(), puts.clone());
            scope.spawn(move || {
                for _ in 0..1500 {
                    let before = last.load(Ordering::SeqCst);
                    let new = updater.update(b"k", |old| {
                        let old = old.map_or(0, |b| u64::from_be_bytes(b.try_into().unwrap()));
                        Some((old + 1).to_be_bytes().to_vec())
                    });
                    let new = u64::from_be_bytes(new.unwrap().unwrap()[..].try_into().unwrap());
                    assert!(new >> 32 >= before);
                }
            });
        }
    });
    let last = u64::from_be_bytes(keyspace.get(b"k").unwrap().unwrap()[..].try_into().unwrap());
    assert_eq!(last >> 32, 3000);
}

#[test]
fn update_does_not_bring_back_what_was_cleared() {
    let disk = SimStorage::new(3);
    let db = threaded(&disk).open().unwrap();
    let keyspace = db.keyspace("k", Layout::sorted()).unwrap();
    keyspace.put(b"k", b"old").unwrap();
    let mut calls = 0;
    let new = keyspace.update(b"k", |old| {
        calls += 1;
        if calls == 1 {
            assert_eq!(old, Some(&b"old"[..]));
            keyspace.clear().unwrap();
        }
        Some([old.unwrap_or(b"none"), b"+"].concat())
    });
    assert_eq!(new.unwrap().as_deref(), Some(&b"none+"[..]));
    assert_eq!(calls, 2);
}

#[test]
fn readers_see_batches_whole_and_numbers_in_order() {
    let disk = SimStorage::new(4);
    let db = threaded(&disk).open().unwrap();
    let keyspace = db
        .keyspace_with("k", Layout::sorted().hash(3), small())
        .unwrap();
    let done = Arc::new(AtomicBool::new(false));
    thread::scope(|scope| {
        for t in 0..2u64 {
            let (db, keyspace, done) = (db.clone(), keyspace.clone(), done.clone());
            scope.spawn(move || {
                for i in 0..600u64 {
                    let mut batch = db.batch();
                    for part in 0..6 {
                        batch
                            .put(&keyspace, key(t * 10 + part), i.to_be_bytes())
                            .unwrap();
                    }
                    batch.commit(Durability::Buffered).unwrap();
                }
                done.store(true, Ordering::SeqCst);
            });
        }
        let mut before = (0, 0, 0);
        while !done.load(Ordering::SeqCst) {
            let snapshot = db.snapshot().unwrap();
            let scanned: Vec<_> = snapshot
                .scan::<&[u8]>(&keyspace, ..)
                .unwrap()
                .map(Result::unwrap)
                .collect();
            for t in 0..2 {
                let values: Vec<_> = (0..6)
                    .map(|p| snapshot.get(&keyspace, key(t * 10 + p)).unwrap())
                    .collect();
                assert!(values.iter().all(|v| v.as_deref() == values[0].as_deref()));
                for (k, v) in &scanned {
                    assert_eq!(snapshot.get(&keyspace, k).unwrap().as_deref(), Some(&v[..]));
                }
            }
            let now: u64 = scanned.iter().map(|(_, v)| number(v)).sum();
            let seen = (snapshot.number(), scanned.len(), now);
            assert!(
                now >= before.2,
                "time went backward: {before:?}, then {seen:?}"
            );
            before = seen;
            let present: Vec<_> = keyspace
                .scan::<&[u8]>(..)
                .unwrap()
                .map(Result::unwrap)
                .collect();
            for half in present.chunk_by(|a, b| a.0[8] == b.0[8]) {
                let values: Vec<_> = half.iter().map(|(k, v)| (k[8], k[9], number(v))).collect();
                let whole = values.iter().all(|v| v.2 == values[0].2);
                assert!(whole, "half a batch: {values:?}");
            }
        }
    });
}

fn number(value: &[u8]) -> u64 {
    u64::from_be_bytes(value.try_into().unwrap())
}

#[test]
fn close_under_writers_keeps_everything_acknowledged() {
    for round in 0..20 {
        let disk = SimStorage::new(round);
        let db = threaded(&disk).open().unwrap();
        let keyspace = db
            .keyspace_with("k", Layout::sorted().hash(2), small())
            .unwrap();
        let acknowledged: Vec<u64> = thread::scope(|scope| {
            let threads: Vec<_> = (0..3u64)
                .map(|t| {
                    let keyspace = keyspace.clone();
                    scope.spawn(move || {
                        for i in 0.. {
                            match keyspace.put(key(t * 100_000 + i), value(i)) {
                                Ok(()) => {}
                                Err(error) => {
                                    assert_eq!(error.kind(), ErrorKind::Closed);
                                    return i;
                                }
                            }
                        }
                        0
                    })
                })
                .collect();
            while db.stats().puts < 200 * (round % 5 + 1) {
                thread::yield_now();
            }
            db.clone().close().unwrap();
            threads.into_iter().map(|t| t.join().unwrap()).collect()
        });
        assert_eq!(kind(keyspace.put(b"k", b"v")), ErrorKind::Closed);
        // A closed database is durable.
        let db = threaded(&disk.crash()).open().unwrap();
        let found = contents(&db.existing_keyspace("k").unwrap());
        for (t, count) in acknowledged.iter().enumerate() {
            for i in 0..*count {
                let key = key(t as u64 * 100_000 + i);
                assert_eq!(found.get(&key), Some(&value(i)), "round {round}");
            }
        }
    }
}

#[test]
fn clear_flush_and_drop_under_writers_leave_a_working_database() {
    let disk = SimStorage::new(5);
    let db = threaded(&disk).open().unwrap();
    let keyspace = db
        .keyspace_with("k", Layout::sorted().hash(3), small())
        .unwrap();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for t in 0..2u64 {
            let (keyspace, done) = (keyspace.clone(), &done);
            scope.spawn(move || {
                for i in 0..6000 {
                    keyspace.put(key(t * 10_000 + i), value(i)).unwrap();
                }
                done.store(true, Ordering::SeqCst);
            });
        }
        let (flusher, done_there, db_there) = (keyspace.clone(), &done, db.clone());
        scope.spawn(move || {
            while !done_there.load(Ordering::SeqCst) {
                flusher.flush().unwrap();
                db_there.flush().unwrap();
            }
        });
        while !done.load(Ordering::SeqCst) {
            keyspace.clear().unwrap();
            let other = db
                .keyspace_with("other", Layout::sorted(), small())
                .unwrap();
            other.put(b"k", b"v").unwrap();
            db.drop_keyspace("other").unwrap();
        }
    });
    keyspace.clear().unwrap();
    // Sealed and active memtables are still counted right: writes are neither held back nor flushed
    // one by one.
    let before = db.stats().flushes;
    for i in 0..400 {
        keyspace.put(key(i), value(i)).unwrap();
    }
    keyspace.wait_until_merged().unwrap();
    let flushes = db.stats().flushes - before;
    assert!(flushes < 60, "{flushes} flushes of 400 small writes");
    assert_eq!(contents(&keyspace).len(), 400);
    assert_eq!(db.stats().panics, 0);
}

#[test]
fn last_handle_dropped_during_background_work_closes_the_database() {
    for round in 0..30u64 {
        let disk = SimStorage::new(round);
        {
            let db = threaded(&disk).open().unwrap();
            let keyspace = db.keyspace_with("k", Layout::sorted(), small()).unwrap();
            for i in 0..300 + 7 * round {
                keyspace.put(key(i), value(i)).unwrap();
            }
        }
        // Closed when the drop returns: not locked any more, and nothing lost.
        let db = threaded(&disk).open().unwrap();
        let found = contents(&db.existing_keyspace("k").unwrap());
        assert_eq!(found.len() as u64, 300 + 7 * round);
        assert_eq!(db.stats().panics, 0);
    }
}

/// A group holds 64 runs. Tiny memtables are flushed faster than merges empty level 0: a flush that
/// made a 65th run failed as `Corruption`.
#[test]
fn flushes_wait_for_room_in_level_0() {
    const ENTRIES: u64 = 40_000;
    let disk = SimStorage::new(4);
    let db = threaded(&disk).memory_budget(64 << 20).open().unwrap();
    let tiny = db.keyspace_with("k", Layout::sorted(), small()).unwrap();
    let mut i = 0;
    while i < ENTRIES {
        let mut batch = db.batch();
        for _ in 0..20 {
            batch.put(&tiny, key(i), value(i)).unwrap();
            i += 1;
        }
        batch.commit(Durability::Buffered).unwrap();
    }
    tiny.flush().unwrap();
    tiny.wait_until_merged().unwrap();
    assert_eq!(contents(&tiny).len() as u64, ENTRIES);
    db.verify().unwrap();
}

/// A get found the first of two writes of a batch, waited for the batch, and returned that one.
#[test]
fn a_get_sees_no_part_of_a_batch() {
    let disk = SimStorage::new(9);
    let db = threaded(&disk).open().unwrap();
    let keyspace = db.keyspace("k", Layout::sorted()).unwrap();
    keyspace.put("k", "whole").unwrap();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let found = [
                        keyspace.get("k").unwrap(),
                        keyspace.multi_get(&["k"]).unwrap().remove(0),
                    ];
                    assert_eq!(found.map(Option::unwrap), ["whole", "whole"]);
                }
            });
        }
        for i in 0..3000 {
            let mut batch = db.batch();
            batch.put(&keyspace, "k", "part").unwrap();
            for j in 0..8 {
                batch.put(&keyspace, key(j), value(i)).unwrap();
            }
            batch.put(&keyspace, "k", "whole").unwrap();
            batch.commit(Durability::Buffered).unwrap();
        }
        is_over.store(true, Ordering::Relaxed);
    });
}
