//! How one memory budget is divided.
//!
//! | part | share | why |
//! |---|---|---|
//! | memtables | 3/8 | a quarter of it active, so that three sealed ones can wait for a slow flush |
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

    /// The capacity of the page cache when so many bytes are resident.
    pub(crate) fn cache_bytes(&self, resident: u64) -> u64 {
        let others = self.memtables + self.merges + self.pinned + resident;
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
            let all = plan.memtables + plan.merges + plan.pinned + plan.resident;
            assert!(all + plan.cache_bytes(plan.resident) <= budget + budget / 16);
            assert_eq!(
                plan.memtables + plan.merges + plan.pinned + plan.cache_bytes(0),
                budget,
            );
        }
    }
}
