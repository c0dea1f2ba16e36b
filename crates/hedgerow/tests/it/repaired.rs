//! A repair keeps deletes that only the log has, and all that the manifest says of a keyspace.

use std::path::{Path, PathBuf};
use std::time::Duration;

use hedgerow::inspect::Change;
use hedgerow::io::Storage;
use hedgerow::io::sim::SimStorage;
use hedgerow::{Design, Layout, inspect};

use crate::corruption::manifest_records;
use crate::repair::{
    KEYS, damaged, keyspace, pages, remove_manifest, repair, subject, table as first_table,
};
use crate::support::{
    Contents, DIR, builder, contents, contents_unordered, files, hashed, key, open, small, value,
};

const LOST: &str = "/db/lost";
const MANIFEST: &str = "/db/MANIFEST";

/// Recovery fills level 0 while it replays the log, and merges runs there. The deletes are of keys
/// below all those that were written before, so nothing in level 0 is older.
#[test]
fn deletes_in_a_log_that_fills_level_0_are_kept() {
    let disk = SimStorage::new(1);
    let large = builder(&disk).memory_budget(256 << 20);
    let large = large.log_segment_bytes(1 << 20).log_bytes_max(64 << 20);
    let db = large.open().unwrap();
    let keyspace = db.keyspace("it", Layout::sorted()).unwrap();
    (0..KEYS).for_each(|i| keyspace.put(key(i), value(i)).unwrap());
    keyspace.flush().unwrap();
    let filling = |i: u64| format!("z-{i:06}").into_bytes();
    for i in (0..KEYS).rev() {
        keyspace.delete(key(i)).unwrap();
        for j in 3 * i..3 * i + 3 {
            keyspace.put(filling(j), vec![j as u8; 10 << 10]).unwrap();
        }
    }
    db.sync().unwrap();
    let disk = disk.kill();
    assert_eq!(repair(&disk).missing, []);
    let found = contents(&open(&disk).existing_keyspace("it").unwrap());
    assert!(found.into_keys().eq((0..3 * KEYS).map(filling)));
}

/// The facts of keyspaces in the manifest, without their tables and the counts of these.
fn facts(disk: &SimStorage) -> Vec<Change> {
    let manifest = inspect::manifest(disk, Path::new(DIR)).unwrap();
    let mut facts = manifest.state.unwrap();
    facts.retain(|change| {
        let is_of_tables = matches!(change, Change::Tree(_) | Change::Written { .. });
        let is_number = matches!(change, Change::Counters { .. } | Change::Numbered { .. });
        let is_of_log = matches!(
            change,
            Change::LogStart { .. } | Change::Closed { .. } | Change::Opened
        );
        !(is_of_tables || is_number || is_of_log)
    });
    facts
}

#[test]
fn a_repair_keeps_everything_that_the_manifest_says_of_a_keyspace() {
    let disk = SimStorage::new(1);
    let db = open(&disk);
    let layouts = [
        ("tuned", Layout::sorted()),
        ("divided", Layout::sorted().range([key(100), key(200)])),
        ("added", Layout::sorted().merge_operator("add_i64")),
        ("timed", Layout::hashed().hash(3)),
        ("old name", Layout::sorted()),
    ];
    for (name, layout) in layouts {
        let keyspace = db.keyspace_with(name, layout, small()).unwrap();
        for i in 0..KEYS {
            keyspace.put(key(i), 1_i64.to_le_bytes()).unwrap();
        }
        match name {
            "tuned" => keyspace.set_self_tuning(true).unwrap(),
            "timed" => {
                let hour = Duration::from_secs(3600);
                keyspace.set_time_to_live(Some(hour)).unwrap();
                keyspace.put(key(0), 2_i64.to_le_bytes()).unwrap();
            }
            "old name" => {
                db.rename_keyspace(name, "name").unwrap();
                keyspace.clear().unwrap();
                let design = Design {
                    block_bytes: 1024,
                    ..small()
                };
                keyspace.retune(design).unwrap();
            }
            _ => {}
        }
    }
    db.flush().unwrap();
    db.close().unwrap();
    let before = facts(&disk);
    for told in ["SetSelfTuning", "SetTimeToLive", "Clock"] {
        assert!(format!("{before:?}").contains(told), "{told} in {before:?}");
    }
    let report = repair(&disk);
    assert_eq!((report.keyspaces_known, report.keyspaces_guessed), (5, 0));
    assert_eq!(facts(&disk), before);
}

