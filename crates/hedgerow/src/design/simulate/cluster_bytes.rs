//! The bytes written for clustered filters, by [`cluster_plan`](crate::design::cluster_plan). A
//! table's filters are written with the table. If they do not fit the memory, the filters of a unit
//! are written again whenever its tail is too large for its base.

use std::collections::{BTreeMap, BTreeSet};

use crate::base::entry::RunId;
use crate::base::memory_plan::MemoryPlan;
use crate::base::options::{Design, Residency};
use crate::design::cluster_plan::{LevelFilters, Plan, RESIDENT_SHARE};
use crate::design::merge_policy::shape::{Facts, Shape};

/// The bytes of a page per byte of filters: adds the lengths and the ends of pages.
const FILE_OVERHEAD: f64 = 1.15;
/// The part of the filters' memory that other filters leave ([`crate::base::memory_plan`]).
const FILTERS_SHARE: f64 = 0.9;

/// Level and number of a group.
type GroupIndex = (usize, usize);

/// The bases of all units, by the group with which a unit begins.
pub(super) struct Clusters {
    design: Design,
    /// The bits of filters that fit the memory.
    memory_bits: f64,
    bases: BTreeMap<GroupIndex, BTreeSet<(GroupIndex, RunId)>>,
}

impl Clusters {
    pub(super) fn new(design: &Design, memory_budget: u64) -> Clusters {
        let resident = MemoryPlan::new(memory_budget).resident as f64;
        Clusters {
            memory_bits: 8.0 * resident * FILTERS_SHARE,
            design: design.clone(),
            bases: BTreeMap::new(),
        }
    }

    /// True if a level has clusters.
    pub(super) fn are_asked(&self, level: usize) -> bool {
        self.bits_per_key(level) > 0.0
    }

    fn bits_per_key(&self, level: usize) -> f64 {
        self.design.filter_at(level).bits_beside_tables()
    }

    /// The bytes of the filters of this many entries.
    pub(super) fn bytes(&self, level: usize, entries: f64) -> f64 {
        entries * self.bits_per_key(level) / 8.0 * FILE_OVERHEAD
    }

    /// The filters of levels with these entries.
    fn filters(&self, entries: &[f64]) -> Vec<LevelFilters> {
        let levels = entries.iter().enumerate();
        let bits = levels.map(|(level, entries)| entries * self.bits_per_key(level));
        let filters = bits.map(|now| LevelFilters { now, full: now });
        filters.collect()
    }

    /// The part of the filters of deeper levels that has room in memory.
    fn tails_share(&self, filters: &[LevelFilters], plan: Plan) -> f64 {
        let bits = |levels: &[LevelFilters]| levels.iter().map(|it| it.now).sum::<f64>();
        let (resident, others) = filters.split_at(plan.resident);
        match self.design.residency {
            Residency::Paged => 0.0,
            Residency::Resident => 1.0,
            Residency::Auto => (self.memory_bits - bits(resident)) / bits(others).max(1.0),
        }
    }

    /// The bytes of the bases that are due in changed groups. `entries` are those of each level,
    /// and `weight` is the number of groups that a group of a level stands for.
    pub(super) fn gather<T: Facts>(
        &mut self,
        shape: &Shape<T>,
        changed: &BTreeSet<GroupIndex>,
        entries: &[f64],
        weight: impl Fn(usize) -> f64,
    ) -> f64 {
        let filters = self.filters(entries);
        let memory_bits = self.memory_bits * RESIDENT_SHARE;
        let plan = Plan::new(&filters, memory_bits, self.design.residency);
        let tails_share = self.tails_share(&filters, plan);
        let is_paged =
            |(level, _): &&GroupIndex| *level >= plan.resident && filters[*level].now > 0.0;
        let changed = changed.iter().filter(is_paged);
        let units: BTreeSet<GroupIndex> =
            changed.map(|at| first_of_unit(shape, plan, *at)).collect();
        let mut bytes = 0.0;
        for unit in units {
            let runs = runs_of_unit(shape, plan, unit, &weight);
            let base = self.bases.entry(unit).or_default();
            base.retain(|run| runs.contains_key(run));
            if base.is_empty() {
                // A table's own cluster becomes the base without being written again.
                base.extend(runs.keys().next_back());
            }
            let all: f64 = runs.values().sum();
            let of_base: f64 = base.iter().filter_map(|run| runs.get(run)).sum();
            let tail = all - of_base;
            let is_in_memory = tail <= all * tails_share;
            if plan.is_base_due(of_base as u64, tail as u64, is_in_memory) {
                *base = runs.keys().copied().collect();
                let written = runs
                    .iter()
                    .map(|(((level, _), _), it)| self.bytes(*level, *it));
                bytes += written.sum::<f64>() * weight(unit.0);
            }
        }
        bytes
    }
}

/// The group with which the unit of a group begins.
fn first_of_unit<T: Facts>(shape: &Shape<T>, plan: Plan, (level, place): GroupIndex) -> GroupIndex {
    if level < plan.shared {
        return (level, place);
    }
    let ranges = |level: usize| u64::from(shape.levels[level].ranges());
    let first = place as u64 * ranges(plan.shared) / ranges(level);
    (plan.shared, first as usize)
}

/// The runs of a unit, with the entries that each of them stands for.
fn runs_of_unit<T: Facts>(
    shape: &Shape<T>,
    plan: Plan,
    unit: GroupIndex,
    weight: impl Fn(usize) -> f64,
) -> BTreeMap<(GroupIndex, RunId), f64> {
    let levels = match unit.0 < plan.shared {
        true => unit.0..unit.0 + 1,
        false => unit.0..shape.levels.len(),
    };
    let ranges = |level: usize| shape.levels[level].groups.len();
    let mut runs = BTreeMap::new();
    for level in levels {
        let stands_for = weight(level) / weight(unit.0);
        let start = |place: usize| (place * ranges(level)).div_ceil(ranges(unit.0));
        let places = match level < plan.shared {
            true => unit.1..unit.1 + 1,
            false => start(unit.1)..start(unit.1 + 1),
        };
        for place in places {
            for run in &shape.levels[level].groups[place].runs {
                let entries = run.tables.iter().map(|table| table.meta().entries);
                let entries = entries.sum::<u64>() as f64 * stands_for;
                runs.insert(((level, place), run.id), entries);
            }
        }
    }
    runs
}
