//! A whole tree in the model, and its predicted costs.

use std::fmt;

use super::capacities::bisect;
use super::cost::{Base, Level, Share, runs_average};
use super::device::Device;
use super::workload::Workload;

/// Full levels under a level 0 of cached runs.
#[derive(Debug, Clone, PartialEq)]
pub struct TreeModel {
    /// Runs of level 0 that are merged down together.
    pub level0_runs: f64,
    /// The levels from level 1, the smallest, down.
    pub levels: Vec<Level>,
    /// The bytes of memtables, active and sealed.
    pub memtables_bytes: f64,
}

/// The predicted costs of a tree under a workload.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Prediction {
    /// The mean cost of an operation of the mix.
    pub cost_us: f64,
    /// A get of an absent key.
    pub miss_us: f64,
    /// A get of a present key.
    pub hit_us: f64,
    /// A short scan.
    pub scan_us: f64,
    /// A long scan.
    pub long_scan_us: f64,
    /// A put, with its share of all later merges.
    pub put_us: f64,
    /// Random reads of a get of an absent key.
    pub miss_reads: f64,
    /// Random reads of a get of a present key.
    pub hit_reads: f64,
    /// Random reads of a seek.
    pub seek_reads: f64,
    /// The writes of an entry to tables, by its flush and by merges.
    pub entry_writes: f64,
    /// The mean number of runs that a seek reads, without level 0.
    pub runs: f64,
    /// Bytes of tables over bytes of data, in the worst case.
    pub space: f64,
    /// Bytes of memory by use.
    pub memory: Memory,
}

/// Bytes of memory.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Memory {
    /// Memtables, active and sealed.
    pub memtables: f64,
    /// Resident indexes.
    pub indexes: f64,
    /// Filters.
    pub filters: f64,
    /// Cached data: the page cache.
    pub cached: f64,
}

impl Memory {
    /// The sum of the parts.
    pub fn total(&self) -> f64 {
        self.memtables + self.indexes + self.filters + self.cached
    }
}

/// A page read less often than once in this many operations counts as never read.
const OPERATIONS_MAX: f64 = 1e18;

impl TreeModel {
    /// Caches data as far as memory is left, first where a byte saves most.
    pub(crate) fn fill_memory(&mut self, workload: &Workload, device: &Device, memory_bytes: f64) {
        let mut left = memory_bytes - self.predict(workload, device).memory.total();
        let sizes: Vec<f64> = self.levels.iter().map(|level| level.entries).collect();
        let shares = Share::of(&sizes);
        let gain = |level: &Level, share: &Share| {
            let cost = |cached| {
                let costs = Level { cached, ..*level }.costs(workload, device);
                share.weigh(workload, &costs)
            };
            (cost(0.0) - cost(1.0)) / level.entries
        };
        let gains = self.levels.iter().zip(&shares);
        let mut gains: Vec<(f64, usize)> = gains
            .enumerate()
            .map(|(i, (level, share))| (gain(level, share), i))
            .collect();
        gains.sort_by(|a, b| b.0.total_cmp(&a.0));
        for (gain, i) in gains {
            let level = &mut self.levels[i];
            let bytes = level.entries * workload.entry_bytes();
            if gain > 0.0 && level.cached == 0.0 && left > 0.0 && bytes > 0.0 {
                level.cached = (left / bytes).min(1.0);
                left -= level.cached * bytes;
            }
        }
    }