/// Damages the edit of the manifest in which a keyspace was cleared.
fn damage_clear(disk: &SimStorage) -> PathBuf {
    let manifest = inspect::manifest(disk, Path::new(DIR)).unwrap();
    let is_clear = |change: &Change| matches!(change, Change::ReplacePartitions { .. });
    let mut records = manifest.records.iter().flatten();
    let record = records.find(|it| it.edit.iter().any(is_clear)).unwrap();
    let mut bytes = disk.contents(&manifest.path).unwrap();
    bytes[(record.offset + record.bytes - 1) as usize] ^= 1;
    disk.set_contents(&manifest.path, &bytes).unwrap();
    manifest.path
}

#[test]
fn a_keyspace_that_was_cleared_behind_the_damage_is_known() {
    let layouts = [
        Layout::sorted(),
        Layout::hashed(),
        Layout::sorted().hash(4),
        Layout::sorted().range([key(500), key(600)]),
    ];
    for layout in layouts {
        let disk = SimStorage::new(1);
        let db = open(&disk);
        let keyspace = db.keyspace_with("it", layout.clone(), small()).unwrap();
        (0..KEYS).for_each(|i| keyspace.put(key(i), "old").unwrap());
        keyspace.flush().unwrap();
        keyspace.clear().unwrap();
        let mut expected = Contents::new();
        for i in 400..700 {
            keyspace.put(key(i), value(i)).unwrap();
            expected.insert(key(i), value(i));
            // Some are in the log only.
            if i == 690 {
                keyspace.flush().unwrap();
            }
        }
        db.sync().unwrap();
        let disk = disk.kill();
        damage_clear(&disk);
        let report = repair(&disk);
        let case = format!("{layout}: {report:?}");
        assert_eq!(report.missing, [], "{case}");
        let keyspaces = (report.keyspaces_known, report.keyspaces_guessed);
        assert_eq!(keyspaces, (1, 0), "{case}");
        let db = open(&disk);
        db.verify().unwrap();
        let keyspace = db.existing_keyspace("it").unwrap();
        assert_eq!(keyspace.layout(), layout, "{case}");
        let found = contents_unordered(&keyspace);
        assert_eq!(found, expected, "{case}");
    }
}

#[test]
fn a_damaged_manifest_is_kept_and_reported() {
    let (mut disk, expected) = subject(true);
    let mut kept = Vec::new();
    for round in 0..2 {
        let db = open(&disk);
        keyspace(&db, true).clear().unwrap();
        let keyspace = keyspace(&db, true);
        for (key, value) in &expected {
            keyspace.put(key, value).unwrap();
        }
        keyspace.flush().unwrap();
        disk = disk.kill();
        let manifest = damage_clear(&disk);
        let bytes = disk.contents(manifest).unwrap();
        let report = repair(&disk);
        let [(path, _)] = &report.lost[..] else {
            panic!("round {round}: {report:?}");
        };
        kept.push((path.clone(), bytes));
        for (path, bytes) in &kept {
            assert_eq!(&disk.contents(path).unwrap(), bytes, "round {round}");
        }
        let keyspace = open(&disk).existing_keyspace("it").unwrap();
        assert_eq!(contents(&keyspace), expected, "round {round}");
    }
    assert_eq!(repair(&disk).lost, []);
    assert_eq!(files(&disk, "lost").len(), kept.len());
}

/// A later database in the same directory would take them in.
#[test]
fn what_a_repair_has_kept_is_destroyed_with_the_database() {
    let (disk, _) = subject(true);
    let (_, offset, _) = pages(&disk)[3];
    let disk = damaged(&disk, offset);
    let whole = disk.contents(first_table(&disk, "tables")).unwrap();
    remove_manifest(&disk);
    let report = repair(&disk);
    let (kept, _) = &report.lost[0];
    let name = kept.to_str().unwrap().strip_suffix(".damaged").unwrap();
    disk.set_contents(name, &whole).unwrap();
    let foreign = Path::new(LOST).join("notes.txt");
    disk.set_contents(&foreign, b"mine").unwrap();
    builder(&disk).destroy().unwrap();
    assert_eq!(disk.paths(), [foreign]);
    // Nor does one that is cut short leave a database.
    disk.remove(&Path::new(LOST).join("notes.txt")).unwrap();
    let db = open(&disk);
    hashed(&db, small()).put(key(1), value(1)).unwrap();
    db.close().unwrap();
    disk.crash_after(12);
    let _killed = hedgerow::repair_with(builder(&disk));
    let disk = disk.kill();
    builder(&disk).destroy().unwrap();
    assert_eq!(disk.paths(), [] as [PathBuf; 0]);
}

/// The path of the only table with range tombstones.
fn table_of_ranges(disk: &SimStorage) -> PathBuf {
    let tables = files(disk, "tables").into_iter();
    let mut tables = tables.map(|name| Path::new(DIR).join("tables").join(name));
    let is_of_ranges = |path: &PathBuf| {
        let table = inspect::Table::open(disk, path).unwrap();
        table.facts().unwrap().range_tombstones > 0
    };
    tables.find(is_of_ranges).unwrap()
}

