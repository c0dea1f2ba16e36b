//! A level 0 that merging does not keep up with.

use hedgerow::io::sim::SimStorage;

use crate::support::{Contents, builder, contents, key, open, plain, value};

#[test]
fn a_database_killed_after_each_open_opens_however_often() {
    let mut disk = SimStorage::new(1);
    let mut expected = Contents::new();
    for i in 0..200 {
        let db = open(&disk);
        let keyspace = plain(&db);
        assert_eq!(contents(&keyspace), expected, "after {i} kills");
        keyspace.put(key(i % 50), value(i)).unwrap();
        expected.insert(key(i % 50), value(i));
        // Nothing in the background has had a turn.
        disk = disk.kill();
    }
    let db = open(&disk);
    plain(&db).wait_until_merged().unwrap();
    assert_eq!(contents(&plain(&db)), expected);
    db.verify().unwrap();
}

/// A log of hundreds of the memtables that a smaller budget has.
#[test]
fn a_long_log_is_recovered_within_a_small_budget() {
    const ENTRIES: u64 = 40_000;
    let large = SimStorage::new(2);
    let db = builder(&large).memory_budget(512 << 20).open().unwrap();
    let keyspace = plain(&db);
    // They do not compress.
    let word = |i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
    let long = |i: u64| (50 * i..50 * (i + 1)).flat_map(word).collect::<Vec<u8>>();
    for i in 0..ENTRIES {
        keyspace.put(key(i * 7919 % ENTRIES), long(i)).unwrap();
    }
    let log_bytes = large.counters().written_bytes;
    let disk = large.kill();
    let db = builder(&disk).memory_budget(1 << 20).open().unwrap();
    let written_bytes = disk.counters().written_bytes;
    println!("{log_bytes} bytes of log, {written_bytes} written");
    assert!(written_bytes < 4 * log_bytes, "{written_bytes}");
    let keyspace = plain(&db);
    for i in 0..ENTRIES {
        let found = keyspace.get(key(i * 7919 % ENTRIES)).unwrap();
        assert_eq!(found.as_deref(), Some(&long(i)[..]));
    }
    db.verify().unwrap();
}
