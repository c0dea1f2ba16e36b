//! Commits that must not wait: they are made, or nothing happens.

use std::thread;
use std::time::Duration;

use hedgerow::io::Environment;
use hedgerow::io::sim::SimStorage;
use hedgerow::{Batch, Db, Durability, ErrorKind, Keyspace, Layout};

use crate::concurrency::threaded;
use crate::support::{Contents, builder, contents, key, kind, open, plain, plain_small, value};

fn put(db: &Db, keyspace: &Keyspace, i: u64) -> Batch {
    let mut batch = db.batch();
    batch.put(keyspace, key(i), value(i)).unwrap();
    batch
}

#[test]
fn a_commit_that_need_not_wait_is_made_at_once() {
    let disk = SimStorage::new(1);
    let large = builder(&disk).memory_budget(64 << 20);
    let db = large.log_segment_bytes(1 << 20).open().unwrap();
    let keyspace = plain(&db);
    let began = disk.counters();
    let mut batch = db.batch();
    assert!(batch.try_commit().unwrap(), "an empty batch");
    for i in 0..300 {
        batch.put(&keyspace, key(i), value(i)).unwrap();
        batch.put(&keyspace, key(i + 300), value(i)).unwrap();
        assert!(batch.try_commit().unwrap(), "commit {i}");
        assert!(batch.is_empty());
        assert_eq!(keyspace.get(key(i)).unwrap().unwrap(), value(i));
    }
    assert_eq!(disk.counters().syncs, began.syncs);
    assert_eq!(contents(&keyspace).len(), 600);
    assert_eq!(contents(&plain(&open(&disk.kill()))).len(), 600);
}

#[test]
fn a_commit_that_would_wait_for_memory_or_the_log_changes_nothing() {
    let disk = SimStorage::new(2);
    let environment = Environment::simulated(&disk, 2);
    let clock = environment.clock.clone();
    let db = builder(&disk).environment(environment).open().unwrap();
    let keyspace = plain_small(&db);
    let mut expected = Contents::new();
    let (mut at_once, mut refused, mut delayed) = (0, 0, 0);
    let mut waited = Duration::ZERO;
    for i in 0..8000 {
        let (key, value) = (key(i * 7919 % 8000), vec![i as u8; 300]);
        let mut batch = db.batch();
        batch.put(&keyspace, &key, &value).unwrap();
        let before = clock.now();
        let committed = batch.try_commit().unwrap();
        // Nothing but being held back moves the simulated clock.
        assert_eq!(clock.now(), before);
        if committed {
            at_once += 1;
        } else {
            refused += 1;
            assert_eq!(batch.len(), 1);
            let found = keyspace.get(&key).unwrap();
            assert_eq!(found.as_deref(), None, "write {i}");
            // Both sides of what the engine counts for the write.
            let (sure, possible) = (db.delays_write(300), db.delays_write(3000));
            // A flush within the call takes no simulated time.
            let sure = sure && !db.writes_wait();
            batch.commit(Durability::Buffered).unwrap();
            let moved = clock.now() - before;
            assert!(possible || moved == Duration::ZERO, "write {i}");
            assert!(!sure || moved > Duration::ZERO, "write {i}");
            delayed += u64::from(sure);
            waited += moved;
        }
        expected.insert(key, value);
    }
    assert!(at_once > 0 && refused > 0, "{at_once} and {refused}");
    assert!(delayed > 0 && waited > Duration::ZERO);
    assert_eq!(db.stats().stalls.total(), waited);
    assert_eq!(contents(&keyspace), expected);
    assert_eq!(contents(&plain(&open(&disk.kill()))), expected);
}

#[test]
fn a_commit_behind_one_that_is_under_way_is_not_made_at_once() {
    let disk = SimStorage::new(3);
    let db = threaded(&disk).log_segment_bytes(1 << 20).open().unwrap();
    let keyspace = plain(&db);
    let mut batch = put(&db, &keyspace, 2);
    let stall = disk.stall_write(&value(1));
    thread::scope(|scope| {
        let first = scope.spawn(|| keyspace.put(key(1), value(1)));
        stall.wait_until_reached();
        assert!(!batch.try_commit().unwrap());
        assert_eq!(keyspace.get(key(2)).unwrap(), None);
        drop(stall);
        first.join().unwrap().unwrap();
    });
    assert!(batch.try_commit().unwrap());
    assert_eq!(contents(&keyspace).len(), 2);
}

#[test]
fn a_commit_for_a_cleared_keyspace_is_routed_again() {
    let disk = SimStorage::new(4);
    let db = open(&disk);
    let keyspace = plain(&db);
    let mut batch = put(&db, &keyspace, 1);
    keyspace.clear().unwrap();
    assert!(batch.try_commit().unwrap());
    batch.put(&keyspace, key(2), value(2)).unwrap();
    assert!(batch.try_commit().unwrap());
    assert_eq!(contents(&keyspace).len(), 2);
}

#[test]
fn a_commit_at_once_has_the_errors_of_a_commit() {
    let disk = SimStorage::new(5);
    let db = open(&disk);
    let keyspace = db.keyspace("other", Layout::sorted()).unwrap();
    let mut batch = put(&db, &keyspace, 1);
    let mut closed = put(&db, &plain(&db), 1);
    db.drop_keyspace("other").unwrap();
    assert_eq!(kind(batch.try_commit()), ErrorKind::Closed);
    assert_eq!(kind(batch.commit(Durability::Buffered)), ErrorKind::Closed);
    db.clone().close().unwrap();
    assert_eq!(kind(closed.try_commit()), ErrorKind::Closed);
    assert_eq!(kind(db.wait_for_memory()), ErrorKind::Closed);
    let db = builder(&disk).read_only(true).open().unwrap();
    assert_eq!(kind(db.batch().try_commit()), ErrorKind::Unsupported);
}

#[test]
fn a_writer_can_ask_whether_it_would_wait_for_a_flush() {
    let disk = SimStorage::new(6);
    let db = threaded(&disk).open().unwrap();
    let keyspace = plain_small(&db);
    keyspace.put(key(0), "the flush stops here").unwrap();
    assert!(!db.writes_wait() && !keyspace.writes_wait());
    let stall = disk.stall_write(b"the flush stops here");
    let mut written = 1;
    while !db.writes_wait() {
        keyspace.put(key(written), [7; 4000]).unwrap();
        written += 1;
    }
    assert!(keyspace.writes_wait() && db.delays_write(0));
    assert!(!put(&db, &keyspace, written).try_commit().unwrap());
    drop(stall);
    keyspace.wait_for_memory().unwrap();
    keyspace.put(key(written), value(written)).unwrap();
    keyspace.flush().unwrap();
    db.wait_for_memory().unwrap();
    assert!(!db.writes_wait() && !keyspace.writes_wait());
    assert_eq!(contents(&keyspace).len() as u64, written + 1);
}