/// Its range tombstones are readable.
#[test]
fn range_deletes_of_a_table_without_a_readable_entry_are_kept() {
    let (disk, mut expected) = subject(true);
    let db = open(&disk);
    let it = keyspace(&db, true);
    it.delete_range(key(100)..key(200)).unwrap();
    it.flush().unwrap();
    db.close().unwrap();
    drop(it);
    // The log begins anew: only the table has the delete.
    open(&disk).close().unwrap();
    expected.retain(|it, _| !(key(100)..key(200)).contains(it));
    let path = table_of_ranges(&disk);
    let mut bytes = disk.contents(&path).unwrap();
    for page in inspect::Table::open(&disk, &path).unwrap().pages() {
        let page = page.unwrap();
        if page.part == inspect::Part::Block {
            bytes[page.handle.offset as usize] ^= 1;
        }
    }
    disk.set_contents(&path, &bytes).unwrap();
    for has_manifest in [true, false] {
        let disk = disk.kill();
        if !has_manifest {
            remove_manifest(&disk);
        }
        let report = repair(&disk);
        assert_eq!(
            (report.salvaged, report.missing.len()),
            (1, 1),
            "{report:?}"
        );
        let db = open(&disk);
        let keyspace = db.existing_keyspace(&db.keyspaces()[0]).unwrap();
        assert_eq!(contents(&keyspace), expected, "{has_manifest}");
    }
}

/// A crash has left it.
#[test]
fn a_merged_table_that_the_manifest_does_not_name_is_removed() {
    let (disk, mut expected) = subject(true);
    let path = first_table(&disk, "tables");
    let merged = disk.contents(&path).unwrap();
    let db = open(&disk);
    let it = keyspace(&db, true);
    for i in 10..20 {
        it.delete(key(i)).unwrap();
        expected.remove(&key(i));
    }
    it.compact::<&[u8]>(..).unwrap();
    db.close().unwrap();
    drop(it);
    open(&disk).close().unwrap();
    disk.set_contents(&path, &merged).unwrap();
    let image = disk.kill();
    repair(&image);
    // Also by a repair that is stopped at any operation, and started again.
    for stopped in 0..=image.counters().mutations {
        let disk = disk.kill();
        disk.crash_after(stopped);
        let _stopped = hedgerow::repair_with(builder(&disk));
        let disk = disk.kill();
        assert_eq!(repair(&disk).lost, []);
        let keyspace = open(&disk).existing_keyspace("it").unwrap();
        assert!(contents(&keyspace) == expected, "stopped at {stopped}");
        assert_eq!(files(&disk, "lost"), [""; 0]);
    }
}

/// It looks whole, but does not name the newest tables, which have the only copy of their entries.
#[test]
fn a_repair_of_a_manifest_that_lost_its_last_edits_keeps_all_tables() {
    let disk = SimStorage::new(1);
    let db = builder(&disk).log_segment_bytes(4 << 10).open().unwrap();
    let it = keyspace(&db, true);
    let mut expected = Contents::new();
    let mut named = 0;
    for round in 0..6 {
        for i in 0..100 {
            it.put(key(i), value(i + round)).unwrap();
            expected.insert(key(i), value(i + round));
        }
        it.delete(key(round)).unwrap();
        expected.remove(&key(round));
        match round % 2 {
            0 => it.flush().unwrap(),
            _ => it.compact::<&[u8]>(..).unwrap(),
        }
        if round == 0 {
            named = disk.contents(MANIFEST).unwrap().len();
        }
    }
    db.close().unwrap();
    drop(it);
    let manifest = disk.contents(MANIFEST).unwrap();
    let mut repaired = 0;
    for (cut, _) in manifest_records(&manifest) {
        let image = disk.kill();
        image.set_contents(MANIFEST, &manifest[..cut]).unwrap();
        if cut < named || builder(&image).open().is_ok() {
            continue;
        }
        repair(&image);
        let keyspace = open(&image).existing_keyspace("it").unwrap();
        assert!(contents(&keyspace) == expected, "cut at {cut}");
        repaired += 1;
    }
    assert!(repaired > 2, "{repaired} of {named}");
}

/// A kill may leave tables that were merged. They replace what is damaged of the merged table.
#[test]
fn tables_that_were_merged_replace_a_damaged_one() {
    for cuts in [false, true] {
        let (disk, expected) = subject(true);
        let path = first_table(&disk, "tables");
        let before = disk.contents(&path).unwrap();
        let db = open(&disk);
        let it = keyspace(&db, true);
        it.put(key(KEYS), value(0)).unwrap();
        it.compact::<&[u8]>(..).unwrap();
        db.close().unwrap();
        drop(it);
        let merged = first_table(&disk, "tables");
        assert_ne!(merged, path);
        match cuts {
            false => disk.flip_bit(&merged, 80).unwrap(),
            true => disk.set_contents(&merged, &[]).unwrap(),
        }
        disk.set_contents(&path, &before).unwrap();
        repair(&disk);
        let mut found = contents(&open(&disk).existing_keyspace("it").unwrap());
        found.remove(&key(KEYS));
        assert!(found == expected, "cut: {cuts}");
    }
}

