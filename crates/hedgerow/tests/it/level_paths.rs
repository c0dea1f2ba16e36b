//! Levels, log and filters on directories of their own.

use hedgerow::io::sim::{Fault, OpClass, SimStorage};
use hedgerow::{Db, ErrorKind, Keyspace, Layout, LevelPaths};

use crate::support::{Contents, DIR, builder, contents, key, kind, open, small, value};

const PATHS: &str = "0=/fast/db;1-=/slow/db;log=/fast/db;filters=/slow/db";

fn paths(text: &str) -> LevelPaths {
    text.parse().unwrap()
}

/// Two devices beside the one of the database.
fn disk(seed: u64) -> SimStorage {
    let disk = SimStorage::new(seed);
    disk.add_device("/fast");
    disk.add_device("/slow");
    disk
}

fn open_on(disk: &SimStorage, text: &str) -> Db {
    builder(disk).level_paths(paths(text)).open().unwrap()
}

fn keyspace(db: &Db) -> Keyspace {
    db.keyspace_with("k", Layout::sorted().hash(2), small())
        .unwrap()
}

fn fill(keyspace: &Keyspace, round: u64) {
    for i in 0..800 {
        keyspace.put(key(i * 7 % 800), value(i + round)).unwrap();
    }
}

/// Writes keys among those of every table, so that a compaction leaves no table as it is.
fn write_to_log(keyspace: &Keyspace) {
    for i in (1..800).step_by(10) {
        keyspace.put(key(i), "only in the log").unwrap();
    }
}

/// The number of files with this ending under a directory.
fn count(disk: &SimStorage, dir: &str, ending: &str) -> usize {
    let under = |path: &&std::path::PathBuf| {
        path.starts_with(dir) && path.to_string_lossy().ends_with(ending)
    };
    disk.paths().iter().filter(under).count()
}

/// Files of tables by place: of the database itself, fast, slow.
fn tables(disk: &SimStorage) -> [usize; 3] {
    ["/db", "/fast", "/slow"].map(|dir| count(disk, dir, ".table"))
}

#[test]
fn data_are_where_their_level_is_and_move_when_they_are_merged() {
    let disk = disk(1);
    let db = open_on(&disk, PATHS);
    let keyspace = keyspace(&db);
    fill(&keyspace, 0);
    keyspace.flush().unwrap();
    keyspace.wait_until_merged().unwrap();
    let [own, _, slow] = tables(&disk);
    assert!(own == 0 && slow > 0);
    keyspace.put(key(1000), "new").unwrap();
    keyspace.flush().unwrap();
    assert!(tables(&disk)[1] > 0);
    let log = |dir| count(&disk, dir, ".log");
    assert_eq!((log("/db"), log("/slow")), (0, 0));
    assert!(log("/fast") > 0);
    // A move of a whole table crosses over, too, and leaves nothing behind.
    keyspace.compact::<&[u8]>(..).unwrap();
    let [own, fast, slow] = tables(&disk);
    assert!(own == 0 && fast == 0 && slow > 0);
    let expected = contents(&keyspace);
    db.verify().unwrap();
    let explained = keyspace.explain(key(3)).unwrap();
    let path = &explained.tables().last().unwrap().path;
    assert!(disk.paths().contains(path), "{}", path.display());
    drop(keyspace);
    db.close().unwrap();

    // The manifest knows.
    for image in [disk.crash(), disk.kill()] {
        let db = open(&image);
        db.verify().unwrap();
        let keyspace = db.existing_keyspace("k").unwrap();
        assert_eq!(contents(&keyspace), expected);
        fill(&keyspace, 1);
        keyspace.flush().unwrap();
        assert_eq!(count(&image, "/db", ".log"), 0);
    }
}

