//! Sweeps of leveled levels, and the carry of one through the next level.
//!
//! A sweep may fill the level below over its capacity. That level would then be swept right after,
//! and everything written into it would be read again. So both sweeps begin together, and slices of
//! the upper level pass through the lower one into the level below it, like a carry through the
//! digits of a counter. Of the `r` merges into a level of ratio `r`, this saves the last and
//! largest one: `(r - 1) / 2` writes of an entry instead of `(r + 1) / 2`.

use crate::design::merge_policy::plan::{Plan, Reason};
use crate::design::merge_policy::shape::{Facts, Run};
use crate::design::merge_policy::{CARRIED_TABLES_MIN, CARRY_FACTOR};

use super::Planner;
use super::draft::Draft;

/// A level that would exceed its capacity this many times does not wait for a sweep below. A level
/// whose merges are in time hardly ever does, because it gets the content of the level above, which
/// is at most as much (measured in docs/design/0003-merge-cuts.md).
const WAITING_TIMES_MAX: u64 = 2;

impl<'s, T: Facts> Planner<'s, T> {
    /// The beginning of the sweep of a level that gets `incoming` bytes at the same time. If the
    /// next level will be over its capacity, its sweep begins first. Returns `None` while the next
    /// level is swept and cannot be carried along: data that arrives there would be written only to
    /// be read again. This saves writes while merging keeps up. Otherwise a level grows while it
    /// waits, and each arrival is merged into all that has gathered. So the wait ends at
    /// [`WAITING_TIMES_MAX`] (P6).
    pub(super) fn begin_sweep(&self, level: usize, incoming: u64) -> Option<Plan> {
        let data = &self.shape.levels[level];
        let begin = Plan::Drain {
            level,
            through: data.newest_run()?,
        };
        let bytes = incoming.saturating_add(data.bytes());
        let next = self.next_level(level)?;
        if !self.is_full_with(next, bytes) {
            return Some(begin);
        }
        if self.shape.levels[next].draining.is_some() {
            let waits_too_long = self.target(level).is_exceeded_by(bytes / WAITING_TIMES_MAX);
            return (waits_too_long || self.can_carry(level)).then_some(begin);
        }
        let bytes_below = bytes.saturating_add(self.shape.levels[next].bytes());
        let deeper = self.next_level(next)?;
        if self.can_carry(level) || self.is_full_with(deeper, bytes_below) {
            return self.begin_sweep(next, bytes);
        }
        Some(begin)
    }

    /// True if a level can be carried, and is swept or will have to be after these bytes have come.
    fn is_full_with(&self, level: usize, incoming: u64) -> bool {
        let data = &self.shape.levels[level];
        let bytes = incoming.saturating_add(data.bytes());
        let is_full = self.target(level).is_exceeded_by(bytes);
        self.can_be_carried(level) && !data.is_empty() && (data.draining.is_some() || is_full)
    }

    /// True if slices of a level that pass through the next one, and through the swept levels below
    /// it, have enough tables.
    fn can_carry(&self, level: usize) -> bool {
        let data = &self.shape.levels[level];
        let mut bytes = data.bytes();
        let below = std::iter::successors(self.next_level(level), |at| self.next_level(*at));
        for (passed, at) in below.enumerate() {
            let below = &self.shape.levels[at];
            bytes = bytes.saturating_add(below.bytes());
            if passed > 0 && below.draining.is_none() {
                break;
            }
        }
        let tables: u64 = data.tables().map(Facts::stands_for).sum();
        let table_bytes = bytes / tables.max(1);
        table_bytes.saturating_mul(CARRIED_TABLES_MIN) <= self.carried_bytes_max()
    }

    fn carried_bytes_max(&self) -> u64 {
        self.limits.merge_bytes_max.saturating_mul(CARRY_FACTOR)
    }

    /// True if the sweep of a level waits for that of the level above, which carries it.
    pub(super) fn is_carried(&self, level: usize) -> bool {
        (1..level).any(|upper| {
            let data = &self.shape.levels[upper];
            data.draining.is_some()
                && self.next_level(upper) == Some(level)
                && self.can_be_carried(upper)
        })
    }

    /// The first slice of a swept level, in key order, that can go down now.
    pub(super) fn plan_sweep_slice(&self, level: usize) -> Option<Plan> {
        let mut runs = self.shape.levels[level].runs();
        runs.find_map(|(_, run)| self.plan_slice_of(level, run))
    }

    fn plan_slice_of(&self, level: usize, run: &'s Run<T>) -> Option<Plan> {
        let data = &self.shape.levels[level];
        let mut from = 0;
        while from < run.tables.len() {
            let mut slice = None;
            let mut to = from;
            while let Some(table) = run.tables.get(to).map(Facts::meta) {
                if self.busy.contains(&table.id) || !data.sweep_awaits(run.id, table) {
                    break;
                }
                let mut draft = Draft::default();
                draft.add(level, run.id, &run.tables[from..=to]);
                let (target, bytes) = self.carried_to(level, &draft)?;
                let bytes_max = match self.next_level(level) == Some(target) {
                    true => self.limits.merge_bytes_max,
                    false => self.carried_bytes_max(),
                };
                if to > from && bytes > bytes_max {
                    break;
                }
                slice = Some((draft, target));
                to += 1;
            }
            if let Some((draft, target)) = slice
                && let Some(plan) = self.merge_down(draft, target, Reason::Capacity)
            {
                return Some(plan);
            }
            from = to.max(from + 1);
        }
        None
    }

    /// The level that tables go down to, and the bytes that this merge reads. They pass through
    /// every swept level as long as its sweep awaits all that they overlap.
    fn carried_to(&self, level: usize, tables: &Draft<'s, T>) -> Option<(usize, u64)> {
        let stands_for = tables.tables().map(Facts::stands_for).max().unwrap_or(1);
        let mut to = self.next_level(level)?;
        let mut draft = tables.clone();
        draft.descend(self.shape, level + 1, to + 1);
        while let Some(next) = self.next_level(to).filter(|_| self.is_awaited(to, &draft)) {
            let mut longer = draft.clone();
            longer.descend(self.shape, to + 1, next + 1);
            if longer.bytes_into(next) / stands_for > self.carried_bytes_max() {
                break;
            }
            (draft, to) = (longer, next);
        }
        Some((to, draft.bytes_into(to) / stands_for))
    }

    /// True if the sweep of a level awaits all tables that overlap a draft.
    fn is_awaited(&self, level: usize, draft: &Draft<'s, T>) -> bool {
        let data = &self.shape.levels[level];
        let Some((lo, hi)) = draft.range().filter(|_| data.draining.is_some()) else {
            return false;
        };
        self.can_be_carried(level)
            && data.runs().all(|(_, run)| {
                let mut tables = run.overlapping(lo, hi).iter();
                tables.all(|table| data.sweep_awaits(run.id, table.meta()))
            })
    }

    /// True if a level is one run that goes down in slices into one run.
    fn can_be_carried(&self, level: usize) -> bool {
        let target = self.target(level);
        let next = self.next_level(level);
        target.goes_down_in_slices()
            && target.is_in_use()
            && next.is_some_and(|next| !self.is_swept(level, next))
    }
}
