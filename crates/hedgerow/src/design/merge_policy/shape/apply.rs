//! Applies an edit to a shape.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::base::error::{Error, Result};
use crate::base::page::TableId;
use crate::base::table_meta::TableMeta;
use crate::design::merge_policy::tree_edit::{Placement, TreeEdit};

use super::{Facts, LEVELS_MAX, Level, RUNS_MAX, Run, RunFilters, Shape};
use crate::base::entry::RunId;

impl<T: Facts> Shape<T> {
    /// Applies an edit. `make` turns the facts of an added table into the table type of the shape.
    ///
    /// Cost: moves the tables of each touched run without reading them, and does a few binary
    /// searches per table of the edit.
    ///
    /// # Errors
    /// `Corruption` if the edit does not fit. The shape must not be used then.
    pub(crate) fn apply(
        &mut self,
        edit: &TreeEdit,
        mut make: impl FnMut(&TableMeta) -> T,
    ) -> Result<()> {
        if let Some(depth) = edit.shift_to {
            self.shift(usize::from(depth))?;
        }
        let depth = edit.depth.map(usize::from);
        self.grow(depth)?;
        self.policy_note = edit.policy_note.unwrap_or(self.policy_note);
        for (level, ranges) in &edit.ranges {
            self.regroup(usize::from(*level), *ranges)?;
        }

        let moved_ids: Vec<TableId> = edit.moved.iter().map(|(id, _)| *id).collect();
        let mut swept = vec![None; self.levels.len()];
        self.take(&edit.removed, &mut swept)?;
        let moved = self.take(&moved_ids, &mut swept)?;

        let mut additions: Vec<(Placement, T)> = Vec::new();
        additions.extend(edit.moved.iter().map(|(_, to)| *to).zip(moved));
        additions.extend(edit.added.iter().map(|(to, meta)| (*to, make(meta))));
        let highest = additions.iter().map(|(to, _)| usize::from(to.level)).min();
        self.put(additions)?;

        for (level, largest_key) in swept.into_iter().enumerate() {
            let went_down = highest.is_none_or(|highest| highest > level);
            self.levels[level].advance_sweep(largest_key.filter(|_| went_down));
        }
        for (level, through) in &edit.draining {
            let depth = self.levels.len();
            let level = self
                .levels
                .get_mut(usize::from(*level))
                .ok_or_else(|| no_level(usize::from(*level), depth))?;
            level.draining = *through;
            level.drained_to = None;
        }
        for level in &mut self.levels {
            level.end_sweep();
        }
        self.shrink(depth)
    }

    /// Inserts or drops empty levels under level 0. Cost: every table gets a new placement.
    fn shift(&mut self, depth: usize) -> Result<()> {
        check_depth(depth)?;
        let inserted = depth.saturating_sub(self.depth());
        let dropped = self.depth().saturating_sub(depth);
        self.check_empty(1..1 + dropped, depth)?;
        let new = std::iter::repeat_with(|| Level::new(1)).take(inserted);
        self.levels.splice(1..1 + dropped, new);
        let below = self.places.values_mut().filter(|(at, _)| at.level > 0);
        below.for_each(|(at, _)| at.level = at.level + inserted as u8 - dropped as u8);
        Ok(())
    }

    fn grow(&mut self, depth: Option<usize>) -> Result<()> {
        let Some(depth) = depth else { return Ok(()) };
        check_depth(depth)?;
        while self.levels.len() < depth {
            self.levels.push(Level::new(1));
        }
        Ok(())
    }

    fn shrink(&mut self, depth: Option<usize>) -> Result<()> {
        let Some(depth) = depth else { return Ok(()) };
        self.check_empty(depth..self.depth(), depth)?;
        self.levels.truncate(depth);
        Ok(())
    }

    /// Checks that the levels to be dropped are empty.
    fn check_empty(&self, mut lost: Range<usize>, depth: usize) -> Result<()> {
        match lost.find(|&index| !self.levels[index].is_empty()) {
            None => Ok(()),
            Some(index) => Err(Error::corruption(format!(
                "expected level {index} to be empty when the tree is cut to {depth} levels, found {} bytes",
                self.levels[index].bytes()
            ))),
        }
    }

