//! What a tree looks like while it is in use, as far as filters care: each level as full as its
//! target lets it become, the last one as large as it is. A level that happens to be empty now, or
//! over its target, will be filled, or emptied: what it holds at this moment says little about
//! the time in which a table that is written now will be read.

use crate::filter::allocation::Level;

use super::{LevelSummary, LevelTarget, Summary};

/// The levels of a tree at their capacities, from 0; `None` if the tree is empty, so that the size of
/// its entries is not known.
pub(crate) fn at_capacity(summary: &Summary, targets: &[LevelTarget]) -> Option<Vec<Level>> {
    let entry_bytes = summary.entry_bytes()?;
    let level = |(i, level): (usize, &LevelSummary)| match targets.get(i) {
        Some(target) if i == 0 => Level {
            entries: f64::from(target.runs_max) * summary.memtable_bytes as f64 / entry_bytes,
            weight: f64::from(target.runs_max.max(1)),
        },
        Some(target) if !matches!(target.capacity_bytes, 0 | u64::MAX) => Level {
            entries: target.capacity_bytes as f64 / entry_bytes,
            weight: f64::from(target.runs_max.max(1)),
        },
        // The last, or one that is to be emptied.
        _ => Level {
            entries: level.entries as f64,
            weight: f64::from(level.runs.max(1)),
        },
    };
    let mut levels: Vec<Level> = summary.levels.iter().enumerate().map(level).collect();
    // What others hold beyond their capacities comes down, in a young tree all of it; and what fills
    // level 0 comes next.
    let last = targets.len().min(levels.len()).saturating_sub(1);
    let all: f64 = summary
        .levels
        .iter()
        .map(|level| level.entries as f64)
        .sum();
    let elsewhere: f64 =
        levels.iter().map(|level| level.entries).sum::<f64>() - levels[last].entries;
    levels[last].entries = levels[last]
        .entries
        .max(all - elsewhere)
        .max(levels[0].entries);
    Some(levels)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::PolicySpec;

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
            nominal_depth: 0,
        };
        let targets = crate::merge_policy::policy(&PolicySpec::default()).targets(&summary);
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
