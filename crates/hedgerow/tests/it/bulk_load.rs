//! Bulk loads: one commit made of tables, seen wholly or not at all.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use hedgerow::io::sim::{Fault, OpClass, SimStorage};
use hedgerow::{BulkLoadReport, Db, Durability, Error, ErrorKind, Keyspace, Layout, Result};

use crate::concurrency::threaded;
use crate::support::{
    Contents, builder, contents, files, key, kind, open, plain, plain_small, read_all, small, value,
};

fn layouts() -> [Layout; 3] {
    let by_range = [key(0), key(300), key(301), key(700)];
    [
        Layout::sorted(),
        Layout::sorted().hash(4),
        Layout::sorted().range(by_range),
    ]
}

/// The value that a load puts under a key. It differs from every one of [`value`].
fn loaded(i: u64) -> Vec<u8> {
    let long = if i % 50 == 7 { 3000 } else { i as usize % 40 };
    format!("loaded-{i}-{}", "y".repeat(long)).into_bytes()
}

/// Every third of `count` keys.
fn sorted(count: u64) -> impl Iterator<Item = Result<(Vec<u8>, Vec<u8>)>> {
    (0..count).step_by(3).map(|i| Ok((key(i), loaded(i))))
}

fn load(keyspace: &Keyspace, count: u64, model: &mut Contents) -> BulkLoadReport {
    let report = keyspace.bulk_load(sorted(count)).unwrap();
    model.extend(sorted(count).map(Result::unwrap));
    report
}

/// Levels of tables, and something in the memtable.
fn fill(keyspace: &Keyspace, model: &mut Contents) {
    for i in (0..600).chain(300..500) {
        keyspace.put(key(i), value(i)).unwrap();
        model.insert(key(i), value(i));
    }
    for i in (0..600).step_by(7) {
        keyspace.delete(key(i)).unwrap();
        model.remove(&key(i));
    }
}

fn of_snapshot(snapshot: &hedgerow::Snapshot, keyspace: &Keyspace) -> Contents {
    let scan = snapshot.scan::<&[u8]>(keyspace, ..).unwrap();
    let found: Contents = scan
        .map(|item| item.map(|(k, v)| (k.to_vec(), v.to_vec())).unwrap())
        .collect();
    for i in 0..700 {
        let value = snapshot.get(keyspace, key(i)).unwrap();
        assert_eq!(value.as_deref(), found.get(&key(i)).map(Vec::as_slice));
    }
    found
}

#[test]
fn load_is_one_commit_over_whatever_was_there() {
    for layout in layouts() {
        for filled in [false, true] {
            check_one_commit(layout.clone(), filled);
        }
    }
}

fn check_one_commit(layout: Layout, filled: bool) {
    let disk = SimStorage::new(1);
    let db = open(&disk);
    let keyspace = db.keyspace_with("plain", layout, small()).unwrap();
    let mut model = Contents::new();
    if filled {
        fill(&keyspace, &mut model);
    }
    let (before, model_before) = (db.snapshot().unwrap(), model.clone());
    let report = load(&keyspace, 900, &mut model);
    assert_eq!(report.entries, 300);
    assert!(report.tables > 1 && report.bytes > 4096, "{report:?}");
    let (after, model_after) = (db.snapshot().unwrap(), model.clone());
    assert_eq!(contents(&keyspace), model);
    assert_eq!(of_snapshot(&before, &keyspace), model_before);
    db.verify().unwrap();

    // Later writes are newer, in memtables, level 0 and below.
    for i in (0..900).step_by(5) {
        keyspace.put(key(i), value(i)).unwrap();
        model.insert(key(i), value(i));
        keyspace.delete(key(i + 1)).unwrap();
        model.remove(&key(i + 1));
    }
    for step in 0..3 {
        match step {
            0 => {}
            1 => keyspace.flush().unwrap(),
            _ => keyspace.compact::<&[u8]>(..).unwrap(),
        }
        assert_eq!(contents(&keyspace), model);
        assert_eq!(of_snapshot(&before, &keyspace), model_before);
        assert_eq!(of_snapshot(&after, &keyspace), model_after);
        db.verify().unwrap();
        let image = open(&disk.kill());
        assert_eq!(contents(&image.existing_keyspace("plain").unwrap()), model);
        image.verify().unwrap();
    }
    // Again over itself, also where it is in the way of nobody's snapshot.
    drop((before, after));
    load(&keyspace, 900, &mut model);
    keyspace.compact::<&[u8]>(..).unwrap();
    assert_eq!(contents(&keyspace), model);
    db.checkpoint("/copy").unwrap();
    drop((keyspace, db));
    for dir in ["/db", "/copy"] {
        let environment = hedgerow::io::Environment::simulated(&disk, 1);
        let db = Db::builder(dir).environment(environment).open().unwrap();
        assert_eq!(contents(&db.existing_keyspace("plain").unwrap()), model);
        db.verify().unwrap();
    }
}

