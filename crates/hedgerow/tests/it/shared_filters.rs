//! Filters over several runs: reads of pages while the tree changes, and beside indexes in little
//! memory.
#![allow(clippy::print_stdout, reason = "the measurement is printed")]

use std::ops::Range;
use std::path::PathBuf;

use hedgerow::inspect::{CuckooContents, FilterContents, GroupFilter};
use hedgerow::io::sim::SimStorage;
use hedgerow::{Compression, Db, Design, KeyOrder, Keyspace, Layout, PrefixRule};

use crate::support::{DIR, builder, files, key};

const KEYS: u64 = 60_000;

/// The `i`-th key in an order without a pattern.
fn drawn(i: u64) -> u64 {
    i * 7919 % KEYS
}

fn semi_sorted() -> Layout {
    Layout {
        order: KeyOrder::SemiSorted(PrefixRule::Bytes(8)),
        ..Layout::sorted()
    }
}

fn opened(filter: &str, (memtable_bytes, table_bytes): (u64, u64), budget: u64) -> (Db, Keyspace) {
    let db = builder(&SimStorage::new(21)).memory_budget(budget).open();
    let db = db.unwrap();
    let design = Design {
        policy: "tiering:4".parse().unwrap(),
        compression: Compression::None,
        filter: filter.parse().unwrap(),
        index: "three-level".parse().unwrap(),
        memtable_bytes: Some(memtable_bytes),
        table_bytes: Some(table_bytes),
        ..Design::default()
    };
    let keyspace = db.keyspace_with("plain", semi_sorted(), design).unwrap();
    (db, keyspace)
}

/// Pages per get of keys that are not there.
fn reads_per_miss(db: &Db, keyspace: &Keyspace, gets: u64) -> f64 {
    let before = db.stats().block_reads;
    for i in 0..gets {
        let absent = [&key(drawn(i % KEYS))[..], b"?"].concat();
        assert_eq!(keyspace.get(absent).unwrap(), None);
    }
    (db.stats().block_reads - before) as f64 / gets as f64
}

/// Pages per get of keys that are there, the first `keys` that were written.
fn reads_per_hit(db: &Db, keyspace: &Keyspace, keys: u64, gets: u64) -> f64 {
    let before = db.stats().block_reads;
    for i in 0..gets {
        let i = drawn(i * 31 % keys);
        assert_eq!(&*keyspace.get(key(i)).unwrap().unwrap(), [i as u8; 60]);
    }
    (db.stats().block_reads - before) as f64 / gets as f64
}

/// Flushes come, levels are merged, some piece by piece, and no read asks a run without a filter.
#[test]
fn runs_are_covered_as_soon_as_they_are_there() {
    for filter in ["mlcf:14", "mlcf:14,unique"] {
        let (db, keyspace) = opened(filter, (32 << 10, 32 << 10), 64 << 20);
        let (mut missed, mut hit, mut rounds) = (0.0, 0.0, 0.0);
        for i in 0..KEYS {
            keyspace.put(key(drawn(i)), [drawn(i) as u8; 60]).unwrap();
            if i % 16 == 15 {
                missed += reads_per_miss(&db, &keyspace, 8);
                hit += reads_per_hit(&db, &keyspace, i + 1, 8);
                rounds += 1.0;
            }
        }
        let (missed, hit) = (missed / rounds, hit / rounds);
        let merges = db.stats().merges;
        println!("{filter}: {missed:.4} pages per miss, {hit:.4} per hit beside {merges} merges");
        assert!(merges > 20, "{merges}");
        assert!(missed <= 0.01, "{missed}");
        assert!(hit <= 1.01, "{hit}");
    }
}

/// A filter is made for 1.5 times the distinct keys that are there, not for a full group.
#[test]
fn filters_are_as_large_as_their_keys_need() {
    const RUN_KEYS: u64 = 5000;
    for filter in ["mlcf:12", "mlcf:12,unique"] {
        for new_share in [1, 2, 10] {
            let db = builder(&SimStorage::new(23)).memory_budget(64 << 20);
            let db = db.open().unwrap();
            let design = Design {
                policy: "0=runs:8;1=tiering:8".parse().unwrap(),
                filter: filter.parse().unwrap(),
                memtable_bytes: Some(4 << 20),
                ..Design::default()
            };
            let keyspace = db.keyspace_with("plain", Layout::sorted(), design).unwrap();
            let mut keys = 0;
            for run in 0..7 {
                for i in 0..RUN_KEYS {
                    let is_new = run == 0 || i % new_share == 0;
                    let number = if is_new { keys } else { drawn(i + run) % keys };
                    keyspace.put(key(number), [1; 60]).unwrap();
                    keys += u64::from(is_new);
                }
                keyspace.flush().unwrap();
                keyspace.wait_until_merged().unwrap();
                let bytes = db.stats().memory.filters;
                let bits = bytes as f64 * 8.0 / keys as f64;
                println!("{filter}, {new_share}: {bits:.1} bits for each of {keys} keys");
                assert!((15.0..27.0).contains(&bits), "{bits}");
                for i in (0..keys).step_by(7) {
                    assert!(keyspace.get(key(i)).unwrap().is_some());
                }
            }
            assert_eq!(keyspace.stats().levels[0].runs, 7);
            assert!(reads_per_miss(&db, &keyspace, 20_000) <= 0.03);
        }
    }
}

