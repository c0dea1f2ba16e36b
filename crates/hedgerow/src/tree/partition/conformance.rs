//! The requirements on every partitioning.

use std::ops::{Bound, RangeBounds};

use crate::base::entry::KeyHash;
use crate::base::options::{KeyOrder, Layout, Partitioning};

use super::Router;

const KEYS: u32 = 100_000;

fn partitionings() -> impl Iterator<Item = Partitioning> {
    let hashed = [1, 2, 3, 7, 64, 256].map(Partitioning::Hash);
    let quarters: [&[u8]; 3] = [&[64], &[128], &[192]];
    let ranges = [
        Partitioning::range(quarters),
        Partitioning::range((1..=u8::MAX).map(|byte| [byte])),
        Partitioning::range([[127; 3]]),
        Partitioning::range::<&[u8]>([]),
    ];
    [Partitioning::Single]
        .into_iter()
        .chain(hashed)
        .chain(ranges)
}

fn router(partitioning: &Partitioning) -> Box<dyn Router> {
    let layout = Layout {
        order: KeyOrder::Sorted,
        partitioning: partitioning.clone(),
        ..Layout::default()
    };
    super::router(&layout, 7)
}

/// Keys, their first bytes even, with their hashes.
fn keys() -> impl Iterator<Item = (Vec<u8>, KeyHash)> {
    let key = |i: u32| i.to_le_bytes().to_vec();
    (0..KEYS).map(move |i| (key(i), KeyHash::of(&key(i), 7)))
}

#[test]
fn every_key_goes_to_one_partition_that_exists_always_the_same() {
    for partitioning in partitionings() {
        let (first, again) = (router(&partitioning), router(&partitioning));
        for (key, hash) in keys().take(10_000) {
            let partition = first.route(&key, hash);
            assert!(partition < partitioning.count(), "{partitioning:?}");
            assert_eq!(partition, again.route(&key, hash), "{partitioning:?}");
        }
    }
}

#[test]
fn keys_spread_evenly() {
    for partitioning in partitionings() {
        let router = router(&partitioning);
        let mut counts = vec![0u32; partitioning.count()];
        keys().for_each(|(key, hash)| counts[router.route(&key, hash)] += 1);
        let mean = KEYS / partitioning.count() as u32;
        let even = |&count: &u32| count > mean / 2 && count < mean * 2;
        assert!(counts.iter().all(even), "{partitioning:?}: {counts:?}");
    }
}

#[test]
fn a_scan_of_everything_visits_every_partition() {
    for partitioning in partitionings() {
        let covering = router(&partitioning).covering(&(Bound::Unbounded, Bound::Unbounded));
        let all = 0..partitioning.count();
        assert_eq!(covering.partitions, all, "{partitioning:?}");
    }
}

/// The bounds are at, below and above the borders of partitions.
#[test]
fn bounds_are_covered_and_not_more_than_must_be() {
    let keys: Vec<_> = keys().collect();
    let ends = [
        vec![],
        vec![0],
        vec![64],
        vec![64, 0],
        vec![128],
        vec![255; 5],
    ];
    let bounds = |end: &Vec<u8>| [Bound::Included(end.clone()), Bound::Excluded(end.clone())];
    let mut bounds: Vec<_> = ends.iter().flat_map(bounds).collect();
    bounds.push(Bound::Unbounded);
    for partitioning in partitionings() {
        let router = router(&partitioning);
        for bounds in bounds
            .iter()
            .flat_map(|a| bounds.iter().map(|b| (a.clone(), b.clone())))
        {
            let covered = router.covering(&bounds).partitions;
            assert!(covered.end <= partitioning.count() && covered.start <= covered.end);
            let mut used = vec![false; partitioning.count()];
            for (key, hash) in keys.iter().filter(|(key, _)| bounds.contains(key)) {
                let partition = router.route(key, *hash);
                assert!(covered.contains(&partition), "{partitioning:?} {bounds:?}");
                used[partition] = true;
            }
            // Keys are dense: every partition between the first and the last of a range has some.
            if matches!(partitioning, Partitioning::Range(_)) && used.contains(&true) {
                let unused = used[covered.clone()].iter().filter(|used| !**used);
                assert!(
                    unused.count() <= 1,
                    "{partitioning:?} {bounds:?} {covered:?}"
                );
            }
        }
    }
}

#[test]
fn partitions_that_follow_one_another_have_ascending_keys() {
    let mut keys: Vec<_> = keys().collect();
    keys.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    for partitioning in partitionings() {
        let router = router(&partitioning);
        let covering = router.covering(&(Bound::Unbounded, Bound::Unbounded));
        let Some(splits) = covering.splits else {
            continue;
        };
        assert_eq!(splits.len() + 1, partitioning.count());
        for (key, hash) in &keys {
            let partition = router.route(key, *hash);
            assert!(partition == 0 || splits[partition - 1] <= *key, "{key:?}");
            assert!(
                splits.get(partition).is_none_or(|split| key < split),
                "{key:?}"
            );
        }
    }
}
