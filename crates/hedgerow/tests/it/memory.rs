//! Counters: what reads cost, what is held back, and where the memory is.

use std::time::Duration;

use hedgerow::io::sim::SimStorage;
use hedgerow::io::{Clock, OsClock};
use hedgerow::{
    Compression, Db, Design, ErrorKind, FilterSpec, IndexedBatch, Keyspace, Layout, MemoryAnswer,
    PrefixRule, Residency,
};

use crate::concurrency::threaded;
use crate::support::{builder, contents, key, kind, open, plain, plain_small, small, value};

/// 2,000 keys in one run of tables, opened anew, index and filter in memory.
fn cold(disk: &SimStorage, value: impl Fn(u64) -> Vec<u8>) -> (Db, Keyspace) {
    let design = Design {
        residency: Residency::Resident,
        ..Design::default()
    };
    {
        let db = builder(disk).memory_budget(64 << 20).open().unwrap();
        let keyspace = db.keyspace_with("plain", Layout::sorted(), design).unwrap();
        for i in 0..2000 {
            keyspace.put(key(i), value(i)).unwrap();
        }
        keyspace.compact::<&[u8]>(..).unwrap();
        db.close().unwrap();
    }
    let db = builder(disk).memory_budget(64 << 20).open().unwrap();
    let keyspace = plain(&db);
    // Opens the tables.
    keyspace.get(key(0)).unwrap();
    keyspace.get(key(1999)).unwrap();
    (db, keyspace)
}

#[test]
fn get_reads_one_page_when_uncached_and_none_when_cached() {
    let disk = SimStorage::new(1);
    let (db, keyspace) = cold(&disk, value);
    for i in [300, 700, 1100, 1500] {
        let (before, on_disk) = (db.stats(), disk.counters());
        assert!(keyspace.get(key(i)).unwrap().is_some());
        let after = db.stats();
        assert_eq!(after.block_reads - before.block_reads, 1);
        assert_eq!(after.device_reads - before.device_reads, 1);
        assert_eq!(disk.counters().reads - on_disk.reads, 1);
        assert!(disk.counters().read_bytes - on_disk.read_bytes <= 4096 + 512);
        for same_page in [i, i + 1] {
            keyspace.get(key(same_page)).unwrap();
        }
        // The neighbour may be in the next page, the key itself is cached.
        let before = disk.counters().reads;
        keyspace.get(key(i)).unwrap();
        assert_eq!(disk.counters().reads, before);
    }
}

/// Returns the answer of memory, which must take no read.
fn if_cached(disk: &SimStorage, keyspace: &Keyspace, key: &[u8]) -> MemoryAnswer {
    let before = disk.counters().reads;
    let answer = keyspace.get_if_cached(key).unwrap();
    assert_eq!(disk.counters().reads, before, "a read of a file");
    answer
}

#[test]
fn a_get_if_cached_reads_no_file() {
    let disk = SimStorage::new(2);
    // Every tenth value has a page of its own.
    let value = |i: u64| match i % 10 {
        0 => vec![i as u8; 20 << 10],
        _ => value(i),
    };
    drop(cold(&disk, value));
    let db = builder(&disk).memory_budget(64 << 20).open().unwrap();
    let keyspace = plain(&db);
    let known = |value: &[u8]| MemoryAnswer::Value(value.into());
    for i in [0, 301, 600, 901, 1200, 1501, 1800] {
        let key = key(i);
        // The table may not be open, and its page is not cached.
        assert_eq!(if_cached(&disk, &keyspace, &key), MemoryAnswer::Unknown);
        keyspace.get(&key).unwrap();
        assert_eq!(if_cached(&disk, &keyspace, &key), known(&value(i)));
        let absent = [&key[..], b"-absent"].concat();
        keyspace.get(&absent).unwrap();
        assert_eq!(if_cached(&disk, &keyspace, &absent), MemoryAnswer::Absent);
    }
    let before = db.snapshot().unwrap();
    keyspace.put(key(0), "new").unwrap();
    keyspace.delete(key(301)).unwrap();
    assert_eq!(if_cached(&disk, &keyspace, &key(0)), known(b"new"));
    assert_eq!(if_cached(&disk, &keyspace, &key(301)), MemoryAnswer::Absent);
    let old = before.get_if_cached(&keyspace, key(0)).unwrap();
    assert_eq!(old, known(&value(0)));
    let too_long = kind(keyspace.get_if_cached(vec![7; (64 << 10) + 1]));
    assert_eq!(too_long, ErrorKind::InvalidArgument);
    drop(before);
    // A batch has its own writes, and what memory had at its beginning.
    let mut batch = db.indexed_batch().unwrap();
    batch.put(&keyspace, key(1), "mine").unwrap();
    batch.delete(&keyspace, key(0)).unwrap();
    keyspace.put(key(301), "later").unwrap();
    let reads = disk.counters().reads;
    let found = [1, 0, 301, 10].map(|i| batch.get_if_cached(&keyspace, key(i)).unwrap());
    let expected = [
        known(b"mine"),
        MemoryAnswer::Absent,
        MemoryAnswer::Absent,
        MemoryAnswer::Unknown,
    ];
    assert_eq!(found, expected);
    assert_eq!(disk.counters().reads, reads, "a read of a file");
    drop(batch);
    db.close().unwrap();
    assert_eq!(kind(keyspace.get_if_cached(key(0))), ErrorKind::Closed);
}

