//! The cost of a design, without a disk. The engine's planner and policies run over a tree of
//! virtual tables, which have a range of keys and an amount of data, but no entries.
//!
//! Every decision is the engine's: [`Policy::targets`], [`planner::plan`] and its limits,
//! [`Shape::apply`], the size of output tables, [`Shape::older_may_hold`] for tombstones. The
//! result of a merge follows from expected values ([`workload`]). Jobs run beside each other on
//! [`Simulation::merge_threads`]: all of them between two flushes, or at a [`Simulation::pace`]
//! that may be too slow for the writes. Merges are not divided over threads, and pages do not
//! compress.
//!
//! *Operands.* They count as puts: a merge leaves one entry of the operands of a key and the value
//! under them. What they cost is lookups of gets ([`crate::design::advisor`]).
//!
//! *Range deletes.* `n` of them of `c` entries each in a memtable cover the share `x = 1 - exp(-n c
//! / live)` of all keys. They hide it in every older layer that a merge meets, and half of it in
//! their own memtable, and go with the last layer. A table that they cover whole takes part in
//! merges here; the engine drops it.
//!
//! *Expiry.* A value expires after a number of writes. The values of a table are spread over the
//! time `t` from its oldest to its newest evenly, or in proportion to `exp(t / keys)` if keys are
//! overwritten. A merge makes those that have expired tombstones. A table that has expired whole,
//! with nothing older under it, goes without a merge.
//!
//! *Scaling.* A trillion entries are millions of tables. In a level of more than `level_tables`
//! tables a virtual one stands for a power of two of real ones, side by side. Small levels and
//! memtables keep their sizes, so no level, ratio or capacity changes. If a merge meets a table
//! that stands for more than those above it, it takes only its part, in whole steps of the tables
//! above. So the borders of merges cost the same as between tables of one size
//! ([`Facts::bytes_within`](crate::design::merge_policy::shape::Facts)).
//!
//! *Distance from the engine.* The writes of an entry are within 3 % for every policy, within 1 %
//! for stepped merges (`tests/it/simulate.rs`). With operands, range deletes or expiry they are
//! within 4 %, the entries of the tree within 5 %, and within 20 % if keys are overwritten and
//! expire.
//!
//! Cost: a few microseconds per flush and merge, and about `2 * level_tables` tables per level in
//! memory. A trillion entries of 116 bytes take 53 s with `leveling:10` (one core of an Intel Xeon
//! VM).

mod cluster_bytes;
mod cut;
mod inputs;
mod masses;
mod report;
mod sample;
#[cfg(test)]
mod tests;
mod virtual_table;
mod virtual_tree;

use crate::base::error::{Error, Result};
use crate::base::memory_plan::{BUDGET_BYTES_DEFAULT, BUDGET_BYTES_MIN, MemoryPlan};
use crate::base::options::{Design, Layout};
use crate::design::in_force::DesignInForce;

pub use masses::Overwrites;
use masses::Workload;
use report::Growth;
pub use report::{GrowthPoint, LevelReport, SimulationReport};
use virtual_tree::VirtualTree;

/// A store and its writes, and its design.
///
/// ```
/// use hedgerow::simulate::{Simulation, simulate};
///
/// let report = simulate(&Simulation {
///     entries: 20_000_000,
///     ..Simulation::default()
/// })?;
/// let end = report.points.last().expect("a store grows");
/// assert!(end.write_amplification > 1.0);
/// assert!(end.levels.len() >= 2);
/// # Ok::<(), hedgerow::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Simulation {
    /// Writes, deletes included.
    pub entries: u64,
    /// Bytes of a key.
    pub key_bytes: u64,
    /// Bytes of a value as it is stored.
    pub value_bytes: u64,
    /// The merge policy, and the sizes of memtables and tables unless they follow from the budget.
    pub design: Design,
    /// The memory budget of the database, in bytes.
    pub memory_budget: u64,
    /// The keys that are written.
    pub overwrites: Overwrites,
    /// The number of keys, unless each is new; `None` is a quarter of the entries.
    pub keys: Option<u64>,
    /// The share of writes that delete existing keys: 0 to 1, at most half if every key is new.
    pub deletes: f64,
    /// The share of writes that delete a range of keys: 0 to 1.
    pub range_deletes: f64,
    /// The mean number of entries that such a delete covers.
    pub range_entries: f64,
    /// The number of later writes after which a value expires; `None` is never.
    pub time_to_live: Option<u64>,
    /// The most merges that run at a time.
    pub merge_threads: usize,
    /// The bytes that a merge thread merges while undelayed writers write one byte; `None` if
    /// merging keeps up with all writes. Otherwise writers are held back as in the engine, and the
    /// merges that are due at the end run then.
    pub pace: Option<f64>,
    /// The number of tables of a level above which virtual ones stand for several.
    pub level_tables: u64,
    /// The seed of the places of the tables' borders.
    pub seed: u64,
}

