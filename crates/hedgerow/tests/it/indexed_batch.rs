//! Indexed batches: reads that see the batch's own writes.

use std::ops::Bound;

use hedgerow::io::sim::SimStorage;
use hedgerow::{Db, Durability, ErrorKind, IndexedBatch, Keyspace, Layout, PrefixRule, Result};

use crate::support::{
    Contents, contents, contents_unordered, key, kind, open, plain, small, value,
};

/// A keyspace of each order and partitioning, with some entries in tables and some in the memtable.
fn keyspaces(db: &Db) -> Vec<Keyspace> {
    let layouts = [
        ("one", Layout::sorted()),
        ("hashes", Layout::sorted().hash(3)),
        ("ranges", Layout::sorted().range([key(5), key(11)])),
        ("prefixes", Layout::semi_sorted(PrefixRule::Delimiter(b'-'))),
        ("hashed", Layout::hashed().hash(2)),
    ];
    let made = layouts.map(|(name, layout)| {
        let keyspace = db.keyspace_with(name, layout, small()).unwrap();
        for i in (0..16).step_by(2) {
            keyspace.put(key(i), value(i)).unwrap();
        }
        keyspace.flush().unwrap();
        keyspace.put(key(3), "three").unwrap();
        keyspace
    });
    made.into()
}

fn is_sorted(keyspace: &Keyspace) -> bool {
    keyspace.layout().order == hedgerow::KeyOrder::Sorted
}

/// Everything in a batch, read in every way there is.
fn all(batch: &mut IndexedBatch, keyspace: &Keyspace) -> Contents {
    let scan = batch.scan_unordered(keyspace).unwrap();
    let pairs = scan.map(Result::unwrap);
    let found: Contents = pairs.map(|(k, v)| (k.to_vec(), v.to_vec())).collect();
    let keys: Vec<_> = (0..20).map(key).collect();
    let together = batch.multi_get(keyspace, &keys).unwrap();
    for (key, together) in keys.iter().zip(together) {
        let expected = found.get(key).map(Vec::as_slice);
        assert_eq!(together.as_deref(), expected, "multi_get of {key:?}");
        assert_eq!(batch.get(keyspace, key).unwrap().as_deref(), expected);
        assert_eq!(
            batch.contains_key(keyspace, key).unwrap(),
            expected.is_some()
        );
    }
    if !is_sorted(keyspace) {
        return found;
    }
    let forward: Vec<_> = batch
        .scan_all(keyspace)
        .unwrap()
        .map(Result::unwrap)
        .collect();
    let mut backward: Vec<_> = batch
        .scan_all(keyspace)
        .unwrap()
        .rev()
        .map(Result::unwrap)
        .collect();
    backward.reverse();
    assert_eq!(forward, backward);
    assert_eq!(forward.len(), found.len());
    let mut cursor = batch.cursor(keyspace).unwrap();
    // Forth and back over each pair of neighbours.
    let mut there = cursor.seek_first().unwrap();
    for (key, value) in &forward {
        assert!(there);
        assert_eq!(cursor.key(), Some(&key[..]));
        assert_eq!(cursor.value().unwrap(), Some(&value[..]));
        if cursor.prev().unwrap() {
            assert!(cursor.next().unwrap());
            assert_eq!(cursor.key(), Some(&key[..]));
        } else {
            assert!(cursor.seek_first().unwrap());
        }
        there = cursor.next().unwrap();
    }
    assert!(!there);
    found
}

#[test]
fn reads_see_the_writes_of_the_batch() {
    let disk = SimStorage::new(1);
    let db = open(&disk);
    for keyspace in keyspaces(&db) {
        let mut batch = db.indexed_batch().unwrap();
        let mut expected = contents_unordered(&keyspace);
        assert_eq!(all(&mut batch, &keyspace), expected);
        for i in [1, 4, 5, 4, 18] {
            batch.put(&keyspace, key(i), "mine").unwrap();
            expected.insert(key(i), b"mine".to_vec());
            assert_eq!(all(&mut batch, &keyspace), expected);
        }
        for i in [4, 6, 19] {
            batch.delete(&keyspace, key(i)).unwrap();
            expected.remove(&key(i));
            assert_eq!(all(&mut batch, &keyspace), expected);
        }
        if is_sorted(&keyspace) {
            batch.delete_range(&keyspace, key(4)..key(13)).unwrap();
            expected.retain(|it, _| !(key(4)..key(13)).contains(it));
            assert_eq!(all(&mut batch, &keyspace), expected);
            batch.put(&keyspace, key(8), "after").unwrap();
            expected.insert(key(8), b"after".to_vec());
            assert_eq!(all(&mut batch, &keyspace), expected);
            batch.delete_range(&keyspace, ..key(2)).unwrap();
            expected.retain(|it, _| *it >= key(2));
            assert_eq!(all(&mut batch, &keyspace), expected);
        } else if keyspace.name() == "prefixes" {
            batch.delete_prefix(&keyspace, "key").unwrap();
            batch.put(&keyspace, key(8), "after").unwrap();
            expected = [(key(8), b"after".to_vec())].into();
            assert_eq!(all(&mut batch, &keyspace), expected);
        }
        batch.commit(Durability::Buffered).unwrap();
        assert_eq!(contents_unordered(&keyspace), expected);
    }
}