type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

/// Scans without a read of a file. Returns the pairs that memory had, and true if that was all.
fn scanned_if_cached(
    disk: &SimStorage,
    batch: &mut IndexedBatch,
    keyspace: &Keyspace,
    backwards: bool,
) -> (Pairs, bool) {
    let before = disk.counters().reads;
    let mut pairs = Pairs::new();
    let scan = match batch.scan_if_cached(keyspace, key(100)..key(300)) {
        Ok(scan) => scan,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::WouldBlock);
            assert_eq!(disk.counters().reads, before, "a read of a file");
            return (pairs, false);
        }
    };
    let items: Box<dyn Iterator<Item = _>> = match backwards {
        true => Box::new(scan.rev()),
        false => Box::new(scan),
    };
    let mut all = true;
    for item in items {
        match item {
            Ok((key, value)) => pairs.push((key.to_vec(), value.to_vec())),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
                all = false;
                break;
            }
        }
    }
    assert_eq!(disk.counters().reads, before, "a read of a file");
    (pairs, all)
}

#[test]
fn a_scan_if_cached_reads_no_file() {
    // Tables with and without range tombstones, and values of pages of their own.
    for (seed, has_ranges, backwards) in [
        (20, false, false),
        (21, false, true),
        (22, true, false),
        (23, true, true),
    ] {
        let disk = SimStorage::new(seed);
        let value = |i: u64| match i % 50 {
            0 => vec![i as u8; 20 << 10],
            _ => value(i),
        };
        let (db, keyspace) = cold(&disk, value);
        if has_ranges {
            // A snapshot keeps what the delete hides, so that the merge keeps the delete.
            let _snapshot = db.snapshot().unwrap();
            keyspace.delete_range(key(150)..key(160)).unwrap();
            keyspace.flush().unwrap();
            assert!(keyspace.stats().levels[0].range_tombstones > 0);
        }
        db.close().unwrap();
        let db = builder(&disk).memory_budget(64 << 20).open().unwrap();
        let keyspace = plain(&db);
        let mut expected: Vec<_> = (100..300)
            .filter(|i| !(has_ranges && (150..160).contains(i)))
            .map(|i| (key(i), value(i)))
            .collect();
        if backwards {
            expected.reverse();
        }
        let mut batch = db.indexed_batch().unwrap();
        let (found, all) = scanned_if_cached(&disk, &mut batch, &keyspace, backwards);
        assert!(found.is_empty() && !all, "no table is open");
        // From memory to the first page that is missing, and all once a scan has read them.
        keyspace
            .get(key(if backwards { 299 } else { 100 }))
            .unwrap();
        let (found, all) = scanned_if_cached(&disk, &mut batch, &keyspace, backwards);
        assert!(expected.starts_with(&found) && !all);
        assert!(has_ranges || !found.is_empty());
        let read = batch.scan(&keyspace, key(100)..key(300)).unwrap();
        assert_eq!(read.map(Result::unwrap).count(), expected.len());
        let (found, all) = scanned_if_cached(&disk, &mut batch, &keyspace, backwards);
        assert_eq!((found, all), (expected.clone(), true));
        // Its own writes are in memory.
        let changed = expected.len() / 2;
        expected[changed].1 = b"mine".to_vec();
        batch.put(&keyspace, &expected[changed].0, "mine").unwrap();
        let (found, all) = scanned_if_cached(&disk, &mut batch, &keyspace, backwards);
        assert_eq!((found, all), (expected, true));
        db.close().unwrap();
        let closed = kind(batch.scan_if_cached::<&[u8]>(&keyspace, ..));
        assert_eq!(closed, ErrorKind::Closed);
    }
}

