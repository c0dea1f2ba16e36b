//! Tables outside of the database: written, ingested as one commit, exported.

use std::path::PathBuf;

use hedgerow::io::Environment;
use hedgerow::io::sim::SimStorage;
use hedgerow::{Compression, Db, ErrorKind, Keyspace, Layout, TableWriter};

use crate::support::{
    Contents, builder, contents, hashed, key, kind, open, plain, plain_small, put_synced, small,
    value,
};

fn writer(disk: &SimStorage, name: &str) -> TableWriter {
    let path = PathBuf::from("/outside").join(name);
    hedgerow::io::Storage::create_dir_all(disk, "/outside".as_ref()).unwrap();
    TableWriter::create_on(disk, &path, Compression::Lz4).unwrap()
}

/// Puts every third of these keys and deletes those behind it.
fn write(disk: &SimStorage, name: &str, keys: std::ops::Range<u64>) -> Vec<PathBuf> {
    let mut table = writer(disk, name);
    for i in keys {
        match i % 3 {
            0 => table.put(key(i), ingested(i)).unwrap(),
            1 => table.delete(key(i)).unwrap(),
            _ => {}
        }
    }
    table.finish().unwrap();
    vec![PathBuf::from("/outside").join(name)]
}

fn ingested(i: u64) -> Vec<u8> {
    // Some of them are out of line.
    format!(
        "ingested-{i}-{}",
        "y".repeat(if i.is_multiple_of(30) { 3000 } else { 20 })
    )
    .into_bytes()
}

fn apply(model: &mut Contents, keys: std::ops::Range<u64>) {
    for i in keys {
        match i % 3 {
            0 => drop(model.insert(key(i), ingested(i))),
            1 => drop(model.remove(&key(i))),
            _ => {}
        }
    }
}

fn fill(keyspace: &Keyspace) -> Contents {
    (0..600).for_each(|i| keyspace.put(key(i), value(i)).unwrap());
    contents(keyspace)
}

#[test]
fn an_ingested_table_is_newer_than_everything_before_and_older_than_everything_after() {
    let by_range = Layout::sorted().range([key(100), key(300), key(301)]);
    for layout in [Layout::sorted(), Layout::sorted().hash(4), by_range] {
        let disk = SimStorage::new(1);
        let db = open(&disk);
        let keyspace = db.keyspace_with("plain", layout, small()).unwrap();
        let mut model = fill(&keyspace);
        let before = model.clone();
        let snapshot = db.snapshot().unwrap();
        let report = keyspace.ingest(&write(&disk, "a", 50..700)).unwrap();
        assert_eq!(report.entries, 433);
        apply(&mut model, 50..700);
        keyspace.put(key(60), b"later").unwrap();
        model.insert(key(60), b"later".to_vec());
        assert_eq!(contents(&keyspace), model);
        let scan = snapshot.scan::<&[u8]>(&keyspace, ..).unwrap();
        let seen = scan.map(Result::unwrap);
        let seen: Contents = seen.map(|(k, v)| (k.to_vec(), v.to_vec())).collect();
        assert_eq!(seen, before);
        drop(snapshot);
        keyspace.compact::<&[u8]>(..).unwrap();
        assert_eq!(contents(&keyspace), model);
        drop((keyspace, db));
        let db = open(&disk.crash());
        db.verify().unwrap();
        let keyspace = db.existing_keyspace("plain").unwrap();
        // It was durable; the put behind it may be lost.
        model.remove(&key(60));
        let mut found = contents(&keyspace);
        found.remove(&key(60));
        assert_eq!(found, model);
    }
}

