//! Repair takes all readable entries from damaged tables and reports the missing ones (invariant
//! I27).

use std::path::{Path, PathBuf};

use hedgerow::inspect::{Part, Table};
use hedgerow::io::sim::SimStorage;
use hedgerow::{Db, Keyspace, Layout, RepairReport};

use crate::support::{Contents, DIR, builder, contents, files, key, open, put_synced, small};

const KEYS: u64 = 300;

/// One table of each kind, with values out of line in the one that is sorted.
fn subject(sorted: bool) -> (SimStorage, Contents) {
    let disk = SimStorage::new(1);
    let db = open(&disk);
    let keyspace = keyspace(&db, sorted);
    let value = |i: u64| vec![i as u8; if i % 50 == 7 && sorted { 1500 } else { 20 }];
    let expected: Contents = (0..KEYS).map(|i| (key(i), value(i))).collect();
    for (key, value) in &expected {
        keyspace.put(key, value).unwrap();
    }
    keyspace.flush().unwrap();
    db.close().unwrap();
    assert_eq!(files(&disk, "tables").len(), 1);
    (disk, expected)
}

fn keyspace(db: &Db, sorted: bool) -> Keyspace {
    let mut design = small();
    design.table_bytes = Some(64 << 10);
    design.memtable_bytes = Some(64 << 10);
    let layout = match sorted {
        true => Layout::sorted(),
        false => Layout::hashed(),
    };
    if !sorted {
        design.table = hedgerow::TableSpec::HTable;
    }
    db.keyspace_with("it", layout, design).unwrap()
}

fn table(disk: &SimStorage, under: &str) -> PathBuf {
    Path::new(DIR).join(under).join(&files(disk, under)[0])
}

/// The offsets in the middle of all pages of a table, and what these hold.
fn pages(disk: &SimStorage) -> Vec<(Part, u64, u64)> {
    let opened = Table::open(disk, &table(disk, "tables")).unwrap();
    let pages = opened.pages().map(Result::unwrap);
    pages
        .map(|page| {
            let offset = page.handle.offset + u64::from(page.handle.bytes) / 2;
            (page.part, offset, page.entries.len() as u64)
        })
        .collect()
}

fn damaged(disk: &SimStorage, offset: u64) -> SimStorage {
    let disk = disk.kill();
    let path = table(&disk, "tables");
    let mut bytes = disk.contents(&path).unwrap();
    bytes[offset as usize] ^= 0x10;
    disk.set_contents(&path, &bytes).unwrap();
    disk
}

fn repair(disk: &SimStorage) -> RepairReport {
    hedgerow::repair_with(builder(disk)).unwrap()
}

/// The contents after a repair. Every value is right, and every missing key of a sorted keyspace
/// lies in a range that the report names.
fn check(disk: &SimStorage, sorted: bool, expected: &Contents, report: &RepairReport) -> Contents {
    let db = open(disk);
    db.verify().unwrap();
    let keyspace = keyspace(&db, sorted);
    let found = match sorted {
        true => contents(&keyspace),
        false => {
            let gets = expected.keys().map(|key| (key, keyspace.get(key).unwrap()));
            gets.filter_map(|(key, value)| Some((key.clone(), value?.to_vec())))
                .collect()
        }
    };
    for (key, value) in expected {
        match found.get(key) {
            Some(there) => assert_eq!(there, value),
            None if sorted => {
                let mut ranges = report.missing.iter().flat_map(|missing| &missing.ranges);
                assert!(ranges.any(|range| range.contains(key)), "{report:?}");
            }
            None => assert!(!report.missing.is_empty()),
        }
    }
    found
}

#[test]
fn a_damaged_page_costs_what_is_on_it() {
    for sorted in [true, false] {
        let (disk, expected) = subject(sorted);
        for (part, offset, entries) in pages(&disk) {
            let disk = damaged(&disk, offset);
            let report = repair(&disk);
            assert_eq!((report.tables, report.lost.len()), (0, 1), "{report:?}");
            let found = check(&disk, sorted, &expected, &report).len() as u64;
            let missing = match part {
                Part::Block => entries,
                Part::Value => 1,
                // The blocks are found without their index, too.
                _ => 0,
            };
            let told = report.missing.iter().map(|missing| missing.entries);
            assert_eq!(
                (told.sum::<Option<u64>>(), found),
                (Some(missing), KEYS - missing),
                "{part:?} at {offset}: {report:?}"
            );
            assert_eq!((report.salvaged, report.entries), (1, found));
            let ranges = report.missing.iter().map(|missing| missing.ranges.len());
            assert_eq!(ranges.sum::<usize>(), usize::from(missing > 0));
        }
    }
}

