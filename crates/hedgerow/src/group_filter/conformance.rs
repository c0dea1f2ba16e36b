//! The rules for every kind of filter over runs, in an open database: each table comes into the
//! tree with its filter, and no filter hides a key. Files of filters are caches.

use std::path::Path;
use std::sync::Arc;

use super::{GroupFilters, Version};
use crate::base::options::{Design, Layout};
use crate::design::merge_policy::shape::Group;
use crate::table::Table;
use crate::{Db, Keyspace};

const KEYS: u32 = 6000;

fn design(filter: &str) -> Design {
    Design {
        policy: "trie:4".parse().unwrap(),
        filter: filter.parse().unwrap(),
        memtable_bytes: Some(16 << 10),
        table_bytes: Some(16 << 10),
        ..Design::default()
    }
}

fn open(dir: &Path, filter: &str) -> (Db, Keyspace) {
    let db = Db::builder(dir).memory_budget(8 << 20).open().unwrap();
    let keys = db.keyspace_with("keys", Layout::hashed(), design(filter));
    let keys = keys.unwrap();
    (db, keys)
}

fn version(db: &Db) -> Arc<Version> {
    let catalog = db.engine().catalog.load();
    let partition = catalog.partitions.values().next().unwrap();
    partition.tree().version.clone()
}

/// The groups with several runs.
fn groups(version: &Version) -> impl Iterator<Item = &Group<Arc<Table>>> {
    let used = version.levels.iter().flat_map(|level| level.used_groups());
    used.map(|(_, group)| group)
        .filter(|group| group.runs.len() > 1)
}

fn are_covered(version: &Version) -> bool {
    let covers = |filters: &GroupFilters, group: &Group<_>| {
        group.runs.iter().all(|run| filters.cover(run.id))
    };
    groups(version).all(|group| covers(&group.filters, group))
}

fn fill(keys: &Keyspace, from: u32) {
    for i in from..from + KEYS {
        keys.put(i.to_be_bytes(), [7; 40]).unwrap();
    }
}

fn check(keys: &Keyspace, end: u32) {
    for i in 0..end {
        assert!(keys.get(i.to_be_bytes()).unwrap().is_some(), "{i}");
    }
}

/// Runs the suite for one filter.
fn conforms(filter: &str) {
    let dir = tempfile::tempdir().unwrap();
    let (db, keys) = open(dir.path(), filter);
    for part in 0..3 {
        fill(&keys, part * KEYS);
        // No read looks at a table without a filter, whatever merges do meanwhile.
        let version = version(&db);
        let uncovered = groups(&version).flat_map(|group| {
            let uncovered = group.runs.iter().filter(|run| !group.filters.cover(run.id));
            uncovered.map(|run| run.tables.len())
        });
        assert_eq!(uncovered.sum::<usize>(), 0, "{filter}");
    }
    db.flush().unwrap();
    keys.wait_until_merged().unwrap();
    check(&keys, 3 * KEYS);
    assert!(groups(&version(&db)).count() > 1, "{filter}: several runs");
    assert!(are_covered(&version(&db)), "{filter}");
    let has_files = super::files(&version(&db)).next().is_some();
    let copy = dir.path().join("copy");
    db.checkpoint(&copy).unwrap();
    db.close().unwrap();
    let written = std::fs::read_dir(dir.path().join("filters")).unwrap();
    assert!(written.count() > 0, "{filter}: files after closing");

    // The files serve the next opening, and a checkpoint has them.
    for dir in [dir.path(), copy.as_path()] {
        let db = Db::builder(dir).read_only(true).open().unwrap();
        let keys = db.existing_keyspace("keys").unwrap();
        if has_files {
            assert!(are_covered(&version(&db)), "{filter}");
            // Not the count from before closing: filters were gathered into fewer files meanwhile.
            let files = super::files(&version(&db)).count() as u64;
            assert!(files > 0, "{filter}");
            assert_eq!(db.verify().unwrap().filters, files, "{filter}");
        }
        check(&keys, 3 * KEYS);
    }

    // Without the files, the filters are built of the tables.
    std::fs::remove_dir_all(dir.path().join("filters")).unwrap();
    let (db, keys) = open(dir.path(), filter);
    check(&keys, 3 * KEYS);
    keys.wait_until_merged().unwrap();
    assert!(are_covered(&version(&db)), "{filter}");
    check(&keys, 3 * KEYS);
    fill(&keys, 3 * KEYS);
    check(&keys, 4 * KEYS);
    db.verify().unwrap();
}

#[test]
fn multi_level_cuckoo_filters_conform() {
    conforms("mlcf:12");
    conforms("mlcf:12,unique");
}

#[test]
fn clusters_conform() {
    conforms("cluster:16");
}
