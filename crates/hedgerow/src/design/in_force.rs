//! A design with what follows from it and from the memory.

use std::sync::Arc;

use crate::base::options::{Design, Layout};
use crate::design::merge_policy::{self, Policy};

/// A design with what is derived from it.
#[derive(Debug)]
pub(crate) struct DesignInForce {
    pub(crate) design: Design,
    pub(crate) policy: Arc<dyn Policy>,
    /// A partition's part of the memory of active memtables, where all are written alike.
    pub(crate) memtable_bytes: u64,
    /// When the active memtables of all partitions have this size, the largest is flushed: a busy partition has
    /// the memory of the others.
    pub(crate) memtables_bytes: u64,
    pub(crate) table_bytes: u64,
}

impl DesignInForce {
    /// Fills what the design leaves open from the memory that active memtables have together.
    pub(crate) fn derive(design: Design, layout: &Layout, active_bytes: u64) -> Arc<DesignInForce> {
        let partitions = layout.partitioning.count() as u64;
        let all = design
            .memtable_bytes
            .unwrap_or(active_bytes.clamp(1 << 20, 256 << 20));
        let memtable_bytes = (all / partitions).max(4 << 10);
        // A level-0 run is one table; deeper tables keep that size within reason.
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
}
