//! Which filter a table is written with: what the design asks for, divided among the levels of its
//! tree as they are when they are full ([`at_capacity`]) by [`crate::filter::allocation`].
//!
//! Where the design leaves the number of bits to the memory budget, a tree may have its part, by
//! entries, of what [`crate::memory::Memory::filter_bits_per_key`] says. But not more than pays: a
//! bit of filter saves reads of absent keys, the same bit of page cache reads of any key.

use crate::engine::Engine;
use crate::filter::allocation::{self, BLOOM, Level};
use crate::filter::{cuckoo, of_table};
use crate::merge_policy::at_capacity::at_capacity;
use crate::options::FilterSpec;
use crate::page::TableId;
use crate::partition::{DesignInForce, Partition};
use crate::table::TableMeta;
use crate::version::Version;

/// Bits per key of the first tables of a tree, in every level, where the memory is to decide.
pub(crate) const BITS_FIRST: f64 = 10.0;

/// The filters of the tables of a level.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Allotted {
    /// Bloom filters of so many bits per key, on average over the tables.
    Bloom(f64),
    /// Cuckoo filters with fingerprints of so many bits.
    Cuckoo(u8),
    /// One filter for so many runs, with fingerprints of so many bits ([`super::probes`]).
    Shared(u8, u32),
}

impl Default for Allotted {
    /// No filters.
    fn default() -> Self {
        Allotted::Bloom(0.0)
    }
}

impl Allotted {
    /// On average over the tables of the level, and when it is full.
    pub(crate) fn bits_per_key(self) -> f64 {
        match self {
            Allotted::Bloom(bits) => bits,
            Allotted::Cuckoo(fingerprint_bits) => cuckoo::bits_per_key(fingerprint_bits),
            Allotted::Shared(fingerprint_bits, runs) => {
                let run_bits = runs.next_power_of_two().ilog2() as u8;
                cuckoo::bits_per_key(fingerprint_bits + run_bits)
            }
        }
    }

    /// Of the filters that tables have themselves.
    fn bits_per_key_of_tables(self) -> f64 {
        match self {
            Allotted::Shared(..) => 0.0,
            own => own.bits_per_key(),
        }
    }

    /// The filter of one table of the level.
    pub(crate) fn of_table(self, id: TableId) -> Option<of_table::Spec> {
        match self {
            Allotted::Bloom(bits) => allocation::of_table(bits, id).map(of_table::Spec::Bloom),
            Allotted::Cuckoo(bits) => Some(of_table::Spec::Cuckoo(bits)),
            Allotted::Shared(..) => Some(of_table::Spec::Hashes),
        }
    }
}

/// The filters of tables that are written now, by level.
pub(crate) fn allot(
    engine: &Engine,
    partition: &Partition,
    design: &DesignInForce,
    version: &Version,
) -> Vec<Allotted> {
    let ln_theta = partition.work().filters.ln_theta();
    by_level(engine, design, version, ln_theta).0
}

/// The filters of each level, and the levels at their capacities, if the tree is not empty.
fn by_level(
    engine: &Engine,
    design: &DesignInForce,
    version: &Version,
    ln_theta: f64,
) -> (Vec<Allotted>, Option<Vec<Level>>) {
    let summary = version.summary(design.memtable_bytes, design.table_bytes);
    let targets = super::targets(design, version);
    let levels = at_capacity(&summary, &targets);
    let monkey = |bits_per_key: Option<f64>| match (&levels, summary.entry_bytes()) {
        (Some(levels), Some(entry_bytes)) => {
            let ln_price = match bits_per_key {
                Some(bits) => BLOOM.ln_price(levels, bits),
                None => BLOOM
                    .ln_price(levels, engine.memory.filter_bits_per_key())
                    .max(allocation::ln_price_of_page_cache(entry_bytes)),
            };
            BLOOM.at_price(levels, ln_price + ln_theta)
        }
        _ => vec![bits_per_key.unwrap_or(BITS_FIRST); version.depth()],
    };
    // Levels may name filters of their own; mostly they share one.
    let mut shared = (FilterSpec::None, Vec::new());
    let filter = |level| match design.design.filter_at(level) {
        FilterSpec::None => Allotted::default(),
        FilterSpec::Bloom { bits_per_key } => Allotted::Bloom(bits_per_key.into()),
        FilterSpec::Cuckoo { fingerprint_bits } => Allotted::Cuckoo(fingerprint_bits),
        FilterSpec::MultiLevelCuckoo {
            fingerprint_bits, ..
        } => match targets.get(level).map_or(1, |target| target.runs_max) {
            1 => Allotted::Cuckoo(fingerprint_bits),
            runs => Allotted::Shared(fingerprint_bits, runs),
        },
        spec @ FilterSpec::Monkey { bits_per_key } => {
            if shared.0 != spec {
                shared = (spec, monkey(bits_per_key.map(f64::from)));
            }
            Allotted::Bloom(shared.1[level])
        }
    };
    ((0..version.depth()).map(filter).collect(), levels)
}

/// So many entries of a tree are being written: steers what later tables have, so that all together
/// have what is allotted.
pub(crate) fn steer(engine: &Engine, partition: &Partition, design: &DesignInForce, written: u64) {
    let FilterSpec::Monkey { .. } = design.design.filter else {
        return;
    };
    let version = partition.tree().version.clone();
    let (filters, Some(levels)) = by_level(engine, design, &version, 0.0) else {
        return;
    };
    let sum = |of: fn(&TableMeta) -> u64| -> f64 {
        version.tables().map(|(_, t)| of(t.meta()) as f64).sum()
    };
    let entries = sum(|meta| meta.entries);
    let used = 8.0 * sum(|meta| meta.filter_bytes) / entries;
    let bits: Vec<f64> = filters
        .iter()
        .map(|filter| filter.bits_per_key_of_tables())
        .collect();
    let wanted = allocation::average(&levels, &bits);
    let part = written as f64 / entries;
    partition.work().filters.steer(used, wanted, part);
}