#[test]
fn without_an_index_damages_are_told_apart_too() {
    for sorted in [true, false] {
        let (disk, expected) = subject(sorted);
        let pages = pages(&disk);
        let of = |part| pages.iter().filter(move |(it, ..)| *it == part);
        let (_, top, _) = of(Part::IndexTop).next().unwrap();
        let disk = damaged(&disk, *top);
        for (_, offset, entries) in of(Part::Block) {
            let disk = damaged(&disk, *offset);
            let report = repair(&disk);
            let found = check(&disk, sorted, &expected, &report).len() as u64;
            assert_eq!(found, KEYS - entries, "{report:?}");
            let missing = &report.missing[0];
            assert_eq!((missing.entries, missing.ranges.len()), (Some(*entries), 1));
            assert_eq!((report.salvaged, report.entries), (1, found));
        }
    }
}

#[test]
fn several_damages_are_told_apart() {
    let (disk, expected) = subject(true);
    let blocks: Vec<_> = pages(&disk)
        .into_iter()
        .filter(|(part, ..)| *part == Part::Block)
        .collect();
    // The first, two neighbours, the last.
    let chosen = [0, 4, 5, blocks.len() - 1].map(|at| blocks[at]);
    let disk = chosen
        .iter()
        .fold(disk, |disk, (_, offset, _)| damaged(&disk, *offset));
    let report = repair(&disk);
    let missing = &report.missing[0];
    let entries: u64 = chosen.iter().map(|(_, _, entries)| entries).sum();
    assert_eq!(missing.entries, Some(entries));
    assert_eq!(missing.keyspace.as_deref(), Some("it"));
    assert_eq!(missing.ranges.len(), 3, "{report:?}");
    assert_eq!(missing.ranges[0].start(), &key(0));
    assert_eq!(missing.ranges[2].end(), &key(KEYS - 1));
    let found = check(&disk, true, &expected, &report).len() as u64;
    assert_eq!(found, KEYS - entries);
}

#[test]
fn what_was_set_aside_can_be_put_back() {
    let (disk, expected) = subject(true);
    let whole = disk.contents(table(&disk, "tables")).unwrap();
    let (_, offset, _) = pages(&disk)[3];
    let disk = damaged(&disk, offset);
    let broken = disk.contents(table(&disk, "tables")).unwrap();
    // Without a manifest the numbers of tables are known from files only.
    disk.set_contents(format!("{DIR}/MANIFEST"), b"").unwrap();
    let report = repair(&disk);
    let (kept, _) = &report.lost[0];
    assert_eq!(disk.contents(kept).unwrap(), broken);
    assert_eq!(repair(&disk).lost, [], "what is kept is taken once");
    assert_eq!(disk.contents(kept).unwrap(), broken);

    let name = kept.to_str().unwrap().strip_suffix(".damaged").unwrap();
    disk.set_contents(name, &whole).unwrap();
    let report = repair(&disk);
    assert_eq!((&report.lost[..], &report.missing[..]), (&[][..], &[][..]));
    let db = open(&disk);
    let keyspace = db.existing_keyspace("keyspace-0").unwrap();
    assert_eq!(contents(&keyspace), expected);
}

#[test]
fn tables_of_a_tree_that_was_cleared_since_are_passed_over() {
    let (disk, _) = subject(true);
    let table = table(&disk, "tables");
    let old = disk.contents(&table).unwrap();
    let db = open(&disk);
    let keyspace = keyspace(&db, true);
    keyspace.clear().unwrap();
    put_synced(&keyspace, 1);
    db.close().unwrap();
    drop(keyspace);
    // A crash left it, or an earlier repair.
    let lost = Path::new(DIR).join("lost");
    hedgerow::io::Storage::create_dir_all(&disk, &lost).unwrap();
    for path in [table.clone(), lost.join(table.file_name().unwrap())] {
        disk.set_contents(path, &old).unwrap();
        let report = repair(&disk);
        assert_eq!(report.missing, [], "{report:?}");
        let found = check(&disk, true, &Contents::new(), &report);
        assert_eq!(found.len(), 1);
    }
}

#[test]
fn a_range_delete_that_only_the_log_has_is_kept() {
    let (disk, _) = subject(true);
    let db = open(&disk);
    let keyspace = keyspace(&db, true);
    keyspace.delete_range(key(1)..).unwrap();
    put_synced(&keyspace, 2);
    let before = contents(&keyspace);
    assert_eq!(before.len(), 2);
    let disk = disk.kill();
    let report = repair(&disk);
    assert_eq!(check(&disk, true, &before, &report), before);
}

