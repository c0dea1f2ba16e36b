//! The cost of one operation in a tree of given levels.
//!
//! The tree is full, keys are drawn uniformly, and the cost of an operation is a sum over levels.
//! So each level can be judged alone. `i` is a level, `K` its number of runs, `p` the
//! false-positive rate of one filter:
//!
//! ```text
//! miss  = n probe + n p (read + seek)                          n = average runs probed
//! hit   = read + seek + (n + 1)/2 probe + p (n - 1)/2 (read + seek)
//! seek  = n' (read + seek)                                      n' = average runs
//! get   = hit (1 + o v)        o = share of puts that are operands, v = entries above the last
//!                              level over those of it: the entries of a key above its value
//! write = W (bytes (1/write rate + 1/read rate) + merge),       W = (a + 1)/2, a = max(1, ratio/K)
//! ```

use super::device::Device;
use super::workload::Workload;
use crate::base::options::{Filter, Index};

/// A level as the search decided.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Level {
    /// Its entries when full.
    pub entries: f64,
    /// The most sorted runs.
    pub runs: u32,
    /// The number of times that an entry is written into it.
    pub writes: f64,
    /// The versions of each key that it holds in the worst case.
    pub versions: f64,
    /// Its filters.
    pub filter: Filter,
    /// The rate of false positives of one filter; 1 without one.
    pub false_positives: f64,
    /// Its indexes.
    pub index: Index,
    /// The cached part of its data.
    pub cached: f64,
}

/// The cost of one operation, in one level or in a whole tree.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Costs {
    /// A get of an absent key.
    pub miss_us: f64,
    /// A get of a present key; for a level: if the key is there.
    pub hit_us: f64,
    /// Positioning a scan; for a level: if no deeper level is read for it.
    pub seek_us: f64,
    /// For a level: positioning a scan while the pages of a deeper level are read at the same time.
    pub(crate) seek_beside_us: f64,
    /// A put, merges included.
    pub put_us: f64,
    /// Random reads of each operation above, in the same order, without cached ones.
    pub miss_reads: f64,
    /// See `miss_reads`.
    pub hit_reads: f64,
    /// See `miss_reads`.
    pub seek_reads: f64,
}

/// The cut of merges in the model. With merges of one table at a time a level is always full: each
/// arriving run meets all of it. Full merges meet a level that is half full on average.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Merges {
    /// Merges of whole levels, or of slices of a level until it is empty.
    #[default]
    Full,
    /// Merges of the table with the least overlap, in levels of one run.
    OneTable,
}

impl Merges {
    /// The number of times that an entry is written into a level of at most `runs` runs that is
    /// full after this many arrivals.
    pub(crate) fn writes(self, arrivals: f64, runs: u32) -> f64 {
        let per_run = (arrivals / f64::from(runs)).max(1.0);
        match self {
            Merges::OneTable if runs == 1 => per_run + 1.0,
            _ => (per_run + 1.0) / 2.0,
        }
    }
}

/// The mean number of runs of a group that may have up to `runs`.
pub(crate) fn runs_average(runs: u32) -> f64 {
    match runs {
        1 => 1.0,
        runs => f64::from(runs + 1) / 2.0,
    }
}

impl Level {
    /// The bits of filter in memory, per entry.
    pub fn filter_bits(&self) -> f64 {
        let (slope, offset) = self.filter.bits(self.runs);
        match self.filter.is_none() {
            true => 0.0,
            false => offset - slope * self.false_positives.ln(),
        }
    }

    /// The bits of index in memory, per entry.
    pub(super) fn index_bits(&self, workload: &Workload, device: &Device) -> f64 {
        let per_block = device.block_bytes / workload.entry_bytes();
        let coded = device.three_level_bits;
        self.index.block_bits(workload.key_bytes, coded) / per_block
    }

    /// The bytes of index, filter and cached data.
    pub fn memory_bytes(&self, workload: &Workload, device: &Device) -> f64 {
        let bits = self.filter_bits() + self.index_bits(workload, device);
        self.entries * (bits / 8.0 + self.cached * workload.entry_bytes())
    }

