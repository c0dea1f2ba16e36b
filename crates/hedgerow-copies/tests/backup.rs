//! Backups on a simulated disk: contents, increments, crashes, faults, damage.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::time::Duration;

use hedgerow::io::Environment;
use hedgerow::io::sim::{Fault, OpClass, SimStorage};
use hedgerow::{Builder, Compression, Db, Design, ErrorKind, Keyspace, Layout, Result};
use hedgerow_copies::backup::{Options, Repository};

type Contents = BTreeMap<Vec<u8>, Vec<u8>>;

fn builder_at(disk: &SimStorage, dir: &str) -> Builder {
    Db::builder(dir)
        .environment(Environment::simulated(disk, 7))
        .memory_budget(1 << 20)
        .log_segment_bytes(16 << 10)
}

fn builder(disk: &SimStorage) -> Builder {
    builder_at(disk, "/db")
}

fn repository(disk: &SimStorage) -> Repository {
    Repository::new("/repository").environment(Environment::simulated(disk, 7))
}

fn open(disk: &SimStorage) -> (Db, Keyspace) {
    let db = builder(disk).open().unwrap();
    let design = Design {
        compression: Compression::None,
        block_bytes: 512,
        table_bytes: Some(4 << 10),
        memtable_bytes: Some(4 << 10),
        ..Design::default()
    };
    let layout = Layout::sorted();
    let keyspace = db.keyspace_with("plain", layout, design).unwrap();
    (db, keyspace)
}

fn put(keyspace: &Keyspace, numbers: std::ops::Range<u64>, value: &str) {
    for i in numbers {
        let value = format!("{value}-{i}-{}", "x".repeat(i as usize % 60));
        keyspace.put(format!("key-{i:06}"), value).unwrap();
    }
}

fn contents(keyspace: &Keyspace) -> Contents {
    let all = keyspace.scan::<&[u8]>(..).unwrap().map(Result::unwrap);
    all.map(|(key, value)| (key.to_vec(), value.to_vec()))
        .collect()
}

fn contents_at(disk: &SimStorage, dir: &str) -> Contents {
    let db = builder_at(disk, dir)
        .create_if_missing(false)
        .open()
        .unwrap();
    db.verify().unwrap();
    contents(&db.existing_keyspace("plain").unwrap())
}

fn create(disk: &SimStorage) -> Result<u64> {
    let made = repository(disk).create(&builder(disk), Options::default(), |_| true);
    made.map(|backup| backup.id)
}

fn restore(disk: &SimStorage, id: u64, dir: &str) -> Result<()> {
    repository(disk).restore(Some(id), dir, |_| true).map(drop)
}

fn kind<T>(result: Result<T>) -> ErrorKind {
    result.map(drop).unwrap_err().kind()
}

/// Every listed backup is whole. Returns their ids.
fn whole(disk: &SimStorage) -> Vec<u64> {
    let listed = repository(disk).list().unwrap();
    for backup in &listed {
        repository(disk).verify(Some(backup.id), |_| true).unwrap();
    }
    listed.iter().map(|backup| backup.id).collect()
}

#[test]
fn a_backup_of_a_database_in_use_has_every_commit_so_far() {
    let disk = SimStorage::new(1);
    let (db, keyspace) = open(&disk);
    put(&keyspace, 0..400, "first");
    let first = contents(&keyspace);
    assert_eq!(create(&disk).unwrap(), 1);
    put(&keyspace, 200..500, "second");
    keyspace.compact::<&[u8]>(..).unwrap();
    keyspace.delete(b"key-000001").unwrap();
    let second = contents(&keyspace);
    assert_eq!(create(&disk).unwrap(), 2);
    keyspace.clear().unwrap();
    db.drop_keyspace("plain").unwrap();
    restore(&disk, 1, "/one").unwrap();
    restore(&disk, 2, "/deep/two").unwrap();
    // It is durable.
    for image in [disk.crash(), disk.kill()] {
        assert_eq!(contents_at(&image, "/one"), first);
        assert_eq!(contents_at(&image, "/deep/two"), second);
    }
    // A read-only open finds all that it needs.
    restore(&disk, 2, "/three").unwrap();
    let reader = builder_at(&disk, "/three").read_only(true).open().unwrap();
    assert_eq!(
        contents(&reader.existing_keyspace("plain").unwrap()),
        second
    );
}

