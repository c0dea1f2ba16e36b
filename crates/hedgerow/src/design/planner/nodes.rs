//! Levels whose groups go down one by one, oldest runs first: the nodes of a trie.
//!
//! A feed of a node becomes a new run of every group below that it overlaps, so these groups all
//! get their runs at the same time. If all fed at the same size, the whole level would empty at
//! once, and merging would come in bursts of a level's size. So the children of one node feed at
//! sizes that differ by a run: one child for each feed of the node. A node holds half of its share
//! of bytes and runs on average, and at most all of it.
//!
//! A group also has its turn when a quarter of its entries and those of its children are
//! tombstones. They go down to the entries that they hide; the last level drops both. So stale
//! entries take at most about as much space as live ones, beside the upper levels, and a capacity
//! bounds these.

use crate::design::merge_policy::plan::{Plan, Reason, Target};
use crate::design::merge_policy::shape::{Facts, Group, bytes_of};
use crate::design::merge_policy::{FEED, LevelTarget, STALE, TOMBSTONES};

use super::draft::Draft;
use super::{Planner, draft_of};

/// Fewer runs than this are not worth merging in place.
const STALE_RUNS_MIN: usize = 4;

/// The nodes of a level.
struct Nodes<'p, 's, T: Facts> {
    planner: &'p Planner<'s, T>,
    level: usize,
    target: LevelTarget,
    next: Option<usize>,
    /// The number of groups of the next level that a group overlaps.
    children: usize,
}

impl<'s, T: Facts> Planner<'s, T> {
    /// True if the groups of a level go down one by one.
    pub(super) fn is_of_nodes(&self, level: usize) -> bool {
        level > 0 && self.target(level).is_of_nodes()
    }

    /// At least 1 if a group is due; more if a group has too many runs.
    pub(super) fn urgency_of_nodes(&self, level: usize) -> f64 {
        let nodes = self.nodes(level);
        let highest = nodes.due().map(|(_, group)| group.runs.len()).max();
        highest.map_or(0.0, |runs| {
            (runs as f64 / f64::from(nodes.target.runs_max())).max(1.0)
        })
    }

    /// The due group with the most runs that can be merged now.
    pub(super) fn plan_nodes(&self, level: usize) -> Option<Plan> {
        let nodes = self.nodes(level);
        let mut due: Vec<_> = nodes.due().collect();
        // Equal ones keep their order, because the sort is stable.
        due.sort_by_key(|(_, group)| std::cmp::Reverse(group.runs.len()));
        due.into_iter().find_map(|(index, group)| match nodes.next {
            Some(next) => {
                let reason = match nodes.target.is_in_use() {
                    false => Reason::Drain,
                    _ if nodes.is_heavy(index, group) => Reason::Capacity,
                    _ if nodes.is_tall(group) => Reason::Runs,
                    _ => Reason::Tombstones,
                };
                self.merge_down(self.feed(level, group, &nodes.target), next, reason)
            }
            None => self.merge_node(level, index, group),
        })
    }

    fn nodes(&self, level: usize) -> Nodes<'_, 's, T> {
        let target = self.target(level);
        let next = self.next_level(level);
        let below = next.map_or(1, |next| self.target(next).ranges());
        Nodes {
            planner: self,
            level,
            next,
            children: (below / target.ranges()).max(1) as usize,
            target,
        }
    }

