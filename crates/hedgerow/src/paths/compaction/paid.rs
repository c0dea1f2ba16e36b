//! Merges that are justified by reads.
//!
//! A load ends with up to three runs in level 0, which are no reason for a merge. A get probes
//! their filters, and every seek reads a page of each of them, forever if there are no more writes.
//! So each of these reads counts towards the cost of merging the runs into the level below; when
//! gets or seeks have paid that cost, the runs are merged. A flush restarts the count, so that a
//! tree under writes is merged as its policy says.

use std::num::NonZeroU64;
use std::ops::Range;
use std::sync::Arc;

use super::{MergeJob, limits};
use crate::base::stats::OperationKind;
use crate::design::merge_policy::plan::Plan;
use crate::design::planner::{plan, plan_for_reads};
use crate::table::memory::Memory;
use crate::tree::engine::{Engine, KeyspaceState};
use crate::tree::partition::Partition;
use crate::tree::version::Version;

/// The number of reads of a thread between two checks.
pub(crate) const LOOK_EVERY: u64 = 1 << 10;

/// A kind of read that pays for merges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Payer {
    Gets,
    Seeks,
}

impl Payer {
    /// The bytes of a merge that one read pays for each run of level 0 that it probes.
    fn bytes(self) -> u64 {
        match self {
            // A line of a filter takes 20 to 100 ns, in which an idle core merges 10 to 30 bytes.
            // The time of a read is worth several times that of an idle core.
            Payer::Gets => 128,
            // A page takes 50 to 100 us on a device that merges at several hundred megabytes per
            // second. LevelDB charges reads the same.
            Payer::Seeks => 16 << 10,
        }
    }

    /// Returns true if such reads gain from the merge. It makes cached pages useless, and filters
    /// cost a get less than pages that it has to read again.
    fn gains(self, memory: &Memory, version: &Version) -> bool {
        let tables = version.tables().map(|(_, table)| table.meta().file_bytes);
        self == Payer::Seeks || tables.sum::<u64>() <= memory.cache.capacity_bytes()
    }

    fn operations(self) -> OperationKind {
        match self {
            Payer::Gets => OperationKind::Gets,
            Payer::Seeks => OperationKind::Seeks,
        }
    }
}

/// The merges that the reads of these partitions have paid for. They are among the running ones.
/// A get asks one partition, a seek all of `asked`.
pub(crate) fn begin_paid<'a>(
    engine: &Engine,
    state: &'a KeyspaceState,
    payer: Payer,
    asked: Range<usize>,
) -> Vec<(&'a Arc<Partition>, MergeJob)> {
    if engine.writer().is_err() {
        return Vec::new();
    }
    // If the trees are probed one by one, each has a share of the reads.
    let at_once = match payer {
        Payer::Gets => 1,
        Payer::Seeks => asked.len().max(1),
    };
    let share = (state.partitions.len() / at_once).max(1) as u64;
    let reads = state.facts.operations.get(payer.operations()) / share;
    let asked = state.partitions[asked].iter();
    let left = asked.filter(|it| !it.is_dropped());
    left.filter_map(|it| Some((it, begin(engine, it, payer, reads)?)))
        .collect()
}

/// Enters the merge among the running ones, if it is paid for and there is no other work.
fn begin(engine: &Engine, partition: &Partition, payer: Payer, reads: u64) -> Option<MergeJob> {
    let mut work = partition.work();
    let tree = partition.tree();
    let version = &tree.version;
    let runs = &version.levels[0].groups[0].runs;
    let newest = runs.first()?.id;
    let mut looks = match work.reads_since {
        Some((run, looks)) if run == newest => looks,
        _ => [None; 2],
    };
    let since = looks[payer as usize].replace(NonZeroU64::MIN.saturating_add(reads));
    let Some(since) = since.map(|it| it.get() - 1) else {
        work.reads_since = Some((newest, looks));
        return None;
    };
    let design = partition.keyspace.design_owned();
    let targets = design.targets(version);
    let limits = limits(engine.oldest_read(), &design);
    let is_busy = !work.running.is_empty();
    if is_busy
        || !payer.gains(&engine.memory, version)
        || plan(version, &targets, &[], &limits).is_some()
    {
        return None;
    }
    let plan = plan_for_reads(version, &targets, &limits)?;
    let paid = reads
        .saturating_sub(since)
        .saturating_mul(runs.len() as u64);
    if read_bytes(version, &plan) > paid.saturating_mul(payer.bytes()) {
        return None;
    }
    // If the merge fails, it has to be paid again.
    work.reads_since = Some((newest, looks));
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
