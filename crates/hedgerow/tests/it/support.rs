//! Opening small databases on simulated disks, and reading all of one.

use std::collections::BTreeMap;

use hedgerow::io::Environment;
use hedgerow::io::sim::SimStorage;
use hedgerow::{
    Builder, Compression, Cursor, Db, Design, Durability, ErrorKind, Keyspace, Layout, Result, Scan,
};

/// Keys and values of a keyspace.
pub(crate) type Contents = BTreeMap<Vec<u8>, Vec<u8>>;

/// The directory of every simulated database.
pub(crate) const DIR: &str = "/db";

pub(crate) fn builder(disk: &SimStorage) -> Builder {
    Db::builder(DIR)
        .environment(Environment::simulated(disk, 7))
        .memory_budget(1 << 20)
        .log_segment_bytes(16 << 10)
}

pub(crate) fn open(disk: &SimStorage) -> Db {
    builder(disk).open().unwrap()
}

/// Memtables, tables and blocks so small that a few hundred writes make several levels.
pub(crate) fn small() -> Design {
    Design {
        compression: Compression::None,
        block_bytes: 512,
        table_bytes: Some(4 << 10),
        memtable_bytes: Some(4 << 10),
        ..Design::default()
    }
}

pub(crate) fn plain(db: &Db) -> Keyspace {
    db.keyspace("plain", Layout::sorted()).unwrap()
}

/// The keyspace `plain` with the small design.
pub(crate) fn plain_small(db: &Db) -> Keyspace {
    db.keyspace_with("plain", Layout::sorted(), small())
        .unwrap()
}

/// A keyspace with keys in the order of their hashes.
pub(crate) fn hashed(db: &Db, design: Design) -> Keyspace {
    db.keyspace_with("hashed", Layout::hashed(), design)
        .unwrap()
}

pub(crate) fn key(i: u64) -> Vec<u8> {
    format!("key-{i:06}").into_bytes()
}

pub(crate) fn value(i: u64) -> Vec<u8> {
    format!("value-{i}-{}", "x".repeat(i as usize % 60)).into_bytes()
}

/// Everything, read in every way there is; all ways must agree.
pub(crate) fn read_all(keyspace: &Keyspace) -> Result<Contents> {
    let mut contents = Contents::new();
    for item in keyspace.scan::<&[u8]>(..)? {
        let (key, value) = item?;
        contents.insert(key.to_vec(), value.to_vec());
    }
    let mut backward = Contents::new();
    for item in keyspace.scan::<&[u8]>(..)?.rev() {
        let (key, value) = item?;
        backward.insert(key.to_vec(), value.to_vec());
    }
    assert_eq!(contents, backward, "the two directions of a scan disagree");
    let of_cursor = visit_all(&mut keyspace.cursor()?)?;
    let of_scan = visit_scan(&mut keyspace.scan::<&[u8]>(..)?)?;
    for visited in [of_cursor, of_scan] {
        assert_eq!(
            visited.len(),
            contents.len(),
            "a visit disagrees with the scan"
        );
        assert_eq!(visited.into_iter().collect::<Contents>(), contents);
    }
    let keys: Vec<_> = contents.keys().collect();
    let together = keyspace.multi_get(&keys)?;
    for ((key, value), together) in contents.iter().zip(together) {
        let alone = keyspace.get(key)?;
        assert_eq!(alone.as_deref(), Some(value.as_slice()), "a get disagrees");
        assert_eq!(together.as_deref(), Some(value.as_slice()));
        assert!(keyspace.contains_key(key)?);
    }
    Ok(contents)
}

/// All entries of a cursor by visits, each of which ends at the seventh entry.
fn visit_all(cursor: &mut Cursor) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut visited = Vec::new();
    let mut goes_on = cursor.seek_first()?;
    while goes_on {
        let end = visited.len() + 6;
        goes_on = cursor.visit(|key, value| {
            let is_wanted = visited.len() < end;
            if is_wanted {
                visited.push((key.to_vec(), value.to_vec()));
            }
            is_wanted
        })?;
    }
    Ok(visited)
}

/// All entries of a scan by visits of up to seven.
fn visit_scan(scan: &mut Scan) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut visited = Vec::new();
    let mut goes_on = true;
    while goes_on {
        let end = visited.len() + 7;
        goes_on = scan.visit(|key, value| {
            visited.push((key.to_vec(), value.to_vec()));
            visited.len() < end
        })?;
    }
    Ok(visited)
}

pub(crate) fn contents(keyspace: &Keyspace) -> Contents {
    read_all(keyspace).unwrap()
}

/// Everything, read in stored order, for keys that are not sorted.
pub(crate) fn contents_unordered(keyspace: &Keyspace) -> Contents {
    let scan = keyspace.scan_unordered().unwrap();
    let items = scan.map(Result::unwrap);
    items
        .map(|(key, value)| (key.to_vec(), value.to_vec()))
        .collect()
}

/// The kind of an error that must be.
#[track_caller]
pub(crate) fn kind<T>(result: Result<T>) -> ErrorKind {
    match result {
        Ok(_) => panic!("expected an error"),
        Err(error) => error.kind(),
    }
}

/// The files under a directory of the database.
pub(crate) fn files(disk: &SimStorage, under: &str) -> Vec<String> {
    let prefix = format!("{DIR}/{under}/");
    let paths = disk.paths().into_iter();
    paths
        .filter_map(|path| path.to_str()?.strip_prefix(&prefix).map(str::to_owned))
        .collect()
}

/// The number of leading values that are there, of `count` values numbered from 0. Panics if there
/// is a hole.
#[track_caller]
pub(crate) fn prefix_length(found: impl Fn(u64) -> bool, count: u64) -> u64 {
    let length = (0..count).take_while(|&i| found(i)).count() as u64;
    for i in length..count {
        assert!(
            !found(i),
            "write {length} is missing, but write {i} is there"
        );
    }
    length
}

pub(crate) fn put_synced(keyspace: &Keyspace, i: u64) {
    keyspace
        .put_with(key(i), value(i), Durability::Synced)
        .unwrap();
}
