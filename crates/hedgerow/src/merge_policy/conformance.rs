//! What every merge policy must do.

use std::sync::Arc;

use crate::options::{CutSpec, PolicySpec};

use super::{LevelSummary, Policy, Summary, policy};

fn policies() -> Vec<Arc<dyn Policy>> {
    let cuts = [
        CutSpec::OneTable,
        CutSpec::PartitionedFull,
        CutSpec::WholeLevel,
    ];
    let leveling = |ratio| cuts.map(|cut| policy(PolicySpec::Leveling { ratio, cut }));
    [2, 3, 4, 10, 100].into_iter().flat_map(leveling).collect()
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
        }
    })
}

#[test]
fn every_level_has_a_target_and_the_last_takes_everything() {
    for policy in policies() {
        for summary in summaries(policy.depth()) {
            let targets = policy.targets(&summary);
            assert_eq!(targets.len(), policy.depth(), "{policy:?}");
            let last = targets.last().unwrap();
            assert_eq!(last.capacity_bytes, u64::MAX, "{policy:?} {summary:?}");
            for target in &targets {
                assert!((1..=64).contains(&target.runs_max), "{policy:?} {target:?}");
                assert!(target.ranges >= 1, "{policy:?} {target:?}");
            }
        }
    }
}

/// Levels without a use come first; from the first that is used on, each holds at least as much as
/// the one above it.
#[test]
fn capacities_grow_downwards() {
    for policy in policies() {
        for summary in summaries(policy.depth()) {
            let targets = policy.targets(&summary);
            let capacities: Vec<u64> = targets[1..].iter().map(|t| t.capacity_bytes).collect();
            assert!(capacities.is_sorted(), "{policy:?}: {capacities:?}");
        }
    }
}

#[test]
fn equal_trees_have_equal_targets() {
    for (policy, again) in policies().into_iter().zip(policies()) {
        for summary in summaries(policy.depth()) {
            assert_eq!(
                policy.targets(&summary),
                again.targets(&summary),
                "{policy:?}"
            );
        }
    }
}
