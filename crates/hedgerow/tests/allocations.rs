//! A get allocates nothing but the value that it gives back, and an order key of hashes. The test
//! binary is separate because its allocator counts.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use hedgerow::io::Environment;
use hedgerow::io::sim::SimStorage;
use hedgerow::{Db, Design, KeyOrder, Keyspace, Layout, PrefixRule, Residency};

const ENTRIES: u64 = 3000;

/// Values of several lengths: what is inline in a slice, and what is not.
const INLINE: [usize; 3] = [0, 8, 30];
const ON_THE_HEAP: [usize; 3] = [31, 100, 1000];

fn key(i: u64, value_bytes: usize) -> Vec<u8> {
    format!("key-{:06}-{value_bytes}", i * 7919 % ENTRIES).into_bytes()
}

/// Reads everything once, so that it is cached, and counts the allocations of one more get of each.
fn allocations_per_get(keyspace: &Keyspace, value_bytes: usize) -> f64 {
    let keys: Vec<_> = (0..ENTRIES).map(|i| key(i, value_bytes)).collect();
    let check = |key: &Vec<u8>| {
        let value = keyspace.get(key).unwrap().unwrap();
        assert_eq!(value.len(), value_bytes);
    };
    keys.iter().for_each(check);
    let counted = allocation_counter::measure(|| keys.iter().for_each(check));
    assert_eq!(
        counted.count_current, 0,
        "what a get allocates is its value"
    );
    counted.count_total as f64 / ENTRIES as f64
}

fn check(layout: Layout, flushed: bool) {
    // An order key that is not the user key is put together in a buffer.
    let order_key = u64::from(layout.order != KeyOrder::Sorted);
    let disk = SimStorage::new(1);
    let db = Db::builder("/db")
        .environment(Environment::simulated(&disk, 7))
        .memory_budget(64 << 20)
        .open()
        .unwrap();
    let design = Design {
        residency: Residency::Resident,
        memtable_bytes: flushed.then_some(1 << 20),
        ..Design::default()
    };
    let keyspace = db.keyspace_with("k", layout, design).unwrap();
    for value_bytes in INLINE.into_iter().chain(ON_THE_HEAP) {
        for i in 0..ENTRIES {
            keyspace
                .put(key(i, value_bytes), vec![7; value_bytes])
                .unwrap();
        }
    }
    if flushed {
        // Gets pay for the merge of level 0, which allocates.
        keyspace.compact::<&[u8]>(..).unwrap();
    }
    let stats = db.stats();
    assert_eq!(stats.keyspaces[0].table_bytes() > 0, flushed);
    for value_bytes in INLINE {
        assert_eq!(
            allocations_per_get(&keyspace, value_bytes),
            order_key as f64,
            "{value_bytes}"
        );
        let keys = [key(1, value_bytes), b"key-9".to_vec(), b"absent".to_vec()];
        let asked = || {
            keys.iter()
                .for_each(|key| _ = keyspace.contains_key(key).unwrap())
        };
        asked();
        let asked = allocation_counter::measure(asked).count_total;
        assert_eq!(asked, keys.len() as u64 * order_key);
    }
    for value_bytes in ON_THE_HEAP {
        assert_eq!(
            allocations_per_get(&keyspace, value_bytes),
            1.0 + order_key as f64,
            "{value_bytes}"
        );
    }
    for value_bytes in INLINE.into_iter().chain(ON_THE_HEAP) {
        let (key, mut seen_bytes) = (key(1, value_bytes), 0);
        let visit = || {
            let see = |value: &[u8]| seen_bytes = value.len();
            assert!(keyspace.visit_value(&key, see).unwrap());
        };
        let counted = allocation_counter::measure(visit).count_total;
        assert_eq!((counted, seen_bytes), (order_key, value_bytes));
    }
    assert_eq!(db.stats().memtable_hits > 0, !flushed);
    assert_eq!(db.stats().device_reads > 0, flushed);
}

#[test]
fn a_get_from_cached_blocks_allocates_its_value_only() {
    check(Layout::sorted(), true);
    check(Layout::sorted().hash(4), true);
    check(Layout::semi_sorted(PrefixRule::Bytes(4)), true);
}

#[test]
fn a_get_from_a_memtable_allocates_its_value_only() {
    check(Layout::sorted(), false);
    check(Layout::sorted().hash(4), false);
    check(Layout::hashed(), false);
}

const BUDGET: u64 = 64 << 20;

fn open_trees(disk: &SimStorage) -> Db {
    let db = Db::builder("/db").environment(Environment::simulated(disk, 7));
    db.memory_budget(BUDGET).open().unwrap()
}

fn create_trees(db: &Db, trees: u64) -> Vec<Keyspace> {
    let names = (0..trees).map(|i| format!("keyspace-{i}"));
    let wanted = names.map(|name| (name, Layout::sorted()));
    db.create_keyspaces(wanted).unwrap()
}

/// The budget counts the memory that an open tree takes.
#[test]
fn an_empty_tree_takes_the_memory_that_it_is_counted_with() {
    const TREES: u64 = 2000;
    let [none, all] = [SimStorage::new(1), SimStorage::new(1)];
    drop(open_trees(&none));
    create_trees(&open_trees(&all), TREES);
    let mut dbs = Vec::with_capacity(2);
    let [none, all] = [none, all]
        .map(|disk| allocation_counter::measure(|| dbs.push(open_trees(&disk))).bytes_current);
    let counted = dbs[1].stats().memory.tables / TREES;
    let bytes = (all - none).cast_unsigned() / TREES;
    let names = dbs[1].keyspaces();
    let keyspaces = names.iter().map(|name| dbs[1].existing_keyspace(name));
    let keyspaces: Vec<Keyspace> = keyspaces.map(Option::unwrap).collect();
    let before = dbs[1].stats().memory;
    let written = allocation_counter::measure(|| {
        for keyspace in &keyspaces {
            keyspace.put("a key", "a value").unwrap();
        }
    });
    let memtables = dbs[1].stats().memory.memtables - before.memtables;
    let used_bytes = (written.bytes_current.cast_unsigned() - memtables) / TREES;
    println!(
        "a tree takes {bytes} bytes, {used_bytes} more when it is used, counted are {counted}"
    );
    assert!(
        bytes + used_bytes <= counted,
        "{bytes} and {used_bytes} bytes, counted {counted}"
    );
}

/// Counts the allocations of opening. Work for each pair of trees that allocates would more than
/// double the count; `opening_ten_thousand_trees` times the rest.
#[test]
fn opening_twice_as_many_trees_takes_twice_as_much() {
    for filled in [false, true] {
        let opening = |trees: u64| {
            let disk = SimStorage::new(1);
            let db = open_trees(&disk);
            for keyspace in create_trees(&db, trees) {
                if filled {
                    keyspace.put("a key", "a value").unwrap();
                }
            }
            if filled {
                db.flush().unwrap();
            }
            db.close().unwrap();
            let counts = |read_only: bool| {
                let builder = Db::builder("/db").environment(Environment::simulated(&disk, 7));
                let builder = builder.memory_budget(BUDGET).read_only(read_only);
                allocation_counter::measure(|| drop(builder.open().unwrap())).count_total
            };
            [counts(true), counts(false)]
        };
        let (some, twice) = (opening(300), opening(600));
        for (some, twice) in some.into_iter().zip(twice) {
            println!("{some} allocations for 300 trees, {twice} for 600, filled: {filled}");
            assert!(
                twice * 10 <= some * 21,
                "{twice} for twice as many trees as {some}"
            );
        }
    }
}
