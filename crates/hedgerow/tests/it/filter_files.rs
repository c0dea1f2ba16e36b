//! Filters over several runs are kept in files; a file is a cache, whose loss or damage nobody
//! notices but by the time that opening takes.

use std::time::Duration;

use hedgerow::io::sim::{Fault, OpClass, SimStorage};
use hedgerow::io::{Environment, Storage};
use hedgerow::{Compression, Db, Design, ErrorKind, Keyspace, Layout, Residency};

use crate::support::{Contents, DIR, builder, contents, files, key, kind, open, value};

const KEYS: u64 = 3000;

fn design() -> Design {
    Design {
        policy: "0=runs:4/mlcf:14;1=tiering:4/mlcf:14,unique;2=tiering:4/mlcf:14"
            .parse()
            .unwrap(),
        compression: Compression::None,
        residency: Residency::Resident,
        memtable_bytes: Some(8 << 10),
        table_bytes: Some(16 << 10),
        ..Design::default()
    }
}

fn shared(db: &Db) -> Keyspace {
    db.keyspace_with("shared", Layout::sorted().hash(2), design())
        .unwrap()
}

fn fill(keyspace: &Keyspace, keys: std::ops::Range<u64>) {
    for i in keys {
        keyspace.put(key(i * 7919 % KEYS), value(i)).unwrap();
    }
}

/// A filled and closed database, and its contents.
fn closed() -> (SimStorage, Contents) {
    let disk = SimStorage::new(5);
    let db = open(&disk);
    let keyspace = shared(&db);
    fill(&keyspace, 0..2 * KEYS);
    keyspace.flush().unwrap();
    keyspace.wait_until_merged().unwrap();
    let expected = contents(&keyspace);
    db.close().unwrap();
    (disk, expected)
}

/// Groups with several runs that a filter covers, as get after get finds them.
fn filters_asked(keyspace: &Keyspace) -> usize {
    let asked = |i| keyspace.explain(key(i)).unwrap().group_filters.len();
    (0..20).map(asked).sum()
}

/// A database opened for reading builds no filters.
fn read_only(disk: &SimStorage, dir: &str) -> Db {
    let builder = Db::builder(dir).environment(Environment::simulated(disk, 3));
    builder.read_only(true).open().unwrap()
}

/// All files are of filters that are in use, and whole.
#[track_caller]
fn check_files(disk: &SimStorage, db: &Db) {
    let report = db.verify().unwrap();
    assert_eq!(report.filters as usize, files(disk, "filters").len());
}

fn path(name: &str) -> String {
    format!("{DIR}/filters/{name}")
}

#[test]
fn filters_are_there_when_a_database_is_opened() {
    let (disk, expected) = closed();
    assert!(!files(&disk, "filters").is_empty());
    let db = read_only(&disk, DIR);
    let keyspace = db.existing_keyspace("shared").unwrap();
    assert!(filters_asked(&keyspace) > 0);
    assert_eq!(contents(&keyspace), expected);
    check_files(&disk, &db);
    drop((keyspace, db));

    // Nothing is written again of what did not change.
    let before = files(&disk, "filters");
    let db = open(&disk);
    let keyspace = shared(&db);
    keyspace.wait_until_merged().unwrap();
    assert!(filters_asked(&keyspace) > 0);
    check_files(&disk, &db);
    db.close().unwrap();
    assert_eq!(files(&disk, "filters"), before);
}

