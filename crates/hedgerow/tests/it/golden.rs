//! A whole database of format version 0, checked in: it stays readable, and today's writer writes
//! the same bytes. `HEDGEROW_BLESS=1` rewrites it after a deliberate change of a format that is not
//! released.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use hedgerow::io::sim::SimStorage;
use hedgerow::io::{OsStorage, ReadMode, Storage};
use hedgerow::{Compression, Db, Design, Durability, Layout};

use crate::support::{Contents, DIR, builder, contents, key, small, value};

/// The parts of a database's directory that are checked in.
const PARTS: [&str; 3] = ["", "log", "tables"];

fn golden_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/format/db-v0")
}

/// The same database, from when the manifest had designs as codes.
fn coded_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/format/db-v0-coded")
}

/// A small closed database with every kind of file and entry, and its contents.
fn written_today() -> (SimStorage, BTreeMap<&'static str, Contents>) {
    let disk = SimStorage::new(0);
    let db = builder(&disk).log_segment_bytes(4 << 10).open().unwrap();
    let packed = Design {
        compression: Compression::Lz4,
        ..small()
    };
    let plants = db
        .keyspace_with("plants", Layout::sorted(), packed)
        .unwrap();
    let by_hash = db
        .keyspace_with("by-hash", Layout::sorted().hash(2), small())
        .unwrap();
    db.keyspace("gone", Layout::sorted())
        .unwrap()
        .put(b"k", b"v")
        .unwrap();
    for round in 0..3u64 {
        for i in 0..30 {
            plants.put(key(i * 3 + round), value(i)).unwrap();
            by_hash.put(key(i), value(i + round)).unwrap();
        }
        plants
            .put(key(1000 + round), vec![round as u8; 3000])
            .unwrap();
        plants.delete(key(round * 7)).unwrap();
        match round {
            0 => plants.compact::<&[u8]>(..).unwrap(),
            1 => db.flush().unwrap(),
            _ => db.drop_keyspace("gone").unwrap(),
        }
    }
    let mut batch = db.batch();
    batch.put(&plants, b"batch", b"one").unwrap();
    batch.delete(&by_hash, key(3)).unwrap();
    batch.commit(Durability::Synced).unwrap();
    let all = [
        ("plants", contents(&plants)),
        ("by-hash", contents(&by_hash)),
    ];
    db.close().unwrap();
    (disk, all.into())
}

/// The files of a database's directory but the lock, by their path in it.
fn read_files(storage: &dyn Storage, dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for part in PARTS {
        let Ok(files) = storage.list(&dir.join(part)) else {
            continue;
        };
        for file in files.iter().filter(|file| file.name != "LOCK") {
            let path = dir.join(part).join(&file.name);
            let mut bytes = vec![0; file.bytes as usize];
            let reader = storage.open(&path, ReadMode::Pread).unwrap();
            reader.read_at(0, &mut bytes).unwrap();
            found.insert(format!("{part}/{}", file.name), bytes);
        }
    }
    found
}

fn bless(files: &BTreeMap<String, Vec<u8>>) {
    let (storage, dir) = (OsStorage::new(), golden_dir());
    for old in read_files(&storage, &dir).keys() {
        storage
            .remove(&dir.join(old.trim_start_matches('/')))
            .unwrap();
    }
    for part in PARTS {
        storage.create_dir_all(&dir.join(part)).unwrap();
    }
    for (path, bytes) in files {
        let mut file = storage
            .create(&dir.join(path.trim_start_matches('/')))
            .unwrap();
        file.write(bytes).unwrap();
        file.sync().unwrap();
    }
}

#[test]
fn todays_writer_writes_the_golden_database() {
    let (disk, _) = written_today();
    let today = read_files(&disk, DIR.as_ref());
    if std::env::var_os("HEDGEROW_BLESS").is_some() {
        bless(&today);
    }
    let golden = read_files(&OsStorage::new(), &golden_dir());
    let names = |files: &BTreeMap<String, Vec<u8>>| files.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&today), names(&golden));
    for (path, bytes) in &today {
        let differs = bytes.iter().zip(&golden[path]).position(|(a, b)| a != b);
        assert!(
            *bytes == golden[path],
            "{path} differs from byte {differs:?} on; bless it if the format was meant to change"
        );
    }
}

#[test]
fn golden_database_opens_and_holds_what_it_held() {
    holds_what_it_held(&golden_dir());
}

#[test]
fn a_database_with_coded_designs_opens_and_holds_what_it_held() {
    holds_what_it_held(&coded_dir());
}

fn holds_what_it_held(golden: &Path) {
    let (_, expected) = written_today();
    let check = |db: &Db| {
        assert!(db.keyspaces().iter().eq(expected.keys()));
        for (name, expected) in &expected {
            assert_eq!(&contents(&db.existing_keyspace(name).unwrap()), expected);
        }
        db.verify().unwrap();
    };
    // As it lies there, and a copy that is written to.
    check(&Db::builder(golden).read_only(true).open().unwrap());
    let disk = SimStorage::new(1);
    for (path, bytes) in read_files(&OsStorage::new(), golden) {
        disk.set_contents(format!("{DIR}/{}", path.trim_start_matches('/')), &bytes)
            .unwrap();
    }
    let db = builder(&disk).open().unwrap();
    check(&db);
    for name in expected.keys() {
        db.existing_keyspace(name)
            .unwrap()
            .compact::<&[u8]>(..)
            .unwrap();
    }
    check(&db);
}

#[test]
fn equal_seeds_give_equal_databases() {
    // Every map of this process has other seeds: an order that depends on one would show.
    let (one, _) = written_today();
    for _ in 0..8 {
        let (again, _) = written_today();
        assert_eq!(
            read_files(&one, DIR.as_ref()),
            read_files(&again, DIR.as_ref())
        );
    }
}
