//! Another design while reads and writes run: in force at once, durable before, and reached by
//! merges.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use hedgerow::io::sim::{Fault, OpClass, SimStorage};
use hedgerow::{
    Compression, Db, Design, ErrorKind, Event, FilterSpec, Keyspace, Layout, PolicySpec,
};

use crate::concurrency::threaded;
use crate::support::{self, Contents, builder, contents, key, kind, open, plain, value};

/// A small design of few levels, whatever the default.
fn small() -> Design {
    Design {
        policy: PolicySpec::leveling(10.0),
        ..support::small()
    }
}

/// Designs far from each other: few levels and many, all cuts, and sizes.
fn designs() -> Vec<Design> {
    let of = |policy: &str| Design {
        policy: policy.parse().unwrap(),
        ..small()
    };
    vec![
        of("leveling:2"),
        of("tiering:4"),
        of("garnering-paper:2,0.8"),
        of("lazy-leveling:4"),
        of("bush:3"),
        of("garnering:4,0.6"),
        of("leveling:100,whole-level"),
        of("leveling:3,partitioned"),
        Design {
            filter: FilterSpec::None,
            compression: Compression::Lz4,
            block_bytes: 2048,
            table_bytes: Some(16 << 10),
            memtable_bytes: Some(40 << 10),
            ..of("leveling:4")
        },
        Design {
            table_bytes: Some(8 << 10),
            ..of("leveling:2,partitioned")
        },
        small(),
    ]
}

fn filled(db: &Db, partitions: u16, count: u64) -> Keyspace {
    let layout = Layout::sorted().hash(partitions);
    let keyspace = db.keyspace_with("plain", layout, small()).unwrap();
    for i in 0..count {
        keyspace.put(key(i * 7919 % count), value(i)).unwrap();
    }
    keyspace
}

/// The trees have the shape that the design wants, as far as `stats` tells.
#[track_caller]
fn check_shape(keyspace: &Keyspace) {
    let stats = keyspace.stats();
    assert!(!stats.retuning, "{stats:?}");
    assert_eq!(stats.design, keyspace.design());
    assert_eq!(
        (stats.debt_bytes, stats.misplaced_bytes, stats.levels_over),
        (0, 0, 0),
        "{stats:?}"
    );
    for level in &stats.levels {
        let runs_due = match level.level {
            0 => level.target_runs,
            _ => level.target_runs.max(2),
        };
        assert!(level.runs < runs_due, "{stats:?}");
        let target = level.target_bytes.unwrap_or(u64::MAX);
        assert!(level.level == 0 || level.bytes <= target, "{stats:?}");
    }
}

/// The number of the last level that holds something.
fn last_level(keyspace: &Keyspace) -> usize {
    let levels = keyspace.stats().levels;
    let used = levels.iter().filter(|level| level.tables > 0);
    used.map(|level| level.level).max().unwrap()
}

#[test]
fn trees_come_from_every_shape_to_every_other_and_merging_stops() {
    let disk = SimStorage::new(1);
    let db = open(&disk);
    let keyspace = filled(&db, 2, 4000);
    let expected = contents(&keyspace);
    for from in designs() {
        for to in designs() {
            keyspace.retune(from.clone()).unwrap();
            keyspace.wait_until_merged().unwrap();
            keyspace.retune(to.clone()).unwrap();
            assert_eq!(keyspace.design(), to);
            assert_eq!(contents(&keyspace), expected, "{from:?} to {to:?}");
            keyspace.wait_until_merged().unwrap();
            check_shape(&keyspace);
            assert_eq!(contents(&keyspace), expected, "{from:?} to {to:?}");
            let merges = (db.stats().merges, db.stats().moves);
            keyspace.wait_until_merged().unwrap();
            assert_eq!((db.stats().merges, db.stats().moves), merges);
        }
    }
    db.verify().unwrap();
}

