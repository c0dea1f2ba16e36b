//! The same for tries, whose groups go down one by one: piles that are between empty and full at times that
//! differ from node to node, so that what a level holds hardly varies, and follows from its targets.
//!
//! A node of share `2h` goes down when it holds `h (9/10 + turn)`, turns being spread evenly over 0 to 1, and
//! gives away its oldest runs, which are as many as hold `9/10 h`: half of them are missing on average. An entry is
//! written once for each level that it has come to, so what is in a level says how often its entries have been
//! written.

use super::{Grown, Sizes, Stage};
use crate::design::merge_policy::{Cut, FEED, LevelSummary, LevelTarget, Policy, STALE, Summary};

/// What a level of nodes holds.
#[derive(Debug, Clone, Copy)]
struct Held {
    bytes: f64,
    /// Of a run of it, and in a node.
    run_bytes: f64,
    runs: f64,
}

/// What a store of so many bytes has become; `None` if the policy is another.
pub(super) fn grow(policy: &dyn Policy, sizes: &Sizes, bytes: f64) -> Option<Grown> {
    let mut summary = Summary {
        levels: vec![LevelSummary::default(); policy.depth()],
        memtable_bytes: sizes.memtable_bytes,
        table_bytes: sizes.table_bytes,
        ..Summary::default()
    };
    let mut targets = policy.targets(&summary);
    if targets.iter().any(|target| target.cut != Cut::OldestRuns) {
        return None;
    }
    let mut held = fill(&targets, sizes.flush_bytes, bytes * sizes.stored);
    // Each time that the last level is full there is one more, of at most as many as there are groups.
    for _ in 0..64 {
        let of_level = |held: &Held| LevelSummary {
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
            // Between one and so many, which is half on average.
            runs: (2.0 * held.runs - 1.0).round().max(1.0) as u32,
            writes: reached,
            versions: 1.0 / (1.0 - STALE),
            arrival: run_bytes,
            leaving: run_bytes,
            by_runs: false,
            is_end: false,
        }
    });
    Some(Grown {
        level0_runs: targets[0].runs_max.max(1),
        stages: stages.collect(),
    })
}

/// What each level holds of so many bytes; the last one has the rest.
fn fill(targets: &[LevelTarget], flush_bytes: f64, bytes: f64) -> Vec<Held> {
    let mut rest = bytes;
    let mut run_bytes = flush_bytes;
    let mut held = Vec::with_capacity(targets.len());
    for (level, target) in targets.iter().enumerate() {
        let ranges = f64::from(target.ranges.max(1));
        let below = targets.get(level + 1);
        let children = below.map_or(1.0, |below| f64::from(below.ranges) / ranges);
        let (in_node, feed_bytes) = node(level, target, run_bytes, children);
        let bytes = match below {
            Some(_) => rest.min(in_node * ranges),
            None => rest,
        };
        rest -= bytes;
        held.push(Held {
            bytes,
            run_bytes,
            runs: bytes / ranges / run_bytes,
        });
        run_bytes = feed_bytes / children;
    }
    held
}

/// What a node holds on average, and what it gives away at once.
fn node(level: usize, target: &LevelTarget, run_bytes: f64, children: f64) -> (f64, f64) {
    let runs_max = f64::from(target.runs_max);
    if level == 0 {
        return ((runs_max - 1.0) / 2.0 * run_bytes, runs_max * run_bytes);
    }
    let half = target.capacity_bytes as f64 / f64::from(target.ranges.max(1)) / 2.0;
    let turn = (children - 1.0) / (2.0 * children);
    let full = (half * (FEED + turn)).min(runs_max * run_bytes);
    let feed_bytes = (half * FEED / run_bytes).ceil() * run_bytes;
    (full - feed_bytes.min(full) / 2.0, feed_bytes)
}
