//! The shape of a tree: levels of groups of runs of tables, generic over the table type. So the
//! engine's versions, the planner's tests and the simulator share one structure and one
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
//! - S6: the totals of a level and of its groups are the sums over their tables.
//!
//! The facts do not show that newer versions of a key lie above older ones. The planner keeps this:
//! a merge takes along everything between its source and its target that overlaps it.

mod apply;
mod check;
mod placements;
mod regroup;
mod run;

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use crate::base::entry::RunId;
use crate::base::page::TableId;
use crate::base::table_meta::TableMeta;
use crate::design::merge_policy::tree_edit::Placement;

use super::{LevelSummary, Summary};
pub(crate) use apply::check_depth;
use placements::Placements;
pub(crate) use regroup::{check_ranges, is_within, regrouped};
use run::head;
pub(crate) use run::{Run, Tables};

/// The most runs of a group: a run mask has 64 bits.
pub(crate) const RUNS_MAX: usize = 64;
/// The most levels of a tree.
pub(crate) const LEVELS_MAX: usize = 64;
/// The most groups of a level: enough for every policy, and little memory.
pub(crate) const RANGES_MAX: u32 = 1 << 16;
/// The most groups of all levels of a tree (about 40 MB). A tree stays below it even if it is
/// retuned repeatedly before each new shape is reached.
pub(crate) const GROUPS_MAX: u32 = 4 * RANGES_MAX;

/// A type that knows a table's facts.
pub(crate) trait Facts: Clone {
    /// The filters over several runs that a group keeps; `()` where there are none.
    type Filters: RunFilters;

    fn meta(&self) -> &TableMeta;

    /// The number of tables it stands for. A table of the simulator stands for many side by side.
    fn stands_for(&self) -> u64 {
        1
    }

    /// Estimates the part of the entries that a merge of these runs (newest first) would drop,
    /// assuming nothing older lies below. Uses the hash samples of each run's first table, and
    /// counts each tombstone as hiding one entry.
    fn stale_share(runs: &[Run<Self>]) -> f64 {
        let tables = || runs.iter().flat_map(|run| &run.tables).map(Facts::meta);
        let sum = |of: fn(&TableMeta) -> u64| tables().map(of).sum::<u64>() as f64;
        let tombstones = sum(|it| it.tombstones) / sum(|it| it.entries).max(1.0);
        let first = runs.iter().filter_map(|run| run.tables.first());
        let samples: Vec<&[u64]> = first.map(|it| it.meta().hash_sample.as_slice()).collect();
        // All samples are complete up to here.
        let end = samples.iter().filter_map(|sample| sample.last()).min();
        let below = |sample: &&[u64]| sample.partition_point(|hash| Some(hash) <= end);
        let sampled: usize = samples.iter().map(below).sum();
        let distinct: BTreeSet<u64> = samples
            .iter()
            .flat_map(|sample| sample[..below(sample)].iter().copied())
            .collect();
        let repeated = 1.0 - distinct.len() as f64 / sampled.max(1) as f64;
        match sampled {
            0 => tombstones,
            _ => (repeated + tombstones).min(1.0),
        }
    }

    /// The bytes that a merge of the keys from `lo` to `hi`, both inclusive, reads from this
    /// overlapping table: all, unless it stands for several tables.
    fn bytes_within(&self, _lo: &[u8], _hi: &[u8]) -> u64 {
        self.meta().file_bytes
    }
}

/// Filters over several runs of a group. The shape only says what becomes of the runs.
pub(crate) trait RunFilters: Clone + std::fmt::Debug + Default {
    /// The group may have changed.
    fn changed(&mut self);

    /// A run got tables.
    fn run_grew(&mut self, run: RunId);

    /// Runs may be gone.
    fn keep_for(&mut self, is_here: impl Fn(RunId) -> bool);
}

impl RunFilters for () {
    fn changed(&mut self) {}

    fn run_grew(&mut self, _: RunId) {}

    fn keep_for(&mut self, _: impl Fn(RunId) -> bool) {}
}

impl Facts for Arc<TableMeta> {
    type Filters = ();

    fn meta(&self) -> &TableMeta {
        self
    }
}

/// The size of these tables. The sum saturates.
pub(crate) fn bytes_of<T: Facts>(tables: &[T]) -> u64 {
    tables
        .iter()
        .fold(0, |sum, table| table.meta().file_bytes.saturating_add(sum))
}

