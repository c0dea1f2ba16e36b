//! Range deletes: what they delete, for whom, and what they cost.

use std::collections::BTreeSet;
use std::ops::Bound;

use hedgerow::io::Environment;
use hedgerow::io::sim::SimStorage;
use hedgerow::{
    Db, Design, Durability, EntryKind, ErrorKind, FilterSpec, Keyspace, KeyspaceStats, Layout,
    MemoryAnswer, PrefixRule, Residency,
};

use crate::support::{DIR, contents, contents_unordered, key, kind, open, plain, small, value};

type Range<'a> = (Bound<&'a str>, Bound<&'a str>);

/// A keyspace with the keys `a` to `j`, in a state that the name tells.
fn letters(db: &Db, state: &str) -> Keyspace {
    let keyspace = db.keyspace(state, Layout::sorted()).unwrap();
    for letter in 'a'..='j' {
        keyspace.put(letter.to_string(), "old").unwrap();
    }
    match state {
        "in a memtable" => {}
        "in a table" => keyspace.flush().unwrap(),
        _ => keyspace.compact::<&str>(..).unwrap(),
    }
    keyspace
}

fn left(keyspace: &Keyspace) -> String {
    let keys = contents(keyspace).into_keys();
    keys.map(|key| String::from_utf8(key).unwrap()).collect()
}

const STATES: [&str; 3] = ["in a memtable", "in a table", "at the bottom"];

#[test]
fn a_range_deletes_the_keys_between_its_bounds_wherever_they_are() {
    use Bound::{Excluded, Included, Unbounded};
    let cases: [(Range<'_>, &str); 10] = [
        ((Included("c"), Excluded("f")), "abfghij"),
        ((Included("c"), Included("f")), "abghij"),
        ((Excluded("c"), Included("f")), "abcghij"),
        ((Unbounded, Excluded("c")), "cdefghij"),
        ((Included("h"), Unbounded), "abcdefg"),
        ((Unbounded, Unbounded), ""),
        ((Included("f"), Excluded("f")), "abcdefghij"),
        ((Included("g"), Excluded("f")), "abcdefghij"),
        ((Excluded("f"), Excluded("f0")), "abcdefghij"),
        ((Unbounded, Excluded("")), "abcdefghij"),
    ];
    for state in STATES {
        for (range, expected) in cases {
            let disk = SimStorage::new(1);
            let db = open(&disk);
            let keyspace = letters(&db, state);
            keyspace.delete_range::<&str>(range).unwrap();
            assert_eq!(left(&keyspace), expected, "{range:?} {state}");
            keyspace.flush().unwrap();
            assert_eq!(left(&keyspace), expected, "{range:?} {state}, flushed");
            keyspace.compact::<&str>(..).unwrap();
            assert_eq!(left(&keyspace), expected, "{range:?} {state}, merged");
            db.verify().unwrap();
            // At the bottom there is nothing to hide.
            assert_eq!(ranges_in_tables(&keyspace.stats()), 0);
        }
    }
}

fn ranges_in_tables(stats: &KeyspaceStats) -> u64 {
    stats
        .levels
        .iter()
        .map(|level| level.range_tombstones)
        .sum()
}

#[test]
fn a_prefix_deletes_its_keys() {
    let disk = SimStorage::new(1);
    let db = open(&disk);
    let keyspace = plain(&db);
    for key in ["a", "ab", "abc", "b", "\u{7f}"] {
        keyspace.put(key, "").unwrap();
    }
    keyspace.put([0xFF, 0xFF], "").unwrap();
    keyspace.delete_prefix("ab").unwrap();
    assert_eq!(contents(&keyspace).len(), 4);
    keyspace.delete_prefix([0xFF]).unwrap();
    assert_eq!(left(&keyspace), "ab\u{7f}");
    keyspace.delete_prefix("").unwrap();
    assert_eq!(left(&keyspace), "");
}

#[test]
fn later_writes_are_not_deleted_and_the_order_within_a_batch_decides() {
    for state in STATES {
        let disk = SimStorage::new(1);
        let db = open(&disk);
        let keyspace = letters(&db, state);
        let mut batch = db.batch();
        batch.put(&keyspace, "c", "before").unwrap();
        batch.delete_range(&keyspace, "b".."g").unwrap();
        batch.put(&keyspace, "d", "after").unwrap();
        batch.delete_prefix(&keyspace, "i").unwrap();
        assert_eq!(batch.len(), 4);
        batch.commit(Durability::Buffered).unwrap();
        keyspace.put("e", "later").unwrap();
        for step in 0..3 {
            assert_eq!(left(&keyspace), "adeghj", "{state}, step {step}");
            assert_eq!(keyspace.get("d").unwrap().unwrap(), "after");
            match step {
                0 => keyspace.flush().unwrap(),
                _ => keyspace.compact::<&str>(..).unwrap(),
            }
        }
    }
}

#[test]
fn other_key_orders_name_what_they_have_instead() {
    let disk = SimStorage::new(1);
    let db = open(&disk);
    let hashed = db.keyspace("hashed", Layout::hashed()).unwrap();
    let prefixes = Layout::semi_sorted(PrefixRule::Delimiter(b'/'));
    let prefixes = db.keyspace("prefixes", prefixes).unwrap();
    for error in [
        hashed.delete_range("a".."b").unwrap_err(),
        hashed.delete_prefix("a").unwrap_err(),
        db.batch().delete_range(&hashed, "a".."b").unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("`clear`"), "{error}");
    }
    let error = prefixes.delete_range("a".."b").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("`delete_prefix`"), "{error}");
    assert_eq!(
        kind(prefixes.delete_prefix("a/b")),
        ErrorKind::InvalidArgument
    );
    db.close().unwrap();
    assert_eq!(kind(prefixes.delete_prefix("a")), ErrorKind::Closed);
}

