//! A level 0 that merging does not keep up with.

use hedgerow::io::sim::SimStorage;
use hedgerow::{Db, Design, Keyspace, Layout};

use crate::support::{Contents, builder, key, open, plain, value};

/// Opens a database again and again and checks all keys. Each time its log has a delete and a put
/// that is too large for recovery to leave it in the log.
fn kill_after_each_open(layout: Layout, design: &str) {
    let design: Design = design.parse().unwrap();
    let mut disk = SimStorage::new(1);
    let mut expected = Contents::new();
    let keyspace = |db: &Db| {
        let keyspace = db.keyspace_with("k", layout.clone(), design.clone());
        keyspace.unwrap()
    };
    let check = |keyspace: &Keyspace, expected: &Contents, i| {
        for key in (0..50).map(key) {
            let found = keyspace.get(&key).unwrap();
            let found = found.as_deref();
            assert_eq!(
                found,
                expected.get(&key).map(Vec::as_slice),
                "{design}, {i} kills"
            );
        }
    };
    let mut runs_max = 0;
    for i in 0..200 {
        let db = open(&disk);
        let keyspace = keyspace(&db);
        check(&keyspace, &expected, i);
        let level0 = &db.stats().keyspaces[0].levels[0];
        runs_max = runs_max.max(level0.runs);
        let value = [value(i), vec![i as u8; 7_000]].concat();
        keyspace.put(key(i % 50), &value).unwrap();
        expected.insert(key(i % 50), value);
        keyspace.delete(key(i * 7 % 50)).unwrap();
        expected.remove(&key(i * 7 % 50));
        // Nothing in the background has had a turn.
        disk = disk.kill();
    }
    // Recovery joins two runs where a group has 64.
    assert!(runs_max >= 63, "{design}: {runs_max} runs");
    let db = open(&disk);
    keyspace(&db).wait_until_merged().unwrap();
    check(&keyspace(&db), &expected, 200);
    db.verify().unwrap();
}

#[test]
fn a_database_killed_after_each_open_opens_however_often() {
    kill_after_each_open(Layout::sorted(), "");
    for filter in ["mlcf:12", "mlcf:12,unique"] {
        let design = format!("policy = tiering:8\nfilter = {filter}");
        kill_after_each_open(Layout::sorted().hash(3), &design);
    }
    for policy in ["tiering:8", "trie:8"] {
        let design = format!("policy = {policy}\nfilter = cluster:12\ntable = htable");
        kill_after_each_open(Layout::hashed(), &design);
    }
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
