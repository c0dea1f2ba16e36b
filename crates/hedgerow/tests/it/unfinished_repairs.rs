//! A repair that was stopped: nothing but another repair opens the database, and that one loses
//! nothing.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hedgerow::io::sim::{SimStorage, SplitMix64};
use hedgerow::io::{Environment, Storage};
use hedgerow::{ErrorKind, Keyspace, LoadOp};

use crate::repair::{KEYS, damage_log, damaged, keyspace, pages, remove_manifest, repair, subject};
use crate::support::{Contents, DIR, builder, contents, files, key, kind, open, put_synced, value};
use crate::watched::{Watched, Watcher};

const SEEDS: Range<u64> = 0..150;

/// Puts, deletes and range deletes over the keys that tables have, in a log that is too long for
/// its records to be copied.
fn write(keyspace: &Keyspace, random: &mut SplitMix64, model: &mut Contents) {
    for written in 0..100 + random.below(300) {
        let at = key(random.below(KEYS));
        match random.below(20) {
            0 => {
                let end = key(random.below(2 * KEYS));
                keyspace.delete_range(at.clone()..end.clone()).unwrap();
                model.retain(|key, _| *key < at || *key >= end);
            }
            1 => {
                keyspace.delete_range(at.clone()..).unwrap();
                model.retain(|key, _| *key < at);
            }
            2..=7 => {
                keyspace.delete(&at).unwrap();
                model.remove(&at);
            }
            _ => {
                let value = [value(written), vec![b'.'; 200]].concat();
                keyspace.put(&at, &value).unwrap();
                model.insert(at, value);
            }
        }
    }
}

/// The only keyspace, if the database opens.
fn found(disk: &SimStorage) -> hedgerow::Result<Contents> {
    let db = builder(disk).open()?;
    db.verify()?;
    let name = &db.keyspaces()[0];
    Ok(contents(&db.existing_keyspace(name).unwrap()))
}

/// Some of the deletes are in the log only. When the first repair is stopped, it may have put them
/// into tables, while older tables still lie in `lost`.
#[test]
fn deletes_survive_a_repair_that_is_stopped() {
    let mut stopped = 0;
    for seed in SEEDS {
        let mut random = SplitMix64::new(seed);
        let (disk, mut model) = subject(true);
        let db = open(&disk);
        write(&keyspace(&db, true), &mut random, &mut model);
        db.sync().unwrap();
        let disk = disk.kill();
        if random.below(3) == 0 {
            remove_manifest(&disk);
        }
        let image = disk.kill();
        let whole = repair(&image);
        assert_eq!((&whole.lost[..], &whole.missing[..]), (&[][..], &[][..]));
        assert_eq!(found(&image).unwrap(), model, "seed {seed}");
        disk.crash_after(random.below(image.counters().mutations));
        if hedgerow::repair_with(builder(&disk)).is_ok() {
            continue;
        }
        stopped += 1;
        let disk = match random.below(2) {
            0 => disk.crash(),
            _ => disk.kill(),
        };
        let case = format!("seed {seed}: {:?}", disk.paths());
        match found(&disk.kill()) {
            Ok(found) => assert_eq!(found, model, "{case}"),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Corruption, "{case}: {error}"),
        }
        let report = repair(&disk);
        assert_eq!(report.missing, [], "{case}");
        assert_eq!(report.lost, [], "{case}");
        assert_eq!(
            report.keyspaces_known + report.keyspaces_guessed,
            1,
            "{case}"
        );
        assert_eq!(found(&disk).unwrap(), model, "{case}");
        assert_eq!(files(&disk, "lost"), [""; 0], "{case}");
    }
    assert!(stopped > 100, "expected stopped repairs, found {stopped}");
}