#[test]
fn paths_change_when_the_database_is_opened() {
    let disk = disk(2);
    let db = open(&disk);
    let k = keyspace(&db);
    fill(&k, 0);
    k.flush().unwrap();
    k.wait_until_merged().unwrap();
    write_to_log(&k);
    drop(k);
    drop(db);
    assert!(tables(&disk)[0] > 0);

    let expected = |db: &Db| -> Contents { contents(&db.existing_keyspace("k").unwrap()) };
    let db = open_on(&disk, "0-=/slow/db;log=/fast/db");
    let before = expected(&db);
    assert_eq!(before[&key(1)], b"only in the log");
    assert_eq!(count(&disk, "/db", ".log"), 0, "the old log is gone");
    db.existing_keyspace("k")
        .unwrap()
        .compact::<&[u8]>(..)
        .unwrap();
    let [own, fast, slow] = tables(&disk);
    assert!(own == 0 && fast == 0 && slow > 0);
    db.close().unwrap();

    // And back: the places are forgotten once they are empty and gone.
    for _ in 0..2 {
        let db = open_on(&disk, "");
        assert_eq!(expected(&db), before);
        let k = db.existing_keyspace("k").unwrap();
        fill(&k, 0);
        write_to_log(&k);
        k.compact::<&[u8]>(..).unwrap();
        drop(k);
        db.close().unwrap();
    }
    let [own, fast, slow] = tables(&disk);
    assert!(own > 0 && fast == 0 && slow == 0);
    assert_eq!(count(&disk, "/fast", ".log"), 0);
    for place in ["/fast/db/PLACE", "/slow/db/PLACE"] {
        use hedgerow::io::Storage;
        disk.remove(place.as_ref()).unwrap();
    }
    open_on(&disk, "").close().unwrap();
    let manifest = hedgerow::inspect::manifest(&disk, DIR.as_ref()).unwrap();
    let places = |change: &hedgerow::inspect::Change| matches!(change, hedgerow::inspect::Change::SetPlaces(places) if !places.others.is_empty());
    let db = open(&disk);
    assert_eq!(expected(&db), before);
    assert!(!manifest.state.unwrap().iter().any(places));
}

#[test]
fn a_directory_that_is_missing_or_another_is_told() {
    let disk = disk(3);
    let db = open_on(&disk, PATHS);
    fill(&keyspace(&db), 0);
    keyspace(&db).compact::<&[u8]>(..).unwrap();
    db.close().unwrap();
    let expected = contents(&open(&disk.kill()).existing_keyspace("k").unwrap());

    // Not mounted.
    let image = disk.kill();
    let moved = move_all(&image, "/slow/db", "/new/db");
    let error = builder(&moved).open().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("/slow/db"), "{error}");
    assert_eq!(
        kind(hedgerow::repair_with(builder(&moved))),
        ErrorKind::InvalidArgument
    );
    let read_only = builder(&moved).read_only(true).open();
    assert_eq!(kind(read_only), ErrorKind::InvalidArgument);
    // Named where it is now.
    let now = PATHS.replace("/slow/db", "/new/db");
    let reader = builder(&moved).read_only(true).level_paths(paths(&now));
    let reader = reader.open().unwrap();
    assert_eq!(contents(&reader.existing_keyspace("k").unwrap()), expected);
    drop(reader);
    let db = open_on(&moved, &now);
    assert_eq!(contents(&db.existing_keyspace("k").unwrap()), expected);
    db.verify().unwrap();
    db.close().unwrap();
    // And remembered there.
    let db = open(&moved);
    assert_eq!(contents(&db.existing_keyspace("k").unwrap()), expected);
    drop(db);

    // Two directories in each other's place.
    let swapped = move_all(&disk.kill(), "/slow/db", "/tmp/db");
    let swapped = move_all(&swapped, "/fast/db", "/slow/db");
    let swapped = move_all(&swapped, "/tmp/db", "/fast/db");
    assert_eq!(kind(builder(&swapped).open()), ErrorKind::InvalidArgument);

    // One of another database.
    let other = Db::builder("/other").environment(hedgerow::io::Environment::simulated(&disk, 1));
    let refused = other.level_paths(paths("0=/slow/db")).open();
    assert_eq!(kind(refused), ErrorKind::InvalidArgument);
}