#[test]
fn new_keys_go_to_the_deepest_level_and_are_not_merged() {
    let disk = SimStorage::new(2);
    let db = open(&disk);
    let keyspace = plain_small(&db);
    for part in 0..5 {
        let entries = (part * 300..(part + 1) * 300).map(|i| Ok::<_, Error>((key(i), value(i))));
        keyspace.bulk_load(entries).unwrap();
    }
    keyspace.wait_until_merged().unwrap();
    let levels = keyspace.stats().levels;
    let full: Vec<_> = levels.iter().filter(|l| l.tables > 0).collect();
    assert_eq!((full.len(), full[0].runs, full[0].entries), (1, 1, 1500));
    assert!(full[0].level > 1, "{levels:?}");
    let stats = db.stats();
    assert_eq!((stats.merge_write_bytes, stats.flush_bytes), (0, 0));
    assert_eq!(stats.puts, 1500);
    assert!(stats.bulk_load_bytes > stats.user_bytes / 2);
    let amplification = stats.bulk_load_bytes as f64 / stats.user_bytes as f64;
    assert!((stats.write_amplification() - amplification).abs() < 1e-9);

    // One that overlaps is the newest run of level 0.
    keyspace
        .bulk_load([Ok::<_, Error>((key(7), "new"))])
        .unwrap();
    assert_eq!(keyspace.stats().levels[0].entries, 1);
    assert_eq!(keyspace.get(key(7)).unwrap().as_deref(), Some(&b"new"[..]));
    db.verify().unwrap();
}

