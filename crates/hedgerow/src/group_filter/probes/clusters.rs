//! Clusters of filters ([`crate::group_filter::cluster`]): how they are written with tables, and when several become one.
//!
//! A table's filters are written with the table, as a cluster of their own, so that nothing is ever asked without
//! a filter. Where the filters of a level fit the memory ([`resident_levels`]) that is all: they stay apart, in memory, and are
//! written once. Elsewhere a group has one large cluster, the *base*, whose pages are read, and the
//! newest tables' clusters in memory, the *tail*. When the tail has more than a quarter as many runs as the base, both
//! become the new base. So a pile of `k` runs is written when it has 1, 2, 3, 4, 6, 8, 11, 14, 18, 23, 29 of them: a filter is
//! written five times, however high the pile gets; one page is read for all runs, and the tail takes a fifth of
//! the memory of all filters, on average a tenth. Where not even the tail fits, it is a second cluster whose pages
//! are read.
//!
//! Runs that are gone are left out when the base is written again. Tables of which no cluster knows, because the
//! design was another or a file is missing, are read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use hedgerow_io::Storage;

use crate::base::entry::{KeyHash, KeyspaceId, PartitionId};
use crate::base::error::Result;
use crate::base::options::{FilterSpec, Residency};
use crate::base::page::TableId;
use crate::design::in_force::DesignInForce;
use crate::design::merge_policy::shape::{Group, RunId};
use crate::group_filter::cluster::{Builder, Columns, Owner, STRIPES_MAX, Source};
use crate::group_filter::clusters;
use crate::group_filter::clusters::{Attached, Fetch, StoredCluster, cluster_number};
use crate::table::Table;
use crate::table::open::{STREAM_BYTES_MIN, StreamedPages};
use crate::tree::engine::Engine;
use crate::tree::partition::Partition;
use crate::tree::version::Version;

use super::stored::filters_dir;

/// The tail has at most one run for so many of the base.
const BASE_RUNS: usize = 4;
/// What filters take beyond their bits: lengths, and the ends of pages.
pub(crate) const OVERHEAD: f64 = 1.1;
/// Of the memory of filters, what the levels that are kept in it may take; the rest is that of tails.
pub(crate) const RESIDENT_SHARE: f64 = 0.75;

/// What the clusters of a tree lack.
pub(crate) enum Task {
    /// A cluster is damaged: nobody asks it, and its tables are read.
    Forget(Arc<StoredCluster>),
    /// No cluster knows a table: its keys are read, for filters of so many bits per key.
    Cover(Arc<Table>, f32),
    /// Some clusters become one, of these of their stripes; it may stay in memory.
    Gather(Vec<(Arc<StoredCluster>, Vec<usize>)>, bool),
    /// The only cluster of a group leaves the memory.
    Page(Arc<StoredCluster>),
}

/// The first thing that a tree's clusters lack.
pub(super) fn next(engine: &Engine, design: &DesignInForce, version: &Version) -> Option<Task> {
    let bits_at = |level| match design.design.filter_at(level) {
        FilterSpec::Cluster { bits_per_key } => Some(bits_per_key),
        _ => None,
    };
    let mut levels = (0..version.depth())
        .filter_map(|level| Some((level, bits_at(level)?)))
        .peekable();
    levels.peek()?;
    let targets = crate::paths::compaction::targets(design, version);
    let resident = resident_levels(engine, design, version);
    let damaged = engine.tables.damaged_clusters.load(Ordering::Relaxed);
    levels
        .filter(|(level, _)| targets.get(*level).is_some_and(|it| it.runs_max > 1))
        .find_map(|(level, bits)| {
            let stays_in_memory = level < resident;
            // A look at all tables takes longer than a small merge, and an edit changes few groups.
            let circumstances = 2 * damaged + u64::from(stays_in_memory);
            let mut groups = version.levels[level].used_groups().map(|(_, group)| group);
            groups.find_map(|group| {
                if group.is_idle(circumstances) {
                    return None;
                }
                let task = uncovered(group).map(|table| Task::Cover(table, bits));
                let task = task.or_else(|| due(group, stays_in_memory));
                if task.is_none() {
                    group.note_idle(circumstances);
                }
                task
            })
        })
}

