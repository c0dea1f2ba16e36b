//! Clustered Bloom filters (`cluster:BITS`): their reads, their writes and their files.

use hedgerow::io::Environment;
use hedgerow::io::sim::{Fault, OpClass, SimStorage};
use hedgerow::{Compression, Db, Design, Error, ErrorKind, Keyspace, Layout, Residency};

use crate::support::{
    Contents, DIR, builder, contents_unordered, files, hashed, key, kind, open, small, value,
};

fn clustered(policy: &str, residency: Residency) -> Design {
    Design {
        policy: policy.parse().unwrap(),
        filter: "cluster:16".parse().unwrap(),
        residency,
        ..small()
    }
}

/// All files are of clusters that are in use, and whole.
#[track_caller]
fn check_files(disk: &SimStorage, db: &Db) {
    let report = db.verify().unwrap();
    let names = files(disk, "filters");
    assert_eq!(report.filters as usize, names.len(), "{names:?}");
}

/// A filled and closed database, and its contents.
fn closed(seed: u64, residency: Residency) -> (SimStorage, Contents) {
    let disk = SimStorage::new(seed);
    let db = open(&disk);
    let keyspace = hashed(&db, clustered("trie:4", residency));
    for i in 0..4000 {
        keyspace.put(key(i * 7919 % 3000), value(i)).unwrap();
    }
    keyspace.flush().unwrap();
    keyspace.wait_until_merged().unwrap();
    let expected = contents_unordered(&keyspace);
    assert_eq!(expected.len(), 3000);
    db.close().unwrap();
    (disk, expected)
}

fn assert_holds(keyspace: &Keyspace, expected: &Contents) {
    for (key, value) in expected {
        assert_eq!(keyspace.get(key).unwrap().as_deref(), Some(&value[..]));
    }
    let keys: Vec<_> = expected.keys().collect();
    for (found, value) in keyspace
        .multi_get(&keys)
        .unwrap()
        .iter()
        .zip(expected.values())
    {
        assert_eq!(found.as_deref(), Some(&value[..]));
    }
}

/// The mean number of pages that a get needs, cached or not. The keys are all present or all
/// absent.
fn pages_per_get(keyspace: &Keyspace, keys: impl Iterator<Item = u64>, are_there: bool) -> f64 {
    let (mut pages, mut gets) = (0, 0);
    for i in keys {
        let explanation = keyspace.explain(key(i)).unwrap();
        assert_eq!(explanation.value.is_some(), are_there);
        pages += explanation.pages().count();
        gets += 1;
    }
    pages as f64 / f64::from(gets)
}

/// A trie whose tables are so small that few keys make it deep.
fn trie_of_small_tables() -> Design {
    Design {
        policy: "trie:8".parse().unwrap(),
        filter: "cluster:16".parse().unwrap(),
        compression: Compression::None,
        block_bytes: 16 << 10,
        table_bytes: Some(128 << 10),
        memtable_bytes: Some(128 << 10),
        ..Design::default()
    }
}

/// The targets of LSM-trie, and its I8, for filters of the last level that do not fit the memory.
/// One page tells which run of the level holds a key. One more page holds the key.
#[test]
fn a_get_asks_for_two_pages_and_one_for_an_absent_key() {
    let disk = SimStorage::new(7);
    let db = builder(&disk).memory_budget(2 << 20).open().unwrap();
    let keyspace = hashed(&db, trie_of_small_tables());
    let keys = 250_000;
    for i in 0..keys {
        keyspace.put(key(i), i.to_le_bytes()).unwrap();
    }
    keyspace.flush().unwrap();
    keyspace.wait_until_merged().unwrap();
    let stats = keyspace.stats();
    let last = stats.levels.last().unwrap();
    assert!(
        last.runs >= 10 && last.entries > keys * 2 / 3,
        "{:?}",
        stats.levels
    );
    let memory = db.stats().memory;
    assert!(memory.filters < 2 * keys * 7 / 10, "{memory:?}");

    let present = pages_per_get(&keyspace, (0..keys).step_by(7), true);
    let absent = pages_per_get(&keyspace, (keys..2 * keys).step_by(7), false);
    println!("{present} pages for a present key, {absent} for an absent one");
    assert!(present <= 2.05, "{present}");
    assert!((0.9..=1.06).contains(&absent), "{absent}");
}