/// Few operations are compared one by one, more are indexed.
#[test]
fn many_operations_read_as_few_do() {
    let disk = SimStorage::new(1);
    let db = open(&disk);
    let two = [plain(&db), db.keyspace("other", Layout::sorted()).unwrap()];
    let mut batch = db.indexed_batch().unwrap();
    let mut expected = [Contents::new(), Contents::new()];
    for i in 0..150 {
        let (at, key) = (i as usize % 2, key(i * 7 % 19));
        if i % 5 == 0 {
            batch.delete(&two[at], &key).unwrap();
            expected[at].remove(&key);
        } else {
            batch.put(&two[at], &key, value(i)).unwrap();
            expected[at].insert(key, value(i));
        }
        for (keyspace, expected) in two.iter().zip(&expected) {
            assert_eq!(all(&mut batch, keyspace), *expected, "operation {i}");
        }
    }
}

#[test]
fn others_neither_see_it_nor_are_seen() {
    let disk = SimStorage::new(1);
    let db = open(&disk);
    let plain = plain(&db);
    plain.put("a", "1").unwrap();
    let mut batch = db.indexed_batch().unwrap();
    batch.put(&plain, "b", "2").unwrap();
    plain.put("c", "3").unwrap();
    plain.delete("a").unwrap();
    plain.flush().unwrap();
    let found: Vec<_> = batch
        .scan_all(&plain)
        .unwrap()
        .map(|it| it.unwrap().0)
        .collect();
    assert_eq!(found, ["a", "b"]);
    assert_eq!(plain.get("b").unwrap(), None);
    // Its commit overwrites: nothing is checked.
    batch.put(&plain, "a", "mine").unwrap();
    batch.commit(Durability::Buffered).unwrap();
    assert_eq!(contents(&plain).len(), 3);
    assert_eq!(plain.get("a").unwrap().as_deref(), Some(&b"mine"[..]));
}

#[test]
fn a_batch_over_the_present_sees_others_until_it_has_a_snapshot() {
    let disk = SimStorage::new(1);
    let db = open(&disk);
    for keyspace in keyspaces(&db) {
        let mut batch = db.present_batch();
        batch.put(&keyspace, key(1), "mine").unwrap();
        keyspace.put(key(1), "theirs").unwrap();
        keyspace.put(key(2), "theirs").unwrap();
        let mut expected = contents_unordered(&keyspace);
        expected.insert(key(1), b"mine".to_vec());
        for (key, value) in &expected {
            assert_eq!(
                batch.get(&keyspace, key).unwrap().as_deref(),
                Some(&value[..])
            );
        }
        assert_eq!(all(&mut batch, &keyspace), expected);
        keyspace.delete(key(2)).unwrap();
        assert_eq!(all(&mut batch, &keyspace), expected);
    }
    let mut batch = db.present_batch();
    let other = plain(&open(&SimStorage::new(2)));
    assert_eq!(kind(batch.get(&other, "a")), ErrorKind::InvalidArgument);
    let plain = plain(&db);
    db.close().unwrap();
    assert_eq!(kind(batch.get(&plain, "a")), ErrorKind::Closed);
    assert_eq!(kind(batch.scan_all(&plain).map(drop)), ErrorKind::Closed);
}

#[test]
fn a_scan_sees_the_batch_as_it_was() {
    let disk = SimStorage::new(1);
    let db = open(&disk);
    let plain = plain(&db);
    for i in 0..4 {
        plain.put(key(i), "old").unwrap();
    }
    let mut batch = db.indexed_batch().unwrap();
    batch.put(&plain, key(9), "mine").unwrap();
    let (scan, mut cursor) = (
        batch.scan_all(&plain).unwrap(),
        batch.cursor(&plain).unwrap(),
    );
    let before = batch.savepoint();
    batch.delete_range::<&[u8]>(&plain, ..).unwrap();
    batch.put(&plain, key(2), "mine").unwrap();
    assert_eq!(all(&mut batch, &plain).len(), 1);
    batch.roll_back_to(before).unwrap();
    batch.put(&plain, key(5), "mine").unwrap();
    assert_eq!(all(&mut batch, &plain).len(), 6);
    assert_eq!(
        scan.map(Result::unwrap).filter(|(_, v)| v == "old").count(),
        4
    );
    assert!(cursor.seek_last().unwrap());
    assert_eq!(cursor.key(), Some(&key(9)[..]));
    assert!(cursor.prev().unwrap());
    assert_eq!(cursor.key(), Some(&key(3)[..]));
}