#[test]
fn a_prefix_of_a_semi_sorted_keyspace_is_deleted_alone() {
    for partitions in [1, 4] {
        let disk = SimStorage::new(1);
        let db = open(&disk);
        let layout = Layout::semi_sorted(PrefixRule::Delimiter(b'/')).hash(partitions);
        let keyspace = db.keyspace_with("prefixes", layout, small()).unwrap();
        let name = |prefix: u64, suffix: u64| format!("{prefix}/{suffix:03}");
        let mut expected = BTreeSet::new();
        for prefix in 0..20 {
            for suffix in 0..30 {
                keyspace.put(name(prefix, suffix), value(suffix)).unwrap();
                expected.insert(name(prefix, suffix).into_bytes());
            }
        }
        let check = |expected: &BTreeSet<Vec<u8>>, step: &str| {
            let found: BTreeSet<_> = contents_unordered(&keyspace).into_keys().collect();
            assert_eq!(found, *expected, "{step}");
            for (prefix, count) in [(3, 1), (4, 30)] {
                let scan = || keyspace.scan_prefix(prefix.to_string()).unwrap();
                assert_eq!(scan().count(), count, "{step}");
                assert_eq!(scan().rev().count(), count, "{step}");
            }
            assert_eq!(keyspace.get(name(3, 9)).unwrap(), None);
            assert!(keyspace.contains_key(name(3, 7)).unwrap());
        };
        keyspace.delete_prefix("3").unwrap();
        keyspace.put(name(3, 7), "new").unwrap();
        expected.retain(|key| !key.starts_with(b"3/") || key.ends_with(b"/007"));
        check(&expected, "in the memtable");
        keyspace.flush().unwrap();
        check(&expected, "flushed");
        keyspace
            .compact::<&str>(..)
            .unwrap_or_else(|error| panic!("{error}"));
        check(&expected, "merged");
        assert_eq!(ranges_in_tables(&keyspace.stats()), 0);
        db.verify().unwrap();
    }
}

