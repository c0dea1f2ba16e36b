//! Clusters are written with tables, and become one with others, in files and in memory.
//!
//! A table's filters are written with the table, as a cluster of their own, so that every run has
//! a filter from the start. If the filters of a level fit the memory
//! ([`cluster_plan`](crate::design::cluster_plan)), they are written once and stay in memory,
//! where those of a group are joined. Deeper levels share clusters: a group and the groups of its
//! range in deeper levels ([`unit`](super::unit)) have one large cluster, the *base*, whose pages
//! are read. The clusters of the newest tables, the *tail*, are in memory. When the tail has more
//! than a quarter of the base's entries, both become the next base. A stack of `k` runs is written
//! when it has 1, 2, 3, 4, 6, 8, 11, 14, 18, 23, 29 of them, so a filter is written five times for
//! any `k`. A get reads one page for all runs of all these levels. The tail takes a fifth of the
//! memory of all filters, on average a tenth. If memory has no room for a tail, the largest tails
//! become bases once they have a sixteenth. A smaller tail without room is a second cluster whose
//! pages are read.
//!
//! Runs that are gone are left out when the base is written again. Tables that no cluster knows
//! are read: the design changed, or a file is missing.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::base::error::Result;
use crate::base::options::{FilterSpec, Residency};
use crate::design::cluster_plan::{LevelFilters, Plan, RESIDENT_SHARE};
use crate::design::in_force::DesignInForce;
use crate::design::merge_policy::LevelTarget;
use crate::design::merge_policy::shape::{LEVELS_MAX, Level};
use crate::group_filter::{self, BuildStep, Context, FoundFile, Version, VersionChange};
use crate::table::Table;

use super::Source;
use super::attach;
use super::columns::{Builder, Columns};
use super::stored_cluster::{self, Fetch, StoredCluster};
use super::unit::{self, Member, NextTask, Task};

/// The bits per key of a level with clusters.
fn bits_at(design: &DesignInForce, level: usize) -> Option<f32> {
    match design.design.filter_at(level) {
        FilterSpec::Cluster { bits_per_key } => Some(bits_per_key),
        _ => None,
    }
}

/// The first thing that a tree's clusters lack. If memory has no room for a cluster that belongs
/// there, the largest tail leaves it.
pub(super) fn next(cx: &Context<'_>, version: &Version) -> Option<Task> {
    let levels = clustered(cx.design, version);
    levels.first()?;
    let plan = plan(cx, version);
    let circumstances = circumstances(cx, plan);
    let mut lacks_memory = false;
    for unit in unit::units(version, &levels, plan) {
        // A look at all tables takes longer than a small merge, and an edit changes few groups.
        if unit.is_complete(circumstances) {
            continue;
        }
        match unit.finding(|bytes| may_reside(cx, bytes + unit.reserve())) {
            NextTask::Due(task) => return Some(task),
            NextTask::LacksMemory => lacks_memory = true,
            NextTask::Nothing => {}
        }
        let groups = unit.groups.iter();
        groups.for_each(|it| it.filters.note_complete(circumstances));
    }
    let units = lacks_memory.then(|| unit::units(version, &levels, plan));
    let tails = units.into_iter().flatten().filter_map(|it| it.relief());
    tails
        .max_by_key(|(entries, _)| *entries)
        .map(|(_, task)| task)
}

/// A number for all that decides what clusters lack, beside the clusters themselves.
fn circumstances(cx: &Context<'_>, plan: Plan) -> u64 {
    let memory = &cx.tables.memory;
    let sixteenths = 16 * memory.filters.load(Ordering::Relaxed) / memory.plan().resident.max(1);
    let levels = LEVELS_MAX as u64 + 1;
    let levels = plan.resident as u64 * levels + plan.shared as u64;
    (sixteenths << 16) + levels
}

/// The levels with clusters whose groups may have several runs.
fn clustered(design: &DesignInForce, version: &Version) -> Vec<usize> {
    let depth = version.depth();
    if (0..depth).all(|level| bits_at(design, level).is_none()) {
        return Vec::new();
    }
    let targets = design.targets(version);
    let is_asked = |level: &usize| {
        let target = targets.get(*level);
        bits_at(design, *level).is_some() && target.is_some_and(LevelTarget::takes_several_runs)
    };
    (0..depth).filter(is_asked).collect()
}

/// The plan for a tree, which has its part, by entries, of the memory of filters. A level is taken
/// to be full when it has as many entries as a run of the next one.
fn plan(cx: &Context<'_>, version: &Version) -> Plan {
    let level = |level: usize| {
        let bits = f64::from(bits_at(cx.design, level).unwrap_or_default());
        let below = version.levels.get(level + 1).map(Level::summary);
        let below = below.map_or(0.0, |it| it.entries as f64 / f64::from(it.runs.max(1)));
        LevelFilters {
            now: bits * version.levels[level].entries() as f64,
            full: bits * below,
        }
    };
    let levels: Vec<_> = (0..version.depth()).map(level).collect();
    let bits = cx.tables.memory.filter_bits_per_key() * RESIDENT_SHARE;
    Plan::new(
        &levels,
        bits * version.entries() as f64,
        cx.design.design.residency,
    )
}

