//! Filters over several runs of a group (SlimDB, section 3.2; LSM-trie, section 3.3): one answer for
//! all the runs that they cover, instead of one for each table.
//!
//! A group may hold several, over runs that differ: those that are being merged keep theirs while
//! newcomers begin the next. A filter outlives its runs: what it says of a run that the group lacks
//! means nothing.

use std::fmt;
use std::sync::Arc;

use crate::base::entry::KeyHash;
use crate::base::page::PageSource;
use crate::table::filter::{Probe, RunMask};

use super::{Facts, Group, RunId};

/// A filter over some runs of a group.
#[derive(Clone)]
pub(crate) struct GroupProbe {
    /// What the bits of its answers stand for: bit `i` for `runs[i]`, in whatever order.
    pub(crate) runs: Arc<[RunId]>,
    /// The bits of runs that got tables which it does not know: they mean nothing any more.
    pub(crate) outgrown: RunMask,
    pub(crate) filter: Arc<dyn Probe>,
    /// Where the pages come from that it asks for.
    pub(crate) pages: Arc<dyn PageSource>,
}

impl GroupProbe {
    /// The runs that it answers for, with their bits.
    fn covered(&self) -> impl Iterator<Item = (usize, RunId)> {
        let bits = self.runs.iter().copied().enumerate();
        bits.filter(|(bit, _)| !self.outgrown.contains(*bit))
    }

    /// Whether it answers for a run.
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
    /// What is left of some of the group's runs after a probe's answer. Runs that it does not cover
    /// stay. Cost: a binary search per run of the probe.
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

    /// Fetches what its probes will look at for a hash. Cost: two to five cache lines for each, not waited for.
    pub(crate) fn touch_probes(&self, hash: KeyHash) {
        for probe in &self.probes {
            probe.filter.touch(hash);
        }
    }

    /// Whether a probe answers for a run.
    pub(crate) fn is_covered(&self, run: RunId) -> bool {
        self.probes.iter().any(|probe| probe.covers(run))
    }

    /// Forgets probes all of whose runs are gone.
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
