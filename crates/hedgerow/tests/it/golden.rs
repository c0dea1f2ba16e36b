//! Whole databases of each release, checked in: they stay readable, and today's writer writes the
//! bytes of its own release. `HEDGEROW_BLESS=1` writes those of the release in the making; the
//! folders of earlier releases never change.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hedgerow::inspect::{self, FilterContents, FilterDescription, GroupFilter, Segment, Table};
use hedgerow::io::sim::SimStorage;
use hedgerow::io::{OsStorage, ReadMode, Storage};
use hedgerow::{
    Builder, Compression, Db, Design, Durability, Expiry, Keyspace, Layout, LevelPaths, PrefixRule,
};

use crate::support::{DIR, builder, files, key, small, value};

/// The databases of each release, the last one of which is in the making and may still change.
const RELEASES: [&str; 1] = ["testdata/format/0.1"];
/// The parts of a database's directory that are checked in. Levels, log and filters of `places` are
/// in `deep`.
const PARTS: [&str; 8] = [
    "",
    "log",
    "tables",
    "filters",
    "deep",
    "deep/log",
    "deep/tables",
    "deep/filters",
];
/// Beside the database: its entries as text.
const CONTENTS: &str = "/contents.txt";

/// A database of each release.
struct Golden {
    name: &'static str,
    options: fn(Builder) -> Builder,
    write: fn(&Db),
    /// The formats that must be in its files; see [`formats`].
    formats: &'static [&'static str],
}

const DATABASES: [Golden; 6] = [
    Golden {
        name: "plain",
        options: |builder| builder,
        write: write_plain,
        formats: &["a compressed page", "partitions hash:2", "filter bloom"],
    },
    Golden {
        name: "operations",
        options: |builder| builder,
        write: write_operations,
        formats: &[
            "index three-level",
            "filter hashes",
            "table htable",
            "filter over runs mlcf",
            "filter over runs cluster",
        ],
    },
    Golden {
        name: "compressed-log",
        options: |builder| builder.compress_log(true),
        write: write_compressed_log,
        formats: &["a compressed record"],
    },
    Golden {
        name: "designs",
        options: |builder| builder,
        write: write_designs,
        formats: &[
            "filter cuckoo",
            "filter buckets",
            "index three-level:array",
            "partitions range:key-000020,key-000040",
        ],
    },
    Golden {
        name: "places",
        options: |builder| {
            let paths = LevelPaths::new().levels(1.., "deep");
            builder.level_paths(paths.log("deep").filters("deep"))
        },
        write: write_places,
        formats: &[
            "/deep/PLACE",
            "/deep/log/*.log",
            "/deep/tables/*.table",
            "/deep/filters/*.filter",
            "/tables/*.table",
        ],
    },
    Golden {
        name: "zstd",
        options: |builder| builder,
        write: write_zstd,
        formats: &["a compressed page"],
    },
];

/// The databases that this build can read and write: Zstandard is a feature.
fn databases() -> impl Iterator<Item = Golden> {
    let is_built = |golden: &Golden| golden.name != "zstd" || cfg!(feature = "zstd");
    DATABASES.into_iter().filter(is_built)
}