#[test]
fn levels_come_and_go_above_the_data() {
    let mut disk = SimStorage::new(2);
    let db = open(&disk);
    let keyspace = filled(&db, 1, 3000);
    keyspace.wait_until_merged().unwrap();
    let expected = contents(&keyspace);
    assert_eq!(last_level(&keyspace), 7);
    drop((db, keyspace));
    for policy in [
        "leveling:2",
        "leveling:4",
        "leveling:3",
        "leveling:100",
        "garnering:4,0.6",
        "leveling:2,partitioned",
    ] {
        let last = last_of_new(policy);
        disk = disk.kill();
        let db = open(&disk);
        let keyspace = db.existing_keyspace("plain").unwrap();
        let policy = policy.parse().unwrap();
        keyspace.retune(Design { policy, ..small() }).unwrap();
        keyspace.wait_until_merged().unwrap();
        assert_eq!(last_level(&keyspace), last, "{}", keyspace.shape());
        assert_eq!(contents(&keyspace), expected);
        // The manifest says so, too, whether it ends with the edits or was written anew.
        let reader = builder(&disk).read_only(true).open().unwrap();
        let reader = reader.existing_keyspace("plain").unwrap();
        assert_eq!(reader.shape(), keyspace.shape());
    }
    let last = last_of_new("leveling:2,partitioned");
    let db = open(&disk.kill());
    let keyspace = db.existing_keyspace("plain").unwrap();
    assert_eq!(last_level(&keyspace), last);
    keyspace.clear().unwrap();
    for i in 0..1000 {
        keyspace.put(key(i), value(i)).unwrap();
    }
    keyspace.compact::<&[u8]>(..).unwrap();
    assert_eq!(last_level(&keyspace), last);
}

/// The last level of a tree that was made with a policy.
fn last_of_new(policy: &str) -> usize {
    let db = open(&SimStorage::new(0));
    let policy = policy.parse().unwrap();
    let design = Design { policy, ..small() };
    let keyspace = db.keyspace_with("new", Layout::sorted(), design).unwrap();
    keyspace.put("k", "v").unwrap();
    keyspace.compact::<&[u8]>(..).unwrap();
    last_level(&keyspace)
}

#[test]
fn growing_moves_and_rewrites_nothing() {
    let disk = SimStorage::new(3);
    let db = open(&disk);
    let keyspace = filled(&db, 1, 3000);
    keyspace.compact::<&[u8]>(..).unwrap();
    let before = db.stats();
    let policy = "leveling:2".parse().unwrap();
    keyspace.retune(Design { policy, ..small() }).unwrap();
    keyspace.wait_until_merged().unwrap();
    assert_eq!(last_level(&keyspace), last_of_new("leveling:2"));
    let after = db.stats();
    assert_eq!((after.merges, after.moves), (before.merges, before.moves));
}

#[test]
fn tables_and_memtables_take_on_the_design_when_they_are_written() {
    let disk = SimStorage::new(4);
    let db = open(&disk);
    let keyspace = filled(&db, 1, 3000);
    let tables = |keyspace: &Keyspace| {
        let levels = keyspace.stats().levels;
        levels.iter().map(|l| l.tables).sum::<usize>()
    };
    keyspace.compact::<&[u8]>(..).unwrap();
    let (many, filters) = (tables(&keyspace), db.stats().filter_probes);
    let large = Design {
        filter: FilterSpec::None,
        table_bytes: Some(64 << 10),
        memtable_bytes: Some(64 << 10),
        ..small()
    };
    keyspace.retune(large).unwrap();
    keyspace.wait_until_merged().unwrap();
    // Nothing made it necessary to write the old tables again.
    assert_eq!(tables(&keyspace), many);
    let flushes = db.stats().flushes;
    for i in 0..3000 {
        keyspace.put(key(i), value(i + 1)).unwrap();
    }
    let flushed = db.stats().flushes - flushes;
    assert!((1..8).contains(&flushed), "{flushed} flushes");
    keyspace.compact::<&[u8]>(..).unwrap();
    assert!(tables(&keyspace) * 8 < many, "{}", keyspace.shape());
    keyspace.get(key(17)).unwrap();
    assert_eq!(db.stats().filter_probes, filters);
    // Smaller again: what is in the memtable is flushed by the next write.
    keyspace.put(key(1), [1; 8000]).unwrap();
    keyspace.retune(small()).unwrap();
    let flushes = db.stats().flushes;
    keyspace.put(key(2), value(2)).unwrap();
    keyspace.wait_until_merged().unwrap();
    assert_eq!(db.stats().flushes, flushes + 1);
}

