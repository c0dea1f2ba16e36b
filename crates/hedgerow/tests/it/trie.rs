//! The merge policy `trie`: its promises beyond right answers, which every policy gives.

use std::collections::BTreeMap;

use hedgerow::io::sim::SimStorage;
use hedgerow::{Design, Error, ErrorKind, FilterSpec, Layout, PolicySpec, PrefixRule, TableSpec};
use xxhash_rust::xxh3::xxh3_128_with_seed;

use crate::support::{builder, contents_unordered, hashed, key, open, small, value};

fn trie(fan_out: u32) -> Design {
    Design {
        policy: PolicySpec::trie(fan_out),
        ..small()
    }
}

/// I10 of LSM-trie: an entry is written once for each level down to its own, and never else. I1:
/// `verify` and every edit of a tree check that every table lies in its node (S3).
#[test]
fn an_entry_is_written_once_per_level() {
    for (fan_out, last_level) in [(4, 3), (8, 2), (16, 2)] {
        let disk = SimStorage::new(1);
        let db = open(&disk);
        let keyspace = hashed(&db, trie(fan_out));
        for i in 0..60_000 {
            keyspace.put(key(i), value(i)).unwrap();
            if i % 5000 == 0 {
                keyspace.wait_until_merged().unwrap();
            }
        }
        keyspace.wait_until_merged().unwrap();
        let stats = db.stats();
        let levels = keyspace.stats().levels;
        let writes: u64 = levels
            .iter()
            .map(|it| it.entries * (it.level as u64 + 1))
            .sum();
        assert_eq!(
            stats.flush_entries + stats.merge_entries,
            writes,
            "{levels:?}"
        );
        let deepest = levels
            .iter()
            .filter(|it| it.entries > 0)
            .map(|it| it.level)
            .max();
        assert_eq!(deepest, Some(last_level), "{levels:?}");
        let runs = levels.iter().map(|it| it.runs).max();
        assert!(runs < Some(48), "{levels:?}");
        db.verify().unwrap();
        for i in (0..60_000).step_by(97) {
            assert_eq!(
                keyspace.get(key(i)).unwrap().as_deref(),
                Some(&value(i)[..])
            );
            assert_eq!(keyspace.get(key(i + 60_000)).unwrap(), None);
        }
    }
}

/// Keys that without a seed would all be in one of 64 nodes, and of one bucket in 64. With the seed
/// of the keyspace, which nobody knows, they are like any others.
#[test]
fn chosen_keys_do_not_put_a_trie_out_of_balance() {
    let path = |key: &[u8]| xxh3_128_with_seed(key, 0) >> 106 & 63;
    let chosen = (0_u64..).map(|i| i.to_be_bytes().to_vec());
    let chosen: Vec<Vec<u8>> = chosen.filter(|key| path(key) == 0).take(20_000).collect();
    let others: Vec<Vec<u8>> = (0..20_000_u64)
        .map(|i| (i << 32).to_be_bytes().to_vec())
        .collect();
    let grow = |keys: &[Vec<u8>]| {
        let db = open(&SimStorage::new(6));
        let design = Design {
            table: TableSpec::HTable,
            filter: FilterSpec::Bloom { bits_per_key: 16.0 },
            ..trie(8)
        };
        let keyspace = hashed(&db, design);
        for key in keys {
            keyspace.put(key, value(7)).unwrap();
        }
        keyspace.wait_until_merged().unwrap();
        db.verify().unwrap();
        let before = db.stats().block_reads;
        for key in keys.iter().step_by(7) {
            assert!(keyspace.get(key).unwrap().is_some());
        }
        let reads = (db.stats().block_reads - before) as f64 / (keys.len() / 7) as f64;
        let levels = keyspace.stats().levels;
        let deepest = levels.iter().rposition(|it| it.entries > 0);
        let runs = levels.iter().map(|it| it.runs).max().unwrap();
        (deepest, runs, reads)
    };
    let (deepest, runs, reads) = grow(&chosen);
    let (deepest_of_others, runs_of_others, reads_of_others) = grow(&others);
    assert_eq!(deepest, deepest_of_others);
    assert!(
        runs <= runs_of_others + 8,
        "{runs} runs for {runs_of_others}"
    );
    assert!(
        reads < 1.1 * reads_of_others,
        "{reads} reads for {reads_of_others}"
    );
}

