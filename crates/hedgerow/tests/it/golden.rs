//! Whole databases of each release, checked in: they stay readable, and today's writer writes the
//! bytes of its own release. `HEDGEROW_BLESS=1` writes those of the release in the making; the
//! folders of earlier releases never change.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hedgerow::io::sim::SimStorage;
use hedgerow::io::{OsStorage, ReadMode, Storage};
use hedgerow::{
    Compression, Db, Design, Durability, Expiry, KeyOrder, Keyspace, Layout, PrefixRule,
};

use crate::support::{DIR, builder, key, small, value};

/// The databases of each release, the last one of which is in the making and may still change.
const RELEASES: [&str; 1] = ["testdata/format/0.1"];
/// The parts of a database's directory that are checked in.
const PARTS: [&str; 4] = ["", "log", "tables", "filters"];
/// Beside the database: its entries as text.
const CONTENTS: &str = "/contents.txt";
type Writer = fn(&Db);
/// The databases of a release, and what writes them.
const DATABASES: [(&str, Writer); 2] = [("plain", write_plain), ("operations", write_operations)];

/// A database of a release.
fn golden_dir(release: &str, name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join(release)
        .join(name)
}

/// The databases of all releases: their directories.
fn released() -> Vec<PathBuf> {
    let storage = OsStorage::new();
    let mut found = Vec::new();
    for release in RELEASES {
        for (name, _) in DATABASES {
            let dir = golden_dir(release, name);
            assert!(!storage.list(&dir).unwrap().is_empty(), "{}", dir.display());
            found.push(dir);
        }
    }
    found
}

/// Puts, deletes, batches, a dropped keyspace, tables of every size of level.
fn write_plain(db: &Db) {
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
}

/// A keyspace of each table format, index, filter over several runs and key order, and each
/// operation beyond put and delete, in tables and in the log.
fn write_operations(db: &Db) {
    let design = |text: &str| Design {
        table_bytes: Some(4 << 10),
        memtable_bytes: Some(4 << 10),
        ..text.replace(' ', "\n").parse().unwrap()
    };
    let semi_sorted = |rule| Layout {
        order: KeyOrder::SemiSorted(rule),
        ..Layout::default()
    };
    let keyspace = |name, layout, text| db.keyspace_with(name, layout, design(text)).unwrap();
    let slim = keyspace(
        "slim",
        semi_sorted(PrefixRule::Bytes(5)),
        "policy=0=runs:4/mlcf:14;1=tiering:4/mlcf:14 index=three-level",
    );
    let trie = keyspace(
        "trie",
        Layout::hashed(),
        "policy=trie:4 filter=cluster:16 table=htable",
    );
    let changed = keyspace(
        "changed",
        Layout::sorted().merge_operator("append"),
        "policy=leveling:4 filter=bloom:10",
    );
    for i in 0..120 {
        slim.put(key(i * 7 % 60), value(i)).unwrap();
        trie.put(key(i * 7 % 60), value(i)).unwrap();
    }
    for round in 0..2u64 {
        change(&changed, round);
        if round == 0 {
            db.flush().unwrap();
            for keyspace in [&slim, &trie, &changed] {
                keyspace.wait_until_merged().unwrap();
            }
        }
    }
    db.rename_keyspace("changed", "renamed").unwrap();
    db.create_slot("reader", 1 << 20).unwrap();
    changed
        .set_time_to_live(Some(Duration::from_secs(1 << 33)))
        .unwrap();
}

/// Each operation of a keyspace once, on keys of this round and of the one before.
fn change(keyspace: &Keyspace, round: u64) {
    let at = |i| key(100 * round + i);
    keyspace.put("", format!("round {round}")).unwrap();
    for i in 0..20 {
        keyspace.put(at(i), value(i)).unwrap();
    }
    for i in (0..20).step_by(3) {
        keyspace.merge(at(i), "+").unwrap();
        keyspace.merge(key(i), "-").unwrap();
    }
    // The year 2242, in which nobody runs this test.
    let far = Expiry::of(Some(8_600_000_000_000));
    keyspace.put_expiring(at(30), "far", far).unwrap();
    keyspace
        .put_expiring(at(31), "past", Expiry::of(Some(1)))
        .unwrap();
    keyspace.delete_range(at(5)..at(8)).unwrap();
    keyspace.delete_range(key(15)..=key(16)).unwrap();
}