#[test]
fn a_delete_that_was_merged_away_stays_older_than_a_load() {
    let disk = SimStorage::new(1);
    let db = open(&disk);
    let keyspace = keyspace(&db, true);
    // This write keeps the log.
    db.keyspace("other", Layout::sorted())
        .unwrap()
        .put("k", "")
        .unwrap();
    keyspace.put(key(1), "old").unwrap();
    keyspace.delete(key(1)).unwrap();
    keyspace.flush().unwrap();
    keyspace.compact::<&[u8]>(..).unwrap();
    let loaded = Contents::from([(key(1), b"loaded".to_vec())]);
    keyspace
        .bulk_load(loaded.iter().map(Ok::<_, hedgerow::Error>))
        .unwrap();
    let disk = disk.kill();
    let report = repair(&disk);
    assert_eq!(check(&disk, true, &loaded, &report), loaded);
    let db = open(&disk);
    let keyspace = db.existing_keyspace("it").unwrap();
    assert_eq!(keyspace.get(key(1)).unwrap().unwrap(), "loaded");
}

/// The segment that has the bytes, and their place in it.
fn in_log(disk: &SimStorage, sought: &[u8]) -> (PathBuf, usize) {
    let segments = files(disk, "log").into_iter();
    let mut segments = segments.map(|name| Path::new(DIR).join("log").join(name));
    let found = segments.find_map(|path| {
        let bytes = disk.contents(&path).unwrap();
        let at = { bytes.windows(sought.len()) }.position(|window| window == sought)?;
        Some((path, at))
    });
    found.expect("a segment with the bytes")
}

fn damage_log(disk: &SimStorage, sought: &[u8]) {
    let (path, at) = in_log(disk, sought);
    let mut bytes = disk.contents(&path).unwrap();
    bytes[at] ^= 1;
    disk.set_contents(&path, &bytes).unwrap();
}

#[test]
fn a_damaged_log_is_kept_up_to_the_damage() {
    let disk = SimStorage::new(1);
    let db = open(&disk);
    let keyspace = keyspace(&db, true);
    keyspace.put(key(0), "0").unwrap();
    db.flush().unwrap();
    for i in 1..=20 {
        put_synced(&keyspace, i);
    }
    // A crash: with a clean close tables would have all of it.
    let disk = disk.kill();
    drop((keyspace, db));
    damage_log(&disk, &key(9));
    let report = repair(&disk);
    let [missing] = &report.missing[..] else {
        panic!("{report:?}");
    };
    assert_eq!(missing.entries, None, "nobody can tell what came behind");
    assert_eq!(missing.ranges, []);
    assert!(missing.path.starts_with(Path::new(DIR).join("lost")));
    let copy = disk.contents(&missing.path).unwrap();
    assert!(copy.windows(10).any(|window| window == key(20)));
    let kept = contents(&open(&disk).existing_keyspace("it").unwrap());
    assert_eq!(
        kept.into_keys().collect::<Vec<_>>(),
        (0..9).map(key).collect::<Vec<_>>()
    );
    let report = repair(&disk);
    assert!(report.missing.is_empty(), "{report:?}");
}

/// The key of the first record of the second segment.
fn first_of_second_segment(disk: &SimStorage) -> u64 {
    let segment = |i: u64| in_log(disk, &key(i)).0;
    (1..3000).find(|i| segment(*i) != segment(0)).unwrap()
}

/// Segments before the damage stay as they are; those behind it go, and are told, also if the
/// damaged record is the first one of its segment. No number is used again (I43).
#[test]
fn a_log_of_several_segments_is_kept_up_to_the_damage() {
    const KEYS: u64 = 3000;
    for damaged in [700, 1500, 2900, KEYS] {
        let disk = SimStorage::new(damaged);
        let small_segments = builder(&disk).log_segment_bytes(16 << 10);
        let db = small_segments.memory_budget(64 << 20).open().unwrap();
        let keyspace = db.keyspace("it", Layout::sorted()).unwrap();
        for i in 0..KEYS {
            put_synced(&keyspace, i);
        }
        let disk = disk.kill();
        drop((keyspace, db));
        assert!(files(&disk, "log").len() > 3);
        let damaged = match damaged {
            KEYS => first_of_second_segment(&disk),
            damaged => damaged,
        };
        damage_log(&disk, &key(damaged));
        let report = repair(&disk);
        let behind: Option<u64> = report.missing.iter().map(|it| it.entries).sum();
        assert_eq!(behind, None, "{report:?}");
        let kept = contents(&open(&disk).existing_keyspace("it").unwrap());
        let expected: Vec<_> = (0..damaged).map(key).collect();
        assert_eq!(kept.into_keys().collect::<Vec<_>>(), expected);
        // A power loss behind a repair keeps what it has set aside.
        let after = disk.crash();
        let report = repair(&after);
        assert!(report.missing.is_empty(), "{report:?}");
        let lost = files(&after, "lost");
        assert!(lost.iter().any(|name| name.ends_with(".log")), "{lost:?}");
        let db = open(&disk);
        db.existing_keyspace("it").unwrap().put("new", "1").unwrap();
        assert!(db.snapshot().unwrap().number() > KEYS);
    }
}
