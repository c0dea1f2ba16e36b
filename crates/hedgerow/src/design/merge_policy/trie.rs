//! The trie of LSM-trie.

use super::geometry::Geometry;
use super::shape::RANGES_MAX;
use super::{Capacity, LevelTarget, Policy, Summary, Targets};
use crate::base::options::{Design, FilterSpec, PolicySpec, TableSpec};

/// Level `d` has `fan_out^d` nodes, the ranges of order keys with one prefix. Each node holds a
/// stack of runs of about a memtable each. A merge takes the oldest `fan_out` runs of a node and
/// appends one run to each of its children, without reading their data. So an entry is written once
/// per level. The nodes of the last level grow. They are merged only when most of their entries are
/// stale \[LSM-trie, section 3; specification of the trie, 1.3\]. Many tombstones go down early.
///
/// The number of levels matters only for the capacity of the last one. When that is reached, its
/// nodes get children. So the depth grows with the logarithm of the data to the base `fan_out`,
/// without an additional merge: the data of the last level moves on like any other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Trie {
    /// 4 to 16.
    pub(super) fan_out: u32,
}

/// The most runs of a node of the last level, unless three times the fan-out is more. A tall node
/// saves a level and costs a filter's false positive per run. The reference ends at 20; the paper
/// speaks of 80.
const LAST_RUNS: u32 = 32;
/// The fill, by bytes or by runs, at which the last level gets children. Both count, because nodes
/// of flushes smaller than a memtable are tall before they are large. Below a sixteenth of its
/// capacity the tree has too many levels.
const FULL: f64 = 0.75;
const FULL_BY_RUNS: f64 = 1.0 / 8.0;
const TOO_DEEP: f64 = 1.0 / 16.0;

/// The bits per key of the filters of the designs that the advisor prices.
const BITS: [f32; 6] = [8.0, 10.0, 12.0, 14.0, 16.0, 20.0];

/// The designs of tries with these fan-outs that the advisor prices: HTables with a filter each, or
/// with clusters of filters.
pub(super) fn designs(fan_outs: &[u32]) -> impl Iterator<Item = (Geometry, Design)> {
    let with_filters = |fan_out, bits_per_key| {
        [
            FilterSpec::Bloom { bits_per_key },
            FilterSpec::Cluster { bits_per_key },
        ]
        .map(|filter| {
            let design = Design {
                policy: PolicySpec::trie(fan_out),
                table: TableSpec::HTable,
                filter,
                ..Design::default()
            };
            (Geometry::Trie { fan_out }, design)
        })
    };
    let fan_outs = fan_outs
        .iter()
        .flat_map(|&fan_out| BITS.map(|bits| (fan_out, bits)));
    fan_outs.flat_map(move |(fan_out, bits)| with_filters(fan_out, bits))
}

impl Trie {
    fn last_runs(&self) -> u32 {
        LAST_RUNS.max(3 * self.fan_out)
    }

    /// The nodes of a level; `None` if they are more than a level can have.
    fn ranges(&self, depth: usize) -> Option<u32> {
        let ranges = self.fan_out.checked_pow(depth as u32)?;
        (ranges <= RANGES_MAX).then_some(ranges)
    }

    /// The capacity of a last level at this depth.
    fn holds(&self, depth: usize, memtable_bytes: u64) -> f64 {
        let runs = f64::from(self.fan_out).powi(depth as i32) * f64::from(self.last_runs());
        runs * memtable_bytes.max(1) as f64
    }

    /// The number of levels in use below level 0, out of the `found` ones (at least one).
    fn depth_in_use(&self, found: usize, bytes: u64, memtable_bytes: u64) -> usize {
        let is_too_deep = |depth: usize| {
            self.ranges(depth).is_none()
                || (bytes as f64) < self.holds(depth - 1, memtable_bytes) * TOO_DEEP
        };
        (2..=found)
            .rev()
            .find(|depth| !is_too_deep(*depth))
            .unwrap_or(1)
    }

    fn is_full(&self, depth: usize, summary: &Summary) -> bool {
        let Some(last) = summary.levels.last() else {
            return false;
        };
        let full = last.bytes as f64 / self.holds(depth, summary.memtable_bytes);
        let is_tall = f64::from(last.runs) >= FULL * f64::from(self.last_runs());
        full >= FULL || is_tall && full >= FULL_BY_RUNS
    }
}

