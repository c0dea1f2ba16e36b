//! HTables: what keyspaces with them promise beyond being right, which tables of every format are.

use std::path::Path;

use hedgerow::inspect::{FilterDescription, Part, Table};
use hedgerow::io::sim::SimStorage;
use hedgerow::{
    Design, ErrorKind, FilterSpec, IndexSpec, KeyOrder, Keyspace, Layout, LevelSpec, PolicySpec,
    PrefixRule, Residency, TableSpec,
};

use crate::support::{
    Contents, DIR, builder, contents_unordered, files, hashed, key, kind, open, small, value,
};

fn design(policy: PolicySpec) -> Design {
    Design {
        policy,
        table: TableSpec::HTable,
        filter: FilterSpec::Bloom { bits_per_key: 16.0 },
        ..small()
    }
}

/// Puts and deletes, values of all sizes, some keys again and again.
fn change(keyspace: &Keyspace, expected: &mut Contents, rounds: u64) {
    for i in 0..rounds * 3000 {
        let key = key(i * 7919 % 2500);
        if i % 6 == 5 {
            keyspace.delete(&key).unwrap();
            expected.remove(&key);
        } else {
            let it = value(i).repeat(if i % 97 == 0 { 60 } else { 1 });
            keyspace.put(&key, &it).unwrap();
            expected.insert(key, it);
        }
    }
}

fn check(keyspace: &Keyspace, expected: &Contents) {
    assert_eq!(contents_unordered(keyspace), *expected);
    let keys: Vec<_> = (0..2600).map(key).collect();
    let together = keyspace.multi_get(&keys).unwrap();
    for (key, together) in keys.iter().zip(together) {
        let found = keyspace.get(key).unwrap();
        assert_eq!(found.as_deref(), expected.get(key).map(Vec::as_slice));
        assert_eq!(found, together);
    }
}

/// The format of each table of the database.
fn formats(disk: &SimStorage) -> Vec<TableSpec> {
    let tables = files(disk, "tables").into_iter().map(|name| {
        let path = Path::new(DIR).join("tables").join(name);
        Table::open(disk, &path).unwrap().footer().table
    });
    tables.collect()
}