#[test]
fn a_snapshot_reads_what_a_range_deleted_later() {
    for state in STATES {
        let disk = SimStorage::new(1);
        let db = open(&disk);
        let keyspace = letters(&db, state);
        let before = db.snapshot().unwrap();
        keyspace.delete_range("b".."h").unwrap();
        let between = db.snapshot().unwrap();
        keyspace.put("c", "new").unwrap();
        keyspace.delete_range("a".."d").unwrap();
        let read = |snapshot: &hedgerow::Snapshot| {
            let forward = snapshot.scan::<&str>(&keyspace, ..).unwrap();
            let mut forward: Vec<_> = forward.map(|item| item.unwrap().0).collect();
            let backward = snapshot.scan::<&str>(&keyspace, ..).unwrap().rev();
            let backward: Vec<_> = backward.map(|item| item.unwrap().0).collect();
            forward.reverse();
            assert_eq!(forward, backward);
            forward.len()
        };
        for step in 0..3 {
            assert_eq!(read(&before), 10, "{state}, step {step}");
            assert_eq!(read(&between), 4, "{state}, step {step}");
            assert_eq!(left(&keyspace), "hij", "{state}, step {step}");
            assert!(before.contains_key(&keyspace, "c").unwrap());
            assert!(!between.contains_key(&keyspace, "c").unwrap());
            match step {
                0 => keyspace.flush().unwrap(),
                _ => keyspace.compact::<&str>(..).unwrap(),
            }
            db.verify().unwrap();
        }
        assert!(ranges_in_tables(&keyspace.stats()) > 0);
        drop((before, between));
        keyspace.compact::<&str>(..).unwrap();
        assert_eq!(left(&keyspace), "hij");
        assert_eq!(ranges_in_tables(&keyspace.stats()), 0);
    }
}

/// Many keys in several tables of the last level.
fn filled(db: &Db, layout: Layout, count: u64) -> Keyspace {
    let keyspace = db.keyspace_with("filled", layout, small()).unwrap();
    let entries = (0..count).map(|i| Ok::<_, hedgerow::Error>((key(i), value(i))));
    keyspace.bulk_load(entries).unwrap();
    keyspace
}

fn tables(stats: &KeyspaceStats) -> usize {
    stats.levels.iter().map(|level| level.tables).sum()
}

#[test]
fn tables_inside_a_range_are_dropped_unread() {
    let disk = SimStorage::new(1);
    let db = open(&disk);
    let keyspace = filled(&db, Layout::sorted(), 10_000);
    keyspace.wait_until_merged().unwrap();
    let before = keyspace.stats();
    let merged = db.stats().merge_read_bytes;
    keyspace.delete_range(key(100)..key(9_900)).unwrap();
    keyspace.flush().unwrap();
    keyspace.wait_until_merged().unwrap();
    let after = keyspace.stats();
    assert!(tables(&before) > 50, "{}", tables(&before));
    // Those at the ends, and that of the range itself.
    assert!(tables(&after) <= 6, "{}", keyspace.shape());
    let bytes = |stats: &KeyspaceStats| stats.levels.iter().map(|it| it.bytes).sum::<u64>();
    assert!(bytes(&after) * 20 < bytes(&before));
    // Merges read at most two tables of the run, and that of the range itself.
    assert!(db.stats().merge_read_bytes - merged <= 3 * (8 << 10));
    assert_eq!(contents(&keyspace).len(), 200);
    db.verify().unwrap();
}

#[test]
fn a_table_is_not_dropped_while_a_snapshot_reads_it() {
    let disk = SimStorage::new(1);
    let db = open(&disk);
    let keyspace = filled(&db, Layout::sorted(), 2_000);
    let snapshot = db.snapshot().unwrap();
    keyspace.delete_range::<&str>(..).unwrap();
    keyspace.flush().unwrap();
    keyspace.wait_until_merged().unwrap();
    assert_eq!(snapshot.scan::<&str>(&keyspace, ..).unwrap().count(), 2_000);
    assert_eq!(keyspace.scan::<&str>(..).unwrap().count(), 0);
    drop(snapshot);
    keyspace.put("unrelated", "").unwrap();
    keyspace.flush().unwrap();
    keyspace.wait_until_merged().unwrap();
    assert!(tables(&keyspace.stats()) <= 2, "{}", keyspace.shape());
    assert_eq!(keyspace.scan::<&str>(..).unwrap().count(), 1);
}

#[test]
fn a_scan_seeks_past_a_deleted_range() {
    let disk = SimStorage::new(1);
    let db = open(&disk);
    let keyspace = filled(&db, Layout::sorted(), 10_000);
    // A snapshot keeps the tables.
    let snapshot = db.snapshot().unwrap();
    keyspace.delete_range(key(50)..key(9_950)).unwrap();
    for step in ["in the memtable", "flushed"] {
        let asked = |scan: &mut dyn FnMut() -> usize| {
            let before = db.stats().block_reads;
            assert_eq!(scan(), 100);
            db.stats().block_reads - before
        };
        let forward = asked(&mut || keyspace.scan::<&str>(..).unwrap().count());
        let backward = asked(&mut || keyspace.scan::<&str>(..).unwrap().rev().count());
        // A hundred entries are in some twenty blocks.
        assert!(
            forward <= 60 && backward <= 60,
            "{step}: {forward}, {backward}"
        );
        let mut cursor = keyspace.cursor().unwrap();
        let before = db.stats().block_reads;
        assert!(cursor.seek(&key(5_000)).unwrap());
        assert_eq!(cursor.key(), Some(&key(9_950)[..]));
        assert!(cursor.prev().unwrap());
        assert_eq!(cursor.key(), Some(&key(49)[..]));
        assert!(db.stats().block_reads - before <= 12, "{step}");
        keyspace.flush().unwrap();
    }
    drop(snapshot);
}

