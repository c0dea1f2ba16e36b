//! The written keys, and the results of merging sets of them, as expected values.
//!
//! Keys fall into classes of equal popularity, each spread evenly over all keys. Two layers of a
//! tree were written at different times, so their keys of a class are independent: a key of an
//! older layer is also in a newer one, which holds a share `f` of the class, with probability `f`.

use std::ops::{Deref, DerefMut, Range};

use crate::base::memory_plan::MemoryPlan;
use crate::design::allocation::BITS_FIRST;

use super::Simulation;

/// The choice of the keys to write.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Overwrites {
    /// Every key is new. Deletes take existing keys with equal probability.
    #[default]
    None,
    /// Every write takes one of the keys with equal probability.
    Uniform,
    /// Every write takes one of the keys, the i-th most popular in proportion to `i^-0.99`, as in
    /// YCSB, scattered over the key order.
    Zipf,
}

/// YCSB's constant.
const THETA: f64 = 0.99;
/// Ranks up to this have a class of their own. After that each class is twice as large as the one
/// before.
const RANKS_ALONE: u64 = 8;

const BLOCK_OVERHEAD_BYTES: f64 = 6.0;

/// A number of entries of one class.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Mass {
    pub(super) puts: f64,
    pub(super) tombstones: f64,
    /// The share of all keys that range deletes cover. The first class has that of all.
    pub(super) covered: f64,
}

impl Mass {
    pub(super) fn entries(self) -> f64 {
        self.puts + self.tombstones
    }

    pub(super) fn scaled(self, factor: f64) -> Mass {
        Mass {
            puts: self.puts * factor,
            tombstones: self.tombstones * factor,
            covered: self.covered * factor,
        }
    }

    pub(super) fn add(&mut self, other: Mass) {
        self.puts += other.puts;
        self.tombstones += other.tombstones;
        self.covered += other.covered;
    }
}

/// The entries of each class. A single class, the usual case, needs no heap memory.
#[derive(Debug, Clone)]
pub(super) enum Masses {
    One([Mass; 1]),
    Several(Vec<Mass>),
}

impl Masses {
    /// No entries of `classes` classes.
    pub(super) fn of(classes: usize) -> Masses {
        match classes {
            1 => Masses::One([Mass::default()]),
            _ => Masses::Several(vec![Mass::default(); classes]),
        }
    }

    pub(super) fn add_scaled(&mut self, others: &[Mass], factor: f64) {
        for (sum, other) in self.iter_mut().zip(others) {
            sum.add(other.scaled(factor));
        }
    }
}

impl From<Vec<Mass>> for Masses {
    fn from(masses: Vec<Mass>) -> Masses {
        match masses.as_slice() {
            [one] => Masses::One([*one]),
            _ => Masses::Several(masses),
        }
    }
}

impl Deref for Masses {
    type Target = [Mass];

    fn deref(&self) -> &[Mass] {
        match self {
            Masses::One(one) => one,
            Masses::Several(several) => several,
        }
    }
}

