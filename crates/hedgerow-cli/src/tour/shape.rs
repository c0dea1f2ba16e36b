//! Makes the shape of a tree visible at a small size.

use hedgerow::KeyspaceStats;

use super::store::Store;
use crate::exit::Failure;

/// The approximate bytes of an entry in a memtable: key, attributes, and the memtable's overhead.
const ENTRY_BYTES: u64 = 150;
/// The memtables' worth of data per tree. Tables compress to a bit less than half, and with
/// `leveling:4,one-table` a level is used from 4 memtables on. So the last level has about 80
/// memtables, the level above 20.
const MEMTABLES: u64 = 192;
/// The smallest memtable that the engine takes, per partition.
const MEMTABLE_BYTES_MIN: u64 = 4 << 10;
/// The largest part of the budget for one keyspace. The engine seals when all active memtables
/// exceed 3/32 of the budget, which two keyspaces share.
const BUDGET_PARTS: u64 = 24;
/// The most entries per batch: what a service might collect from its clients.
const BATCH_ENTRIES_MAX: u64 = 100;

/// The last 1/8 of the load is paced.
const PACED_PART: u64 = 8;

/// A memtable size at which `entries` fill a memtable, level 0 and several levels below.
pub(crate) fn memtable_bytes(entries: u64, memory_budget: u64, partitions: u16) -> u64 {
    let wanted = entries * ENTRY_BYTES / MEMTABLES;
    let largest = memory_budget / BUDGET_PARTS;
    let smallest = MEMTABLE_BYTES_MIN * u64::from(partitions);
    wanted.min(largest).max(smallest)
}

/// The size of the load.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    pub(crate) entries: u64,
    /// The approximate number of entries in a memtable.
    memtable_entries: u64,
}

impl Size {
    pub(crate) fn new(entries: u64, memtable_bytes: u64) -> Size {
        Size {
            entries,
            memtable_entries: (memtable_bytes / ENTRY_BYTES).max(1),
        }
    }

    /// The entries per batch: small memtables get small batches.
    pub(crate) fn batch_entries(&self) -> usize {
        (self.memtable_entries / 10).clamp(1, BATCH_ENTRIES_MAX) as usize
    }
}

/// Gives the tree its shape when loading ends, for the drawing.
///
/// A small tree loads faster than its memtables are flushed, and would be merged into one level at
/// once. So near the end, loading pauses after each memtable's worth of entries for a flush and its
/// merges. A merge empties level 0 whenever it has 4 runs, so one tree in four would show an empty
/// level 0. Therefore the last flush but one leaves less than a memtable's worth to load, and no
/// other flush starts by itself. If level 0 is empty then, a last flush half-way through the rest
/// adds a run.
pub(crate) struct Spread {
    stops: Vec<u64>,
}

impl Spread {
    pub(crate) fn new(size: &Size) -> Spread {
        let last_part = |tenths: u64| size.memtable_entries.div_ceil(10) * tenths;
        let last = size.entries.saturating_sub(last_part(4));
        let last_but_one = size.entries.saturating_sub(last_part(8));
        let first = size.entries / PACED_PART * (PACED_PART - 1);
        let paced = (first..last_but_one).step_by(size.memtable_entries as usize);
        let mut stops: Vec<u64> = paced.chain([last_but_one, last]).collect();
        stops.reverse();
        Spread { stops }
    }

    /// Pauses if the number of entries loaded calls for it.
    pub(crate) fn keep(&mut self, store: &Store, loaded: u64) -> Result<(), Failure> {
        if self.stops.last().is_none_or(|&stop| loaded < stop) {
            return Ok(());
        }
        while self.stops.last().is_some_and(|&stop| loaded >= stop) {
            self.stops.pop();
        }
        for keyspace in [&store.entries, &store.inodes] {
            let levels = keyspace.stats().levels;
            let empty = levels.first().is_none_or(|level0| level0.tables == 0);
            if !self.stops.is_empty() || empty {
                keyspace.flush()?;
                keyspace.wait_until_merged()?;
            }
        }
        Ok(())
    }
}

/// The number of non-empty levels below level 0.
pub(crate) fn deep_levels(stats: &KeyspaceStats) -> usize {
    let deep = |level: &&hedgerow::LevelStats| level.level > 0 && level.tables > 0;
    stats.levels.iter().filter(deep).count()
}
