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
//! A put that has expired for every reader, present and future, is a Delete: each of them takes it
//! for one.
//!
//! Rule 1 holds for an operand `w` that covers `v` and for this `v` alone, since a reader at or
//! after `w` skips what `w` covers.
//!
//! A range tombstone is final for each key that it deletes, and it is no entry. So `w` of rule 1
//! may be a range tombstone. Rule 1 holds for an older delete of the same fragment in place of `v`,
//! and rule 2 for a fragment in place of `d` if nothing older of *any* of its keys is below the
//! output.

use crate::base::entry::{Kind, SeqNo, Tag};
use crate::base::error::Result;
use crate::base::expiry;
use crate::base::range_tombstones::RangeTombstones;
use crate::base::table_meta::TableMeta;
use crate::tree::snapshot_list::SnapshotFacts;

/// Returns true if range tombstones hide everything in a table from every reader, now and later:
/// rule 1 for all that it may hold. Its own range tombstones are older than those that hide it, and
/// about fewer keys. `ranges` are those of the whole tree.
pub(crate) fn hide_table(ranges: &RangeTombstones, table: &TableMeta, snapshots: &[SeqNo]) -> bool {
    let (smallest, largest) = (table.smallest_seqno, table.largest_seqno);
    ranges.cover(&table.smallest_key, &table.largest_key, |newer| {
        largest < newer && !is_read_within(snapshots, smallest, newer)
    })
}

/// Returns true if a snapshot `s` has `from <= s < to`.
fn is_read_within(snapshots: &[SeqNo], from: SeqNo, to: SeqNo) -> bool {
    let at = snapshots.partition_point(|snapshot| *snapshot < from);
    snapshots.get(at).is_some_and(|snapshot| *snapshot < to)
}

/// The rule applied to a merge's entries in order: by key, then from the newest version to the
/// oldest.
#[derive(Debug)]
pub(crate) struct Retain {
    snapshots: Vec<SeqNo>,
    /// Entries that expire up to this time have expired for every reader.
    expired: u64,
    /// All range tombstones of the inputs.
    ranges: RangeTombstones,
    /// The next newer final version of the current key.
    newer_final: Option<SeqNo>,
    /// The next newer operand of the current key that covers others, and the oldest it covers.
    covering: Option<(SeqNo, SeqNo)>,
}

impl Retain {
    /// A rule for readers at the present and at what is held.
    pub(crate) fn new(held: &SnapshotFacts, ranges: RangeTombstones) -> Self {
        debug_assert!(held.snapshots.is_sorted());
        Retain {
            snapshots: held.snapshots.clone(),
            expired: held.expired,
            ranges,
            newer_final: None,
            covering: None,
        }
    }

    /// The range tombstones that the output must have. `nothing_older_below` is called for the
    /// first and the last key of a fragment, as [`Retain::keep`] calls it for a key.
    pub(crate) fn ranges(
        &self,
        mut nothing_older_below: impl FnMut(&[u8], &[u8]) -> bool,
    ) -> RangeTombstones {
        self.ranges.clone().filtered(|fragment, newer, delete| {
            let shadowed = newer.iter().any(|newer| {
                newer.hides(delete) && !self.is_read_within(delete.seqno, newer.seqno)
            });
            let mut is_needless = || nothing_older_below(&fragment.start, fragment.last_key());
            !(shadowed || self.is_seen_by_all(delete.seqno) && is_needless())
        })
    }

    /// Returns true if a stored put that expires has expired for every reader: it is a delete.
    #[cold]
    pub(crate) fn is_expired(&self, stored: &[u8]) -> Result<bool> {
        Ok(expiry::split(stored)?.0 <= self.expired)
    }

    /// Returns true if the output must have the next entry. `nothing_older_below` is called only
    /// for tombstones that every reader sees. It returns true if no table older than the output,
    /// inputs apart, holds this key
    /// ([`crate::design::merge_policy::shape::Shape::older_may_hold`]).
    pub(crate) fn keep(
        &mut self,
        (key, key_is_new): (&[u8], bool),
        seqno: SeqNo,
        tag: Tag,
        nothing_older_below: impl FnOnce() -> bool,
    ) -> bool {
        if key_is_new {
            self.newer_final = None;
            self.covering = None;
        }
        let shadowed = self
            .newer_final
            .is_some_and(|newer| !self.is_read_within(seqno, newer))
            || self.is_deleted(key, seqno)
            || self.is_covered(seqno);
        if matches!(tag.kind, Kind::Put | Kind::ValueRef | Kind::Delete) {
            self.newer_final = Some(seqno);
        }
        if shadowed {
            return false;
        }
        !(tag.kind == Kind::Delete && self.is_seen_by_all(seqno) && nothing_older_below())
    }

    /// Notes an operand of the current key that covers others from a number on, so that these may
    /// go.
    pub(crate) fn note_covering(&mut self, seqno: SeqNo, from: SeqNo) {
        self.covering = Some((seqno, from));
    }

    /// Returns true if a newer operand covers a version, and no snapshot sees the version only.
    fn is_covered(&self, seqno: SeqNo) -> bool {
        let covering = self.covering.filter(|(_, from)| *from <= seqno);
        covering.is_some_and(|(newer, _)| !self.is_read_within(seqno, newer))
    }

    /// Returns true if a range tombstone makes a version go. Its next newer one has the smallest
    /// range of snapshots in its way. One of the same number can only be that of the delete that
    /// stands for it in a table without other entries.
    fn is_deleted(&self, key: &[u8], seqno: SeqNo) -> bool {
        if self.ranges.is_empty() {
            return false;
        }
        let newer = self.ranges.of(key).take_while(|at| *at >= seqno).last();
        newer.is_some_and(|newer| !self.is_read_within(seqno, newer))
    }

    /// Returns true if no snapshot sees the older one of two versions only.
    pub(crate) fn is_one_stripe(&self, older: SeqNo, newer: SeqNo) -> bool {
        !self.is_read_within(older, newer)
    }

    /// Returns true if every reader sees a version with this number.
    pub(crate) fn is_seen_by_all(&self, seqno: SeqNo) -> bool {
        self.snapshots.first().is_none_or(|oldest| seqno <= *oldest)
    }

    fn is_read_within(&self, from: SeqNo, to: SeqNo) -> bool {
        is_read_within(&self.snapshots, from, to)
    }
}

#[cfg(test)]
mod tests;
