//! Fills the page cache after writes. Merges replace tables whose blocks were cached, and a load
//! has cached nothing. So once there are no writes and nothing is left to merge, the blocks of the
//! last level are read into the free room of the cache. They come from tables that this process
//! wrote, which most likely are still in the system's cache. The merges themselves do not do this:
//! a load would take memory that its write-back needs.

use std::sync::Arc;

use crate::base::error::Result;
use crate::base::mutex::lock;
use crate::base::page::TableId;
use crate::table::open::{STREAM_BYTES_MAX, StreamedPages};
use crate::tree::engine::{Engine, Writer};
use crate::tree::partition::Partition;
use crate::tree::version::SuperVersion;

/// The number of blocks between two checks whether to continue.
const STEP_BLOCKS: usize = 64;
/// The approximate size of these blocks.
const STEP_BYTES: u64 = 256 << 10;

/// The trees to warm now. Called when a tree needs no merge any more. That tree is kept in a set
/// until there is no other work, so that idle trees cost nothing.
pub(crate) fn begin(engine: &Engine, partition: &Partition) -> Vec<Arc<Partition>> {
    // Dividing the memory again shows if there are writes.
    engine.memory.balance();
    // Only tables that this process wrote are warmed.
    let Some(writer) = &engine.writer else {
        return Vec::new();
    };
    lock(&writer.to_warm).insert(partition.id);
    if !is_time(engine) {
        return Vec::new();
    }
    let to_warm = std::mem::take(&mut *lock(&writer.to_warm));
    let catalog = engine.catalog.load();
    let partitions = to_warm.iter().filter_map(|id| catalog.partitions.get(id));
    let lacking = partitions.filter(|it| lacks_blocks(writer, it));
    let begins = |partition: &&Arc<Partition>| {
        let mut work = partition.work();
        // The end of a merge calls this again.
        let begins = !work.warming && work.running.is_empty();
        work.warming |= begins;
        begins
    };
    lacking.filter(begins).cloned().collect()
}

/// Reads the blocks of a tree until it changes no more, or there is other work.
pub(crate) fn fill(engine: &Engine, partition: &Partition) {
    let mut tree = partition.tree_owned();
    loop {
        // A read error is reported to the reader that needs the page.
        let is_warm = warm(engine, partition, &tree).unwrap_or(true);
        let mut work = partition.work();
        let now = partition.tree_owned();
        // A change of the tree meanwhile left the warming to this job.
        if !is_warm || Arc::ptr_eq(&now.version, &tree.version) {
            work.warming = false;
            if !is_warm && let Some(writer) = &engine.writer {
                lock(&writer.to_warm).insert(partition.id);
            }
            return;
        }
        tree = now;
    }
}

fn is_time(engine: &Engine) -> bool {
    let memory = &engine.memory;
    !memory.is_being_written() && memory.cache.has_room(STEP_BYTES) && engine.check_open().is_ok()
}

/// Returns true if a tree has tables that this process wrote and that are not warmed yet.
fn lacks_blocks(writer: &Writer, partition: &Partition) -> bool {
    let from = partition.work().warmed.unwrap_or(writer.ids.first_table);
    let tree = partition.tree();
    tree.version
        .tables()
        .any(|(_, table)| table.meta().id >= from)
}

/// Reads the blocks of this tree. Returns false if the time for warming ended before.
fn warm(engine: &Engine, partition: &Partition, tree: &SuperVersion) -> Result<bool> {
    let last = tree.version.tables().map(|(at, _)| at.level).max();
    let first = engine.writer()?.ids.first_table;
    let from = partition.work().warmed.unwrap_or(first);
    let mut through = from;
    for (at, table) in tree.version.tables() {
        let id = table.meta().id;
        if Some(at.level) != last || id < from {
            continue;
        }
        let pages = StreamedPages::new(table.clone(), STREAM_BYTES_MAX);
        for block in 0.. {
            if block % STEP_BLOCKS == 0 {
                if partition.is_dropped() || !is_time(engine) {
                    return Ok(false);
                }
                engine.memory.cache.prepare_slab();
            }
            if !pages.cache_block(block)? {
                break;
            }
        }
        through = through.max(TableId(id.0 + 1));
    }
    partition.work().warmed = Some(through);
    Ok(true)
}
