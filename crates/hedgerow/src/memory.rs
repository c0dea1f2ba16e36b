//! How one memory budget is divided.
//!
//! | part | share | why |
//! |---|---|---|
//! | memtables | up to 3/8 | a quarter of it active, so that three sealed ones can wait for a slow flush |
//! | resident indexes and filters | up to 1/4 | what does not fit is paged through the cache |
//! | buffers of flushes and merges | 1/16 | |
//! | pinned pages | 1/16 | long values and open cursors |
//! | page cache | the rest | grows when the others take less |

/// The shares of one budget, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MemoryPlan {
    pub(crate) budget: u64,
    /// All memtables, and chunks kept for the next ones.
    pub(crate) memtables: u64,
    /// Resident indexes and filters.
    pub(crate) resident: u64,
    pub(crate) merges: u64,
    pub(crate) pinned: u64,
}

/// The smallest budget that can be asked for, in bytes.
pub(crate) const BUDGET_BYTES_MIN: u64 = 1 << 20;
/// The budget of a database that does not say, in bytes.
pub(crate) const BUDGET_BYTES_DEFAULT: u64 = 256 << 20;

impl MemoryPlan {
    pub(crate) fn new(budget: u64) -> MemoryPlan {
        MemoryPlan {
            budget,
            memtables: budget / 8 * 3,
            resident: budget / 4,
            merges: budget / 16,
            pinned: budget / 16,
        }
    }

    /// What active memtables may hold together before the largest is sealed.
    pub(crate) fn active(&self) -> u64 {
        self.memtables / 4
    }

    /// What memtables that are flushed leave behind for the next ones, at most.
    pub(crate) fn retained(&self) -> u64 {
        self.active() / 2
    }

    /// The capacity of the page cache when so many bytes are resident and in sealed memtables. The
    /// active ones may fill up at any time, so they count as full.
    pub(crate) fn cache_bytes(&self, resident: u64, sealed: u64) -> u64 {
        let memtables = (sealed + self.active() + self.retained()).min(self.memtables);
        let others = memtables + self.merges + self.pinned + resident;
        self.budget.saturating_sub(others).max(self.budget / 16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_fit_the_budget() {
        for budget in [BUDGET_BYTES_MIN, 64 << 20, 512 << 20, 1 << 40] {
            let plan = MemoryPlan::new(budget);
            for sealed in [0, plan.active(), plan.memtables - plan.active()] {
                let memtables = (sealed + plan.active() + plan.retained()).min(plan.memtables);
                let others = memtables + plan.merges + plan.pinned;
                assert_eq!(others + plan.cache_bytes(0, sealed), budget);
                let resident = plan.resident;
                assert!(others + resident + plan.cache_bytes(resident, sealed) <= budget);
            }
        }
    }
}
