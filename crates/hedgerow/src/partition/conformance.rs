//! What every partitioning must do.

use crate::entry::KeyHash;
use crate::options::Partitioning;

use super::router;

const KEYS: u32 = 100_000;

fn partitionings() -> impl Iterator<Item = Partitioning> {
    let hashed = [1, 2, 3, 7, 64, 256].map(Partitioning::Hash);
    [Partitioning::Single].into_iter().chain(hashed)
}

fn hashes() -> impl Iterator<Item = KeyHash> {
    (0..KEYS).map(|i| KeyHash::of(&i.to_le_bytes(), 7))
}

#[test]
fn every_key_goes_to_one_partition_that_exists_always_the_same() {
    for partitioning in partitionings() {
        let (first, again) = (router(partitioning), router(partitioning));
        for hash in hashes().take(10_000) {
            let partition = first.route(hash);
            assert!(partition < partitioning.count(), "{partitioning:?}");
            assert_eq!(partition, again.route(hash), "{partitioning:?}");
        }
    }
}

#[test]
fn keys_spread_evenly() {
    for partitioning in partitionings() {
        let router = router(partitioning);
        let mut counts = vec![0u32; partitioning.count()];
        hashes().for_each(|hash| counts[router.route(hash)] += 1);
        let mean = KEYS / partitioning.count() as u32;
        let even = |&count: &u32| count > mean / 2 && count < mean * 2;
        assert!(counts.iter().all(even), "{partitioning:?}: {counts:?}");
    }
}

#[test]
fn a_scan_of_everything_visits_every_partition() {
    for partitioning in partitionings() {
        let covering = router(partitioning).covering();
        assert_eq!(
            covering.partitions,
            0..partitioning.count(),
            "{partitioning:?}"
        );
        assert!(
            partitioning.count() > 1 || covering.ordered,
            "{partitioning:?}"
        );
    }
}
