//! Operations that fail, and a disk without room.

use hedgerow::io::sim::{Fault, OpClass, SimStorage};
use hedgerow::{Durability, ErrorKind, Keyspace, Layout};

use crate::support::{
    Contents, DIR, builder, contents, files, key, kind, open, plain, plain_small, put_synced,
    small, value,
};

/// Writes until one fails; what was acknowledged is added to `expected`. The error's kind, if any.
fn write_until_error(
    keyspace: &Keyspace,
    range: std::ops::Range<u64>,
    expected: &mut Contents,
) -> Option<ErrorKind> {
    for i in range {
        match keyspace.put(key(i), value(i)) {
            Ok(()) => drop(expected.insert(key(i), value(i))),
            Err(error) => return Some(error.kind()),
        }
    }
    None
}

#[test]
fn no_room_to_preallocate_is_no_space_and_writes_resume_when_there_is_room() {
    let disk = SimStorage::new(1);
    let db = open(&disk);
    let keyspace = plain(&db);
    put_synced(&keyspace, 0);
    let mut expected = contents(&keyspace);
    disk.set_capacity_bytes(Some(disk.used_bytes() + 1000));
    let failed = write_until_error(&keyspace, 1..10_000, &mut expected);
    assert_eq!(failed, Some(ErrorKind::NoSpace));
    // Each write is refused again, and reads still work.
    for i in 0..10 {
        let refused = keyspace.put(key(i), [0; 2000]);
        assert_eq!(kind(refused), ErrorKind::NoSpace);
        assert_eq!(contents(&keyspace), expected);
    }
    disk.set_capacity_bytes(None);
    let failed = write_until_error(&keyspace, 10_000..12_000, &mut expected);
    assert_eq!(failed, None);
    assert_eq!(contents(&keyspace), expected);
    assert_eq!(contents(&plain(&open(&disk.kill()))), expected);
    db.sync().unwrap();
    assert_eq!(contents(&plain(&open(&disk.crash()))), expected);
}

#[test]
fn flush_without_room_fails_and_works_when_there_is_room() {
    let disk = SimStorage::new(2);
    let db = open(&disk);
    let keyspace = plain(&db);
    let mut expected = Contents::new();
    write_until_error(&keyspace, 0..500, &mut expected);
    disk.set_capacity_bytes(Some(disk.used_bytes() + 1000));
    assert_eq!(kind(keyspace.flush()), ErrorKind::NoSpace);
    assert_eq!(contents(&keyspace), expected);
    disk.set_capacity_bytes(None);
    keyspace.flush().unwrap();
    keyspace.put(b"more", b"").unwrap();
    expected.insert(b"more".to_vec(), vec![]);
    assert_eq!(contents(&keyspace), expected);
    assert_eq!(contents(&plain(&open(&disk.kill()))), expected);
}

#[test]
fn huge_record_without_room_leaves_no_gap_in_the_log() {
    let disk = SimStorage::new(3);
    let db = builder(&disk).log_segment_bytes(4 << 10).open().unwrap();
    let keyspace = plain(&db);
    let mut expected = Contents::new();
    // A spare segment is ready after these; it is too small for the huge record.
    write_until_error(&keyspace, 0..60, &mut expected);
    disk.set_capacity_bytes(Some(disk.used_bytes()));
    let huge = vec![1; 50 << 10];
    assert_eq!(kind(keyspace.put(b"huge", &huge)), ErrorKind::NoSpace);
    disk.set_capacity_bytes(None);
    let failed = write_until_error(&keyspace, 60..300, &mut expected);
    assert_eq!(failed, None);
    keyspace.put(b"huge", &huge).unwrap();
    expected.insert(b"huge".to_vec(), huge);
    assert_eq!(contents(&plain(&open(&disk.kill()))), expected);
    db.close().unwrap();
    assert_eq!(contents(&plain(&open(&disk))), expected);
}

#[test]
fn failed_preparation_of_a_segment_is_overcome_or_poisons() {
    for class in [
        OpClass::Create,
        OpClass::Name,
        OpClass::Write,
        OpClass::Sync,
    ] {
        for fault in [Fault::Io, Fault::StorageFull, Fault::Short] {
            for huge in [false, true] {
                for nth in 0..12 {
                    check_preparation(class, fault, nth, huge);
                }
            }
        }
    }
}