#[test]
fn a_get_in_a_deleted_range_reads_no_data() {
    for filter in [
        FilterSpec::Bloom { bits_per_key: 10.0 },
        FilterSpec::None,
        FilterSpec::MultiLevelCuckoo {
            fingerprint_bits: 12,
            unique: true,
        },
    ] {
        let disk = SimStorage::new(1);
        let db = open(&disk);
        let design = Design {
            filter,
            residency: Residency::Resident,
            ..small()
        };
        let keyspace = db
            .keyspace_with("filled", Layout::sorted(), design)
            .unwrap();
        for round in 0..3 {
            for i in 0..500 {
                keyspace.put(key(i), value(i + round)).unwrap();
            }
            keyspace.flush().unwrap();
        }
        keyspace.wait_until_merged().unwrap();
        let snapshot = db.snapshot().unwrap();
        keyspace.delete_range(key(100)..key(400)).unwrap();
        keyspace.flush().unwrap();
        // Opens the tables.
        assert_eq!(keyspace.get(key(100)).unwrap(), None);
        for i in 100..400 {
            assert_eq!(keyspace.get(key(i)).unwrap(), None, "{filter:?}");
            assert_eq!(
                keyspace.get_if_cached(key(i)).unwrap(),
                MemoryAnswer::Absent
            );
            assert!(snapshot.contains_key(&keyspace, key(i)).unwrap());
        }
        let keys: Vec<_> = (0..500).map(key).collect();
        let found = keyspace.multi_get(&keys).unwrap();
        assert_eq!(found.iter().flatten().count(), 200);
        let explanation = keyspace.explain(key(200)).unwrap();
        assert_eq!(explanation.found().unwrap().kind, EntryKind::RangeDelete);
        assert_eq!(explanation.value, None);
        assert_eq!(explanation.pages().count(), 0);
    }
}

#[test]
fn a_range_over_partitions_is_one_commit() {
    let layouts = [
        Layout::sorted().hash(4),
        Layout::sorted().range([key(30), key(60), key(90)]),
    ];
    for layout in layouts {
        for operations in 0..40 {
            let disk = SimStorage::new(operations);
            let db = open(&disk);
            let keyspace = db.keyspace("divided", layout.clone()).unwrap();
            for i in 0..120 {
                keyspace.put(key(i), "").unwrap();
            }
            db.sync().unwrap();
            disk.crash_after(operations);
            let _ = keyspace.delete_range_with(key(20)..key(100), Durability::Synced);
            let image = disk.crash();
            drop((db, keyspace));
            let db = open(&image);
            let keyspace = db.existing_keyspace("divided").unwrap();
            let left = contents(&keyspace).len();
            assert!(left == 40 || left == 120, "{left} keys are left");
        }
    }
}

#[test]
fn ranges_survive_a_kill_a_checkpoint_and_a_lost_manifest() {
    let disk = SimStorage::new(3);
    let db = open(&disk);
    let keyspace = filled(&db, Layout::sorted().range([key(250)]), 500);
    let snapshot = db.snapshot().unwrap();
    keyspace.delete_range(key(100)..key(400)).unwrap();
    let expected = contents(&keyspace);
    assert_eq!(expected.len(), 200);
    db.checkpoint("/copy").unwrap();
    let image = disk.kill();
    drop((snapshot, keyspace, db));
    let read = |db: &Db| contents(&db.existing_keyspace("filled").unwrap());
    let copy = Db::builder("/copy").environment(Environment::simulated(&image, 1));
    assert_eq!(read(&copy.open().unwrap()), expected);
    {
        let db = open(&image);
        let keyspace = db.existing_keyspace("filled").unwrap();
        let snapshot = db.snapshot().unwrap();
        keyspace.delete_range(key(0)..key(50)).unwrap();
        db.flush().unwrap();
        assert!(ranges_in_tables(&keyspace.stats()) > 0);
        db.verify().unwrap();
        drop(snapshot);
        db.close().unwrap();
    }
    hedgerow::io::Storage::remove(&image, format!("{DIR}/MANIFEST").as_ref()).unwrap();
    let environment = Environment::simulated(&image, 1);
    let report = hedgerow::repair_with(Db::builder(DIR).environment(environment)).unwrap();
    assert!(report.missing.is_empty(), "{report:?}");
    let db = open(&image);
    let names = db.keyspaces();
    let found = contents(&db.existing_keyspace(&names[0]).unwrap());
    assert_eq!(found.len(), 150);
}

