//! The three-level index in trees: the counted pages per read, and right answers for every mix of
//! indexes among the levels.

use std::path::Path;

use hedgerow::io::sim::SimStorage;
use hedgerow::{
    Db, Design, ErrorKind, FilterSpec, IndexSpec, KeyOrder, Keyspace, Layout, PrefixRule, Residency,
};

use crate::support::{Contents, DIR, builder, files, kind, open, small};

const INDEXES: [IndexSpec; 2] = [IndexSpec::ThreeLevel, IndexSpec::ThreeLevelArray];
const ORDERS: [KeyOrder; 2] = [KeyOrder::SemiSorted(PrefixRule::Bytes(4)), KeyOrder::Hashed];

fn layout(order: KeyOrder) -> Layout {
    Layout {
        order,
        ..Layout::default()
    }
}

/// The key of a member of a group, whose prefix is four digits.
fn key(group: u64, member: u64) -> Vec<u8> {
    format!("{group:04}/{member}").into_bytes()
}

/// One run of groups of 20 without filters.
fn one_run(order: KeyOrder, index: IndexSpec, residency: Residency) -> (Db, Keyspace) {
    let db = builder(&SimStorage::new(3))
        .memory_budget(64 << 20)
        .open()
        .unwrap();
    let design = Design {
        index,
        filter: FilterSpec::None,
        residency,
        table_bytes: Some(200 << 10),
        ..Design::default()
    };
    let keyspace = db.keyspace_with("groups", layout(order), design).unwrap();
    for group in 0..500 {
        for member in 0..20 {
            keyspace.put(key(group, member), [7; 80]).unwrap();
        }
    }
    keyspace.flush().unwrap();
    keyspace.compact::<&[u8]>(..).unwrap();
    let levels = keyspace.stats().levels;
    assert_eq!(levels.iter().map(|level| level.runs).sum::<usize>(), 1);
    (db, keyspace)
}

/// The pages that something asks for.
fn pages_asked<T>(db: &Db, act: impl FnOnce() -> T) -> (u64, T) {
    let before = db.stats().block_reads;
    let answer = act();
    (db.stats().block_reads - before, answer)
}

#[test]
fn a_get_asks_for_one_page_whether_the_key_is_there_or_not() {
    for order in ORDERS {
        for (index, residency, of_index) in [
            (INDEXES[0], Residency::Resident, 0),
            (INDEXES[1], Residency::Resident, 0),
            (INDEXES[0], Residency::Paged, 1),
            (INDEXES[1], Residency::Paged, 1),
        ] {
            let (db, keyspace) = one_run(order, index, residency);
            for group in 0..500 {
                let member = group % 20;
                let get = |member| keyspace.get(key(group, member)).unwrap();
                let (pages, found) = pages_asked(&db, || get(member));
                assert_eq!(found.as_deref(), Some(&[7; 80][..]));
                assert_eq!(pages, 1 + of_index, "{order} {index} {residency}: a hit");
                // An absent key of the group, and one of no group.
                for absent in [key(group, member + 20), key(group + 500, member)] {
                    let (pages, found) = pages_asked(&db, || keyspace.get(absent).unwrap());
                    assert_eq!(found, None);
                    assert!(pages <= 1 + of_index, "{order} {index} {residency}: a miss");
                }
            }
            db.verify().unwrap();
        }
    }
}

/// 20 entries of about 110 bytes are in one page or in two neighbours.
#[test]
fn a_scan_of_a_prefix_asks_for_the_pages_of_its_keys() {
    for index in INDEXES {
        let (db, keyspace) = one_run(ORDERS[0], index, Residency::Resident);
        let scan = |group: u64| {
            let prefix = format!("{group:04}");
            keyspace.scan_prefix(prefix).unwrap().count()
        };
        let mut pages = 0;
        for group in 0..500 {
            let (asked, found) = pages_asked(&db, || scan(group));
            assert_eq!(found, 20);
            assert!(asked <= 2, "{asked} pages for one group");
            pages += asked;
            let (asked, found) = pages_asked(&db, || scan(group + 500));
            // The page where it would be, and the one where it would be behind a group that exists.
            assert!(found == 0 && asked <= 2, "{asked} pages for no group");
        }
        // A page has 35 to 40 of such entries, so that about half of the groups are in one.
        assert!((600..=850).contains(&pages), "{pages} pages for 500 groups");
    }
}

#[test]
fn sorted_keys_have_no_such_index() {
    let db = open(&SimStorage::new(5));
    let sorted = db.keyspace("sorted", Layout::sorted()).unwrap();
    for index in INDEXES {
        let of_all = Design {
            index,
            ..Design::default()
        };
        let of_a_level = Design {
            policy: format!("0=runs:4;1=leveling:8//{index}").parse().unwrap(),
            ..Design::default()
        };
        for design in [of_all, of_a_level] {
            let retuned = sorted.retune(design.clone());
            assert!(retuned.as_ref().is_err_and(|error| {
                error
                    .to_string()
                    .contains(&format!("found `{index}`: it finds keys by their hashes"))
            }));
            assert_eq!(kind(retuned), ErrorKind::InvalidArgument);
            let created = db.keyspace_with("another", Layout::sorted(), design);
            assert_eq!(kind(created), ErrorKind::InvalidArgument);
        }
    }
    assert!(db.existing_keyspace("another").is_none());
}

