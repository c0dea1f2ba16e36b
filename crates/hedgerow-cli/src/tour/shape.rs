//! The shape of a tree: how it is made visible at a small size.

use hedgerow::KeyspaceStats;

use super::store::Store;
use crate::exit::Failure;

/// What an entry takes in a memtable, roughly: key, attributes, and what the memtable adds.
const ENTRY_BYTES: u64 = 150;
/// Memtables per tree. Tables are compressed, to a bit less than half, and with `leveling:4,one-table` a level
/// is used from 4 memtables on: so the last level has about 80 memtables, the one above 20.
const MEMTABLES: u64 = 192;
/// The smallest memtable that the engine takes, per partition.
const MEMTABLE_BYTES_MIN: u64 = 4 << 10;
/// The engine seals when all active memtables together pass 3/32 of the budget; two keyspaces share
/// that.
const BUDGET_PARTS: u64 = 24;
/// Entries per batch: what a service might take from its clients at once.
const BATCH_ENTRIES_MAX: u64 = 100;

/// The last part of the loading that is paced, one in so many.
const PACED_PART: u64 = 8;

/// A memtable size at which so many entries span a memtable, level 0 and several levels below.
pub(crate) fn memtable_bytes(entries: u64, memory_budget: u64, partitions: u16) -> u64 {
    let wanted = entries * ENTRY_BYTES / MEMTABLES;
    let largest = memory_budget / BUDGET_PARTS;
    let smallest = MEMTABLE_BYTES_MIN * u64::from(partitions);
    wanted.min(largest).max(smallest)
}

/// How much there is to load.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    pub(crate) entries: u64,
    /// Those that a memtable holds, roughly.
    memtable_entries: u64,
}

impl Size {
    pub(crate) fn new(entries: u64, memtable_bytes: u64) -> Size {
        Size {
            entries,
            memtable_entries: (memtable_bytes / ENTRY_BYTES).max(1),
        }
    }

    /// Small batches for small memtables.
    pub(crate) fn batch_entries(&self) -> usize {
        (self.memtable_entries / 10).clamp(1, BATCH_ENTRIES_MAX) as usize
    }
}

/// Gives the tree its shape when loading ends, for the drawing.
///
/// A small tree is loaded faster than memtables are flushed, and would then be merged into one level
/// at once. So towards the end loading stops after each memtable's worth of entries, for a flush and
/// its merges. And level 0 is emptied each time it has 4 runs, so that one tree in four would be
/// drawn without: the last flush but one leaves less to load than a memtable holds, hence no other
/// comes by itself; if level 0 has no run then, the last one, half-way from there, gives it one.
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

    /// Stops if that many entries call for it.
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

/// How many of the levels below level 0 hold something.
pub(crate) fn deep_levels(stats: &KeyspaceStats) -> usize {
    let deep = |level: &&hedgerow::LevelStats| level.level > 0 && level.tables > 0;
    stats.levels.iter().filter(deep).count()
}