/// The same disk with the files of a directory in another one.
fn move_all(disk: &SimStorage, from: &str, to: &str) -> SimStorage {
    use hedgerow::io::Storage;
    for dir in ["", "tables", "log", "filters"] {
        let (from, to) = (format!("{from}/{dir}"), format!("{to}/{dir}"));
        disk.create_dir_all(to.as_ref()).unwrap();
        for file in disk.list(from.as_ref()).unwrap_or_default() {
            let (from, to) = (
                format!("{from}/{}", file.name),
                format!("{to}/{}", file.name),
            );
            disk.set_contents(&to, &disk.contents(&from).unwrap())
                .unwrap();
            disk.remove(from.as_ref()).unwrap();
        }
    }
    disk.clone()
}

#[test]
fn a_checkpoint_has_everything_in_one_directory() {
    let disk = disk(4);
    let db = open_on(&disk, PATHS);
    let k = keyspace(&db);
    fill(&k, 0);
    k.compact::<&[u8]>(..).unwrap();
    fill(&k, 3);
    let expected = contents(&k);
    for dir in ["/copy", "/slow/copy"] {
        db.checkpoint(dir).unwrap();
        let copy = Db::builder(dir).environment(hedgerow::io::Environment::simulated(&disk, 1));
        let copy = copy.create_if_missing(false).open().unwrap();
        copy.verify().unwrap();
        assert_eq!(contents(&copy.existing_keyspace("k").unwrap()), expected);
        copy.existing_keyspace("k")
            .unwrap()
            .compact::<&[u8]>(..)
            .unwrap();
    }
    assert_eq!(contents(&k), expected);
    db.verify().unwrap();
}

#[test]
fn all_places_are_repaired() {
    for damage in [&b"not a manifest"[..], b""] {
        let disk = disk(5);
        let db = open_on(&disk, PATHS);
        let k = keyspace(&db);
        fill(&k, 0);
        k.compact::<&[u8]>(..).unwrap();
        fill(&k, 3);
        let expected = contents(&k);
        drop((k, db));
        disk.set_contents("/db/MANIFEST", damage).unwrap();
        hedgerow::repair_with(builder(&disk).level_paths(paths(PATHS))).unwrap();
        let db = open(&disk);
        db.verify().unwrap();
        let name = &db.keyspaces()[0];
        let k = db.existing_keyspace(name).unwrap();
        assert_eq!(contents(&k), expected);
        k.put(key(1), "v").unwrap();
        k.compact::<&[u8]>(..).unwrap();
        assert!(tables(&disk)[1] + tables(&disk)[2] > 0);
    }
}

#[test]
fn a_full_place_holds_nothing_back_for_ever() {
    let disk = disk(6);
    let db = open_on(&disk, PATHS);
    let k = keyspace(&db);
    fill(&k, 0);
    let expected = contents(&k);
    let is_full = |error: hedgerow::Error| error.kind() == ErrorKind::NoSpace;
    disk.fail_path_after(OpClass::Create, "/fast/db/tables", 0, Fault::StorageFull);
    assert!(k.flush().is_err_and(is_full));
    k.flush().unwrap();
    disk.fail_path_after(OpClass::Create, "/slow/db/tables", 0, Fault::StorageFull);
    assert!(k.compact::<&[u8]>(..).is_err_and(is_full));
    assert_eq!(contents(&k), expected);
    disk.clear_faults();
    k.flush().unwrap();
    k.compact::<&[u8]>(..).unwrap();
    assert_eq!(contents(&k), expected);
    db.verify().unwrap();
}

#[test]
fn a_crash_while_paths_change_loses_nothing() {
    let first = disk(7);
    let db = open(&first);
    let k = keyspace(&db);
    fill(&k, 0);
    let expected = contents(&k);
    db.sync().unwrap();
    drop((k, db));
    for at in 0..400 {
        let disk = first.kill();
        disk.crash_after(at);
        let opened = builder(&disk).level_paths(paths(PATHS)).open();
        let whole = opened.is_ok() && !disk.power_lost();
        drop(opened);
        let image = disk.crash();
        for text in [PATHS, "log=/slow/db", ""] {
            let db = open_on(&image, text);
            assert_eq!(
                contents(&db.existing_keyspace("k").unwrap()),
                expected,
                "{at} {text}"
            );
            db.verify().unwrap();
        }
        if whole {
            return;
        }
    }
    panic!("expected fewer operations");
}