/// The runs of one level over one key range.
#[derive(Debug, Clone)]
pub(crate) struct Group<T: Facts> {
    /// The smallest order key of the group. The group ends where the next one begins.
    pub(crate) lower: Vec<u8>,
    /// Newest first; at most [`RUNS_MAX`].
    pub(crate) runs: Vec<Run<T>>,
    /// Filters over several of the runs.
    pub(crate) filters: T::Filters,
    totals: Totals,
    /// The cached [`Group::stale_share`] of the present runs.
    stale_share: OnceLock<f64>,
}

impl<T: Facts> Group<T> {
    pub(crate) fn run(&self, id: RunId) -> Option<&Run<T>> {
        self.place_of(id).ok().map(|at| &self.runs[at])
    }

    /// The size of all tables, saturating.
    pub(crate) fn bytes(&self) -> u64 {
        clamp(self.totals.bytes)
    }

    /// Entries of all tables, tombstones and old versions included.
    pub(crate) fn entries(&self) -> u64 {
        clamp(self.totals.entries)
    }

    pub(crate) fn tombstones(&self) -> u64 {
        clamp(self.totals.tombstones)
    }

    pub(crate) fn range_tombstones(&self) -> u64 {
        clamp(self.totals.range_tombstones)
    }

    /// The part of its entries that is stale ([`Facts::stale_share`]). It is cached until the
    /// tables change, because planners read it for every node.
    pub(crate) fn stale_share(&self) -> f64 {
        *self.stale_share.get_or_init(|| T::stale_share(&self.runs))
    }

    /// The place of a run, if the group has it.
    pub(crate) fn place_of_run(&self, id: RunId) -> Option<usize> {
        self.place_of(id).ok()
    }

    /// Tells the filters which runs are left.
    fn keep_filters(&mut self) {
        let runs = &self.runs;
        self.filters
            .keep_for(|id| runs.binary_search_by(|run| id.cmp(&run.id)).is_ok());
    }

    /// The place of the run, or the place where it would be inserted.
    fn place_of(&self, id: RunId) -> Result<usize, usize> {
        self.runs.binary_search_by(|run| id.cmp(&run.id))
    }
}

/// One level.
#[derive(Debug, Clone)]
pub(crate) struct Level<T: Facts> {
    /// The groups in key order; the first one's lower bound is empty. Trees share the groups that
    /// an edit did not change.
    pub(crate) groups: Vec<Arc<Group<T>>>,
    /// The places of the groups with runs: few, in a level that was just cut into many.
    used: BTreeSet<usize>,
    /// The newest run that the present sweep takes, if one takes the level down slice by slice.
    /// Later runs have larger numbers and stay.
    pub(crate) draining: Option<RunId>,
    /// The progress of the sweep in that run, in key order. Keys above it still go down, whatever
    /// was merged into them meanwhile. It is derived from the edits and lost when the manifest is
    /// rewritten. Then the sweep begins again, which only costs more merging than necessary.
    pub(crate) drained_to: Option<Vec<u8>>,
    totals: Totals,
}

impl<T: Facts> Level<T> {
    fn new(ranges: u32) -> Self {
        Level {
            groups: (0..u64::from(ranges.max(1)))
                .map(|index| {
                    Arc::new(Group {
                        lower: lower_bound(index, u64::from(ranges.max(1))),
                        runs: Vec::new(),
                        filters: T::Filters::default(),
                        totals: Totals::default(),
                        stale_share: OnceLock::new(),
                    })
                })
                .collect(),
            used: BTreeSet::new(),
            draining: None,
            drained_to: None,
            totals: Totals::default(),
        }
    }

    /// The groups with runs, with their places, in key order.
    pub(crate) fn used_groups(&self) -> impl Iterator<Item = (usize, &Group<T>)> {
        self.used.iter().map(|&at| (at, &*self.groups[at]))
    }

    /// A group to change, in this tree only. Drops the cached facts of the group.
    pub(crate) fn group_mut(&mut self, at: usize) -> Option<&mut Group<T>> {
        let group = Arc::make_mut(self.groups.get_mut(at)?);
        group.stale_share.take();
        group.filters.changed();
        Some(group)
    }

    /// The number of its groups.
    pub(crate) fn ranges(&self) -> u32 {
        self.groups.len() as u32
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.totals.tables == 0
    }

