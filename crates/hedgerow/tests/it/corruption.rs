//! Damage: every answer is right, or an error that says what is damaged; never a panic.
//!
//! The subject is a small database that was cleanly closed, with everything a database can have:
//! keyspaces with one tree and with several, levels, tombstones, values out of line, data that is
//! only in the log. Its files are changed one bit, one cut or one exchange at a time.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use hedgerow::io::sim::SimStorage;
use hedgerow::{Compression, Design, Error, ErrorKind, Layout, Result};

use crate::support::{Contents, DIR, builder, files, key, small, value};

const THREADS: usize = 2;

/// The expected contents of the database, by keyspace.
pub(crate) type Expected = BTreeMap<&'static str, Contents>;

/// A closed database of about 40 KB.
pub(crate) fn subject() -> (SimStorage, Expected) {
    let disk = SimStorage::new(1);
    let db = builder(&disk).log_segment_bytes(4 << 10).open().unwrap();
    let packed = Design {
        compression: Compression::Lz4,
        ..small()
    };
    let many = db.keyspace_with("many", Layout::sorted().hash(2), packed);
    let keyspaces = [
        (
            "one",
            db.keyspace_with("one", Layout::sorted(), small()).unwrap(),
        ),
        ("many", many.unwrap()),
    ];
    let mut expected: Expected = keyspaces
        .iter()
        .map(|(name, _)| (*name, Contents::new()))
        .collect();
    for round in 0..4u64 {
        for (name, keyspace) in &keyspaces {
            let contents = expected.get_mut(name).unwrap();
            for i in 0..35 {
                let i = (i * 7 + round * 13) % 90;
                if i % 6 == round {
                    keyspace.delete(key(i)).unwrap();
                    contents.remove(&key(i));
                    continue;
                }
                let value = match i {
                    0..5 => vec![i as u8; 1500],
                    _ => value(i + round),
                };
                keyspace.put(key(i), &value).unwrap();
                contents.insert(key(i), value);
            }
            match round {
                0 => keyspace.compact::<&[u8]>(..).unwrap(),
                1 | 2 => keyspace.flush().unwrap(),
                _ => {}
            }
        }
    }
    db.close().unwrap();
    (disk, expected)
}

pub(crate) fn is_damage(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Corruption | ErrorKind::FormatVersion
    )
}

/// Opens and reads everything in every way. `Err` is the first error; a wrong answer panics.
fn read_everything(disk: &SimStorage, expected: &Expected, read_only: bool) -> Result<()> {
    let db = builder(disk).read_only(read_only).open()?;
    let mut first_error = None;
    let mut note = |error: Error| {
        assert!(is_damage(&error), "{error}");
        first_error.get_or_insert(error);
    };
    for (name, contents) in expected {
        let keyspace = db.existing_keyspace(name);
        let keyspace = keyspace.unwrap_or_else(|| panic!("keyspace {name} is missing"));
        let absent: Vec<Vec<u8>> = (0..100)
            .step_by(9)
            .map(|i| [key(i), b"!".to_vec()].concat())
            .collect();
        let keys: Vec<Vec<u8>> = (0..90).map(key).chain(absent).collect();
        for key in &keys {
            let right = contents.get(key).map(Vec::as_slice);
            match keyspace.get(key) {
                Ok(found) => assert_eq!(found.as_deref(), right, "get {}", key.escape_ascii()),
                Err(error) => note(error),
            }
        }
        match keyspace.multi_get(&keys) {
            Ok(found) => {
                let right = keys.iter().map(|key| contents.get(key).map(Vec::as_slice));
                assert!(found.iter().map(|v| v.as_deref()).eq(right), "multi_get");
            }
            Err(error) => note(error),
        }
        let mut right = contents.iter();
        let mut forward = keyspace.scan::<&[u8]>(..)?;
        loop {
            match (forward.next(), right.next()) {
                (None, None) => break,
                (Some(Ok((k, v))), Some(right)) => {
                    assert_eq!((&k[..], &v[..]), (&right.0[..], &right.1[..]))
                }
                (Some(Err(error)), _) => {
                    note(error);
                    break;
                }
                (found, right) => panic!("a scan gave {found:?} for {right:?}"),
            }
        }
        let mut right = contents.iter();
        let mut backward = keyspace.scan::<&[u8]>(..)?.rev();
        loop {
            match (backward.next(), right.next_back()) {
                (None, None) => break,
                (Some(Ok((k, v))), Some(right)) => {
                    assert_eq!((&k[..], &v[..]), (&right.0[..], &right.1[..]))
                }
                (Some(Err(error)), _) => {
                    note(error);
                    break;
                }
                (found, right) => panic!("a backward scan gave {found:?} for {right:?}"),
            }
        }
    }
    first_error.map_or(Ok(()), Err)
}

