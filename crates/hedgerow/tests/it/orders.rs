//! Key orders, from the API to the disk. Every order stores what it is given. It refuses an
//! unsupported call with a sentence that names the supported ones.

use std::collections::BTreeMap;

use hedgerow::io::sim::SimStorage;
use hedgerow::{
    Durability, ErrorKind, FilterSpec, KeyOrder, Keyspace, Layout, Partitioning, PrefixRule,
};

use crate::support::{Contents, DIR, builder, files, kind, open, small, value};

const HASHING: [KeyOrder; 4] = [
    KeyOrder::SemiSorted(PrefixRule::Bytes(4)),
    KeyOrder::SemiSorted(PrefixRule::Delimiter(b':')),
    KeyOrder::SemiSorted(PrefixRule::LengthPrefixed),
    KeyOrder::Hashed,
];

/// Every order that hashes, in one tree and in several.
fn layouts() -> impl Iterator<Item = Layout> {
    HASHING.into_iter().flat_map(|order| {
        [Partitioning::Single, Partitioning::Hash(3)].map(|partitioning| Layout {
            order,
            partitioning,
            ..Layout::default()
        })
    })
}

/// The key of a member of a group: its first fragment is the group in four digits.
fn key_of(order: KeyOrder, group: u64, member: u64) -> Vec<u8> {
    let text = match order {
        KeyOrder::SemiSorted(PrefixRule::Delimiter(_)) => format!("{group:04}:{member}"),
        KeyOrder::SemiSorted(PrefixRule::LengthPrefixed) => format!("\u{4}{group:04}{member}"),
        _ => format!("{group:04}{member}"),
    };
    text.into_bytes()
}

fn prefix_of(group: u64) -> Vec<u8> {
    format!("{group:04}").into_bytes()
}

/// Everything, and that all ways to read it agree.
fn all(keyspace: &Keyspace) -> Contents {
    let mut found = Contents::new();
    for item in keyspace.scan_unordered().unwrap() {
        let (key, value) = item.unwrap();
        assert!(
            found.insert(key.to_vec(), value.to_vec()).is_none(),
            "seen twice"
        );
    }
    let keys: Vec<_> = found.keys().collect();
    let values = keyspace.multi_get(&keys).unwrap();
    for ((key, expected), together) in found.iter().zip(values) {
        assert_eq!(keyspace.get(key).unwrap().as_deref(), Some(&expected[..]));
        assert_eq!(together.as_deref(), Some(&expected[..]));
    }
    found
}

/// The keys of a group, from both ends alike.
fn group(keyspace: &Keyspace, prefix: &[u8]) -> Contents {
    let owned = |item: hedgerow::Result<(hedgerow::Slice, hedgerow::Slice)>| {
        let (key, value) = item.unwrap();
        (key.to_vec(), value.to_vec())
    };
    let forward: Vec<_> = keyspace.scan_prefix(prefix).unwrap().map(owned).collect();
    let backward = keyspace.scan_prefix(prefix).unwrap().rev().map(owned);
    assert!(backward.eq(forward.iter().rev().cloned()));
    forward.into_iter().collect()
}

/// Writes that overwrite and delete, over all levels and the memtable; and what is left.
fn fill(keyspace: &Keyspace) -> Contents {
    let order = keyspace.layout().order;
    let mut expected = Contents::new();
    for round in 0..3 {
        for i in 0..600 {
            let key = key_of(order, i % 40, i / 40 + round);
            keyspace.put(&key, value(i + round)).unwrap();
            expected.insert(key, value(i + round));
        }
        for i in (0..600).step_by(7) {
            let key = key_of(order, i % 40, i / 40 + round);
            keyspace.delete(&key).unwrap();
            expected.remove(&key);
        }
        let large = key_of(order, 41, round);
        keyspace.put(&large, vec![round as u8; 5000]).unwrap();
        expected.insert(large, vec![round as u8; 5000]);
        match round {
            0 => keyspace.compact::<&[u8]>(..).unwrap(),
            1 => keyspace.flush().unwrap(),
            _ => {}
        }
    }
    expected
}

