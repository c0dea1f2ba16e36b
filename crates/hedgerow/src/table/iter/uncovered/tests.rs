use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;

use super::super::model::{Move, VecIter, Version, any_key, any_moves, version, walk};
use super::*;
use crate::base::key_order;
use crate::base::options::KeyOrder;
use crate::base::range_tombstones::tests::ranges;

type Delete = (Vec<u8>, Vec<u8>, u64);

fn list_of(deletes: &[Delete]) -> RangeTombstones {
    let order = key_order::open(KeyOrder::Sorted, 0);
    let order = (KeyOrder::Sorted, &*order);
    let one = |(start, end, seqno): &Delete| {
        RangeTombstones::of_operation((start, end), SeqNo(*seqno), order).ok()
    };
    let lists: Vec<_> = deletes.iter().filter_map(one).collect();
    RangeTombstones::merged(&lists)
}

fn is_hidden((key, seqno): &Version, deletes: &[Delete], at: u64) -> bool {
    deletes.iter().any(|(start, end, delete)| {
        let is_range = end.is_empty() || start < end;
        let holds = start <= key && (end.is_empty() || key < end);
        is_range && holds && *delete <= at && seqno.0 <= *delete
    })
}

fn any_deletes() -> impl Strategy<Value = Vec<Delete>> {
    prop::collection::vec((any_key(), any_key(), 1u64..9), 0..5)
}

proptest! {
    #[test]
    fn what_is_left_is_what_no_delete_hides(
        versions in prop::collection::vec((any_key(), 0u64..9), 0..40),
        (first, second) in (any_deletes(), any_deletes()),
        at in 0u64..9,
        knows_newest in any::<bool>(),
        moves in any_moves(),
    ) {
        let all: BTreeSet<_> = versions.iter().map(|(key, seqno)| version(key, *seqno)).collect();
        let newest = match knows_newest {
            true => SeqNo(all.iter().map(|(_, seqno)| seqno.0).max().unwrap_or(0)),
            false => SeqNo::MAX,
        };
        let lists = [list_of(&first), list_of(&second)].map(Arc::new);
        let lists = Arc::new(lists.into());
        let seen = SeenRanges { lists, seqno: SeqNo(at), stepped: None };
        let entries: Vec<Version> = all.into_iter().collect();
        let inner = Box::new(VecIter::new(entries.clone()));
        let mut iter = VisibleIter::new(inner, seen, newest);
        let deletes = [first, second].concat();
        let left = entries.into_iter().filter(|it| !is_hidden(it, &deletes, at));
        walk(&mut iter, left.collect(), &moves);
    }
}

/// The moves of the inner iterator in a walk over ten thousand entries, all but three of them
/// deleted.
fn moves_made(newest: SeqNo, walk: &[Move]) -> u64 {
    const MOST: u64 = 1 << 20;
    let key = |number: u32| format!("{number:06}").into_bytes();
    let entries = (0..10_000).map(|number| version(&key(number), 5));
    let fuse = Arc::new(AtomicU64::new(MOST));
    let inner = VecIter::new(entries.collect()).with_fuse(&fuse);
    let lists = Arc::new(vec![Arc::new(ranges("000001-005000:7 005001-009999:8"))]);
    let seen = SeenRanges {
        lists,
        seqno: SeqNo(9),
        stepped: None,
    };
    let mut iter = VisibleIter::new(Box::new(inner), seen, newest);
    for step in walk {
        step.apply(&mut iter).unwrap();
    }
    MOST - fuse.load(Ordering::Relaxed)
}

#[test]
fn older_entries_are_passed_by_one_seek_for_each_range() {
    let forward = [vec![Move::First], vec![Move::Advance; 3]].concat();
    let backward = [vec![Move::Last], vec![Move::Retreat; 3]].concat();
    for walk in [forward, backward] {
        assert!(moves_made(SeqNo(5), &walk) <= 6);
        // Entries that may be newer are looked at one by one.
        assert!(moves_made(SeqNo::MAX, &walk) >= 10_000);
    }
    for seek in [
        Move::Seek(b"002000".to_vec(), 9),
        Move::SeekBefore(b"002000".to_vec(), 9),
    ] {
        assert_eq!(moves_made(SeqNo(5), &[seek]), 1);
    }
}

#[test]
fn a_run_is_hidden_whole_only_by_newer_deletes_that_are_seen() {
    let lists = Arc::new(vec![Arc::new(ranges("b-m:7"))]);
    let hides = |at, lo: &str, newest| {
        let seen = SeenRanges {
            lists: lists.clone(),
            seqno: SeqNo(at),
            stepped: None,
        };
        seen.hide_all(lo.as_bytes(), b"k", SeqNo(newest))
    };
    assert!(hides(7, "b", 7));
    assert!(!hides(6, "b", 5), "the reader does not see the delete");
    assert!(!hides(9, "b", 8), "an entry may be newer");
    assert!(!hides(9, "a", 5));
}