    /// The costs of operations in this level.
    pub(crate) fn costs(&self, workload: &Workload, device: &Device) -> Costs {
        let runs = runs_average(self.runs);
        let asked = match self.filter.is_over_runs() {
            true => 1.0,
            false => runs,
        };
        let insert_us = self.filter.insert_us(device.cuckoo_insert_us)
            + device.rewrite_us(self.filter.written_bytes(self.false_positives));
        let pages = self.filter.pages();
        let probe_us = self
            .filter
            .probe_us(device.probe_us, device.cuckoo_probe_us);
        let reads = (1.0 - self.cached) * self.index.reads();
        let seek_us = self.index.seek_us(device.seek_us, device.three_level_us);
        let visit_us = reads * device.read_us + seek_us;
        let visit_beside_us = reads * device.read_beside_us() + seek_us;
        let p = self.false_positives;
        let rewrite_us = device.rewrite_us(workload.entry_bytes()) + device.merge_us;
        let (wrong_miss, wrong_hit) = (asked * p, p * (asked - 1.0) / 2.0);
        Costs {
            miss_us: asked * probe_us + pages * device.read_us + wrong_miss * visit_us,
            hit_us: (asked + 1.0) / 2.0 * probe_us
                + pages * device.read_us
                + (1.0 + wrong_hit) * visit_us,
            seek_us: visit_us + (runs - 1.0) * visit_beside_us,
            seek_beside_us: runs * visit_beside_us,
            put_us: self.writes * rewrite_us + insert_us,
            miss_reads: pages + wrong_miss * reads,
            hit_reads: pages + (1.0 + wrong_hit) * reads,
            seek_reads: runs * reads,
        }
    }
}

/// The share of a level in the operations of a workload.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Share {
    /// The part of the data here, and in deeper levels.
    pub(crate) here: f64,
    pub(crate) below: f64,
    /// The entries above the last level over those of it.
    pub(crate) above_last: f64,
}

impl Share {
    /// A level's part of the average cost of an operation.
    pub(crate) fn weigh(&self, workload: &Workload, costs: &Costs) -> f64 {
        let (mix, gets) = (&workload.mix, workload.mix.get * self.lookups(workload));
        (mix.miss + gets * self.below) * costs.miss_us
            + gets * self.here * costs.hit_us
            + (mix.scan + mix.long_scan) * self.seek_us(costs)
            + mix.put * costs.put_us
    }

    /// The lookups of a get of a present key: one for its value, one for each operand above it.
    pub(crate) fn lookups(&self, workload: &Workload) -> f64 {
        1.0 + workload.operands * self.above_last
    }

    /// Random reads in a level per operation.
    pub(crate) fn reads(&self, workload: &Workload, costs: &Costs) -> f64 {
        let (mix, gets) = (&workload.mix, workload.mix.get * self.lookups(workload));
        (mix.miss + gets * self.below) * costs.miss_reads
            + gets * self.here * costs.hit_reads
            + (mix.scan + mix.long_scan) * costs.seek_reads
    }

    /// A level's part of positioning a scan. The pages of all levels are read together.
    pub(crate) fn seek_us(&self, costs: &Costs) -> f64 {
        match self.below > 0.0 {
            true => costs.seek_beside_us,
            false => costs.seek_us,
        }
    }

    /// The share of each level, from level 1 down.
    pub(crate) fn of(entries: &[f64]) -> Vec<Share> {
        let all: f64 = entries.iter().sum();
        let share = |i: usize| Share {
            here: entries[i] / all,
            below: entries[i + 1..].iter().sum::<f64>() / all,
            above_last: all / entries[entries.len() - 1] - 1.0,
        };
        (0..entries.len()).map(share).collect()
    }
}

/// The costs beside the levels: log and flush, the runs of level 0, which are cached and filtered,
/// and the steps of scans. Steps and bytes of scans are in the costs of the two kinds of scan.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Base {
    pub(crate) get_us: f64,
    pub(crate) scan_us: f64,
    pub(crate) long_scan_us: f64,
    pub(crate) put_us: f64,
}

impl Base {
    pub(crate) fn of(workload: &Workload, device: &Device, level0_runs: f64) -> Base {
        let bytes = workload.entry_bytes();
        let byte_us = 1e6 / device.read_bytes_per_s;
        let steps_us = |steps: f64| {
            level0_runs / 2.0 * device.seek_us + steps * (device.next_us + bytes * byte_us)
        };
        Base {
            get_us: level0_runs / 2.0 * device.probe_us,
            scan_us: steps_us(workload.scan_entries),
            long_scan_us: steps_us(workload.long_scan_entries),
            put_us: 2.0 * bytes / device.write_bytes_per_s * 1e6 + device.merge_us,
        }
    }

    pub(crate) fn weigh(&self, workload: &Workload) -> f64 {
        let mix = &workload.mix;
        (mix.get + mix.miss) * self.get_us
            + mix.scan * self.scan_us
            + mix.long_scan * self.long_scan_us
            + mix.put * self.put_us
    }
}
