//! A unit is the groups that share clusters: a base and a tail, which become the next base.

use std::collections::BTreeSet;
use std::collections::btree_map::{BTreeMap, Entry};
use std::sync::Arc;

use crate::base::page::TableId;
use crate::design::merge_policy::shape::{Group, Run};
use crate::group_filter::cluster::STRIPES_MAX;
use crate::group_filter::clusters::{self, Attached, StoredCluster};
use crate::table::Table;
use crate::tree::version::Version;

use super::Task;
use super::plan::Plan;

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
pub(crate) struct Member {
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

    /// Its approximate size without tables outside of the unit.
    pub(super) fn bytes(&self) -> u64 {
        let all = self.cluster.cluster.stripes().len() as u64;
        self.cluster.cluster.pages_bytes() * self.stripes.len() as u64 / all
    }
}

/// The answer to what the clusters of a unit lack.
pub(super) enum Finding {
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

    fn attached(&self) -> impl Iterator<Item = &Attached> {
        let groups = self.groups.iter();
        groups.flat_map(|group| clusters::of_group(group))
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
            .flat_map(Attached::stripes)
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
    pub(super) fn finding(&self, has_room: impl Fn(u64) -> bool) -> Finding {
        if let Some(table) = self.uncovered() {
            return Finding::Due(Task::Cover(table));
        }
        if let Some(damaged) = self.attached().find(|it| it.cluster.is_damaged()) {
            return Finding::Due(Task::Forget(damaged.cluster.clone()));
        }
        let mut all = self.members();
        if self.stays_in_memory {
            return missing(all, has_room);
        }
        if let [only] = &all[..] {
            return match only.is_resident() {
                true => Finding::Due(Task::Page(only.cluster.clone())),
                false => Finding::Nothing,
            };
        }
        if is_due(&all, self.plan, true) {
            return gathered(all, false);
        }
        let is_due = is_due(&all, self.plan, false);
        let tail = all.split_off(all.len().min(1));
        match missing(tail, has_room) {
            Finding::Due(Task::Gather(..)) | Finding::LacksMemory if is_due => {
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
            Finding::Due(task) => Some((entries, task)),
            Finding::LacksMemory | Finding::Nothing => None,
        }
    }
}

/// The first thing that clusters lack that belong in memory.
fn missing(mut all: Vec<Member>, has_room: impl Fn(u64) -> bool) -> Finding {
    all.retain(|member| !member.is_resident());
    match all.iter().position(|member| has_room(member.bytes())) {
        Some(at) if all[at].is_own() => Finding::Due(Task::Load(all[at].cluster.clone())),
        Some(at) => gathered(vec![all.swap_remove(at)], true),
        None if all.is_empty() => Finding::Nothing,
        None if all.len() == 1 => Finding::LacksMemory,
        // Then a get reads one page for all.
        None => gathered(all, true),
    }
}

fn gathered(members: Vec<Member>, may_stay: bool) -> Finding {
    let stripes: usize = members.iter().map(|member| member.stripes.len()).sum();
    match stripes <= STRIPES_MAX {
        true => Finding::Due(Task::Gather(members, may_stay)),
        false => Finding::Nothing,
    }
}

fn is_due(all: &[Member], plan: Plan, tail_is_in_memory: bool) -> bool {
    let Some((base, tail)) = all.split_first() else {
        return false;
    };
    let tail = tail.iter().map(|member| member.entries).sum();
    plan.is_base_due(base.entries, tail, tail_is_in_memory)
}
