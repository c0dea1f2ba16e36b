use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use hedgerow_io::Clock;
use proptest::prelude::*;

use super::super::model::{Move, VecIter, Version, any_key, any_moves, version, walk};
use super::*;

/// Deals distinct versions to `k` children.
fn deal(versions: &[(Vec<u8>, u64, usize)], k: usize) -> (Vec<Vec<Version>>, Vec<Version>) {
    let mut all = BTreeSet::new();
    let mut children = vec![BTreeSet::new(); k];
    for (key, seqno, child) in versions {
        let version = version(key, *seqno);
        if all.insert(version.clone()) {
            children[child % k].insert(version);
        }
    }
    (
        children
            .into_iter()
            .map(|c| c.into_iter().collect())
            .collect(),
        all.into_iter().collect(),
    )
}

fn boxed(children: &[Vec<Version>]) -> Vec<Box<dyn InternalIter>> {
    children
        .iter()
        .map(|c| Box::new(VecIter::new(c.clone())) as Box<dyn InternalIter>)
        .collect()
}

fn any_versions() -> impl Strategy<Value = Vec<(Vec<u8>, u64, usize)>> {
    prop::collection::vec((any_key(), 0u64..9, 0usize..64), 0..60)
}

proptest! {
    #[test]
    fn merging_is_one_sorted_sequence(
        versions in any_versions(),
        k in 1usize..12,
        moves in any_moves(),
    ) {
        let (children, all) = deal(&versions, k);
        walk(&mut MergeIter::new(boxed(&children)), all.clone(), &moves);
        walk(&mut *merge(boxed(&children)), all, &moves);
    }

    /// Long walks, so that keys lose their common start.
    #[test]
    fn merging_both_ways_is_sorted(versions in any_versions(), k in 1usize..12) {
        let (children, all) = deal(&versions, k);
        let forward = std::iter::once(Move::First).chain(vec![Move::Advance; all.len()]);
        let backward = std::iter::once(Move::Last).chain(vec![Move::Retreat; all.len()]);
        let moves: Vec<_> = forward.chain(backward).collect();
        walk(&mut MergeIter::new(boxed(&children)), all, &moves);
    }

    /// An error leaves the position nowhere; seeking afterwards works.
    #[test]
    fn errors_come_through(
        versions in any_versions(),
        k in 2usize..6,
        moves in any_moves(),
        moves_max in 0u64..40,
    ) {
        let (children, all) = deal(&versions, k);
        let fuse = Arc::new(AtomicU64::new(moves_max));
        let mut iter = MergeIter::new(
            children
                .iter()
                .map(|c| Box::new(VecIter::new(c.clone()).with_fuse(&fuse)) as Box<dyn InternalIter>)
                .collect(),
        );
        if moves.iter().any(|step| step.apply(&mut iter).is_err()) {
            prop_assert!(iter.entry().is_none());
            fuse.store(u64::MAX, std::sync::atomic::Ordering::Relaxed);
            walk(&mut iter, all, &[Move::First, Move::Advance, Move::Last, Move::Retreat]);
        }
    }

    /// Equal entries never happen. Even then nothing panics and both are returned.
    #[test]
    fn equal_entries_do_not_break_it(
        entries in prop::collection::btree_set((any_key(), 0u64..9), 0..20),
        moves in any_moves(),
    ) {
        let entries: Vec<_> = entries.iter().map(|(k, s)| version(k, *s)).collect();
        let mut entries = entries;
        entries.sort();
        let mut iter = MergeIter::new(boxed(&[entries.clone(), entries.clone()]));
        for step in &moves {
            step.apply(&mut iter).unwrap();
        }
        iter.seek_first().unwrap();
        for _ in 0..2 * entries.len() {
            prop_assert!(iter.entry().is_some());
            iter.advance().unwrap();
        }
        prop_assert!(iter.entry().is_none());
    }
}

#[test]
fn no_children_have_no_entries() {
    let mut iter = merge(Vec::new());
    iter.seek_first().unwrap();
    assert!(iter.entry().is_none());
    iter.seek_before(b"k", SeqNo::MAX).unwrap();
    assert!(iter.entry().is_none());
}

/// Prints nanoseconds per entry: `cargo test --release -p hedgerow --lib -- --ignored --nocapture
/// merge_speed`. The entries are few enough to stay in the cache. Their keys are 16-byte decimals,
/// and the same behind 17 more bytes.
#[test]
#[ignore = "a measurement"]
fn merge_speed() {
    let clock = hedgerow_io::os::OsClock::new();
    for start in ["", "tenant:0042:user:"] {
        for k in [1, 2, 8, 32] {
            let count = 10_000;
            let mut children = vec![Vec::new(); k];
            let mut state = 1u64;
            for i in 0..count {
                state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
                let child = (state >> 33) as usize % k;
                children[child].push(version(format!("{start}{i:016}").as_bytes(), i));
            }
            let mut iter = MergeIter::new(boxed(&children));
            let mut best = u128::MAX;
            for _ in 0..100 {
                let begin = clock.now();
                iter.seek_first().unwrap();
                let mut sum = 0;
                while let Some(entry) = iter.entry() {
                    sum += entry.seqno.0;
                    iter.advance().unwrap();
                }
                assert_eq!(sum, count * (count - 1) / 2);
                best = best.min((clock.now() - begin).as_nanos());
            }
            let ns = best as f64 / count as f64;
            println!("`{start}`, k = {k}: {ns:.1} ns per entry");
        }
    }
}