/// Without writes, the engine reads blocks of the last level into the page cache, in every order of
/// keys.
#[test]
fn gets_after_a_load_begin_warm() {
    let design = Design {
        compression: Compression::None,
        ..Design::default()
    };
    for layout in [
        Layout::sorted(),
        Layout::semi_sorted(PrefixRule::Bytes(4)).hash(2),
        Layout::hashed(),
    ] {
        let disk = SimStorage::new(7);
        let db = threaded(&disk).memory_budget(64 << 20).open().unwrap();
        let keyspace = db
            .keyspace_with("k", layout.clone(), design.clone())
            .unwrap();
        let cached = || db.stats().memory.page_cache;
        let (empty, clock) = (cached(), OsClock::new());
        for i in 0..5000 {
            keyspace.put(key(i), [i as u8; 100]).unwrap();
        }
        // Merges only move what there is, so that nothing else gets into the cache.
        keyspace.flush().unwrap();
        let stored = keyspace.stats().table_bytes();
        while cached() < empty + stored / 10 * 9 {
            assert!(clock.now().as_secs() < 60, "{layout:?}: {}", cached());
            clock.sleep(Duration::from_millis(1));
        }
        let (before, warm) = (db.stats(), cached());
        for i in 0..5000 {
            assert_eq!(keyspace.get(key(i)).unwrap().unwrap(), [i as u8; 100]);
        }
        let reads = db.stats().device_reads - before.device_reads;
        // Gets read at most what was not there when they began, in blocks of at least 4,000 bytes
        // but for the last of each table.
        let lacked = cached() - warm;
        assert!(
            reads * 4000 <= lacked + 4 * 4096,
            "{layout:?}: {reads}, {lacked} bytes"
        );
    }
}

/// A hit reads one block of the table that holds the key: the block that the index names, however
/// small blocks are. Old versions and other levels do not count.
#[test]
fn a_hit_reads_one_page_of_the_table_that_holds_the_key() {
    for block_bytes in [512, 4096] {
        let disk = SimStorage::new(5);
        let design = Design {
            block_bytes,
            residency: Residency::Resident,
            ..small()
        };
        let db = builder(&disk).memory_budget(16 << 20).open().unwrap();
        let keyspace = db.keyspace_with("plain", Layout::sorted(), design).unwrap();
        let mut snapshots = Vec::new();
        for i in 0..20_000 {
            keyspace.put(key(i * 7919 % 10_007), value(i)).unwrap();
            if i % 4000 == 0 {
                snapshots.push(db.snapshot().unwrap());
            }
        }
        keyspace.flush().unwrap();
        let before = db.stats();
        for i in 0..10_007 {
            assert!(keyspace.get(key(i)).unwrap().is_some());
        }
        let after = db.stats();
        let levels = &after.keyspaces[0].levels;
        assert!(levels.iter().filter(|level| level.hits > 0).count() > 1);
        // A filter that is wrong costs a page of a table that does not hold the key.
        let elsewhere = after.filter_false_positives - before.filter_false_positives;
        let pages = after.block_reads - before.block_reads - elsewhere;
        assert!(pages >= 10_007, "none was in a memtable");
        assert!(pages as f64 <= 10_007.0 * 1.02, "{pages}");
    }
}

#[test]
fn get_of_an_absent_key_reads_nothing_but_for_false_positives() {
    let disk = SimStorage::new(2);
    let (db, keyspace) = cold(&disk, value);
    let (before, on_disk) = (db.stats(), disk.counters());
    for i in 0..1000 {
        assert_eq!(keyspace.get([&key(i)[..], b"?"].concat()).unwrap(), None);
    }
    let stats = db.stats();
    let false_positives = stats.filter_false_positives - before.filter_false_positives;
    assert_eq!(stats.filter_probes - before.filter_probes, 1000);
    assert!(false_positives < 40, "{false_positives}");
    assert!(disk.counters().reads - on_disk.reads <= false_positives);
}