/// Returns true if a cluster of `bytes` bytes may be in memory, as long as it is small beside
/// others.
fn may_reside(cx: &Context<'_>, bytes: u64) -> bool {
    match cx.design.design.residency {
        Residency::Resident => true,
        Residency::Paged => false,
        Residency::Auto => cx.tables.memory.has_room_for_filter(bytes),
    }
}

/// Writes the cluster of a table that was just written for a level.
pub(super) fn write_fresh(
    cx: &Context<'_>,
    version: &Version,
    level: usize,
    columns: &Columns,
) -> Result<Arc<StoredCluster>> {
    let plan = plan(cx, version);
    let reserve = if level < plan.resident {
        0
    } else {
        plan.reserve
    };
    let is_resident = may_reside(cx, columns.bytes() + reserve);
    let sources = [Source::Table(columns)];
    stored_cluster::write(cx, &sources, Fetch::new([]), is_resident)
}

/// Joins clusters in memory.
fn join(cx: &Context<'_>, members: &[Member]) -> Result<Arc<StoredCluster>> {
    let number = match members {
        [only] => only.cluster.name().0,
        _ => cx.host.next_number()?,
    };
    let bytes: u64 = members.iter().map(Member::bytes).sum();
    let _buffers = cx.tables.memory.buffers(bytes as usize);
    let members: Vec<_> = members.iter().map(Member::parts).collect();
    stored_cluster::join(number, &members)
}

impl BuildStep for Task {
    fn takes_a_turn(&self) -> bool {
        false
    }

    fn run(self: Box<Self>, cx: &Context<'_>, version: &Version) -> Result<Option<VersionChange>> {
        let new = match *self {
            Task::Cover(table) => {
                let level = version.table(table.meta().id);
                let level = level.map(|(at, _)| usize::from(at.level));
                let bits = level.and_then(|level| Some((level, bits_at(cx.design, level)?)));
                let Some((level, bits)) = bits else {
                    return Ok(None);
                };
                let columns = columns_of(cx, &table, bits)?;
                Some(write_fresh(cx, version, level, &columns)?)
            }
            Task::Gather(members, stays) => {
                let parts: Vec<_> = members.iter().map(Member::parts).collect();
                let (sources, fetch) = stored_cluster::sources_of(&parts);
                let bytes: u64 = members.iter().map(Member::bytes).sum();
                let reserve = plan(cx, version).reserve;
                let is_resident = stays && may_reside(cx, bytes + reserve);
                let written = stored_cluster::write(cx, &sources, fetch, is_resident);
                unless_damaged(&members, written)?
            }
            Task::Join(members) => unless_damaged(&members, join(cx, &members))?,
            Task::Page(cluster) => cluster.paged()?,
            Task::Forget(cluster) => {
                let forget = move |version: &mut Version| attach::forget(version, &cluster);
                return Ok(Some(Box::new(forget)));
            }
        };
        let replace =
            |new| -> VersionChange { Box::new(move |version| attach::replace(version, &new)) };
        Ok(new.map(replace))
    }
}

/// A new cluster; `None` if one that it is made of turned out to be damaged. The next step is to
/// forget that one.
fn unless_damaged(
    members: &[Member],
    new: Result<Arc<StoredCluster>>,
) -> Result<Option<Arc<StoredCluster>>> {
    match new {
        Err(_) if members.iter().any(|it| it.cluster.is_damaged()) => Ok(None),
        new => new.map(Some),
    }
}

/// The filters of a table, built from its keys. Cost: a read of the whole table.
fn columns_of(cx: &Context<'_>, table: &Arc<Table>, bits: f32) -> Result<Columns> {
    let mut builder = Builder::new(bits);
    group_filter::hash_keys(cx, table, |hash| builder.push(hash))?;
    let columns = builder.columns(table.meta().id);
    Ok(columns.expect("a table has at least one entry"))
}

// ---- opening ----

/// Gives the groups of a tree the clusters of these files. Reads those that are to be in memory:
/// all of small levels, and all but the largest of each other unit.
pub(super) fn attach_found(cx: &Context<'_>, version: &mut Version, found: Vec<FoundFile>) {
    let found = found.into_iter();
    let opened = found.filter_map(|(file, framed)| StoredCluster::open(file, &framed).ok());
    attach::attach_all(version, &attach::each_once(opened));
    let plan = plan(cx, version);
    let levels = clustered(cx.design, version);
    let mut kept = Vec::new();
    for unit in unit::units(version, &levels, plan) {
        let bases = usize::from(!unit.stays_in_memory);
        let tail = unit.members().into_iter().skip(bases);
        let tail = tail.filter(Member::is_own);
        kept.extend(tail.map(|it| (it, unit.reserve())));
    }
    for (member, reserve) in kept {
        if may_reside(cx, member.bytes() + reserve)
            && let Ok(resident) = join(cx, &[member])
        {
            attach::replace(version, &resident);
        }
    }
}
