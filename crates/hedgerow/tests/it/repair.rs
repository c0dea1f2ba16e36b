//! Repair takes all readable entries from damaged tables and reports the missing ones (invariant
//! I27).

use std::path::{Path, PathBuf};

use hedgerow::inspect::{Part, Table};
use hedgerow::io::sim::{SimStorage, SplitMix64};
use hedgerow::{Db, ErrorKind, Keyspace, Layout, RepairReport};

use crate::crafted::{self, What};
use crate::support::{
    Contents, DIR, builder, contents, files, key, open, put_synced, small, value,
};

pub(crate) const KEYS: u64 = 300;

/// One table of each kind, with values out of line in the one that is sorted.
pub(crate) fn subject(sorted: bool) -> (SimStorage, Contents) {
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

pub(crate) fn keyspace(db: &Db, sorted: bool) -> Keyspace {
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

pub(crate) fn table(disk: &SimStorage, under: &str) -> PathBuf {
    Path::new(DIR).join(under).join(&files(disk, under)[0])
}

/// The offsets in the middle of all pages of a table, and what these hold.
pub(crate) fn pages(disk: &SimStorage) -> Vec<(Part, u64, u64)> {
    let opened = Table::open(disk, &table(disk, "tables")).unwrap();
    let pages = opened.pages().map(Result::unwrap);
    pages
        .map(|page| {
            let offset = page.handle.offset + u64::from(page.handle.bytes) / 2;
            (page.part, offset, page.entries.len() as u64)
        })
        .collect()
}

pub(crate) fn damaged(disk: &SimStorage, offset: u64) -> SimStorage {
    let disk = disk.kill();
    let path = table(&disk, "tables");
    let mut bytes = disk.contents(&path).unwrap();
    bytes[offset as usize] ^= 0x10;
    disk.set_contents(&path, &bytes).unwrap();
    disk
}

pub(crate) fn repair(disk: &SimStorage) -> RepairReport {
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

/// A database that was made where a repair had failed uses the numbers of tables again that this
/// repair set aside.
#[test]
fn a_table_that_was_set_aside_is_not_replaced() {
    let (disk, expected) = subject(true);
    let table = table(&disk, "tables");
    let other = b"the table of another database";
    let lost = Path::new(DIR).join("lost");
    hedgerow::io::Storage::create_dir_all(&disk, &lost).unwrap();
    let lost = lost.join(table.file_name().unwrap());
    disk.set_contents(&lost, other).unwrap();
    let error = hedgerow::repair_with(builder(&disk)).unwrap_err();
    assert_eq!(error.path(), Some(&*lost), "{error}");
    assert_eq!(disk.contents(&lost).unwrap(), other);
    hedgerow::io::Storage::remove(&disk, &lost).unwrap();
    let report = repair(&disk);
    assert_eq!(check(&disk, true, &expected, &report), expected);
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

pub(crate) fn damage_log(disk: &SimStorage, sought: &[u8]) {
    damage_log_at(disk, in_log(disk, sought));
}

fn damage_log_at(disk: &SimStorage, (path, at): (PathBuf, usize)) {
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

/// The first repair leaves a number that is larger than the second one could derive from the size
/// of what it cuts (I43).
#[test]
fn numbers_that_nothing_tells_are_not_given_again() {
    let mut disk = SimStorage::new(1);
    for round in 0..3 {
        let db = open(&disk);
        let keyspace = keyspace(&db, true);
        (0..10).for_each(|i| put_synced(&keyspace, 100 * round + i));
        let before = db.snapshot().unwrap().number();
        disk = disk.kill();
        let (log, _) = in_log(&disk, &key(100 * round));
        damage_log_at(&disk, (log, 0));
        let report = repair(&disk);
        assert_eq!(report.missing.len(), 1, "{report:?}");
        let db = open(&disk);
        db.existing_keyspace("it").unwrap().put("new", "1").unwrap();
        let after = db.snapshot().unwrap().number();
        assert!(after > before, "round {round}: {after} after {before}");
        db.close().unwrap();
    }
}

/// Nothing in the log says that these records are durable: only the note of the clean close does.
#[test]
fn damage_in_the_log_of_a_closed_database_is_told() {
    const KEYS: u64 = 20;
    let disk = SimStorage::new(1);
    let db = open(&disk);
    let keyspace = keyspace(&db, true);
    (0..KEYS).for_each(|i| keyspace.put(key(i), value(i)).unwrap());
    db.close().unwrap();
    let (log, _) = in_log(&disk, &key(0));
    let whole = disk.contents(&log).unwrap();
    let used = whole.iter().rposition(|&byte| byte != 0).unwrap() + 1;
    let flipped = (0..used).step_by(7).chain([used - 1]).map(|at| {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        bytes
    });
    for damaged in flipped.chain([Vec::new()]) {
        let disk = disk.kill();
        disk.set_contents(&log, &damaged).unwrap();
        let report = repair(&disk);
        let [missing] = &report.missing[..] else {
            panic!("{report:?}");
        };
        assert_eq!(missing.entries, None, "nobody can tell what came behind");
        assert_eq!(disk.contents(&missing.path).unwrap(), damaged);
        let kept = contents(&open(&disk).existing_keyspace("it").unwrap());
        let count = kept.len() as u64;
        assert!(count < KEYS, "{report:?}");
        assert!(kept.into_keys().eq((0..count).map(key)), "{report:?}");
    }
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

pub(crate) fn remove_manifest(disk: &SimStorage) {
    let manifest = Path::new(DIR).join("MANIFEST");
    hedgerow::io::Storage::remove(disk, &manifest).unwrap();
}

#[test]
fn a_partition_with_only_a_range_delete_is_found_without_a_manifest() {
    let (disk, _) = subject(true);
    let db = open(&disk);
    let keyspace = keyspace(&db, true);
    let other = db.keyspace("other", Layout::sorted()).unwrap();
    other.delete_range(key(1)..).unwrap();
    put_synced(&keyspace, KEYS);
    let before = contents(&keyspace);
    let disk = disk.kill();
    drop((keyspace, other, db));
    remove_manifest(&disk);
    let report = repair(&disk);
    assert_eq!((&report.lost[..], &report.missing[..]), (&[][..], &[][..]));
    assert_eq!(report.keyspaces_guessed, 2);
    let found = contents(&open(&disk).existing_keyspace("keyspace-0").unwrap());
    assert_eq!(found, before);
}

/// While there is a slot, a recovery keeps the old log in front of the new one.
#[test]
fn without_a_manifest_the_newest_log_of_a_slot_is_replayed() {
    for seed in 0..100 {
        let mut random = SplitMix64::new(seed);
        let mut disk = SimStorage::new(seed);
        let mut expected = Contents::new();
        for opened in 0..2 + random.below(3) {
            let db = builder(&disk).log_segment_bytes(4 << 10).open().unwrap();
            let keyspace = keyspace(&db, true);
            if opened == 0 {
                db.create_slot("slot", 1 << 30).unwrap();
            }
            if random.below(2) == 0 {
                db.sync().unwrap();
            }
            for written in 0..1 + random.below(200) {
                let (key, value) = (key(random.below(100)), value(written));
                match random.below(8) {
                    0 if written > 0 => {
                        keyspace.delete(&key).unwrap();
                        expected.remove(&key);
                    }
                    _ => {
                        keyspace.put(&key, &value).unwrap();
                        expected.insert(key, value);
                    }
                }
            }
            if random.below(2) == 0 {
                db.sync().unwrap();
            }
            if random.below(2) == 0 {
                db.close().unwrap();
            }
            disk = disk.kill();
        }
        remove_manifest(&disk);
        let report = repair(&disk);
        assert_eq!(report.missing, [], "seed {seed}: {report:?}");
        let found = contents(&open(&disk).existing_keyspace("keyspace-0").unwrap());
        assert_eq!(found, expected, "seed {seed}");
    }
}

#[test]
fn a_range_delete_behind_the_cut_of_the_log_deletes_nothing() {
    let (disk, mut expected) = subject(true);
    let db = open(&disk);
    let keyspace = keyspace(&db, true);
    put_synced(&keyspace, KEYS);
    put_synced(&keyspace, KEYS + 1);
    keyspace.delete_range(key(1)..).unwrap();
    let disk = disk.kill();
    drop((keyspace, db));
    // No operation has this kind, and the checksum of the record is right.
    for record in crafted::sealed(&disk) {
        let header = match record.what {
            What::Log(_) => 32,
            What::ShortLog(_) => 12,
            _ => continue,
        };
        record.falsify(&disk, |bytes| {
            if bytes.windows(10).any(|window| window == key(KEYS + 1)) {
                bytes[header] = 0x0E;
            }
        });
    }
    let report = repair(&disk);
    assert_eq!(report.missing.len(), 1, "{report:?}");
    expected.insert(key(KEYS), value(KEYS));
    assert_eq!(check(&disk, true, &expected, &report), expected);
}

/// The log of `keys` synced writes in small segments.
fn long_log(seed: u64, keys: u64) -> SimStorage {
    let disk = SimStorage::new(seed);
    let small_segments = builder(&disk).log_segment_bytes(4 << 10);
    let db = small_segments.memory_budget(64 << 20).open().unwrap();
    let keyspace = keyspace(&db, true);
    (0..keys).for_each(|i| put_synced(&keyspace, i));
    disk.kill()
}

fn damaged_log(seed: u64, keys: u64, damaged: u64) -> SimStorage {
    let disk = long_log(seed, keys);
    damage_log(&disk, &key(damaged));
    disk
}

#[test]
fn a_log_is_kept_up_to_a_segment_that_is_missing() {
    let disk = long_log(1, KEYS);
    let segment = |i: u64| in_log(&disk, &key(i)).0;
    let gone = segment(100);
    let first = (0..100).find(|i| segment(*i) == gone).unwrap();
    assert!(first > 0 && segment(KEYS - 1) > gone);
    hedgerow::io::Storage::remove(&disk, &gone).unwrap();
    let report = repair(&disk);
    assert_eq!(report.missing[0].entries, None, "{report:?}");
    let kept = contents(&open(&disk).existing_keyspace("it").unwrap());
    assert!(kept.into_keys().eq((0..first).map(key)), "{report:?}");
}

/// The second repair reports what the first one has cut from the log, and gives no number of these
/// writes again (I27, I43).
#[test]
fn a_repair_that_is_killed_leaves_its_report_to_the_next() {
    let mut killed = 0;
    for seed in 0..150 {
        let mut random = SplitMix64::new(seed);
        let damaged = random.below(KEYS - 20);
        let disk = damaged_log(seed, KEYS, damaged);
        let image = disk.kill();
        let whole = repair(&image);
        assert!(!whole.missing.is_empty(), "seed {seed}: {whole:?}");
        disk.crash_after(random.below(image.operations()));
        if hedgerow::repair_with(builder(&disk)).is_ok() {
            continue;
        }
        let disk = match random.below(2) {
            0 => disk.crash(),
            _ => disk.kill(),
        };
        let is_told = is_told(&disk);
        let report = repair(&disk);
        let case = format!("seed {seed}: {report:?} after {whole:?}");
        assert!(is_told || report.missing == whole.missing, "{case}");
        let is_lost = |path: &PathBuf| report.lost.iter().any(|(it, _)| it == path);
        assert!(
            is_told || whole.lost.iter().all(|(it, _)| is_lost(it)),
            "{case}"
        );
        let db = open(&disk);
        let keyspace = db.existing_keyspace("it").unwrap();
        let found: Vec<_> = contents(&keyspace).into_keys().collect();
        assert_eq!(found, (0..damaged).map(key).collect::<Vec<_>>(), "{case}");
        keyspace.put("new", "1").unwrap();
        assert!(db.snapshot().unwrap().number() > KEYS, "{case}");
        assert_eq!(repair_closed(db, &disk).missing, [], "{case}");
        killed += 1;
    }
    assert!(
        killed > 20,
        "expected repairs that were killed, found {killed}"
    );
}

/// An open after a repair that was killed is refused; or all that was cut is kept, no number of it
/// is given again (I27, I43), and a repair after more writes reports it. Only the last segment says
/// that the others were durable.
#[test]
fn an_open_after_a_repair_that_was_killed_loses_nothing() {
    const KEYS: u64 = 200;
    let disk = SimStorage::new(1);
    let small_segments = builder(&disk).log_segment_bytes(4 << 10);
    let db = small_segments.memory_budget(64 << 20).open().unwrap();
    let keyspace = keyspace(&db, true);
    (0..KEYS).for_each(|i| keyspace.put(key(i), value(i)).unwrap());
    db.sync().unwrap();
    put_synced(&keyspace, KEYS);
    let disk = disk.kill();
    damage_log(&disk, &key(20));
    let image = disk.kill();
    let whole = repair(&image);
    let mut opened = 0;
    for killed in 0..image.operations() {
        let disk = disk.kill();
        disk.crash_after(killed);
        let _killed = hedgerow::repair_with(builder(&disk));
        let disk = disk.kill();
        let db = match builder(&disk).open() {
            Ok(db) => db,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
                continue;
            }
        };
        let is_told = is_told(&disk);
        let keyspace = db.existing_keyspace("it").unwrap();
        keyspace.put("new", "1").unwrap();
        keyspace.flush().unwrap();
        let number = db.snapshot().unwrap().number();
        assert!(number > KEYS, "{number} after {killed} operations");
        for i in [21, 100, 150, KEYS] {
            assert!(is_in_a_file(&disk, &key(i)), "{i} after {killed}");
        }
        let report = repair_closed(db, &disk);
        assert!(is_told || report.missing == whole.missing, "{report:?}");
        opened += 1;
    }
    assert!(opened > 0, "expected a killed repair that left a database");
}

/// A copy gets its name when it is whole.
#[test]
fn a_copy_that_was_not_finished_does_not_stand_for_the_log() {
    let disk = damaged_log(1, 60, 40);
    let image = disk.kill();
    let whole = repair(&image);
    for killed in 0..image.operations() {
        let disk = disk.kill();
        disk.crash_after(killed);
        let _killed = hedgerow::repair_with(builder(&disk));
        if is_told(&disk) {
            break;
        }
        let disk = disk.kill();
        let report = repair(&disk);
        assert_eq!(report.missing, whole.missing, "after {killed} operations");
    }
}

/// The last steps of a repair say that its report was given.
fn is_told(disk: &SimStorage) -> bool {
    let lost = files(disk, "lost");
    lost.iter().any(|name| name.ends_with(".log"))
}

fn is_in_a_file(disk: &SimStorage, sought: &[u8]) -> bool {
    disk.paths().into_iter().any(|path| {
        let bytes = disk.contents(path).unwrap();
        bytes.windows(sought.len()).any(|window| window == sought)
    })
}

fn repair_closed(db: Db, disk: &SimStorage) -> RepairReport {
    db.close().unwrap();
    repair(disk)
}

/// Recycled segments wait for their next use under their old names.
#[test]
fn segments_below_the_start_of_the_log_are_not_lost() {
    for damages_header in [false, true] {
        let disk = SimStorage::new(1);
        let small_segments = builder(&disk).log_segment_bytes(4 << 10);
        let db = small_segments.memory_budget(64 << 20).open().unwrap();
        let keyspace = keyspace(&db, true);
        (0..KEYS).for_each(|i| put_synced(&keyspace, i));
        keyspace.flush().unwrap();
        (KEYS..KEYS + 20).for_each(|i| put_synced(&keyspace, i));
        let disk = disk.kill();
        drop((keyspace, db));
        let (start, _) = in_log(&disk, &key(KEYS));
        let name = start.file_name().unwrap().to_str().unwrap();
        assert!(files(&disk, "log").iter().any(|it| it.as_str() < name));
        match damages_header {
            true => damage_log_at(&disk, (start.clone(), 0)),
            false => damage_log(&disk, &key(KEYS + 10)),
        }
        let report = repair(&disk);
        let mut lost = report
            .lost
            .iter()
            .map(|(path, _)| path.file_name().unwrap());
        assert!(lost.all(|it| it >= name), "{report:?}");
        assert!(!report.missing.is_empty(), "{report:?}");
        let kept = contents(&open(&disk).existing_keyspace("it").unwrap());
        let end = if damages_header { KEYS } else { KEYS + 10 };
        assert_eq!(
            kept.into_keys().collect::<Vec<_>>(),
            (0..end).map(key).collect::<Vec<_>>()
        );
    }
}