#[test]
fn every_order_stores_what_it_is_given_through_every_path() {
    for layout in layouts() {
        let disk = SimStorage::new(5);
        let db = open(&disk);
        let keyspace = db.keyspace_with("k", layout.clone(), small()).unwrap();
        let expected = fill(&keyspace);
        assert_eq!(all(&keyspace), expected, "{layout:?}");

        let snapshot = db.snapshot().unwrap();
        let mut batch = db.batch();
        let added = key_of(layout.order, 3, 999);
        batch.put(&keyspace, &added, b"batch").unwrap();
        batch.commit(Durability::Buffered).unwrap();
        keyspace
            .update(&added, |old| old.map(|v| [v, b"ed"].concat()))
            .unwrap();
        assert_eq!(keyspace.get(&added).unwrap().unwrap(), "batched");
        assert_eq!(snapshot.get(&keyspace, &added).unwrap(), None);
        let then = snapshot.scan_unordered(&keyspace).unwrap();
        let then: Contents = then
            .map(|i| i.map(|(k, v)| (k.to_vec(), v.to_vec())).unwrap())
            .collect();
        assert_eq!(then, expected);
        keyspace.delete(&added).unwrap();
        drop((snapshot, keyspace));

        // The log, replayed; then only tables.
        db.close().unwrap();
        let db = open(&disk);
        let keyspace = db.existing_keyspace("k").unwrap();
        assert_eq!(keyspace.layout(), layout);
        assert_eq!(all(&keyspace), expected);
        keyspace.compact::<&[u8]>(..).unwrap();
        assert_eq!(all(&keyspace), expected);
        db.verify().unwrap();
        db.checkpoint("/copy").unwrap();
        drop((keyspace, db));

        let copy = hedgerow::Db::builder("/copy")
            .environment(hedgerow::io::Environment::simulated(&disk, 3))
            .open()
            .unwrap();
        assert_eq!(all(&copy.existing_keyspace("k").unwrap()), expected);
    }
}

/// Seed, order and its parameter are in the footers.
#[test]
fn repair_without_a_manifest_finds_the_order_in_the_tables() {
    for layout in layouts() {
        let disk = SimStorage::new(6);
        let db = open(&disk);
        let keyspace = db.keyspace_with("k", layout.clone(), small()).unwrap();
        let expected = fill(&keyspace);
        drop((keyspace, db));
        disk.set_contents(format!("{DIR}/MANIFEST"), b"").unwrap();
        let report = hedgerow::repair_with(builder(&disk)).unwrap();
        assert_eq!(report.keyspaces_guessed, 1);
        assert_eq!(report.lost, []);
        let db = open(&disk);
        let name = db.keyspaces().remove(0);
        let keyspace = db.existing_keyspace(&name).unwrap();
        assert_eq!(keyspace.layout(), layout);
        assert_eq!(all(&keyspace), expected);
        db.verify().unwrap();
    }
}

#[test]
fn a_prefix_scan_visits_exactly_the_keys_of_its_prefix() {
    for layout in layouts() {
        let disk = SimStorage::new(7);
        let db = open(&disk);
        let keyspace = db.keyspace_with("k", layout.clone(), small()).unwrap();
        let expected = fill(&keyspace);
        if layout.order == KeyOrder::Hashed {
            let error = keyspace.scan_prefix(prefix_of(3)).err().unwrap();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
            assert!(error.to_string().contains("scan_unordered"), "{error}");
            continue;
        }
        let mut groups: BTreeMap<u64, Contents> = BTreeMap::new();
        for (key, value) in &expected {
            let digits = key.iter().filter(|byte| byte.is_ascii_digit()).take(4);
            let group = digits.fold(0, |n, digit| n * 10 + u64::from(digit - b'0'));
            let group = groups.entry(group).or_default();
            group.insert(key.clone(), value.clone());
        }
        for number in 0..45 {
            let found = group(&keyspace, &prefix_of(number));
            assert_eq!(
                found,
                groups.remove(&number).unwrap_or_default(),
                "{layout:?}"
            );
        }
        // A key that is no prefix is refused.
        let bad: &[u8] = match layout.order {
            KeyOrder::SemiSorted(PrefixRule::Bytes(_)) => b"00031",
            KeyOrder::SemiSorted(PrefixRule::Delimiter(_)) => b"0003:",
            _ => continue,
        };
        assert_eq!(kind(keyspace.scan_prefix(bad)), ErrorKind::InvalidArgument);
    }
}

