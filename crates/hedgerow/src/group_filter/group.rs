//! The filters of one group.
//!
//! A group may hold several filters over different runs. Runs that are being merged keep their
//! filter while new runs start the next one. A filter may outlive its runs: its answer for a run
//! that the group lacks is ignored.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, OnceLock};

use crate::base::entry::{KeyHash, RunId};
use crate::base::page::PageSource;
use crate::design::merge_policy::shape::{Facts, Group, RunFilters};
use crate::table::filter::{Probe, RunMask};

/// The filters over several of a group's runs, probed before any run.
#[derive(Debug, Clone, Default)]
pub(crate) struct GroupFilters {
    pub(crate) probes: Vec<GroupProbe>,
    /// The circumstances in which the present filters were found complete.
    complete: OnceLock<u64>,
}

impl GroupFilters {
    /// True if a filter answers for a run.
    pub(super) fn cover(&self, run: RunId) -> bool {
        self.probes.iter().any(|probe| probe.covers(run))
    }

    /// True if the present filters were found complete in the circumstances of this number.
    pub(super) fn are_complete(&self, circumstances: u64) -> bool {
        self.complete.get() == Some(&circumstances)
    }

    /// Records that the filters are complete in these circumstances. Others are rare and are
    /// checked each time.
    pub(super) fn note_complete(&self, circumstances: u64) {
        let _ = self.complete.set(circumstances);
    }

    /// Prefetches the cache lines that its filters will read for a hash. Cost: two to five cache
    /// lines per filter, without waiting.
    pub(crate) fn touch(&self, hash: KeyHash) {
        for probe in &self.probes {
            probe.filter.touch(hash);
        }
    }

    /// The filters that are of a kind.
    pub(super) fn of_kind<T: Probe>(&self) -> impl Iterator<Item = &T> {
        self.probes.iter().filter_map(GroupProbe::of_kind)
    }
}

impl RunFilters for GroupFilters {
    fn changed(&mut self) {
        self.complete.take();
        for probe in &mut self.probes {
            probe.places.take();
        }
    }

    /// The filters know nothing of the tables that the run gets.
    fn run_grew(&mut self, run: RunId) {
        self.probes.iter_mut().for_each(|it| it.forget(run));
    }

    /// Drops the filters whose runs are all gone.
    fn keep_for(&mut self, is_here: impl Fn(RunId) -> bool) {
        self.probes
            .retain(|probe| probe.covered().any(|(_, id)| is_here(id)));
    }
}

/// A filter over some runs of a group.
#[derive(Clone)]
pub(crate) struct GroupProbe {
    /// The runs of its answers, in any order: bit `i` stands for `runs[i]`.
    pub(crate) runs: Arc<[RunId]>,
    /// The bits of runs that got tables unknown to the filter. These bits are ignored.
    pub(crate) outgrown: RunMask,
    pub(crate) filter: Arc<dyn Probe>,
    /// The source of the pages that the filter needs.
    pub(crate) pages: Arc<dyn PageSource>,
    /// The places of its runs in the present group.
    places: OnceLock<RunsOfBits>,
}

/// The places of a filter's runs in a group.
#[derive(Debug, Clone)]
struct RunsOfBits {
    /// The place of each bit's run; [`GONE`] if the group lacks the run.
    of_bits: Box<[u8]>,
    /// The places of runs that the filter does not cover.
    others: u64,
    /// True if each bit stands for the run at its own place.
    is_identity: bool,
}

/// The place of a run that is not in the group.
const GONE: u8 = u8::MAX;

impl GroupProbe {
    pub(crate) fn new(
        runs: Arc<[RunId]>,
        filter: Arc<dyn Probe>,
        pages: Arc<dyn PageSource>,
    ) -> GroupProbe {
        GroupProbe {
            runs,
            outgrown: RunMask::NONE,
            filter,
            pages,
            places: OnceLock::new(),
        }
    }

    /// The runs that it answers for, with their bits.
    fn covered(&self) -> impl Iterator<Item = (usize, RunId)> {
        let bits = self.runs.iter().copied().enumerate();
        bits.filter(|(bit, _)| !self.outgrown.contains(*bit))
    }

    /// True if it answers for a run.
    pub(crate) fn covers(&self, run: RunId) -> bool {
        self.covered().any(|(_, id)| id == run)
    }

    /// The filter, if it is of a kind.
    pub(super) fn of_kind<T: Probe>(&self) -> Option<&T> {
        let filter: &dyn Any = &*self.filter;
        filter.downcast_ref()
    }

    /// Ends answering for a run, because the run got tables that the filter does not know.
    pub(crate) fn forget(&mut self, run: RunId) {
        let found = self.covered().find(|(_, id)| *id == run);
        self.outgrown.0 |= found.map_or(0, |(bit, _)| 1 << bit);
        self.places.take();
    }

    /// Narrows a set of a group's runs by the filter's answer. Runs that it does not cover stay.
    /// The places of its runs are cached until the group changes.
    pub(crate) fn narrow<T: Facts>(
        &self,
        group: &Group<T>,
        runs: RunMask,
        candidates: RunMask,
    ) -> RunMask {
        let places = self.places.get_or_init(|| self.places_in(group));
        if places.is_identity {
            return RunMask(runs.0 & (candidates.0 | places.others));
        }
        let mut left = places.others;
        for (bit, place) in places.of_bits.iter().enumerate() {
            if *place != GONE && candidates.contains(bit) {
                left |= 1 << place;
            }
        }
        RunMask(runs.0 & left)
    }

    fn places_in<T: Facts>(&self, group: &Group<T>) -> RunsOfBits {
        let mut of_bits = vec![GONE; self.runs.len()];
        let mut others = RunMask::all(64);
        for (bit, id) in self.covered() {
            if let Some(place) = group.place_of_run(id) {
                of_bits[bit] = place as u8;
                others = others.without(place);
            }
        }
        RunsOfBits {
            is_identity: (0..).zip(&of_bits).all(|(bit, place)| bit == *place),
            of_bits: of_bits.into(),
            others: others.0,
        }
    }
}

impl fmt::Debug for GroupProbe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GroupProbe")
            .field("runs", &self.runs)
            .field("outgrown", &self.outgrown)
            .field("memory_bytes", &self.filter.memory_bytes())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
