//! Databases of very many trees: what creating, holding and refusing them costs.

use hedgerow::io::sim::SimStorage;
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

#[test]
fn ten_thousand_trees_keep_a_budget_of_64_mib() {
    const BUDGET: u64 = 64 << 20;
    let disk = SimStorage::new(1);
    let open = || {
        builder(&disk)
            .memory_budget(BUDGET)
            .log_segment_bytes(1 << 20)
            .open()
            .unwrap()
    };
    let names = names(10_000);
    create(&open(), &names);
    let db = open();
    let memory = db.stats().memory;
    assert_eq!(
        memory.memtables, 0,
        "an empty tree holds no memory of memtables"
    );
    assert!(memory.total() <= BUDGET, "{memory:?}");
    for name in &names {
        let keyspace = db.existing_keyspace(name).unwrap();
        keyspace.put(name, "a value").unwrap();
    }
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