/// If a tenth of the filters fits the memory, a get reads one page for all levels that are not in
/// memory, however full the levels are.
#[test]
fn one_page_tells_of_all_filters_that_are_not_in_memory() {
    let disk = SimStorage::new(17);
    let db = builder(&disk).memory_budget(1 << 20).open().unwrap();
    let keyspace = hashed(&db, trie_of_small_tables());
    for i in 0..1_300_000 {
        keyspace.put(key(i), b"").unwrap();
        if i < 700_000 || i % 100_000 != 99_999 {
            continue;
        }
        keyspace.flush().unwrap();
        keyspace.wait_until_merged().unwrap();
        let filters = db.stats().memory.filters;
        let of_all = filters as f64 / (2.2 * i as f64);
        let present = pages_per_get(&keyspace, (0..=i).step_by(397), true);
        let absent = pages_per_get(&keyspace, (i + 1..2 * i).step_by(397), false);
        let levels = keyspace.stats().levels;
        let entries: Vec<_> = levels.iter().map(|it| it.entries).collect();
        println!(
            "{entries:?}: {present:.3} pages for a present key, {absent:.3} for an absent one, \
             {of_all:.3} of the filters in memory"
        );
        assert!(of_all <= 0.1 && present <= 2.05 && absent <= 1.1);
    }
}

/// One call of the storage reads pages of clusters and of tables for all keys of a `multi_get`.
/// There are at most as many calls as the key with the longest path needs pages.
#[test]
fn a_multi_get_reads_clusters_and_tables_in_few_batches() {
    let disk = SimStorage::new(11);
    let db = builder(&disk).memory_budget(2 << 20).open().unwrap();
    let design = Design {
        compression: Compression::None,
        block_bytes: 4 << 10,
        table_bytes: Some(64 << 10),
        memtable_bytes: Some(64 << 10),
        ..clustered("trie:8", Residency::Paged)
    };
    let keyspace = hashed(&db, design);
    let keys = 100_000;
    for i in 0..keys {
        keyspace.put(key(i), value(i)).unwrap();
    }
    keyspace.flush().unwrap();
    keyspace.wait_until_merged().unwrap();
    // All tables that are asked are open then.
    let chosen: Vec<_> = (0..32).map(|i| key(i * 7919 % keys)).collect();
    let asked = chosen.iter().map(|key| keyspace.explain(key).unwrap());
    let longest = asked.map(|it| it.pages().count()).max().unwrap();
    // Others take their places in the cache.
    for i in 0..keys / 3 {
        keyspace.get(key(i * 3 + 1)).unwrap();
    }
    let before = disk.counters();
    let found = keyspace.multi_get(&chosen).unwrap();
    let after = disk.counters();
    for (i, found) in (0..32).zip(found) {
        assert_eq!(found.as_deref(), Some(&value(i * 7919 % keys)[..]));
    }
    let reads = after.reads - before.reads;
    let batches = (after.read_batches - before.read_batches) as usize;
    println!("{reads} reads of 32 keys in {batches} batches, {longest} pages at most");
    assert_eq!(after.reads_in_batches - before.reads_in_batches, reads);
    assert!(longest >= 2 && batches <= longest);
    assert!(reads >= 32, "as many pages are not in memory");
}

/// The bytes of clusters written per byte of the user, at several heights of the last level's
/// stacks of runs: less than 0.2 for each level that an entry reaches.
#[test]
fn clusters_write_a_fifth_of_what_their_user_writes_at_most() {
    let disk = SimStorage::new(8);
    let db = builder(&disk).memory_budget(64 << 20).open().unwrap();
    let keyspace = hashed(
        &db,
        Design {
            policy: "trie:8".parse().unwrap(),
            filter: "cluster:16".parse().unwrap(),
            residency: Residency::Paged,
            table_bytes: Some(1 << 20),
            memtable_bytes: Some(1 << 20),
            compression: Compression::None,
            ..Design::default()
        },
    );
    let mut highest = 0;
    for i in 0..900_000_u64 {
        keyspace.put(key(i), [i as u8; 100]).unwrap();
        if i % 100_000 == 99_999 {
            keyspace.wait_until_merged().unwrap();
            let stats = db.stats();
            let entries = stats.flush_entries + stats.merge_entries;
            let per_entry = stats.filter_write_bytes as f64 / entries as f64;
            let user = (key(i).len() + 100) as f64;
            let runs = keyspace.stats().levels.last().unwrap().runs;
            highest = highest.max(runs);
            println!("{i} entries, {runs} runs: {:.3}", per_entry / user);
            assert!(
                per_entry / user < 0.2,
                "{per_entry} bytes per entry and level, {runs} runs"
            );
        }
    }
    assert!(highest >= 8, "{highest}");
}