/// The same, where no panic and no other error may come. True if the damage was noticed.
fn survives(disk: &SimStorage, expected: &Expected, read_only: bool, case: &str) -> bool {
    let read = || read_everything(disk, expected, read_only);
    match catch_unwind(AssertUnwindSafe(read)) {
        Ok(Ok(())) => false,
        Ok(Err(error)) => {
            assert!(is_damage(&error), "{case}: {error}");
            true
        }
        Err(_) => panic!("{case}: a panic or a wrong answer, see above"),
    }
}

fn is_full() -> bool {
    std::env::var_os("HEDGEROW_FULL").is_some()
}

/// All files but the lock, with how many of their bytes mean something.
pub(crate) fn subjects(disk: &SimStorage) -> Vec<(String, usize)> {
    let mut files: Vec<_> = files(disk, "tables")
        .iter()
        .map(|f| format!("{DIR}/tables/{f}"))
        .collect();
    files.extend(
        crate::support::files(disk, "log")
            .iter()
            .map(|f| format!("{DIR}/log/{f}")),
    );
    files.push(format!("{DIR}/MANIFEST"));
    let with_bytes = |path: String| {
        let bytes = disk.contents(&path).unwrap();
        let used = bytes.iter().rposition(|&b| b != 0).map_or(0, |at| at + 1);
        // A sample of what comes behind the used end of a segment.
        let count = if path.contains("/log/") {
            (used + 64).min(bytes.len())
        } else {
            bytes.len()
        };
        (path, count)
    };
    files.into_iter().map(with_bytes).collect()
}

/// Runs cases on a few threads, each with a disk of its own.
fn in_parallel(cases: &[(String, u64)], run: impl Fn(&SimStorage, &Expected, &str, u64) + Sync) {
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let (disk, expected) = subject();
                while let Some((path, at)) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    run(&disk, &expected, path, *at);
                }
            });
        }
    });
}

#[test]
fn subject_has_everything_that_can_be_damaged() {
    let (disk, expected) = subject();
    read_everything(&disk, &expected, true).unwrap();
    let db = builder(&disk).read_only(true).open().unwrap();
    for keyspace in db.stats().keyspaces {
        assert!(keyspace.memtable_entries > 0);
        assert!(keyspace.levels.iter().filter(|l| l.tables > 0).count() >= 2);
        assert!(keyspace.levels.iter().any(|l| l.tombstones > 0));
    }
    let bytes: usize = subjects(&disk).iter().map(|(_, bytes)| bytes).sum();
    assert!((20_000..120_000).contains(&bytes), "{bytes}");
    db.verify().unwrap();
}

#[test]
fn any_flipped_bit_is_noticed_or_harmless() {
    let (disk, _) = subject();
    let mut cases = Vec::new();
    for (path, bytes) in subjects(&disk) {
        for byte in 0..bytes as u64 {
            for bit in 0..8 {
                let sampled = byte % 4 == 0 || path.contains("MANIFEST");
                if is_full() || sampled && bit == (byte * 5 + byte / 8) % 8 {
                    cases.push((path.clone(), byte * 8 + bit));
                }
            }
        }
    }
    in_parallel(&cases, |disk, expected, path, bit| {
        let case = format!("bit {bit} of {path}");
        disk.flip_bit(path, bit).unwrap();
        survives(disk, expected, true, &case);
        disk.flip_bit(path, bit).unwrap();
        // Opened for writing, only the log and the manifest are read in another way.
        if !path.contains("/tables/") || bit % 64 == 0 {
            let image = disk.kill();
            image.flip_bit(path, bit).unwrap();
            survives(&image, expected, false, &case);
        }
    });
}

