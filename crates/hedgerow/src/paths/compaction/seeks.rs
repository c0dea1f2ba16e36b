//! Merges that are justified by seeks.
//!
//! A load ends with up to three runs in level 0, which are no reason for a merge. A get probes
//! their filters and passes on, but every seek reads a page of each of them, forever if there are
//! no more writes. So each such page counts towards the cost of merging the runs into the level
//! below; when that cost is paid, they are merged. A flush restarts the count, so that a tree under
//! writes is merged as its policy says.

use std::ops::Range;
use std::sync::Arc;

use super::{MergeJob, limits};
use crate::base::stats::OperationKind;
use crate::design::merge_policy::plan::Plan;
use crate::design::planner::{plan, plan_for_seeks};
use crate::tree::engine::{Engine, KeyspaceState};
use crate::tree::partition::Partition;
use crate::tree::version::Version;

/// The number of seeks of a thread between two checks.
pub(crate) const LOOK_EVERY: u64 = 1 << 10;
/// The bytes of a merge that one seek pays for each run of level 0 that it probes: a page takes 50
/// to 100 us on a device that merges at several hundred megabytes per second. LevelDB charges reads
/// the same.
const PAID_BYTES: u64 = 16 << 10;

/// The merges that the seeks on these partitions have paid for. They are among the running ones.
pub(crate) fn begin_paid<'a>(
    engine: &Engine,
    state: &'a KeyspaceState,
    asked: Range<usize>,
) -> Vec<(&'a Arc<Partition>, MergeJob)> {
    if engine.writer().is_err() {
        return Vec::new();
    }
    // If the trees are probed one by one, each has a share of the seeks.
    let share = state.partitions.len() / asked.len().max(1);
    let seeks = state.facts.operations.get(OperationKind::Seeks) / share.max(1) as u64;
    let asked = state.partitions[asked].iter();
    let left = asked.filter(|it| !it.is_dropped());
    left.filter_map(|it| Some((it, begin(engine, it, seeks)?)))
        .collect()
}

/// Enters the merge among the running ones, if it is paid for and there is no other work.
fn begin(engine: &Engine, partition: &Partition, seeks: u64) -> Option<MergeJob> {
    let mut work = partition.work();
    let tree = partition.tree();
    let version = &tree.version;
    let runs = &version.levels[0].groups[0].runs;
    let newest = runs.first()?.id;
    let since = match work.seeks_since {
        Some((run, since)) if run == newest => since,
        _ => {
            work.seeks_since = Some((newest, seeks));
            return None;
        }
    };
    let design = partition.keyspace.design_owned();
    let (targets, limits) = (design.targets(version), limits(engine, &design));
    if !work.running.is_empty() || plan(version, &targets, &[], &limits).is_some() {
        return None;
    }
    let plan = plan_for_seeks(version, &targets, &limits)?;
    let paid = seeks
        .saturating_sub(since)
        .saturating_mul(runs.len() as u64);
    if read_bytes(version, &plan) > paid.saturating_mul(PAID_BYTES) {
        return None;
    }
    // If the merge fails, it has to be paid again.
    work.seeks_since = Some((newest, seeks));
    Some(MergeJob::new(design, version, plan).entered(&mut work))
}

/// The bytes that a merge reads, and approximately writes.
fn read_bytes(version: &Version, plan: &Plan) -> u64 {
    let Plan::Merge { inputs, .. } = plan else {
        return 0;
    };
    let tables = inputs.iter().flat_map(|input| &input.tables);
    let tables = tables.filter_map(|id| version.table(*id));
    tables.map(|(_, table)| table.meta().file_bytes).sum()
}