fn check_preparation(class: OpClass, fault: Fault, nth: u64, huge: bool) {
    let case = format!("{class:?} {fault:?} {nth} {huge}");
    let disk = SimStorage::new(nth);
    let db = builder(&disk).log_segment_bytes(4 << 10).open().unwrap();
    let keyspace = plain(&db);
    let mut expected = Contents::new();
    // Makes segments to recycle.
    assert_eq!(write_until_error(&keyspace, 0..100, &mut expected), None);
    keyspace.flush().unwrap();
    let from_log = if class == OpClass::Write {
        nth * 9
    } else {
        nth
    };
    disk.fail_path_after(class, "/log", from_log, fault);
    let mut poisoned = false;
    for i in 100..400 {
        let value = if huge && i % 50 == 0 {
            vec![2; 9000]
        } else {
            value(i)
        };
        match keyspace.put(key(i), &value) {
            Ok(()) => drop(expected.insert(key(i), value)),
            Err(error) => poisoned |= error.kind() == ErrorKind::Poisoned,
        }
    }
    let found = contents(&keyspace);
    assert!(
        expected.iter().all(|(k, v)| found.get(k) == Some(v)),
        "{case}"
    );
    let resumed = keyspace.put(b"last", b"v").map_err(|e| e.kind());
    match resumed {
        Ok(()) => assert!(!poisoned, "{case}"),
        Err(error) => assert_eq!(error, ErrorKind::Poisoned, "{case}"),
    }
    disk.clear_faults();
    let db = open(&disk.kill());
    let found = contents(&plain(&db));
    assert!(
        expected.iter().all(|(k, v)| found.get(k) == Some(v)),
        "{case}"
    );
}

#[test]
fn failed_write_inside_a_segment_poisons_all_later_writes() {
    for fault in [Fault::Io, Fault::Short, Fault::StorageFull] {
        for nth in 0..3 {
            let disk = SimStorage::new(4);
            let db = open(&disk);
            let keyspace = plain(&db);
            for i in 0..5 {
                put_synced(&keyspace, i);
            }
            disk.fail_path_after(OpClass::Write, ".log", nth, fault);
            assert!(keyspace.put(key(5), value(5)).is_err());
            check_poisoned(&disk, &keyspace, 5);
            for i in 0..5 {
                assert_eq!(
                    keyspace.get(key(i)).unwrap().as_deref(),
                    Some(&value(i)[..])
                );
            }
        }
    }
}

#[test]
fn failed_sync_of_the_log_poisons_all_later_writes() {
    let disk = SimStorage::new(5);
    let db = open(&disk);
    let keyspace = plain(&db);
    for i in 0..5 {
        put_synced(&keyspace, i);
    }
    disk.fail_path_after(OpClass::Sync, ".log", 0, Fault::Io);
    assert!(
        keyspace
            .put_with(key(5), value(5), Durability::Synced)
            .is_err()
    );
    check_poisoned(&disk, &keyspace, 5);
    assert!(db.close().is_err());
}

/// Every write is refused, reads still work, and the first `synced` writes are there after a crash.
fn check_poisoned(disk: &SimStorage, keyspace: &Keyspace, synced: u64) {
    assert_eq!(kind(keyspace.put(b"k", b"v")), ErrorKind::Poisoned);
    assert_eq!(kind(keyspace.delete(b"k")), ErrorKind::Poisoned);
    assert_eq!(kind(keyspace.flush()), ErrorKind::Poisoned);
    assert_eq!(kind(keyspace.clear()), ErrorKind::Poisoned);
    assert_eq!(
        kind(keyspace.update(b"k", |_| Some(vec![]))),
        ErrorKind::Poisoned
    );
    keyspace.get(key(0)).unwrap();
    for image in [disk.kill(), disk.crash(), disk.crash()] {
        let db = open(&image);
        let keyspace = plain(&db);
        for i in 0..synced {
            assert_eq!(
                keyspace.get(key(i)).unwrap().as_deref(),
                Some(&value(i)[..])
            );
        }
        keyspace.put(b"k", b"v").unwrap();
    }
}