#[test]
fn damaged_and_missing_files_are_built_again() {
    let (whole, expected) = closed();
    let names = files(&whole, "filters");
    let check = |disk: &SimStorage, what: &str| {
        let db = open(disk);
        let keyspace = shared(&db);
        assert_eq!(contents(&keyspace), expected, "{what}");
        keyspace.wait_until_merged().unwrap();
        assert!(filters_asked(&keyspace) > 0, "{what}");
        for i in 0..KEYS {
            let found = keyspace.get(key(i)).unwrap().map(|it| it.to_vec());
            assert_eq!(found.as_ref(), expected.get(&key(i)), "{what}, key {i}");
        }
        db.close().unwrap();
        let db = read_only(disk, DIR);
        check_files(disk, &db);
    };
    for name in &names {
        let bytes = whole.contents(path(name)).unwrap();
        for bit in [0, 100, 200, 300, 8 * bytes.len() as u64 / 2] {
            let disk = whole.kill();
            disk.flip_bit(path(name), bit).unwrap();
            check(&disk, &format!("{name}, bit {bit}"));
        }
        for cut in [0, 20, 40, bytes.len() - 1] {
            let disk = whole.kill();
            disk.set_contents(path(name), &bytes[..cut]).unwrap();
            check(&disk, &format!("{name}, cut at {cut}"));
        }
        // The number is that of another file.
        let disk = whole.kill();
        disk.set_contents(path(&names[0]), &bytes).unwrap();
        check(&disk, &format!("{name} in the place of the first"));
    }
    let disk = whole.kill();
    for name in &names {
        disk.set_contents(path(name), b"").unwrap();
    }
    check(&disk, "none");
}

#[test]
fn verify_names_a_damaged_filter() {
    let (disk, _) = closed();
    let db = read_only(&disk, DIR);
    let name = &files(&disk, "filters")[0];
    let bytes = disk.contents(path(name)).unwrap();
    disk.flip_bit(path(name), 4 * bytes.len() as u64).unwrap();
    let error = db.verify().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert!(error.to_string().contains(name), "{error}");
}

/// Files of a tree that has changed since serve the runs that are left of it.
#[test]
fn what_was_written_before_a_crash_serves_what_did_not_change() {
    let (disk, _) = closed();
    for more in [10, 300, KEYS] {
        let disk = disk.kill();
        let db = open(&disk);
        let keyspace = shared(&db);
        fill(&keyspace, 0..more);
        keyspace.wait_until_merged().unwrap();
        let expected = contents(&keyspace);
        check_files(&disk, &db);
        let killed = disk.kill();
        drop((keyspace, db));
        let db = open(&killed);
        let keyspace = shared(&db);
        assert_eq!(contents(&keyspace), expected);
        keyspace.wait_until_merged().unwrap();
        check_files(&killed, &db);
        db.close().unwrap();
        check_files(&killed, &read_only(&killed, DIR));
    }
}

#[test]
fn little_is_written_while_a_database_is_open() {
    let disk = SimStorage::new(6);
    let db = builder(&disk).memory_budget(64 << 20).open().unwrap();
    let keyspace = shared(&db);
    fill(&keyspace, 0..4 * KEYS);
    keyspace.wait_until_merged().unwrap();
    let stats = db.stats();
    let tables = stats.flush_bytes + stats.merge_write_bytes;
    assert!(stats.filter_write_bytes * 16 <= tables, "{stats:?}");
    check_files(&disk, &db);
}

/// A closed database with one filter over two runs, which takes more than a mebibyte.
fn closed_with_a_large_filter(keys: u64) -> SimStorage {
    let disk = SimStorage::new(8);
    let db = builder(&disk).memory_budget(64 << 20).open().unwrap();
    let design = Design {
        policy: "0=runs:4;1=tiering:4".parse().unwrap(),
        filter: "mlcf:24".parse().unwrap(),
        memtable_bytes: Some(16 << 20),
        ..Design::default()
    };
    let keyspace = db.keyspace_with("large", Layout::sorted(), design).unwrap();
    for i in 0..keys {
        keyspace.put(key(i), b"").unwrap();
        if i == keys / 2 {
            keyspace.flush().unwrap();
        }
    }
    keyspace.flush().unwrap();
    keyspace.wait_until_merged().unwrap();
    assert!(db.stats().memory.filters > 1 << 20);
    drop(keyspace);
    db.close().unwrap();
    disk
}

