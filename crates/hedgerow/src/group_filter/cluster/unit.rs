//! A unit is the groups that share clusters: a base and a tail, which become the next base.

use std::collections::BTreeSet;
use std::collections::btree_map::{BTreeMap, Entry};
use std::sync::Arc;

use crate::base::page::TableId;
use crate::design::cluster_plan::Plan;
use crate::design::merge_policy::shape::{Group, Run};
use crate::group_filter::Version;
use crate::table::Table;

use super::STRIPES_MAX;
use super::attach::{self, ClusterProbe};
use super::stored_cluster::StoredCluster;

/// The next thing that the clusters of a tree lack.
pub(super) enum Task {
    /// A cluster is damaged: reads no longer probe it, and its tables are read.
    Forget(Arc<StoredCluster>),
    /// No cluster knows a table: its keys are read.
    Cover(Arc<Table>),
    /// Some clusters become one, which may stay in memory.
    Gather(Vec<Member>, bool),
    /// A cluster leaves the memory.
    Page(Arc<StoredCluster>),
    /// Some clusters become one in memory, or one comes into memory. Their files stay.
    Join(Vec<Member>),
}

/// The most bytes of the filters of one resident cluster.
const RESIDENT_BYTES_MAX: u64 = 1 << 31;

/// One group, or one with the groups of its range in deeper levels.
pub(super) struct Unit<'a> {
    pub(super) groups: Vec<&'a Group<Arc<Table>>>,
    pub(super) stays_in_memory: bool,
    plan: Plan,
}

/// The units of some levels of a tree.
pub(super) fn units<'a>(
    version: &'a Version,
    levels: &'a [usize],
    plan: Plan,
) -> impl Iterator<Item = Unit<'a>> {
    let of_one_group = move |&level: &usize| {
        let groups = version.levels[level].used_groups();
        groups.map(move |(_, group)| Unit {
            groups: vec![group],
            stays_in_memory: level < plan.resident,
            plan,
        })
    };
    let (alone, shared) = levels.split_at(levels.partition_point(|it| *it < plan.shared));
    let mut together: BTreeMap<u64, Unit<'a>> = BTreeMap::new();
    let ranges = |level: usize| u64::from(version.levels[level].ranges());
    for &level in shared {
        for (at, group) in version.levels[level].used_groups() {
            let place = at as u64 * ranges(plan.shared) / ranges(level);
            let unit = together.entry(place).or_insert(Unit {
                groups: Vec::new(),
                stays_in_memory: false,
                plan,
            });
            unit.groups.push(group);
        }
    }
    alone
        .iter()
        .flat_map(of_one_group)
        .chain(together.into_values())
}

/// A cluster of a unit, with its stripes of the unit's tables.
pub(super) struct Member {
    pub(super) cluster: Arc<StoredCluster>,
    pub(super) stripes: Vec<usize>,
    /// The number of entries of these tables.
    entries: u64,
}

impl Member {
    fn is_resident(&self) -> bool {
        self.cluster.cluster.is_resident()
    }

    /// True if most of its tables are in the unit.
    pub(super) fn is_own(&self) -> bool {
        2 * self.stripes.len() > self.cluster.cluster.stripes().len()
    }

    /// True if most of the tables that it was joined for are gone or elsewhere.
    fn is_mostly_gone(&self) -> bool {
        self.cluster.own_file().is_none() && !self.is_own()
    }

    /// The cluster, and its stripes of the unit's tables.
    pub(super) fn parts(&self) -> (&StoredCluster, Vec<usize>) {
        (&self.cluster, self.stripes.clone())
    }

    /// Its approximate size without tables outside of the unit.
    pub(super) fn bytes(&self) -> u64 {
        let all = self.cluster.cluster.stripes().len() as u64;
        self.cluster.cluster.pages_bytes() * self.stripes.len() as u64 / all
    }
}

/// The answer to what the clusters of a unit lack.
pub(super) enum NextTask {
    Due(Task),
    /// Memory has no room for one that belongs there.
    LacksMemory,
    Nothing,
}