/// A database whose level 0 has room for `runs_max` runs and one filter for all of them.
fn with_one_filter(disk: &SimStorage, runs_max: usize, filter: &str) -> (Db, Keyspace) {
    let db = builder(disk).memory_budget(64 << 20).open().unwrap();
    let design = Design {
        policy: format!("0=runs:{runs_max};1=tiering:8").parse().unwrap(),
        filter: filter.parse().unwrap(),
        memtable_bytes: Some(4 << 20),
        ..Design::default()
    };
    let keyspace = db.keyspace_with("plain", Layout::sorted(), design).unwrap();
    (db, keyspace)
}

/// Makes one run of these keys.
fn write_run(keyspace: &Keyspace, keys: Range<u64>) {
    for i in keys {
        keyspace.put(key(i), [i as u8; 60]).unwrap();
    }
    keyspace.flush().unwrap();
    keyspace.wait_until_merged().unwrap();
}

#[track_caller]
fn assert_all_found(keyspace: &Keyspace, keys: Range<u64>) {
    for i in keys {
        let found = keyspace.get(key(i)).unwrap();
        assert_eq!(found.as_deref(), Some(&[i as u8; 60][..]), "{i}");
    }
}

/// Closes a database with one filter, and reads the filter's file.
fn closed_with_filter(disk: &SimStorage, db: Db) -> CuckooContents {
    db.close().unwrap();
    let names = files(disk, "filters");
    assert_eq!(names.len(), 1, "{names:?}");
    let path = PathBuf::from(format!("{DIR}/filters/{}", names[0]));
    match GroupFilter::open(disk, &path).unwrap().contents {
        FilterContents::MultiLevelCuckoo(contents) => contents,
        other => panic!("expected a multi-level cuckoo filter, found {other:?}"),
    }
}

/// The filter of the first run has room for 150 keys. Without a larger one in its place, nearly all
/// later keys would be kept by their whole hashes.
#[test]
fn a_filter_for_few_keys_is_replaced_when_many_come() {
    for filter in ["mlcf:12", "mlcf:12,unique"] {
        let disk = SimStorage::new(24);
        let (db, keyspace) = with_one_filter(&disk, 8, filter);
        let mut keys = 100;
        write_run(&keyspace, 0..keys);
        for end in [10_000, 30_000, 30_100] {
            write_run(&keyspace, keys..end);
            keys = end;
            let bits = db.stats().memory.filters as f64 * 8.0 / keys as f64;
            println!("{filter}: {bits:.1} bits for each of {keys} keys");
            assert!(bits < 27.0, "{bits}");
            assert_all_found(&keyspace, 0..keys);
        }
        assert_eq!(keyspace.stats().levels[0].runs, 4);
        let contents = closed_with_filter(&disk, db);
        assert_eq!(contents.runs.len(), 4);
        assert_eq!(contents.whole_hashes, 0, "{contents:?}");
    }
}

/// A key has eight slots in its two buckets. Keys that more runs have are kept by their whole
/// hashes, too. With them the filter is full, although its slots alone would suffice for the keys
/// of the last run. So a larger one takes its place.
#[test]
fn keys_without_a_slot_count_as_load() {
    const KEYS: u64 = 5000;
    const AGAIN: u64 = 60;
    let disk = SimStorage::new(25);
    let (db, keyspace) = with_one_filter(&disk, 16, "mlcf:12");
    write_run(&keyspace, 0..KEYS);
    for _ in 0..11 {
        write_run(&keyspace, 0..AGAIN);
    }
    let before = closed_with_filter(&disk, db);
    let whole = before.whole_hashes as u64;
    println!("{} slots in use, {whole} whole hashes", before.entries);
    assert!(!before.unique && whole > AGAIN * 2 / 3, "{before:?}");
    // The filter takes 2 % more keys than it is made for, which is 95 % of its slots.
    let slots = f64::from(before.buckets) * 4.0;
    let room = ((slots * 0.95).floor() * 1.02) as u64 - before.entries;
    let new = room - AGAIN / 4;

    let (db, keyspace) = with_one_filter(&disk, 16, "mlcf:12");
    write_run(&keyspace, KEYS..KEYS + new);
    assert_eq!(keyspace.stats().levels[0].runs, 13);
    assert_all_found(&keyspace, 0..KEYS + new);
    let after = closed_with_filter(&disk, db);
    assert_eq!(after.runs.len(), 13);
    assert!(after.buckets > before.buckets, "{after:?}");
    // Some keys share the buckets of those.
    assert!((after.whole_hashes as u64) < AGAIN + AGAIN / 4, "{after:?}");
}

