use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;

use super::super::model::{Move, VecIter, Version, any_key, any_moves, version, walk};
use super::*;

struct Run {
    tables: Vec<Vec<Version>>,
    fuse: Arc<AtomicU64>,
    opened: Arc<AtomicU64>,
}

impl Parts for Run {
    fn len(&self) -> usize {
        self.tables.len()
    }

    fn bounds(&self, index: usize) -> (&[u8], Option<&[u8]>) {
        let table = &self.tables[index];
        (&table[0].0, Some(&table[table.len() - 1].0))
    }

    fn open(&self, index: usize) -> Result<Box<dyn InternalIter>> {
        self.opened.fetch_add(1, Ordering::Relaxed);
        Ok(Box::new(
            VecIter::new(self.tables[index].clone()).with_fuse(&self.fuse),
        ))
    }
}

/// Cuts sorted versions into tables, even between versions of one key.
fn run(all: &[Version], table_entries: usize) -> Run {
    Run {
        tables: all.chunks(table_entries).map(<[_]>::to_vec).collect(),
        fuse: Arc::new(AtomicU64::new(u64::MAX)),
        opened: Arc::default(),
    }
}

fn sorted(versions: &[(Vec<u8>, u64)]) -> Vec<Version> {
    let all: BTreeSet<_> = versions.iter().map(|(k, s)| version(k, *s)).collect();
    all.into_iter().collect()
}

proptest! {
    #[test]
    fn a_run_is_one_sorted_sequence(
        versions in prop::collection::vec((any_key(), 0u64..9), 0..60),
        table_entries in 1usize..9,
        moves in any_moves(),
    ) {
        let all = sorted(&versions);
        walk(&mut ConcatIter::new(run(&all, table_entries)), all, &moves);
    }

    #[test]
    fn errors_come_through(
        versions in prop::collection::vec((any_key(), 0u64..9), 0..60),
        table_entries in 1usize..9,
        moves in any_moves(),
        moves_max in 0u64..20,
    ) {
        let all = sorted(&versions);
        let run = run(&all, table_entries);
        let fuse = run.fuse.clone();
        fuse.store(moves_max, Ordering::Relaxed);
        let mut iter = ConcatIter::new(run);
        if moves.iter().any(|step| step.apply(&mut iter).is_err()) {
            prop_assert!(iter.entry().is_none());
            fuse.store(u64::MAX, Ordering::Relaxed);
            walk(&mut iter, all, &[Move::First, Move::Advance, Move::Last, Move::Retreat]);
        }
    }
}

#[test]
fn only_tables_that_are_reached_are_opened() {
    let all: Vec<_> = (0..100u8).map(|i| version(&[i], 1)).collect();
    let run = run(&all, 10);
    let opened = run.opened.clone();
    let mut iter = ConcatIter::new(run);
    iter.seek(&[42], SeqNo::MAX).unwrap();
    iter.seek(&[45], SeqNo::MAX).unwrap();
    assert_eq!(opened.load(Ordering::Relaxed), 1);
    for _ in 0..5 {
        iter.advance().unwrap();
    }
    assert_eq!(iter.entry().unwrap().key, [50]);
    assert_eq!(opened.load(Ordering::Relaxed), 2);
}

#[test]
fn tables_behind_the_limit_are_not_opened() {
    let all: Vec<_> = (0..100u8).map(|i| version(&[i], 1)).collect();
    let run = run(&all, 10);
    let opened = run.opened.clone();
    let mut iter = ConcatIter::new(run);
    iter.limit(&[50]);
    iter.seek(&[45], SeqNo::MAX).unwrap();
    for key in 45..50 {
        assert_eq!(iter.entry().unwrap().key, [key]);
        iter.advance().unwrap();
    }
    assert!(iter.entry().is_none());
    iter.seek(&[50], SeqNo::MAX).unwrap();
    assert!(iter.entry().is_none());
    assert_eq!(opened.load(Ordering::Relaxed), 1);
}
