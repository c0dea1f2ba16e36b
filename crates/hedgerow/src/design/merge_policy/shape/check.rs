//! Checks of the invariants of a shape.

use crate::base::error::{Error, Result};
use crate::base::table_meta::TableMeta;
use crate::design::merge_policy::tree_edit::Placement;

use super::{Facts, LEVELS_MAX, Level, RUNS_MAX, Run, Shape, Totals};

impl<T: Facts> Shape<T> {
    /// Checks every invariant listed in [`super`].
    ///
    /// # Errors
    /// `Corruption` that names the invariant, the expected and the found value.
    pub(crate) fn check(&self) -> Result<()> {
        let fail = |what: String| Err(Error::corruption(what));
        if self.levels.is_empty() || self.levels.len() > LEVELS_MAX {
            return fail(format!(
                "S4: expected 1 to {LEVELS_MAX} levels, found {}",
                self.levels.len()
            ));
        }
        let mut tables = 0;
        for (index, level) in self.levels.iter().enumerate() {
            level.check(index)?;
            for (group, run) in level.runs() {
                for table in &run.tables {
                    tables += 1;
                    let expected = Placement {
                        level: index as u8,
                        group: group as u32,
                        run: run.id,
                    };
                    let id = table.meta().id;
                    if self.table(id).map(|(at, _)| at) != Some(expected) {
                        return fail(format!(
                            "S5: expected table {} at {expected:?}, found {:?}",
                            id.0,
                            self.table(id).map(|(at, _)| at)
                        ));
                    }
                }
            }
        }
        if tables != self.places.len() {
            return fail(format!(
                "S5: expected {tables} tables to be known by number, found {}",
                self.places.len()
            ));
        }
        Ok(())
    }
}

impl<T: Facts> Level<T> {
    /// Checks S1 and S3 for one table.
    pub(super) fn fits(&self, group: usize, table: &TableMeta) -> Result<()> {
        let id = table.id.0;
        if table.smallest_key > table.largest_key {
            return Err(Error::corruption(format!(
                "S1: expected the smallest key of table {id} not to be above its largest, found {:?} and {:?}",
                String::from_utf8_lossy(&table.smallest_key),
                String::from_utf8_lossy(&table.largest_key),
            )));
        }
        if group >= self.groups.len() {
            return Err(Error::corruption(format!(
                "S3: expected table {id} in a group below {}, found group {group}",
                self.groups.len()
            )));
        }
        let first = self.group_for(&table.smallest_key);
        let last = self.group_for(&table.largest_key);
        if first != group || last != group {
            return Err(Error::corruption(format!(
                "S3: expected table {id} within group {group}, found keys of groups {first} to {last}"
            )));
        }
        Ok(())
    }

    fn check(&self, index: usize) -> Result<()> {
        let fail = |what: String| Err(Error::corruption(what));
        if self.groups.first().is_none_or(|it| !it.lower.is_empty()) {
            return fail(format!(
                "S3: expected a first group of level {index} from the empty key"
            ));
        }
        if !self.groups.is_sorted_by(|a, b| a.lower < b.lower) {
            return fail(format!(
                "S3: expected the groups of level {index} in key order"
            ));
        }
        let mut totals = Totals::default();
        for (at, group) in self.groups.iter().enumerate() {
            let mut of_group = Totals::default();
            if group.runs.len() > RUNS_MAX || !group.runs.is_sorted_by(|a, b| a.id > b.id) {
                return fail(format!(
                    "S2: expected at most {RUNS_MAX} runs, newest first, in level {index}, found {:?}",
                    group.runs.iter().map(|run| run.id.0).collect::<Vec<_>>()
                ));
            }
            for run in &group.runs {
                if run.tables.is_empty() {
                    return fail(format!(
                        "S2: expected tables in run {} of level {index}",
                        run.id.0
                    ));
                }
                for (place, table) in run.tables.iter().enumerate() {
                    self.fits(at, table.meta())?;
                    run.check_neighbours(place)?;
                    totals.add(table.meta());
                    of_group.add(table.meta());
                }
            }
            if of_group != group.totals {
                return fail(format!(
                    "S6: expected the totals of group {at} of level {index} to be {of_group:?}, found {:?}",
                    group.totals
                ));
            }
        }
        if totals != self.totals {
            return fail(format!(
                "S6: expected the totals of level {index} to be {totals:?}, found {:?}",
                self.totals
            ));
        }
        Ok(())
    }
}

impl<T: Facts> Run<T> {
    /// Checks S1 for the table at a place and the one after it.
    pub(super) fn check_neighbours(&self, at: usize) -> Result<()> {
        let (Some(table), Some(next)) = (self.tables.get(at), self.tables.get(at + 1)) else {
            return Ok(());
        };
        if table.meta().largest_key < next.meta().smallest_key {
            return Ok(());
        }
        Err(Error::corruption(format!(
            "S1: expected the tables of run {} not to overlap, found table {} up to {:?} and table {} from {:?}",
            self.id.0,
            table.meta().id.0,
            String::from_utf8_lossy(&table.meta().largest_key),
            next.meta().id.0,
            String::from_utf8_lossy(&next.meta().smallest_key),
        )))
    }
}