fn listened(disk: &SimStorage) -> (Db, Arc<Mutex<Vec<String>>>) {
    let told = Arc::new(Mutex::new(Vec::new()));
    let heard = told.clone();
    let listener = move |event: &Event| match event {
        Event::Retuned { keyspace, from, to } => {
            let line = format!("{keyspace}: {} to {}", from.policy, to.policy);
            heard.lock().unwrap().push(line);
        }
        Event::Reshaped {
            keyspace,
            partition,
            ..
        } => {
            let line = format!("{keyspace}: {partition} is reshaped");
            heard.lock().unwrap().push(line);
        }
        _ => {}
    };
    (builder(disk).listener(listener).open().unwrap(), told)
}

#[test]
fn it_is_told_once_and_the_same_design_changes_nothing() {
    let disk = SimStorage::new(5);
    let (db, told) = listened(&disk);
    let keyspace = filled(&db, 2, 2000);
    keyspace.wait_until_merged().unwrap();
    let told = || std::mem::take(&mut *told.lock().unwrap());
    for (from, to) in [("leveling:10", "leveling:2"), ("leveling:2", "leveling:10")] {
        let policy = to.parse().unwrap();
        keyspace.retune(Design { policy, ..small() }).unwrap();
        assert!(keyspace.stats().retuning);
        keyspace.wait_until_merged().unwrap();
        for i in 0..2000 {
            keyspace.put(key(i), value(i + 1)).unwrap();
        }
        keyspace.wait_until_merged().unwrap();
        assert!(!keyspace.stats().retuning);
        let mut heard = told();
        assert_eq!(heard.remove(0), format!("plain: {from} to {to}"));
        heard.sort();
        assert_eq!(heard, ["plain: 0 is reshaped", "plain: 1 is reshaped"]);
    }
    let before = disk.operations();
    keyspace.retune(keyspace.design()).unwrap();
    assert_eq!(disk.operations(), before);
    keyspace.wait_until_merged().unwrap();
    assert_eq!(told(), Vec::<String>::new());
    // While one is under way, another.
    for design in designs() {
        keyspace.retune(design).unwrap();
    }
    keyspace.wait_until_merged().unwrap();
    check_shape(&keyspace);
    // `keyspace_with` of one that is there is the same.
    let policy = "leveling:5".parse().unwrap();
    let layout = keyspace.layout();
    told();
    let again = db.keyspace_with("plain", layout, Design { policy, ..small() });
    assert_eq!(again.unwrap().design(), keyspace.design());
    assert_eq!(told()[0], "plain: leveling:10 to leveling:5");
}

#[test]
fn what_is_refused_changes_nothing() {
    let disk = SimStorage::new(6);
    let (db, told) = listened(&disk);
    let keyspace = filled(&db, 1, 300);
    let old = keyspace.design();
    let bad = [
        Design {
            block_bytes: 1,
            ..small()
        },
        Design {
            filter: FilterSpec::Bloom {
                bits_per_key: f32::NAN,
            },
            ..small()
        },
        Design {
            memtable_bytes: Some(1),
            ..small()
        },
    ];
    let before = disk.operations();
    for design in bad {
        let refused = keyspace.retune(design);
        assert_eq!(kind(refused), ErrorKind::InvalidArgument);
    }
    assert_eq!(disk.operations(), before);
    let good = designs().remove(0);
    disk.set_capacity_bytes(Some(disk.used_bytes()));
    assert_eq!(kind(keyspace.retune(good.clone())), ErrorKind::NoSpace);
    disk.set_capacity_bytes(None);
    assert_eq!(keyspace.design(), old);
    assert_eq!(*told.lock().unwrap(), Vec::<String>::new());
    assert_eq!(plain_design(&disk.kill()), old);

    let reader = builder(&disk).read_only(true).open().unwrap();
    let of_reader = reader.existing_keyspace("plain").unwrap();
    assert_eq!(kind(of_reader.retune(good.clone())), ErrorKind::Unsupported);
    assert_eq!(kind(of_reader.retune(old.clone())), ErrorKind::Unsupported);

    let other = db.keyspace("other", Layout::sorted()).unwrap();
    db.drop_keyspace("other").unwrap();
    assert_eq!(kind(other.retune(good.clone())), ErrorKind::Closed);
    db.close().unwrap();
    assert_eq!(kind(keyspace.retune(good.clone())), ErrorKind::Closed);
    assert_eq!(plain_design(&disk.kill()), old);
}