/// All entries of all keyspaces, as text.
fn contents(db: &Db) -> String {
    let mut out = String::new();
    for name in db.keyspaces() {
        let keyspace = db.existing_keyspace(&name).unwrap();
        let mut entries: Vec<_> = keyspace
            .scan_unordered()
            .unwrap()
            .map(Result::unwrap)
            .collect();
        entries.sort();
        for (key, value) in entries {
            assert_eq!(keyspace.get(&key).unwrap().as_deref(), Some(&*value));
            let (key, value) = (key.escape_ascii(), value.escape_ascii());
            writeln!(out, "{name}\t{key}\t{value}").unwrap();
        }
    }
    out
}

/// A small closed database, as today's writer writes it, and its contents.
fn written_today(write: fn(&Db)) -> (SimStorage, String) {
    let disk = SimStorage::new(0);
    let db = builder(&disk).log_segment_bytes(4 << 10).open().unwrap();
    write(&db);
    let contents = contents(&db);
    db.close().unwrap();
    (disk, contents)
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

fn bless(dir: &Path, files: &BTreeMap<String, Vec<u8>>) {
    let (storage, path) = (OsStorage::new(), |name: &str| {
        dir.join(name.trim_start_matches('/'))
    });
    for old in read_files(&storage, dir).keys() {
        storage.remove(&path(old)).unwrap();
    }
    for part in PARTS {
        storage.create_dir_all(&dir.join(part)).unwrap();
    }
    for (name, bytes) in files {
        let mut file = storage.create(&path(name)).unwrap();
        file.write(bytes).unwrap();
        file.sync().unwrap();
    }
}

#[test]
fn todays_writer_writes_the_databases_of_its_release() {
    for (name, write) in DATABASES {
        let (disk, contents) = written_today(write);
        let dir = golden_dir(RELEASES[RELEASES.len() - 1], name);
        let mut today = read_files(&disk, DIR.as_ref());
        today.insert(CONTENTS.to_owned(), contents.into_bytes());
        if std::env::var_os("HEDGEROW_BLESS").is_some() {
            bless(&dir, &today);
        }
        let golden = read_files(&OsStorage::new(), &dir);
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
}

#[test]
fn databases_of_every_release_open_and_hold_what_they_held() {
    for golden in released() {
        let mut files = read_files(&OsStorage::new(), &golden);
        let expected = String::from_utf8(files.remove(CONTENTS).unwrap()).unwrap();
        let check = |db: &Db| {
            assert_eq!(contents(db), expected, "{}", golden.display());
            db.verify().unwrap();
        };
        // As it lies there, and a copy that is written to.
        check(&Db::builder(&golden).read_only(true).open().unwrap());
        let disk = SimStorage::new(1);
        for (path, bytes) in files {
            disk.set_contents(format!("{DIR}/{}", path.trim_start_matches('/')), &bytes)
                .unwrap();
        }
        let db = builder(&disk).open().unwrap();
        check(&db);
        for name in db.keyspaces() {
            let keyspace = db.existing_keyspace(&name).unwrap();
            keyspace.compact::<&[u8]>(..).unwrap();
        }
        check(&db);
    }
}

#[test]
fn equal_seeds_give_equal_databases() {
    // Every map of this process has other seeds: an order that depends on one would show.
    for (_, write) in DATABASES {
        let (one, _) = written_today(write);
        for _ in 0..8 {
            let (again, _) = written_today(write);
            assert_eq!(
                read_files(&one, DIR.as_ref()),
                read_files(&again, DIR.as_ref())
            );
        }
    }
}
