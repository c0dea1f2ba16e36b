//! The empty key is a key like any other.

use hedgerow::io::sim::SimStorage;
use hedgerow::{Design, Durability, Error, ErrorKind, Keyspace, Layout, ScanToken};

use crate::support::{contents_unordered, files, key, kind, open, read_all, small, value};

fn layouts() -> [Layout; 5] {
    [
        Layout::sorted(),
        Layout::sorted().hash(3),
        Layout::sorted().range(["key-000100"]),
        Layout::hashed(),
        Layout::hashed().hash(3),
    ]
}

fn check(keyspace: &Keyspace, expected: Option<&[u8]>, others: usize) {
    let found = keyspace.get("").unwrap();
    assert_eq!(found.as_deref(), expected);
    assert_eq!(keyspace.contains_key("").unwrap(), expected.is_some());
    assert_eq!(keyspace.multi_get(&[""]).unwrap()[0].as_deref(), expected);
    let all = contents_unordered(keyspace);
    assert_eq!(all.len(), others + usize::from(expected.is_some()));
    assert_eq!(all.get(&b""[..]).map(Vec::as_slice), expected);
    // From token to token, one key at a time.
    let (mut token, mut count) = (ScanToken::default(), 0);
    loop {
        let mut scan = keyspace.scan_unordered_from(&token).unwrap();
        let Some(item) = scan.next() else { break };
        item.unwrap();
        token = scan.token();
        count += 1;
    }
    assert_eq!(count, all.len());
    if keyspace.layout().order != hedgerow::KeyOrder::Sorted {
        return;
    }
    assert_eq!(read_all(keyspace).unwrap(), all);
    assert_eq!(keyspace.scan_prefix("").unwrap().count(), all.len());
    let first = keyspace.first().unwrap().map(|(key, _)| key.to_vec());
    assert_eq!(first, all.keys().next().cloned());
    let mut cursor = keyspace.cursor().unwrap();
    assert_eq!(cursor.seek_for_prev(b"").unwrap(), expected.is_some());
    assert_eq!(cursor.key(), expected.map(|_| &b""[..]));
    if expected.is_some() {
        assert_eq!(cursor.value().unwrap(), expected);
        assert_eq!(cursor.next().unwrap(), others > 0);
    }
    assert_eq!(cursor.seek(b"").unwrap(), !all.is_empty());
    assert_eq!(
        keyspace.scan(..="").unwrap().count(),
        usize::from(expected.is_some())
    );
    assert_eq!(keyspace.scan(.."").unwrap().count(), 0);
}

/// Many versions of it, kept by a snapshot, fill several blocks and tables.
#[test]
fn the_empty_key_is_kept_through_flushes_merges_and_recovery() {
    for layout in layouts() {
        let disk = SimStorage::new(1);
        let db = open(&disk);
        let keyspace = db.keyspace_with("k", layout, small()).unwrap();
        check(&keyspace, None, 0);
        keyspace.put("", "").unwrap();
        check(&keyspace, Some(b""), 0);
        let empty = db.snapshot().unwrap();
        for i in 0..200 {
            keyspace.put(key(i), value(i)).unwrap();
        }
        let mut snapshots = Vec::new();
        for i in 0..40 {
            keyspace.put("", vec![i; 300]).unwrap();
            snapshots.push(db.snapshot().unwrap());
        }
        keyspace.flush().unwrap();
        check(&keyspace, Some(&[39; 300]), 200);
        keyspace.compact::<&[u8]>(..).unwrap();
        check(&keyspace, Some(&[39; 300]), 200);
        for (i, snapshot) in snapshots.iter().enumerate() {
            let found = snapshot.get(&keyspace, "").unwrap();
            assert_eq!(found.as_deref(), Some(&[i as u8; 300][..]));
        }
        assert_eq!(empty.get(&keyspace, "").unwrap().as_deref(), Some(&b""[..]));
        keyspace.delete("").unwrap();
        check(&keyspace, None, 200);
        keyspace.put_with("", "again", Durability::Synced).unwrap();
        db.verify().unwrap();
        drop((snapshots, empty, keyspace));
        db.close().unwrap();

        let db = open(&disk);
        let keyspace = db.existing_keyspace("k").unwrap();
        check(&keyspace, Some(b"again"), 200);
        keyspace.compact::<&[u8]>(..).unwrap();
        check(&keyspace, Some(b"again"), 200);
        keyspace.clear().unwrap();
        let entries = [("", "0"), ("a", "1")].map(Ok::<_, Error>);
        keyspace.bulk_load(entries).unwrap();
        check(&keyspace, Some(b"0"), 1);
        db.verify().unwrap();
    }
}

/// A lost manifest is rebuilt from tables whose only key is the empty one.
#[test]
fn the_empty_key_survives_a_repair() {
    let disk = SimStorage::new(1);
    let db = open(&disk);
    let keyspace = db.keyspace_with("k", Layout::sorted(), small()).unwrap();
    keyspace.put("", "v").unwrap();
    keyspace.flush().unwrap();
    db.close().unwrap();
    assert_eq!(files(&disk, "tables").len(), 1);
    let report = hedgerow::repair_with(crate::support::builder(&disk)).unwrap();
    assert!(report.missing.is_empty(), "{report:?}");
    let db = open(&disk);
    let name = db.keyspaces().remove(0);
    check(&db.existing_keyspace(&name).unwrap(), Some(b"v"), 0);
}

#[test]
fn a_semi_sorted_keyspace_refuses_the_empty_key_for_its_prefix() {
    let disk = SimStorage::new(1);
    let db = open(&disk);
    let layout = Layout::semi_sorted(hedgerow::PrefixRule::Bytes(1));
    let keyspace = db.keyspace_with("k", layout, Design::default()).unwrap();
    let refused = keyspace.put("", "v");
    let text = refused.as_ref().unwrap_err().to_string();
    assert!(text.contains("at least its prefix, 1 bytes"), "{text}");
    assert_eq!(kind(refused), ErrorKind::InvalidArgument);
}
