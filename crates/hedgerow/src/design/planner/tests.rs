//! The planner over virtual trees. Single decisions are in `testdata/merge_policy`.

use std::ops::Bound;
use std::sync::Arc;

use super::*;
use crate::base::options::{CutSpec, PolicySpec};
use crate::base::random::Random;
use crate::design::merge_policy::{Policy, policy};
use crate::design::planner::played::ModelTree;

const CUTS: [CutSpec; 3] = [
    CutSpec::OneTable,
    CutSpec::PartitionedFull,
    CutSpec::WholeLevel,
];

fn leveling(ratio: f64, cut: CutSpec) -> Arc<dyn Policy> {
    policy(&PolicySpec::leveling(ratio).cut(cut))
}

#[derive(Debug, Clone, Copy)]
enum Keys {
    Uniform,
    Sequential,
    Skewed,
    /// Each flush writes one narrow range.
    Clustered,
}

const KEYS: [Keys; 4] = [
    Keys::Uniform,
    Keys::Sequential,
    Keys::Skewed,
    Keys::Clustered,
];

fn flush(tree: &mut ModelTree, random: &mut Random, keys: Keys, round: u64, delete_percent: u64) {
    const SPACE: u64 = 3000;
    let count = tree.memtable_entries;
    let centre = random.below(SPACE);
    let writes: Vec<(u32, bool)> = (0..count)
        .map(|i| {
            let key = match keys {
                Keys::Uniform => random.below(SPACE),
                Keys::Sequential => round * count + i,
                Keys::Skewed => {
                    let bits = random.below(12);
                    random.below(1 << bits)
                }
                Keys::Clustered => centre + random.below(100),
            };
            (key as u32, random.below(100) < delete_percent)
        })
        .collect();
    tree.flush(writes);
}

fn policies() -> Vec<(Arc<dyn Policy>, usize)> {
    let mut policies: Vec<(Arc<dyn Policy>, usize)> = Vec::new();
    for cut in CUTS {
        for ratio in [2.0, 4.0, 10.0] {
            policies.push((leveling(ratio, cut), 7));
        }
    }
    for spec in [
        "tiering:3",
        "garnering:2,0.6",
        "lazy-leveling:3",
        "front-loaded:3",
        "bush:2",
        "garnering-paper:2,0.8",
        "trie:4",
        "trie:8",
        "slimdb",
        "0=runs:2;1=tiering:3;2=fluid:3,6;3=leveling:4,partitioned;4=tiering:2;5=leveling:2",
        "0=runs:3;1=tiering:4",
        "0=runs:2;1-3=leveling:2,partitioned;4=tiering:3",
    ] {
        let policy = policy(&spec.parse().unwrap());
        let depth = policy.depth();
        policies.push((policy, depth));
    }
    policies
}

#[test]
fn plans_end_with_every_target_met_and_every_read_unchanged() {
    for (policy, depth) in policies() {
        for (keys, delete_percent) in KEYS.into_iter().zip([20, 0, 60, 30]) {
            let mut random = Random::new(7);
            let mut tree = ModelTree::new(policy.clone(), depth);
            for round in 0..60 {
                flush(&mut tree, &mut random, keys, round, delete_percent);
                tree.settle();
                tree.check_targets();
                if round % 5 == 0 {
                    tree.check();
                }
            }
            tree.check();
        }
    }
}

/// The tree is reopened at every depth while it grows and while everything is deleted again. It is
/// reopened between two plans, and when no plan is left, where none may come up after it.
#[test]
fn a_tree_that_is_reopened_goes_on() {
    for (policy, depth) in policies() {
        let mut tree = ModelTree::new(policy.clone(), depth);
        for round in 0..80 {
            let first = round % 40 * tree.memtable_entries as u32;
            let written = first..first + tree.memtable_entries as u32;
            // Scattered, each once: multiplied by an odd number.
            let scattered = written.map(|i| (i.wrapping_mul(0x9e37_79b1), round >= 40));
            tree.flush(scattered);
            let started = tree.plan(&[]).and_then(|(plan, _)| tree.start(&plan));
            started.into_iter().for_each(|job| tree.finish(job));
            tree.reopen();
            tree.settle();
            tree.reopen();
            assert_eq!(tree.plan(&[]), None, "{policy:?}, round {round}");
            tree.check_targets();
            if round % 10 == 9 {
                tree.check();
            }
        }
    }
}

