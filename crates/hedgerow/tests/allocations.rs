//! A get allocates nothing but the value that it gives back. A test binary of its own, because its
//! allocator counts.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use hedgerow::io::Environment;
use hedgerow::io::sim::SimStorage;
use hedgerow::{Db, Design, Keyspace, Layout, Residency};

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
        keyspace.flush().unwrap();
    }
    let stats = db.stats();
    assert_eq!(stats.keyspaces[0].table_bytes() > 0, flushed);
    for value_bytes in INLINE {
        assert_eq!(
            allocations_per_get(&keyspace, value_bytes),
            0.0,
            "{value_bytes}"
        );
        let keys = [key(1, value_bytes), b"key-9".to_vec(), b"absent".to_vec()];
        let asked = || {
            keys.iter()
                .for_each(|key| _ = keyspace.contains_key(key).unwrap())
        };
        asked();
        assert_eq!(allocation_counter::measure(asked).count_total, 0);
    }
    for value_bytes in ON_THE_HEAP {
        assert_eq!(
            allocations_per_get(&keyspace, value_bytes),
            1.0,
            "{value_bytes}"
        );
    }
    assert_eq!(db.stats().memtable_hits > 0, !flushed);
    assert_eq!(db.stats().device_reads > 0, flushed);
}

#[test]
fn a_get_from_cached_blocks_allocates_its_value_only() {
    check(Layout::sorted(), true);
    check(Layout::sorted().hash(4), true);
}

#[test]
fn a_get_from_a_memtable_allocates_its_value_only() {
    check(Layout::sorted(), false);
    check(Layout::sorted().hash(4), false);
}