fn plain_design(disk: &SimStorage) -> Design {
    let db = builder(disk).open().unwrap();
    let keyspace = db.existing_keyspace("plain").unwrap();
    keyspace.design()
}

#[test]
fn a_manifest_that_fails_poisons_and_keeps_the_design_in_force() {
    let disk = SimStorage::new(7);
    let db = open(&disk);
    let keyspace = filled(&db, 1, 300);
    let (old, new) = (keyspace.design(), designs().remove(0));
    disk.fail_path_after(OpClass::Sync, "MANIFEST", 0, Fault::Io);
    assert_eq!(kind(keyspace.retune(new.clone())), ErrorKind::Poisoned);
    disk.clear_faults();
    assert_eq!(kind(keyspace.retune(new.clone())), ErrorKind::Poisoned);
    assert_eq!(keyspace.design(), old);
    drop((db, keyspace));
    let found = plain_design(&disk.crash());
    assert!([old, new].contains(&found), "{found:?}");
}

#[test]
fn snapshots_and_cursors_read_on() {
    let disk = SimStorage::new(8);
    let db = open(&disk);
    let keyspace = filled(&db, 2, 2000);
    let expected = contents(&keyspace);
    let snapshot = db.snapshot().unwrap();
    let mut cursor = keyspace.cursor().unwrap();
    cursor.seek_first().unwrap();
    for design in designs() {
        keyspace.retune(design).unwrap();
        for i in 0..2000 {
            keyspace.put(key(i), value(i + 1)).unwrap();
        }
        keyspace.wait_until_merged().unwrap();
        let scan = snapshot.scan::<&[u8]>(&keyspace, ..).unwrap();
        let found = scan.map(|item| item.map(|(k, v)| (k.to_vec(), v.to_vec())));
        assert_eq!(found.collect::<Result<Contents, _>>().unwrap(), expected);
        for _ in 0..100 {
            let (k, v) = (cursor.key().unwrap().to_vec(), cursor.value().unwrap());
            assert_eq!(v, expected.get(&k).map(Vec::as_slice));
            assert!(cursor.next().unwrap());
        }
    }
}

/// The power goes at every operation of the disk from the retune on until the tree has its shape.
#[test]
fn a_crash_in_the_middle_is_like_any_other() {
    let full = std::env::var_os("HEDGEROW_FULL").is_some();
    for (seed, new) in designs().into_iter().enumerate() {
        let start = SimStorage::new(seed as u64);
        let db = open(&start);
        let keyspace = filled(&db, 1, 1500);
        let expected = contents(&keyspace);
        keyspace.wait_until_merged().unwrap();
        db.close().unwrap();
        let mut count = 0;
        loop {
            let disk = start.kill();
            let db = open(&disk);
            let keyspace = db.existing_keyspace("plain").unwrap();
            let old = keyspace.design();
            disk.crash_after(count);
            let retuned = keyspace.retune(new.clone());
            let merged = keyspace.wait_until_merged();
            let survived = !disk.power_lost();
            assert!(retuned.is_ok() || !survived, "{retuned:?}");
            assert!(merged.is_ok() || !survived, "{merged:?}");
            let disk = disk.crash();
            let db = open(&disk);
            let keyspace = db.existing_keyspace("plain").unwrap();
            match retuned {
                Ok(()) => assert_eq!(keyspace.design(), new),
                Err(_) => assert!([old, new.clone()].contains(&keyspace.design())),
            }
            assert_eq!(contents(&keyspace), expected, "{count} of {new:?}");
            keyspace.wait_until_merged().unwrap();
            check_shape(&keyspace);
            db.verify().unwrap();
            assert_eq!(contents(&keyspace), expected, "{count} of {new:?}");
            if survived {
                break;
            }
            count += if full { 1 } else { 1 + count / 7 };
        }
    }
}