    /// The size of all tables, saturating.
    pub(crate) fn bytes(&self) -> u64 {
        clamp(self.totals.bytes)
    }

    /// Entries of all tables, tombstones and old versions included.
    pub(crate) fn entries(&self) -> u64 {
        clamp(self.totals.entries)
    }

    pub(crate) fn range_tombstones(&self) -> u64 {
        clamp(self.totals.range_tombstones)
    }

    /// The group that a key belongs to. Cost: a multiplication.
    #[inline]
    pub(crate) fn group_for(&self, key: &[u8]) -> usize {
        range_of(key, self.ranges()) as usize
    }

    /// The groups of the keys from `lo` to `hi`, both inclusive.
    pub(crate) fn groups_overlapping(&self, lo: &[u8], hi: &[u8]) -> &[Arc<Group<T>>] {
        let to = self.group_for(hi) + 1;
        &self.groups[self.group_for(lo).min(to)..to]
    }

    /// All runs with the place of their group: by group, then newest first.
    pub(crate) fn runs(&self) -> impl Iterator<Item = (usize, &Run<T>)> {
        self.used_groups()
            .flat_map(|(group, it)| it.runs.iter().map(move |run| (group, run)))
    }

    /// All tables: by group, then by run, newest first, then by key.
    pub(crate) fn tables(&self) -> impl Iterator<Item = &T> {
        self.runs().flat_map(|(_, run)| run.tables.iter())
    }

    /// The number of runs of the group with the most.
    pub(crate) fn runs_max(&self) -> usize {
        let runs = self.used_groups().map(|(_, group)| group.runs.len());
        runs.max().unwrap_or(0)
    }

    /// The facts that policies read.
    pub(crate) fn summary(&self) -> LevelSummary {
        LevelSummary {
            bytes: self.bytes(),
            runs: self.runs_max() as u32,
            entries: self.entries(),
            tombstones: clamp(self.totals.tombstones),
        }
    }

    /// True if the present sweep still has to take this table down.
    pub(crate) fn sweep_awaits(&self, run: RunId, table: &TableMeta) -> bool {
        let is_behind = |key: &Vec<u8>| table.largest_key <= *key;
        self.draining.is_some_and(|through| {
            run < through || run == through && !self.drained_to.as_ref().is_some_and(is_behind)
        })
    }

    /// The number of the newest run of any group.
    pub(crate) fn newest_run(&self) -> Option<RunId> {
        self.runs().map(|(_, run)| run.id).max()
    }
}

/// The lower bound of a range. Levels with several ranges have order keys that begin with a hash,
/// and the ranges cut the 64-bit numbers into equal parts. Zero bytes at the end are left out.
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

/// The range of `ranges` that a key belongs to. Cost: a multiplication.
pub(crate) fn range_of(key: &[u8], ranges: u32) -> u64 {
    ((u128::from(head(key)) * u128::from(ranges)) >> 64) as u64
}

/// All levels of a tree on disk.
#[derive(Debug, Clone)]
pub(crate) struct Shape<T: Facts> {
    /// The levels, level 0 first. Newer data is in smaller levels.
    pub(crate) levels: Vec<Level<T>>,
    /// See [`Summary::policy_note`].
    pub(crate) policy_note: u8,
    places: Placements<T>,
}

impl<T: Facts> Shape<T> {
    /// An empty tree of `depth` levels, level 0 included, with one group each.
    pub(crate) fn new(depth: usize) -> Self {
        Shape::with_ranges(&vec![1; depth])
    }

    /// An empty tree with one level per number, cut into that many groups.
    pub(crate) fn with_ranges(ranges: &[u32]) -> Self {
        assert!((1..=LEVELS_MAX).contains(&ranges.len()), "S4");
        Shape {
            levels: ranges.iter().map(|ranges| Level::new(*ranges)).collect(),
            policy_note: 0,
            places: Placements::new(),
        }
    }

    /// The number of levels, level 0 included.
    pub(crate) fn depth(&self) -> usize {
        self.levels.len()
    }

    /// The size of all tables.
    pub(crate) fn bytes(&self) -> u64 {
        self.levels
            .iter()
            .fold(0, |sum, level| level.bytes().saturating_add(sum))
    }

    /// Entries of all tables, tombstones and old versions included.
    pub(crate) fn entries(&self) -> u64 {
        let levels = self.levels.iter();
        levels.fold(0, |sum, level| level.entries().saturating_add(sum))
    }

