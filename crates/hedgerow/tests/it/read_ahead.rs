//! Scans of data that are not cached: how many reads they take, and how many pages in vain.

use hedgerow::io::sim::{Counters, Fault, OpClass, SimStorage};
use hedgerow::{Compression, Db, DbStats, Design, ErrorKind, FilterSpec, Keyspace, Layout};

use crate::support::{DIR, builder, files, hashed, key};

/// The records of a store of several runs.
#[derive(Clone, Copy)]
struct Store {
    records: u64,
    value_bytes: usize,
    /// The records of each run among ten neighbours.
    shares: &'static [u64],
    /// The mean size of its blocks.
    page_bytes: f64,
}

const OF_A_KILOBYTE: Store = Store {
    records: 16_000,
    value_bytes: 1000,
    shares: &[7, 2, 1],
    page_bytes: 3044.0,
};

impl Store {
    /// The value of a record.
    fn value(self, i: u64) -> Vec<u8> {
        vec![(i % 251) as u8; self.value_bytes]
    }

    /// The run of a record. Neighbours are mixed as by a hash.
    fn run(self, i: u64) -> usize {
        let mut drawn = i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 33;
        drawn %= self.shares.iter().sum::<u64>();
        let mut runs = self.shares.iter().scan(0, |end, share| {
            *end += share;
            Some(*end)
        });
        runs.position(|end| drawn < end).unwrap()
    }

    fn write(self, disk: &SimStorage) {
        let db = opened(disk);
        let design = Design {
            policy: "tiering:8".parse().unwrap(),
            compression: Compression::None,
            memtable_bytes: Some(32 << 20),
            table_bytes: Some(64 << 20),
            filter: FilterSpec::None,
            ..Design::default()
        };
        let keyspace = db.keyspace_with("k", Layout::sorted(), design).unwrap();
        for run in 0..self.shares.len() {
            let mine = (0..self.records).filter(|i| self.run(*i) == run);
            mine.for_each(|i| keyspace.put(key(i), self.value(i)).unwrap());
            keyspace.flush().unwrap();
        }
        assert_eq!(keyspace.stats().levels[0].runs, self.shares.len());
    }

    /// Scans `count` records from each of these on. Returns what it took per scan.
    fn scan(self, cold: &Cold<'_>, count: u64, from: impl Iterator<Item = u64>) -> Taken {
        let before = (cold.disk.counters(), cold.db.stats());
        let mut scans = 0;
        for from in from {
            let scan = cold.keyspace.scan(key(from)..).unwrap();
            let mut found = 0;
            for (item, i) in scan.take(count as usize).zip(from..) {
                let (found_key, value) = item.unwrap();
                assert_eq!((&*found_key, &*value), (&*key(i), &*self.value(i)));
                found += 1;
            }
            assert_eq!(found, count);
            scans += 1;
        }
        let after = (cold.disk.counters(), cold.db.stats());
        Taken::since(before, after, scans, self.page_bytes)
    }
}

fn opened(disk: &SimStorage) -> Db {
    builder(disk).memory_budget(512 << 20).open().unwrap()
}

/// A store that was opened again, with all tables open and next to nothing cached.
struct Cold<'d> {
    disk: &'d SimStorage,
    db: Db,
    keyspace: Keyspace,
}

impl Cold<'_> {
    fn open(disk: &SimStorage) -> Cold<'_> {
        let db = opened(disk);
        let keyspace = db.keyspace("k", Layout::sorted()).unwrap();
        assert!(keyspace.cursor().unwrap().seek(&key(0)).unwrap());
        Cold { disk, db, keyspace }
    }
}

/// The costs of a scan, on average.
#[derive(Debug)]
struct Taken {
    /// The pages that it used.
    used: f64,
    /// The reads of the device.
    reads: f64,
    /// The reads that it waited for one after the other: those made together are one.
    waits: f64,
    /// The pages that it read.
    pages: f64,
}

impl Taken {
    fn since(
        before: (Counters, DbStats),
        after: (Counters, DbStats),
        scans: u64,
        page_bytes: f64,
    ) -> Taken {
        let per_scan = |count: u64| count as f64 / scans as f64;
        let reads = after.0.reads - before.0.reads;
        let together = after.0.reads_in_batches - before.0.reads_in_batches;
        let batches = after.0.read_batches - before.0.read_batches;
        Taken {
            used: per_scan(after.1.block_reads - before.1.block_reads),
            reads: per_scan(reads),
            waits: per_scan(reads - together + batches),
            pages: per_scan(after.0.read_bytes - before.0.read_bytes) / page_bytes,
        }
    }
}

/// 50 records of 1 KB from three runs, as in workload E of YCSB. Without read-ahead each used page
/// is one read, and all but those of the seek are waited for one after the other.
#[test]
fn a_scan_of_large_records_reads_ahead() {
    let disk = SimStorage::new(21);
    OF_A_KILOBYTE.write(&disk);
    let cold = Cold::open(&disk);
    let from = || (1..140).map(|nth| nth * 110);
    let taken = OF_A_KILOBYTE.scan(&cold, 50, from());
    println!("50 records of 1 KB: {taken:.1?}");
    assert!(taken.reads < 0.65 * taken.used, "{taken:?}");
    assert!(taken.waits < 0.5 * taken.used, "{taken:?}");
    assert!(taken.pages < 1.4 * taken.used, "{taken:?}");

    let again = OF_A_KILOBYTE.scan(&cold, 50, from());
    assert_eq!(again.reads, 0.0, "cached by now");
}

