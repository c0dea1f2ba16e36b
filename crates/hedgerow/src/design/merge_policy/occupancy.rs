//! The mean content of a tree in use, for filters: each level as full as it is on average, and the
//! last level with entries as large as it is. A level that is empty or over its target now will
//! soon be filled or emptied. So its present content says little about the time in which a table
//! written now will be read.

use crate::design::allocation::Level;

use super::{LevelTarget, Summary};

/// The mean fill of a level that merges empty: of four runs that are merged together, zero to three
/// are there. With this part, filters take their allotted memory in the mean over a tree's growth.
const FILLED: f64 = 0.375;

/// The mean levels of a tree, from 0; `None` for an empty tree, whose entry size is unknown.
pub(crate) fn occupancy(summary: &Summary, targets: &[LevelTarget]) -> Option<Vec<Level>> {
    let entry_bytes = summary.entry_bytes()?;
    let held = |level: usize| summary.levels[level].entries as f64;
    let actual = |level: usize| Level {
        entries: held(level),
        weight: f64::from(summary.levels[level].runs.max(1)),
    };
    let mut levels: Vec<Level> = (0..summary.levels.len()).map(actual).collect();
    let is_used = |&level: &usize| targets.get(level).is_some_and(LevelTarget::is_in_use);
    // In a young tree the last level is the one that level 0 merges into.
    let deepest = (1..levels.len()).rev().find(|level| held(*level) > 0.0);
    let last = deepest.or_else(|| (1..levels.len()).find(is_used))?;

    // A merge brings a level the content of the full level above.
    let mut full = summary.memtable_bytes as f64 / entry_bytes;
    let level0 = full * f64::from(targets.first()?.runs_max());
    let mut full_above = 0.0;
    for (level, target) in targets.iter().enumerate().take(last) {
        // A drained level keeps its present content.
        if !target.is_in_use() {
            full_above += held(level);
            continue;
        }
        full = match target.capacity_bytes() {
            None => full * f64::from(target.runs_max()),
            Some(bytes) => bytes as f64 / entry_bytes,
        };
        full_above += full;
        levels[level] = on_average(full, target);
    }
    // The surplus of other levels comes down to the last one; in a young tree all data does. The
    // content of a full level 0 comes next.
    let all: f64 = (0..levels.len()).map(held).sum();
    levels[last].entries = held(last).max(all - full_above).max(level0);
    Some(levels)
}

/// The mean level of one that holds `full` entries when it is full. Merges of one table keep it
/// full; others empty it.
fn on_average(full: f64, target: &LevelTarget) -> Level {
    let part = if target.goes_down_by_table() {
        1.0
    } else {
        FILLED
    };
    Level {
        entries: part * full,
        weight: (part * f64::from(target.runs_max())).max(1.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::design::merge_policy::{LevelSummary, policy};

    /// Mean levels of a tree with memtables of 1 MB and entries of 100 bytes.
    fn levels(spec: &str, bytes: &[u64]) -> Vec<(f64, f64)> {
        let level = |bytes: &u64| LevelSummary {
            bytes: *bytes,
            entries: bytes / 100,
            runs: u32::from(*bytes > 0),
            tombstones: 0,
        };
        let summary = Summary {
            levels: bytes.iter().map(level).collect(),
            memtable_bytes: 1_000_000,
            table_bytes: 100_000,
            policy_note: 0,
        };
        let targets = policy(&spec.parse().unwrap()).targets(&summary);
        let levels = occupancy(&summary, &targets).unwrap_or_default();
        levels.iter().map(|l| (l.entries, l.weight)).collect()
    }

    #[test]
    fn levels_count_as_full_as_they_are_on_average_and_the_last_as_it_is() {
        let one_table = vec![
            (15_000.0, 1.5),
            (0.0, 1.0),
            (40_000.0, 1.0),
            (400_000.0, 1.0),
            (4_000_000.0, 1.0),
        ];
        for bytes in [
            [0, 0, 0, 20_000_000, 400_000_000],
            [7_000_000, 0, 3_000_000, 0, 400_000_000],
        ] {
            assert_eq!(levels("leveling:10", &bytes), one_table);
        }
        let sliced = vec![
            (15_000.0, 1.5),
            (15_000.0, 1.0),
            (60_000.0, 1.0),
            (240_000.0, 1.0),
            (2_560_000.0, 1.0),
        ];
        assert_eq!(levels("leveling:4", &[0, 0, 0, 0, 256_000_000]), sliced);
    }

    /// Levels of tiering have no capacity except that of their runs. The last one with entries is
    /// seldom the last one of the tree.
    #[test]
    fn runs_count_with_what_brings_them() {
        let expected = vec![
            (15_000.0, 1.5),
            (60_000.0, 1.5),
            (160_000.0, 1.0),
            (0.0, 1.0),
        ];
        assert_eq!(levels("tiering:4", &[0, 0, 16_000_000, 0]), expected);
        let full = levels("tiering:4", &[1_000_000, 4_000_000, 16_000_000, 0]);
        assert_eq!(full, expected);
    }

    #[test]
    fn what_is_above_the_last_level_of_a_young_tree_will_be_in_it() {
        assert_eq!(levels("leveling:10", &[0; 5]), []);
        let last = |bytes: [u64; 5]| levels("leveling:10", &bytes).last().copied();
        assert_eq!(last([1_000_000, 0, 0, 0, 0]), Some((40_000.0, 1.0)));
        assert_eq!(last([9_000_000, 0, 0, 0, 0]), Some((50_000.0, 1.0)));
        assert_eq!(last([4_000_000, 0, 0, 0, 8_000_000]), Some((80_000.0, 1.0)));
    }
}