/// The budget of an opening holds for the filters that an earlier one had memory for.
#[test]
fn filters_that_do_not_fit_the_memory_are_not_read() {
    const KEYS: u64 = 250_000;
    let disk = closed_with_a_large_filter(KEYS);
    for read_only in [true, false] {
        let db = builder(&disk).read_only(read_only).open().unwrap();
        let keyspace = db.existing_keyspace("large").unwrap();
        if !read_only {
            keyspace.wait_until_merged().unwrap();
        }
        for i in (0..KEYS).step_by(1000) {
            assert!(keyspace.get(key(i)).unwrap().is_some(), "{i}");
        }
        let memory = db.stats().memory;
        assert!(memory.filters < 1 << 19, "{memory:?}");
        assert!(memory.total() <= 1 << 20, "{memory:?}");
        assert_eq!(files(&disk, "filters").len(), usize::from(read_only));
    }
}

/// Many keys in few runs: some filters are written before the database is closed.
#[test]
fn large_runs_have_their_filters_written_at_once() {
    let disk = SimStorage::new(7);
    let db = builder(&disk).memory_budget(64 << 20).open().unwrap();
    let keyspace = shared(&db);
    for i in 0..2 * KEYS {
        keyspace.put(key(i), [i as u8; 400]).unwrap();
    }
    keyspace.flush().unwrap();
    keyspace.wait_until_merged().unwrap();
    let expected = contents(&keyspace);
    assert!(db.stats().filter_write_bytes > 0);
    check_files(&disk, &db);
    let killed = disk.kill();
    let copy = read_only(&killed, DIR);
    let keyspace = copy.existing_keyspace("shared").unwrap();
    assert!(filters_asked(&keyspace) > 0);
    assert_eq!(contents(&keyspace), expected);
}

#[test]
fn a_checkpoint_has_the_filters() {
    let (disk, expected) = closed();
    let db = open(&disk);
    db.checkpoint("/copy").unwrap();
    let copy = read_only(&disk.kill(), "/copy");
    let keyspace = copy.existing_keyspace("shared").unwrap();
    assert!(filters_asked(&keyspace) > 0);
    assert_eq!(contents(&keyspace), expected);
    assert_eq!(copy.verify().unwrap().filters, db.verify().unwrap().filters);
    assert_eq!(kind(db.checkpoint("/copy")), ErrorKind::InvalidArgument);
}

/// A file is a cache: somebody may remove it while the database is open.
#[test]
fn a_checkpoint_is_without_the_filters_that_are_gone() {
    let (disk, expected) = closed();
    let db = open(&disk);
    let names = files(&disk, "filters");
    disk.remove(path(&names[0]).as_ref()).unwrap();
    assert_eq!(db.verify().unwrap().filters as usize, names.len() - 1);
    db.checkpoint("/copy").unwrap();
    let copy = read_only(&disk.kill(), "/copy");
    let keyspace = copy.existing_keyspace("shared").unwrap();
    assert_eq!(contents(&keyspace), expected);
    assert_eq!(copy.verify().unwrap().filters as usize, names.len() - 1);
}

/// Files of another database have the numbers of tables and of runs that are here, too. The seed of
/// the hashes tells them apart.
#[test]
fn files_of_another_database_are_removed() {
    let (other, _) = closed();
    let disk = SimStorage::new(9);
    let environment = Environment::simulated(&disk, 7);
    environment.clock.sleep(Duration::from_secs(1));
    let db = builder(&disk).environment(environment).open().unwrap();
    let keyspace = shared(&db);
    for i in 0..2 * KEYS {
        keyspace.put(key(KEYS + i * 7919 % KEYS), value(i)).unwrap();
    }
    keyspace.flush().unwrap();
    keyspace.wait_until_merged().unwrap();
    let expected = contents(&keyspace);
    drop(keyspace);
    db.close().unwrap();
    for name in files(&disk, "filters") {
        disk.remove(path(&name).as_ref()).unwrap();
    }
    for name in files(&other, "filters") {
        let bytes = other.contents(path(&name)).unwrap();
        disk.set_contents(path(&name), &bytes).unwrap();
    }
    let copied = files(&disk, "filters");
    // A database that is opened for reading leaves them alone.
    let db = read_only(&disk, DIR);
    let keyspace = db.existing_keyspace("shared").unwrap();
    assert_eq!(filters_asked(&keyspace), 0);
    assert_eq!(contents(&keyspace), expected);
    drop(keyspace);
    db.close().unwrap();
    assert_eq!(files(&disk, "filters"), copied);

    let db = open(&disk);
    let keyspace = shared(&db);
    keyspace.wait_until_merged().unwrap();
    for (key, value) in &expected {
        assert_eq!(keyspace.get(key).unwrap().as_deref(), Some(&value[..]));
    }
    assert!(filters_asked(&keyspace) > 0);
    check_files(&disk, &db);
}

