//! A tree on disk: its tables with their places, and its shape.

use std::collections::BTreeMap;

use crate::base::entry::{KeyspaceId, RunId, SeqNo};
use crate::base::error::Result;
use crate::base::page::TableId;
use crate::base::table_meta::TableMeta;
use crate::design::merge_policy::shape::{check_depth, check_ranges, regrouped};
use crate::design::merge_policy::tree_edit::Placement;

use super::misfit;

/// A partition's tree on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TreeDescription {
    pub(crate) keyspace: KeyspaceId,
    pub(crate) tables: BTreeMap<TableId, (Placement, TableMeta)>,
    pub(crate) flushed_through: SeqNo,
    /// By level.
    pub(crate) draining: BTreeMap<u8, RunId>,
    /// The number of groups of each level that has several.
    pub(crate) ranges: BTreeMap<u8, u32>,
    pub(crate) depth: u8,
    /// The depth that the merge policy counts; 0 if it counts none.
    pub(crate) policy_note: u8,
}

impl TreeDescription {
    /// A new tree.
    pub(super) fn empty(keyspace: KeyspaceId, depth: u8) -> TreeDescription {
        TreeDescription {
            keyspace,
            tables: BTreeMap::new(),
            flushed_through: SeqNo(0),
            draining: BTreeMap::new(),
            ranges: BTreeMap::new(),
            depth,
            policy_note: 0,
        }
    }

    /// Inserts or removes levels under level 0; the levels below get other numbers.
    pub(super) fn shift(&mut self, depth: u8) -> Result<()> {
        let by = i16::from(depth) - i16::from(self.depth);
        let shifted = |level: u8| match u8::try_from(i16::from(level) + by) {
            _ if level == 0 => Ok(0),
            Ok(shifted) if shifted > 0 => Ok(shifted),
            _ => Err(misfit(format!(
                "level {level} is in use when a tree of {} levels is shifted to {depth}",
                self.depth
            ))),
        };
        // A sweep of a removed level ends with the level.
        let sweeps = std::mem::take(&mut self.draining).into_iter();
        let draining = sweeps.filter_map(|(level, through)| Some((shifted(level).ok()?, through)));
        let draining = draining.collect();
        let ranges = std::mem::take(&mut self.ranges).into_iter();
        let ranges = ranges.filter_map(|(level, ranges)| Some((shifted(level).ok()?, ranges)));
        self.ranges = ranges.collect();
        for (place, _) in self.tables.values_mut() {
            place.level = shifted(place.level)?;
        }
        check_depth(usize::from(depth))?;
        self.draining = draining;
        self.depth = depth;
        Ok(())
    }

    /// Divides a level into another number of groups.
    pub(super) fn regroup(&mut self, level: u8, ranges: u32) -> Result<()> {
        let others = self.ranges.iter().filter(|(other, _)| **other != level);
        check_ranges(ranges, others.map(|(_, ranges)| ranges).sum())?;
        let tables = self.tables.values();
        let here = tables.filter(|(at, _)| at.level == level);
        let places = regrouped(here.map(|(at, meta)| (*at, meta)), ranges);
        let tables = self.tables.values_mut();
        let here = tables.filter(|(at, _)| at.level == level);
        here.zip(places).for_each(|((at, _), place)| *at = place);
        self.draining.remove(&level);
        self.ranges.remove(&level);
        if ranges > 1 {
            self.ranges.insert(level, ranges);
        }
        Ok(())
    }
}