/// A run has a filter from the moment at which it exists, while everything is written.
#[test]
fn no_run_is_ever_asked_without_a_filter() {
    let disk = SimStorage::new(9);
    let db = open(&disk);
    let keyspace = hashed(&db, clustered("trie:4", Residency::Resident));
    let (mut asked, mut gets) = (0, 0);
    for i in 0..30_000 {
        keyspace.put(key(i), value(i)).unwrap();
        if i % 11 == 0 {
            let explanation = keyspace.explain(key(1_000_000 + i)).unwrap();
            assert_eq!(explanation.value, None);
            asked += explanation.tables().count();
            gets += 1;
        }
    }
    // Beside false positives: the first and the last key of each of some 30 small tables.
    assert!(
        asked * 10 < gets,
        "{asked} tables asked by {gets} gets of absent keys"
    );
}

/// The filters of a node are one structure in memory. So an absent key costs one probe for each
/// level, not one for each run. Above eight runs, the newest may have a second structure.
#[test]
fn a_get_asks_one_resident_filter_for_each_level() {
    const GETS: u64 = 1000;
    for (policy, keys) in [("trie:8", 350_000), ("tiering:8", 150_000)] {
        let db = builder(&SimStorage::new(18)).memory_budget(64 << 20);
        let db = db.open().unwrap();
        // A table has enough entries that all runs of a node have nearly the same number.
        let design = Design {
            table_bytes: Some(32 << 10),
            memtable_bytes: Some(32 << 10),
            ..clustered(policy, Residency::Resident)
        };
        let keyspace = hashed(&db, design);
        let mut most = 0;
        for i in 0..keys {
            keyspace.put(key(i), i.to_le_bytes()).unwrap();
            if i % 10_000 != 9999 {
                continue;
            }
            keyspace.wait_until_merged().unwrap();
            let levels = keyspace.stats().levels;
            let runs: Vec<_> = levels.iter().map(|level| level.runs).collect();
            let nodes = runs.iter().filter(|runs| **runs > 0).count();
            let tall = runs.iter().filter(|runs| **runs > 8).count();
            let before = db.stats().filter_probes;
            for absent in keys..keys + GETS {
                assert_eq!(keyspace.get(key(absent)).unwrap(), None);
            }
            let probes = db.stats().filter_probes - before;
            let each = probes as f64 / GETS as f64;
            println!("{policy}, {runs:?} runs: {each:.3} filters asked for an absent key");
            assert!(
                each <= (nodes + tall) as f64,
                "{runs:?} runs, {each} probes"
            );
            if tall == 0 {
                most = most.max(runs.iter().sum());
            }
        }
        assert!(most >= 12, "{most} runs");
    }
}

#[test]
fn clusters_are_there_when_a_database_is_opened() {
    for residency in [Residency::Auto, Residency::Paged, Residency::Resident] {
        let (disk, expected) = closed(10, residency);
        assert!(!files(&disk, "filters").is_empty());
        let reader = Db::builder(DIR)
            .environment(Environment::simulated(&disk, 3))
            .read_only(true)
            .open()
            .unwrap();
        let keyspace = reader.existing_keyspace("hashed").unwrap();
        assert_holds(&keyspace, &expected);
        check_files(&disk, &reader);
        drop((keyspace, reader));

        let db = open(&disk);
        let keyspace = db.existing_keyspace("hashed").unwrap();
        assert_holds(&keyspace, &expected);
        keyspace.wait_until_merged().unwrap();
        assert_eq!(db.stats().filter_write_bytes, 0, "{residency:?}");
        check_files(&disk, &db);
        let asked = keyspace.explain(key(5)).unwrap().group_filters;
        assert!(!asked.is_empty());
        let paged = asked.iter().filter(|it| it.page.is_some()).count();
        assert_eq!(paged > 0, residency == Residency::Paged, "{asked:?}");
    }
}

