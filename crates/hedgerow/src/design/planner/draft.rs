//! A plan in the making: tables from the newest layer to the oldest, and their key range.

use crate::base::entry::RunId;
use crate::design::merge_policy::plan::{Input, widen};
use crate::design::merge_policy::shape::{Facts, Run, Shape, bytes_of};

/// Tables of one run, in key order.
#[derive(Debug)]
struct Part<'s, T> {
    level: usize,
    run: RunId,
    tables: &'s [T],
}

impl<T> Clone for Part<'_, T> {
    fn clone(&self) -> Self {
        Part { ..*self }
    }
}

/// Inputs, newest first, and their key range.
#[derive(Debug)]
pub(super) struct Draft<'s, T> {
    parts: Vec<Part<'s, T>>,
    range: Option<(&'s [u8], &'s [u8])>,
}

impl<T> Default for Draft<'_, T> {
    fn default() -> Self {
        Draft {
            parts: Vec::new(),
            range: None,
        }
    }
}

impl<T> Clone for Draft<'_, T> {
    fn clone(&self) -> Self {
        Draft {
            parts: self.parts.clone(),
            range: self.range,
        }
    }
}

impl<'s, T: Facts> Draft<'s, T> {
    /// Adds neighbouring tables of a run that is older than the whole draft.
    pub(super) fn add(&mut self, level: usize, run: RunId, tables: &'s [T]) {
        if let (Some(first), Some(last)) = (tables.first(), tables.last()) {
            widen(
                &mut self.range,
                &first.meta().smallest_key,
                &last.meta().largest_key,
            );
            self.parts.push(Part { level, run, tables });
        }
    }

    /// Adds the tables of an older run that overlap the draft's key range.
    pub(super) fn extend(&mut self, level: usize, run: &'s Run<T>) {
        if let Some((lo, hi)) = self.range {
            self.add(level, run.id, run.overlapping(lo, hi));
        }
    }

    /// Extends the draft by all runs of these levels, newest first. Each layer widens the range for
    /// the layers below it, which is all that recency needs.
    pub(super) fn descend(&mut self, shape: &'s Shape<T>, from: usize, to: usize) {
        for level in from..to {
            let Some((lo, hi)) = self.range else { return };
            for group in shape.levels[level].groups_overlapping(lo, hi) {
                for run in &group.runs {
                    self.extend(level, run);
                }
            }
        }
    }

    pub(super) fn range(&self) -> Option<(&'s [u8], &'s [u8])> {
        self.range
    }

    /// The level of the newest input.
    pub(super) fn top(&self) -> Option<usize> {
        self.parts.first().map(|part| part.level)
    }

    /// The number of the newest input's run.
    pub(super) fn newest_run(&self) -> Option<RunId> {
        self.parts.first().map(|part| part.run)
    }

    /// The number of runs that the inputs belong to.
    pub(super) fn runs(&self) -> usize {
        self.parts.len()
    }

    /// True if no input is in this level and none lies between the ends of another one.
    pub(super) fn is_apart_above(&self, level: usize) -> bool {
        self.is_apart() && self.parts.iter().all(|part| part.level < level)
    }

    /// True if no input lies between the ends of another one.
    pub(super) fn is_apart(&self) -> bool {
        let ends = |part: &Part<'s, T>| {
            let (first, last) = part.tables.first().zip(part.tables.last())?;
            Some((
                first.meta().smallest_key.as_slice(),
                last.meta().largest_key.as_slice(),
            ))
        };
        let mut ranges: Vec<_> = self.parts.iter().filter_map(ends).collect();
        ranges.sort_unstable();
        ranges.windows(2).all(|pair| pair[0].1 < pair[1].0)
    }

    pub(super) fn bytes(&self) -> u64 {
        self.parts
            .iter()
            .fold(0, |sum, part| bytes_of(part.tables).saturating_add(sum))
    }

    /// The bytes that a merge into a level reads. A table there that stands for several counts with
    /// the part that the other inputs span.
    pub(super) fn bytes_into(&self, level: usize) -> u64 {
        let (there, above): (Vec<_>, Vec<_>) =
            self.parts.iter().partition(|part| part.level == level);
        let mut range = None;
        let mut bytes = 0_u64;
        for part in above {
            if let (Some(first), Some(last)) = (part.tables.first(), part.tables.last()) {
                let (lo, hi) = (&first.meta().smallest_key, &last.meta().largest_key);
                widen(&mut range, lo, hi);
            }
            bytes = bytes.saturating_add(bytes_of(part.tables));
        }
        let Some((lo, hi)) = range else { return bytes };
        let tables = there.iter().flat_map(|part| part.tables);
        tables.fold(bytes, |sum, table| {
            table.bytes_within(lo, hi).saturating_add(sum)
        })
    }

    pub(super) fn tables(&self) -> impl Iterator<Item = &'s T> {
        self.parts.iter().flat_map(|part| part.tables)
    }

    pub(super) fn into_inputs(self) -> Vec<Input> {
        let input = |part: Part<'s, T>| Input {
            level: part.level,
            run: part.run,
            tables: part.tables.iter().map(|table| table.meta().id).collect(),
        };
        self.parts.into_iter().map(input).collect()
    }
}