/// Wherever it is stopped, the next one ends it, and nothing else opens the database before.
#[test]
fn nothing_else_opens_a_database_under_repair() {
    let (disk, expected) = subject(true);
    let image = disk.kill();
    repair(&image);
    let mut refused = 0;
    for after in 0..image.counters().mutations {
        let disk = disk.kill();
        disk.crash_after(after);
        let _stopped = hedgerow::repair_with(builder(&disk));
        let disk = disk.kill();
        let read_only = builder(&disk).read_only(true).open();
        match found(&disk.kill()) {
            Ok(found) => {
                assert_eq!(found, expected, "after {after}");
                let keyspace = read_only.unwrap().existing_keyspace("it").unwrap();
                assert_eq!(contents(&keyspace), expected, "after {after}");
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
                assert!(error.to_string().contains("`repair`"), "{error}");
                assert_eq!(kind(read_only), ErrorKind::Corruption);
                assert_eq!(kind(builder(&disk).files()), ErrorKind::Corruption);
                refused += 1;
            }
        }
        repair(&disk);
        assert_eq!(found(&disk).unwrap(), expected, "after {after}");
    }
    assert!(refused > 10, "expected refused opens, found {refused}");
}

/// Only the old manifest says at which number a table was loaded, and what a damaged one had.
#[test]
fn a_repair_that_is_started_again_knows_the_old_manifest() {
    let (disk, mut expected) = subject(true);
    let db = open(&disk);
    let keyspace = keyspace(&db, true);
    let loaded = (0..KEYS).map(|i| {
        // Behind the number by which the tables are known without the manifest.
        keyspace.put(key(i), "meanwhile").unwrap();
        Ok::<_, hedgerow::Error>((key(i), value(i)))
    });
    keyspace.bulk_load(loaded).unwrap();
    expected.extend((0..KEYS).map(|i| (key(i), value(i))));
    db.close().unwrap();
    drop(keyspace);
    assert_eq!(found(&disk.kill()).unwrap(), expected);
    let image = disk.kill();
    repair(&image);
    for after in 0..image.counters().mutations {
        let disk = disk.kill();
        disk.crash_after(after);
        let _stopped = hedgerow::repair_with(builder(&disk));
        let disk = disk.kill();
        let report = repair(&disk);
        assert_eq!(report.missing, [], "after {after}");
        assert_eq!(found(&disk).unwrap(), expected, "after {after}");
    }
}

/// The tables are removed when the database has all that they had. The first one by number has
/// deletes, the last one what they have deleted.
#[test]
fn no_key_comes_back_from_tables_that_are_being_removed() {
    let (disk, _) = subject(true);
    let db = open(&disk);
    let keyspace = keyspace(&db, true);
    let deletes = (0..KEYS - 1).map(|i| {
        if i == 1 {
            (0..KEYS).for_each(|j| keyspace.put(key(j), value(j)).unwrap());
            keyspace.flush().unwrap();
        }
        Ok::<_, hedgerow::Error>((key(i), LoadOp::<&[u8]>::Delete))
    });
    keyspace.bulk_load_ops(deletes).unwrap();
    db.close().unwrap();
    drop(keyspace);
    assert!(files(&disk, "tables").len() > 2);
    let expected = Contents::from([(key(KEYS - 1), value(KEYS - 1))]);
    let image = disk.kill();
    repair(&image);
    assert_eq!(found(&image).unwrap(), expected);
    for after in 0..image.counters().mutations {
        let disk = disk.kill();
        disk.crash_after(after);
        let _stopped = hedgerow::repair_with(builder(&disk));
        let disk = disk.kill();
        repair(&disk);
        assert_eq!(found(&disk).unwrap(), expected, "after {after}");
    }
}

