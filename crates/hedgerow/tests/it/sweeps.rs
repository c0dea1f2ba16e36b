//! Levels that go down slice by slice: killed and opened again between two slices.

use std::path::Path;

use hedgerow::inspect::{self, Change};
use hedgerow::io::sim::SimStorage;
use hedgerow::{Design, Layout};

use crate::support::{Contents, DIR, contents, key, open, small, value};

fn design(policy: &str) -> Design {
    Design {
        policy: policy.parse().unwrap(),
        ..small()
    }
}

/// Returns true if a part of some level has become a run of the next one. The sweep names the
/// newest run that it takes, and its output has that number.
fn is_in_a_sweep(disk: &SimStorage) -> bool {
    let manifest = inspect::manifest(disk, Path::new(DIR)).unwrap();
    let state = manifest.state.unwrap();
    state.iter().any(|change| {
        let Change::Tree(tree) = change else {
            return false;
        };
        let sweeps = tree.draining.iter();
        let mut sweeps = sweeps.filter_map(|&(level, through)| Some((level, through?)));
        sweeps.any(|(level, through)| {
            let mut places = tree.added.iter().map(|(place, _)| place);
            let waits = places.any(|at| at.level == level && at.run <= through);
            let mut places = tree.added.iter().map(|(place, _)| place);
            waits && places.any(|at| at.level > level && at.run == through)
        })
    })
}

#[test]
fn a_sweep_goes_on_after_a_kill_between_two_slices() {
    for (seed, policy) in (1..).zip(["tiering:2", "tiering:3"]) {
        let disk = SimStorage::new(seed);
        let db = open(&disk);
        let keyspace = db
            .keyspace_with("plain", Layout::sorted(), design(policy))
            .unwrap();
        let mut expected = Contents::new();
        let mut in_a_sweep = 0;
        for i in 0..6000 {
            // So large that a level of two runs is several slices.
            let (at, it) = (key(i * 7919 % 5000), value(i).repeat(8));
            keyspace.put(at.clone(), it.clone()).unwrap();
            expected.insert(at, it);
            if i % 20 != 0 || in_a_sweep >= 8 {
                continue;
            }
            let disk = disk.kill();
            if !is_in_a_sweep(&disk) {
                continue;
            }
            in_a_sweep += 1;
            let db = open(&disk);
            let keyspace = db.existing_keyspace("plain").unwrap();
            assert_eq!(contents(&keyspace), expected, "{policy}, put {i}");
            keyspace.wait_until_merged().unwrap();
            let stats = keyspace.stats();
            assert_eq!((stats.debt_bytes, stats.levels_over), (0, 0), "{stats:?}");
            assert_eq!(contents(&keyspace), expected, "{policy}, put {i}");
            db.verify().unwrap();
        }
        assert!(in_a_sweep >= 3, "{policy}: {in_a_sweep} kills in a sweep");
    }
}

#[test]
fn a_sweep_that_is_over_does_not_begin_again() {
    for policy in ["leveling:3,partitioned", "tiering:3"] {
        let disk = SimStorage::new(7);
        let db = open(&disk);
        let keyspace = db
            .keyspace_with("plain", Layout::sorted(), design(policy))
            .unwrap();
        for i in 0..6000 {
            let (at, it) = (key(i * 7919 % 5000), value(i).repeat(8));
            keyspace.put(at, it).unwrap();
        }
        keyspace.flush().unwrap();
        keyspace.wait_until_merged().unwrap();
        assert!(db.stats().merges > 20);
        drop((keyspace, db));

        let db = open(&disk);
        let keyspace = db.existing_keyspace("plain").unwrap();
        keyspace.wait_until_merged().unwrap();
        let stats = db.stats();
        assert_eq!((stats.merges, stats.moves), (0, 0), "{policy}");
    }
}