#[test]
fn savepoints_are_rolled_back_to_again_and_again() {
    let disk = SimStorage::new(1);
    let db = open(&disk);
    let (plain, other) = (
        plain(&db),
        db.keyspace("other", Layout::sorted().hash(2)).unwrap(),
    );
    let mut batch = db.indexed_batch().unwrap();
    let empty = batch.savepoint();
    batch.put(&plain, "a", "1").unwrap();
    let one = batch.savepoint();
    for round in 0..3 {
        batch.put(&other, key(round), "x").unwrap();
        batch.delete(&plain, "a").unwrap();
        if round == 1 {
            assert_eq!(batch.get(&plain, "a").unwrap(), None);
        }
        let inner = batch.savepoint();
        batch.roll_back_to(one).unwrap();
        assert_eq!(batch.batch().len(), 1);
        assert_eq!(batch.get(&plain, "a").unwrap().as_deref(), Some(&b"1"[..]));
        assert_eq!(batch.first(&other).unwrap(), None);
        assert_eq!(kind(batch.roll_back_to(inner)), ErrorKind::InvalidArgument);
    }
    batch.put(&other, "kept", "y").unwrap();
    let kept = batch.savepoint();
    batch.roll_back_to(kept).unwrap();
    batch.commit(Durability::Synced).unwrap();
    assert_eq!((contents(&plain).len(), contents(&other).len()), (1, 1));

    let mut batch = db.indexed_batch().unwrap();
    batch.put(&plain, "b", "2").unwrap();
    assert_eq!(kind(batch.roll_back_to(kept)), ErrorKind::InvalidArgument);
    let _ = empty;
}

#[test]
fn a_batch_out_of_memory_stays_as_it_was() {
    let disk = SimStorage::new(1);
    let db = open(&disk);
    let plain = plain(&db);
    let mut batch = db.indexed_batch().unwrap();
    batch.set_memory_max(20 << 10);
    let mut put = 0;
    let error = loop {
        match batch.put(&plain, key(put), [7; 500]) {
            Ok(_) => put += 1,
            Err(error) => break error,
        }
        assert!(batch.get(&plain, key(put - 1)).unwrap().is_some());
    };
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("at most 20480 bytes"), "{error}");
    assert!((5..40).contains(&put), "{put} puts");
    assert_eq!(batch.batch().len() as u64, put);
    assert_eq!(batch.get(&plain, key(put)).unwrap(), None);
    batch.commit(Durability::Buffered).unwrap();
    assert_eq!(contents(&plain).len() as u64, put);
}

#[test]
fn bounds_and_keyspaces_are_checked() {
    let disk = SimStorage::new(1);
    let db = open(&disk);
    let plain = plain(&db);
    let mut batch = db.indexed_batch().unwrap();
    let late = db.keyspace("late", Layout::sorted()).unwrap();
    assert_eq!(kind(batch.get(&late, "a")), ErrorKind::InvalidArgument);
    batch.put(&late, "a", "1").unwrap();
    let long = vec![0; hedgerow::KEY_BYTES_MAX + 1];
    assert_eq!(kind(batch.get(&plain, &long)), ErrorKind::InvalidArgument);
    assert_eq!(
        kind(batch.put(&plain, &long, "").map(drop)),
        ErrorKind::InvalidArgument
    );
    let range = (Bound::Included(&long), Bound::Unbounded);
    assert_eq!(
        kind(batch.scan::<Vec<u8>>(&plain, range).map(drop)),
        ErrorKind::InvalidArgument
    );
    let hashed = db.keyspace("hashed", Layout::hashed()).unwrap();
    let mut batch = db.indexed_batch().unwrap();
    batch.put(&hashed, "a", "1").unwrap();
    assert_eq!(
        kind(batch.cursor(&hashed).map(drop)),
        ErrorKind::InvalidArgument
    );
    assert_eq!(
        kind(batch.delete_range(&hashed, "a"..).map(drop)),
        ErrorKind::Unsupported
    );
}