/// `reference/anchored.py`: the levels in use below level 0 after a tree has grown by 60, 300 and
/// 1000 memtables of new keys, with four memtables merged down at once. It merges one unit at a
/// time, so that levels stay full.
#[test]
fn levels_are_as_many_as_the_reference_has() {
    let mut missed = Vec::new();
    for (spec, expected) in [
        ("leveling:5", [2, 3, 4]),
        ("leveling:10", [2, 2, 3]),
        ("leveling:16", [1, 2, 2]),
        ("garnering:2,0.8", [3, 4, 5]),
        ("garnering:5,0.8", [2, 3, 3]),
        ("garnering:8,0.8", [2, 2, 3]),
        ("garnering:4,0.9", [2, 3, 4]),
        ("garnering:4,0.6", [2, 3, 3]),
    ] {
        let policy = policy(&format!("{spec},one-table").parse().unwrap());
        let mut tree = ModelTree::new(policy.clone(), policy.depth());
        (tree.memtable_entries, tree.table_entries) = (16, 16);
        let mut random = Random::new(1);
        let mut found = Vec::new();
        for memtables in 1..=1000 {
            let keys = (0..16).map(|_| (random.next() as u32, false));
            tree.flush(keys.collect::<Vec<_>>());
            tree.settle();
            if [60, 300, 1000].contains(&memtables) {
                let targets = tree.targets();
                let used = targets[1..].iter().filter(|it| it.is_in_use());
                found.push(used.count());
            }
        }
        missed.extend((found != expected).then_some((spec, found)));
    }
    assert!(missed.is_empty(), "{missed:?}");
}

#[test]
fn concurrent_jobs_that_end_in_any_order_keep_every_read() {
    for (policy, depth) in policies() {
        for seed in 0..6 {
            let mut random = Random::new(seed);
            let keys = KEYS[seed as usize % KEYS.len()];
            let mut tree = ModelTree::new(policy.clone(), depth);
            let mut jobs = Vec::new();
            let mut most = 0;
            for round in 0..400 {
                match random.below(8) {
                    0 | 1 if tree.shape.levels[0].summary().runs < 30 => {
                        flush(&mut tree, &mut random, keys, round, 25);
                    }
                    2 if random.below(4) == 0 => tree.snapshot(),
                    3 if !tree.snapshots.is_empty() => {
                        let at = random.below(tree.snapshots.len() as u64);
                        tree.drop_snapshot(at as usize);
                    }
                    4..=6 => {
                        let running: Vec<_> = jobs.iter().map(running_of).collect();
                        if let Some((plan, _)) = tree.plan(&running) {
                            jobs.extend(tree.start(&plan));
                        }
                    }
                    _ if !jobs.is_empty() => {
                        let at = random.below(jobs.len() as u64);
                        let job = jobs.swap_remove(at as usize);
                        tree.finish(job);
                        tree.check();
                    }
                    _ => {}
                }
                most = most.max(jobs.len());
            }
            while let Some(job) = jobs.pop() {
                tree.finish(job);
            }
            tree.settle();
            tree.check();
            tree.check_targets();
        }
    }
}

fn running_of(job: &played::Job) -> RunningJob {
    job.running.clone()
}

#[test]
fn a_changed_policy_turns_the_tree_into_its_shape() {
    let mut random = Random::new(3);
    let mut tree = ModelTree::new(policy(&PolicySpec::tiering(4)), 7);
    for round in 0..160 {
        if round == 50 {
            tree.policy = leveling(4.0, CutSpec::OneTable);
        }
        if round == 100 {
            tree.policy = leveling(10.0, CutSpec::PartitionedFull);
        }
        if round == 130 {
            tree.policy = policy(&PolicySpec::lazy_leveling(3));
        }
        flush(&mut tree, &mut random, Keys::Uniform, round, 20);
        tree.settle();
        tree.check();
        tree.check_targets();
    }
}

/// Every policy after every other, on one tree during writes.
#[test]
fn every_policy_takes_over_the_tree_of_every_other() {
    let policies = policies();
    let mut random = Random::new(5);
    let mut tree = ModelTree::new(policies[0].0.clone(), policies[0].1);
    for round in 0..400 {
        if round % 8 == 0 {
            let choice = random.below(policies.len() as u64) as usize;
            tree.policy = policies[choice].0.clone();
        }
        flush(&mut tree, &mut random, Keys::Uniform, round, 20);
        tree.settle();
        tree.check();
        tree.check_targets();
    }
}

