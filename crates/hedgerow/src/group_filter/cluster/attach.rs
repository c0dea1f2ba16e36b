//! Groups probe clusters, and tables keep their clusters when they change their place.
//!
//! A cluster answers for tables, and the read path looks for runs of a group. So a group holds a
//! cluster together with the run of each of its tables ([`ClusterProbe`]). That pair is made anew
//! whenever a group gets tables: from a flush, a merge, a move, another number of groups, or the
//! manifest. The cluster answers for a table as soon as the table is in the tree ([`carry`]).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::base::entry::{KeyHash, RunId};
use crate::base::error::Result;
use crate::base::page::{Page, Step, TableId};
use crate::design::merge_policy::shape::Group;
use crate::design::merge_policy::tree_edit::TreeEdit;
use crate::group_filter::{GroupProbe, Version};
use crate::table::Table;
use crate::table::filter::{Probe, RunMask};
use crate::table::paged_file::PagedFile;

use super::stored_cluster::StoredCluster;

/// A cluster as a group probes it.
#[derive(Debug)]
pub(super) struct ClusterProbe {
    pub(super) cluster: Arc<StoredCluster>,
    /// For each stripe, the run of its table as an index into [`GroupProbe::runs`], if it is in the
    /// group.
    runs: Box<[Option<u8>]>,
    count: usize,
}

impl Probe for ClusterProbe {
    fn candidates(&self, hash: KeyHash, page: Option<&Page>) -> Result<Step<RunMask>> {
        let mut left = RunMask::all(self.count);
        let absent_from = |run| left = left.without(usize::from(run));
        let asked = self
            .cluster
            .cluster
            .probe(hash, page, &self.runs, absent_from);
        Ok(match asked? {
            Step::Read(id) => Step::Read(id),
            Step::Done(()) => Step::Done(left),
        })
    }

    fn touch(&self, hash: KeyHash) {
        self.cluster.cluster.touch(hash);
    }

    fn memory_bytes(&self) -> usize {
        self.cluster.cluster.memory_bytes()
    }

    fn bytes(&self) -> u64 {
        self.cluster.cluster.pages_bytes()
    }

    fn file(&self) -> Option<&PagedFile> {
        self.cluster.pages()
    }
}

impl ClusterProbe {
    /// The tables of the group that it answers for, with the places of their stripes.
    pub(super) fn stripes(&self) -> impl Iterator<Item = (usize, TableId)> {
        let stripes = self.cluster.cluster.stripes().iter().zip(&self.runs);
        let here = stripes.enumerate().filter(|(_, (_, run))| run.is_some());
        here.map(|(at, (stripe, _))| (at, stripe.table))
    }
}

/// The clusters of a group.
pub(super) fn of_group(group: &Group<Arc<Table>>) -> impl Iterator<Item = &ClusterProbe> {
    group.filters.of_kind()
}

/// The files of the clusters of a tree, each once.
pub(super) fn files(version: &Version) -> Vec<Arc<PagedFile>> {
    let groups = version.levels.iter().flat_map(|level| &level.groups);
    let clusters = groups.flat_map(|group| of_group(group));
    let files = clusters.flat_map(|it| it.cluster.files());
    let by_number: BTreeMap<_, _> = files.map(|it| (it.number(), it.file.clone())).collect();
    by_number.into_values().collect()
}

/// The clusters without repetition, in the order of their numbers.
pub(super) fn each_once(all: impl Iterator<Item = Arc<StoredCluster>>) -> Vec<Arc<StoredCluster>> {
    let by_number: BTreeMap<_, _> = all.map(|it| (it.name(), it)).collect();
    by_number.into_values().collect()
}

/// The level and the number of a group.
type LevelGroup = (usize, usize);

/// A cluster of one table as a group will probe it, but for the run of the table.
pub(super) fn of_one_table(cluster: Arc<StoredCluster>) -> GroupProbe {
    let attached = ClusterProbe {
        cluster: cluster.clone(),
        runs: [Some(0)].into(),
        count: 1,
    };
    GroupProbe::new(Arc::default(), Arc::new(attached), cluster)
}

/// Gives the groups that an edit changed the clusters of their tables: the ones that the groups
/// have, and those that the tables had before.
pub(super) fn carry(before: &Version, after: &mut Version, edit: &TreeEdit) {
    let added = edit.added.iter().map(|(_, meta)| meta.id);
    let tables = added.chain(edit.moved.iter().map(|(id, _)| *id));
    let mut targets: BTreeSet<LevelGroup> = tables.filter_map(|id| place(after, id)).collect();
    for &(level, _) in &edit.ranges {
        let level = usize::from(level);
        let groups = after.levels.get(level).map_or(0, |it| it.groups.len());
        targets.extend((0..groups).map(|group| (level, group)));
    }
    let tables = groups(after, &targets).flat_map(|it| it.runs.iter().flat_map(|run| &run.tables));
    let sources: BTreeSet<LevelGroup> = tables
        .filter_map(|table| place(before, table.meta().id))
        .collect();
    let known = groups(before, &sources).chain(groups(after, &targets));
    let known = known.flat_map(of_group).map(|it| it.cluster.clone());
    let pool = each_once(known);
    attach(after, &targets, &pool);
}

