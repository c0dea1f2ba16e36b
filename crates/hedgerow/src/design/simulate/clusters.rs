//! The bytes written for clustered filters, by the rules of
//! [`crate::group_filter::probes::clusters`]. A table's filters are written with the table. If they
//! do not fit the memory, a group's filters are written again whenever its tail has too many runs
//! for its base.

use std::collections::{BTreeMap, BTreeSet};

use crate::base::options::{Design, FilterSpec, Residency};
use crate::design::merge_policy::shape::{Facts, RunId, Shape};
use crate::group_filter::probes::clusters::{OVERHEAD, RESIDENT_SHARE, is_base_due};
use crate::table::memory::MemoryPlan;

/// The bytes of a page per byte of filters: adds the lengths and the ends of pages.
const FILE_OVERHEAD: f64 = 1.15;
/// The part of the filters' memory that other filters leave ([`crate::table::memory`]).
const FILTERS_SHARE: f64 = 0.9;

/// The bases of all groups.
pub(super) struct Clusters {
    design: Design,
    /// The bits of filters that fit the memory.
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

    /// True if a level has clusters.
    pub(super) fn are_asked(&self, level: usize) -> bool {
        self.bits_per_key(level) > 0.0
    }

    fn bits_per_key(&self, level: usize) -> f64 {
        match self.design.filter_at(level) {
            FilterSpec::Cluster { bits_per_key } => f64::from(bits_per_key),
            _ => 0.0,
        }
    }

    /// The bytes of the filters of this many entries.
    pub(super) fn bytes(&self, level: usize, entries: f64) -> f64 {
        entries * self.bits_per_key(level) / 8.0 * FILE_OVERHEAD
    }

    /// The number of levels whose filters are all in memory, for these entries per level.
    fn resident_levels(&self, entries: &[f64]) -> usize {
        let mut left = self.memory_bits;
        let fits = |(level, entries): &(usize, &f64)| {
            left -= **entries * self.bits_per_key(*level) * OVERHEAD;
            left >= 0.0
        };
        entries.iter().enumerate().take_while(fits).count()
    }

    /// The bytes of the bases that are due in changed groups. `entries` are those of each level,
    /// and `weight` is the number of groups that a group of a level stands for.
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
                // A table's own cluster becomes the base without being written again.
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