/// A seek with ten steps over records of 100 bytes uses one or two blocks of a run.
#[test]
fn a_short_scan_reads_no_page_in_vain() {
    let store = Store {
        records: 60_000,
        value_bytes: 100,
        page_bytes: 3983.0,
        ..OF_A_KILOBYTE
    };
    let disk = SimStorage::new(22);
    store.write(&disk);
    let cold = Cold::open(&disk);
    let taken = store.scan(&cold, 11, (1..59).map(|nth| nth * 1000));
    println!("11 records of 100 bytes: {taken:.1?}");
    assert_eq!(taken.reads, taken.used);
    assert!(taken.pages < taken.used * 1.02, "{taken:?}");

    drop(cold);
    let cold = Cold::open(&disk);
    let taken = store.scan(&cold, 100, (1..59).map(|nth| nth * 1000));
    println!("100 records of 100 bytes: {taken:.1?}");
    assert!(taken.pages < 1.3 * taken.used, "{taken:?}");
}

/// A whole store takes reads of 256 KiB.
#[test]
fn a_long_scan_takes_few_reads() {
    let store = Store {
        shares: &[1],
        ..OF_A_KILOBYTE
    };
    let disk = SimStorage::new(23);
    store.write(&disk);
    let cold = Cold::open(&disk);
    let taken = store.scan(&cold, store.records - 10, std::iter::once(10));
    println!("all records: {taken:.1?}");
    assert!(taken.used > 5000.0 && taken.reads < 100.0, "{taken:?}");
    assert!(taken.pages < 1.02 * taken.used, "{taken:?}");
}

/// A scan ends at its bound and reads nothing behind it.
#[test]
fn nothing_behind_a_bound_is_read_ahead() {
    let disk = SimStorage::new(24);
    OF_A_KILOBYTE.write(&disk);
    let cold = Cold::open(&disk);
    let before = (disk.counters(), cold.db.stats());
    for nth in 1..100 {
        let (from, to) = (nth * 150, nth * 150 + 40);
        let scan = cold.keyspace.scan(key(from)..key(to)).unwrap();
        assert_eq!(scan.map(Result::unwrap).count(), 40);
    }
    let after = (disk.counters(), cold.db.stats());
    let taken = Taken::since(before, after, 99, OF_A_KILOBYTE.page_bytes);
    println!("40 records up to a bound: {taken:.1?}");
    assert!(taken.pages < 1.02 * taken.used, "{taken:?}");
    assert!(taken.reads < taken.used, "{taken:?}");
}

/// Buckets of an HTable are read ahead, too, in the order of hashes.
#[test]
fn unordered_scans_read_ahead() {
    let disk = SimStorage::new(25);
    let design = Design {
        policy: "trie:8".parse().unwrap(),
        table: hedgerow::TableSpec::HTable,
        memtable_bytes: Some(4 << 20),
        ..Design::default()
    };
    let records = 6000;
    let db = opened(&disk);
    let keyspace = hashed(&db, design);
    for i in 0..records {
        keyspace.put(key(i), vec![7; 500]).unwrap();
    }
    keyspace.flush().unwrap();
    drop((db, keyspace));

    let db = opened(&disk);
    let keyspace = db.keyspace("hashed", Layout::hashed()).unwrap();
    let before = (disk.counters(), db.stats());
    let scan = keyspace.scan_unordered().unwrap();
    assert_eq!(scan.map(Result::unwrap).count() as u64, records);
    let taken = Taken::since(before, (disk.counters(), db.stats()), 1, 8192.0);
    println!("all records by their hashes: {taken:.1?}");
    assert!(taken.used > 300.0, "{taken:?}");
    assert!(taken.reads < 0.1 * taken.used, "{taken:?}");
}

/// A scan gives everything in front of a damaged block, then the error, however the block is read.
#[test]
fn damage_in_a_block_read_ahead_is_found_where_it_is() {
    let store = Store {
        records: 400,
        shares: &[1],
        ..OF_A_KILOBYTE
    };
    let disk = SimStorage::new(26);
    store.write(&disk);
    let table = &files(&disk, "tables")[0];
    let path = format!("{DIR}/tables/{table}");
    let bytes = disk.contents(&path).unwrap();
    // In the middle of the value of record 200.
    let damaged = 200;
    let at = bytes
        .windows(500)
        .position(|part| part.iter().all(|byte| *byte == damaged))
        .unwrap();
    disk.flip_bit(&path, 8 * at as u64 + 3).unwrap();

    let cold = Cold::open(&disk);
    let mut scan = cold.keyspace.scan(key(0)..).unwrap();
    for i in 0..195 {
        let (found, value) = scan.next().unwrap().unwrap();
        assert_eq!((&*found, &*value), (&*key(i), &*store.value(i)));
    }
    let error = scan.find_map(Result::err).unwrap();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    // Behind it, too.
    let rest = cold.keyspace.scan(key(205)..).unwrap();
    assert_eq!(rest.map(Result::unwrap).count(), 195);
}

/// A read of several blocks that fails once costs no scan its answer: the block is read alone.
#[test]
fn a_failed_read_ahead_is_made_again_for_the_wanted_block() {
    let store = Store {
        shares: &[1],
        ..OF_A_KILOBYTE
    };
    let disk = SimStorage::new(27);
    store.write(&disk);
    // The seek and the next block are read alone.
    for nth in 2..6 {
        for fault in [Fault::Io, Fault::Short] {
            let cold = Cold::open(&disk);
            let fired = disk.faults_fired();
            disk.fail_after(OpClass::Read, nth, fault);
            store.scan(&cold, 300, std::iter::once(1000));
            assert_eq!(disk.faults_fired(), fired + 1);
        }
    }
}
