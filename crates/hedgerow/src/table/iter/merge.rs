//! Merging sorted iterators into one.
//!
//! A loser tree: each inner node keeps the child that lost there. So a step compares along one path
//! from a leaf to the root, with log2(k) comparisons. A comparison first compares 16 bytes of the
//! key, kept in the tree as one number. Only if they are equal does it compare the children's
//! entries. A backward tree keeps the bits inverted and takes the same path.
//!
//! The 16 bytes are not the key's first ones: the common start of all children's keys at the build
//! of the tree is skipped. Keys without that start come after all keys with it, in either
//! direction, so the largest number stands for them.
//!
//! Every child stands on its entry nearest to the winner's in the current direction. So a change of
//! direction seeks every child but the winner.

use std::cmp::Ordering;

use crate::base::entry::SeqNo;
use crate::base::error::Result;
use crate::base::page::PrefetchList;

use super::{Entry, InternalIter};

/// Merges the children's entries into one order. One child is returned as it is; otherwise the
/// result is a [`MergeIter`].
pub(crate) fn merge(mut children: Vec<Box<dyn InternalIter>>) -> Box<dyn InternalIter> {
    match (children.len(), children.pop()) {
        (1, Some(only)) => only,
        (_, last) => {
            children.extend(last);
            Box::new(MergeIter::new(children))
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Forward,
    Backward,
}

/// The part of the common start that stays in the ranks. With a margin of 8 bytes the start changes
/// rarely.
const COMMON_MARGIN_BYTES: usize = 8;

/// A child in the tree. `rank` is a part of its key as a number, smaller for keys that come sooner
/// in the current direction. It is `u128::MAX` if the key lacks the common start or the child has
/// no more entries.
#[derive(Debug, Clone, Copy)]
struct Runner {
    rank: u128,
    child: usize,
}

/// The mark of a node that no child has reached yet.
const NOBODY: Runner = Runner {
    rank: u128::MAX,
    child: usize::MAX,
};

/// An iterator over the merged children; see the module. Two children never have an entry with the
/// same key and number. If they had, the earlier child's would come first, and a change of
/// direction might skip the other.
pub(crate) struct MergeIter {
    children: Vec<Box<dyn InternalIter>>,
    /// Node 0 is the winner. Node n >= 1 is the loser between nodes 2n and 2n + 1. Child i is node
    /// k + i.
    tree: Vec<Runner>,
    /// The start of keys that ranks omit.
    common: Vec<u8>,
    /// The direction; `None` is nowhere.
    direction: Option<Direction>,
}

impl MergeIter {
    pub(crate) fn new(children: Vec<Box<dyn InternalIter>>) -> MergeIter {
        MergeIter {
            children,
            tree: Vec::new(),
            common: Vec::new(),
            direction: None,
        }
    }

    /// Places every child and builds the tree for a direction.
    fn place(
        &mut self,
        direction: Direction,
        mut place: impl FnMut(usize, &mut dyn InternalIter) -> Result<()>,
    ) -> Result<()> {
        self.direction = None;
        for (i, child) in self.children.iter_mut().enumerate() {
            place(i, &mut **child)?;
        }
        self.build(direction);
        self.direction = Some(direction);
        Ok(())
    }

    /// Plays every match. Each child goes up to the first node that no child has reached yet. The
    /// winner of a match continues from there.
    fn build(&mut self, direction: Direction) {
        let k = self.children.len();
        self.find_common();
        self.tree.clear();
        self.tree.resize(k, NOBODY);
        for child in 0..k {
            let mut winner = self.runner(child, direction);
            let mut node = (child + k) / 2;
            while node > 0 && self.tree[node].child != NOBODY.child {
                let other = self.tree[node];
                if self.is_before(other, winner, direction) {
                    self.tree[node] = winner;
                    winner = other;
                }
                node /= 2;
            }
            self.tree[node] = winner;
        }
    }

    /// Computes the common start of the children's keys, without its last bytes, so that it lasts.
    fn find_common(&mut self) {
        self.common.clear();
        let mut keys = self.children.iter().filter_map(|c| Some(c.entry()?.key));
        let Some(first) = keys.next() else {
            return;
        };
        let count = keys.fold(first.len(), |count, key| {
            let pairs = first[..count].iter().zip(key);
            pairs.take_while(|(a, b)| a == b).count()
        });
        // At most so much that 16 bytes remain: padding costs more than comparing common bytes.
        let skip = count
            .saturating_sub(COMMON_MARGIN_BYTES)
            .min(first.len().saturating_sub(16));
        self.common.extend_from_slice(&first[..skip]);
    }

    /// Moves the winner and plays its matches again.
    #[inline]
    fn step(&mut self, direction: Direction) -> Result<()> {
        let child = self.tree[0].child;
        let moved = match direction {
            Direction::Forward => self.children[child].advance(),
            Direction::Backward => self.children[child].retreat(),
        };
        if let Err(error) = moved {
            self.direction = None;
            return Err(error);
        }
        let mut winner = self.runner(child, direction);
        let mut node = (child + self.tree.len()) / 2;
        while node > 0 {
            let other = self.tree[node];
            // The winner cannot be predicted: a selection avoids the branch.
            let other_wins = self.is_before(other, winner, direction);
            self.tree[node] = if other_wins { winner } else { other };
            winner = if other_wins { other } else { winner };
            node /= 2;
        }
        self.tree[0] = winner;
        if winner.rank == u128::MAX {
            self.renew(direction);
        }
        Ok(())
    }

    /// Builds the tree again if all keys with the common start are passed.
    #[cold]
    fn renew(&mut self, direction: Direction) {
        let left = |entry: Entry<'_>| !entry.key.starts_with(&self.common);
        if self.entry().is_some_and(left) {
            self.build(direction);
        }
    }

    /// Moves from the current entry in a direction. Changes the direction first if needed.
    fn go(&mut self, direction: Direction) -> Result<()> {
        debug_assert!(self.is_at_entry());
        match self.direction {
            None => Ok(()),
            Some(current) if current == direction => self.step(direction),
            Some(_) => self.turn(direction),
        }
    }

    #[cold]
    fn turn(&mut self, direction: Direction) -> Result<()> {
        let Some(entry) = self.entry() else {
            return Ok(());
        };
        let (key, seqno) = (entry.key.to_vec(), entry.seqno);
        let winner = self.tree[0].child;
        self.place(direction, |i, child| match direction {
            Direction::Forward if i == winner => child.advance(),
            Direction::Forward => child.seek(&key, seqno),
            Direction::Backward if i == winner => child.retreat(),
            Direction::Backward => child.seek_before(&key, seqno),
        })
    }

    /// Returns true if `a` comes before `b` in a direction.
    #[inline]
    fn is_before(&self, a: Runner, b: Runner, direction: Direction) -> bool {
        if a.rank == b.rank {
            return self.is_before_by_entry(a.child, b.child, direction);
        }
        a.rank < b.rank
    }

    /// The runner of a child at its current entry.
    #[inline]
    fn runner(&self, child: usize, direction: Direction) -> Runner {
        let rest = self.children[child].entry().and_then(|entry| {
            // A comparison with an empty `Vec` costs 40 ns if memcmp uses masked loads: these
            // suppress the fault at its dangling address, slowly.
            if self.common.is_empty() {
                Some(entry.key)
            } else {
                entry.key.strip_prefix(&self.common[..])
            }
        });
        let Some(rest) = rest else {
            return Runner {
                rank: u128::MAX,
                child,
            };
        };
        let start = match rest.first_chunk::<16>() {
            Some(chunk) => u128::from_be_bytes(*chunk),
            None => {
                let mut padded = [0; 16];
                padded[..rest.len()].copy_from_slice(rest);
                u128::from_be_bytes(padded)
            }
        };
        let rank = match direction {
            Direction::Forward => start,
            Direction::Backward => !start,
        };
        Runner { rank, child }
    }

    #[cold]
    fn is_before_by_entry(&self, a: usize, b: usize, direction: Direction) -> bool {
        let (Some(first), second) = (self.children[a].entry(), self.children[b].entry()) else {
            return false;
        };
        let Some(second) = second else {
            return true;
        };
        let order = first
            .key
            .cmp(second.key)
            .then_with(|| second.seqno.cmp(&first.seqno))
            .then_with(|| a.cmp(&b));
        match direction {
            Direction::Forward => order == Ordering::Less,
            Direction::Backward => order == Ordering::Greater,
        }
    }
}

impl InternalIter for MergeIter {
    fn limit(&mut self, end: &[u8]) {
        self.children.iter_mut().for_each(|child| child.limit(end));
    }

    fn prepare(&mut self, key: &[u8], wanted: &mut PrefetchList) {
        self.direction = None;
        for child in &mut self.children {
            child.prepare(key, wanted);
        }
    }

    fn seek(&mut self, key: &[u8], seqno: SeqNo) -> Result<()> {
        self.place(Direction::Forward, |_, child| child.seek(key, seqno))
    }

    fn seek_before(&mut self, key: &[u8], seqno: SeqNo) -> Result<()> {
        self.place(Direction::Backward, |_, child| {
            child.seek_before(key, seqno)
        })
    }

    fn seek_first(&mut self) -> Result<()> {
        self.place(Direction::Forward, |_, child| child.seek_first())
    }

    fn seek_last(&mut self) -> Result<()> {
        self.place(Direction::Backward, |_, child| child.seek_last())
    }

    fn advance(&mut self) -> Result<()> {
        self.go(Direction::Forward)
    }

    fn retreat(&mut self) -> Result<()> {
        self.go(Direction::Backward)
    }

    fn entry(&self) -> Option<Entry<'_>> {
        self.direction?;
        self.children.get(self.tree.first()?.child)?.entry()
    }
}

#[cfg(test)]
mod tests;