/// The directory of a database of a release.
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
        for golden in databases() {
            let dir = golden_dir(release, golden.name);
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

/// A design from its choices, with tables and memtables as small as they can be.
fn design(choices: &str) -> Design {
    Design {
        table_bytes: Some(4 << 10),
        memtable_bytes: Some(4 << 10),
        ..choices.replace(' ', "\n").parse().unwrap()
    }
}

/// A keyspace of each table format, index, filter over several runs and key order, and each
/// operation beyond put and delete, in tables and in the log.
fn write_operations(db: &Db) {
    let keyspace = |name, layout, text| db.keyspace_with(name, layout, design(text)).unwrap();
    let slim = keyspace(
        "slim",
        Layout::semi_sorted(PrefixRule::Bytes(5)),
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

/// Records of all sizes. The log alone has their entries, but for one of a table.
fn write_compressed_log(db: &Db) {
    let notes = db.keyspace("notes", Layout::sorted()).unwrap();
    notes.put(key(1000), "in a table").unwrap();
    notes.flush().unwrap();
    for i in 0..60 {
        notes.put(key(i), value(i)).unwrap();
    }
    notes.put("long", "leaf ".repeat(400)).unwrap();
    let mut batch = db.batch();
    for i in 0..30 {
        batch.put(&notes, key(100 + i), value(i)).unwrap();
        batch.delete(&notes, key(2 * i)).unwrap();
    }
    batch.commit(Durability::Synced).unwrap();
}

/// The filters and indexes of a table that the other databases lack, and trees by ranges of keys.
fn write_designs(db: &Db) {
    let keyspace = |name, layout, text| db.keyspace_with(name, layout, design(text)).unwrap();
    let ranges = Layout::sorted().range(["key-000020", "key-000040"]);
    let groups = Layout::semi_sorted(PrefixRule::Bytes(9));
    let keyspaces = [
        keyspace("cuckoo", ranges, "filter=cuckoo:12 block-bytes=512"),
        keyspace("array", groups, "index=three-level:array block-bytes=512"),
        keyspace(
            "buckets",
            Layout::hashed(),
            "table=htable filter=bloom:10 block-bytes=512",
        ),
    ];
    for keyspace in &keyspaces {
        for i in 0..60 {
            keyspace.put(key(i * 7 % 60), value(i)).unwrap();
        }
        keyspace.flush().unwrap();
        keyspace.wait_until_merged().unwrap();
        keyspace.delete(key(21)).unwrap();
        keyspace.put(key(41), "only in the log").unwrap();
    }
}

/// Two runs in level 0 with a filter over them, tables in a deeper level, entries in the log alone.
fn write_places(db: &Db) {
    let text = "policy=0=runs:4/mlcf:14;1=leveling:4 block-bytes=512";
    let parts = db
        .keyspace_with("parts", Layout::sorted(), design(text))
        .unwrap();
    for i in 0..60 {
        parts.put(key(i), value(i)).unwrap();
    }
    parts.compact::<&[u8]>(..).unwrap();
    for round in 0..2 {
        for i in 0..20 {
            parts.put(key(i * 3 + round), value(i + round)).unwrap();
        }
        parts.flush().unwrap();
    }
    parts.put(key(7), "only in the log").unwrap();
}

/// Tables with blocks that Zstandard shortens.
fn write_zstd(db: &Db) {
    let text = "compression=zstd block-bytes=1024";
    let packed = db
        .keyspace_with("packed", Layout::sorted(), design(text))
        .unwrap();
    for i in 0..120 {
        packed.put(key(i * 7 % 120), value(i)).unwrap();
    }
    packed.put("long", "leaf ".repeat(700)).unwrap();
    packed.flush().unwrap();
    packed.delete(key(21)).unwrap();
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
fn written_today(golden: &Golden) -> (SimStorage, String) {
    let disk = SimStorage::new(0);
    let builder = builder(&disk).log_segment_bytes(4 << 10);
    let db = (golden.options)(builder).open().unwrap();
    (golden.write)(&db);
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
    for (name, bytes) in files {
        let dir = path(name);
        storage.create_dir_all(dir.parent().unwrap()).unwrap();
        let mut file = storage.create(&path(name)).unwrap();
        file.write(bytes).unwrap();
        file.sync().unwrap();
    }
}

#[test]
fn todays_writer_writes_the_databases_of_its_release() {
    for golden in databases() {
        let (disk, contents) = written_today(&golden);
        let dir = golden_dir(RELEASES[RELEASES.len() - 1], golden.name);
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
                "{}{path} differs from byte {differs:?} on; bless it if the format was meant to change",
                dir.display()
            );
        }
    }
}

/// The formats of a database's files: tables, their indexes and filters, pages and records that are
/// compressed, partitions, and the files by their kinds, such as `/deep/log/*.log`.
fn formats(dir: &Path) -> BTreeSet<String> {
    let storage = OsStorage::new();
    let mut found = BTreeSet::new();
    for name in read_files(&storage, dir).into_keys() {
        let kind = match name.split_once('.') {
            Some((file, ending)) => {
                let folder = file.rsplit_once('/').unwrap().0;
                format!("{folder}/*.{ending}")
            }
            None => name.clone(),
        };
        if kind.ends_with(".table") {
            let path = dir.join(name.trim_start_matches('/'));
            formats_of_table(&Table::open(&storage, &path).unwrap(), &mut found);
        }
        if kind.ends_with(".filter") {
            let path = dir.join(name.trim_start_matches('/'));
            let filter = match GroupFilter::open(&storage, &path).unwrap().contents {
                FilterContents::MultiLevelCuckoo(_) => "filter over runs mlcf",
                FilterContents::Cluster(_) => "filter over runs cluster",
                other => panic!("expected a known kind of filter, found {other:?}"),
            };
            found.insert(filter.to_owned());
        }
        found.insert(format!("/{}", kind.trim_start_matches('/')));
    }
    for number in inspect::segments(&storage, dir).unwrap() {
        for record in Segment::open(&storage, dir, number).unwrap() {
            let record = record.unwrap();
            let bytes = record.operations.iter().map(|it| it.value.len() as u64);
            if bytes.sum::<u64>() > record.bytes {
                found.insert("a compressed record".to_owned());
            }
        }
    }
    let db = Db::builder(dir).read_only(true).open().unwrap();
    for name in db.keyspaces() {
        let layout = db.existing_keyspace(&name).unwrap().layout();
        found.insert(format!("partitions {}", layout.partitioning));
    }
    found
}

fn formats_of_table(table: &Table, found: &mut BTreeSet<String>) {
    let footer = table.footer();
    found.insert(format!("table {}", footer.table));
    found.insert(format!("index {}", footer.index));
    let filter = footer.filter.as_ref().map(|filter| match filter {
        FilterDescription::Bloom(_) => "filter bloom",
        FilterDescription::Cuckoo(_) => "filter cuckoo",
        FilterDescription::Hashes(_) => "filter hashes",
        FilterDescription::Buckets(_) => "filter buckets",
    });
    found.extend(filter.map(str::to_owned));
    for page in table.pages() {
        let page = page.unwrap();
        if (page.handle.bytes as usize) < page.raw_bytes {
            found.insert("a compressed page".to_owned());
        }
    }
}

#[test]
fn the_databases_have_the_formats_that_they_were_made_for() {
    for golden in databases() {
        let found = formats(&golden_dir(RELEASES[RELEASES.len() - 1], golden.name));
        for wanted in golden.formats {
            let name = golden.name;
            assert!(found.contains(*wanted), "{name}: {wanted} in {found:?}");
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

/// Filters had files of two kinds once. Those of clusters are still read. Multi-level cuckoo
/// filters are built anew, and their files go.
#[test]
fn former_files_of_filters_are_read_or_replaced() {
    let former = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/format/former-filters");
    let mut database = read_files(&OsStorage::new(), &golden_dir(RELEASES[0], "operations"));
    let expected = String::from_utf8(database.remove(CONTENTS).unwrap()).unwrap();
    database.retain(|path, _| !path.starts_with("filters/"));
    for (name, bytes) in read_files(&OsStorage::new(), &former) {
        database.insert(format!("filters{name}"), bytes);
    }
    let disk = SimStorage::new(1);
    for (path, bytes) in &database {
        let path = format!("{DIR}/{}", path.trim_start_matches('/'));
        disk.set_contents(path, bytes).unwrap();
    }
    let asked = |db: &Db, keyspace: &str| -> usize {
        let keyspace = db.existing_keyspace(keyspace).unwrap();
        let asked = |i| keyspace.explain(key(i)).unwrap().group_filters.len();
        (0..60).map(asked).sum()
    };
    let read_only = builder(&disk).read_only(true).open().unwrap();
    assert_eq!(contents(&read_only), expected);
    assert!(asked(&read_only, "trie") > 0 && asked(&read_only, "slim") == 0);
    drop(read_only);

    let db = builder(&disk).open().unwrap();
    assert_eq!(contents(&db), expected);
    for name in db.keyspaces() {
        let keyspace = db.existing_keyspace(&name).unwrap();
        keyspace.wait_until_merged().unwrap();
    }
    assert!(asked(&db, "trie") > 0 && asked(&db, "slim") > 0);
    assert_eq!(contents(&db), expected);
    db.verify().unwrap();
    db.close().unwrap();
    let names = files(&disk, "filters");
    let clusters = names.iter().filter(|name| name.ends_with(".cluster"));
    assert_eq!(clusters.count(), 4, "{names:?}");
    assert!(
        !names.iter().any(|name| name == "0000000040.filter"),
        "{names:?}"
    );
    assert!(names.len() > 4, "{names:?}");
}

#[test]
fn equal_seeds_give_equal_databases() {
    // Every map of this process has other seeds: an order that depends on one would show.
    for golden in databases() {
        let (one, _) = written_today(&golden);
        for _ in 0..8 {
            let (again, _) = written_today(&golden);
            assert_eq!(
                read_files(&one, DIR.as_ref()),
                read_files(&again, DIR.as_ref())
            );
        }
    }
}
