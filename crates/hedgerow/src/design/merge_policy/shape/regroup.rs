//! Cuts a level into another number of groups. No table is touched: the placement of each follows
//! from its keys and from the present runs. So the manifest's description of a tree
//! ([`crate::tree::version::state`]) and the tree itself reach the same result.

use std::collections::BTreeMap;

use crate::base::error::{Error, Result};
use crate::base::table_meta::TableMeta;
use crate::design::merge_policy::tree_edit::Placement;

use super::{Facts, GROUPS_MAX, Level, RANGES_MAX, Shape, range_of};
use crate::base::entry::RunId;

impl<T: Facts> Level<T> {
    /// True if every table lies within one of `ranges` ranges, so that the level can be cut into
    /// them. Cost: looks at every table.
    pub(crate) fn fits_ranges(&self, ranges: u32) -> bool {
        self.tables().all(|table| is_within(table.meta(), ranges))
    }
}

/// True if a table lies within one of `ranges` ranges.
pub(crate) fn is_within(table: &TableMeta, ranges: u32) -> bool {
    range_of(&table.smallest_key, ranges) == range_of(&table.largest_key, ranges)
}

impl<T: Facts> Shape<T> {
    pub(super) fn regroup(&mut self, level: usize, ranges: u32) -> Result<()> {
        let depth = self.depth();
        let all = self.levels.iter().map(Level::ranges).sum::<u32>();
        let found = self.levels.get_mut(level);
        let found = found.ok_or_else(|| super::apply::no_level(level, depth))?;
        check_ranges(ranges, all - found.ranges())?;
        let old = std::mem::replace(found, Level::new(ranges));
        let tables: Vec<(Placement, T)> = old
            .tables()
            .filter_map(|table| self.places.remove(table.meta().id))
            .collect();
        let places = regrouped(tables.iter().map(|(at, table)| (*at, table.meta())), ranges);
        let tables = tables.into_iter().map(|(_, table)| table);
        self.put(places.into_iter().zip(tables).collect())
    }
}

/// Checks that a level may have `ranges` groups beside the `others` of all other levels.
pub(crate) fn check_ranges(ranges: u32, others: u32) -> Result<()> {
    if !(1..=RANGES_MAX).contains(&ranges) {
        return Err(Error::corruption(format!(
            "expected a level of 1 to {RANGES_MAX} groups, found {ranges}"
        )));
    }
    let all = others.saturating_add(ranges);
    if all > GROUPS_MAX {
        return Err(Error::corruption(format!(
            "expected at most {GROUPS_MAX} groups in the levels of a tree, found {all}"
        )));
    }
    Ok(())
}

/// The placements of a level's tables, in their order, after the level is cut into `ranges` ranges.
/// When groups become one, their newest runs become its newest run, and so on. Their keys differ,
/// so each run stays in order, and there are no more runs than in the largest group. A run has the
/// largest number of the runs in it.
pub(crate) fn regrouped<'t>(
    tables: impl Iterator<Item = (Placement, &'t TableMeta)> + Clone,
    ranges: u32,
) -> Vec<Placement> {
    let mut old: BTreeMap<u32, Vec<RunId>> = BTreeMap::new();
    for (at, _) in tables.clone() {
        old.entry(at.group).or_default().push(at.run);
    }
    for runs in old.values_mut() {
        runs.sort_unstable_by_key(|run| std::cmp::Reverse(*run));
        runs.dedup();
    }
    let group_of = |table: &TableMeta| range_of(&table.smallest_key, ranges) as u32;
    let mut joined: BTreeMap<u32, BTreeMap<u32, &[RunId]>> = BTreeMap::new();
    for (at, table) in tables.clone() {
        let groups = joined.entry(group_of(table)).or_default();
        groups.insert(at.group, &old[&at.group]);
    }
    let place = |(at, table): (Placement, &TableMeta)| {
        let group = group_of(table);
        let older_than = |run: &RunId| *run > at.run;
        let rank = old[&at.group].partition_point(older_than);
        let runs = joined[&group].values().filter_map(|runs| runs.get(rank));
        Placement {
            group,
            run: runs.max().copied().unwrap_or(at.run),
            ..at
        }
    };
    tables.map(place).collect()
}