/// The report of a stopped repair is that of the next one.
#[test]
fn a_stopped_repair_leaves_damaged_tables_and_manifest_to_the_next() {
    let (disk, _) = subject(true);
    let (_, offset, _) = pages(&disk)[3];
    let disk = damaged(&disk, offset);
    let manifest = Path::new(DIR).join("MANIFEST");
    let mut bytes = disk.contents(&manifest).unwrap();
    // The header; the records are readable.
    bytes[9] ^= 0xFF;
    disk.set_contents(&manifest, &bytes).unwrap();
    let image = disk.kill();
    let whole = repair(&image);
    assert_eq!((whole.lost.len(), whole.missing.len()), (2, 1), "{whole:?}");
    let expected = found(&image).unwrap();
    for after in 0..image.counters().mutations {
        let disk = disk.kill();
        disk.crash_after(after);
        let _stopped = hedgerow::repair_with(builder(&disk));
        let disk = disk.kill();
        // The last steps say that the report was given.
        let is_told = files(&disk, "lost")
            .iter()
            .any(|name| name.ends_with(".damaged"));
        let report = repair(&disk);
        if !is_told {
            assert_eq!(report.lost, whole.lost, "after {after}");
            assert_eq!(report.missing, whole.missing, "after {after}");
        }
        assert_eq!(found(&disk).unwrap(), expected, "after {after}");
        assert_eq!(disk.contents(&whole.lost[1].0).unwrap(), bytes);
        assert_eq!(files(&disk, "lost").len(), 2, "{:?}", disk.paths());
    }
}

/// Sees that the database is locked when a file is made or removed.
struct Locked {
    disk: SimStorage,
    dirs: &'static [&'static str],
    changes: AtomicU64,
}

impl Watcher for Locked {
    fn before(&self, call: &str, _path: &Path) {
        if ["create", "segment", "remove"].contains(&call) {
            self.changes.fetch_add(1, Ordering::Relaxed);
            for dir in self.dirs {
                let lock = self.disk.lock(&Path::new(dir).join("LOCK"));
                assert!(lock.is_err(), "expected a lock of {dir} at a {call}");
            }
        }
    }
}

#[test]
fn a_database_is_locked_as_long_as_it_is_repaired() {
    let (disk, _) = subject(true);
    let db = open(&disk);
    (KEYS..KEYS + 50).for_each(|i| put_synced(&keyspace(&db, true), i));
    let disk = disk.kill();
    damage_log(&disk, &key(KEYS + 20));
    repair_locked(&disk, &[DIR]);
}

#[test]
fn all_places_are_locked_as_long_as_a_database_is_repaired() {
    let disk = SimStorage::new(1);
    let paths = "0=/fast;1-=/slow;log=/fast".parse().unwrap();
    let db = builder(&disk).level_paths(paths).open().unwrap();
    let it = keyspace(&db, true);
    (0..KEYS).for_each(|i| put_synced(&it, i));
    it.compact::<&[u8]>(..).unwrap();
    (KEYS..KEYS + 50).for_each(|i| put_synced(&it, i));
    let disk = disk.kill();
    let log = disk.paths().into_iter().find(|path| {
        let bytes = disk.contents(path).unwrap();
        path.starts_with("/fast/log") && bytes.windows(10).any(|it| it == key(KEYS + 20))
    });
    let bytes = disk.contents(log.as_ref().unwrap()).unwrap();
    let at = bytes.windows(10).position(|it| it == key(KEYS + 20));
    disk.flip_bit(log.unwrap(), 8 * at.unwrap() as u64).unwrap();
    repair_locked(&disk, &[DIR, "/fast", "/slow"]);
}

/// Repairs a database with a damaged log.
fn repair_locked(disk: &SimStorage, dirs: &'static [&'static str]) {
    let watcher = Arc::new(Locked {
        disk: disk.clone(),
        dirs,
        changes: AtomicU64::new(0),
    });
    let environment = Environment {
        storage: Arc::new(Watched {
            disk: disk.clone(),
            watcher: watcher.clone(),
        }),
        ..Environment::simulated(disk, 7)
    };
    let report = hedgerow::repair_with(builder(disk).environment(environment)).unwrap();
    assert_eq!(report.missing.len(), 1, "{report:?}");
    assert!(watcher.changes.load(Ordering::Relaxed) > 10);
}
