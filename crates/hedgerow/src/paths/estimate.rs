//! An estimate of the entries and bytes in a range of keys, from indexes and nodes of memtables.
//!
//! Tables between the ends of the range count as a whole. Of the table at an end, the index says
//! which part lies inside. Reads no block; opens the tables at the ends.

use std::ops::Bound;
use std::sync::Arc;

use crate::base::error::Result;
use crate::base::table_meta::TableMeta;
use crate::design::merge_policy::shape::Run;
use crate::table::Table;
use crate::tree::engine::KeyspaceState;
use crate::tree::partition::KeyBounds;

/// Entries and bytes; old versions and tombstones count.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Estimate {
    pub(crate) entries: f64,
    pub(crate) bytes: f64,
}

impl Estimate {
    fn add(&mut self, meta: &TableMeta, share: f64) {
        self.entries += meta.entries as f64 * share;
        self.bytes += meta.file_bytes as f64 * share;
    }
}

/// Estimates what lies within bounds of order keys.
pub(crate) fn within(state: &KeyspaceState, bounds: &KeyBounds) -> Result<Estimate> {
    let mut sum = Estimate::default();
    for partition in state.covering(bounds) {
        let tree = partition.tree_owned();
        for memtable in tree.memtables() {
            let (entries, bytes) = memtable.estimate_within(bounds);
            sum.entries += entries;
            sum.bytes += bytes;
        }
        let groups = tree.version.levels.iter().flat_map(|level| &level.groups);
        for run in groups.flat_map(|group| &group.runs) {
            add_run(&mut sum, run, bounds)?;
        }
    }
    Ok(sum)
}

fn add_run(sum: &mut Estimate, run: &Run<Arc<Table>>, (lower, upper): &KeyBounds) -> Result<()> {
    let key_of = |bound: &Bound<Vec<u8>>| match bound {
        Bound::Unbounded => None,
        Bound::Included(key) | Bound::Excluded(key) => Some(key.clone()),
    };
    let (lo, hi) = (key_of(lower), key_of(upper));
    let first = lo.as_ref().map_or(0, |lo| run.first_ending_at_or_after(lo));
    for table in &run.tables[first..] {
        let meta = table.meta();
        let before = |key: &Option<Vec<u8>>, otherwise: f64| match key {
            Some(key) if *key <= meta.smallest_key => Ok(0.0),
            Some(key) if *key <= meta.largest_key => Ok(table.reader()?.share_before(key)),
            _ => Ok(otherwise),
        };
        if hi.as_ref().is_some_and(|hi| *hi < meta.smallest_key) {
            break;
        }
        sum.add(meta, (before(&hi, 1.0)? - before(&lo, 0.0)?).max(0.0));
    }
    Ok(())
}
