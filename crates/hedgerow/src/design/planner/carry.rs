//! Sweeps of leveled levels, and how one carries the next level along.
//!
//! A level that takes up what the one above sweeps down, and is over its capacity then, would be swept
//! itself right after: everything would be written into it only to be read again. So both sweeps begin
//! together, and slices of the upper one go through the lower one into the level below that, as a carry
//! goes through the digits of a counter. Of the `r` merges into a level of ratio `r` the last and
//! largest is saved: `(r - 1) / 2` writes of an entry where sweeps one by one need `(r + 1) / 2`.

use crate::design::merge_policy::plan::{Plan, Reason};
use crate::design::merge_policy::shape::{Facts, Run};
use crate::design::merge_policy::{CARRIED_TABLES_MIN, CARRY_FACTOR, Cut};

use super::Planner;
use super::draft::Draft;

/// A level that would be over so many times its capacity waits for no sweep below. One that is merged in time hardly ever is:
/// it gets what is above it, which has as much at most (measured in docs/design/0003-merge-cuts.md).
const WAITING_TIMES_MAX: u64 = 2;

impl<'s, T: Facts> Planner<'s, T> {
    /// The beginning of the sweep of a level to which `incoming` bytes come at the same time; before that
    /// the one of the next level, if that will be over its capacity. Nothing while that one is swept and
    /// cannot be carried along: what comes to it would be written only to be read again. That is saved where
    /// merging keeps up. Where it does not, a level grows while it waits, and what comes to it is merged into all that
    /// has gathered: it waits no longer than [`WAITING_TIMES_MAX`] says (P6).
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
            let waits_too_long = bytes / WAITING_TIMES_MAX > self.target(level).capacity_bytes;
            return (waits_too_long || self.can_carry(level)).then_some(begin);
        }
        let bytes_below = bytes.saturating_add(self.shape.levels[next].bytes());
        let deeper = self.next_level(next)?;
        if self.can_carry(level) || self.is_full_with(deeper, bytes_below) {
            return self.begin_sweep(next, bytes);
        }
        Some(begin)
    }

    /// Whether a level, which can be carried, is swept or will have to be when these bytes have come.
    fn is_full_with(&self, level: usize, incoming: u64) -> bool {
        let data = &self.shape.levels[level];
        let bytes = incoming.saturating_add(data.bytes());
        let is_full = bytes > self.target(level).capacity_bytes;
        self.can_be_carried(level) && !data.is_empty() && (data.draining.is_some() || is_full)
    }

    /// Whether slices of a level that go through the next one, and through those below that are swept,
    /// are of enough tables.
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

    /// Whether a sweep of a level waits for the one of the level above, which takes it along.
    pub(super) fn is_carried(&self, level: usize) -> bool {
        (1..level).any(|upper| {
            let data = &self.shape.levels[upper];
            data.draining.is_some()
                && self.next_level(upper) == Some(level)
                && self.can_be_carried(upper)
        })
    }

    /// The first slice of a level that is swept, in key order, that can go down now.
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

    /// How far down tables go, and how much that merge reads: through every level that is swept, too,
    /// as long as all that they overlap there still has to go down.
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

    /// Whether the sweep of a level awaits all that overlaps a draft.
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

    /// Whether a level is one run that goes down in slices into one run.
    fn can_be_carried(&self, level: usize) -> bool {
        let target = self.target(level);
        let next = self.next_level(level);
        target.cut == Cut::PartitionedFull
            && target.capacity_bytes > 0
            && next.is_some_and(|next| !self.is_swept(level, next))
    }
}
