//! What a tree looks like while it is in use, as far as filters care: each level as full as its
//! target lets it become, the last one as large as it is. A level that happens to be empty now, or
//! over its target, will be filled, or emptied: what it holds at this moment says little about
//! the time in which a table that is written now will be read.

use crate::filter::allocation::Level;

use super::{LevelTarget, Summary};

/// The levels of a tree at their capacities, from 0; `None` if the tree is empty, so that the size of
/// its entries is not known.
pub(crate) fn at_capacity(summary: &Summary, targets: &[LevelTarget]) -> Option<Vec<Level>> {
    let entry_bytes = summary.entry_bytes()?;
    let mut levels: Vec<Level> = summary
        .levels
        .iter()
        .zip(targets)
        .enumerate()
        .map(|(i, (level, target))| match (i, target.capacity_bytes) {
            (0, _) => Level {
                entries: f64::from(target.runs_max) * summary.memtable_bytes as f64 / entry_bytes,
                weight: f64::from(target.runs_max.max(1)),
            },
            // The last, or one that is to be emptied.
            (_, 0 | u64::MAX) => Level {
                entries: level.entries as f64,
                weight: f64::from(level.runs.max(1)),
            },
            (_, capacity) => Level {
                entries: capacity as f64 / entry_bytes,
                weight: f64::from(target.runs_max.max(1)),
            },
        })
        .collect();
    // What others hold beyond their capacities comes down, in a young tree all of it; and what fills
    // level 0 comes next.
    if let Some((last, above)) = levels.split_last_mut() {
        let all: f64 = summary
            .levels
            .iter()
            .map(|level| level.entries as f64)
            .sum();
        let elsewhere: f64 = above.iter().map(|level| level.entries).sum();
        let level0 = above.first().map_or(0.0, |level| level.entries);
        last.entries = last.entries.max(all - elsewhere).max(level0);
    }
    Some(levels)
}

#[cfg(test)]
mod tests {
    use super::super::{LevelSummary, Leveling, Policy};
    use super::*;

    /// A tree of leveling with ratio 10 and memtables of 1 MB, entries of 100 bytes.
    fn levels(bytes: [u64; 5]) -> Vec<(f64, f64)> {
        let summary = Summary {
            levels: bytes
                .map(|bytes| LevelSummary {
                    bytes,
                    entries: bytes / 100,
                    runs: u32::from(bytes > 0),
                    tombstones: 0,
                })
                .to_vec(),
            memtable_bytes: 1_000_000,
            table_bytes: 100_000,
        };
        let targets = Leveling::new(10, crate::merge_policy::Cut::OneTable).targets(&summary);
        let levels = at_capacity(&summary, &targets).unwrap_or_default();
        levels.iter().map(|l| (l.entries, l.weight)).collect()
    }

    #[test]
    fn levels_count_as_full_and_the_last_as_it_is() {
        let expected = vec![
            (40_000.0, 4.0),
            (0.0, 1.0),
            (40_000.0, 1.0),
            (400_000.0, 1.0),
            (4_000_000.0, 1.0),
        ];
        assert_eq!(levels([0, 0, 0, 20_000_000, 400_000_000]), expected);
        assert_eq!(levels([7_000_000, 0, 3_000_000, 0, 400_000_000]), expected);
    }

    #[test]
    fn what_is_above_the_last_level_of_a_young_tree_will_be_in_it() {
        assert_eq!(levels([0; 5]), []);
        let last = |bytes| levels(bytes).last().copied();
        assert_eq!(last([1_000_000, 0, 0, 0, 0]), Some((40_000.0, 1.0)));
        assert_eq!(last([9_000_000, 0, 0, 0, 0]), Some((50_000.0, 1.0)));
        assert_eq!(last([4_000_000, 0, 0, 0, 8_000_000]), Some((80_000.0, 1.0)));
    }
}
