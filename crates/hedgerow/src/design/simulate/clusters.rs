//! What writing clusters of filters takes, by the rules of [`crate::group_filter::probes::clusters`]: the filters of a
//! table with the table; and where they do not fit the memory, those of a group again, whenever its tail has become too
//! many runs for its base.

use std::collections::{BTreeMap, BTreeSet};

use crate::base::options::{Design, FilterSpec, Residency};
use crate::design::merge_policy::shape::{Facts, RunId, Shape};
use crate::group_filter::probes::clusters::{OVERHEAD, RESIDENT_SHARE, is_base_due};
use crate::table::memory::MemoryPlan;

/// Of a page's bytes per byte of filters: the lengths, and the ends of pages.
const FILE_OVERHEAD: f64 = 1.15;
/// What others leave of the memory of filters ([`crate::table::memory`]).
const FILTERS_SHARE: f64 = 0.9;

/// The bases of all groups.
pub(super) struct Clusters {
    design: Design,
    /// Bits of filters that may be in memory.
    memory_bits: f64,
    bases: BTreeMap<(usize, usize), BTreeSet<RunId>>,
}

impl Clusters {
    pub(super) fn new(design: &Design, memory_budget: u64) -> Clusters {
        let resident = MemoryPlan::new(memory_budget).resident as f64;
        Clusters {
            memory_bits: match design.residency {
                Residency::Auto => 8.0 * resident * FILTERS_SHARE * RESIDENT_SHARE,
                Residency::Resident => f64::INFINITY,
                Residency::Paged => 0.0,
            },
            design: design.clone(),
            bases: BTreeMap::new(),
        }
    }

    /// Whether a level has any.
    pub(super) fn are_asked(&self, level: usize) -> bool {
        self.bits_per_key(level) > 0.0
    }

    fn bits_per_key(&self, level: usize) -> f64 {
        match self.design.filter_at(level) {
            FilterSpec::Cluster { bits_per_key } => f64::from(bits_per_key),
            _ => 0.0,
        }
    }

    /// Bytes of the filters of so many entries.
    pub(super) fn bytes(&self, level: usize, entries: f64) -> f64 {
        entries * self.bits_per_key(level) / 8.0 * FILE_OVERHEAD
    }

    /// How many levels have all their filters in memory, when they have so many entries.
    fn resident_levels(&self, entries: &[f64]) -> usize {
        let mut left = self.memory_bits;
        let fits = |(level, entries): &(usize, &f64)| {
            left -= **entries * self.bits_per_key(*level) * OVERHEAD;
            left >= 0.0
        };
        entries.iter().enumerate().take_while(fits).count()
    }

    /// The bytes that it takes to write the bases that are due in groups which have changed; `entries` are those of
    /// each level, and `weight` says for how many groups one of a level stands.
    pub(super) fn gather<T: Facts>(
        &mut self,
        shape: &Shape<T>,
        changed: &BTreeSet<(usize, usize)>,
        entries: &[f64],
        weight: impl Fn(usize) -> f64,
    ) -> f64 {
        let resident = self.resident_levels(entries);
        let mut bytes = 0.0;
        for &(level, place) in changed {
            let group = shape.levels.get(level).and_then(|it| it.groups.get(place));
            let Some(group) = group.filter(|_| level >= resident && self.bits_per_key(level) > 0.0)
            else {
                continue;
            };
            let runs: BTreeSet<RunId> = group.runs.iter().map(|run| run.id).collect();
            let base = self.bases.entry((level, place)).or_default();
            base.retain(|run| runs.contains(run));
            if base.is_empty() {
                // A table's own cluster becomes the base, and is not written again.
                base.extend(runs.last());
            }
            if is_base_due(base.len(), runs.len() - base.len()) {
                *base = runs;
                let tables = group.runs.iter().flat_map(|run| &run.tables);
                let entries: u64 = tables.map(|table| table.meta().entries).sum();
                bytes += self.bytes(level, entries as f64) * weight(level);
            }
        }
        bytes
    }
}