/// Writes that overwrite and delete, over several levels and tables.
fn change(keyspace: &Keyspace, expected: &mut Contents, round: u64) {
    for i in 0..1500 {
        let key = key(i * 7 % 60, i * 31 % 40);
        if (i + round).is_multiple_of(9) {
            keyspace.delete(&key).unwrap();
            expected.remove(&key);
            continue;
        }
        let bytes = if i % 50 == 3 {
            3000
        } else {
            10 + i as usize % 90
        };
        let value = vec![(i + round) as u8; bytes];
        keyspace.put(&key, &value).unwrap();
        expected.insert(key, value);
    }
}

fn check(keyspace: &Keyspace, expected: &Contents) {
    let mut found = Contents::new();
    for item in keyspace.scan_unordered().unwrap() {
        let (key, value) = item.unwrap();
        found.insert(key.to_vec(), value.to_vec());
    }
    assert_eq!(found, *expected);
    for group in 0..70 {
        for member in 0..42 {
            let key = key(group, member);
            let value = keyspace.get(&key).unwrap();
            assert_eq!(value.as_deref(), expected.get(&key).map(Vec::as_slice));
        }
        if keyspace.layout().order == KeyOrder::Hashed {
            continue;
        }
        let prefix = format!("{group:04}").into_bytes();
        let forward: Vec<_> = keyspace
            .scan_prefix(&prefix)
            .unwrap()
            .map(Result::unwrap)
            .collect();
        let mut backward: Vec<_> = keyspace
            .scan_prefix(&prefix)
            .unwrap()
            .rev()
            .map(Result::unwrap)
            .collect();
        backward.reverse();
        let pairs = |scan: &[(hedgerow::Slice, hedgerow::Slice)]| -> Vec<(Vec<u8>, Vec<u8>)> {
            scan.iter()
                .map(|(key, value)| (key.to_vec(), value.to_vec()))
                .collect()
        };
        assert_eq!(pairs(&forward), pairs(&backward));
        let of_group = expected.iter().filter(|(key, _)| key.starts_with(&prefix));
        let of_group: Contents = of_group
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        assert_eq!(pairs(&forward).into_iter().collect::<Contents>(), of_group);
    }
}

/// Tables of all indexes live in one tree: after a change of the design, and by level.
#[test]
fn indexes_may_change_and_differ_by_level() {
    let mixed = "0=runs:3;1=tiering:3/bloom:8/three-level;2=leveling:4/none/three-level:array;3=leveling:4//fence";
    let designs = [
        Design {
            index: INDEXES[0],
            ..small()
        },
        Design {
            policy: mixed.parse().unwrap(),
            ..small()
        },
        small(),
        Design {
            index: INDEXES[1],
            residency: Residency::Paged,
            ..small()
        },
    ];
    for order in ORDERS {
        let disk = SimStorage::new(9);
        let (mut db, mut expected) = (open(&disk), Contents::new());
        let first = designs[0].clone();
        let mut keyspace = db.keyspace_with("groups", layout(order), first).unwrap();
        for (round, design) in designs.iter().cycle().take(6).enumerate() {
            keyspace.retune(design.clone()).unwrap();
            change(&keyspace, &mut expected, round as u64);
            keyspace.flush().unwrap();
            keyspace.wait_until_merged().unwrap();
            check(&keyspace, &expected);
            db.verify().unwrap();
            drop((keyspace, db));
            db = open(&disk);
            keyspace = db.existing_keyspace("groups").unwrap();
            assert_eq!(keyspace.design(), *design);
            check(&keyspace, &expected);
        }
    }
}

#[test]
fn a_snapshot_is_kept_over_merges_of_many_versions() {
    let db = open(&SimStorage::new(2));
    let design = Design {
        index: INDEXES[0],
        ..small()
    };
    let keyspace = db
        .keyspace_with("groups", layout(ORDERS[0]), design)
        .unwrap();
    let mut snapshots = Vec::new();
    let mut expected = Contents::new();
    for round in 0..6 {
        change(&keyspace, &mut expected, round);
        snapshots.push((db.snapshot().unwrap(), expected.clone()));
        keyspace.flush().unwrap();
        keyspace.compact::<&[u8]>(..).unwrap();
    }
    for (snapshot, expected) in &snapshots {
        for group in 0..60 {
            for member in 0..40 {
                let key = key(group, member);
                let value = snapshot.get(&keyspace, &key).unwrap();
                assert_eq!(value.as_deref(), expected.get(&key).map(Vec::as_slice));
            }
        }
    }
    db.verify().unwrap();
}

#[test]
fn tables_tell_their_index_and_rebuild_a_lost_manifest() {
    let disk = SimStorage::new(4);
    let (db, mut expected) = (open(&disk), Contents::new());
    let design = Design {
        index: INDEXES[1],
        ..small()
    };
    let keyspace = db
        .keyspace_with("groups", layout(ORDERS[0]), design)
        .unwrap();
    change(&keyspace, &mut expected, 1);
    keyspace.flush().unwrap();
    keyspace.wait_until_merged().unwrap();
    drop((keyspace, db));
    for name in files(&disk, "tables") {
        let path = Path::new(DIR).join("tables").join(name);
        let table = hedgerow::inspect::Table::open(&disk, &path).unwrap();
        assert_eq!(table.footer().index, INDEXES[1]);
        let pages: Vec<_> = table.pages().collect::<Result<_, _>>().unwrap();
        let ascend = pages.is_sorted_by(|a, b| a.handle.offset < b.handle.offset);
        assert!(ascend, "pages come in the order of the file");
        let entries: usize = pages.iter().map(|page| page.entries.len()).sum();
        assert_eq!(entries as u64, table.facts().unwrap().entries);
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