#[test]
fn tables_of_dropped_and_cleared_keyspaces_are_removed() {
    for damages in [false, true] {
        for drops in [false, true] {
            let (disk, _) = subject(true);
            let path = first_table(&disk, "tables");
            let mut bytes = disk.contents(&path).unwrap();
            if damages {
                bytes[10] ^= 1;
            }
            let db = open(&disk);
            match drops {
                true => db.drop_keyspace("it").unwrap(),
                false => keyspace(&db, true).clear().unwrap(),
            }
            db.close().unwrap();
            let names = open(&disk).keyspaces();
            disk.set_contents(&path, &bytes).unwrap();
            let report = repair(&disk);
            assert_eq!((&report.lost[..], &report.missing[..]), (&[][..], &[][..]));
            let db = open(&disk);
            assert_eq!(db.keyspaces(), names);
            for name in &names {
                assert!(contents(&db.existing_keyspace(name).unwrap()).is_empty());
            }
            assert_eq!(files(&disk, "lost"), [""; 0]);
            assert_eq!(files(&disk, "tables"), [""; 0]);
        }
    }
}

/// The repaired manifest does not know the keyspace, since nothing of its table was readable. Then
/// its number looks like that of a keyspace that was dropped.
#[test]
fn a_keyspace_that_was_lost_can_be_put_back() {
    let (disk, expected) = subject(true);
    let path = first_table(&disk, "tables");
    let whole = disk.contents(&path).unwrap();
    let db = open(&disk);
    let other = db.keyspace("other", Layout::sorted()).unwrap();
    other.put(key(1), value(1)).unwrap();
    other.flush().unwrap();
    db.close().unwrap();
    drop(other);
    open(&disk).close().unwrap();
    disk.set_contents(&path, b"nothing").unwrap();
    remove_manifest(&disk);
    let report = repair(&disk);
    assert_eq!(report.lost.len(), 1);
    assert_eq!(open(&disk).keyspaces(), ["keyspace-1"]);
    let kept = report.lost[0].0.to_str().unwrap();
    // Once it is damaged, too. Then both are kept.
    for (copy, also) in [(&b"another"[..], ".1"), (&whole[..], "")] {
        disk.set_contents(kept.strip_suffix(".damaged").unwrap(), copy)
            .unwrap();
        let report = repair(&disk);
        assert_eq!(disk.contents(kept).unwrap(), b"nothing");
        if also == ".1" {
            let also = format!("{kept}{also}");
            assert_eq!(disk.contents(&also).unwrap(), b"another");
            assert_eq!(report.lost[0].0, Path::new(&also));
            // The next tables have other numbers.
            disk.remove(Path::new(kept)).unwrap();
            repair(&disk);
            let name = path.file_name().unwrap().to_str().unwrap();
            assert!(!files(&disk, "tables").contains(&name.to_owned()));
            disk.set_contents(kept, b"nothing").unwrap();
        }
    }
    let keyspace = open(&disk).existing_keyspace("keyspace-0").unwrap();
    assert_eq!(contents(&keyspace), expected);
}

/// Nothing opens a part of it, and nothing but its lock is left that cannot be destroyed again.
#[test]
fn a_database_under_repair_is_destroyed_as_often_as_that_is_cut_short() {
    let (disk, _) = subject(true);
    let image = disk.kill();
    repair(&image);
    for stopped in 0..image.counters().mutations {
        let disk = disk.kill();
        disk.crash_after(stopped);
        let _stopped = hedgerow::repair_with(builder(&disk));
        let disk = disk.kill();
        if !files(&disk, "lost").contains(&"MANIFEST.before".to_owned()) {
            continue;
        }
        let image = disk.kill();
        builder(&image).destroy().unwrap();
        assert_eq!(image.paths(), [] as [PathBuf; 0]);
        for after in 0..image.counters().mutations {
            let disk = disk.kill();
            disk.crash_after(after);
            let _killed = builder(&disk).destroy();
            let disk = disk.kill();
            assert!(builder(&disk).create_if_missing(false).open().is_err());
            let _nothing_left = builder(&disk).destroy();
            let is_lock = |path: &PathBuf| path.ends_with("LOCK");
            assert!(disk.paths().iter().all(is_lock), "{stopped} {after}");
        }
    }
}
