//! Nodes of a trie that stand for others. The nodes of a level are alike except for their turns. So
//! below a level of many nodes each node keeps one child, which stands for all. A deep level then
//! has no more nodes than that one. The kept child rotates, so that all turns of all levels occur
//! equally often.

use crate::design::merge_policy::shape::{Facts, Shape, range_of};

/// The kept nodes, and the number of nodes that each stands for.
#[derive(Debug, Clone)]
pub(super) struct Sample {
    /// The nodes of each level, and the nodes of the deepest level that is complete.
    ranges: Vec<u64>,
    whole: u64,
}

impl Sample {
    /// The sample of a tree. A level of at least half as many nodes as `level_tables` is large.
    pub(super) fn of<T: Facts>(shape: &Shape<T>, level_tables: u64) -> Sample {
        let ranges = shape.levels.iter().map(|level| u64::from(level.ranges()));
        let ranges: Vec<u64> = ranges.collect();
        let large = ranges.iter().filter(|ranges| **ranges * 2 >= level_tables);
        let whole = large.min().copied().unwrap_or(u64::MAX);
        Sample { ranges, whole }
    }

    /// The number of nodes that a node of a level stands for.
    pub(super) fn weight(&self, level: usize) -> f64 {
        (self.ranges[level] / self.whole).max(1) as f64
    }

    /// True if a key is in a kept node of a level.
    pub(super) fn has(&self, level: usize, key: &[u8]) -> bool {
        let of_level = self.ranges[level];
        if of_level <= self.whole {
            return true;
        }
        let node = range_of(key, of_level as u32);
        let ancestor = |ranges: u64| node / (of_level / ranges);
        let top = ancestor(self.whole);
        let deeper = self.ranges[..=level].iter().filter(|it| **it > self.whole);
        let mut above = self.whole;
        deeper.zip(0..).all(|(&ranges, nth)| {
            let children = ranges / above;
            above = ranges;
            let turn = top / children + nth * (top % children);
            ancestor(ranges) % children == turn % children
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_node_of_a_large_level_keeps_one_of_its_children() {
        let sample = Sample {
            ranges: vec![1, 8, 64, 512, 4096],
            whole: 64,
        };
        assert_eq!(
            [0, 2, 3, 4].map(|level| sample.weight(level)),
            [1.0, 1.0, 8.0, 64.0]
        );
        let key = |node: u64, ranges: u64| (node * (u64::MAX / ranges + 1)).to_be_bytes();
        let kept = |level: usize, ranges: u64| -> Vec<u64> {
            let nodes = 0..ranges;
            nodes
                .filter(|node| sample.has(level, &key(*node, ranges)))
                .collect()
        };
        assert_eq!(kept(2, 64).len(), 64);
        let (third, fourth) = (kept(3, 512), kept(4, 4096));
        let parents: Vec<u64> = third.iter().map(|node| node / 8).collect();
        assert_eq!(parents, (0..64).collect::<Vec<_>>());
        let parents: Vec<u64> = fourth.iter().map(|node| node / 8).collect();
        assert_eq!(parents, third);
        for turn in 0..8 {
            assert_eq!(third.iter().filter(|node| *node % 8 == turn).count(), 8);
            assert_eq!(fourth.iter().filter(|node| *node % 8 == turn).count(), 8);
        }
    }
}
