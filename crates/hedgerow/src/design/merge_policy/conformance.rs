//! The rules that every merge policy must keep.

use std::sync::Arc;

use crate::base::options::PolicySpec;

use super::{Capacity, LevelSummary, LevelTarget, Policy, Summary, Targets, policy};

/// Policies of every kind, with parameters at both ends.
const SPECS: [&str; 30] = [
    "leveling:2",
    "leveling:2.5,one-table",
    "leveling:4,partitioned",
    "leveling:10,whole-level",
    "leveling:1000",
    "tiering:2",
    "tiering:8",
    "tiering:64",
    "garnering:2,0.4",
    "garnering:2,0.8,partitioned",
    "garnering:5,0.8",
    "garnering:10,0.001",
    "garnering:6,1",
    "lazy-leveling:2",
    "lazy-leveling:64",
    "front-loaded:2",
    "front-loaded:8",
    "bush:2",
    "bush:10",
    "garnering-paper:2,0.8",
    "garnering-paper:5,0.4",
    "garnering-paper:10,0.001",
    "trie:4",
    "trie:8",
    "trie:16",
    "0=runs:1;1=leveling:2",
    "0=runs:4;1-2=tiering:8;3=leveling:8",
    "0=runs:64;1-30=fluid:4,1000;31=tiering:64",
    "0-1=tiering:8/none;2=leveling:20,partitioned",
    "slimdb",
];

fn policies() -> Vec<Arc<dyn Policy>> {
    let parse = |spec: &&str| policy(&spec.parse::<PolicySpec>().unwrap());
    SPECS.iter().map(parse).collect()
}

/// Trees of every size from nothing to 10^18 bytes, with their last level filled.
fn summaries(depth: usize) -> impl Iterator<Item = Summary> {
    let sizes = (0..=18).map(|exponent| 10u64.pow(exponent));
    [0].into_iter().chain(sizes).map(move |bytes| {
        let mut levels = vec![LevelSummary::default(); depth];
        let runs = u32::from(bytes > 0);
        levels[depth - 1] = LevelSummary {
            bytes,
            runs,
            entries: bytes / 100,
            tombstones: 0,
        };
        Summary {
            levels,
            memtable_bytes: 64 << 20,
            table_bytes: 64 << 20,
            policy_note: 0,
        }
    })
}

/// The targets of a policy after the tree has the depth that they ask for.
fn settled(policy: &dyn Policy, summary: &Summary) -> Targets {
    let mut summary = summary.clone();
    for _ in 0..64 {
        let targets = policy.targets(&summary);
        let is_settled =
            targets.len() == summary.levels.len() && targets.policy_note == summary.policy_note;
        if is_settled {
            return targets;
        }
        summary
            .levels
            .resize(targets.len(), LevelSummary::default());
        summary.policy_note = targets.policy_note;
    }
    panic!("the depth of {policy:?} does not settle for {summary:?}");
}

#[test]
fn every_level_has_a_target_and_the_last_takes_everything() {
    for policy in policies() {
        for summary in summaries(policy.depth())
            .chain(summaries(2))
            .chain(summaries(40))
        {
            let targets = settled(&*policy, &summary);
            let last = targets.last().unwrap();
            assert_eq!(last.capacity, Capacity::Unlimited, "{policy:?} {summary:?}");
            assert!((2..=64).contains(&targets.len()), "{policy:?} {targets:?}");
            for target in targets.iter() {
                assert!(
                    (1..=64).contains(&target.runs_max()),
                    "{policy:?} {target:?}"
                );
                assert!(target.ranges() >= 1, "{policy:?} {target:?}");
            }
        }
    }
}

/// Unused levels come first. Each used level holds at least as much as the one above it. Only a
/// table of levels may leave unused ones between.
#[test]
fn capacities_grow_downwards() {
    for policy in policies() {
        for summary in summaries(policy.depth()) {
            let targets = settled(&*policy, &summary);
            let capacities: Vec<Capacity> = targets[1..].iter().map(|t| t.capacity).collect();
            let by_capacity = targets[1..].iter().all(LevelTarget::is_leveled);
            assert!(
                !by_capacity || capacities.is_sorted(),
                "{policy:?}: {capacities:?}"
            );
        }
    }
}

#[test]
fn equal_trees_have_equal_targets() {
    for (policy, again) in policies().into_iter().zip(policies()) {
        for summary in summaries(policy.depth()) {
            let targets = policy.targets(&summary);
            assert_eq!(targets, again.targets(&summary), "{policy:?}");
        }
    }
}
