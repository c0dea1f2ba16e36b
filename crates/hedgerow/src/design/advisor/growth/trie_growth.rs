//! The growth of tries, whose groups go down one by one. The nodes are between empty and full at
//! different times, so the content of a level hardly varies and follows from its targets.
//!
//! A node of share `2h` feeds when it holds `h (9/10 + turn)`. Turns are spread evenly over 0..1.
//! It feeds its oldest runs, as many as hold `9/10 h`; half of them are missing on average. An
//! entry is written once per level that it has reached, so the content of a level shows how often
//! its entries have been written.

use super::{GrownStore, Sizes, Stage, capacity};
use crate::design::merge_policy::{FEED, LevelSummary, LevelTarget, Policy, STALE, Summary};

/// The content of a level of nodes.
#[derive(Debug, Clone, Copy)]
struct LevelContent {
    bytes: f64,
    /// The bytes of a run, and the runs of a node.
    run_bytes: f64,
    runs: f64,
}

/// The state of a store of this size; `None` if the policy is no trie.
pub(super) fn grow(policy: &dyn Policy, sizes: &Sizes, bytes: f64) -> Option<GrownStore> {
    let mut summary = Summary {
        levels: vec![LevelSummary::default(); policy.depth()],
        memtable_bytes: sizes.memtable_bytes,
        table_bytes: sizes.table_bytes,
        ..Summary::default()
    };
    let mut targets = policy.targets(&summary);
    if !targets.iter().all(LevelTarget::is_of_nodes) {
        return None;
    }
    let mut held = fill(&targets, sizes.flush_bytes, bytes * sizes.stored);
    // Each time the last level is full it gets another one below, at most as many as there are
    // groups.
    for _ in 0..64 {
        let of_level = |held: &LevelContent| LevelSummary {
            bytes: held.bytes as u64,
            runs: held.runs.round() as u32,
            ..LevelSummary::default()
        };
        summary.levels = held.iter().map(of_level).collect();
        let wanted = policy.targets(&summary);
        if wanted.len() <= targets.len() {
            break;
        }
        targets = wanted;
        held = fill(&targets, sizes.flush_bytes, bytes * sizes.stored);
    }
    let mut above = held[0].bytes / sizes.stored;
    let stages = held.iter().enumerate().skip(1);
    let stages = stages.filter(|(_, held)| held.bytes > 0.0);
    let stages = stages.map(|(level, held)| {
        let reached = 1.0 - above / bytes;
        let run_bytes = held.run_bytes / sizes.stored;
        above += held.bytes / sizes.stored;
        Stage {
            level,
            bytes: held.bytes / sizes.stored,
            // Between one and the most, which is half on average.
            runs: (2.0 * held.runs - 1.0).round().max(1.0) as u32,
            writes: reached,
            versions: 1.0 / (1.0 - STALE),
            arrival: run_bytes,
            leaving: run_bytes,
            by_runs: false,
            is_end: false,
        }
    });
    Some(GrownStore {
        level0_runs: targets[0].runs_max(),
        stages: stages.collect(),
    })
}

/// The content of each level in a store of this size. The last one has the rest.
fn fill(targets: &[LevelTarget], flush_bytes: f64, bytes: f64) -> Vec<LevelContent> {
    let mut rest = bytes;
    let mut run_bytes = flush_bytes;
    let mut held = Vec::with_capacity(targets.len());
    for (level, target) in targets.iter().enumerate() {
        let ranges = f64::from(target.ranges());
        let below = targets.get(level + 1);
        let children = below.map_or(1.0, |below| f64::from(below.ranges()) / ranges);
        let (in_node, feed_bytes) = node(level, target, run_bytes, children);
        let bytes = match below {
            Some(_) => rest.min(in_node * ranges),
            None => rest,
        };
        rest -= bytes;
        held.push(LevelContent {
            bytes,
            run_bytes,
            runs: bytes / ranges / run_bytes,
        });
        run_bytes = feed_bytes / children;
    }
    held
}

/// The mean content of a node, and the bytes of a feed.
fn node(level: usize, target: &LevelTarget, run_bytes: f64, children: f64) -> (f64, f64) {
    let runs_max = f64::from(target.runs_max());
    if level == 0 {
        return ((runs_max - 1.0) / 2.0 * run_bytes, runs_max * run_bytes);
    }
    let half = capacity(target) / f64::from(target.ranges()) / 2.0;
    let turn = (children - 1.0) / (2.0 * children);
    let full = (half * (FEED + turn)).min(runs_max * run_bytes);
    let feed_bytes = (half * FEED / run_bytes).ceil() * run_bytes;
    (full - feed_bytes.min(full) / 2.0, feed_bytes)
}