/// A file is a cache. The engine rebuilds a lost or damaged one from the tables. Until then gets
/// probe the tables.
#[test]
fn lost_and_damaged_clusters_are_made_again() {
    for residency in [Residency::Paged, Residency::Resident] {
        let (whole, expected) = closed(11, residency);
        let names = files(&whole, "filters");
        let path = |name: &str| format!("{DIR}/filters/{name}");
        for (at, name) in names.iter().enumerate() {
            let bytes = whole.contents(path(name)).unwrap();
            let size = bytes.len() as u64;
            let disk = whole.kill();
            match at % 5 {
                0 => disk.set_contents(path(name), b"").unwrap(),
                1 => disk
                    .set_contents(path(name), &bytes[..bytes.len() - 1])
                    .unwrap(),
                2 => disk.flip_bit(path(name), 8 * size - 20).unwrap(),
                3 => disk.flip_bit(path(name), 8 * size - 500).unwrap(),
                _ => disk.flip_bit(path(name), 100).unwrap(),
            }
            let db = open(&disk);
            let keyspace = db.existing_keyspace("hashed").unwrap();
            assert_holds(&keyspace, &expected);
            keyspace.wait_until_merged().unwrap();
            assert!(db.stats().filter_write_bytes > 0, "{name}");
            assert_holds(&keyspace, &expected);
            check_files(&disk, &db);
        }
    }
}

#[test]
fn verify_names_a_damaged_cluster() {
    let (disk, _) = closed(12, Residency::Paged);
    let db = open(&disk);
    let name = &files(&disk, "filters")[0];
    let path = format!("{DIR}/filters/{name}");
    disk.flip_bit(path, 5000).unwrap();
    let error = db.verify().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert!(error.to_string().contains(name), "{error}");
}

/// Checkpoints have the files; a repair, which numbers tables anew, makes them again.
#[test]
fn checkpoints_and_repairs_have_clusters() {
    let (disk, expected) = closed(13, Residency::Paged);
    let db = open(&disk);
    db.checkpoint("copy").unwrap();
    drop(db);
    let environment = Environment::simulated(&disk, 3);
    let copy = Db::builder("copy")
        .environment(environment.clone())
        .open()
        .unwrap();
    let keyspace = copy.existing_keyspace("hashed").unwrap();
    keyspace.wait_until_merged().unwrap();
    assert_eq!(copy.stats().filter_write_bytes, 0);
    assert_holds(&keyspace, &expected);
    copy.verify().unwrap();
    drop((keyspace, copy));

    hedgerow::repair_with(builder(&disk)).unwrap();
    let db = open(&disk);
    let keyspace = db.existing_keyspace("hashed").unwrap();
    keyspace.wait_until_merged().unwrap();
    assert_holds(&keyspace, &expected);
    check_files(&disk, &db);
}

/// Changes other filters and policies to clusters and back, during writes and reopening.
#[test]
fn filters_become_clusters_and_clusters_filters() {
    let disk = SimStorage::new(14);
    let mut model = Contents::new();
    let designs = [
        ("trie:4", "bloom:10"),
        ("trie:4", "cluster:16"),
        ("trie:8", "cluster:10"),
        ("tiering:3", "cluster:12"),
        ("leveling:3", "cluster:16"),
        ("trie:5", "cluster:16"),
        ("trie:5", "mlcf:12"),
        (
            "0=runs:4/cluster:9;1-2=tiering:4/mlcf:12;3=tiering:4/cluster:20",
            "none",
        ),
        ("trie:4", "none"),
    ];
    for (round, (policy, filter)) in designs.into_iter().enumerate() {
        let db = open(&disk);
        let keyspace = hashed(&db, small());
        let residency = [Residency::Paged, Residency::Auto][round % 2];
        let design = Design {
            policy: policy.parse().unwrap(),
            filter: filter.parse().unwrap(),
            residency,
            ..small()
        };
        keyspace.retune(design).unwrap();
        let snapshot = db.snapshot().unwrap();
        let before = model.clone();
        for i in 0..4000 {
            let (at, to) = ((i * 7) % 6000, value(i + round as u64));
            keyspace.put(key(at), &to).unwrap();
            model.insert(key(at), to);
        }
        keyspace.wait_until_merged().unwrap();
        assert_eq!(contents_unordered(&keyspace), model, "{policy} {filter}");
        assert_holds(&keyspace, &model);
        for (key, value) in &before {
            let found = snapshot.get(&keyspace, key).unwrap();
            assert_eq!(found.as_deref(), Some(&value[..]), "{policy} {filter}");
        }
        db.verify().unwrap();
    }
}

