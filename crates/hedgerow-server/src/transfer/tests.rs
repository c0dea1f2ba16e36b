//! Copies between files and databases; `tests/transfers` has those with servers.

#![allow(clippy::disallowed_methods, reason = "files are made with std::fs")]

use std::collections::BTreeMap;
use std::path::Path;

use hedgerow::Db;

use super::*;

const KEYS: usize = 3 * CHUNK_KEYS;
const EXPIRES: u64 = 32_503_680_000_000;

/// A file of RDB: `KEYS` keys of several types in two databases.
fn file(path: &Path) {
    let mut out = b"REDIS0010".to_vec();
    for place in 0..KEYS {
        if place * 2 % KEYS == 0 {
            out.extend_from_slice(&[0xFE, if place == 0 { 0 } else { 15 }]);
        }
        if place % 3 == 0 {
            out.push(0xFC);
            out.extend_from_slice(&EXPIRES.to_le_bytes());
        }
        let words = (0..place % 5 + 1).map(|word| format!("{word}").into_bytes());
        let value = match place % 4 {
            0 => Value::String(place.to_string().into_bytes()),
            1 => Value::List(words.collect()),
            2 => Value::Set(words.collect()),
            _ => Value::Hash(words.map(|word| (word.clone(), word)).collect()),
        };
        let payload = value.encode();
        let key = format!("key{place}");
        out.extend_from_slice(&[payload[0], key.len() as u8]);
        out.extend_from_slice(key.as_bytes());
        out.extend_from_slice(&payload[1..payload.len() - 10]);
    }
    out.extend_from_slice(&[0xFF, 0, 0, 0, 0, 0, 0, 0, 0]);
    std::fs::write(path, out).unwrap();
}

fn endpoint(dir: &Path) -> Endpoint {
    Endpoint::Directory(Box::new(Db::builder(dir).memory_budget(64 << 20)))
}

/// Everything in a database: a key with its database has its time of expiry and its value.
fn content(dir: &Path) -> BTreeMap<(usize, Vec<u8>), (u64, Vec<u8>)> {
    let directory = Directory::open_source(Db::builder(dir)).unwrap();
    let mut reader = directory.reader().unwrap();
    let mut found = BTreeMap::new();
    while let Some(part) = reader.next().unwrap() {
        if let Part::Key(mut item) = part {
            // Their order is that of a database.
            match &mut item.value {
                Value::Set(members) => members.sort(),
                Value::Hash(fields) => fields.sort(),
                _ => {}
            }
            let value = item.value.encode();
            assert!(
                found
                    .insert((item.db, item.key), (item.expires, value))
                    .is_none()
            );
        }
    }
    let (done, total) = reader.steps();
    assert_eq!((done, total), (found.len() as u64, found.len() as u64));
    drop(reader);
    directory.close(Ok(())).unwrap();
    found
}

#[test]
fn an_import_that_is_ended_after_each_chunk_has_all_keys_in_the_end() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("dump.rdb");
    file(&path);
    let whole = place.path().join("whole");
    let done = transfer(
        Endpoint::RdbFile(path.clone()),
        endpoint(&whole),
        &TransferOptions::default(),
        &mut |_| true,
    );
    let keys = KEYS as u64;
    let expected = Transferred {
        keys,
        keys_before: 0,
        libraries: 0,
    };
    assert_eq!(done.unwrap(), expected);
    let cut = place.path().join("cut");
    let (mut runs, mut last) = (
        0,
        Progress {
            keys: 0,
            done: 0,
            total: 0,
        },
    );
    let done = loop {
        runs += 1;
        let source = Endpoint::RdbFile(path.clone());
        let done = transfer(
            source,
            endpoint(&cut),
            &TransferOptions::default(),
            &mut |progress| {
                assert!(progress.keys > last.keys && progress.done > last.done);
                last = progress;
                false
            },
        );
        match done {
            Err(error) => assert_eq!(error.kind(), ErrorKind::Cancelled),
            Ok(done) => break done,
        }
    };
    assert!(
        runs > 3 && done.keys == keys && done.keys_before > 0,
        "{done:?}"
    );
    let expected = content(&whole);
    assert_eq!(expected.len(), KEYS);
    assert!(content(&cut) == expected);
    // Once more, over the keys that are there.
    transfer(
        Endpoint::RdbFile(path),
        endpoint(&cut),
        &TransferOptions {
            restarts: true,
            slots: None,
        },
        &mut |_| true,
    )
    .unwrap();
    assert!(content(&cut) == expected);
}