#[test]
fn failed_append_to_the_manifest_poisons_and_loses_nothing() {
    for class in [OpClass::Write, OpClass::Sync] {
        for fault in [Fault::Io, Fault::Short] {
            let disk = SimStorage::new(6);
            let db = open(&disk);
            let keyspace = plain(&db);
            for i in 0..50 {
                put_synced(&keyspace, i);
            }
            disk.fail_path_after(class, "MANIFEST", 0, fault);
            assert!(keyspace.flush().is_err());
            check_poisoned(&disk, &keyspace, 50);
        }
    }
}

#[test]
fn failed_write_of_a_table_is_tried_again_and_loses_nothing() {
    for class in [OpClass::Create, OpClass::Write, OpClass::Sync] {
        for fault in [Fault::Io, Fault::StorageFull, Fault::Short] {
            let disk = SimStorage::new(7);
            let db = open(&disk);
            let keyspace = plain(&db);
            let mut expected = Contents::new();
            write_until_error(&keyspace, 0..200, &mut expected);
            disk.fail_path_after(class, "/tables", 0, fault);
            let expected_kind = match fault {
                Fault::StorageFull => ErrorKind::NoSpace,
                _ => ErrorKind::Io,
            };
            assert_eq!(kind(keyspace.flush()), expected_kind);
            assert_eq!(disk.faults_fired(), 1);
            assert_eq!(contents(&keyspace), expected);
            // Writes continue before the next try.
            write_until_error(&keyspace, 200..250, &mut expected);
            keyspace.flush().unwrap();
            assert_eq!(contents(&keyspace), expected);
            assert_eq!(contents(&plain(&open(&disk.crash()))), expected);
            check_no_leftovers(&disk, &db);
        }
    }
}

#[test]
fn failed_flush_in_the_background_is_tried_again_by_writers() {
    let disk = SimStorage::new(8);
    let db = open(&disk);
    let keyspace = plain_small(&db);
    for nth in 0..4 {
        disk.fail_path_after(OpClass::Write, "/tables", nth, Fault::Io);
    }
    let (mut expected, mut errors) = (Contents::new(), 0);
    for i in 0..12_000 {
        match keyspace.put(key(i), value(i)) {
            Ok(()) => drop(expected.insert(key(i), value(i))),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Io);
                errors += 1;
            }
        }
    }
    assert!(errors <= 4, "{errors}");
    assert_eq!(disk.faults_fired(), 4);
    assert!(db.stats().flushes > 10);
    keyspace.flush().unwrap();
    keyspace.wait_until_merged().unwrap();
    assert_eq!(contents(&keyspace), expected);
    assert_eq!(contents(&plain(&open(&disk.kill()))), expected);
    check_no_leftovers(&disk, &db);
}

#[test]
fn failed_merge_is_tried_again_and_loses_nothing() {
    for class in [
        OpClass::Create,
        OpClass::Write,
        OpClass::Sync,
        OpClass::Read,
    ] {
        let disk = SimStorage::new(9);
        let db = open(&disk);
        let keyspace = plain_small(&db);
        let mut expected = Contents::new();
        write_until_error(&keyspace, 0..2000, &mut expected);
        // Entries written in order only move down.
        write_until_error(&keyspace, 500..1000, &mut expected);
        keyspace.flush().unwrap();
        disk.fail_path_after(class, "/tables", 1, Fault::Io);
        assert_eq!(kind(keyspace.compact::<&[u8]>(..)), ErrorKind::Io);
        assert_eq!(contents(&keyspace), expected);
        keyspace.compact::<&[u8]>(..).unwrap();
        assert_eq!(contents(&keyspace), expected);
        assert_eq!(contents(&plain(&open(&disk.kill()))), expected);
        check_no_leftovers(&disk, &db);
    }
}

#[test]
fn failed_read_is_an_error_once_and_no_wrong_answer() {
    let disk = SimStorage::new(10);
    let db = open(&disk);
    let keyspace = plain_small(&db);
    let mut expected = Contents::new();
    write_until_error(&keyspace, 0..600, &mut expected);
    db.close().unwrap();
    for fault in [Fault::Io, Fault::Short] {
        for nth in 0..60 {
            let image = disk.kill();
            let db = open(&image);
            let keyspace = plain(&db);
            image.fail_path_after(OpClass::Read, "/tables", nth, fault);
            for (key, value) in &expected {
                match keyspace.get(key) {
                    Ok(found) => assert_eq!(found.as_deref(), Some(&value[..])),
                    Err(error) => {
                        assert!(matches!(
                            error.kind(),
                            ErrorKind::Io | ErrorKind::Corruption
                        ));
                    }
                }
            }
            image.clear_faults();
            assert_eq!(contents(&keyspace), expected, "{fault:?} {nth}");
        }
    }
}

