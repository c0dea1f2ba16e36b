//! Clusters of filters ([`crate::group_filter::cluster`]): how they are written with tables, and
//! when several become one.
//!
//! A table's filters are written with the table, as a cluster of their own, so that every run has a
//! filter from the start. If the filters of a level fit the memory ([`plan`]), they stay apart and
//! in memory, and are written once. Deeper levels share clusters: a group and the groups of its
//! range in deeper levels ([`unit`]) have one large cluster, the *base*, whose pages are read. The
//! clusters of the newest tables, the *tail*, are in memory. When the tail has more than a quarter
//! of the base's entries, both become the next base. A stack of `k` runs is written when it has 1,
//! 2, 3, 4, 6, 8, 11, 14, 18, 23, 29 of them, so a filter is written five times for any `k`. A get
//! reads one page for all runs of all these levels. The tail takes a fifth of the memory of all
//! filters, on average a tenth. If memory has no room for a tail, the largest tails become bases
//! once they have a sixteenth. A smaller tail without room is a second cluster whose pages are
//! read.
//!
//! Runs that are gone are left out when the base is written again. Tables that no cluster knows are
//! read: the design changed, or a file is missing.

mod plan;
mod unit;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use hedgerow_io::Storage;

use crate::base::entry::{KeyHash, KeyspaceId, PartitionId};
use crate::base::error::Result;
use crate::base::options::{FilterSpec, Residency};
use crate::base::page::TableId;
use crate::design::in_force::DesignInForce;
use crate::design::merge_policy::shape::{LEVELS_MAX, Level};
use crate::group_filter::cluster::{Builder, Columns, Owner, Source};
use crate::group_filter::clusters;
use crate::group_filter::clusters::{Fetch, StoredCluster, cluster_number};
use crate::table::Table;
use crate::table::open::{STREAM_BYTES_MIN, StreamedPages};
use crate::tree::engine::Engine;
use crate::tree::partition::Partition;
use crate::tree::version::Version;

use super::stored::filters_dir;
pub(crate) use plan::{LevelFilters, Plan, RESIDENT_SHARE};
use unit::{Finding, Member};

/// The next thing that the clusters of a tree lack.
pub(crate) enum Task {
    /// A cluster is damaged: reads no longer probe it, and its tables are read.
    Forget(Arc<StoredCluster>),
    /// No cluster knows a table: its keys are read.
    Cover(Arc<Table>),
    /// Some clusters become one, which may stay in memory.
    Gather(Vec<Member>, bool),
    /// A cluster leaves the memory.
    Page(Arc<StoredCluster>),
    /// A cluster of a small level comes into memory.
    Load(Arc<StoredCluster>),
}

/// The bits per key of a level with clusters.
fn bits_at(design: &DesignInForce, level: usize) -> Option<f32> {
    match design.design.filter_at(level) {
        FilterSpec::Cluster { bits_per_key } => Some(bits_per_key),
        _ => None,
    }
}

/// The first thing that a tree's clusters lack. If memory has no room for a cluster that belongs
/// there, the largest tail leaves it.
pub(super) fn next(engine: &Engine, design: &DesignInForce, version: &Version) -> Option<Task> {
    let levels = clustered(design, version);
    levels.first()?;
    let plan = plan(engine, design, version);
    let circumstances = circumstances(engine, plan);
    let mut lacks_memory = false;
    for unit in unit::units(version, &levels, plan) {
        // A look at all tables takes longer than a small merge, and an edit changes few groups.
        if unit.groups.iter().all(|it| it.is_idle(circumstances)) {
            continue;
        }
        match unit.finding(|bytes| may_reside(engine, design, bytes + unit.reserve())) {
            Finding::Due(task) => return Some(task),
            Finding::LacksMemory => lacks_memory = true,
            Finding::Nothing => {}
        }
        unit.groups
            .iter()
            .for_each(|it| it.note_idle(circumstances));
    }
    let units = lacks_memory.then(|| unit::units(version, &levels, plan));
    let tails = units.into_iter().flatten().filter_map(|it| it.relief());
    tails
        .max_by_key(|(entries, _)| *entries)
        .map(|(_, task)| task)
}

/// A number for everything that decides what clusters lack, beside the clusters themselves.
fn circumstances(engine: &Engine, plan: Plan) -> u64 {
    let damaged = engine.tables.damaged_clusters.load(Ordering::Relaxed);
    let filters = engine.memory.filters.load(Ordering::Relaxed);
    let sixteenths = 16 * filters / engine.memory.plan().resident.max(1);
    let levels = LEVELS_MAX as u64 + 1;
    let levels = plan.resident as u64 * levels + plan.shared as u64;
    (damaged << 32) + (sixteenths.min(0xFFFF) << 16) + levels
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
        bits_at(design, *level).is_some() && target.is_some_and(|it| it.runs_max > 1)
    };
    (0..depth).filter(is_asked).collect()
}

