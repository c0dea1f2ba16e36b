//! Filters over several runs of a group (SlimDB, section 3.2; LSM-trie, section 3.3): one answer
//! for all covered runs instead of one per table.
//!
//! A group may hold several such filters over different runs. Runs that are being merged keep their
//! filter while new runs start the next one. A filter may outlive its runs: its answer for a run
//! that the group lacks is ignored.

use std::fmt;
use std::sync::Arc;

use crate::base::entry::KeyHash;
use crate::base::page::PageSource;
use crate::table::filter::{Probe, RunMask};

use super::{Facts, Group};
use crate::base::entry::RunId;

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
}

impl GroupProbe {
    /// The runs that it answers for, with their bits.
    fn covered(&self) -> impl Iterator<Item = (usize, RunId)> {
        let bits = self.runs.iter().copied().enumerate();
        bits.filter(|(bit, _)| !self.outgrown.contains(*bit))
    }

    /// True if it answers for a run.
    pub(crate) fn covers(&self, run: RunId) -> bool {
        self.covered().any(|(_, id)| id == run)
    }

    /// Ends answering for a run, because the run got tables that the filter does not know.
    pub(crate) fn forget(&mut self, run: RunId) {
        let found = self.covered().find(|(_, id)| *id == run);
        self.outgrown.0 |= found.map_or(0, |(bit, _)| 1 << bit);
    }
}

impl<T: Facts> Group<T> {
    /// Narrows a set of the group's runs by a probe's answer. Uncovered runs stay. Cost: a binary
    /// search per run of the probe.
    pub(crate) fn narrowed(
        &self,
        runs: RunMask,
        probe: &GroupProbe,
        candidates: RunMask,
    ) -> RunMask {
        let mut narrowed = runs;
        for (bit, id) in probe.covered() {
            if !candidates.contains(bit)
                && let Ok(place) = self.place_of(id)
            {
                narrowed = narrowed.without(place);
            }
        }
        narrowed
    }

    /// Prefetches the cache lines that its probes will read for a hash. Cost: two to five cache
    /// lines per probe, without waiting.
    pub(crate) fn touch_probes(&self, hash: KeyHash) {
        for probe in &self.probes {
            probe.filter.touch(hash);
        }
    }

    /// True if a probe answers for a run.
    pub(crate) fn is_covered(&self, run: RunId) -> bool {
        self.probes.iter().any(|probe| probe.covers(run))
    }

    /// Drops the probes whose runs are all gone.
    pub(super) fn forget_probes(&mut self) {
        let runs = &self.runs;
        let is_here = |(_, id): (_, RunId)| runs.binary_search_by(|run| id.cmp(&run.id)).is_ok();
        self.probes.retain(|probe| probe.covered().any(is_here));
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