impl DerefMut for Masses {
    fn deref_mut(&mut self) -> &mut [Mass] {
        match self {
            Masses::One(one) => one,
            Masses::Several(several) => several,
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Class {
    keys: f64,
    /// The share of writes to this class.
    share: f64,
}

/// The writes of a simulation.
#[derive(Debug)]
pub(super) struct Workload {
    /// The classes; empty if every key is new.
    classes: Vec<Class>,
    deletes: f64,
    /// The share of writes that are range deletes, and the entries that each covers.
    ranges: (f64, f64),
    time_to_live: f64,
    pub(super) put_bytes: f64,
    pub(super) tombstone_bytes: f64,
}

impl Workload {
    pub(super) fn new(simulation: &Simulation) -> Workload {
        let keys = simulation.keys.unwrap_or(simulation.entries.div_ceil(4));
        let classes = match simulation.overwrites {
            Overwrites::None => Vec::new(),
            Overwrites::Uniform => vec![Class {
                keys: keys as f64,
                share: 1.0,
            }],
            Overwrites::Zipf => zipf(keys),
        };
        let tombstone_bytes = simulation.key_bytes as f64 + overhead_bytes(simulation);
        Workload {
            classes,
            deletes: simulation.deletes,
            ranges: (simulation.range_deletes, simulation.range_entries),
            time_to_live: simulation
                .time_to_live
                .map_or(f64::INFINITY, |it| it as f64),
            put_bytes: tombstone_bytes + simulation.value_bytes as f64,
            tombstone_bytes,
        }
    }

    pub(super) fn classes(&self) -> usize {
        self.classes.len().max(1)
    }

    /// The content of a memtable after this many writes, above a tree with this many puts.
    pub(super) fn memtable(&self, writes: f64, puts_below: f64) -> Masses {
        let (ranges, each) = (self.ranges.0 * writes, self.ranges.1);
        let writes = writes - ranges;
        let covered = -(-ranges * each / (puts_below + writes).max(1.0)).exp_m1();
        let mut masses = self.written(writes, puts_below);
        for mass in masses.iter_mut() {
            // Half of the entries were written before a range delete that covers their key.
            *mass = mass.scaled(1.0 - covered / 2.0);
        }
        masses[0].covered = covered;
        masses
    }

    fn written(&self, writes: f64, puts_below: f64) -> Masses {
        if self.classes.is_empty() {
            let puts = writes * (1.0 - self.deletes);
            // A delete may meet its key in the memtable.
            let tombstones = writes * self.deletes;
            let met = tombstones * puts / (puts + puts_below);
            return Masses::One([Mass {
                puts: puts - met,
                tombstones,
                ..Mass::default()
            }]);
        }
        let of = |class: &Class| {
            let distinct = class.keys * -(-writes * class.share / class.keys).exp_m1();
            Mass {
                puts: distinct * (1.0 - self.deletes),
                tombstones: distinct * self.deletes,
                ..Mass::default()
            }
        };
        let masses: Vec<Mass> = self.classes.iter().map(of).collect();
        masses.into()
    }

    /// The keys with a value after this many writes.
    pub(super) fn live(&self, writes: f64) -> f64 {
        let writes = writes.min(self.time_to_live);
        let (share, each) = self.ranges;
        let deleted = share * each;
        if self.classes.is_empty() {
            return writes * (1.0 - 2.0 * self.deletes - share - deleted);
        }
        let seen = |class: &Class| class.keys * -(-writes * class.share / class.keys).exp_m1();
        // A put brings a key to life, a delete ends it.
        let alive = (1.0 - self.deletes - share - deleted) / (1.0 - share);
        self.classes.iter().map(seen).sum::<f64>() * alive.max(0.0)
    }

    /// Puts a layer under newer ones: adds to `merged` the entries that they do not hide. `width`
    /// is the share of all keys under consideration, `puts` the number of puts in the tree.
    /// `visible` is the share of each class's keys that no newer layer has; this layer lowers it.
    pub(super) fn merge_under(
        &self,
        merged: &mut [Mass],
        visible: &mut [f64],
        layer: &[Mass],
        part: f64,
        (width, puts): (f64, f64),
    ) {
        for (at, mass) in layer.iter().enumerate() {
            let mass = Mass {
                covered: 0.0,
                ..mass.scaled(part)
            };
            let hidden = match self.classes.get(at) {
                Some(class) => {
                    merged[at].add(mass.scaled(visible[at]));
                    mass.entries() / (class.keys * width)
                }
                None => {
                    // No key is written or deleted twice.
                    merged[at].puts += mass.puts * visible[at];
                    merged[at].tombstones += mass.tombstones;
                    mass.tombstones / (puts * width).max(1.0)
                }
            };
            visible[at] *= (1.0 - hidden).max(0.0);
        }
        let covered = layer[0].covered * part / width;
        if covered > 0.0 {
            merged[0].covered += (width - merged[0].covered).max(0.0) * covered;
            visible
                .iter_mut()
                .for_each(|it| *it *= (1.0 - covered).max(0.0));
        }
    }

    /// The entries of a layer whose puts are of these ages, when those up to a number have expired.
    /// The older puts are, the more of them have been overwritten.
    pub(super) fn aged(&self, layer: &[Mass], ages: Range<f64>, number: f64) -> Vec<Mass> {
        let all = (ages.end - ages.start).max(1.0);
        let passed = (number - ages.start).clamp(0.0, all);
        let aged = |(at, mass): (usize, &Mass)| {
            let expired = match self.classes.get(at) {
                Some(Class { keys, share }) => {
                    (passed * share / keys).exp_m1() / (all * share / keys).exp_m1()
                }
                None => passed / all,
            };
            Mass {
                puts: mass.puts * (1.0 - expired),
                tombstones: mass.tombstones + mass.puts * expired,
                ..*mass
            }
        };
        layer.iter().enumerate().map(aged).collect()
    }

    /// True if no entry hides another: no key is written twice, and none is deleted here.
    pub(super) fn hides_nothing(&self, mut masses: impl Iterator<Item = Mass>) -> bool {
        let is_quiet = |mass: Mass| mass.tombstones == 0.0 && mass.covered == 0.0;
        self.classes.is_empty() && masses.all(is_quiet)
    }

    /// The part of these layers, newest first, that a merge of all of them drops if nothing is
    /// below them. `width` is the share of all keys that they span.
    pub(super) fn stale_share(&self, layers: &[Vec<Mass>], width: f64) -> f64 {
        let puts = layers.iter().flatten().map(|mass| mass.puts).sum::<f64>() / width;
        let mut merged = vec![Mass::default(); self.classes()];
        let mut visible = vec![1.0; self.classes()];
        for layer in layers {
            self.merge_under(&mut merged, &mut visible, layer, 1.0, (width, puts));
        }
        let left: f64 = merged.iter().map(|mass| mass.puts).sum();
        let all: f64 = layers.iter().flatten().map(|mass| mass.entries()).sum();
        1.0 - left / all.max(f64::MIN_POSITIVE)
    }

    pub(super) fn bytes(&self, mass: Mass) -> f64 {
        mass.puts * self.put_bytes + mass.tombstones * self.tombstone_bytes
    }
}

/// The bytes of an entry in a table beside key and value: its part of the block, as measured with
/// keys of 16 bytes; of the index, which has a key per block; and of the filter.
fn overhead_bytes(simulation: &Simulation) -> f64 {
    let entry_bytes = (simulation.key_bytes + simulation.value_bytes) as f64;
    let per_block = (entry_bytes / f64::from(simulation.design.block_bytes)).min(1.0);
    let filter = simulation.design.filter;
    // A table of a filter over several runs has hashes, which take about as much.
    let filter_bits = match filter.for_runs(1).bits_per_key(1) {
        Some(bits) => bits - filter.bits_beside_tables(),
        None => {
            let resident = MemoryPlan::new(simulation.memory_budget).resident as f64;
            (8.0 * resident / simulation.entries as f64).min(BITS_FIRST)
        }
    };
    let block_bytes = simulation.design.block_bytes;
    let of_table = match simulation
        .design
        .table
        .bucket_bytes(entry_bytes, block_bytes)
    {
        Some(bytes) => bytes - entry_bytes,
        None => BLOCK_OVERHEAD_BYTES + per_block * simulation.key_bytes as f64,
    };
    of_table + filter_bits / 8.0
}

/// Popularity `i^-0.99` in classes of ranks.
fn zipf(keys: u64) -> Vec<Class> {
    let mut classes = Vec::new();
    let mut from = 1_u64;
    while from <= keys {
        let to = if from <= RANKS_ALONE {
            from
        } else {
            2 * from - 1
        }
        .min(keys);
        // The integral over [from - 1/2, to + 1/2] equals a long sum within a thousandth.
        let power = |x: f64| x.powf(1.0 - THETA) / (1.0 - THETA);
        let share = match from == to {
            true => (from as f64).powf(-THETA),
            false => power(to as f64 + 0.5) - power(from as f64 - 0.5),
        };
        classes.push(Class {
            keys: (to - from + 1) as f64,
            share,
        });
        from = to + 1;
    }
    let sum: f64 = classes.iter().map(|class| class.share).sum();
    for class in &mut classes {
        class.share /= sum;
    }
    classes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_classes_of_zipf_hold_all_keys_and_their_popularity() {
        let keys = 100_000;
        let exact: Vec<f64> = (1..=keys).map(|i| (i as f64).powf(-THETA)).collect();
        let sum: f64 = exact.iter().sum();
        let mut from = 0;
        for class in zipf(keys) {
            let to = from + class.keys as usize;
            let share = exact[from..to].iter().sum::<f64>() / sum;
            assert!(
                (class.share / share - 1.0).abs() < 2e-3,
                "ranks from {from}"
            );
            from = to;
        }
        assert_eq!(from as u64, keys);
    }
}