/// A table that is in no cluster and has no filter of its own.
fn uncovered(group: &Group<Arc<Table>>) -> Option<Arc<Table>> {
    let mut tables = group.runs.iter().flat_map(|run| &run.tables).peekable();
    tables.peek()?;
    let known: BTreeSet<TableId> = clusters::of_group(group)
        .flat_map(Attached::stripes)
        .map(|(_, table)| table)
        .collect();
    let lacks = |table: &&Arc<Table>| {
        let meta = table.meta();
        meta.filter_bytes == 0 && !known.contains(&meta.id)
    };
    tables.find(lacks).cloned()
}

/// A cluster of a group, and how many of its runs have tables in it.
struct Member<'a> {
    attached: &'a Attached,
    stripes: Vec<usize>,
    runs: usize,
}

impl Member<'_> {
    fn is_resident(&self) -> bool {
        self.attached.cluster.cluster.is_resident()
    }
}

fn members(group: &Group<Arc<Table>>) -> Vec<Member<'_>> {
    let runs: BTreeMap<TableId, RunId> = group
        .runs
        .iter()
        .flat_map(|run| run.tables.iter().map(|table| (table.meta().id, run.id)))
        .collect();
    let member = |attached| {
        let stripes = Attached::stripes(attached);
        let known = stripes.filter_map(|(at, table)| Some((at, *runs.get(&table)?)));
        let (stripes, runs): (Vec<_>, BTreeSet<_>) = known.unzip();
        Member {
            attached,
            stripes,
            runs: runs.len(),
        }
    };
    let members = clusters::of_group(group).map(member);
    members.filter(|member| member.runs > 0).collect()
}

/// What is to become of the clusters of a group.
fn due(group: &Group<Arc<Table>>, stays_in_memory: bool) -> Option<Task> {
    let damaged = |it: &&Attached| it.cluster.is_damaged();
    clusters::of_group(group).next()?;
    if let Some(damaged) = clusters::of_group(group).find(damaged) {
        return Some(Task::Forget(damaged.cluster.clone()));
    }
    let mut all = members(group);
    if all.is_empty() || stays_in_memory && all.iter().all(Member::is_resident) {
        return None;
    }
    all.sort_by_key(|member| std::cmp::Reverse((member.runs, member.stripes.len())));
    let (base, tail) = all.split_first()?;
    if tail.is_empty() {
        let leaves = !stays_in_memory && base.is_resident();
        return leaves.then(|| Task::Page(base.attached.cluster.clone()));
    }
    let tail_runs: usize = tail.iter().map(|member| member.runs).sum();
    let tail_pages = tail.iter().filter(|member| !member.is_resident()).count();
    let (chosen, stays) = if is_base_due(base.runs, tail_runs) {
        (&all[..], stays_in_memory)
    } else if tail_pages > 1 {
        (tail, true)
    } else {
        return None;
    };
    let stripes: usize = chosen.iter().map(|member| member.stripes.len()).sum();
    let gathered = chosen
        .iter()
        .map(|member| (member.attached.cluster.clone(), member.stripes.clone()));
    (stripes <= STRIPES_MAX).then(|| Task::Gather(gathered.collect(), stays))
}

/// Whether base and tail become one.
pub(crate) fn is_base_due(base_runs: usize, tail_runs: usize) -> bool {
    tail_runs * BASE_RUNS > base_runs
}

/// How many levels, from 0, have all their clusters in memory: as many as fit the tree's part, by entries, of what the
/// budget has for filters.
fn resident_levels(engine: &Engine, design: &DesignInForce, version: &Version) -> usize {
    match design.design.residency {
        Residency::Resident => return usize::MAX,
        Residency::Paged => return 0,
        Residency::Auto => {}
    }
    let bits = engine.memory.filter_bits_per_key() * RESIDENT_SHARE;
    let mut left = bits * version.entries() as f64;
    let fits = |level: &usize| {
        if let FilterSpec::Cluster { bits_per_key } = design.design.filter_at(*level) {
            let entries = version.levels[*level].summary().entries as f64;
            left -= entries * f64::from(bits_per_key) * OVERHEAD;
        }
        left >= 0.0
    };
    (0..version.depth()).take_while(fits).count()
}

