//! A repair keeps deletes that only the log has, and all that the manifest says of a keyspace.

use std::path::Path;
use std::time::Duration;

use hedgerow::inspect::Change;
use hedgerow::io::sim::SimStorage;
use hedgerow::{Design, Layout, inspect};

use crate::repair::{KEYS, repair};
use crate::support::{DIR, builder, contents, key, open, small, value};

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
