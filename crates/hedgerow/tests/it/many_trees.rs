//! Databases of very many trees: what creating, holding and refusing them costs.

use std::time::Duration;

use hedgerow::io::sim::SimStorage;
use hedgerow::io::{Clock, OsClock};
use hedgerow::{Db, Design, ErrorKind, Layout};

use crate::support::builder;

fn names(count: usize) -> Vec<String> {
    (0..count).map(|i| format!("k{i:05}")).collect()
}

fn create(db: &Db, names: &[String]) {
    let wanted = names.iter().map(|name| (name, Layout::sorted()));
    let created = db.create_keyspaces(wanted).unwrap();
    let created: Vec<_> = created.iter().map(|it| it.name().to_owned()).collect();
    assert_eq!(created, names);
}

#[test]
fn keyspaces_that_are_created_together_take_one_sync_and_survive_a_crash() {
    let disk = SimStorage::new(1);
    let big = || builder(&disk).memory_budget(64 << 20);
    let db = big().open().unwrap();
    let names = names(1000);
    let before = disk.counters();
    create(&db, &names);
    let after = disk.counters();
    assert_eq!(after.syncs - before.syncs, 1);
    // All are there: nothing is written.
    create(&db, &names);
    assert_eq!(disk.counters(), after);
    let disk = disk.crash();
    let db = builder(&disk).memory_budget(64 << 20).open().unwrap();
    assert_eq!(db.keyspaces(), names);
    // Alone each takes one sync, too.
    for name in ["one", "two"] {
        let before = disk.counters().syncs;
        db.keyspace(name, Layout::sorted()).unwrap();
        assert_eq!(disk.counters().syncs - before, 1);
    }
}

#[test]
fn of_keyspaces_that_are_created_together_one_mistake_leaves_none() {
    let disk = SimStorage::new(1);
    let db = builder(&disk).open().unwrap();
    db.keyspace("there", Layout::hashed()).unwrap();
    let unfit = Design {
        block_bytes: 7,
        ..Design::default()
    };
    let default = Design::default();
    for wrong in [
        ("there", Layout::sorted(), default.clone()),
        ("", Layout::sorted(), default.clone()),
        ("new", Layout::sorted().hash(2), default.clone()),
        ("other", Layout::sorted().hash(0), default.clone()),
        ("other", Layout::sorted(), unfit),
    ] {
        let wanted = [("new", Layout::sorted(), default.clone()), wrong];
        let error = db.create_keyspaces_with(wanted).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        assert_eq!(db.keyspaces(), ["there"]);
    }
    let twice = [("new", Layout::sorted()), ("new", Layout::sorted())];
    let both = db.create_keyspaces(twice).unwrap();
    both[0].put("a", "1").unwrap();
    assert_eq!(both[1].get("a").unwrap().as_deref(), Some(&b"1"[..]));
}

/// A database whose trees have one entry each, which only the log has.
fn unflushed(seed: u64, names: &[String]) -> SimStorage {
    let disk = SimStorage::new(seed);
    let db = builder(&disk).memory_budget(64 << 20).open().unwrap();
    create(&db, names);
    for name in names {
        let keyspace = db.existing_keyspace(name).unwrap();
        keyspace.put(name, "a value").unwrap();
    }
    db.sync().unwrap();
    disk.crash()
}

#[test]
fn recovery_of_few_entries_of_many_trees_writes_no_tables() {
    let names = names(1000);
    let disk = unflushed(1, &names);
    let before = disk.counters().syncs;
    let db = builder(&disk).memory_budget(64 << 20).open().unwrap();
    let syncs = disk.counters().syncs - before;
    assert!(syncs < 20, "{syncs}");
    assert_eq!(db.verify().unwrap().tables, 0);
    let memory = db.stats().memory;
    assert!(memory.total() <= 64 << 20, "{memory:?}");
}

#[test]
fn recovery_of_many_entries_syncs_each_table_once_and_their_directory_once() {
    let names = names(10);
    let disk = SimStorage::new(1);
    let open = |disk: &SimStorage| builder(disk).memory_budget(4 << 20).open().unwrap();
    let db = open(&disk);
    create(&db, &names);
    for (i, name) in names.iter().enumerate() {
        // More than a 16th of what active memtables may have.
        let keyspace = db.existing_keyspace(name).unwrap();
        keyspace.put(name, [i as u8; 30_000]).unwrap();
    }
    db.sync().unwrap();
    assert_eq!(db.stats().flushes, 0);
    drop(db);
    let disk = disk.crash();
    let before = disk.counters().syncs;
    let db = open(&disk);
    let syncs = disk.counters().syncs - before;
    assert!((10..30).contains(&syncs), "{syncs}");
    assert_eq!(db.verify().unwrap().tables, 10);
}