/// The groups at some places.
fn groups<'a>(
    version: &'a Version,
    places: &'a BTreeSet<LevelGroup>,
) -> impl Iterator<Item = &'a Group<Arc<Table>>> {
    let groups = places.iter().map(|at| &version.levels[at.0].groups[at.1]);
    groups.map(|group| &**group)
}

fn place(version: &Version, id: TableId) -> Option<LevelGroup> {
    let (at, _) = version.table(id)?;
    Some((usize::from(at.level), at.group as usize))
}

/// Attaches these clusters to all groups that hold tables of theirs. `pool` is in the order of
/// numbers.
pub(super) fn attach_all(version: &mut Version, pool: &[Arc<StoredCluster>]) {
    let levels = version.levels.iter().enumerate();
    let places = levels.flat_map(|(at, level)| (0..level.groups.len()).map(move |it| (at, it)));
    let targets = places.collect();
    attach(version, &targets, pool);
}

/// Puts a new cluster into the groups of its tables, and removes other clusters of these tables.
pub(super) fn replace(version: &mut Version, new: &Arc<StoredCluster>) {
    let stripes = new.cluster.stripes().iter();
    let targets: BTreeSet<LevelGroup> = stripes.filter_map(|it| place(version, it.table)).collect();
    let others = groups(version, &targets)
        .flat_map(of_group)
        .map(|it| it.cluster.clone())
        .filter(|it| it.name().0 != new.name().0);
    let pool = each_once(others.chain([new.clone()]));
    attach(version, &targets, &pool);
}

/// Removes a cluster from all groups.
pub(super) fn forget(version: &mut Version, cluster: &Arc<StoredCluster>) {
    let is_other = |probe: &GroupProbe| {
        probe
            .of_kind::<ClusterProbe>()
            .is_none_or(|it| !Arc::ptr_eq(&it.cluster, cluster))
    };
    for level in &mut version.levels {
        let asks = |at: &usize| !level.groups[*at].filters.probes.iter().all(is_other);
        let asking: Vec<usize> = (0..level.groups.len()).filter(asks).collect();
        for group in asking {
            let group = level.group_mut(group).expect("found above");
            group.filters.probes.retain(is_other);
        }
    }
}

/// Gives some groups these clusters and no others. The newest cluster of a table answers for it.
/// `pool` is in the order of numbers.
fn attach(version: &mut Version, targets: &BTreeSet<LevelGroup>, pool: &[Arc<StoredCluster>]) {
    for &place in targets {
        let group = group_mut(version, place);
        group
            .filters
            .probes
            .retain(|probe| probe.of_kind::<ClusterProbe>().is_none());
    }
    let mut known = BTreeSet::new();
    for cluster in pool.iter().rev() {
        let stripes = cluster.cluster.stripes();
        let mut here: BTreeMap<LevelGroup, Runs> = BTreeMap::new();
        for (stripe, it) in stripes.iter().enumerate() {
            let found = version.table(it.table);
            let found = found.map(|(at, _)| ((usize::from(at.level), at.group as usize), at.run));
            if let Some((place, run)) = found.filter(|(place, _)| targets.contains(place))
                && known.insert(it.table)
            {
                let runs = here
                    .entry(place)
                    .or_insert_with(|| Runs::new(stripes.len()));
                runs.note(stripe, run);
            }
        }
        for (place, runs) in here {
            let probe = runs.probe(cluster);
            group_mut(version, place).filters.probes.push(probe);
        }
    }
}

/// The group at a place, which exists.
fn group_mut(version: &mut Version, (level, group): LevelGroup) -> &mut Group<Arc<Table>> {
    let group = version.levels[level].group_mut(group);
    group.expect("a place is that of a group")
}

/// The runs of a group that the tables of a cluster are in.
struct Runs {
    ids: Vec<RunId>,
    of_stripes: Box<[Option<u8>]>,
}

impl Runs {
    fn new(stripes: usize) -> Runs {
        Runs {
            ids: Vec::new(),
            of_stripes: vec![None; stripes].into(),
        }
    }

    fn note(&mut self, stripe: usize, run: RunId) {
        let known = self.ids.iter().position(|id| *id == run);
        let place = known.unwrap_or_else(|| {
            self.ids.push(run);
            self.ids.len() - 1
        });
        self.of_stripes[stripe] = Some(place as u8);
    }

    fn probe(mut self, cluster: &Arc<StoredCluster>) -> GroupProbe {
        // In the order of the group, so that a bit stands for the run at its place if all are here.
        let mut newest_first: Vec<_> = (0..self.ids.len()).collect();
        newest_first.sort_by_key(|at| Reverse(self.ids[*at]));
        let mut places = vec![0; newest_first.len()];
        for (place, at) in newest_first.iter().enumerate() {
            places[*at] = place as u8;
        }
        for run in self.of_stripes.iter_mut().flatten() {
            *run = places[usize::from(*run)];
        }
        self.ids.sort_by_key(|id| Reverse(*id));
        let attached = ClusterProbe {
            cluster: cluster.clone(),
            runs: self.of_stripes,
            count: self.ids.len(),
        };
        GroupProbe::new(self.ids.into(), Arc::new(attached), cluster.clone())
    }
}
