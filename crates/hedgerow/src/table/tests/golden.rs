//! Files of every version of the format stay readable, and today's writer writes today's bytes.
//!
//! `HEDGEROW_BLESS=1` rewrites the file after an intended change of the format.

use super::*;
use crate::base::options::PrefixRule;
use crate::table::testing::{assert_bytes, documented_bytes, testdata};

fn entries() -> Entries {
    let mut entries = Entries::new();
    for i in 0..400u64 {
        let key = format!("plant/{:05}", i * 37 % 4001).into_bytes();
        let value = format!("row {} of a hedge", i % 10).repeat(1 + i as usize % 3);
        entries.insert((key.clone(), Reverse(1000 + i)), (Tag::PUT, value.into()));
        if i % 9 == 0 {
            entries.insert((key.clone(), Reverse(2000 + i)), (Tag::DELETE, vec![]));
        }
        if i % 50 == 0 {
            entries.insert((key, Reverse(10)), (Tag::PUT, vec![i as u8; 2500]));
        }
    }
    entries
}

fn check_golden(name: &str, options: TableOptions, entries: &Entries) {
    let order = options.key_order;
    let (bytes, _) = write(options, entries);
    let path = testdata(name);
    if std::env::var_os("HEDGEROW_BLESS").is_some() {
        bless(&path, &bytes);
    }
    let golden = read(&path);
    assert!(
        golden == bytes,
        "{name} differs from what is written now; bless it if the format was meant to change"
    );
    let (table, pages) = open_bytes(golden, PAGED).unwrap();
    table.verify(&pages).unwrap();
    for ((key, Reverse(seqno)), (tag, value)) in entries {
        let found = get_in(order, &*table, &pages, key, *seqno).unwrap();
        assert_eq!(found, Some((*seqno, *tag, value.clone())));
    }
}

#[allow(
    clippy::disallowed_methods,
    reason = "test data is on the real file system"
)]
fn bless(path: &Path, bytes: &[u8]) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, bytes).unwrap();
}

#[allow(
    clippy::disallowed_methods,
    reason = "test data is on the real file system"
)]
fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap()
}

#[test]
fn golden_tables_are_reproduced_and_open() {
    let entries = entries();
    let compressed = |compression| TableOptions {
        compression,
        ..options(1024)
    };
    check_golden("table-v1.bin", compressed(Compression::None), &entries);
    check_golden("table-lz4-v1.bin", compressed(Compression::Lz4), &entries);
    let names = ["table-three-level-v1.bin", "table-three-level-array-v1.bin"];
    for (i, name) in names.into_iter().enumerate() {
        let (index, order) = (three_level::INDEXES[i], three_level::ORDERS[i]);
        let entries = three_level::in_order(order, &entries);
        check_golden(name, three_level::options(index, order, 1024), &entries);
    }
    let hashed = three_level::in_order(KeyOrder::Hashed, &entries);
    check_golden("table-htable-v1.bin", htable::options(1024), &hashed);
}

/// The worked example of `docs/format/block_based_table.md`.
#[test]
fn the_documented_example_is_what_is_written() {
    let entry = |key: &str, seqno, tag, value: &str| {
        let key = key.as_bytes().to_vec();
        ((key, Reverse(seqno)), (tag, value.as_bytes().to_vec()))
    };
    let entries: Entries = [
        entry("hawthorn", 300, Tag::DELETE, ""),
        entry("hawthorn", 260, Tag::PUT, "white"),
        entry("hazel", 290, Tag::PUT, "brown"),
    ]
    .into();
    let options = TableOptions {
        compression: Compression::None,
        ..options(4096)
    };
    let (bytes, _) = write(options, &entries);
    let document = include_str!("../../../../../docs/format/block_based_table.md");
    assert_bytes(&bytes, &documented_bytes(document, "table"));
}

/// The worked example of `docs/format/htable.md`.
#[test]
fn the_documented_htable_is_what_is_written() {
    let entry = |key: &str, seqno, tag, value: &str| {
        let key = key.as_bytes().to_vec();
        ((key, Reverse(seqno)), (tag, value.as_bytes().to_vec()))
    };
    let entries: Entries = [
        entry("hawthorn", 300, Tag::DELETE, ""),
        entry("hawthorn", 260, Tag::PUT, "white"),
        entry("hazel", 290, Tag::PUT, "brown"),
    ]
    .into();
    let entries = three_level::in_order(KeyOrder::Hashed, &entries);
    let options = TableOptions {
        compression: Compression::None,
        filter: None,
        ..htable::options(512)
    };
    let (bytes, _) = write(options, &entries);
    let document = include_str!("../../../../../docs/format/htable.md");
    let (bucket, rest) = bytes.split_at(448);
    let zeros = bucket.iter().rev().skip(9).take_while(|byte| **byte == 0);
    let entries_end = 448 - 9 - zeros.count();
    let written = [&bucket[..entries_end], &bucket[439..], rest].concat();
    assert_bytes(&written, &documented_bytes(document, "htable"));
}

/// The order keys of `docs/format/key_order.md`.
#[test]
fn the_documented_order_keys_are_those_that_are_used() {
    let document = include_str!("../../../../../docs/format/key_order.md");
    let by_colon = KeyOrder::SemiSorted(PrefixRule::Delimiter(b':'));
    for (name, order) in [("semi-sorted", by_colon), ("hashed", KeyOrder::Hashed)] {
        let mut order_key = Vec::new();
        key_order::open(order, 0).encode(b"ash:17", &mut order_key);
        assert_bytes(&order_key, &documented_bytes(document, name));
    }
}

/// The hashes of `docs/format/hash.md`.
#[test]
fn the_documented_hash_is_the_one_that_is_used() {
    let hash = KeyHash::of(b"hawthorn", 0);
    let document = include_str!("../../../../../docs/format/hash.md");
    assert_bytes(&hash.0.to_be_bytes(), &documented_bytes(document, "hash"));
}