#[test]
fn a_closed_database_is_backed_up_and_one_of_several_places_gathered() {
    let disk = SimStorage::new(2);
    disk.add_device("/other");
    let paths = hedgerow::LevelPaths::new()
        .levels(0..=0, "/other/fast")
        .log("/other/fast");
    let db = builder(&disk).level_paths(paths).open().unwrap();
    let keyspace = db.keyspace("plain", Layout::sorted()).unwrap();
    put(&keyspace, 0..300, "v");
    keyspace.flush().unwrap();
    put(&keyspace, 100..400, "w");
    let expected = contents(&keyspace);
    drop(keyspace);
    db.close().unwrap();
    create(&disk).unwrap();
    restore(&disk, 1, "/restored").unwrap();
    assert_eq!(contents_at(&disk.crash(), "/restored"), expected);
}

#[test]
fn a_second_backup_copies_only_new_tables() {
    for quick in [false, true] {
        let disk = SimStorage::new(3);
        let (_db, keyspace) = open(&disk);
        put(&keyspace, 0..2000, "first");
        keyspace.compact::<&[u8]>(..).unwrap();
        let create = || {
            let mut copied = 0;
            let options = Options::default();
            let options = if quick { options.quick() } else { options };
            let backup = repository(&disk).create(&builder(&disk), options, |progress| {
                copied = progress.copied_bytes;
                true
            });
            (backup.unwrap(), copied)
        };
        let (first, copied) = create();
        assert_eq!(copied, first.bytes());
        keyspace.put(b"zzz", b"new").unwrap();
        keyspace.flush().unwrap();
        let (second, copied) = create();
        let new = second.files.iter().filter(|it| !first.files.contains(it));
        assert_eq!(copied, new.map(|file| file.bytes).sum::<u64>());
        assert!(copied < second.bytes() / 4, "{copied}");
        assert_eq!(whole(&disk), [1, 2]);
        restore(&disk, 2, "/restored").unwrap();
        assert_eq!(contents_at(&disk, "/restored"), contents(&keyspace));
    }
}

/// Two databases may continue from one backup. Their tables have the same numbers.
#[test]
fn tables_of_two_databases_with_one_past_are_kept_apart() {
    let disk = SimStorage::new(4);
    let (_db, keyspace) = open(&disk);
    put(&keyspace, 0..300, "v");
    create(&disk).unwrap();
    restore(&disk, 1, "/twin").unwrap();
    let twin = builder_at(&disk, "/twin").open().unwrap();
    let of_twin = twin.existing_keyspace("plain").unwrap();
    let expected = [(&keyspace, "a", "/db"), (&of_twin, "b", "/twin")].map(|(it, value, dir)| {
        put(it, 300..330, value);
        it.flush().unwrap();
        let made = repository(&disk).create(&builder_at(&disk, dir), Options::default(), |_| true);
        (made.unwrap().id, contents(it))
    });
    for (id, contents) in expected {
        let dir = format!("/restored-{id}");
        restore(&disk, id, &dir).unwrap();
        assert_eq!(contents_at(&disk, &dir), contents);
    }
}

#[test]
fn what_the_writer_does_meanwhile_is_not_in_the_backup_and_does_no_harm() {
    let disk = SimStorage::new(5);
    let (db, keyspace) = open(&disk);
    put(&keyspace, 0..1500, "v");
    keyspace.compact::<&[u8]>(..).unwrap();
    put(&keyspace, 0..100, "w");
    let expected = contents(&keyspace);
    let mut round = 0;
    let made = repository(&disk).create(&builder(&disk), Options::default(), |_| {
        round += 1;
        put(&keyspace, 0..50, "later");
        if round % 3 == 0 {
            keyspace.compact::<&[u8]>(..).unwrap();
        }
        true
    });
    assert!(round > 10, "{round}");
    // A segment that was reused lets it begin again, with later writes.
    let (last, id) = (made.as_ref().unwrap().last, made.unwrap().id);
    restore(&disk, id, "/restored").unwrap();
    let restored = contents_at(&disk, "/restored");
    assert!(last >= 1600);
    assert_eq!(
        restored.keys().collect::<Vec<_>>(),
        expected.keys().collect::<Vec<_>>()
    );
    drop((keyspace, db));
}