/// Everything is overwritten and deleted again and again. Merges of nodes of the last level with
/// themselves reclaim the stale entries.
#[test]
fn what_is_stale_is_reclaimed() {
    const FAN_OUT: u64 = 4;
    let disk = SimStorage::new(2);
    let db = open(&disk);
    let keyspace = hashed(&db, trie(FAN_OUT as u32));
    let mut model = BTreeMap::new();
    for round in 0..12 {
        for i in 0..4000 {
            if round % 3 == 2 && i % 4 > 0 {
                keyspace.delete(key(i)).unwrap();
                model.remove(&key(i));
            } else {
                keyspace.put(key(i), value(i + round)).unwrap();
                model.insert(key(i), value(i + round));
            }
        }
        keyspace.wait_until_merged().unwrap();
        assert_eq!(contents_unordered(&keyspace), model, "round {round}");
        let levels = keyspace.stats().levels;
        let (last, above) = levels.split_last().unwrap();
        // P8. What is above may hide as many entries of the last level.
        let hiding: u64 = above.iter().map(|level| level.entries).sum();
        let most = 2 * (model.len() as u64 + hiding);
        assert!(last.entries <= most, "round {round}: {levels:?}");
        let memtable_entries = db.stats().flush_entries / db.stats().flushes;
        for (nodes, level) in [1, FAN_OUT, FAN_OUT * FAN_OUT].into_iter().zip(above) {
            let most = nodes * (2 * FAN_OUT - 1) * memtable_entries;
            assert!(level.entries <= most, "round {round}: {levels:?}");
        }
    }
    drop(keyspace);
    drop(db);
    let keyspace = open(&disk).keyspace("hashed", Layout::hashed()).unwrap();
    assert_eq!(contents_unordered(&keyspace), model);
}

/// Deletes keys in random order. The entries that stay are bounded by the live keys and by level 0.
#[test]
fn random_deletes_leave_little_behind() {
    const KEYS: u64 = 16_384;
    for (fan_out, left) in [(4, 4096), (4, 1024), (4, 0), (8, 1024), (16, 1024)] {
        let db = open(&SimStorage::new(8));
        let keyspace = hashed(&db, trie(fan_out));
        for i in 0..KEYS {
            keyspace.put(key(i), value(i)).unwrap();
        }
        keyspace.wait_until_merged().unwrap();
        let written = db.stats().flush_entries + db.stats().merge_entries;
        // An odd factor goes through all residues of a power of two.
        for i in left..KEYS {
            keyspace.delete(key(i * 7919 % KEYS)).unwrap();
        }
        keyspace.flush().unwrap();
        keyspace.wait_until_merged().unwrap();
        let levels = keyspace.stats().levels;
        let entries: u64 = levels.iter().map(|it| it.entries).sum();
        let stats = db.stats();
        let writes = (stats.flush_entries + stats.merge_entries - written) as f64;
        let per_delete = writes / (KEYS - left) as f64;
        println!("trie:{fan_out}, {left} left: {entries} entries, {per_delete:.2} writes");
        // Half of the entries under level 0 can be read, or a tombstone in level 0 hides them.
        let most = 2 * left + 3 * levels[0].entries;
        assert!(entries <= most, "{entries} entries, {levels:?}");
        let live = contents_unordered(&keyspace).len() as u64;
        assert_eq!(live, left);
        db.verify().unwrap();
    }
}

/// Changes every policy to the trie and back, by way of other fan-outs, during writes and
/// reopening.
#[test]
fn trees_become_tries_and_tries_become_trees() {
    let disk = SimStorage::new(3);
    let mut model = BTreeMap::new();
    let policies = [
        "leveling:3",
        "trie:4",
        "trie:16",
        "tiering:3",
        "trie:8",
        "trie:5",
        "garnering:2,0.8",
        "trie:7",
    ];
    for (round, policy) in policies.into_iter().enumerate() {
        let db = open(&disk);
        let keyspace = hashed(&db, small());
        let design = Design {
            policy: policy.parse().unwrap(),
            ..small()
        };
        keyspace.retune(design).unwrap();
        for i in 0..6000 {
            let (at, to) = ((i * 7) % 9000, value(i + round as u64));
            keyspace.put(key(at), &to).unwrap();
            model.insert(key(at), to);
        }
        keyspace.wait_until_merged().unwrap();
        assert_eq!(contents_unordered(&keyspace), model, "{policy}");
        db.verify().unwrap();
    }
    let db = open(&disk);
    let keyspace = db.keyspace("hashed", Layout::hashed()).unwrap();
    keyspace.compact::<&[u8]>(..).unwrap();
    assert_eq!(contents_unordered(&keyspace), model);
    let deepest = keyspace
        .stats()
        .levels
        .into_iter()
        .rfind(|it| it.entries > 0)
        .unwrap();
    assert_eq!((deepest.entries, deepest.runs), (6000, 1));
}

/// Loads lie within nodes: into an empty trie past level 0, and above what is there otherwise.
#[test]
fn a_bulk_load_goes_into_nodes() {
    let disk = SimStorage::new(4);
    let db = open(&disk);
    let keyspace = hashed(&db, trie(8));
    let mut model = BTreeMap::new();
    for (round, range) in [(0, 0..5000), (1, 4000..9000)] {
        let load = |i| (key(i), value(i + round));
        let entries = range.clone().map(|i| Ok::<_, Error>(load(i)));
        keyspace.bulk_load(entries).unwrap();
        model.extend(range.map(load));
        keyspace.wait_until_merged().unwrap();
        assert_eq!(contents_unordered(&keyspace), model);
        db.verify().unwrap();
    }
}

#[test]
fn keys_in_another_order_are_refused() {
    let db = builder(&SimStorage::new(5)).open().unwrap();
    for layout in [Layout::sorted(), Layout::semi_sorted(PrefixRule::Bytes(4))] {
        let error = db.keyspace_with("other", layout, trie(8)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        let told = error.to_string();
        assert!(
            told.contains("expected keys of the order `hashed` for the policy `trie:8`"),
            "{told}"
        );
    }
}
