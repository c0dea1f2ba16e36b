//! Counts of operations on a keyspace: the next process knows them, and so does one beside it.

use hedgerow::advisor::Workload;
use hedgerow::io::sim::SimStorage;
use hedgerow::{Keyspace, Layout, Operations};

use crate::support::{builder, key, open, plain_small};

/// Writes 200 keys five times and deletes a tenth of them. Makes 300 gets, a third of absent keys,
/// and 50 scans of four entries, three steps each.
fn ask(keyspace: &Keyspace) {
    for i in 0..1000 {
        keyspace.put(key(i % 200), [b'v'; 40]).unwrap();
    }
    (0..100).for_each(|i| keyspace.delete(key(i % 20)).unwrap());
    for i in 0..300 {
        let at = if i % 3 == 0 { 1000 } else { 100 };
        keyspace.get(key(at + i % 100)).unwrap();
    }
    for i in 0..50 {
        assert_eq!(keyspace.scan(key(20 + i)..).unwrap().take(4).count(), 4);
    }
}

fn counts(operations: &Operations) -> [u64; 6] {
    [
        operations.gets_found,
        operations.gets_missed,
        operations.seeks,
        operations.nexts,
        operations.puts,
        operations.deletes,
    ]
}

#[test]
fn operations_are_remembered_by_the_manifest() {
    let disk = SimStorage::new(1);
    let db = open(&disk);
    let keyspace = plain_small(&db);
    let other = db.keyspace("other", Layout::sorted()).unwrap();
    other.put("a", "b").unwrap();
    ask(&keyspace);
    let asked = counts(&keyspace.stats().operations);
    assert_eq!(asked, [200, 100, 50, 150, 1000, 100]);
    assert_eq!(other.stats().operations.puts, 1);
    assert_eq!((db.stats().puts, db.stats().gets), (1001, 300));
    keyspace.compact::<&[u8]>(..).unwrap();
    // The last put of each key is left, and nothing of deleted keys. A memtable also drops a
    // tombstone of a key that was deleted again and again.
    let replaced = keyspace.stats().operations.replaced;
    assert!((820..=900).contains(&replaced), "{replaced}");
    // A flush notes them: beside the writer, and after its end without a close.
    keyspace.put(key(300), "v").unwrap();
    keyspace.flush().unwrap();
    for disk in [disk.clone(), disk.kill()] {
        let beside = builder(&disk).read_only(true).open().unwrap();
        let beside = beside.existing_keyspace("plain").unwrap();
        let operations = beside.stats().operations;
        assert_eq!(counts(&operations), [200, 100, 50, 150, 1001, 100]);
        assert_eq!(operations.replaced, replaced);
        let workload = Workload::measured(&beside.stats()).unwrap();
        let mix = workload.mix;
        assert_eq!(
            (mix.get, mix.miss, mix.scan),
            (2.0 * mix.miss, 2.0 * mix.scan, mix.scan)
        );
        assert_eq!((workload.scan_entries, workload.key_bytes), (3.0, 10.0));
        assert!((workload.overwrites - replaced as f64 / 1101.0).abs() < 1e-9);
        assert!((workload.value_bytes - 40.0).abs() < 1.0, "{workload:?}");
    }

    // Closing notes those that no flush came after; the next process counts on.
    keyspace.get(key(1)).unwrap();
    drop((keyspace, other));
    db.close().unwrap();
    let db = open(&disk);
    let keyspace = db.existing_keyspace("plain").unwrap();
    assert_eq!(
        counts(&keyspace.stats().operations),
        [200, 101, 50, 150, 1001, 100]
    );
    keyspace.get(key(150)).unwrap();
    assert_eq!(keyspace.stats().operations.gets_found, 201);
    // Counts of the whole database begin when it is opened, and those of a keyspace go with it.
    db.drop_keyspace("plain").unwrap();
    assert_eq!((db.stats().gets, db.stats().puts), (1, 0));
}

#[test]
fn a_keyspace_without_tables_or_operations_has_no_workload() {
    let disk = SimStorage::new(1);
    let keyspace = open(&disk).keyspace("plain", Layout::sorted()).unwrap();
    let why = |keyspace: &Keyspace| {
        Workload::measured(&keyspace.stats())
            .unwrap_err()
            .to_string()
    };
    assert!(why(&keyspace).contains("expected counted operations on `plain`"));
    keyspace.put("a", "b").unwrap();
    assert!(why(&keyspace).contains("expected entries in the tables of `plain`"));
}