#[test]
fn a_tree_of_tombstones_becomes_empty() {
    for cut in CUTS {
        let mut tree = ModelTree::new(leveling(4.0, cut), 7);
        for round in 0..40_u32 {
            tree.flush((0..64).map(|i| (round * 64 + i, false)));
            tree.settle();
        }
        for round in 0..40_u32 {
            tree.flush((0..64).map(|i| (round * 64 + i, true)));
            tree.settle();
        }
        tree.check();
        // Data in level 0 waits for its trigger, and so do the keys that it deletes.
        assert!(tree.entries() <= 2 * 3 * 64, "{} entries", tree.entries());
    }
}

#[test]
fn tombstones_that_a_snapshot_needs_are_not_rewritten_for_nothing() {
    let mut tree = ModelTree::new(leveling(4.0, CutSpec::OneTable), 7);
    for round in 0..8_u32 {
        tree.flush((0..64).map(|i| (round * 64 + i, false)));
    }
    tree.settle();
    tree.snapshot();
    for round in 0..8_u32 {
        tree.flush((0..64).map(|i| (round * 64 + i, true)));
    }
    tree.settle();
    tree.check();
    assert!(tree.tombstones() >= 512);
    let plans = tree.plans;
    tree.settle();
    assert_eq!(tree.plans, plans);
    tree.drop_snapshot(0);
    tree.settle();
    tree.check();
    assert_eq!(tree.entries(), 0);
}

#[test]
fn a_manual_compaction_leaves_one_level_and_no_tombstones() {
    for (policy, depth) in policies() {
        let mut random = Random::new(11);
        let mut tree = ModelTree::new(policy, depth);
        for round in 0..45 {
            flush(&mut tree, &mut random, Keys::Uniform, round, 30);
            tree.settle();
        }
        let mut manual = Manual::new(Bound::Unbounded, Bound::Unbounded, tree.last_table());
        let mut steps = 0;
        loop {
            let step = manual.next(&tree.shape, &tree.targets(), &[], &tree.limits());
            let ManualStep::Run(plan) = step else {
                assert_eq!(step, ManualStep::Done);
                break;
            };
            let job = tree.start(&plan).unwrap();
            tree.finish(job);
            tree.check();
            // Writes continue.
            if steps % 3 == 0 {
                flush(&mut tree, &mut random, Keys::Uniform, steps, 0);
            }
            steps += 1;
            assert!(steps < 10_000);
        }
        let deep: u32 = tree.shape.levels[1..]
            .iter()
            .map(|level| level.summary().runs)
            .sum();
        assert_eq!(deep, 1);
        assert_eq!(tree.tombstones(), 0);
    }
}

/// Most such jobs share an input, because plans take tables along. The rule covers the others, and
/// policies and manual compactions that change the next level while jobs run.
#[test]
fn jobs_wait_for_each_other_where_their_outputs_would_mix() {
    let job = |top, level| RunningJob {
        inputs: vec![TableId(1)],
        top,
        target: Target {
            level,
            group: 0,
            run: None,
        },
        lo: b"f".to_vec(),
        hi: b"m".to_vec(),
        is_alone: false,
    };
    // (running, other): true if the other one has to wait, over the same keys.
    for (running, (top, level), waits) in [
        (job(4, 5), (4, 5), true),
        (job(0, 5), (4, 5), true),
        (job(4, 5), (5, 6), false),
        (job(5, 6), (4, 5), false),
        // One skips the level that the other one writes to.
        (job(0, 6), (2, 4), true),
        (job(2, 4), (0, 6), true),
        // Merged in place.
        (job(5, 5), (4, 5), true),
        (job(5, 5), (5, 6), false),
        (job(5, 5), (6, 6), false),
    ] {
        let conflict = |lo: &[u8], hi: &[u8]| running.conflicts(top, level, lo, hi);
        assert_eq!(conflict(b"a", b"z"), waits, "{running:?} {top} {level}");
        assert_eq!(conflict(b"m", b"n"), waits, "the bounds are inclusive");
        assert_eq!(conflict(b"a", b"f"), waits, "the bounds are inclusive");
        assert!(!conflict(b"a", b"ezz"));
        assert!(!conflict(b"ma", b"z"));
    }
}