#[test]
fn a_crash_of_a_recovery_of_many_trees_loses_nothing() {
    let names = names(100);
    let open = |disk: &SimStorage| builder(disk).memory_budget(64 << 20).open();
    let whole = unflushed(0, &names);
    let before = whole.counters().mutations;
    drop(open(&whole).unwrap());
    let operations = whole.counters().mutations - before;
    let mut opened = 0;
    for seed in 0..60 {
        let disk = unflushed(seed, &names);
        // The last ones are when the database is open.
        disk.crash_after(operations * seed / 59);
        let first = open(&disk);
        opened += usize::from(first.is_ok());
        let db = open(&disk.crash()).unwrap();
        for name in &names {
            let keyspace = db.existing_keyspace(name).unwrap();
            let found = keyspace.get(name).unwrap();
            assert_eq!(found.as_deref(), Some(&b"a value"[..]), "seed {seed}");
        }
        drop(first);
    }
    assert!((1..60).contains(&opened), "{opened}");
}

/// `cargo test --release -p hedgerow --test it opening_ten_thousand -- --ignored --nocapture`
#[test]
#[ignore = "a measurement"]
fn opening_ten_thousand_trees() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let names = names(10_000);
    let clock = OsClock::new();
    let open = || {
        let began = clock.now();
        let db = Db::builder(dir.path()).memory_budget(64 << 20);
        (db.open().unwrap(), clock.now() - began)
    };
    let (db, _) = open();
    create(&db, &names);
    for name in &names {
        let keyspace = db.existing_keyspace(name).unwrap();
        keyspace.put(name, "a value").unwrap();
    }
    db.close().unwrap();
    for state in ["each with an entry that only the log has", "at rest"] {
        // The system writes to the disk what closing left.
        clock.sleep(Duration::from_secs(8));
        let (db, took) = open();
        println!("10,000 trees, {state}: opened in {took:?}");
        db.flush().unwrap();
        db.close().unwrap();
    }
}

#[test]
fn ten_thousand_trees_keep_a_budget_of_64_mib() {
    const BUDGET: u64 = 64 << 20;
    let disk = SimStorage::new(1);
    let open = |disk: &SimStorage| {
        builder(disk)
            .memory_budget(BUDGET)
            .log_segment_bytes(1 << 20)
            .open()
            .unwrap()
    };
    let names = names(10_000);
    create(&open(&disk), &names);
    let db = open(&disk);
    let memory = db.stats().memory;
    assert_eq!(
        memory.memtables, 0,
        "an empty tree holds no memory of memtables"
    );
    assert!(memory.total() <= BUDGET, "{memory:?}");
    for name in &names {
        let keyspace = db.existing_keyspace(name).unwrap();
        keyspace.put(name, [7; 110]).unwrap();
    }
    let memory = db.stats().memory;
    assert!(memory.total() <= BUDGET, "{memory:?}");
    db.sync().unwrap();
    drop(db);
    let disk = disk.crash();
    let before = disk.counters().syncs;
    let db = open(&disk);
    let syncs = disk.counters().syncs - before;
    assert!(syncs < 20, "{syncs}");
    let memory = db.stats().memory;
    assert!(memory.total() <= BUDGET, "{memory:?}");
    for name in &names {
        let keyspace = db.existing_keyspace(name).unwrap();
        assert!(keyspace.get(name).unwrap().is_some());
    }
}

#[test]
fn more_trees_than_a_budget_has_room_for_are_refused_with_the_bound() {
    let disk = SimStorage::new(1);
    let db = builder(&disk).open().unwrap();
    let few = names(100);
    create(&db, &few);
    let many = names(1000);
    let wanted = many.iter().map(|name| (name, Layout::sorted()));
    let error = db.create_keyspaces(wanted).unwrap_err();
    let check = |error: hedgerow::Error, found: u64| {
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        let text = error.to_string();
        for part in [
            "`memory_budget`",
            "6707200",
            "1000 trees",
            &found.to_string(),
        ] {
            assert!(text.contains(part), "{text}");
        }
    };
    check(error, 1 << 20);
    assert_eq!(db.keyspaces(), few);
    drop(db);

    let db = builder(&disk).memory_budget(6_707_200).open().unwrap();
    create(&db, &many);
    drop(db);
    let error = builder(&disk).memory_budget(6_707_199).open().unwrap_err();
    check(error, 6_707_199);
}
