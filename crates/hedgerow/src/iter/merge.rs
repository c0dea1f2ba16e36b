//! Merging sorted iterators into one.
//!
//! A loser tree: each inner node keeps the child that lost there, so that a step compares along one
//! path from a leaf to the root, log2(k) comparisons. A comparison first looks at 16 bytes of the
//! key kept beside the tree as one number; only if they are equal are the children asked for their
//! entries. A tree that runs backward keeps the bits inverted and so takes the same path.
//!
//! All children stand on their entry nearest to the winner's in the current direction. Turning
//! round therefore seeks every child but the winner.

use std::cmp::Ordering;

use crate::entry::SeqNo;
use crate::error::Result;

use super::{Entry, InternalIter};

/// The children's entries in one order. With one child, that child; otherwise a [`MergeIter`].
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

/// See the module's comment. If two children have an entry with the same key and number, which
/// never happens, the earlier child's comes first and turning round may skip the other.
pub(crate) struct MergeIter {
    children: Vec<Box<dyn InternalIter>>,
    /// By child: the start of its key as a number that is smaller the sooner the key comes in the
    /// current direction. `u128::MAX` when the child has no more entries.
    ranks: Vec<u128>,
    /// Node 0 is the winner; node n >= 1 is the loser between nodes 2n and 2n + 1; child i is node
    /// k + i.
    tree: Vec<usize>,
    /// `None` is nowhere.
    direction: Option<Direction>,
}

impl MergeIter {
    pub(crate) fn new(children: Vec<Box<dyn InternalIter>>) -> MergeIter {
        MergeIter {
            ranks: vec![u128::MAX; children.len()],
            tree: vec![0; children.len()],
            children,
            direction: None,
        }
    }

    /// Places every child and starts afresh in a direction.
    fn place(
        &mut self,
        direction: Direction,
        mut place: impl FnMut(usize, &mut dyn InternalIter) -> Result<()>,
    ) -> Result<()> {
        self.direction = None;
        for (i, child) in self.children.iter_mut().enumerate() {
            place(i, &mut **child)?;
        }
        for i in 0..self.children.len() {
            self.ranks[i] = rank(&*self.children[i], direction);
        }
        self.build(direction);
        self.direction = Some(direction);
        Ok(())
    }

    /// Plays every match, from the leaves up.
    fn build(&mut self, direction: Direction) {
        let k = self.children.len();
        let mut winners: Vec<usize> = (0..2 * k).map(|node| node.saturating_sub(k)).collect();
        for node in (1..k).rev() {
            let (a, b) = (winners[2 * node], winners[2 * node + 1]);
            let first_wins = self.is_before(a, b, direction);
            winners[node] = if first_wins { a } else { b };
            self.tree[node] = if first_wins { b } else { a };
        }
        if let Some(root) = self.tree.first_mut() {
            // With one child node 1 is its leaf.
            *root = winners[1];
        }
    }

    /// Moves the winner and plays its matches again.
    #[inline]
    fn step(&mut self, direction: Direction) -> Result<()> {
        let mut winner = self.tree[0];
        let child = &mut self.children[winner];
        let moved = match direction {
            Direction::Forward => child.advance(),
            Direction::Backward => child.retreat(),
        };
        if let Err(error) = moved {
            self.direction = None;
            return Err(error);
        }
        self.ranks[winner] = rank(&**child, direction);
        let mut node = (winner + self.tree.len()) / 2;
        while node > 0 {
            let loser = self.tree[node];
            if self.is_before(loser, winner, direction) {
                self.tree[node] = winner;
                winner = loser;
            }
            node /= 2;
        }
        self.tree[0] = winner;
        Ok(())
    }

    /// Moves from the current entry in a direction, turning round first if need be.
    fn go(&mut self, direction: Direction) -> Result<()> {
        debug_assert!(self.entry().is_some());
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
        let winner = self.tree[0];
        self.place(direction, |i, child| match direction {
            Direction::Forward if i == winner => child.advance(),
            Direction::Forward => child.seek(&key, seqno),
            Direction::Backward if i == winner => child.retreat(),
            Direction::Backward => child.seek_before(&key, seqno),
        })
    }

    /// Whether child `a` comes before child `b` in a direction.
    #[inline]
    fn is_before(&self, a: usize, b: usize, direction: Direction) -> bool {
        match self.ranks[a].cmp(&self.ranks[b]) {
            Ordering::Less => true,
            Ordering::Greater => false,
            Ordering::Equal => self.is_before_by_entry(a, b, direction),
        }
    }

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

/// See [`MergeIter::ranks`].
#[inline]
fn rank(child: &dyn InternalIter, direction: Direction) -> u128 {
    let Some(entry) = child.entry() else {
        return u128::MAX;
    };
    let start = match entry.key.first_chunk::<16>() {
        Some(chunk) => u128::from_be_bytes(*chunk),
        None => {
            let mut padded = [0; 16];
            padded[..entry.key.len()].copy_from_slice(entry.key);
            u128::from_be_bytes(padded)
        }
    };
    match direction {
        Direction::Forward => start,
        Direction::Backward => !start,
    }
}

impl InternalIter for MergeIter {
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
        self.children.get(*self.tree.first()?)?.entry()
    }
}

#[cfg(test)]
mod tests;
