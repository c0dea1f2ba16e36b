//! For tests: an iterator over entries in memory, and a walk that compares any iterator with it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;

use super::{Entry, InternalIter, ValueSource};
use crate::base::entry::{SeqNo, Tag};
use crate::base::error::{Error, ErrorKind, Result};

/// A key and a number, ordered as entries are.
pub(crate) type Version = (Vec<u8>, std::cmp::Reverse<u64>);

pub(crate) fn version(key: &[u8], seqno: u64) -> Version {
    (key.to_vec(), std::cmp::Reverse(seqno))
}

/// Entries in memory. The value of each is its key. Fails when its fuse, if any, is spent.
#[derive(Debug, Clone)]
pub(crate) struct VecIter {
    entries: Arc<[Version]>,
    /// The index of the current entry. It is below `entries.len()` at an entry.
    at: usize,
    fuse: Option<Arc<AtomicU64>>,
}

impl VecIter {
    /// An iterator over these entries, which must be sorted.
    pub(crate) fn new(entries: Vec<Version>) -> VecIter {
        VecIter {
            at: entries.len(),
            entries: entries.into(),
            fuse: None,
        }
    }

    /// Limits the moves of all users of a fuse together.
    pub(crate) fn with_fuse(mut self, fuse: &Arc<AtomicU64>) -> VecIter {
        self.fuse = Some(fuse.clone());
        self
    }

    fn go_to(&mut self, at: usize) -> Result<()> {
        self.at = self.entries.len();
        if let Some(fuse) = &self.fuse {
            let left = fuse.load(Ordering::Relaxed);
            if left == 0 {
                return Err(Error::new(ErrorKind::Corruption, "burnt down"));
            }
            fuse.store(left - 1, Ordering::Relaxed);
        }
        self.at = at;
        Ok(())
    }

    fn lower_bound(&self, key: &[u8], seqno: SeqNo) -> usize {
        self.entries
            .partition_point(|(k, s)| (k.as_slice(), *s) < (key, std::cmp::Reverse(seqno.0)))
    }

    /// The index before `at`, or nowhere.
    fn before(&self, at: usize) -> usize {
        at.checked_sub(1).unwrap_or(self.entries.len())
    }
}

impl InternalIter for VecIter {
    fn seek(&mut self, key: &[u8], seqno: SeqNo) -> Result<()> {
        self.go_to(self.lower_bound(key, seqno))
    }

    fn seek_before(&mut self, key: &[u8], seqno: SeqNo) -> Result<()> {
        self.go_to(self.before(self.lower_bound(key, seqno)))
    }

    fn seek_first(&mut self) -> Result<()> {
        self.go_to(0)
    }

    fn seek_last(&mut self) -> Result<()> {
        self.go_to(self.before(self.entries.len()))
    }

    fn advance(&mut self) -> Result<()> {
        assert!(self.at < self.entries.len());
        self.go_to(self.at + 1)
    }

    fn retreat(&mut self) -> Result<()> {
        assert!(self.at < self.entries.len());
        self.go_to(self.before(self.at))
    }

    fn entry(&self) -> Option<Entry<'_>> {
        let (key, seqno) = self.entries.get(self.at)?;
        Some(Entry {
            key,
            seqno: SeqNo(seqno.0),
            tag: Tag::PUT,
            value: ValueSource::Inline(key),
        })
    }
}

/// A movement of an iterator.
#[derive(Debug, Clone)]
pub(crate) enum Move {
    Seek(Vec<u8>, u64),
    SeekBefore(Vec<u8>, u64),
    First,
    Last,
    /// Only at an entry.
    Advance,
    /// Over this many entries, and to the next one. Only at an entry.
    AdvanceOver(usize),
    /// Only at an entry.
    Retreat,
}

impl Move {
    /// Moves an iterator. Returns the entries that it was shown on the way.
    pub(crate) fn apply(&self, iter: &mut dyn InternalIter) -> Result<Vec<Version>> {
        let mut shown = Vec::new();
        match self {
            Move::Seek(key, seqno) => iter.seek(key, SeqNo(*seqno)),
            Move::SeekBefore(key, seqno) => iter.seek_before(key, SeqNo(*seqno)),
            Move::First => iter.seek_first(),
            Move::Last => iter.seek_last(),
            Move::Advance if iter.entry().is_some() => iter.advance(),
            Move::AdvanceOver(count) if iter.entry().is_some() => {
                iter.advance_while(&mut |entry| {
                    shown.push(version(entry.key, entry.seqno.0));
                    shown.len() <= *count
                })
            }
            Move::Retreat if iter.entry().is_some() => iter.retreat(),
            Move::Advance | Move::AdvanceOver(_) | Move::Retreat => Ok(()),
        }?;
        Ok(shown)
    }
}

/// A few different keys of 0 to 42 bytes, many with common starts.
pub(crate) fn any_key() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::collection::vec(prop_oneof![Just(0u8), Just(255), Just(7)], 0..4),
        prop::collection::vec(0u8..3, 0..3)
            .prop_map(|end| [b"sixteen bytes...", &end[..]].concat()),
        prop::collection::vec(0u8..3, 0..3).prop_map(|end| [&[b'a'; 40], &end[..]].concat()),
        (0u8..3, prop::sample::select(vec![0u8, 1, 255]), 0usize..20)
            .prop_map(|(start, byte, count)| [&[start; 12][..], &vec![byte; count]].concat()),
        any::<u8>().prop_map(|byte| vec![byte]),
    ]
}

pub(crate) fn any_moves() -> impl Strategy<Value = Vec<Move>> {
    prop::collection::vec(
        prop_oneof![
            1 => (any_key(), 0u64..9).prop_map(|(k, s)| Move::Seek(k, s)),
            1 => (any_key(), 0u64..9).prop_map(|(k, s)| Move::SeekBefore(k, s)),
            1 => Just(Move::First),
            1 => Just(Move::Last),
            6 => Just(Move::Advance),
            3 => (0usize..6).prop_map(Move::AdvanceOver),
            6 => Just(Move::Retreat),
        ],
        0..60,
    )
}

/// Checks after each move that the iterator is where one over all `entries`, sorted, would be.
pub(crate) fn walk(iter: &mut dyn InternalIter, entries: Vec<Version>, moves: &[Move]) {
    let mut model = VecIter::new(entries);
    for step in moves {
        let expected = step.apply(&mut model).unwrap();
        assert_eq!(step.apply(iter).unwrap(), expected, "shown by {step:?}");
        let here = |i: &dyn InternalIter| i.entry().map(|e| version(e.key, e.seqno.0));
        assert_eq!(here(iter), here(&model), "after {step:?}");
    }
}
