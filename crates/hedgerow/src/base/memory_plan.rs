//! The division of one memory budget.
//!
//! - Trees: at most 5/8 for their own memory. Each takes some KiB beside its entries. The shares
//!   below are shares of the rest.
//! - Memtables: up to 3/8. A quarter of it is active, so that three sealed memtables can wait for a
//!   slow flush.
//! - Resident indexes and filters: up to 1/4. The rest of them is paged through the cache. Filters
//!   come first for half of the share, indexes for an eighth.
//! - Filters over several runs: up to 1/2, with the other filters. They are probed for every key. A
//!   filter that does not fit is not built.
//! - Buffers of flushes and merges: 1/16 while any run, and more for tables of very many entries.
//! - Pinned pages: all of them, for long values and open cursors.
//! - The page cache: the rest. It grows when the others take less.
//!
//! While there are writes, an active memtable counts as full, because it soon may be. A database
//! without writes lends that memory to the page cache.

/// The shares of one budget, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MemoryPlan {
    pub(crate) budget: u64,
    /// The part of the budget that trees leave.
    pub(crate) rest: u64,
    /// All memtables, and chunks kept for the next ones.
    pub(crate) memtables: u64,
    /// Resident indexes and filters.
    pub(crate) resident: u64,
    pub(crate) merges: u64,
}

/// The smallest valid budget, in bytes.
pub(crate) const BUDGET_BYTES_MIN: u64 = 1 << 20;
/// The largest valid budget, in bytes. 64 GiB of it are the page cache's own. No machine has more.
pub(crate) const BUDGET_BYTES_MAX: u64 = 16 << 40;
/// The memory of an open tree beside its entries, in bytes. `tests/allocations.rs` measures it with
/// a keyspace of one tree.
pub(crate) const TREE_BYTES: u64 = 4192;
/// The least memory of the page cache, in bytes, even if a user pins more than the whole budget: a
/// few pages for the current reads.
const CACHE_BYTES_MIN: u64 = 64 << 10;
/// The default budget of a database, in bytes.
pub(crate) const BUDGET_BYTES_DEFAULT: u64 = 256 << 20;

impl MemoryPlan {
    /// The plan of a budget beside which the memory of trees is negligible.
    pub(crate) fn new(budget: u64) -> MemoryPlan {
        MemoryPlan::beside(0, budget)
    }

    pub(crate) fn beside(trees: u64, budget: u64) -> MemoryPlan {
        let rest = budget.saturating_sub(trees * TREE_BYTES);
        MemoryPlan {
            budget,
            rest,
            memtables: rest / 8 * 3,
            resident: rest / 4,
            merges: rest / 16,
        }
    }

    /// The part of the share that indexes have before filters.
    pub(crate) fn indexes_first(&self) -> u64 {
        self.resident / 8
    }

    /// The limit on all active memtables together. Beyond it the largest is sealed.
    pub(crate) fn active(&self) -> u64 {
        self.memtables / 4
    }

    /// The limit on the chunks that flushed memtables leave for the next ones. The number of trees
    /// does not change it.
    pub(crate) fn retained(&self) -> u64 {
        self.budget / 64 * 3
    }

    /// The change of the others' memory after which the budget is divided again.
    pub(crate) fn step(&self) -> u64 {
        self.budget / 128
    }

    /// The capacity of the page cache beside the memory of the others.
    pub(crate) fn cache_bytes(&self, held: HeldMemory) -> u64 {
        let (memtables, coming) = if held.writing {
            let coming = self.active().saturating_sub(held.active) + self.retained();
            (held.memtables.max(held.first_chunks), coming)
        } else {
            (held.memtables, held.retained)
        };
        let beside = memtables + coming + held.others + 2 * self.step();
        self.budget.saturating_sub(beside).max(CACHE_BYTES_MIN)
    }
}

/// The memory beside the page cache, in bytes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct HeldMemory {
    /// Indexes, filters, descriptions of tables, buffers of flushes and merges, and pages that
    /// values and cursors keep.
    pub(crate) others: u64,
    /// All memtables at their current size, those included that only cursors still hold.
    pub(crate) memtables: u64,
    /// The first chunks of a memtable of each tree: writes may come to all of them.
    pub(crate) first_chunks: u64,
    /// The chunks of dropped memtables that are kept for the next. A reader may drop a memtable
    /// long after the last write.
    pub(crate) retained: u64,
    /// The written bytes of the active memtables.
    pub(crate) active: u64,
    /// True if there are writes, or were a moment ago.
    pub(crate) writing: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_fit_the_budget() {
        for budget in [BUDGET_BYTES_MIN, 64 << 20, 512 << 20, 1 << 40] {
            let plan = MemoryPlan::new(budget);
            for memtables in [0, plan.active() / 2, plan.memtables - plan.active()] {
                for others in [0, plan.resident, budget] {
                    for writing in [false, true] {
                        let held = HeldMemory {
                            others,
                            memtables,
                            first_chunks: 0,
                            retained: plan.retained() / 2,
                            active: memtables.min(plan.active()),
                            writing,
                        };
                        let coming = match writing {
                            true => plan.active() - held.active + plan.retained(),
                            false => held.retained,
                        };
                        let cache = plan.cache_bytes(held);
                        let all = memtables + coming + others + cache;
                        assert!(all <= budget.max(all - cache + CACHE_BYTES_MIN), "{held:?}");
                        let unused = budget.saturating_sub(all);
                        assert!(unused <= 2 * plan.step(), "{held:?}: {unused} unused");
                    }
                }
            }
        }
    }
}