/// Every acknowledged write is found, at once and in the end.
#[test]
fn readers_and_writers_do_not_notice() {
    const WRITERS: u64 = 2;
    const KEYS: u64 = 700;
    let disk = SimStorage::new(9);
    let db = threaded(&disk).open().unwrap();
    let layout = Layout::sorted().hash(2);
    let keyspace = db.keyspace_with("plain", layout, small()).unwrap();
    let acknowledged: Vec<AtomicU64> = (0..WRITERS * KEYS).map(|_| AtomicU64::new(0)).collect();
    let over = AtomicBool::new(false);
    let number = |bytes: &[u8]| u64::from_be_bytes(bytes[..8].try_into().unwrap());
    let write = |writer: u64| {
        for round in 1_u64.. {
            for i in (0..KEYS).map(|i| writer * KEYS + i * 383 % KEYS) {
                let value = [&round.to_be_bytes()[..], &[7; 40]].concat();
                keyspace.put(key(i), value).unwrap();
                acknowledged[i as usize].store(round, Ordering::Release);
                if over.load(Ordering::Relaxed) {
                    return;
                }
            }
        }
    };
    let read = |reader: u64| {
        let mut i = reader;
        while !over.load(Ordering::Relaxed) {
            i = (i * 31 + 7) % (WRITERS * KEYS);
            let before = acknowledged[i as usize].load(Ordering::Acquire);
            let found = keyspace.get(key(i)).unwrap();
            let found = found.map_or(0, |value| number(&value));
            assert!(found >= before, "key {i}: {found} after {before}");
            if i.is_multiple_of(64) {
                let snapshot = db.snapshot().unwrap();
                let one = snapshot.get(&keyspace, key(i)).unwrap();
                thread::yield_now();
                assert_eq!(snapshot.get(&keyspace, key(i)).unwrap(), one);
                let floor: Vec<_> = acknowledged
                    .iter()
                    .map(|a| a.load(Ordering::Acquire))
                    .collect();
                let mut seen = 0;
                for item in keyspace.scan::<&[u8]>(..).unwrap() {
                    let (k, value) = item.unwrap();
                    let i: usize = std::str::from_utf8(&k[4..]).unwrap().parse().unwrap();
                    assert!(number(&value) >= floor[i]);
                    seen += 1;
                }
                assert!(seen >= floor.iter().filter(|&&round| round > 0).count());
            }
        }
    };
    thread::scope(|scope| {
        for t in 0..WRITERS {
            scope.spawn(move || write(t));
            scope.spawn(move || read(t));
        }
        for round in 0..12 {
            for (i, design) in designs().into_iter().enumerate() {
                keyspace.retune(design).unwrap();
                // Now and then it gets the time to come there.
                if (i + round) % 4 == 0 {
                    keyspace.wait_until_merged().unwrap();
                }
                if (i + round) % 9 == 0 {
                    keyspace.compact::<&[u8]>(..).unwrap();
                }
            }
        }
        over.store(true, Ordering::Relaxed);
    });
    let check = |db: &Db| {
        let keyspace = db.existing_keyspace("plain").unwrap();
        for (i, round) in acknowledged.iter().enumerate() {
            let found = keyspace.get(key(i as u64)).unwrap();
            let found = found.map_or(0, |value| number(&value));
            assert_eq!(found, round.load(Ordering::Relaxed), "key {i}");
        }
        keyspace.wait_until_merged().unwrap();
        check_shape(&keyspace);
        db.verify().unwrap();
    };
    check(&db);
    assert_eq!(db.stats().panics, 0);
    check(&open(&disk.kill()));
}

#[test]
fn a_bulk_load_is_of_the_design_that_it_began_with() {
    let disk = SimStorage::new(10);
    let db = open(&disk);
    let keyspace = plain(&db);
    keyspace.retune(small()).unwrap();
    let large = Design {
        table_bytes: Some(1 << 20),
        ..designs().remove(0)
    };
    let entries = (0..3000).map(|i| {
        if i == 1500 {
            keyspace.retune(large.clone()).unwrap();
        }
        Ok::<_, hedgerow::Error>((key(i), value(i)))
    });
    let report = keyspace.bulk_load(entries).unwrap();
    assert!(report.tables > 20, "{report:?}");
    assert_eq!(keyspace.design(), large);
    assert_eq!(contents(&keyspace).len(), 3000);
    keyspace.wait_until_merged().unwrap();
    check_shape(&keyspace);
}