/// The plan for a tree, which has its part, by entries, of the memory of filters. A level is taken
/// to be full when it has as many entries as a run of the next one.
fn plan(engine: &Engine, design: &DesignInForce, version: &Version) -> Plan {
    let level = |level: usize| {
        let bits = f64::from(bits_at(design, level).unwrap_or_default());
        let below = version.levels.get(level + 1).map(Level::summary);
        let below = below.map_or(0.0, |it| it.entries as f64 / f64::from(it.runs.max(1)));
        LevelFilters {
            now: bits * version.levels[level].entries() as f64,
            full: bits * below,
        }
    };
    let levels: Vec<_> = (0..version.depth()).map(level).collect();
    let bits = engine.memory.filter_bits_per_key() * RESIDENT_SHARE;
    Plan::new(
        &levels,
        bits * version.entries() as f64,
        design.design.residency,
    )
}

/// Returns true if a cluster of `bytes` bytes may be in memory, as long as it is small beside
/// others.
fn may_reside(engine: &Engine, design: &DesignInForce, bytes: u64) -> bool {
    match design.design.residency {
        Residency::Resident => true,
        Residency::Paged => false,
        Residency::Auto => engine.memory.has_room_for_filter(bytes),
    }
}

/// Writes the cluster of a table that was just written for a level.
pub(crate) fn write_fresh(
    engine: &Engine,
    partition: &Partition,
    design: &DesignInForce,
    level: usize,
    columns: &Columns,
) -> Result<Arc<StoredCluster>> {
    let plan = plan(engine, design, &partition.tree().version);
    let reserve = if level < plan.resident {
        0
    } else {
        plan.reserve
    };
    let is_resident = may_reside(engine, design, columns.bytes() + reserve);
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
        let new = match self {
            Task::Cover(table) => {
                let tree = partition.tree_owned();
                let place = tree.version.table(table.meta().id);
                let level = place.map(|(at, _)| usize::from(at.level));
                let bits = level.and_then(|level| Some((level, bits_at(&design, level)?)));
                let Some((level, bits)) = bits else {
                    return Ok(());
                };
                let columns = columns_of(engine, partition, table, bits)?;
                write_fresh(engine, partition, &design, level, &columns)?
            }
            Task::Gather(members, stays) => {
                let sources = members.iter();
                let sources =
                    sources.map(|it| Source::Cluster(&it.cluster.cluster, it.stripes.clone()));
                let sources: Vec<_> = sources.collect();
                let fetch = Fetch::new(members.iter().map(|it| &*it.cluster));
                let bytes: u64 = members.iter().map(Member::bytes).sum();
                let reserve = plan(engine, &design, &partition.tree().version).reserve;
                let is_resident = *stays && may_reside(engine, &design, bytes + reserve);
                match write(engine, partition, &sources, fetch, is_resident) {
                    // The next step is to forget it.
                    Err(_) if members.iter().any(|it| it.cluster.is_damaged()) => return Ok(()),
                    new => new?,
                }
            }
            Task::Page(cluster) => cluster.paged()?,
            Task::Load(cluster) => match cluster.resident() {
                Err(_) if cluster.is_damaged() => return Ok(()),
                new => new?,
            },
            Task::Forget(cluster) => {
                return install(engine, partition, |version| {
                    clusters::forget(version, cluster)
                });
            }
        };
        install(engine, partition, |version| {
            clusters::replace(version, &new)
        })
    }
}

/// Changes the clusters of the current version of a tree.
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

/// The filters of a table, built from its keys. Cost: a read of the whole table.
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
    /// Reads the directories of the clusters. Cost: two reads per file.
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

    /// Gives the groups of a tree the clusters of their tables, and reads those that are to be in
    /// memory: all of small levels, and all but the largest of each other unit.
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
        clusters::attach_all(version, &clusters::each_once(own.into_iter()));
        let plan = plan(engine, design, version);
        let levels = clustered(design, version);
        let mut kept = Vec::new();
        for unit in unit::units(version, &levels, plan) {
            let bases = usize::from(!unit.stays_in_memory);
            let tail = unit.members().into_iter().skip(bases);
            let tail = tail.filter(Member::is_own);
            kept.extend(tail.map(|it| (it.cluster, unit.reserve())));
        }
        for (cluster, reserve) in kept {
            if may_reside(engine, design, cluster.cluster.pages_bytes() + reserve)
                && let Ok(resident) = cluster.resident()
            {
                clusters::replace(version, &resident);
            }
        }
    }
}
