//! The choice among the tables of a level that may go down: one table, or slices of neighbours.

use std::cmp::Ordering;

use crate::base::entry::RunId;
use crate::base::table_meta::TableMeta;
use crate::design::merge_policy::plan::{Plan, Reason};
use crate::design::merge_policy::shape::{Facts, Level, Run, Tables};

use super::draft::Draft;
use super::{Planner, compare_ratios};

impl<'s, T: Facts> Planner<'s, T> {
    /// The table with the least overlap below for its size; among equals the one with the smallest
    /// number. Cost: looks once at every table of both levels.
    pub(super) fn plan_one_table(&self, level: usize, next: usize) -> Option<Plan> {
        let plan = |candidate: &Candidate<'s, T>| {
            let mut draft = Draft::default();
            draft.add(level, candidate.run, candidate.table);
            self.merge_down(draft, next, Reason::Capacity)
        };
        // The best candidate can nearly always start. Then the others need no order.
        let best = self.candidates(level, next).min_by(Candidate::compare)?;
        if let Some(plan) = plan(&best) {
            return Some(plan);
        }
        let mut candidates: Vec<_> = self.candidates(level, next).collect();
        candidates.sort_by(Candidate::compare);
        candidates[1..].iter().find_map(plan)
    }

    /// The idle tables of a level, each with its overlap in the next level.
    fn candidates(&self, level: usize, next: usize) -> impl Iterator<Item = Candidate<'s, T>> {
        let levels = &self.shape.levels;
        levels[level].runs().flat_map(move |(_, run)| {
            let mut below = Below::new(&levels[next]);
            let candidates = run.tables.chunks(1).map(move |table| Candidate {
                run: run.id,
                table,
                overlap_bytes: below.overlap_bytes(table[0].meta()),
            });
            candidates.filter(|it| !self.busy.contains(&it.table[0].meta().id))
        })
    }

    pub(super) fn overlap_bytes(&self, level: usize, lo: &[u8], hi: &[u8]) -> u64 {
        self.shape.levels[level]
            .groups_overlapping(lo, hi)
            .iter()
            .flat_map(|group| &group.runs)
            .flat_map(|run| run.overlapping(lo, hi))
            .fold(0, |sum, table| {
                table.bytes_within(lo, hi).saturating_add(sum)
            })
    }

    /// The first slice of a level, in key order, that can go down now.
    pub(super) fn plan_slice(&self, level: usize, next: usize, reason: Reason) -> Option<Plan> {
        self.shape.levels[level].runs().find_map(|(_, run)| {
            self.slices(level, run, |tables| {
                let mut draft = Draft::default();
                draft.add(level, run.id, tables);
                (draft, ())
            })
            .find_map(|(draft, ())| self.merge_down(draft, next, reason))
        })
    }

    /// Cuts the idle tables of a run, in key order, into slices of neighbours. A slice and its
    /// overlap below have up to [`PlanLimits::merge_bytes_max`]. Each slice begins at the end of
    /// the one before.
    pub(super) fn slices<'a, D: 'a>(
        &'a self,
        level: usize,
        run: &'s Run<T>,
        make: impl Fn(&'s [T]) -> D + 'a,
    ) -> impl Iterator<Item = D> + 'a {
        let usable = |table: &T| !self.busy.contains(&table.meta().id);
        let below = self.next_level(level);
        let mut from = 0;
        std::iter::from_fn(move || {
            from += run.tables[from..].iter().position(usable)?;
            let mut to = from;
            let mut bytes = 0_u64;
            while let Some(table) = run.tables.get(to).filter(|table| usable(table)) {
                let meta = table.meta();
                let overlap = below.map_or(0, |below| {
                    self.overlap_bytes(below, &meta.smallest_key, &meta.largest_key)
                });
                let taken = meta.file_bytes.saturating_add(overlap);
                bytes = bytes.saturating_add(taken / table.stands_for());
                if to > from && bytes > self.limits.merge_bytes_max {
                    break;
                }
                to += 1;
            }
            let slice = &run.tables[from..to];
            from = to;
            Some(make(slice))
        })
    }
}

/// The overlap of tables in a level. Tables must come in key order: the search for one continues
/// where the last one ended.
struct Below<'s, T> {
    /// Each run with its first table that does not end before the last table searched.
    runs: Vec<(&'s Tables<T>, usize)>,
}

impl<'s, T: Facts> Below<'s, T> {
    fn new(level: &'s Level<T>) -> Self {
        let runs = level.runs().map(|(_, run)| (&run.tables, 0)).collect();
        Below { runs }
    }

    fn overlap_bytes(&mut self, table: &TableMeta) -> u64 {
        let (lo, hi) = (&table.smallest_key, &table.largest_key);
        let mut bytes = 0_u64;
        for (tables, from) in &mut self.runs {
            let overlapping = tables.overlapping_from(*from, lo, hi);
            *from = overlapping.start;
            bytes = bytes.saturating_add(tables.bytes_within(overlapping, lo, hi));
        }
        bytes
    }
}

/// A table that may go down alone.
struct Candidate<'s, T> {
    run: RunId,
    /// A slice of one table.
    table: &'s [T],
    /// The bytes that it overlaps below.
    overlap_bytes: u64,
}

impl<T: Facts> Candidate<'_, T> {
    fn compare(&self, other: &Self) -> Ordering {
        let (meta, other_meta) = (self.table[0].meta(), other.table[0].meta());
        let ratio = (self.overlap_bytes, meta.file_bytes.max(1));
        let other_ratio = (other.overlap_bytes, other_meta.file_bytes.max(1));
        compare_ratios(ratio, other_ratio).then(meta.id.cmp(&other_meta.id))
    }
}
