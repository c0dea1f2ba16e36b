//! A design together with the values derived from it and from the memory.

use std::sync::Arc;

use crate::base::options::{Design, Layout};
use crate::design::merge_policy::shape::{Facts, Shape};
use crate::design::merge_policy::{self, Policy, Targets};
use crate::design::planner;

/// A design and its derived values.
#[derive(Debug)]
pub(crate) struct DesignInForce {
    pub(crate) design: Design,
    pub(crate) policy: Arc<dyn Policy>,
    /// A partition's share of the memory of active memtables, if all partitions get the same
    /// writes.
    pub(crate) memtable_bytes: u64,
    /// The total size of all partitions' active memtables at which the largest is flushed. So a
    /// busy partition uses the memory of the others.
    pub(crate) memtables_bytes: u64,
    pub(crate) table_bytes: u64,
}

impl DesignInForce {
    /// Derives the sizes that the design leaves open from the total memory of active memtables.
    pub(crate) fn derive(design: Design, layout: &Layout, active_bytes: u64) -> Arc<DesignInForce> {
        let partitions = layout.partitioning.count() as u64;
        let all = design
            .memtable_bytes
            .unwrap_or(active_bytes.clamp(1 << 20, 256 << 20));
        let memtable_bytes = (all / partitions).max(4 << 10);
        // A run of level 0 is one table. Deeper tables keep that size within bounds.
        let table_bytes = design
            .table_bytes
            .unwrap_or(memtable_bytes.clamp(2 << 20, 64 << 20));
        let policy = merge_policy::policy(&design.policy);
        Arc::new(DesignInForce {
            design,
            policy,
            memtable_bytes,
            memtables_bytes: memtable_bytes * partitions,
            table_bytes,
        })
    }

    /// The targets of this design for each level of a tree.
    pub(crate) fn targets<T: Facts>(&self, tree: &Shape<T>) -> Targets {
        let summary = tree.summary(self.memtable_bytes, self.table_bytes);
        planner::fitted_targets(&*self.policy, summary)
    }
}