#[test]
fn a_scan_of_everything_is_resumed_from_its_token() {
    let sorted = [Layout::sorted(), Layout::sorted().hash(3)];
    for layout in layouts().chain(sorted) {
        let disk = SimStorage::new(8);
        let db = open(&disk);
        let keyspace = db.keyspace_with("k", layout.clone(), small()).unwrap();
        let expected = fill(&keyspace);
        let snapshot = db.snapshot().unwrap();
        let (mut found, mut at_snapshot) = (Contents::new(), Contents::new());
        let (mut token, mut token_then) = Default::default();
        loop {
            let mut scan = keyspace.scan_unordered_from(&token).unwrap();
            let mut then = snapshot
                .scan_unordered_from(&keyspace, &token_then)
                .unwrap();
            let before = found.len();
            for item in scan.by_ref().take(17) {
                let (key, value) = item.unwrap();
                assert!(found.insert(key.to_vec(), value.to_vec()).is_none());
            }
            for item in then.by_ref().take(23) {
                let (key, value) = item.unwrap();
                assert!(at_snapshot.insert(key.to_vec(), value.to_vec()).is_none());
            }
            if found.len() == before && scan.next().is_none() && then.next().is_none() {
                break;
            }
            token = scan.token().as_bytes().to_vec().into();
            token_then = then.token();
            // A visited key is not visited again, whatever is written, flushed and merged between.
            for (key, _) in found.iter().take(3) {
                keyspace.put(key, b"visited").unwrap();
            }
            keyspace.flush().unwrap();
        }
        assert!(found.keys().eq(expected.keys()), "{layout:?}");
        assert_eq!(at_snapshot, expected, "{layout:?}");

        let other = db.keyspace("other", layout).unwrap();
        assert_eq!(
            kind(other.scan_unordered_from(&token)),
            ErrorKind::InvalidArgument
        );
        let cut = token.as_bytes()[..3].to_vec().into();
        assert_eq!(
            kind(keyspace.scan_unordered_from(&cut)),
            ErrorKind::InvalidArgument
        );
    }
}

#[test]
fn ranges_and_seeks_are_refused_with_what_there_is_instead() {
    for layout in layouts() {
        let disk = SimStorage::new(9);
        let db = open(&disk);
        let keyspace = db.keyspace_with("k", layout.clone(), small()).unwrap();
        let snapshot = db.snapshot().unwrap();
        let refusals = [
            keyspace.scan::<&[u8]>(..).err(),
            keyspace.scan("a".."b").err(),
            keyspace.cursor().err(),
            snapshot.scan(&keyspace, "a"..).err(),
            snapshot.cursor(&keyspace).err(),
            keyspace.compact("a".."b").err(),
        ];
        for refusal in refusals {
            let refusal = refusal.unwrap();
            assert_eq!(refusal.kind(), ErrorKind::InvalidArgument);
            let text = refusal.to_string();
            assert!(text.contains(&layout.order.to_string()), "{text}");
            assert!(text.contains("scan_unordered"), "{text}");
            assert!(text.contains("second keyspace of order `sorted`"), "{text}");
            assert_eq!(
                text.contains("scan_prefix"),
                layout.order != KeyOrder::Hashed,
                "{text}"
            );
        }
    }
}

#[test]
fn a_key_too_short_for_its_rule_is_refused_everywhere() {
    let cases: [(PrefixRule, &[u8]); 3] = [
        (PrefixRule::Bytes(4), b"abc"),
        (PrefixRule::Delimiter(b':'), b"abc"),
        (PrefixRule::LengthPrefixed, b"\x04abc"),
    ];
    for (rule, short) in cases {
        let disk = SimStorage::new(10);
        let db = open(&disk);
        let keyspace = db.keyspace("k", Layout::semi_sorted(rule)).unwrap();
        let snapshot = db.snapshot().unwrap();
        let mut batch = db.batch();
        let kinds = [
            kind(keyspace.put(short, b"v")),
            kind(keyspace.delete(short)),
            kind(keyspace.update(short, |_| None)),
            kind(keyspace.get(short)),
            kind(keyspace.contains_key(short)),
            kind(keyspace.multi_get(&[short])),
            kind(keyspace.explain(short)),
            kind(snapshot.get(&keyspace, short)),
            kind(batch.put(&keyspace, short, b"v")),
        ];
        assert_eq!(kinds, [ErrorKind::InvalidArgument; 9], "{rule:?}");
        assert!(batch.is_empty());
    }
}

/// Filters are asked with the hash of the user key, whatever the order.
#[test]
fn filters_keep_absent_keys_from_tables() {
    for layout in layouts() {
        let disk = SimStorage::new(11);
        let db = open(&disk);
        let mut design = small();
        design.filter = FilterSpec::Bloom { bits_per_key: 16.0 };
        let keyspace = db.keyspace_with("k", layout.clone(), design).unwrap();
        fill(&keyspace);
        keyspace.compact::<&[u8]>(..).unwrap();
        let before = db.stats();
        for i in 0..2000 {
            let absent = key_of(layout.order, i % 40, 100_000 + i);
            assert_eq!(keyspace.get(absent).unwrap(), None);
        }
        let stats = db.stats();
        let probes = stats.filter_probes - before.filter_probes;
        let passed = stats.filter_false_positives - before.filter_false_positives;
        // 0.05 % are expected.
        assert!(
            probes > 1000 && passed < 40,
            "{layout:?}: {passed} of {probes}"
        );
    }
}