#[test]
fn a_crash_in_the_middle_leaves_all_of_an_ingest_or_nothing() {
    for step in 0.. {
        let disk = SimStorage::new(step);
        let db = open(&disk);
        let keyspace = plain_small(&db);
        (0..40).for_each(|i| put_synced(&keyspace, i));
        let before = contents(&keyspace);
        let mut after = before.clone();
        apply(&mut after, 20..300);
        let paths = [write(&disk, "b", 150..300), write(&disk, "a", 20..150)].concat();
        disk.crash_after(step);
        let done = keyspace.ingest(&paths).is_ok();
        for image in [disk.crash(), disk.kill()] {
            let db = builder(&image).open().unwrap();
            db.verify().unwrap();
            let found = contents(&plain_small(&db));
            assert!(found == after || (!done && found == before), "{step}");
        }
        if !disk.power_lost() {
            assert!(done);
            break;
        }
    }
}

#[test]
fn an_exported_range_is_ingested_by_another_database() {
    let disk = SimStorage::new(3);
    let db = open(&disk);
    let source = db
        .keyspace_with("source", Layout::sorted().hash(3), small())
        .unwrap();
    let mut expected = fill(&source);
    let paths = source.export(key(100)..key(400), "/exported").unwrap();
    expected.retain(|k, _| (key(100)..key(400)).contains(k));
    (0..600).for_each(|i| source.delete(key(i)).unwrap());
    let other = Db::builder("/other").environment(Environment::simulated(&disk.crash(), 7));
    let other = other.open().unwrap();
    let target = plain(&other);
    target.ingest(&paths).unwrap();
    assert_eq!(contents(&target), expected);
    // The file is not changed: it can be ingested again.
    target.clear().unwrap();
    target.ingest(&paths).unwrap();
    assert_eq!(contents(&target), expected);
    assert_eq!(
        target.export(b"z".to_vec().., "/none").unwrap(),
        Vec::<PathBuf>::new()
    );
    assert!(
        source
            .export(key(100)..key(400), "/exported")
            .unwrap()
            .is_empty()
    );
}

#[test]
fn what_is_no_table_of_a_table_writer_is_refused_and_changes_nothing() {
    let disk = SimStorage::new(4);
    let db = open(&disk);
    let keyspace = plain_small(&db);
    let model = fill(&keyspace);
    keyspace.flush().unwrap();
    let own = disk
        .paths()
        .into_iter()
        .find(|path| path.starts_with("/db/tables"));
    let (a, b) = (write(&disk, "a", 0..100), write(&disk, "b", 99..200));
    for paths in [
        vec![own.unwrap()],
        [a.clone(), b].concat(),
        [a.clone(), a.clone()].concat(),
    ] {
        assert_eq!(kind(keyspace.ingest(&paths)), ErrorKind::InvalidArgument);
    }
    assert_eq!(kind(keyspace.ingest(&["/outside/none"])), ErrorKind::Io);
    assert_eq!(
        kind(hashed(&db, small()).ingest(&a)),
        ErrorKind::InvalidArgument
    );
    let bytes = disk.contents(&a[0]).unwrap();
    for bit in (0..bytes.len() as u64 * 8).step_by(97) {
        disk.flip_bit(&a[0], bit).unwrap();
        assert_eq!(kind(keyspace.ingest(&a)), ErrorKind::Corruption, "{bit}");
        disk.flip_bit(&a[0], bit).unwrap();
    }
    for cut in [0, 1, bytes.len() / 2, bytes.len() - 1] {
        disk.set_contents(&a[0], &bytes[..cut]).unwrap();
        assert_eq!(kind(keyspace.ingest(&a)), ErrorKind::Corruption, "{cut}");
    }
    assert_eq!(contents(&keyspace), model);
    let none: [PathBuf; 0] = [];
    keyspace.ingest(&none).unwrap();
    let mut table = writer(&disk, "c");
    assert_eq!(
        kind(table.put(vec![0; 70_000], b"")),
        ErrorKind::InvalidArgument
    );
    table.put(b"k", b"").unwrap();
    assert_eq!(kind(table.put(b"k", b"")), ErrorKind::InvalidArgument);
    assert_eq!(kind(table.delete(b"a")), ErrorKind::InvalidArgument);
    assert_eq!(table.finish().unwrap(), 1);
    assert_eq!(
        kind(writer(&disk, "d").finish()),
        ErrorKind::InvalidArgument
    );
}