#[test]
fn a_crash_at_any_step_of_a_backup_leaves_a_whole_repository() {
    let mut steps = 0;
    for step in 0.. {
        let disk = SimStorage::new(step);
        let (_db, keyspace) = open(&disk);
        put(&keyspace, 0..60, "first");
        create(&disk).unwrap();
        let first = contents(&keyspace);
        put(&keyspace, 30..90, "second");
        keyspace.flush().unwrap();
        put(&keyspace, 90..95, "third");
        let second = contents(&keyspace);
        disk.crash_after(step);
        let made = create(&disk);
        let is_done = !disk.power_lost();
        assert_eq!(made.is_ok(), is_done, "{step}: {made:?}");
        for image in [disk.crash(), disk.crash(), disk.kill()] {
            let ids = whole(&image);
            assert!(ids == [1] || ids == [1, 2], "{step}: {ids:?}");
            if is_done {
                assert_eq!(ids, [1, 2]);
            }
            restore(&image, *ids.last().unwrap(), "/restored").unwrap();
            let expected = if ids.len() == 2 { &second } else { &first };
            assert_eq!(contents_at(&image, "/restored"), *expected, "{step}");
            // The next backup and the next pruning work on what the crash left.
            drop(builder(&image).open().unwrap());
            let id = create(&image).unwrap();
            repository(&image).prune(1).unwrap();
            assert_eq!(whole(&image), [id]);
            let backup = repository(&image).find(None).unwrap();
            let names = image.paths().into_iter();
            let files = names
                .filter(|path| path.starts_with("/repository/files"))
                .count();
            assert!(files <= backup.files.len(), "{files} files stay");
        }
        if is_done {
            break;
        }
        steps = step;
    }
    assert!(steps > 20, "{steps}");
}

#[test]
fn a_crash_at_any_step_of_a_restore_leaves_all_or_nothing() {
    for step in 0.. {
        let disk = SimStorage::new(step);
        let (_db, keyspace) = open(&disk);
        put(&keyspace, 0..200, "first");
        create(&disk).unwrap();
        let expected = contents(&keyspace);
        disk.crash_after(step);
        let restored = restore(&disk, 1, "/restored");
        let is_done = !disk.power_lost();
        assert_eq!(restored.is_ok(), is_done, "{step}");
        for image in [disk.crash(), disk.crash(), disk.kill()] {
            assert_eq!(whole(&image), [1]);
            let is_there = Db::builder("/restored")
                .environment(Environment::simulated(&image, 7))
                .exists()
                .unwrap();
            assert!(is_there || !is_done, "{step}");
            if !is_there {
                restore(&image, 1, "/restored").unwrap();
            }
            assert_eq!(contents_at(&image, "/restored"), expected, "{step}");
        }
        if is_done {
            break;
        }
    }
}

#[test]
fn a_crash_at_any_step_of_pruning_leaves_a_whole_repository() {
    for step in 0.. {
        let disk = SimStorage::new(step);
        let (_db, keyspace) = open(&disk);
        for round in 0..3 {
            put(&keyspace, 0..100, &format!("round {round}"));
            keyspace.compact::<&[u8]>(..).unwrap();
            create(&disk).unwrap();
        }
        disk.crash_after(step);
        let pruned = repository(&disk).prune(1);
        let is_done = !disk.power_lost();
        assert_eq!(pruned.is_ok(), is_done, "{step}");
        for image in [disk.crash(), disk.crash(), disk.kill()] {
            let ids = whole(&image);
            assert!(ids.contains(&3), "{step}: {ids:?}");
            repository(&image).prune(1).unwrap();
            assert_eq!(whole(&image), [3]);
        }
        if is_done {
            break;
        }
    }
}

#[test]
fn a_failed_step_fails_the_work_and_nothing_else() {
    let faults = [Fault::Io, Fault::StorageFull, Fault::Short];
    for class in [
        OpClass::Create,
        OpClass::Write,
        OpClass::Sync,
        OpClass::Name,
    ] {
        for (step, fault) in (0..12).flat_map(|step| faults.map(|fault| (step, fault))) {
            let disk = SimStorage::new(step);
            let (_db, keyspace) = open(&disk);
            put(&keyspace, 0..100, "first");
            create(&disk).unwrap();
            put(&keyspace, 100..150, "second");
            disk.fail_path_after(class, "repository", step, fault);
            let failed = create(&disk).is_err();
            // The removal of a leftover that is not there fails without harm.
            let is_harmless = class == OpClass::Name && fault == Fault::Short;
            let is_shown = failed || is_harmless || disk.faults_fired() == 0;
            assert!(is_shown, "{class:?} {step} {fault:?}");
            disk.clear_faults();
            // After a short fault the list may be there.
            let ids = whole(&disk);
            assert_eq!(ids[0], 1);
            let id = create(&disk).unwrap();
            restore(&disk, id, "/restored").unwrap();
            assert_eq!(contents_at(&disk, "/restored"), contents(&keyspace));
        }
    }
}

