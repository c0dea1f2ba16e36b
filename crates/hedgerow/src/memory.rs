//! How one memory budget is divided.
//!
//! | part | share | why |
//! |---|---|---|
//! | memtables | up to 3/8 | a quarter of it active, so that three sealed ones can wait for a slow flush |
//! | resident indexes and filters | up to 1/4 | what does not fit is paged through the cache |
//! | buffers of flushes and merges | 1/16 while any run | |
//! | pinned pages | what is pinned | long values and open cursors |
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
    /// The page cache hears of pins when they have changed by a quarter of this.
    pub(crate) pinned: u64,
}

/// The smallest budget that can be asked for, in bytes.
pub(crate) const BUDGET_BYTES_MIN: u64 = 1 << 20;
/// What the page cache has even when a user pins more than the whole budget, in bytes: a few pages
/// for whoever reads now.
const CACHE_BYTES_MIN: u64 = 64 << 10;
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

    /// The capacity of the page cache beside what others hold. Active memtables may fill up at any
    /// time, so they count as full.
    pub(crate) fn cache_bytes(&self, held: Held) -> u64 {
        let memtables = (held.sealed + self.active() + self.retained()).min(self.memtables);
        // The cache is told of pins in steps of a quarter of their share.
        let pinned = held.pinned + self.pinned / 4;
        let merges = if held.merging { self.merges } else { 0 };
        let others = memtables + merges + pinned + held.resident;
        self.budget.saturating_sub(others).max(CACHE_BYTES_MIN)
    }
}

/// What is in memory beside the page cache, in bytes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Held {
    /// Indexes, filters and descriptions of tables.
    pub(crate) resident: u64,
    /// Sealed memtables.
    pub(crate) sealed: u64,
    /// Pages that values and cursors keep.
    pub(crate) pinned: u64,
    /// Flushes or merges run, which take their share.
    pub(crate) merging: bool,
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
                for (resident, merging) in [(0, false), (plan.resident, true)] {
                    for pinned in [0, plan.pinned, 2 * plan.pinned] {
                        let held = Held {
                            resident,
                            sealed,
                            pinned,
                            merging,
                        };
                        let merges = if merging { plan.merges } else { 0 };
                        let cache = plan.cache_bytes(held);
                        let all = memtables + resident + pinned + merges + cache;
                        assert!(all <= budget.max(all - cache + CACHE_BYTES_MIN), "{held:?}");
                        assert!(
                            all + plan.pinned >= budget,
                            "{held:?}: {all} of {budget} used"
                        );
                    }
                }
            }
        }
    }
}
