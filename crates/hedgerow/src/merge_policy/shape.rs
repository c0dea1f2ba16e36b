//! The shape of a tree: levels of groups of runs of tables, generic over what a table is, so that
//! the engine's versions, the planner's tests and the simulator share one structure and one
//! [`Shape::apply`].
//!
//! Invariants, checked by [`Shape::check`] and kept by [`Shape::apply`]:
//! - S1: a table's smallest key is not above its largest; the tables of a run are in key order and
//!   do not overlap.
//! - S2: the runs of a group are newest first, their numbers differ, none is empty, and there are
//!   at most [`RUNS_MAX`].
//! - S3: the groups of a level are in key order, the first begins at the empty key, and every table
//!   lies within its group.
//! - S4: a tree has 1 to [`LEVELS_MAX`] levels.
//! - S5: a table is in one place, and can be found by its number.
//! - S6: the totals of a level are the sums over its tables.
//!
//! That newer versions of a key are above older ones cannot be seen from these facts: it is what
//! the planner keeps, by taking along everything between the source and the target of a merge that
//! overlaps it.

use std::collections::BTreeMap;

use crate::error::{Error, Result};
use crate::page::TableId;
use crate::table::TableMeta;
use crate::version::edit::{Placement, TreeEdit};

use super::{LevelSummary, Summary};

/// A group holds at most this many runs: a set of runs is the bits of a `u64`.
pub(crate) const RUNS_MAX: usize = 64;
/// A tree has at most this many levels.
pub(crate) const LEVELS_MAX: usize = 64;

/// Anything that knows a table's facts.
pub(crate) trait Facts: Clone {
    fn meta(&self) -> &TableMeta;
}

impl Facts for std::sync::Arc<TableMeta> {
    fn meta(&self) -> &TableMeta {
        self
    }
}

/// The number of a run. In a group a larger number is newer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RunId(pub(crate) u64);

/// Sorted tables that do not overlap.
#[derive(Debug, Clone)]
pub(crate) struct Run<T> {
    pub(crate) id: RunId,
    /// In key order.
    pub(crate) tables: Vec<T>,
}

impl<T: Facts> Run<T> {
    /// The one table that may hold a key. Cost: a binary search.
    pub(crate) fn table_for(&self, key: &[u8]) -> Option<&T> {
        let at = self.first_ending_at_or_after(key);
        self.tables
            .get(at)
            .filter(|table| table.meta().smallest_key.as_slice() <= key)
    }

    /// The tables that overlap the keys from `lo` to `hi`, both inclusive.
    pub(crate) fn overlapping(&self, lo: &[u8], hi: &[u8]) -> &[T] {
        let from = self.first_ending_at_or_after(lo);
        let count =
            self.tables[from..].partition_point(|table| table.meta().smallest_key.as_slice() <= hi);
        &self.tables[from..from + count]
    }

    /// The place of the first table whose largest key is at or after `key`.
    pub(crate) fn first_ending_at_or_after(&self, key: &[u8]) -> usize {
        self.tables
            .partition_point(|table| table.meta().largest_key.as_slice() < key)
    }

    pub(crate) fn bytes(&self) -> u64 {
        bytes_of(&self.tables)
    }
}

/// The size of some tables; sums stop at the largest number.
pub(crate) fn bytes_of<T: Facts>(tables: &[T]) -> u64 {
    tables
        .iter()
        .fold(0, |sum, table| table.meta().file_bytes.saturating_add(sum))
}

/// The runs of one level over one key range.
#[derive(Debug, Clone)]
pub(crate) struct Group<T> {
    /// The smallest order key that belongs here; the group ends where the next one begins.
    pub(crate) lower: Vec<u8>,
    /// Newest first; at most [`RUNS_MAX`].
    pub(crate) runs: Vec<Run<T>>,
}

impl<T: Facts> Group<T> {
    pub(crate) fn run(&self, id: RunId) -> Option<&Run<T>> {
        self.place_of(id).ok().map(|at| &self.runs[at])
    }

    /// Where the run is, or where it would be inserted.
    fn place_of(&self, id: RunId) -> std::result::Result<usize, usize> {
        self.runs.binary_search_by(|run| id.cmp(&run.id))
    }
}