impl Unit<'_> {
    /// The bytes of memory that its clusters leave free for other levels.
    pub(super) fn reserve(&self) -> u64 {
        match self.stays_in_memory {
            true => 0,
            false => self.plan.reserve,
        }
    }

    fn tables(&self) -> impl Iterator<Item = &Arc<Table>> {
        let runs = self.groups.iter().flat_map(|group| &group.runs);
        runs.flat_map(|run: &Run<_>| &run.tables)
    }

    /// True if its clusters were found complete in these circumstances, and none is damaged since.
    pub(super) fn is_complete(&self, circumstances: u64) -> bool {
        let mut groups = self.groups.iter();
        groups.all(|it| it.filters.are_complete(circumstances))
            && !self.attached().any(|it| it.cluster.is_damaged())
    }

    fn attached(&self) -> impl Iterator<Item = &ClusterProbe> {
        let groups = self.groups.iter();
        groups.flat_map(|group| attach::of_group(group))
    }

    /// The clusters of its groups. The one with the most entries comes first.
    pub(super) fn members(&self) -> Vec<Member> {
        let tables = self.tables().map(|table| table.meta());
        let entries: BTreeMap<TableId, u64> = tables.map(|it| (it.id, it.entries)).collect();
        let mut members = BTreeMap::new();
        for attached in self.attached() {
            let member = match members.entry(attached.cluster.name()) {
                Entry::Occupied(member) => member.into_mut(),
                Entry::Vacant(place) => place.insert(Member {
                    cluster: attached.cluster.clone(),
                    stripes: Vec::new(),
                    entries: 0,
                }),
            };
            for (stripe, table) in attached.stripes() {
                if let Some(entries) = entries.get(&table) {
                    member.stripes.push(stripe);
                    member.entries += entries;
                }
            }
        }
        let mut members: Vec<_> = members.into_values().collect();
        members.retain(|member| !member.stripes.is_empty());
        members.sort_by_key(|member| std::cmp::Reverse(member.entries));
        members
    }

    /// A table that is in no cluster and has no filter of its own.
    fn uncovered(&self) -> Option<Arc<Table>> {
        let known: BTreeSet<TableId> = self
            .attached()
            .flat_map(ClusterProbe::stripes)
            .map(|(_, table)| table)
            .collect();
        let lacks = |table: &&Arc<Table>| {
            let meta = table.meta();
            meta.filter_bytes == 0 && !known.contains(&meta.id)
        };
        self.tables().find(lacks).cloned()
    }

    /// The first thing that its clusters lack. `has_room` says whether memory has room for a number
    /// of bytes.
    pub(super) fn finding(&self, has_room: impl Fn(u64) -> bool) -> NextTask {
        if let Some(table) = self.uncovered() {
            return NextTask::Due(Task::Cover(table));
        }
        if let Some(damaged) = self.attached().find(|it| it.cluster.is_damaged()) {
            return NextTask::Due(Task::Forget(damaged.cluster.clone()));
        }
        let mut all = self.members();
        if self.stays_in_memory {
            return in_memory(all, has_room);
        }
        if let [only] = &all[..] {
            return match (only.is_resident(), only.cluster.own_file()) {
                (true, Some(_)) => NextTask::Due(Task::Page(only.cluster.clone())),
                (true, None) => gathered(all, false),
                (false, _) => NextTask::Nothing,
            };
        }
        if is_due(&all, self.plan, true) {
            return gathered(all, false);
        }
        let is_due = is_due(&all, self.plan, false);
        let tail = all.split_off(all.len().min(1));
        match in_memory(tail, has_room) {
            NextTask::Due(Task::Gather(..)) | NextTask::LacksMemory if is_due => {
                gathered(self.members(), false)
            }
            finding => finding,
        }
    }

    /// A new base that frees the memory of a tail, with the number of entries of the tail. `None`
    /// if the tail is too small for that.
    pub(super) fn relief(&self) -> Option<(u64, Task)> {
        // A unit without resident clusters is frequent where memory is short.
        let mut attached = self.attached();
        attached.find(|it| it.cluster.cluster.is_resident())?;
        let all = self.members();
        let tail = all.iter().skip(1).filter(|it| it.is_resident());
        let entries = tail.map(|it| it.entries).sum();
        let may_be = !self.stays_in_memory && entries > 0 && is_due(&all, self.plan, false);
        match may_be.then(|| gathered(all, false))? {
            NextTask::Due(task) => Some((entries, task)),
            NextTask::LacksMemory | NextTask::Nothing => None,
        }
    }
}

/// The first thing that clusters lack that belong in memory.
fn in_memory(all: Vec<Member>, has_room: impl Fn(u64) -> bool) -> NextTask {
    let (resident, mut lacking): (Vec<_>, Vec<_>) = all.into_iter().partition(Member::is_resident);
    match lacking.iter().position(|member| has_room(member.bytes())) {
        Some(at) if lacking[at].is_own() => {
            NextTask::Due(Task::Join(vec![lacking.swap_remove(at)]))
        }
        Some(at) => gathered(vec![lacking.swap_remove(at)], true),
        None if lacking.is_empty() => joinable(resident),
        None if lacking.len() == 1 => NextTask::LacksMemory,
        // Then a get reads one page for all.
        None => gathered(lacking, true),
    }
}

/// A cluster is joined with all smaller ones when these have more than this part of its entries.
/// Up to nine equal runs of a node are one cluster at all times; in a level of very many tables, a
/// filter is copied some nine times.
const JOINED_PART: u64 = 8;

/// Some resident clusters, the largest first, that are to be one. Each cluster costs a get some
/// misses of the processor's caches, wherever it asks for.
fn joinable(mut all: Vec<Member>) -> NextTask {
    let mut smaller: u64 = all.iter().map(|member| member.entries).sum();
    let mut bytes: u64 = all.iter().map(Member::bytes).sum();
    let first = all.iter().position(|member| {
        smaller -= member.entries;
        let fits = bytes <= RESIDENT_BYTES_MAX;
        bytes -= member.bytes();
        let is_due = smaller * JOINED_PART > member.entries;
        fits && (is_due || member.is_mostly_gone())
    });
    match first {
        Some(first) => NextTask::Due(Task::Join(all.split_off(first))),
        None => NextTask::Nothing,
    }
}

fn gathered(members: Vec<Member>, may_stay: bool) -> NextTask {
    let stripes: usize = members.iter().map(|member| member.stripes.len()).sum();
    match stripes <= STRIPES_MAX {
        true => NextTask::Due(Task::Gather(members, may_stay)),
        false => NextTask::Nothing,
    }
}

fn is_due(all: &[Member], plan: Plan, tail_is_in_memory: bool) -> bool {
    let Some((base, tail)) = all.split_first() else {
        return false;
    };
    let tail = tail.iter().map(|member| member.entries).sum();
    plan.is_base_due(base.entries, tail, tail_is_in_memory)
}