#[test]
fn only_hashed_keys_have_clusters() {
    let disk = SimStorage::new(15);
    let db = open(&disk);
    let design = Design {
        policy: "tiering:4".parse().unwrap(),
        ..clustered("tiering:4", Residency::Auto)
    };
    let error = kind(db.keyspace_with("sorted", Layout::sorted(), design));
    assert_eq!(error, ErrorKind::InvalidArgument);
}

/// A load that goes past the memtables has clusters as soon as it is there.
#[test]
fn a_bulk_load_has_clusters() {
    let disk = SimStorage::new(16);
    let db = open(&disk);
    let keyspace = hashed(&db, clustered("trie:4", Residency::Resident));
    let items = (0..5000).map(|i| Ok::<_, Error>((key(i), value(i))));
    keyspace.bulk_load(items).unwrap();
    let asked = |i| keyspace.explain(key(i)).unwrap().tables().count();
    let asked: usize = (10_000..10_500).map(asked).sum();
    assert!(asked < 100, "{asked}");
    assert_eq!(
        keyspace.get(key(77)).unwrap().as_deref(),
        Some(&value(77)[..])
    );
    db.verify().unwrap();
}

#[test]
fn any_failing_operation_on_clusters_loses_nothing() {
    for class in [OpClass::Any, OpClass::Create, OpClass::Write, OpClass::Sync] {
        for fault in [Fault::Io, Fault::StorageFull, Fault::Short] {
            for nth in 0..16 {
                let disk = SimStorage::new(nth);
                let db = open(&disk);
                let residency = [Residency::Paged, Residency::Auto][(nth % 2) as usize];
                let keyspace = hashed(&db, clustered("trie:4", residency));
                disk.fail_path_after(class, "filters", nth / 2 * 5, fault);
                for i in 0..1000 {
                    keyspace.put(key(i * 7919 % 700), value(i)).unwrap();
                }
                // This call may report the fault. The engine tries again.
                let _ = keyspace.wait_until_merged();
                disk.clear_faults();
                keyspace.wait_until_merged().unwrap();
                let expected = contents_unordered(&keyspace);
                assert_eq!(expected.len(), 700, "{class:?} {nth}, {fault:?}");
                assert_holds(&keyspace, &expected);
                db.verify().unwrap();
                db.sync().unwrap();
                let disk = disk.crash();
                drop((keyspace, db));
                let db = open(&disk);
                let keyspace = db.existing_keyspace("hashed").unwrap();
                keyspace.wait_until_merged().unwrap();
                assert_holds(&keyspace, &expected);
                check_files(&disk, &db);
                db.close().unwrap();
            }
        }
    }
}

/// A cluster is whole or is made again, wherever the process or the power goes while it is written.
#[test]
fn power_or_the_process_may_go_while_clusters_are_written() {
    let (whole, expected) = closed(18, Residency::Paged);
    let write = |disk: &SimStorage| {
        let db = builder(disk).open()?;
        let keyspace = db.existing_keyspace("hashed").expect("it was closed");
        for (key, value) in expected.iter().take(200) {
            keyspace.put(key, value)?;
        }
        keyspace.flush()?;
        keyspace.wait_until_merged()?;
        db.close()
    };
    let disk = whole.kill();
    let (before, names) = (disk.operations(), files(&disk, "filters"));
    write(&disk).unwrap();
    assert_ne!(files(&disk, "filters"), names);
    let operations = disk.operations() - before;
    for nth in (0..operations).step_by(operations as usize / 16) {
        let disk = whole.kill();
        disk.crash_after(nth);
        let _ = write(&disk);
        for disk in [disk.crash(), disk.kill()] {
            let db = open(&disk);
            let keyspace = db.existing_keyspace("hashed").unwrap();
            keyspace.wait_until_merged().unwrap();
            assert_holds(&keyspace, &expected);
            check_files(&disk, &db);
        }
    }
}
