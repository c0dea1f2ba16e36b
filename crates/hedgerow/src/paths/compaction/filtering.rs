//! Asks the compaction filter of a keyspace about the entries of a merge.
//!
//! A filter changes what readers see, which no merge does otherwise. So it is asked only about
//! entries that no snapshot sees, and a merge whose filter has changed something is installed only
//! if no snapshot was taken since it began ([`super::job`]).

use std::sync::atomic::{AtomicBool, Ordering};

use crate::base::compaction_filter::{FilterPass, Verdict};
use crate::base::entry::{Flags, Kind, SeqNo, VALUE_BYTES_MAX};
use crate::base::error::Result;
use crate::base::expiry;
use crate::base::key_order::Order;
use crate::table::iter::Entry;

/// A filter during one merge.
pub(crate) struct MergeFilter {
    pass: Box<dyn FilterPass>,
    /// The number of the newest snapshot, if one is open.
    newest_snapshot: Option<SeqNo>,
    /// True if it has changed anything.
    pub(crate) has_changed: AtomicBool,
}

/// The decision about an entry, as it is stored.
pub(crate) enum FilterDecision {
    Same,
    Deleted,
    /// The value as it is stored.
    Value(Vec<u8>),
}

impl MergeFilter {
    pub(crate) fn new(pass: Box<dyn FilterPass>, snapshots: &[SeqNo]) -> MergeFilter {
        MergeFilter {
            pass,
            newest_snapshot: snapshots.last().copied(),
            has_changed: AtomicBool::new(false),
        }
    }

    /// Decides about a retained entry with this stored value. `skip_to` is the key up to which
    /// entries are removed unasked, if keys are sorted; each thread of a merge has its own.
    pub(crate) fn decide(
        &self,
        entry: &Entry<'_>,
        stored: &[u8],
        order: &dyn Order,
        skip_to: &mut Option<Vec<u8>>,
    ) -> Result<FilterDecision> {
        let is_seen = self
            .newest_snapshot
            .is_some_and(|newest| entry.seqno <= newest);
        if entry.tag.kind != Kind::Put || is_seen {
            return Ok(FilterDecision::Same);
        }
        let (expires, value) = match entry.tag.flags.has(Flags::EXPIRES) {
            true => expiry::split(stored).map(|(at, value)| (Some(at), value))?,
            false => (None, stored),
        };
        let key = order.decode(entry.key);
        let filtered = if skip_to.as_deref().is_some_and(|to| key < to) {
            FilterDecision::Deleted
        } else {
            *skip_to = None;
            match self.pass.decide(key, value) {
                Verdict::Keep => return Ok(FilterDecision::Same),
                Verdict::Remove => FilterDecision::Deleted,
                Verdict::Replace(new) if new == value || new.len() > VALUE_BYTES_MAX => {
                    return Ok(FilterDecision::Same);
                }
                Verdict::Replace(new) => {
                    FilterDecision::Value(expiry::stored(expires, &new).1.into_owned())
                }
                Verdict::SkipTo(to) => {
                    // Elsewhere the keys before it are not the next ones of the merge.
                    *skip_to = order.check_ranges().is_ok().then_some(to);
                    FilterDecision::Deleted
                }
            }
        };
        self.has_changed.store(true, Ordering::Relaxed);
        Ok(filtered)
    }
}