/// Values above a bound are put by several commits. Whatever was there is replaced.
#[test]
fn a_large_value_is_put_in_parts() {
    let place = tempfile::tempdir().unwrap();
    let directory = Directory::open(Db::builder(place.path())).unwrap();
    let words: Vec<Vec<u8>> = (0..100).map(|it| format!("{it:04}").into_bytes()).collect();
    let values = [
        Value::List(words.iter().chain(&words).cloned().collect()),
        Value::Set(words.clone()),
        Value::Hash(words.iter().map(|it| (it.clone(), it.clone())).collect()),
        Value::SortedSet(words.iter().map(|it| (it.clone(), it[3].into())).collect()),
        Value::String(vec![b'x'; 5000]),
    ];
    let parts = |expires| {
        let item = |(place, value): (usize, &Value)| Item {
            db: place % 2,
            key: vec![b'0' + place as u8],
            expires,
            value: value.clone(),
        };
        values
            .iter()
            .enumerate()
            .map(item)
            .map(Part::Key)
            .collect::<Vec<_>>()
    };
    let mut writer = directory.writer_of_parts(500);
    writer.put(&parts(1)).unwrap();
    writer.put(&parts(0)).unwrap();
    writer.put(&parts(EXPIRES)).unwrap();
    directory.close(Ok(())).unwrap();
    let found = content(place.path());
    for (place, mut value) in values.into_iter().enumerate() {
        if let Value::SortedSet(members) = &mut value {
            members.sort_by(|one, next| one.1.total_cmp(&next.1).then(one.0.cmp(&next.0)));
        }
        let found = &found[&(place % 2, vec![b'0' + place as u8])];
        assert!(*found == (EXPIRES, value.encode()), "{place}");
    }
}

#[test]
fn a_position_of_another_file_counts_for_nothing() {
    let place = tempfile::tempdir().unwrap();
    let (path, dir) = (place.path().join("dump.rdb"), place.path().join("db"));
    file(&path);
    let import = |go_on: bool| {
        transfer(
            Endpoint::RdbFile(path.clone()),
            endpoint(&dir),
            &TransferOptions::default(),
            &mut |_| go_on,
        )
    };
    import(false).unwrap_err();
    let mut bytes = std::fs::read(&path).unwrap();
    bytes.insert(9, 0xF9);
    bytes.insert(10, 1);
    std::fs::write(&path, bytes).unwrap();
    let done = import(true).unwrap();
    assert_eq!((done.keys, done.keys_before), (KEYS as u64, 0));
}

#[test]
fn copies_that_cannot_be_are_refused() {
    let place = tempfile::tempdir().unwrap();
    let (dir, path) = (place.path().join("db"), place.path().join("file"));
    let refused = |source, target, expected: &str| {
        let error =
            transfer(source, target, &TransferOptions::default(), &mut |_| true).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    };
    let nobody = || Endpoint::Server("redis://127.0.0.1:1".parse().unwrap());
    refused(endpoint(&dir), endpoint(&dir), "found a directory");
    refused(nobody(), Endpoint::RdbFile(path.clone()), "found a file");
    refused(
        nobody(),
        endpoint(&dir),
        "cannot talk to redis://127.0.0.1:1",
    );
    refused(
        Endpoint::RdbFile(path.clone()),
        endpoint(&dir),
        "cannot read",
    );
    std::fs::write(&path, b"REDIS0010\xFE\x10\x00\x01k\x01v\xFF").unwrap();
    refused(
        Endpoint::RdbFile(path),
        endpoint(&dir),
        "a database from 0 to 15, found 16",
    );
    let db = Db::open(&dir).unwrap();
    db.drop_keyspace("server").unwrap();
    db.close().unwrap();
    refused(endpoint(&dir), nobody(), "expected a database of a server");
}
