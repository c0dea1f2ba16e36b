//! The rules for the versions and tombstones that a merge may leave out.
//!
//! Readers ask for a key at a number `s`: a live snapshot, or *now*, which is at or after every
//! number in the merge's inputs. A snapshot taken while the merge runs is a *now*. Write `v`, `w`
//! for versions of one key and let only Put, ValueRef and Delete be *final*: a reader that meets
//! one looks no further. A Merge operand is not final: its reader continues to older versions. The
//! answer at `s` is made of the newest final version numbered at most `s` and of the operands
//! between it and `s`.
//!
//! Rule 1. `v` is left out if there is a newer final version `w` and no snapshot `s` with
//! `v <= s < w`. It is enough to look at the next newer final version: a farther one has a larger
//! range of snapshots in its way.
//! *Proof that no answer changes*: a reader at `s < v` does not see `v`. Any other reader has
//! `s >= w`, so its newest final version is `w` or newer, and `v` is older than that: `v` is not
//! part of its answer, neither as the final version nor as an operand. If `w` itself is left out,
//! then by rule 1, because of a yet newer final version that every reader at or after `w` sees, or
//! by rule 2.
//!
//! Rule 2. A Delete `d` is left out if every reader sees it (no snapshot `s < d`) and nothing older
//! of its key is anywhere below the output. *Proof*: everything older in the inputs is left out by
//! rule 1, since every `s >= d`. So after the merge a reader that would have ended at `d` finds
//! nothing older at all, and nothing is what `d` says; operands newer than `d` apply to nothing in
//! both cases. Something older cannot come to lie below later: running merges do not write there
//! (rule P3 of the planner), and newer data only comes from above.
//!
//! A RangeDelete is about other keys than its own: it is kept, and makes nothing else go.

use crate::base::entry::{Kind, SeqNo, Tag};

/// The rule applied to a merge's entries in order: by key, then from the newest version to the
/// oldest.
#[derive(Debug)]
pub(crate) struct Retain {
    snapshots: Vec<SeqNo>,
    /// The next newer final version of the current key.
    newer_final: Option<SeqNo>,
}

impl Retain {
    /// `snapshots` are the numbers that are read at besides the present, ascending.
    pub(crate) fn new(snapshots: &[SeqNo]) -> Self {
        debug_assert!(snapshots.is_sorted());
        Retain {
            snapshots: snapshots.to_vec(),
            newer_final: None,
        }
    }

    /// Returns true if the output must have the next entry. `nothing_older_below` is called only
    /// for tombstones that every reader sees. It returns true if no table older than the output,
    /// inputs apart, holds this key
    /// ([`crate::design::merge_policy::shape::Shape::older_may_hold`]).
    pub(crate) fn keep(
        &mut self,
        key_is_new: bool,
        seqno: SeqNo,
        tag: Tag,
        nothing_older_below: impl FnOnce() -> bool,
    ) -> bool {
        if key_is_new {
            self.newer_final = None;
        }
        if tag.kind == Kind::RangeDelete {
            return true;
        }
        let shadowed = self
            .newer_final
            .is_some_and(|newer| !self.is_read_within(seqno, newer));
        if matches!(tag.kind, Kind::Put | Kind::ValueRef | Kind::Delete) {
            self.newer_final = Some(seqno);
        }
        if shadowed {
            return false;
        }
        let seen_by_all = self.snapshots.first().is_none_or(|oldest| seqno <= *oldest);
        !(tag.kind == Kind::Delete && seen_by_all && nothing_older_below())
    }

    /// Returns true if a snapshot `s` has `from <= s < to`.
    fn is_read_within(&self, from: SeqNo, to: SeqNo) -> bool {
        let at = self.snapshots.partition_point(|snapshot| *snapshot < from);
        self.snapshots
            .get(at)
            .is_some_and(|snapshot| *snapshot < to)
    }
}

#[cfg(test)]
mod tests;