#[test]
fn a_layout_is_fixed_with_its_order() {
    let disk = SimStorage::new(12);
    let db = open(&disk);
    for layout in layouts() {
        let name = format!("{layout:?}");
        db.keyspace(&name, layout.clone()).unwrap();
        for other in layouts().filter(|other| *other != layout) {
            assert_eq!(kind(db.keyspace(&name, other)), ErrorKind::InvalidArgument);
        }
    }
    let absurd = Layout::semi_sorted(PrefixRule::Bytes(0));
    assert_eq!(
        kind(db.keyspace("absurd", absurd)),
        ErrorKind::InvalidArgument
    );
    assert!(!files(&disk, "log").is_empty());
}

/// Entries come in any order. The second load does not fit the memory of merges, a part of 1 MiB.
#[test]
fn a_bulk_load_puts_entries_in_the_order_of_the_keyspace() {
    for layout in layouts() {
        let disk = SimStorage::new(13);
        let db = open(&disk);
        let keyspace = db.keyspace_with("k", layout.clone(), small()).unwrap();
        let mut expected = fill(&keyspace);
        for (first, count) in [(0, 50), (1000, 4000)] {
            let entries: Vec<_> = (first..first + count)
                .rev()
                .map(|i| {
                    let bytes = if i % 500 == 0 { 5000 } else { 400 };
                    (key_of(layout.order, i % 60, i), vec![i as u8; bytes])
                })
                .collect();
            expected.extend(entries.iter().cloned());
            let entries = entries.into_iter().map(Ok::<_, hedgerow::Error>);
            let report = keyspace.bulk_load(entries).unwrap();
            assert_eq!(report.entries, count);
            assert_eq!(all(&keyspace), expected, "{layout:?}");
        }
        db.verify().unwrap();
        drop((keyspace, db));
        let db = open(&disk);
        assert_eq!(all(&db.existing_keyspace("k").unwrap()), expected);
    }
}

#[test]
fn a_bulk_load_of_a_key_that_comes_twice_loads_nothing() {
    for layout in layouts() {
        for count in [10, 4000] {
            let disk = SimStorage::new(14);
            let db = open(&disk);
            let keyspace = db.keyspace_with("k", layout.clone(), small()).unwrap();
            let numbers = (0..count).chain([3]);
            let entries = numbers.map(|i| {
                let key = key_of(layout.order, i % 60, i);
                Ok::<_, hedgerow::Error>((key, [0; 400]))
            });
            let error = keyspace.bulk_load(entries).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
            assert!(error.to_string().contains("each key once"), "{error}");
            assert!(all(&keyspace).is_empty());
            keyspace.put(key_of(layout.order, 1, 1), b"v").unwrap();
            keyspace.flush().unwrap();
            db.close().unwrap();
            drop(keyspace);
            drop(open(&disk));
            assert_eq!(
                files(&disk, "tables").len(),
                1,
                "{:?}",
                files(&disk, "tables")
            );
        }
    }
}

/// If the hash of a prefix divides keys, a scan of the prefix reads no other tree.
#[test]
fn a_scan_of_a_prefix_reads_one_tree() {
    let blocks_read = |order, partitions| {
        let disk = SimStorage::new(31);
        let db = open(&disk);
        let layout = Layout {
            order,
            partitioning: Partitioning::Hash(partitions),
            ..Layout::default()
        };
        let keyspace = db.keyspace_with("k", layout, small()).unwrap();
        for i in 0..3000 {
            let key = key_of(order, i % 100, i / 100);
            keyspace.put(key, value(i)).unwrap();
        }
        keyspace.compact::<&[u8]>(..).unwrap();
        let before = db.stats().block_reads;
        for group in 0..100 {
            let found = keyspace.scan_prefix(prefix_of(group)).unwrap();
            assert_eq!(found.map(Result::unwrap).count(), 30);
        }
        db.stats().block_reads - before
    };
    for order in &HASHING[..3] {
        let (one, eight) = (blocks_read(*order, 1), blocks_read(*order, 8));
        // A scan of each of the seven other trees would read a block at least.
        assert!(eight <= one + 100, "{order}: {one}, {eight}");
    }
}