    /// Fills the memory that is left as an LRU page cache does. A page stays until as many other
    /// pages as fit have been read, and is hit if it is read before that \[Che et al. 2002\]. So a
    /// level keeps the more, the more often its bytes are read, and no level is kept whole while
    /// others have nothing.
    pub(crate) fn fill_cache(&mut self, workload: &Workload, device: &Device, memory_bytes: f64) {
        let left = memory_bytes - self.predict(workload, device).memory.total();
        let sizes: Vec<f64> = self.levels.iter().map(|level| level.entries).collect();
        let levels = self.levels.iter().zip(Share::of(&sizes));
        // The bytes of a level, and the reads of one byte per operation.
        let levels: Vec<(f64, f64)> = levels
            .map(|(level, share)| {
                let bytes = level.entries * workload.entry_bytes();
                let reads = share.reads(workload, &level.costs(workload, device));
                (bytes, reads / bytes.max(1.0))
            })
            .collect();
        let kept = |rate: f64, operations: f64| -(-rate * operations).exp_m1();
        let kept_bytes = |operations: f64| -> f64 {
            let of_levels = levels
                .iter()
                .map(|(bytes, rate)| bytes * kept(*rate, operations));
            of_levels.sum()
        };
        let operations = bisect(1.0, OPERATIONS_MAX, 64, |it| kept_bytes(it) < left);
        for (level, (_, rate)) in self.levels.iter_mut().zip(&levels) {
            level.cached = if left > 0.0 {
                kept(*rate, operations)
            } else {
                0.0
            };
        }
    }

    /// The cost of the tree when it is full. Arithmetic only.
    pub fn predict(&self, workload: &Workload, device: &Device) -> Prediction {
        let base = Base::of(workload, device, self.level0_runs);
        let sizes: Vec<f64> = self.levels.iter().map(|level| level.entries).collect();
        let mut sum = Prediction {
            miss_us: base.get_us,
            hit_us: base.get_us,
            scan_us: base.scan_us,
            long_scan_us: base.long_scan_us,
            put_us: base.put_us,
            cost_us: base.weigh(workload),
            entry_writes: 1.0,
            space: space(&self.levels, workload),
            ..Prediction::default()
        };
        sum.memory.memtables = self.memtables_bytes;
        for (level, share) in self.levels.iter().zip(Share::of(&sizes)) {
            let costs = level.costs(workload, device);
            sum.cost_us += share.weigh(workload, &costs);
            sum.miss_us += costs.miss_us;
            let lookups = share.lookups(workload);
            sum.hit_us += lookups * (share.here * costs.hit_us + share.below * costs.miss_us);
            sum.scan_us += share.seek_us(&costs);
            sum.long_scan_us += share.seek_us(&costs);
            sum.put_us += costs.put_us;
            sum.miss_reads += costs.miss_reads;
            sum.hit_reads +=
                lookups * (share.here * costs.hit_reads + share.below * costs.miss_reads);
            sum.seek_reads += costs.seek_reads;
            sum.entry_writes += level.writes;
            sum.runs += runs_average(level.runs);
            sum.memory.filters += level.entries * level.filter_bits() / 8.0;
            sum.memory.indexes += level.entries * level.index_bits(workload, device) / 8.0;
            sum.memory.cached += level.entries * level.cached * workload.entry_bytes();
        }
        sum
    }
}

/// The worst case: all levels hold versions of the same keys, the last one as many as its merges
/// allow, to the extent that puts are overwrites.
pub(crate) fn space(levels: &[Level], workload: &Workload) -> f64 {
    let Some((last, above)) = levels.split_last() else {
        return 1.0;
    };
    let above: f64 = above.iter().map(|level| level.entries).sum();
    let worst = last.versions + above / last.entries;
    1.0 + workload.overwrites * (worst - 1.0)
}

/// `K4FB19.2~63% K2FB15.0`: for each level its runs; the index, **F**ence in memory,
/// **T**hree-level, **H**Table's marks or **-** paged; the filter, **B**loom, its **P**ages read,
/// **C**uckoo or **M**ulti-level cuckoo, with its bits per key in memory; `*` for cached data, or
/// the cached part.
impl fmt::Display for TreeModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let levels: Vec<String> = self.levels.iter().map(Level::to_string).collect();
        f.write_str(&levels.join(" "))
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "K{}{}", self.runs, self.index.letter())?;
        if !self.filter.is_none() {
            write!(f, "{}{:.1}", self.filter.letter(), self.filter_bits())?;
        }
        match self.cached {
            all if all > 0.99 => f.write_str("*"),
            some if some > 0.005 => write!(f, "~{:.0}%", (100.0 * some).floor()),
            _ => Ok(()),
        }
    }
}