    /// A table by its number, and its placement.
    pub(crate) fn table(&self, id: TableId) -> Option<(Placement, &T)> {
        self.places
            .get(id)
            .map(|(placement, table)| (*placement, table))
    }

    /// All tables and their placements, in the order of their numbers.
    pub(crate) fn tables(&self) -> impl Iterator<Item = (Placement, &T)> {
        self.places
            .iter()
            .map(|(placement, table)| (*placement, table))
    }

    /// The placement of a table in a run of a level.
    pub(crate) fn placement(&self, level: usize, run: RunId, table: &TableMeta) -> Placement {
        Placement {
            level: level as u8,
            group: self.levels[level].group_for(&table.smallest_key) as u32,
            run,
        }
    }

    /// Returns true if level 0 has as many runs as a group can have.
    pub(crate) fn level0_is_full(&self) -> bool {
        let level0 = self.levels.first();
        level0.is_some_and(|level| level.groups.iter().any(|it| it.runs.len() >= RUNS_MAX))
    }

    /// The facts of the tree that policies read. They compare levels with what memtables become, so
    /// a memtable counts with the share of its bytes that tables of this tree take: less than all
    /// where they compress well.
    pub(crate) fn summary(&self, memtable_bytes: u64, table_bytes: u64) -> Summary {
        let sum = |of: fn(&Totals) -> u128| -> u128 {
            self.levels.iter().map(|level| of(&level.totals)).sum()
        };
        let (bytes, raw) = (sum(|it| it.bytes) as f64, sum(|it| it.raw_bytes) as f64);
        let share = if bytes < raw { bytes / raw } else { 1.0 };
        Summary {
            levels: self.levels.iter().map(Level::summary).collect(),
            memtable_bytes: (memtable_bytes as f64 * share) as u64,
            table_bytes,
            policy_note: self.policy_note,
        }
    }

    /// True if data older than an output in this run might hold a key: a table in an older run of
    /// the same group or in a deeper level, other than the inputs. If it is false, a tombstone of
    /// that key hides nothing. `run` is `None` for a new newest run of the group.
    ///
    /// The answer stays valid during a merge: jobs with overlapping ranges never write between or
    /// below each other's levels (see the planner).
    pub(crate) fn older_may_hold(
        &self,
        level: usize,
        run: Option<RunId>,
        key: &[u8],
        is_input: impl Fn(TableId) -> bool,
    ) -> bool {
        self.older_overlaps(level, run, (key, key), is_input)
    }

    /// [`Shape::older_may_hold`] for the keys from `lo` to `hi`, both inclusive.
    pub(crate) fn older_overlaps(
        &self,
        level: usize,
        run: Option<RunId>,
        (lo, hi): (&[u8], &[u8]),
        is_input: impl Fn(TableId) -> bool,
    ) -> bool {
        let overlaps = |run: &Run<T>| {
            let tables = run.overlapping(lo, hi);
            tables.iter().any(|table| !is_input(table.meta().id))
        };
        let mut levels = self.levels.iter().enumerate().skip(level);
        levels.any(|(number, it)| {
            let groups = it.groups_overlapping(lo, hi);
            let older = |other: &&Run<T>| number > level || run.is_none_or(|run| other.id < run);
            let mut runs = groups.iter().flat_map(|group| &group.runs).filter(older);
            runs.any(overlaps)
        })
    }
}

/// Sums over tables, wide enough that every addition can be subtracted again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Totals {
    tables: u128,
    bytes: u128,
    raw_bytes: u128,
    entries: u128,
    tombstones: u128,
    range_tombstones: u128,
}

impl Totals {
    fn add(&mut self, table: &TableMeta) {
        self.tables += 1;
        self.bytes += u128::from(table.file_bytes);
        self.raw_bytes += u128::from(table.raw_bytes);
        self.entries += u128::from(table.entries);
        self.tombstones += u128::from(table.tombstones);
        self.range_tombstones += u128::from(table.range_tombstones);
    }

    fn remove(&mut self, table: &TableMeta) {
        self.tables -= 1;
        self.bytes -= u128::from(table.file_bytes);
        self.raw_bytes -= u128::from(table.raw_bytes);
        self.entries -= u128::from(table.entries);
        self.tombstones -= u128::from(table.tombstones);
        self.range_tombstones -= u128::from(table.range_tombstones);
    }
}

fn clamp(sum: u128) -> u64 {
    u64::try_from(sum).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
