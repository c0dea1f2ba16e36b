//! The sources of a view: the memtables and the tables of its trees, as iterators.

use std::sync::Arc;

use super::{Reach, View};
use crate::base::error::Result;
use crate::design::merge_policy::shape::Run;
use crate::table::Table;
use crate::table::iter::InternalIter;
use crate::table::iter::concat::{ConcatIter, Parts};
use crate::table::iter::merge::merge;
use crate::table::iter::uncovered::SeenRanges;

impl View {
    /// All entries in key order, and the number of sources (memtables and runs) open at once. Reads
    /// nothing yet.
    pub(super) fn entries(self: &Arc<View>) -> (Box<dyn InternalIter>, usize) {
        let trees = 0..self.trees.len();
        let Some(splits) = self.covering.splits.clone().filter(|_| trees.len() > 1) else {
            let mut sources = Vec::new();
            trees.for_each(|tree| self.add_sources(tree, &mut sources));
            let count = sources.len();
            return (merge(sources), count);
        };
        let count = trees.map(|tree| self.sources(tree).len()).max();
        let view = self.clone();
        let trees = OrderedTrees { view, splits };
        (Box::new(ConcatIter::new(trees)), count.unwrap_or(0))
    }

    /// The memtables and runs of a tree.
    fn sources(self: &Arc<View>, tree: usize) -> Vec<Box<dyn InternalIter>> {
        let mut sources = Vec::new();
        self.add_sources(tree, &mut sources);
        sources
    }

    fn add_sources(self: &Arc<View>, tree: usize, sources: &mut Vec<Box<dyn InternalIter>>) {
        let first = sources.len();
        for memtable in self.trees[tree].memtables().filter(|m| !m.is_empty()) {
            let newest = memtable.largest_seqno();
            sources.push(self.uncovered(tree, Box::new(memtable.iter()), newest));
        }
        for (level, it) in self.trees[tree].version.levels.iter().enumerate() {
            let of_level = |run| RunOfLevel {
                view: self.clone(),
                tree,
                level,
                run,
            };
            // Groups follow one another. So do their newest runs, their second newest runs, and so
            // on.
            for run in 0..it.runs_max() {
                let has_run = |group: &usize| it.groups[*group].runs.len() > run;
                let mut groups = (0..it.groups.len()).filter(has_run);
                sources.push(match (groups.next(), groups.next()) {
                    (Some(group), None) => Box::new(ConcatIter::new(of_level(run).in_group(group))),
                    _ => Box::new(ConcatIter::new(GroupRuns {
                        groups: (0..it.groups.len()).filter(has_run).collect(),
                        of_level: of_level(run),
                    })),
                });
            }
        }
        if let Some(batch) = &self.batch {
            batch.add_own_writes(self.covering.partitions.start + tree, sources, first);
        }
    }
}

/// The runs with the same index in the groups of a level of a tree.
#[derive(Clone)]
struct RunOfLevel {
    view: Arc<View>,
    tree: usize,
    level: usize,
    run: usize,
}

impl RunOfLevel {
    fn get(&self, group: usize) -> &Run<Arc<Table>> {
        let version = &self.view.trees[self.tree].version;
        &version.levels[self.level].groups[group].runs[self.run]
    }

    fn in_group(self, group: usize) -> RunTables {
        RunTables {
            of_level: self,
            group,
        }
    }
}

/// One run of each of these groups of a level.
struct GroupRuns {
    of_level: RunOfLevel,
    groups: Vec<usize>,
}

impl Parts for GroupRuns {
    fn len(&self) -> usize {
        self.groups.len()
    }

    fn bounds(&self, index: usize) -> (&[u8], Option<&[u8]>) {
        let tables = &self.of_level.get(self.groups[index]).tables;
        let largest = tables
            .last()
            .map(|table| table.meta().largest_key.as_slice());
        (&tables[0].meta().smallest_key, largest)
    }

    fn open(&self, index: usize) -> Result<Box<dyn InternalIter>> {
        let run = self.of_level.clone().in_group(self.groups[index]);
        Ok(Box::new(ConcatIter::new(run)))
    }
}

/// Trees with consecutive key ranges.
struct OrderedTrees {
    view: Arc<View>,
    /// The split keys of all trees of the keyspace.
    splits: Arc<[Vec<u8>]>,
}

impl Parts for OrderedTrees {
    fn len(&self) -> usize {
        self.view.trees.len()
    }

    fn bounds(&self, tree: usize) -> (&[u8], Option<&[u8]>) {
        let index = self.view.covering.partitions.start + tree;
        let smallest = index.checked_sub(1).map_or(&b""[..], |i| &self.splits[i]);
        (smallest, self.splits.get(index).map(Vec::as_slice))
    }

    fn open(&self, tree: usize) -> Result<Box<dyn InternalIter>> {
        Ok(merge(self.view.sources(tree)))
    }
}

/// The tables of one run.
struct RunTables {
    of_level: RunOfLevel,
    group: usize,
}

impl RunTables {
    fn run(&self) -> &Run<Arc<Table>> {
        self.of_level.get(self.group)
    }

    fn tables(&self) -> &[Arc<Table>] {
        &self.run().tables
    }
}

impl Parts for RunTables {
    fn len(&self) -> usize {
        self.tables().len()
    }

    fn bounds(&self, table: usize) -> (&[u8], Option<&[u8]>) {
        let meta = self.tables()[table].meta();
        (&meta.smallest_key, Some(&meta.largest_key))
    }

    fn first_for(&self, key: &[u8]) -> usize {
        self.run().first_ending_at_or_after(key)
    }

    fn open(&self, table: usize) -> Result<Box<dyn InternalIter>> {
        let (table, tree) = (&self.tables()[table], self.of_level.tree);
        let view = &self.of_level.view;
        let (meta, ranges) = (table.meta(), view.seen_ranges(tree));
        let hides = |it: &SeenRanges| {
            it.hide_all(&meta.smallest_key, &meta.largest_key, meta.largest_seqno)
        };
        if ranges.as_ref().is_some_and(hides) {
            return Ok(merge(Vec::new()));
        }
        let iter = match view.reach {
            Reach::Files => table.iter()?,
            Reach::Memory => table.iter_if_cached()?,
        };
        Ok(view.uncovered(tree, iter, meta.largest_seqno))
    }
}