#[test]
fn any_flipped_bit_of_a_table_is_found_by_verify() {
    let (disk, _) = subject();
    for (path, bytes) in subjects(&disk) {
        if !path.contains("/tables/") {
            continue;
        }
        for byte in (0..bytes as u64).step_by(if is_full() { 1 } else { 13 }) {
            disk.flip_bit(&path, byte * 8 + byte % 8).unwrap();
            let verified = builder(&disk)
                .read_only(true)
                .open()
                .and_then(|db| db.verify());
            match verified {
                Ok(_) => panic!("byte {byte} of {path} was not found"),
                Err(error) => assert!(is_damage(&error), "{error}"),
            }
            disk.flip_bit(&path, byte * 8 + byte % 8).unwrap();
        }
    }
}

#[test]
fn any_cut_table_or_log_is_noticed() {
    let (disk, _) = subject();
    let mut cases = Vec::new();
    for (path, bytes) in subjects(&disk) {
        if path.contains("MANIFEST") {
            continue;
        }
        let step = if is_full() { 1 } else { 1 + bytes / 40 };
        cases.extend(
            (0..bytes)
                .step_by(step)
                .map(|cut| (path.clone(), cut as u64)),
        );
    }
    let unnoticed = Mutex::new(Vec::new());
    in_parallel(&cases, |disk, expected, path, cut| {
        let whole = disk.contents(path).unwrap();
        let image = disk.kill();
        image.set_contents(path, &whole[..cut as usize]).unwrap();
        let case = format!("{path} cut to {cut} bytes");
        for read_only in [true, false] {
            if !survives(&image.kill(), expected, read_only, &case) {
                unnoticed.lock().unwrap().push((path.to_owned(), cut));
            }
        }
    });
    // Bytes behind the end of the log mean nothing, and neither does a spare segment.
    let unnoticed = unnoticed.into_inner().unwrap();
    let ends = cases.iter().filter(|(path, cut)| {
        let after = unnoticed
            .iter()
            .filter(|(p, c)| p == path && c <= cut)
            .count();
        assert!(
            after == 0 || path.contains("/log/"),
            "{path} cut to {cut} bytes"
        );
        after == 0
    });
    assert!(
        ends.clone()
            .any(|(path, cut)| path.contains("/log/") && *cut > 500)
    );
    let first_unnoticed = |path: &str| {
        unnoticed
            .iter()
            .filter(|(p, _)| p == path)
            .map(|(_, c)| *c)
            .min()
    };
    for (path, cut) in &cases {
        let twice = unnoticed
            .iter()
            .filter(|case| (&case.0, case.1) == (path, *cut))
            .count();
        let behind = first_unnoticed(path).is_some_and(|first| first <= *cut);
        assert_eq!(
            twice,
            if behind { 2 } else { 0 },
            "{path} cut to {cut} bytes"
        );
    }
}

#[test]
fn any_missing_file_is_noticed() {
    let (disk, expected) = subject();
    let mut noticed_logs = 0;
    for (path, _) in subjects(&disk) {
        if path.contains("MANIFEST") {
            continue;
        }
        let image = disk.kill();
        hedgerow::io::Storage::remove(&image, path.as_ref()).unwrap();
        for read_only in [true, false] {
            let case = format!("{path} missing");
            let noticed = survives(&image.kill(), &expected, read_only, &case);
            assert!(noticed || path.contains("/log/"), "{case} was not noticed");
            noticed_logs += usize::from(noticed && path.contains("/log/"));
        }
    }
    // All but spares and retired segments.
    assert!(noticed_logs >= 2);
    let image = disk.kill();
    hedgerow::io::Storage::remove(&image, format!("{DIR}/MANIFEST").as_ref()).unwrap();
    for opening in [
        builder(&image),
        builder(&image).create_if_missing(false),
        builder(&image).read_only(true),
    ] {
        let error = opening.open().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    }
}