/// Filters take all of the share of the budget that they have with indexes, and more. Three-level
/// indexes are so small that they stay in memory nevertheless.
#[test]
fn small_indexes_stay_in_memory_beside_large_filters() {
    let budget = 1 << 20;
    let (db, keyspace) = opened("mlcf:14", (64 << 10, 256 << 10), budget);
    for i in 0..KEYS {
        keyspace.put(key(drawn(i)), [drawn(i) as u8; 60]).unwrap();
        if i % 1000 == 0 {
            let memory = db.stats().memory;
            assert!(memory.total() <= budget, "{memory:?}");
        }
    }
    keyspace.flush().unwrap();
    keyspace.wait_until_merged().unwrap();
    let hit = reads_per_hit(&db, &keyspace, KEYS, 50_000);
    let missed = reads_per_miss(&db, &keyspace, 50_000);
    let memory = db.stats().memory;
    println!("{hit:.4} pages per hit, {missed:.4} per miss, {memory:?}");
    assert!(memory.filters + memory.indexes > budget / 8, "{memory:?}");
    assert!(memory.indexes > 0 && memory.total() <= budget, "{memory:?}");
    assert!(hit <= 1.01, "{hit}");
    assert!(missed <= 0.01, "{missed}");
}

/// Fingerprints of 24 bits would take 1.6 times the share of filters. Shorter ones are better than
/// none. A filter that does not fit at all leaves newer runs theirs.
#[test]
fn little_memory_shortens_fingerprints() {
    let budget = 1 << 20;
    let (db, keyspace) = opened("mlcf:24", (32 << 10, 128 << 10), budget);
    let (mut missed, mut hit, mut rounds) = (0.0, 0.0, 0.0);
    for i in 0..4 * KEYS {
        let first = i / KEYS * KEYS;
        let (key, value) = (key(first + drawn(i)), [drawn(i) as u8; 60]);
        keyspace.put(key, value).unwrap();
        if i % 64 == 63 {
            missed += reads_per_miss(&db, &keyspace, 8);
            hit += reads_per_hit(&db, &keyspace, KEYS.min(i + 1), 8);
            rounds += 1.0;
        }
    }
    let (missed, hit) = (missed / rounds, hit / rounds);
    let memory = db.stats().memory;
    println!("{missed:.4} pages per miss, {hit:.4} per hit, {memory:?}");
    assert!(memory.filters <= budget / 2, "{memory:?}");
    assert!(missed <= 0.1, "{missed}");
    assert!(hit <= 1.1, "{hit}");
}

/// Filters have room for fewer runs, or are not built at all.
#[test]
fn filters_of_several_runs_take_half_of_the_memory_at_most() {
    let budget = 1 << 20;
    let (db, keyspace) = opened("mlcf:24", (64 << 10, 256 << 10), budget);
    for i in 0..KEYS {
        keyspace.put(key(drawn(i)), [drawn(i) as u8; 60]).unwrap();
    }
    keyspace.flush().unwrap();
    keyspace.wait_until_merged().unwrap();
    let hit = reads_per_hit(&db, &keyspace, KEYS, 10_000);
    let memory = db.stats().memory;
    println!("{hit:.4} pages per hit, {memory:?}");
    assert!(
        memory.filters > 0 && memory.filters <= budget / 2,
        "{memory:?}"
    );
    assert!(memory.total() <= budget, "{memory:?}");
}

/// Tables come to a run that a filter knows, while no level has such filters any more. Leveled
/// levels have one run, of the same number each time.
#[test]
fn tables_that_a_filter_does_not_know_are_found() {
    let design = |policy: &str, filter: &str| Design {
        policy: policy.parse().unwrap(),
        filter: filter.parse().unwrap(),
        memtable_bytes: Some(4 << 10),
        table_bytes: Some(4 << 10),
        ..Design::default()
    };
    let db = builder(&SimStorage::new(22)).open().unwrap();
    let leveled = design("leveling:3", "bloom:10");
    let keyspace = db
        .keyspace_with("plain", Layout::sorted(), leveled.clone())
        .unwrap();
    let write = |from: u64, to: u64| {
        for i in from..to {
            keyspace.put(key(i), [i as u8; 60]).unwrap();
        }
        keyspace.flush().unwrap();
        keyspace.wait_until_merged().unwrap();
    };
    write(0, 1000);
    keyspace.retune(design("tiering:3", "mlcf:8")).unwrap();
    keyspace.wait_until_merged().unwrap();
    keyspace.retune(leveled).unwrap();
    write(1000, 2000);
    for i in 0..2000 {
        let found = keyspace.get(key(i)).unwrap();
        assert_eq!(found.as_deref(), Some(&[i as u8; 60][..]), "{i}");
    }
}