/// One level.
#[derive(Debug, Clone)]
pub(crate) struct Level<T> {
    /// In key order; the first one's lower bound is empty.
    pub(crate) groups: Vec<Group<T>>,
    /// While a partitioned full merge is under way. It sweeps the level in key order; the number
    /// is the largest of the level's tables when it began.
    pub(crate) draining: Option<TableId>,
    /// How far the sweep has come: keys above this still go down, whatever was merged into them
    /// meanwhile. It is derived from the edits and lost with a rewritten manifest; then the sweep
    /// begins again, which is merely more merging than necessary.
    pub(crate) drained_to: Option<Vec<u8>>,
    totals: Totals,
}

impl<T: Facts> Level<T> {
    fn new(ranges: u32) -> Self {
        Level {
            groups: (0..u64::from(ranges.max(1)))
                .map(|index| Group {
                    lower: lower_bound(index, u64::from(ranges.max(1))),
                    runs: Vec::new(),
                })
                .collect(),
            draining: None,
            drained_to: None,
            totals: Totals::default(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.groups.iter().all(|group| group.runs.is_empty())
    }

    /// The size of all tables; sums stop at the largest number.
    pub(crate) fn bytes(&self) -> u64 {
        clamp(self.totals.bytes)
    }

    /// The group that a key belongs to.
    pub(crate) fn group_for(&self, key: &[u8]) -> usize {
        let after = self
            .groups
            .partition_point(|group| group.lower.as_slice() <= key);
        after.saturating_sub(1)
    }

    /// The groups that the keys from `lo` to `hi`, both inclusive, belong to.
    pub(crate) fn groups_overlapping(&self, lo: &[u8], hi: &[u8]) -> &[Group<T>] {
        let to = self.group_for(hi) + 1;
        &self.groups[self.group_for(lo).min(to)..to]
    }

    /// All runs with the place of their group: by group, then newest first.
    pub(crate) fn runs(&self) -> impl Iterator<Item = (usize, &Run<T>)> {
        self.groups
            .iter()
            .enumerate()
            .flat_map(|(group, it)| it.runs.iter().map(move |run| (group, run)))
    }

    /// All tables: by group, then by run, newest first, then by key.
    pub(crate) fn tables(&self) -> impl Iterator<Item = &T> {
        self.runs().flat_map(|(_, run)| run.tables.iter())
    }

    /// What policies read of it.
    pub(crate) fn summary(&self) -> LevelSummary {
        let runs = self.groups.iter().map(|group| group.runs.len()).max();
        LevelSummary {
            bytes: self.bytes(),
            runs: runs.unwrap_or(0) as u32,
            entries: clamp(self.totals.entries),
            tombstones: clamp(self.totals.tombstones),
        }
    }

    /// Whether a table still has to go down in the sweep that is under way.
    pub(crate) fn sweep_awaits(&self, table: &TableMeta) -> bool {
        self.draining.is_some()
            && self
                .drained_to
                .as_ref()
                .is_none_or(|key| table.largest_key > *key)
    }
}

/// Order keys of levels with several ranges begin with a hash: the ranges cut the 64-bit numbers
/// into equal parts. Without the zero bytes at the end, which say nothing.
fn lower_bound(index: u64, ranges: u64) -> Vec<u8> {
    if index == 0 {
        return Vec::new();
    }
    let start = (u128::from(index) << 64).div_ceil(u128::from(ranges));
    let mut bytes = (start as u64).to_be_bytes().to_vec();
    while bytes.last() == Some(&0) {
        bytes.pop();
    }
    bytes
}

/// A whole tree on disk.
#[derive(Debug, Clone)]
pub(crate) struct Shape<T> {
    /// Level 0 first: newer data is in smaller levels.
    pub(crate) levels: Vec<Level<T>>,
    places: BTreeMap<TableId, (Placement, T)>,
}

impl<T: Facts> Shape<T> {
    /// An empty tree of `depth` levels, level 0 among them, of one group each.
    pub(crate) fn new(depth: usize) -> Self {
        Shape::with_ranges(&vec![1; depth])
    }

    /// An empty tree with one level for each number, cut into that many groups.
    pub(crate) fn with_ranges(ranges: &[u32]) -> Self {
        assert!((1..=LEVELS_MAX).contains(&ranges.len()), "S4");
        Shape {
            levels: ranges.iter().map(|ranges| Level::new(*ranges)).collect(),
            places: BTreeMap::new(),
        }
    }

    /// The number of levels, level 0 among them.
    pub(crate) fn depth(&self) -> usize {
        self.levels.len()
    }

    /// The number of tables.
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// The size of all tables.
    pub(crate) fn bytes(&self) -> u64 {
        self.levels
            .iter()
            .fold(0, |sum, level| level.bytes().saturating_add(sum))
    }

    /// A table by its number, and where it is.
    pub(crate) fn table(&self, id: TableId) -> Option<(Placement, &T)> {
        self.places
            .get(&id)
            .map(|(placement, table)| (*placement, table))
    }

    /// All tables, in the order of their numbers, and where they are.
    pub(crate) fn tables(&self) -> impl Iterator<Item = (Placement, &T)> {
        self.places
            .values()
            .map(|(placement, table)| (*placement, table))
    }

    /// What policies read of the tree.
    pub(crate) fn summary(&self, memtable_bytes: u64, table_bytes: u64) -> Summary {
        Summary {
            levels: self.levels.iter().map(Level::summary).collect(),
            memtable_bytes,
            table_bytes,
        }
    }

    /// Whether anything older than an output placed in a run might hold a key: a table in an older
    /// run of the same group or in a deeper level, other than the inputs. While it is false, a
    /// tombstone of that key hides nothing. `run` is `None` for a new newest run of the group.
    ///
    /// The answer stays true for the time of a merge: jobs whose ranges overlap never write between
    /// or below each other's levels (see the planner).
    pub(crate) fn older_may_hold(
        &self,
        level: usize,
        run: Option<RunId>,
        key: &[u8],
        is_input: impl Fn(TableId) -> bool,
    ) -> bool {
        let holds = |run: &Run<T>| {
            run.table_for(key)
                .is_some_and(|table| !is_input(table.meta().id))
        };
        let here = self.levels.get(level).is_some_and(|level| {
            let group = &level.groups[level.group_for(key)];
            group
                .runs
                .iter()
                .filter(|other| run.is_none_or(|run| other.id < run))
                .any(holds)
        });
        here || self.levels.iter().skip(level + 1).any(|level| {
            let group = &level.groups[level.group_for(key)];
            group.runs.iter().any(holds)
        })
    }

    /// Makes the change that an edit describes. `make` turns the facts of an added table into what
    /// the shape holds.
    ///
    /// Cost: for each run that is touched its number of tables (moved, not looked at), and a few
    /// binary searches per table of the edit.
    ///
    /// # Errors
    /// `Corruption` when the edit does not fit; the shape must not be used then.
    pub(crate) fn apply(
        &mut self,
        edit: &TreeEdit,
        mut make: impl FnMut(&TableMeta) -> T,
    ) -> Result<()> {
        let depth = edit.depth.map(usize::from);
        self.grow(depth)?;

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

    fn grow(&mut self, depth: Option<usize>) -> Result<()> {
        match depth {
            Some(depth) if depth == 0 || depth > LEVELS_MAX => Err(Error::corruption(format!(
                "expected a tree of 1 to {LEVELS_MAX} levels, found {depth}"
            ))),
            Some(depth) => {
                while self.levels.len() < depth {
                    self.levels.push(Level::new(1));
                }
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn shrink(&mut self, depth: Option<usize>) -> Result<()> {
        let Some(depth) = depth else { return Ok(()) };
        for (index, level) in self.levels.iter().enumerate().skip(depth) {
            if !level.is_empty() {
                return Err(Error::corruption(format!(
                    "expected level {index} to be empty when the tree is cut to {depth} levels, found {} bytes",
                    level.bytes()
                )));
            }
        }
        self.levels.truncate(depth);
        Ok(())
    }

    /// Takes tables out and hands them back in the same order. `swept` collects per level the
    /// largest key that was taken.
    fn take(&mut self, ids: &[TableId], swept: &mut [Option<Vec<u8>>]) -> Result<Vec<T>> {
        let mut taken = Vec::with_capacity(ids.len());
        let mut by_run: BTreeMap<(u8, u32, RunId), Vec<usize>> = BTreeMap::new();
        for id in ids {
            let (placement, table) = self.places.remove(id).ok_or_else(|| {
                Error::corruption(format!("expected table {} in the tree, found none", id.0))
            })?;
            let level = &mut self.levels[usize::from(placement.level)];
            let run = level.groups[placement.group as usize]
                .run(placement.run)
                .expect("S5: the run of a known table exists");
            let at = run.first_ending_at_or_after(&table.meta().largest_key);
            debug_assert_eq!(run.tables[at].meta().id, *id, "S5");
            by_run
                .entry((placement.level, placement.group, placement.run))
                .or_default()
                .push(at);
            level.totals.remove(table.meta());
            let largest = &mut swept[usize::from(placement.level)];
            *largest = largest.take().max(Some(table.meta().largest_key.clone()));
            taken.push(table);
        }
        for ((level, group, run), mut places) in by_run {
            places.sort_unstable();
            let group = &mut self.levels[usize::from(level)].groups[group as usize];
            let at = group.place_of(run).expect("found above");
            remove_places(&mut group.runs[at].tables, &places);
            if group.runs[at].tables.is_empty() {
                group.runs.remove(at);
            }
        }
        Ok(taken)
    }

    fn put(&mut self, additions: Vec<(Placement, T)>) -> Result<()> {
        let mut by_run: BTreeMap<(u8, u32, RunId), Vec<T>> = BTreeMap::new();
        for (to, table) in additions {
            let depth = self.levels.len();
            let level = self
                .levels
                .get_mut(usize::from(to.level))
                .ok_or_else(|| no_level(usize::from(to.level), depth))?;
            level.fits(to.group as usize, table.meta())?;
            level.totals.add(table.meta());
            let id = table.meta().id;
            if self.places.insert(id, (to, table.clone())).is_some() {
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
            let group = &mut self.levels[usize::from(level)].groups[group as usize];
            let at = match group.place_of(run) {
                Ok(at) => at,
                Err(at) => {
                    let tables = Vec::new();
                    group.runs.insert(at, Run { id: run, tables });
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

    /// Checks every invariant at the top of this file.
    ///
    /// # Errors
    /// `Corruption` that names the invariant, what was expected and what was found.
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

fn no_level(found: usize, depth: usize) -> Error {
    Error::corruption(format!("expected a level below {depth}, found {found}"))
}

/// Removes the elements at ascending places in one pass.
fn remove_places<T>(tables: &mut Vec<T>, places: &[usize]) {
    let mut at = 0;
    let mut next = places.iter().copied().peekable();
    tables.retain(|_| {
        let removed = next.next_if_eq(&at).is_some();
        at += 1;
        !removed
    });
}

/// Sums over tables, wide enough that what was added can be taken away again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Totals {
    bytes: u128,
    entries: u128,
    tombstones: u128,
}

impl Totals {
    fn add(&mut self, table: &TableMeta) {
        self.bytes += u128::from(table.file_bytes);
        self.entries += u128::from(table.entries);
        self.tombstones += u128::from(table.tombstones);
    }

    fn remove(&mut self, table: &TableMeta) {
        self.bytes -= u128::from(table.file_bytes);
        self.entries -= u128::from(table.entries);
        self.tombstones -= u128::from(table.tombstones);
    }
}

fn clamp(sum: u128) -> u64 {
    u64::try_from(sum).unwrap_or(u64::MAX)
}

impl<T: Facts> Run<T> {
    /// Inserts tables that are in key order, in one pass.
    fn insert_all(&mut self, added: Vec<T>) -> Result<()> {
        let mut merged = Vec::with_capacity(self.tables.len() + added.len());
        let mut places = Vec::with_capacity(added.len());
        let mut old = std::mem::take(&mut self.tables).into_iter();
        for table in added {
            let smallest = table.meta().smallest_key.as_slice();
            let before = old
                .as_slice()
                .partition_point(|other| other.meta().smallest_key.as_slice() < smallest);
            merged.extend(old.by_ref().take(before));
            places.push(merged.len());
            merged.push(table);
        }
        merged.extend(old);
        self.tables = merged;
        for at in places {
            self.check_neighbours(at.saturating_sub(1))?;
            self.check_neighbours(at)?;
        }
        Ok(())
    }

    /// S1 for the table at a place and the one after it.
    fn check_neighbours(&self, at: usize) -> Result<()> {
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

impl<T: Facts> Level<T> {
    /// S1 and S3 for one table.
    fn fits(&self, group: usize, table: &TableMeta) -> Result<()> {
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

    fn advance_sweep(&mut self, key: Option<Vec<u8>>) {
        if self.draining.is_some() && key > self.drained_to {
            self.drained_to = key;
        }
    }

    /// The sweep is over when nothing is left above the place it has come to.
    fn end_sweep(&mut self) {
        let awaited = self.draining.is_some()
            && self
                .runs()
                .filter_map(|(_, run)| run.tables.last())
                .any(|table| self.sweep_awaits(table.meta()));
        if !awaited {
            self.draining = None;
            self.drained_to = None;
        }
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
                }
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

#[cfg(test)]
mod tests;