#[test]
fn missing_table_is_noticed_when_the_database_is_opened() {
    // Before anything is changed: what looks like an orphan may be what a lost edit had named.
    let (disk, _) = subject();
    for table in files(&disk, "tables") {
        let image = disk.kill();
        hedgerow::io::Storage::remove(&image, format!("{DIR}/tables/{table}").as_ref()).unwrap();
        let before = files(&image, "tables");
        let error = builder(&image).open().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
        assert!(error.to_string().contains(&table), "{error}");
        assert_eq!(files(&image, "tables"), before);
    }
}

#[test]
fn exchanged_files_are_noticed() {
    let (disk, expected) = subject();
    for kind in ["tables", "log"] {
        let paths: Vec<_> = files(&disk, kind)
            .iter()
            .map(|f| format!("{DIR}/{kind}/{f}"))
            .collect();
        for a in &paths {
            for b in paths.iter().filter(|b| *b != a) {
                let case = format!("{b} in place of {a}");
                let image = disk.kill();
                image.set_contents(a, &disk.contents(b).unwrap()).unwrap();
                for read_only in [true, false] {
                    let noticed = survives(&image.kill(), &expected, read_only, &case);
                    assert!(noticed || kind == "log", "{case} was not noticed");
                }
            }
        }
    }
}

#[test]
fn damaged_last_record_of_the_manifest_loses_nothing_after_a_clean_close() {
    // It looks like an append that was torn. It is the note of the close, or a cut off part of it.
    let (disk, expected) = subject();
    let path = format!("{DIR}/MANIFEST");
    let manifest = disk.contents(&path).unwrap();
    let records = manifest_records(&manifest);
    let (last, _) = *records.last().unwrap();
    for cut in last..manifest.len() {
        let image = disk.kill();
        image.set_contents(&path, &manifest[..cut]).unwrap();
        for read_only in [true, false] {
            let noticed = survives(&image.kill(), &expected, read_only, &format!("cut {cut}"));
            assert!(!noticed, "what was lost is in the log, too");
        }
    }
}

#[test]
fn manifest_that_lost_several_records_gives_no_wrong_answer() {
    // No crash does that; a file system repaired badly may. What is left of the manifest must fit
    // the tables and the log.
    let (disk, expected) = subject();
    let path = format!("{DIR}/MANIFEST");
    let manifest = disk.contents(&path).unwrap();
    for (start, _) in manifest_records(&manifest) {
        let image = disk.kill();
        image.set_contents(&path, &manifest[..start]).unwrap();
        for read_only in [true, false] {
            survives(
                &image.kill(),
                &expected,
                read_only,
                &format!("manifest cut at {start}"),
            );
        }
    }
}

#[test]
fn garbage_files_are_refused_or_ignored() {
    let (disk, expected) = subject();
    let image = disk.kill();
    for name in [
        "tables/x",
        "tables/0000000099.table.tmp",
        "log/00000001.old",
        "log/junk",
        "MANIFEST.new",
    ] {
        image
            .set_contents(format!("{DIR}/{name}"), b"what is this")
            .unwrap();
    }
    for read_only in [true, false] {
        read_everything(&image, &expected, read_only).unwrap();
    }
    for bytes in [&b""[..], b"x", &[0; 4096], &[0xFF; 4096]] {
        for (path, _) in subjects(&disk) {
            let image = disk.kill();
            image.set_contents(&path, bytes).unwrap();
            for read_only in [true, false] {
                survives(&image.kill(), &expected, read_only, &path);
            }
        }
    }
}

/// Start and end of each record: docs/format says that the header of the file has 32 bytes, that
/// of a record 12, with the payload's size first.
pub(crate) fn manifest_records(manifest: &[u8]) -> Vec<(usize, usize)> {
    let (mut records, mut at) = (Vec::new(), 32);
    while let Some(size) = manifest.get(at..at + 4) {
        let end = at + 12 + u32::from_le_bytes(size.try_into().unwrap()) as usize;
        records.push((at, end));
        at = end;
    }
    assert_eq!(at, manifest.len());
    records
}