#[test]
fn keys_out_of_order_are_refused_and_nothing_is_seen() {
    for layout in layouts() {
        let disk = SimStorage::new(3);
        let db = open(&disk);
        let keyspace = db.keyspace_with("plain", layout, small()).unwrap();
        keyspace.put("there", "already").unwrap();
        keyspace.flush().unwrap();
        let expected = contents(&keyspace);
        let tables = files(&disk, "tables");
        for wrong in [key(299), key(0), key(298), Vec::new(), vec![0; 70_000]] {
            let entries = (0..300).map(|i| (key(i), value(i)));
            let entries = entries.chain([(wrong.clone(), vec![])]);
            let mut most = 0;
            let counted = entries.inspect(|_| most = most.max(files(&disk, "tables").len()));
            let error = keyspace.bulk_load(counted.map(Ok::<_, Error>)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
            if wrong.starts_with(b"key") {
                let message = error.to_string();
                let found = format!("`{}` after `key-000299`", wrong.escape_ascii());
                assert!(message.contains(&found), "{message}");
            }
            // Tables had been written, and none is left.
            assert!(most > tables.len() + 1);
            assert_eq!(files(&disk, "tables"), tables);
            assert_eq!(contents(&keyspace), expected);
        }
        db.verify().unwrap();
        assert_eq!(db.stats().bulk_load_bytes, 0);
    }
}

#[test]
fn error_of_the_input_is_the_error_of_the_load() {
    #[derive(Debug)]
    enum Wrong {
        Line(u64),
        Database(#[allow(dead_code, reason = "shown when the test fails")] Error),
    }
    impl From<Error> for Wrong {
        fn from(error: Error) -> Wrong {
            Wrong::Database(error)
        }
    }
    let disk = SimStorage::new(4);
    let db = open(&disk);
    let keyspace = plain(&db);
    let line = |i| match i {
        100 => Err(Wrong::Line(i)),
        _ => Ok((key(i), value(i))),
    };
    let error = keyspace.bulk_load((0..200).map(line)).unwrap_err();
    assert!(matches!(error, Wrong::Line(100)), "{error:?}");
    assert_eq!(contents(&keyspace), Contents::new());
    assert_eq!(files(&disk, "tables"), Vec::<String>::new());
}

#[test]
fn empty_load_does_nothing() {
    let disk = SimStorage::new(5);
    let db = open(&disk);
    let keyspace = plain(&db);
    let none: [Result<(Vec<u8>, Vec<u8>)>; 0] = [];
    assert_eq!(keyspace.bulk_load(none).unwrap(), BulkLoadReport::default());
    assert_eq!(files(&disk, "tables"), Vec::<String>::new());
    db.verify().unwrap();
}

#[test]
fn load_replaces_what_was_written_while_it_ran() {
    for layout in layouts() {
        let disk = SimStorage::new(6);
        let db = open(&disk);
        let keyspace = db.keyspace_with("plain", layout, small()).unwrap();
        let mut model = Contents::new();
        let mut snapshots = Vec::new();
        let entries = sorted(600).enumerate().inspect(|(n, _)| {
            // Keys that were loaded, keys that will be, and others.
            for i in [0, *n as u64, 3 * *n as u64, 597] {
                keyspace.put(key(i), value(i)).unwrap();
                model.insert(key(i), value(i));
            }
            if n % 50 == 20 {
                keyspace.flush().unwrap();
                snapshots.push((db.snapshot().unwrap(), model.clone()));
            }
        });
        keyspace.bulk_load(entries.map(|(_, entry)| entry)).unwrap();
        model.extend(sorted(600).map(Result::unwrap));
        assert_eq!(contents(&keyspace), model);
        for _ in 0..2 {
            for (snapshot, expected) in &snapshots {
                assert_eq!(of_snapshot(snapshot, &keyspace), *expected);
            }
            keyspace.compact::<&[u8]>(..).unwrap();
            assert_eq!(contents(&keyspace), model);
        }
        db.verify().unwrap();
        let image = open(&disk.crash());
        assert_eq!(contents(&image.existing_keyspace("plain").unwrap()), model);
    }
}

#[test]
fn update_does_not_write_over_a_load_that_it_has_not_seen() {
    let disk = SimStorage::new(7);
    let db = open(&disk);
    let keyspace = plain(&db);
    keyspace.put(key(0), "old").unwrap();
    let mut seen = Vec::new();
    keyspace
        .update(key(0), |old| {
            seen.push(old.map(<[u8]>::to_vec));
            if seen.len() == 1 {
                keyspace.bulk_load(sorted(1)).unwrap();
            }
            Some([old.unwrap(), b"+"].concat())
        })
        .unwrap();
    assert_eq!(seen, [Some(b"old".to_vec()), Some(loaded(0))]);
    let expected = [&loaded(0)[..], b"+"].concat();
    assert_eq!(
        keyspace.get(key(0)).unwrap().as_deref(),
        Some(&expected[..])
    );
}

#[test]
fn clear_and_close_end_a_load() {
    let disk = SimStorage::new(8);
    let db = open(&disk);
    let keyspace = plain(&db);
    let then = |act: &dyn Fn()| {
        let entries = sorted(300).inspect(move |entry| {
            if entry.as_ref().unwrap().0 == key(150) {
                act();
            }
        });
        kind(keyspace.bulk_load(entries))
    };
    assert_eq!(then(&|| keyspace.clear().unwrap()), ErrorKind::Closed);
    assert_eq!(contents(&keyspace), Contents::new());
    assert_eq!(files(&disk, "tables"), Vec::<String>::new());
    assert_eq!(then(&|| db.clone().close().unwrap()), ErrorKind::Closed);
    assert_eq!(contents(&plain(&open(&disk))), Contents::new());
    assert_eq!(files(&disk, "tables"), Vec::<String>::new());
}

#[test]
fn a_late_load_takes_no_file_of_the_next_database() {
    let disk = SimStorage::new(9);
    let db = open(&disk);
    let keyspace = plain_small(&db);
    let (next, model) = (Mutex::new(None), Mutex::new(Contents::new()));
    let entries = sorted(900).inspect(|entry| {
        if entry.as_ref().unwrap().0 == key(150) {
            db.clone().close().unwrap();
            builder(&disk).destroy().unwrap();
            // Its tables have the numbers of those of the load.
            let other = open(&disk);
            let keyspace = plain_small(&other);
            fill(&keyspace, &mut model.lock().unwrap());
            keyspace.flush().unwrap();
            *next.lock().unwrap() = Some(other);
        }
    });
    assert_eq!(kind(keyspace.bulk_load(entries)), ErrorKind::Closed);
    let other = next.into_inner().unwrap().unwrap();
    other.close().unwrap();
    let again = open(&disk);
    again.verify().unwrap();
    assert_eq!(contents(&plain_small(&again)), model.into_inner().unwrap());
}

/// A keyspace with something in tables, memtable and log, and what is in it.
fn prepared(disk: &SimStorage, layout: Layout) -> (Db, Keyspace, Contents) {
    let db = open(disk);
    let keyspace = db.keyspace_with("plain", layout, small()).unwrap();
    let mut model = Contents::new();
    for i in 0..60 {
        keyspace.put(key(i), value(i)).unwrap();
        model.insert(key(i), value(i));
        if i == 40 {
            keyspace.flush().unwrap();
        }
    }
    db.sync().unwrap();
    (db, keyspace, model)
}

#[test]
fn crash_at_any_moment_keeps_all_of_a_load_or_nothing() {
    for layout in layouts() {
        let mut outcomes = [0, 0];
        for after in 0.. {
            let disk = SimStorage::new(after);
            let (db, keyspace, before) = prepared(&disk, layout.clone());
            // Not durable yet: the load may survive only together with it. A flush of what the
            // keyspace itself has would see to that.
            let mut all = before.clone();
            if after % 2 == 0 {
                keyspace.put(key(1), "earlier").unwrap();
                all.insert(key(1), b"earlier".to_vec());
            }
            let other = db.keyspace("other", layout.clone()).unwrap();
            other.put(key(1), "earlier").unwrap();
            let earlier = all.clone();
            all.extend(sorted(900).map(Result::unwrap));

            disk.crash_after(after);
            let result = keyspace.bulk_load(sorted(900));
            let survived = !disk.power_lost();
            // The last operation writes the mark of a load that is durable.
            let is_loaded = result.is_ok();
            assert!(is_loaded || !survived, "{after}: {result:?}");
            drop((keyspace, other, db));
            for _ in 0..4 {
                let image = disk.crash();
                let db = open(&image);
                let found = contents(&db.existing_keyspace("plain").unwrap());
                assert!(
                    found == all || (!is_loaded && (found == before || found == earlier)),
                    "{after}: {} entries",
                    found.len()
                );
                let other = db.existing_keyspace("other").unwrap();
                assert!(found != all || other.contains_key(key(1)).unwrap());
                outcomes[usize::from(found == all)] += 1;
                let report = db.verify().unwrap();
                // Tables of unfinished loads are gone.
                assert_eq!(files(&image, "tables").len() as u64, report.tables);
            }
            if survived {
                break;
            }
        }
        assert!(outcomes[0] > 50 && outcomes[1] >= 4, "{outcomes:?}");
    }
}

#[test]
fn failed_load_leaves_nothing_or_poisons() {
    for class in [
        OpClass::Create,
        OpClass::Write,
        OpClass::Sync,
        OpClass::Name,
    ] {
        for fault in [Fault::Io, Fault::Short, Fault::StorageFull] {
            for nth in 0..200 {
                let disk = SimStorage::new(nth);
                let (db, keyspace, before) = prepared(&disk, Layout::sorted().hash(4));
                let fired = disk.faults_fired();
                disk.fail_after(class, nth, fault);
                let result = keyspace.bulk_load(sorted(100));
                if disk.faults_fired() == fired {
                    break;
                }
                let mut all = before.clone();
                all.extend(sorted(100).map(Result::unwrap));
                let case = format!("{class:?} {fault:?} {nth}: {result:?}");
                let found = contents(&keyspace);
                assert_eq!(found == all, result.is_ok(), "{case}");
                assert!(result.is_ok() || found == before, "{case}");
                disk.clear_faults();
                let poisoned = kind_of(&result) == Some(ErrorKind::Poisoned);
                if !poisoned {
                    match keyspace.bulk_load(sorted(100)) {
                        // The load was durable, and its mark could not be written.
                        Err(error) if result.is_ok() => {
                            assert_eq!(error.kind(), ErrorKind::Poisoned, "{case}");
                        }
                        // The next attempt finds nothing in its way.
                        again => drop(again.unwrap()),
                    }
                    assert_eq!(contents(&keyspace), all, "{case}");
                    db.verify().unwrap();
                }
                drop((keyspace, db));
                let db = open(&disk.kill());
                let found = contents(&db.existing_keyspace("plain").unwrap());
                assert!(found == all || (poisoned && found == before), "{case}");
                db.verify().unwrap();
            }
        }
    }
}

fn kind_of<T>(result: &Result<T>) -> Option<ErrorKind> {
    result.as_ref().err().map(Error::kind)
}

#[test]
fn repair_keeps_loads_newer_than_what_they_replaced() {
    for manifest_is_lost in [false, true] {
        let disk = SimStorage::new(9);
        let (db, keyspace, mut model) = prepared(&disk, Layout::sorted());
        keyspace.put(key(0), "the last write before").unwrap();
        load(&keyspace, 200, &mut model);
        for i in (0..200).step_by(11) {
            keyspace.put(key(i), value(i)).unwrap();
            model.insert(key(i), value(i));
        }
        db.sync().unwrap();
        drop((keyspace, db));
        if manifest_is_lost {
            disk.set_contents("/db/MANIFEST", b"").unwrap();
        }
        hedgerow::repair_with(builder(&disk)).unwrap();
        let db = open(&disk);
        let name = db.keyspaces().remove(0);
        let keyspace = db.existing_keyspace(&name).unwrap();
        assert_eq!(contents(&keyspace), model, "{manifest_is_lost}");
        db.verify().unwrap();
        // Later numbers are above those of the load.
        keyspace.put(key(3), "after").unwrap();
        assert_eq!(
            keyspace.get(key(3)).unwrap().as_deref(),
            Some(&b"after"[..])
        );
    }
}

#[test]
fn many_partitions_stay_within_the_budget() {
    let disk = SimStorage::new(10);
    let db = builder(&disk).memory_budget(4 << 20).open().unwrap();
    let layout = Layout::sorted().hash(16);
    let design = hedgerow::Design {
        compression: hedgerow::Compression::None,
        ..Default::default()
    };
    let keyspace = db.keyspace_with("many", layout, design).unwrap();
    let (mut over, mut merges) = (0, 0);
    let entries = (0..60_000).map(|i| {
        if i % 1000 == 0 {
            let memory = db.stats().memory;
            over = over.max(memory.total().saturating_sub(memory.budget));
            merges = merges.max(memory.merges);
        }
        Ok::<_, Error>((key(i), [1; 100]))
    });
    assert_eq!(keyspace.bulk_load(entries).unwrap().entries, 60_000);
    assert!(merges > 0);
    assert_eq!(over, 0);
    assert_eq!(db.stats().memory.merges, 0);
    assert_eq!(keyspace.scan::<&[u8]>(..).unwrap().count(), 60_000);
}

#[test]
fn readers_beside_loads_see_each_wholly_and_in_order() {
    const KEYS: u64 = 64;
    const LOADS: u64 = 30;
    let disk = SimStorage::new(11);
    let db = threaded(&disk).open().unwrap();
    let layout = Layout::sorted().hash(4);
    let keyspace = db.keyspace_with("k", layout.clone(), small()).unwrap();
    let other = db.keyspace_with("other", layout, small()).unwrap();
    let generation = |g: u64| (0..KEYS).map(move |i| Ok::<_, Error>((key(i), g.to_be_bytes())));
    keyspace.bulk_load(generation(0)).unwrap();
    let number = |value: &[u8]| u64::from_be_bytes(value.try_into().unwrap());
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for g in 1..=LOADS {
                keyspace.bulk_load(generation(g)).unwrap();
            }
            done.store(true, Ordering::Release);
        });
        scope.spawn(|| {
            // Writers of both keyspaces, to flush and merge meanwhile.
            for i in (0..).take_while(|_| !done.load(Ordering::Acquire)) {
                other.put(key(i % 500), value(i)).unwrap();
                let durability = [Durability::Buffered, Durability::Synced][i as usize % 2];
                keyspace
                    .put_with(key(1000 + i % 500), value(i), durability)
                    .unwrap();
            }
        });
        for reader in 0..2 {
            let (db, keyspace, done) = (&db, &keyspace, &done);
            scope.spawn(move || {
                let mut least = 0;
                let mut i = reader;
                while !done.load(Ordering::Acquire) {
                    i = (i * 5 + 1) % KEYS;
                    let found = number(&keyspace.get(key(i)).unwrap().unwrap());
                    assert!(found >= least, "a get went back from {least} to {found}");
                    let snapshot = db.snapshot().unwrap();
                    for _ in 0..2 {
                        let seen = snapshot.get(keyspace, key(i)).unwrap().unwrap();
                        let scan = snapshot.scan(keyspace, ..key(KEYS)).unwrap();
                        let all: Vec<_> = scan.map(|item| number(&item.unwrap().1)).collect();
                        assert_eq!(all, vec![number(&seen); KEYS as usize]);
                        assert!(all[0] >= found, "a snapshot is older than a get before it");
                        least = all[0];
                    }
                }
            });
        }
    });
    let found = read_all(&keyspace).unwrap();
    assert!((0..KEYS).all(|i| number(&found[&key(i)]) == LOADS));
    db.verify().unwrap();
}