    /// The oldest runs of a group, up to half of its share of the capacity. A single larger run
    /// goes in pieces: nothing in the group is older than its rest.
    pub(super) fn feed(
        &self,
        level: usize,
        group: &'s Group<T>,
        target: &LevelTarget,
    ) -> Draft<'s, T> {
        let feed_bytes = match target.share_bytes() {
            _ if !target.is_in_use() => self.limits.merge_bytes_max,
            Some(share) => (share as f64 / 2.0 * FEED) as u64,
            None => group.bytes(),
        };
        let mut bytes = 0_u64;
        let oldest_first = group.runs.iter().rev();
        let taken = oldest_first.take_while(|run| {
            let has_room = bytes < feed_bytes;
            bytes = bytes.saturating_add(run.bytes());
            has_room
        });
        let taken = taken.count().max(1);
        let [run] = &group.runs[group.runs.len() - taken..] else {
            return draft_of(level, &group.runs[group.runs.len() - taken..]);
        };
        let is_enough = |count: &usize| bytes_of(&run.tables[..*count]) >= feed_bytes;
        let count = (1..run.tables.len()).find(is_enough);
        let mut draft = Draft::default();
        draft.add(
            level,
            run.id,
            &run.tables[..count.unwrap_or(run.tables.len())],
        );
        draft
    }

    /// Merges all runs of a group of the last level into one.
    fn merge_node(&self, level: usize, index: usize, group: &'s Group<T>) -> Option<Plan> {
        let target = Target {
            level,
            group: index,
            run: Some(group.runs.first()?.id),
        };
        self.finish(draft_of(level, &group.runs), target, Reason::Runs)
    }
}

impl<'s, T: Facts> Nodes<'_, 's, T> {
    /// The groups that are due and that no job takes from.
    fn due(&self) -> impl Iterator<Item = (usize, &'s Group<T>)> + '_ {
        let groups = self.planner.shape.levels[self.level].used_groups();
        let is_busy = |group: &Group<T>| group.runs.iter().any(|run| self.planner.is_busy(run));
        let due = groups.filter(|(index, group)| self.is_due(*index, group));
        due.filter(move |(_, group)| !is_busy(group))
    }

    fn is_due(&self, index: usize, group: &Group<T>) -> bool {
        let runs = group.runs.len();
        match (runs, self.next) {
            (0, _) => false,
            _ if !self.target.is_in_use() || self.is_tall(group) => true,
            (_, Some(next)) => self.is_heavy(index, group) || self.hides_much(next, index, group),
            (_, None) => {
                let is_stale = runs >= STALE_RUNS_MIN && group.stale_share() >= STALE;
                is_stale || hides_its_own(group)
            }
        }
    }

    fn is_tall(&self, group: &Group<T>) -> bool {
        let runs = group.runs.len();
        runs > 1 && runs >= self.target.runs_max() as usize
    }

    /// Returns true if many of the entries of a group and its children are the group's tombstones.
    fn hides_much(&self, next: usize, index: usize, group: &Group<T>) -> bool {
        if group.tombstones() == 0 {
            return false;
        }
        let levels = &self.planner.shape.levels;
        let (here, below) = (levels[self.level].groups.len(), &levels[next].groups);
        let from = index * below.len() / here;
        let to = ((index + 1) * below.len()).div_ceil(here);
        let below = below[from..to].iter().map(|group| group.entries());
        let entries = below.fold(group.entries(), u64::saturating_add);
        is_much(group.tombstones(), entries)
    }

    /// True if the bytes of a group have reached the size of its turn.
    fn is_heavy(&self, index: usize, group: &Group<T>) -> bool {
        let turn = (index % self.children) as f64 / self.children as f64;
        let is_reached = |share| group.bytes() as f64 >= share as f64 / 2.0 * (FEED + turn);
        self.target.share_bytes().is_some_and(is_reached)
    }
}

/// True if a merge of a group of the last level with itself drops many tombstones. Those of the
/// oldest run do not count: a merge has left them for a snapshot.
fn hides_its_own<T: Facts>(group: &Group<T>) -> bool {
    let is_much = |tombstones| is_much(tombstones, group.entries());
    let Some((_, newer)) = group.runs.split_last() else {
        return false;
    };
    let tables = || newer.iter().flat_map(|run| &run.tables);
    is_much(group.tombstones()) && is_much(tables().map(|it| it.meta().tombstones).sum())
}

fn is_much(tombstones: u64, entries: u64) -> bool {
    tombstones > 0 && tombstones as f64 >= TOMBSTONES * entries as f64
}
