//! Filters: which runs may hold a key, answered from a few bits per key without reading the data.
//!
//! A filter never says no for a key that is there. It answers for an interval of the runs of one
//! group: for one run (a table's own filter, as here) or for several (a filter per level, later).
//! A group may hold several probes over different intervals; masks are shifted and joined by the
//! caller. Filters do no I/O: a paged filter asks for the page that it wants to see.

pub(crate) mod allocation;
pub(crate) mod bloom;
#[cfg(test)]
mod conformance;

use crate::entry::KeyHash;
use crate::error::Result;
use crate::page::{Page, Step};

/// A set of runs of one group: bit `i` is the `i`-th newest run of the interval asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RunMask(pub(crate) u64);

impl RunMask {
    pub(crate) const NONE: RunMask = RunMask(0);

    /// The `runs` newest runs.
    pub(crate) fn all(runs: usize) -> RunMask {
        RunMask(if runs >= 64 {
            u64::MAX
        } else {
            (1 << runs) - 1
        })
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Takes the newest run out of the set: its place in the interval.
    pub(crate) fn take_newest(&mut self) -> Option<usize> {
        let newest = self.0.trailing_zeros() as usize;
        self.0 &= self.0.wrapping_sub(1);
        (newest < 64).then_some(newest)
    }
}

/// A filter that can be asked.
pub(crate) trait Probe: Send + Sync {
    /// The runs that may hold a key with this hash. `page` is the page that the answer before this
    /// one asked for; the first call has none.
    /// Cost: one cache line when resident, one page when paged.
    fn candidates(&self, hash: KeyHash, page: Option<&Page>) -> Result<Step<RunMask>>;
    /// Bytes held in memory.
    fn memory_bytes(&self) -> usize;
}