#[test]
fn files_go_with_their_keyspace_and_before_a_repair() {
    let (disk, expected) = closed();
    let repaired = disk.kill();
    repaired
        .set_contents(format!("{DIR}/MANIFEST"), b"gone")
        .unwrap();
    hedgerow::repair_with(builder(&repaired)).unwrap();
    let db = open(&repaired);
    check_files(&repaired, &db);
    let keyspaces = db.stats().keyspaces;
    let keyspace = db.existing_keyspace(&keyspaces[0].name).unwrap();
    assert_eq!(contents(&keyspace), expected);

    let db = open(&disk);
    db.drop_keyspace("shared").unwrap();
    assert!(files(&disk, "filters").is_empty());
}

#[test]
fn any_failing_operation_on_filters_loses_nothing() {
    for class in [OpClass::Any, OpClass::Create, OpClass::Write, OpClass::Sync] {
        for fault in [Fault::Io, Fault::StorageFull, Fault::Short] {
            for nth in 0..12 {
                let disk = SimStorage::new(nth);
                let db = open(&disk);
                let keyspace = shared(&db);
                disk.fail_path_after(class, "filters", nth, fault);
                for i in 0..1500 {
                    keyspace.put(key(i * 7919 % KEYS), [i as u8; 100]).unwrap();
                }
                keyspace.wait_until_merged().unwrap();
                let expected = contents(&keyspace);
                db.close().unwrap();
                disk.clear_faults();
                let disk = disk.kill();
                let db = open(&disk);
                let keyspace = shared(&db);
                assert_eq!(contents(&keyspace), expected, "{class:?} {nth}, {fault:?}");
                keyspace.wait_until_merged().unwrap();
                check_files(&disk, &db);
            }
        }
    }
}

#[test]
fn power_or_the_process_may_go_while_filters_are_written() {
    let (whole, expected) = closed();
    let fill_and_close = |disk: &SimStorage| {
        let db = builder(disk).open()?;
        let keyspace = db.existing_keyspace("shared").expect("it was closed");
        for i in 0..10 {
            keyspace.put(key(i * 7919 % KEYS), value(i))?;
        }
        db.close()
    };
    let disk = whole.kill();
    let before = disk.operations();
    fill_and_close(&disk).unwrap();
    let operations = disk.operations() - before;
    for nth in 0..operations {
        let disk = whole.kill();
        disk.crash_after(nth);
        let _ = fill_and_close(&disk);
        for disk in [disk.crash(), disk.kill()] {
            check_after_loss(&disk, &expected, nth);
        }
    }
}

#[track_caller]
fn check_after_loss(disk: &SimStorage, expected: &Contents, nth: u64) {
    let db = open(disk);
    let keyspace = shared(&db);
    keyspace.wait_until_merged().unwrap();
    for (key, value) in expected.iter().skip(10) {
        let found = keyspace.get(key).unwrap();
        if found.as_deref() != Some(value) {
            // One of the ten that were written again.
            let again = (0..10).find(|i| crate::support::key(i * 7919 % KEYS) == *key);
            let i = again.unwrap_or_else(|| panic!("{key:?} after operation {nth}"));
            assert_eq!(found.as_deref(), Some(&*crate::support::value(i)));
        }
    }
    check_files(disk, &db);
}