    /// Takes tables out and returns them in the same order. `swept` collects, per level, the
    /// largest key taken from the run of its sweep.
    fn take(&mut self, ids: &[TableId], swept: &mut [Option<Vec<u8>>]) -> Result<Vec<T>> {
        let mut taken = Vec::with_capacity(ids.len());
        let mut by_run: BTreeMap<(u8, u32, RunId), Vec<usize>> = BTreeMap::new();
        for id in ids {
            let (placement, table) = self.places.remove(*id).ok_or_else(|| {
                Error::corruption(format!("expected table {} in the tree, found none", id.0))
            })?;
            let level = &mut self.levels[usize::from(placement.level)];
            let group = level.group_mut(placement.group as usize);
            let group = group.expect("S5: the group of a known table exists");
            let run = group
                .run(placement.run)
                .expect("S5: the run of a known table exists");
            let at = run.first_ending_at_or_after(&table.meta().largest_key);
            debug_assert_eq!(run.tables[at].meta().id, *id, "S5");
            by_run
                .entry((placement.level, placement.group, placement.run))
                .or_default()
                .push(at);
            group.totals.remove(table.meta());
            level.totals.remove(table.meta());
            if level.draining == Some(placement.run) {
                let largest = &mut swept[usize::from(placement.level)];
                *largest = largest.take().max(Some(table.meta().largest_key.clone()));
            }
            taken.push(table);
        }
        for ((level, group, run), mut places) in by_run {
            places.sort_unstable();
            let (level, place) = (&mut self.levels[usize::from(level)], group as usize);
            let group = level.group_mut(place).expect("found above");
            let at = group.place_of(run).expect("found above");
            group.runs[at].tables.remove(&places);
            if group.runs[at].tables.is_empty() {
                group.runs.remove(at);
                group.keep_filters();
            }
            if group.runs.is_empty() {
                level.used.remove(&place);
            }
        }
        Ok(taken)
    }

    pub(super) fn put(&mut self, additions: Vec<(Placement, T)>) -> Result<()> {
        let mut by_run: BTreeMap<(u8, u32, RunId), Vec<T>> = BTreeMap::new();
        for (to, table) in additions {
            let depth = self.levels.len();
            let level = self
                .levels
                .get_mut(usize::from(to.level))
                .ok_or_else(|| no_level(usize::from(to.level), depth))?;
            level.fits(to.group as usize, table.meta())?;
            level.totals.add(table.meta());
            if let Some(group) = level.group_mut(to.group as usize) {
                group.totals.add(table.meta());
            }
            let id = table.meta().id;
            if self.places.insert(id, to, table.clone()).is_some() {
                return Err(Error::corruption(format!(
                    "expected table {} to be new, found it in the tree",
                    id.0
                )));
            }
            by_run
                .entry((to.level, to.group, to.run))
                .or_default()
                .push(table);
        }
        for ((level, group, run), mut tables) in by_run {
            tables.sort_by(|a, b| a.meta().smallest_key.cmp(&b.meta().smallest_key));
            let (level_of, place) = (&mut self.levels[usize::from(level)], group as usize);
            level_of.used.insert(place);
            let group = level_of.group_mut(place).expect("found above");
            group.filters.run_grew(run);
            group.keep_filters();
            let at = match group.place_of(run) {
                Ok(at) => at,
                Err(at) => {
                    group.runs.insert(at, Run::new(run, Vec::new()));
                    at
                }
            };
            if group.runs.len() > RUNS_MAX {
                return Err(Error::corruption(format!(
                    "expected at most {RUNS_MAX} runs in a group of level {level}, found {}",
                    group.runs.len()
                )));
            }
            group.runs[at].insert_all(tables)?;
        }
        Ok(())
    }
}

/// Checks S4.
pub(crate) fn check_depth(depth: usize) -> Result<()> {
    if (1..=LEVELS_MAX).contains(&depth) {
        return Ok(());
    }
    Err(Error::corruption(format!(
        "expected a tree of 1 to {LEVELS_MAX} levels, found {depth}"
    )))
}

pub(super) fn no_level(found: usize, depth: usize) -> Error {
    Error::corruption(format!("expected a level below {depth}, found {found}"))
}

impl<T: Facts> Level<T> {
    fn advance_sweep(&mut self, key: Option<Vec<u8>>) {
        if self.draining.is_some() && key > self.drained_to {
            self.drained_to = key;
        }
    }

    /// Ends the sweep if no table awaits it.
    fn end_sweep(&mut self) {
        let awaited = self.draining.is_some()
            && self
                .runs()
                .filter_map(|(_, run)| run.tables.last().map(|table| (run.id, table)))
                .any(|(run, table)| self.sweep_awaits(run, table.meta()));
        if !awaited {
            self.draining = None;
            self.drained_to = None;
        }
    }
}