#[test]
fn damage_of_a_stored_file_is_found_by_verify_and_by_restore() {
    let disk = SimStorage::new(6);
    let (_db, keyspace) = open(&disk);
    put(&keyspace, 0..300, "v");
    create(&disk).unwrap();
    let paths = disk.paths().into_iter();
    let stored: Vec<_> = paths
        .filter(|path| path.starts_with("/repository/files"))
        .collect();
    assert!(stored.len() > 3);
    for path in &stored {
        let bytes = disk.contents(path).unwrap();
        disk.flip_bit(path, bytes.len() as u64 * 4).unwrap();
        let verified = repository(&disk).verify(None, |_| true);
        assert_eq!(kind(verified), ErrorKind::Corruption);
        assert_eq!(kind(restore(&disk, 1, "/restored")), ErrorKind::Corruption);
        assert!(
            !Db::builder("/restored")
                .environment(Environment::simulated(&disk, 7))
                .exists()
                .unwrap()
        );
        disk.set_contents(path, &bytes[1..]).unwrap();
        assert_eq!(kind(restore(&disk, 1, "/restored")), ErrorKind::Corruption);
        disk.set_contents(path, &bytes).unwrap();
    }
    whole(&disk);
    disk.flip_bit("/repository/backups/00000001.backup", 400)
        .unwrap();
    assert_eq!(kind(repository(&disk).list()), ErrorKind::Corruption);
    // The files of a damaged list are not known.
    assert_eq!(kind(repository(&disk).prune(1)), ErrorKind::Corruption);
    assert!(stored.iter().all(|path| disk.contents(path).is_ok()));
}

#[test]
fn damage_of_the_database_is_not_copied() {
    let disk = SimStorage::new(7);
    let (_db, keyspace) = open(&disk);
    put(&keyspace, 0..300, "v");
    keyspace.compact::<&[u8]>(..).unwrap();
    create(&disk).unwrap();
    let mut tables = disk
        .paths()
        .into_iter()
        .filter(|path| path.starts_with("/db/tables"));
    let table = tables.next_back().unwrap();
    disk.flip_bit(&table, 4000).unwrap();
    // It was whole at the first backup, and is read again.
    assert_eq!(kind(create(&disk)), ErrorKind::Corruption);
    assert_eq!(whole(&disk), [1]);
    restore(&disk, 1, "/restored").unwrap();
    contents_at(&disk, "/restored");
}

#[test]
fn restoring_touches_nothing_that_exists() {
    let disk = SimStorage::new(8);
    let (_db, keyspace) = open(&disk);
    put(&keyspace, 0..30, "v");
    create(&disk).unwrap();
    disk.set_contents("/file", b"x").unwrap();
    disk.set_contents("/empty/gone", b"x").unwrap();
    hedgerow::io::Storage::remove(&disk, "/empty/gone".as_ref()).unwrap();
    let before = disk.paths();
    for taken in ["/db", "/file", "/empty", "/repository"] {
        assert_eq!(kind(restore(&disk, 1, taken)), ErrorKind::InvalidArgument);
    }
    assert_eq!(kind(restore(&disk, 2, "/new")), ErrorKind::InvalidArgument);
    assert_eq!(disk.paths(), before);
}

#[test]
fn work_is_cancelled_limited_and_one_at_a_time() {
    let disk = SimStorage::new(9);
    let (_db, keyspace) = open(&disk);
    put(&keyspace, 0..3000, "v");
    keyspace.compact::<&[u8]>(..).unwrap();
    let cancelled = repository(&disk).create(&builder(&disk), Options::default(), |progress| {
        progress.done_bytes < progress.total_bytes / 2
    });
    assert_eq!(kind(cancelled), ErrorKind::Cancelled);
    assert!(whole(&disk).is_empty());
    let environment = Environment::simulated(&disk, 7);
    let clock = environment.clock.clone();
    let repository = Repository::new("/repository").environment(environment);
    let began = clock.now();
    let mut last = (0, 0);
    let options = Options::default().bytes_per_second(10_000);
    let backup = repository.create(&builder(&disk), options, |progress| {
        let again = repository.prune(1);
        assert_eq!(kind(again), ErrorKind::Locked);
        last = (progress.done_bytes, progress.total_bytes);
        true
    });
    let bytes = backup.unwrap().bytes();
    assert_eq!(last.0, last.1);
    let took = clock.now() - began;
    let expected = Duration::from_secs_f64(last.1 as f64 / 10_000.0);
    assert!(
        took >= expected && bytes > 50_000,
        "{took:?} for {bytes} bytes"
    );
    assert_eq!(
        kind(repository.restore(None, "/new", |_| false)),
        ErrorKind::Cancelled
    );
    let paths = disk.paths();
    assert!(
        !paths
            .iter()
            .any(|path| path.to_string_lossy().contains("new"))
    );
    assert_eq!(
        kind(
            Repository::new("/none")
                .environment(Environment::simulated(&disk, 7))
                .list()
        ),
        ErrorKind::InvalidArgument
    );
}