#[test]
fn long_values_are_not_read_to_pass_them() {
    let disk = SimStorage::new(3);
    const VALUE: usize = 64 << 10;
    let (_db, keyspace) = cold(&disk, |i| {
        vec![i as u8; if i % 40 == 0 { VALUE } else { 10 }]
    });
    let before = disk.counters();
    let mut cursor = keyspace.cursor().unwrap();
    let mut there = cursor.seek_first().unwrap();
    let mut keys = 0;
    while there {
        keys += 1;
        there = cursor.next().unwrap();
    }
    there = cursor.seek_last().unwrap();
    while there {
        keys += 1;
        there = cursor.prev().unwrap();
    }
    for i in (0..2000).step_by(40) {
        assert!(keyspace.contains_key(key(i)).unwrap());
    }
    assert_eq!(keys, 4000);
    let read = disk.counters().read_bytes - before.read_bytes;
    // 50 values of 64 KiB; without them the tables have about 100 KB.
    assert!(read < 300_000, "{read} bytes read");
    cursor.seek(&key(40)).unwrap();
    assert_eq!(cursor.value().unwrap().unwrap().len(), VALUE);
}

#[test]
fn statistics_add_up() {
    let disk = SimStorage::new(4);
    let db = open(&disk);
    let keyspace = db
        .keyspace_with("plain", Layout::sorted().hash(2), small())
        .unwrap();
    let mut bytes = 0;
    for i in 0..1000 {
        keyspace.put(key(i), value(i)).unwrap();
        bytes += (key(i).len() + value(i).len()) as u64;
    }
    for i in 0..100 {
        keyspace.delete(key(i)).unwrap();
        bytes += key(i).len() as u64;
    }
    for i in 0..200 {
        keyspace.get(key(i)).unwrap();
    }
    keyspace.multi_get(&[key(0), key(500)]).unwrap();
    let stats = db.stats();
    assert_eq!((stats.puts, stats.deletes), (1000, 100));
    assert_eq!((stats.gets, stats.get_hits), (202, 101));
    assert_eq!(stats.user_bytes, bytes);
    assert!(stats.log_bytes > bytes);
    let of_keyspace = &stats.keyspaces[0];
    let hits: u64 = of_keyspace.levels.iter().map(|l| l.hits).sum();
    assert!(stats.memtable_hits + hits >= stats.get_hits);
    assert_eq!(of_keyspace.partitions.len(), 2);
    keyspace.flush().unwrap();
    keyspace.compact::<&[u8]>(..).unwrap();
    let stats = db.stats();
    let of_keyspace = &stats.keyspaces[0];
    assert_eq!(of_keyspace.entries(), 900);
    let files: u64 = crate::support::files(&disk, "tables")
        .iter()
        .map(|f| disk.contents(format!("/db/tables/{f}")).unwrap().len() as u64)
        .sum();
    assert_eq!(of_keyspace.table_bytes(), files);
    let m = stats.memory;
    let parts = m.memtables + m.page_cache + m.indexes + m.filters + m.pinned + m.merges + m.tables;
    assert_eq!(m.total(), parts);
    assert_eq!(m.merges, 0);
    assert_eq!(stats.panics, 0);
}

#[test]
fn memory_stays_within_the_budget() {
    const BUDGET: u64 = 2 << 20;
    let disk = SimStorage::new(5);
    let db = builder(&disk).memory_budget(BUDGET).open().unwrap();
    let design = Design {
        filter: FilterSpec::Bloom { bits_per_key: 16.0 },
        ..Design::default()
    };
    let keyspace = db
        .keyspace_with("plain", Layout::sorted().hash(4), design)
        .unwrap();
    let mut most = db.stats().memory;
    for i in 0..30_000u64 {
        keyspace
            .put(key(i * 7919 % 30_000), [i as u8; 150])
            .unwrap();
        if i % 16 == 0 {
            keyspace.get(key(i * 31 % 30_000)).unwrap();
        }
        if i % 64 == 0 {
            let memory = db.stats().memory;
            if memory.total() > most.total() {
                most = memory;
            }
        }
    }
    assert_eq!(most.budget, BUDGET);
    assert!(
        most.total() <= BUDGET,
        "{most:?} is {} in all",
        most.total()
    );
    assert_eq!(contents(&keyspace).len(), 30_000);
}

#[test]
fn writers_held_back_are_accounted_for() {
    let disk = SimStorage::new(6);
    let environment = hedgerow::io::Environment::simulated(&disk, 6);
    let clock = environment.clock.clone();
    let db = builder(&disk).environment(environment).open().unwrap();
    let keyspace = plain_small(&db);
    let began = clock.now();
    let mut longest = Duration::ZERO;
    for i in 0..8000 {
        let before = clock.now();
        keyspace.put(key(i * 7919 % 8000), [1; 300]).unwrap();
        longest = longest.max(clock.now() - before);
    }
    // Nothing but being held back moves the simulated clock.
    assert_eq!(db.stats().stalls.total(), clock.now() - began);
    assert!(longest < Duration::from_millis(30), "{longest:?}");
}