impl Default for Simulation {
    fn default() -> Self {
        Simulation {
            entries: 1_000_000_000,
            key_bytes: 16,
            value_bytes: 100,
            design: Design::default(),
            memory_budget: BUDGET_BYTES_DEFAULT,
            overwrites: Overwrites::None,
            keys: None,
            deletes: 0.0,
            range_deletes: 0.0,
            range_entries: 0.0,
            time_to_live: None,
            merge_threads: 1,
            pace: None,
            level_tables: LEVEL_TABLES,
            seed: 1,
        }
    }
}

/// Enough that a policy's choice among the tables of a level is the same as among more of them.
const LEVEL_TABLES: u64 = 100;

impl Simulation {
    fn check(&self) -> Result<()> {
        self.design.check()?;
        expect(
            (1..=1 << 56).contains(&self.entries),
            "1 to 2^56 entries",
            &self.entries,
        )?;
        expect(
            self.key_bytes > 0,
            "a key of at least 1 byte",
            &self.key_bytes,
        )?;
        expect(
            self.key_bytes <= 1 << 16 && self.value_bytes <= 1 << 26,
            "keys up to 64 KiB and values up to 64 MiB",
            &format!("{} and {} bytes", self.key_bytes, self.value_bytes),
        )?;
        expect(
            self.keys != Some(0) && self.keys.is_none_or(|keys| keys <= 1 << 56),
            "1 to 2^56 keys",
            &self.keys.unwrap_or(0),
        )?;
        expect(
            self.memory_budget >= BUDGET_BYTES_MIN,
            "a memory budget of at least 1 MiB",
            &format!("{} bytes", self.memory_budget),
        )?;
        self.check_deletes()?;
        expect(
            self.time_to_live != Some(0),
            "values that live for at least one write",
            &0,
        )?;
        expect(
            (1..=64).contains(&self.merge_threads),
            "1 to 64 merges at a time",
            &self.merge_threads,
        )?;
        expect(
            self.pace.is_none_or(|pace| pace > 0.0 && pace.is_finite()),
            "a pace above 0",
            &self.pace.unwrap_or(0.0),
        )?;
        expect(
            self.level_tables >= 8,
            "at least 8 virtual tables in a large level",
            &self.level_tables,
        )
    }

    fn check_deletes(&self) -> Result<()> {
        let deletes_max = match self.overwrites {
            Overwrites::None => 0.5,
            Overwrites::Uniform | Overwrites::Zipf => 1.0,
        };
        expect(
            (0.0..=deletes_max).contains(&self.deletes),
            &format!("a share of deletes of 0 to {deletes_max}"),
            &self.deletes,
        )?;
        let covered = self.range_deletes * self.range_entries;
        expect(
            self.range_deletes >= 0.0 && (0.0..1.0).contains(&(2.0 * self.deletes + covered)),
            "deletes, twice, and entries deleted by ranges of less than 1 per write",
            &format!("{} and {covered}", self.deletes),
        )
    }
}

fn expect(holds: bool, what: &str, found: &dyn std::fmt::Display) -> Result<()> {
    match holds {
        true => Ok(()),
        false => Err(Error::invalid(format!("expected {what}, found {found}"))),
    }
}

/// Grows a store and reports the cost. Deterministic: the same simulation gives the same report
/// everywhere.
///
/// # Errors
/// `InvalidArgument` if a number is out of bounds.
pub fn simulate(simulation: &Simulation) -> Result<SimulationReport> {
    simulation.check()?;
    let active_bytes = MemoryPlan::new(simulation.memory_budget).active();
    let mut design =
        DesignInForce::derive(simulation.design.clone(), &Layout::sorted(), active_bytes);
    if let Some(design) = std::sync::Arc::get_mut(&mut design) {
        // All memtables are sealed when they hold this together.
        design.memtable_bytes = design.memtable_bytes.min(active_bytes);
    }
    let mut tree = VirtualTree::new(simulation, &design, Workload::new(simulation));
    let mut growth = Growth::default();
    let mut is_end = false;
    while !is_end {
        tree.flush(simulation.entries)?;
        is_end = tree.written() >= simulation.entries as f64;
        tree.settle(simulation.pace.filter(|_| !is_end))?;
        growth.watch(&mut tree, is_end);
    }
    Ok(growth.into_report(&tree, &design))
}