#[test]
fn htables_are_for_hashed_keys_and_have_no_other_index() {
    let disk = SimStorage::new(1);
    let db = open(&disk);
    let trie = design(PolicySpec::trie(4));
    let tiering = design(PolicySpec::tiering(4));
    for order in [KeyOrder::Sorted, KeyOrder::SemiSorted(PrefixRule::Bytes(4))] {
        let layout = Layout {
            order,
            ..Layout::default()
        };
        let refused = db.keyspace_with("other", layout, tiering.clone());
        let error = refused.map(|_| ()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        let expected = format!(
            "expected keys of the order `hashed` for tables of the format `htable`, found `{order}`"
        );
        assert!(error.to_string().contains(&expected), "{error}");
    }
    let keyspace = hashed(&db, trie.clone());
    for refused in [
        Design {
            index: IndexSpec::ThreeLevel,
            ..trie.clone()
        },
        Design {
            policy: PolicySpec::levels([
                LevelSpec::tiering(4),
                LevelSpec::leveling(4.0).index(IndexSpec::ThreeLevelArray),
            ]),
            ..trie.clone()
        },
        Design {
            block_bytes: 32 << 10,
            ..trie.clone()
        },
    ] {
        let refusal = keyspace.retune(refused);
        assert_eq!(kind(refusal), ErrorKind::InvalidArgument);
    }
    assert_eq!(keyspace.design(), trie);
}

/// Every policy and every filter finds everything and nothing else, also after the database is
/// opened again. `retune` leads to other tables and back. I9 of LSM-trie: the newest version wins
/// over memtables, runs and levels while they are merged. The model and metamorphic runs of the
/// testkit check it with random operations.
#[test]
fn everything_is_found_under_every_policy_and_filter() {
    let filters = ["bloom:16", "monkey", "cuckoo:10", "mlcf:9", "none"];
    let policies = [
        "trie:4",
        "tiering:3",
        "leveling:4",
        "garnering:3,0.8",
        "lazy-leveling:3",
    ];
    for (i, (filter, policy)) in (0..).zip(filters.into_iter().zip(policies)) {
        let disk = SimStorage::new(i);
        let db = open(&disk);
        let htables = Design {
            filter: filter.parse().unwrap(),
            residency: [Residency::Paged, Residency::Resident][i as usize % 2],
            ..design(policy.parse().unwrap())
        };
        let keyspace = hashed(&db, htables.clone());
        let mut expected = Contents::new();
        change(&keyspace, &mut expected, 3);
        let snapshot = db.snapshot().unwrap();
        let then = expected.clone();
        change(&keyspace, &mut expected, 1);
        keyspace.flush().unwrap();
        check(&keyspace, &expected);
        for (key, value) in &then {
            let found = snapshot.get(&keyspace, key).unwrap();
            assert_eq!(found.as_deref(), Some(&value[..]), "{policy} with {filter}");
        }
        drop((snapshot, keyspace, db));
        assert!(formats(&disk).iter().all(|it| *it == TableSpec::HTable));
        let db = open(&disk);
        let keyspace = db.existing_keyspace("hashed").unwrap();
        assert_eq!(keyspace.design(), htables);
        check(&keyspace, &expected);
        for table in [TableSpec::BlockBased, TableSpec::HTable] {
            let retuned = Design {
                table,
                ..htables.clone()
            };
            keyspace.retune(retuned).unwrap();
            change(&keyspace, &mut expected, 1);
            keyspace.compact::<&[u8]>(..).unwrap();
            check(&keyspace, &expected);
            db.verify().unwrap();
            assert!(formats(&disk).contains(&table));
        }
    }
}

/// The buckets of a key without filters in memory: a page of filters and a bucket for a key that is
/// there, and for one that is not the page alone.
#[test]
fn a_get_reads_a_page_of_filters_and_a_bucket() {
    let disk = SimStorage::new(3);
    let db = open(&disk);
    let paged = Design {
        residency: Residency::Paged,
        table_bytes: Some(1 << 20),
        ..design(PolicySpec::tiering(4))
    };
    let keyspace = hashed(&db, paged);
    (0..4000).for_each(|i| keyspace.put(key(i), value(i)).unwrap());
    keyspace.compact::<&[u8]>(..).unwrap();
    let asked = |from: u64, to: u64| {
        let before = db.stats().block_reads;
        for i in from..to {
            assert_eq!(keyspace.get(key(i)).unwrap().is_some(), i < 4000);
        }
        (db.stats().block_reads - before) as f64 / (to - from) as f64
    };
    let (present, absent) = (asked(0, 4000), asked(4000, 8000));
    assert!((2.0..=2.02).contains(&present), "{present}");
    assert!((0.9..=1.02).contains(&absent), "{absent}");
}

#[test]
fn tables_tell_their_format_and_rebuild_a_lost_manifest() {
    let disk = SimStorage::new(4);
    let (db, mut expected) = (open(&disk), Contents::new());
    let keyspace = hashed(&db, design(PolicySpec::trie(4)));
    change(&keyspace, &mut expected, 1);
    keyspace.flush().unwrap();
    keyspace.wait_until_merged().unwrap();
    drop((keyspace, db));
    for name in files(&disk, "tables") {
        let path = Path::new(DIR).join("tables").join(name);
        let table = Table::open(&disk, &path).unwrap();
        assert_eq!(table.footer().table, TableSpec::HTable);
        let filter = table.footer().filter;
        assert!(matches!(filter, Some(FilterDescription::Buckets(_))));
        let pages: Vec<_> = table.pages().collect::<Result<_, _>>().unwrap();
        let ascend = pages.is_sorted_by(|a, b| a.handle.offset < b.handle.offset);
        assert!(ascend, "pages come in the order of the file");
        assert!(pages.iter().any(|page| page.part == Part::Filter));
        let entries: usize = pages.iter().map(|page| page.entries.len()).sum();
        assert_eq!(entries as u64, table.facts().unwrap().entries);
        assert_eq!(table.facts().unwrap().format, 2);
    }
    disk.set_contents(format!("{DIR}/MANIFEST"), b"").unwrap();
    let report = hedgerow::repair_with(builder(&disk)).unwrap();
    assert_eq!(report.lost, []);
    let db = open(&disk);
    let name = db.keyspaces().remove(0);
    let keyspace = db.existing_keyspace(&name).unwrap();
    check(&keyspace, &expected);
    db.verify().unwrap();
}