/// Whether a cluster of so many bytes may be in memory, as long as it is small beside others.
fn may_reside(engine: &Engine, design: &DesignInForce, bytes: u64) -> bool {
    match design.design.residency {
        Residency::Resident => true,
        Residency::Paged => false,
        Residency::Auto => engine.memory.has_room_for_filter(bytes),
    }
}

/// Writes the cluster of a table that was just written.
pub(crate) fn write_fresh(
    engine: &Engine,
    partition: &Partition,
    design: &DesignInForce,
    columns: &Columns,
) -> Result<Arc<StoredCluster>> {
    let is_resident = may_reside(engine, design, columns.bytes());
    write(
        engine,
        partition,
        &[Source::Table(columns)],
        Fetch::new([]),
        is_resident,
    )
}

fn write(
    engine: &Engine,
    partition: &Partition,
    sources: &[Source<'_>],
    fetch: Fetch<'_>,
    is_resident: bool,
) -> Result<Arc<StoredCluster>> {
    let number = engine.writer()?.next_table();
    let owner = partition.keyspace.owner(partition.id);
    let dir = filters_dir(&engine.places.filters_root(&engine.dir));
    let pace = |bytes| {
        engine.rate_limiter.take(bytes);
        engine.check_open()
    };
    clusters::write(
        &engine.tables,
        (&dir, number, owner),
        sources,
        fetch,
        is_resident,
        pace,
    )
}

impl Task {
    pub(super) fn run(&self, engine: &Engine, partition: &Partition) -> Result<()> {
        let design = partition.keyspace.design_owned();
        let (new, others) = match self {
            Task::Cover(table, bits) => {
                let columns = columns_of(engine, partition, table, *bits)?;
                (
                    write_fresh(engine, partition, &design, &columns)?,
                    Vec::new(),
                )
            }
            Task::Gather(gathered, stays) => {
                let others: Vec<_> = gathered.iter().map(|(it, _)| it.clone()).collect();
                let sources = gathered
                    .iter()
                    .map(|(it, stripes)| Source::Cluster(&it.cluster, stripes.clone()));
                let sources: Vec<_> = sources.collect();
                let fetch = Fetch::new(others.iter().map(|it| &**it));
                let bytes = others.iter().map(|it| it.bytes()).sum();
                let is_resident = *stays && may_reside(engine, &design, bytes);
                match write(engine, partition, &sources, fetch, is_resident) {
                    // The next step is to forget it.
                    Err(_) if others.iter().any(|it| it.is_damaged()) => return Ok(()),
                    new => (new?, others),
                }
            }
            Task::Page(cluster) => (cluster.paged()?, vec![cluster.clone()]),
            Task::Forget(cluster) => {
                return install(engine, partition, |version| {
                    clusters::forget(version, cluster)
                });
            }
        };
        install(engine, partition, |version| {
            clusters::replace(version, &new, &others)
        })
    }
}

/// Changes the clusters of the version that a tree has.
fn install(
    engine: &Engine,
    partition: &Partition,
    change: impl FnOnce(&mut Version),
) -> Result<()> {
    // Versions replace one another under this lock.
    let _manifest = engine.writer()?.manifest();
    let mut version = (*partition.tree().version).clone();
    change(&mut version);
    partition.install(Arc::new(version), None);
    Ok(())
}

/// The filters of a table that is read for them. Cost: all of it.
fn columns_of(
    engine: &Engine,
    partition: &Partition,
    table: &Arc<Table>,
    bits: f32,
) -> Result<Columns> {
    let facts = &partition.keyspace;
    let pages = StreamedPages::new(table.clone(), STREAM_BYTES_MIN);
    let mut iter = table.reader()?.clone().iter(Arc::new(pages));
    iter.seek_first()?;
    let mut builder = Builder::new(bits);
    let (mut key, mut count) = (Vec::new(), 0_u64);
    while let Some(entry) = iter.entry() {
        if entry.key != key.as_slice() {
            key.clear();
            key.extend_from_slice(entry.key);
            builder.add(KeyHash::of(facts.order.decode(entry.key), facts.seed));
        }
        count += 1;
        if count % 1024 == 0 {
            engine.check_open()?;
        }
        iter.advance()?;
    }
    Ok(builder
        .finish(table.meta().id)
        .expect("a table has at least one entry"))
}

// ---- opening ----

/// The clusters that were there when the database was opened. Those that no tree takes are removed.
pub(crate) struct Found(BTreeMap<(KeyspaceId, PartitionId), Vec<Arc<StoredCluster>>>);

impl Found {
    /// Reads what they know. Cost: two reads per file.
    pub(crate) fn list(engine: &Engine) -> Found {
        let dir = filters_dir(&engine.places.filters_root(&engine.dir));
        let storage: &dyn Storage = &*engine.environment.storage;
        let files = storage.list(&dir).unwrap_or_default();
        let opened = files.iter().filter_map(|file| {
            let number = TableId(cluster_number(&file.name)?);
            StoredCluster::open(&engine.tables, dir.join(&file.name), number).ok()
        });
        let mut found = Found(BTreeMap::new());
        for cluster in opened {
            let owner = (cluster.owner.keyspace, cluster.owner.partition);
            found.0.entry(owner).or_default().push(cluster);
        }
        found
    }

    /// Gives the groups of a tree the clusters of their tables, and reads what is to be in memory: of small
    /// levels all, of a large one all but the largest of each group.
    pub(crate) fn attach(
        &mut self,
        engine: &Engine,
        design: &DesignInForce,
        version: &mut Version,
        owner: Owner,
    ) {
        let of_tree = self.0.remove(&(owner.keyspace, owner.partition));
        let mut own = of_tree.unwrap_or_default();
        own.retain(|cluster| cluster.owner == owner);
        clusters::attach_all(version, &own);
        let resident = resident_levels(engine, design, version);
        let mut kept = Vec::new();
        for (level, it) in version.levels.iter().enumerate() {
            for group in &it.groups {
                let mut all = members(group);
                all.sort_by_key(|member| member.runs);
                let bases = usize::from(level >= resident);
                let tail = all.len().saturating_sub(bases);
                kept.extend(all[..tail].iter().map(|it| it.attached.cluster.clone()));
            }
        }
        for cluster in clusters::each_once(kept.into_iter()) {
            if may_reside(engine, design, cluster.cluster.pages_bytes())
                && let Ok(resident) = cluster.resident()
            {
                clusters::replace(version, &resident, &[cluster]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The filters of a table are written with it, and when a base is made of those that it goes into: not more
    /// often in a high pile than in a low one. At 2.3 bytes a key (`filter::cluster::tests::pile`) that
    /// is 0.11 of an entry of 116 bytes.
    #[test]
    fn a_filter_is_written_as_often_in_a_high_pile_as_in_a_low_one() {
        let (mut base, mut tail, mut written) = (0, 0, 0);
        let mut bases = Vec::new();
        for runs in 1..=64 {
            (tail, written) = (tail + 1, written + 1);
            if base == 0 {
                // The first one only leaves the memory.
                (base, tail) = (1, 0);
            } else if is_base_due(base, tail) {
                (base, tail) = (base + tail, 0);
                written += base;
                bases.push(base);
            }
            assert!(tail * 5 <= runs, "{tail} of {runs} runs are in memory");
            assert!(
                f64::from(written as u32) <= 5.5 * f64::from(runs as u32),
                "{written} for {runs} runs"
            );
        }
        assert_eq!(bases, [2, 3, 4, 6, 8, 11, 14, 18, 23, 29, 37, 47, 59]);
    }
}