impl Policy for Trie {
    fn targets(&self, summary: &Summary) -> Targets {
        let found = summary.levels.len().max(self.depth()) - 1;
        let bytes = summary.levels.iter().map(|level| level.bytes);
        let bytes = bytes.fold(0, u64::saturating_add);
        let in_use = self.depth_in_use(found, bytes, summary.memtable_bytes);
        let grows = self.ranges(in_use + 1).is_some() && self.is_full(in_use, summary);
        let last = in_use + usize::from(grows);
        let unused = found - in_use;

        // A node feeds its children when it holds between half and all of its share.
        let share = (2 * u64::from(self.fan_out)).checked_mul(summary.memtable_bytes.max(1));
        let inner_runs = 5 * self.fan_out / 2;
        let ranges = |depth: usize| self.ranges(depth).unwrap_or(RANGES_MAX);
        let nodes = |depth: usize, runs_max: u32| {
            let bytes = share.and_then(|share| share.checked_mul(u64::from(ranges(depth))));
            let capacity = bytes.map_or(Capacity::Unlimited, Capacity::Bytes);
            LevelTarget::nodes(capacity, ranges(depth), runs_max)
        };
        // Few groups, so that few tables have to be divided for it.
        let drained = LevelTarget::nodes(Capacity::Unused, ranges(1), inner_runs);
        let mut levels = vec![nodes(0, self.fan_out)];
        levels.resize(1 + unused, drained);
        levels.extend((1..last).map(|depth| nodes(depth, inner_runs)));
        levels.push(LevelTarget::nodes(
            Capacity::Unlimited,
            ranges(last),
            self.last_runs(),
        ));
        levels.into()
    }

    fn depth(&self) -> usize {
        2
    }
}

#[cfg(test)]
mod tests {
    use crate::design::merge_policy::LevelSummary;

    use super::*;

    fn targets(levels: &[(u64, u32)]) -> Vec<(u64, u32, u32)> {
        let levels = levels.iter().map(|&(memtables, runs)| LevelSummary {
            bytes: memtables << 20,
            runs,
            ..LevelSummary::default()
        });
        let targets = Trie { fan_out: 8 }.targets(&Summary {
            levels: levels.collect(),
            memtable_bytes: 1 << 20,
            table_bytes: 1 << 20,
            policy_note: 0,
        });
        let facts = |it: &LevelTarget| {
            let capacity = it.capacity_bytes().map_or(ANY, |bytes| bytes >> 20);
            (capacity, it.ranges(), it.runs_max())
        };
        targets.iter().map(facts).collect()
    }

    const ANY: u64 = u64::MAX >> 20;

    #[test]
    fn the_last_level_gets_children_when_it_is_full() {
        let young = [(16, 1, 8), (ANY, 8, 32)];
        assert_eq!(targets(&[(3, 3), (0, 0)]), young);
        assert_eq!(targets(&[(3, 3), (8 * 24 - 1, 23)]), young);
        let grown = [(16, 1, 8), (128, 8, 20), (ANY, 64, 32)];
        assert_eq!(targets(&[(3, 3), (8 * 24, 23)]), grown);
        // Many small runs count, but not if they hold hardly anything.
        assert_eq!(targets(&[(3, 3), (8 * 4, 24)]), grown);
        assert_eq!(targets(&[(3, 3), (8 * 4 - 1, 30)]), young);
        // The last level has children and keeps them.
        assert_eq!(targets(&[(3, 3), (8 * 24, 23), (0, 0)]), grown);
        assert_eq!(targets(&[(0, 0), (0, 0), (16, 1)]), grown);
    }

    #[test]
    fn levels_that_another_design_left_are_drained_into_the_ones_in_use() {
        let drained = (0, 8, 20);
        let expected = [(16, 1, 8), drained, drained, (ANY, 8, 32)];
        assert_eq!(targets(&[(0, 0), (2, 1), (1, 1), (9, 1)]), expected);
        // No level has more groups than the limit.
        let deep = targets(&[(1 << 40, 1); 9]);
        let ranges: Vec<u32> = deep.iter().map(|it| it.1).collect();
        assert_eq!(ranges, [1, 8, 8, 8, 8, 64, 512, 4096, 32768]);
    }
}