#[test]
fn scan_after_a_failed_read_gives_no_item_twice() {
    let disk = SimStorage::new(11);
    let db = open(&disk);
    let keyspace = plain_small(&db);
    let mut expected = Contents::new();
    write_until_error(&keyspace, 0..600, &mut expected);
    db.close().unwrap();
    for nth in 0..80 {
        let image = disk.kill();
        let db = open(&image);
        let keyspace = plain(&db);
        image.fail_path_after(OpClass::Read, "/tables", nth, Fault::Io);
        let Ok(mut scan) = keyspace.scan::<&[u8]>(..) else {
            continue;
        };
        let mut seen = Contents::new();
        let mut errors = 0;
        for step in 0..3000 {
            // Forward until an error, then from the other end.
            let item = if errors == 0 && step % 3 != 0 {
                scan.next()
            } else {
                scan.next_back()
            };
            match item {
                None => break,
                Some(Ok((key, value))) => {
                    assert_eq!(expected.get(&key[..]).map(|v| &v[..]), Some(&value[..]));
                    assert_eq!(seen.insert(key.to_vec(), value.to_vec()), None, "{nth}");
                }
                Some(Err(_)) => errors += 1,
            }
            if errors > 3 {
                break;
            }
        }
        assert!(errors > 0 || seen == expected, "{nth}");
    }
}

#[test]
fn any_failing_operation_loses_nothing_that_was_acknowledged() {
    let run = |disk: &SimStorage, expected: &mut Contents, unknown: &mut Vec<Vec<u8>>| {
        let Ok(db) = builder(disk).log_segment_bytes(4 << 10).open() else {
            return;
        };
        let Ok(keyspace) = db.keyspace_with("plain", Layout::sorted().hash(2), small()) else {
            return;
        };
        for i in 0..400u64 {
            let (key, value) = (key(i % 170), value(i));
            let durability = [Durability::Buffered, Durability::Synced][usize::from(i % 40 == 0)];
            let result = match i % 5 {
                0 => keyspace.delete_with(&key, durability).map(|()| None),
                _ => keyspace
                    .put_with(&key, &value, durability)
                    .map(|()| Some(value)),
            };
            match result {
                Ok(Some(value)) => drop(expected.insert(key, value)),
                Ok(None) => drop(expected.remove(&key)),
                Err(_) => unknown.push(key),
            }
            match i {
                150 => drop(keyspace.flush()),
                250 => drop(keyspace.compact::<&[u8]>(..)),
                _ => {}
            }
        }
        let _ = db.close();
    };
    let whole = SimStorage::new(1);
    run(&whole, &mut Contents::new(), &mut Vec::new());
    let step = if std::env::var_os("HEDGEROW_FULL").is_some() {
        1
    } else {
        17
    };
    for nth in (0..whole.operations()).step_by(step) {
        for fault in [Fault::Io, Fault::StorageFull, Fault::Short] {
            let disk = SimStorage::new(nth);
            let (mut expected, mut unknown) = (Contents::new(), Vec::new());
            disk.fail_after(OpClass::Any, nth, fault);
            run(&disk, &mut expected, &mut unknown);
            disk.clear_faults();
            let db = open(&disk.kill());
            let mut found = db
                .existing_keyspace("plain")
                .map_or_else(Contents::new, |k| contents(&k));
            for key in &unknown {
                expected.remove(key);
                found.remove(key);
            }
            assert!(
                found == expected,
                "operation {nth}, {fault:?}: {} unknown",
                unknown.len()
            );
        }
    }
}

/// The tables on disk are those of the database.
#[track_caller]
pub(crate) fn check_no_leftovers(disk: &SimStorage, db: &hedgerow::Db) {
    let stats = db.stats();
    let levels = stats.keyspaces.iter().flat_map(|k| &k.levels);
    let tables: usize = levels.map(|level| level.tables).sum();
    let found = files(disk, "tables");
    assert_eq!(found.len(), tables, "{found:?} in {DIR}");
}
