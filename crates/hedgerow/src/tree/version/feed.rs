//! The change feed in the description of a database: the slots that keep the log, and the changes
//! that the log does not have. Pure.
//!
//! Changes are kept from one number on, the *start*. The past begins with an edit that creates
//! every keyspace of that moment. So a reader knows the keyspace of every partition in the log.

use std::collections::BTreeMap;

use crate::base::entry::{LogPosition, SeqNo};

use super::edit::{Change, Edit, Slot};

/// Everything that a database keeps for consumers of its changes; empty without slots.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Feed {
    pub(crate) slots: BTreeMap<String, Slot>,
    /// The oldest segment of the log that is kept.
    pub(crate) segment: u32,
    /// All changes with larger numbers are there.
    pub(crate) start: SeqNo,
    /// The changes of keyspaces and the tables of bulk loads, by number. The first edit, at the
    /// start, creates all keyspaces.
    pub(crate) past: Vec<(SeqNo, Edit)>,
    /// The ends of earlier logs, and the segments with which the next ones began.
    pub(crate) ends: Vec<(LogPosition, SeqNo, u32)>,
}

impl Feed {
    pub(crate) fn is_on(&self) -> bool {
        !self.slots.is_empty()
    }

    /// The largest number of a change that the log may not have.
    pub(crate) fn last(&self) -> SeqNo {
        let last = self.past.last().map_or(SeqNo(0), |(at, _)| *at);
        last.max(self.start)
    }

    pub(crate) fn set_slot(&mut self, name: &str, slot: Option<Slot>) {
        match slot {
            Some(slot) => drop(self.slots.insert(name.to_owned(), slot)),
            None => drop(self.slots.remove(name)),
        }
        if !self.is_on() {
            *self = Feed::default();
        }
    }

    /// Adds changes at a number.
    pub(crate) fn add(&mut self, at: SeqNo, edit: &Edit) {
        if let [Change::Closed { end, last }, Change::LogStart { segment }] = edit[..] {
            return self.ends.push((end, last, segment));
        }
        let place = self.past.partition_point(|(number, _)| *number <= at);
        self.past.insert(place, (at, edit.clone()));
    }

    /// Forgets everything up to a number, and the segments before this one. `base` creates the
    /// keyspaces at that number.
    pub(crate) fn begin_at(&mut self, segment: u32, start: SeqNo, base: Edit) {
        self.past.retain(|(at, _)| *at > start);
        self.past.insert(0, (start, base));
        self.ends.retain(|(end, ..)| end.segment >= segment);
        (self.segment, self.start) = (segment, start);
    }

    /// The changes that lead here from nothing.
    pub(crate) fn snapshot(&self) -> Edit {
        let slot = |(name, slot): (&String, &Slot)| Change::SetSlot {
            name: name.clone(),
            slot: Some(*slot),
        };
        let past = self.past.iter().map(|(at, edit)| Change::Past {
            at: *at,
            edit: edit.clone(),
        });
        let end = |&(end, last, segment): &(LogPosition, SeqNo, u32)| Change::Past {
            at: last,
            edit: vec![Change::Closed { end, last }, Change::LogStart { segment }],
        };
        let start = Change::FeedStart {
            segment: self.segment,
            at: self.start,
        };
        let ends = self.ends.iter().map(end);
        let mut edit: Edit = self
            .slots
            .iter()
            .map(slot)
            .chain(past)
            .chain(ends)
            .collect();
        if self.is_on() {
            edit.push(start);
        }
        edit
    }
}