#[test]
fn a_bulk_load_and_a_range_are_ordered_by_their_numbers() {
    let disk = SimStorage::new(1);
    let db = open(&disk);
    let keyspace = filled(&db, Layout::sorted(), 300);
    let load = |range: std::ops::Range<u64>| {
        let entries = range.map(|i| Ok::<_, hedgerow::Error>((key(i), "loaded")));
        keyspace.bulk_load(entries).unwrap();
    };
    keyspace.delete_range(key(100)..key(200)).unwrap();
    load(150..160);
    assert_eq!(contents(&keyspace).len(), 210);
    keyspace.delete_range(key(155)..key(250)).unwrap();
    assert_eq!(contents(&keyspace).len(), 155);
    keyspace.compact::<&str>(..).unwrap();
    assert_eq!(contents(&keyspace).len(), 155);
    load(0..300);
    assert_eq!(contents(&keyspace).len(), 300);
}

#[test]
fn an_update_notices_a_range_that_deletes_its_key() {
    let disk = SimStorage::new(1);
    let db = open(&disk);
    let keyspace = plain(&db);
    keyspace.put("m", "1").unwrap();
    let mut calls = 0;
    let new = keyspace.update("m", |old| {
        calls += 1;
        if calls == 1 {
            assert_eq!(old, Some(&b"1"[..]));
            keyspace.delete_range("a".."z").unwrap();
        }
        Some([old.unwrap_or_default(), b"+"].concat())
    });
    assert_eq!(new.unwrap().unwrap(), "+");
    assert_eq!(calls, 2);
    assert_eq!(keyspace.get("m").unwrap().unwrap(), "+");
}

/// Each of seven trees gets a part with the same long bounds, together more than all memtables may
/// have.
#[test]
fn a_long_range_over_many_trees_does_not_stop_the_next_write() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::builder(dir.path())
        .memory_budget(1 << 20)
        .open()
        .unwrap();
    let layout = Layout::sorted().hash(7);
    let keyspace = db.keyspace_with("divided", layout, small()).unwrap();
    for _ in 0..3 {
        let long = vec![b'b'; hedgerow::KEY_BYTES_MAX];
        keyspace.put(&long, "").unwrap();
        keyspace
            .delete_range(long.clone()..=vec![b'c'; hedgerow::KEY_BYTES_MAX])
            .unwrap();
        keyspace.put(key(1), value(1)).unwrap();
        keyspace.put(key(2), value(2)).unwrap();
    }
    assert_eq!(contents(&keyspace).len(), 2);
}

#[test]
fn a_memtable_with_very_many_ranges_is_flushed() {
    let disk = SimStorage::new(1);
    let db = Db::builder(DIR)
        .environment(Environment::simulated(&disk, 7))
        .memory_budget(64 << 20)
        .open()
        .unwrap();
    let keyspace = plain(&db);
    for i in 0..20_000 {
        keyspace.put(key(2 * i), "").unwrap();
    }
    keyspace.flush().unwrap();
    let snapshot = db.snapshot().unwrap();
    for i in 0..11_000 {
        keyspace.delete_range(key(2 * i)..key(2 * i + 1)).unwrap();
        assert_eq!(keyspace.get(key(2 * i)).unwrap(), None);
    }
    keyspace.wait_until_merged().unwrap();
    assert!(ranges_in_tables(&keyspace.stats()) >= 10_000);
    assert_eq!(keyspace.scan::<&str>(..).unwrap().count(), 9_000);
    drop(snapshot);
}
