//! Filling the page cache after writes. Merges replace tables whose blocks were cached, and a load has
//! nothing cached at all: once nobody writes and nothing is left to merge, the blocks of the last level are read
//! into what room the cache has, from tables that this process wrote, which most likely are in the system's
//! cache still. Not by the merges themselves: a load would take memory that its write-back needs.

use std::sync::Arc;

use crate::base::error::Result;
use crate::base::page::TableId;
use crate::base::runtime::Priority;
use crate::table::open::{STREAM_BYTES_MAX, StreamedPages};
use crate::tree::engine::Engine;
use crate::tree::partition::Partition;
use crate::tree::version::SuperVersion;

/// So many blocks are read before it asks whether to go on.
const STEP_BLOCKS: usize = 64;
/// About what they take.
const STEP_BYTES: u64 = 256 << 10;

/// Begins where nothing else is to be done. Called when a tree needs no merge any more.
pub(super) fn schedule(engine: &Arc<Engine>) {
    // Whether anybody writes shows when the memory is divided again.
    engine.memory.balance();
    if !is_time(engine) {
        return;
    }
    for partition in engine.catalog.load().partitions.values() {
        {
            let mut work = partition.work();
            if work.warming || !work.running.is_empty() {
                continue;
            }
            work.warming = true;
        }
        let (engine_ref, partition) = (Arc::downgrade(engine), Arc::downgrade(partition));
        engine.scheduler.submit(Priority::Warm, move || {
            let Some(partition) = partition.upgrade() else {
                return;
            };
            let mut tree = partition.tree_owned();
            loop {
                let engine = engine_ref.upgrade();
                // What cannot be read is told to whoever asks for it.
                let done = engine.is_some_and(|engine| warm(&engine, &partition, &tree).is_ok());
                let mut work = partition.work();
                let now = partition.tree_owned();
                // Who changed the tree meanwhile left it to this job.
                if !done || Arc::ptr_eq(&now.version, &tree.version) {
                    work.warming = false;
                    return;
                }
                tree = now;
            }
        });
    }
}

fn is_time(engine: &Engine) -> bool {
    let memory = &engine.memory;
    !memory.is_being_written() && memory.cache.has_room(STEP_BYTES) && engine.check_open().is_ok()
}

/// Reads what there is to read of this tree, until it is not the time any more.
fn warm(engine: &Engine, partition: &Partition, tree: &SuperVersion) -> Result<()> {
    let last = tree.version.tables().map(|(at, _)| at.level).max();
    let first = engine.writer()?.first_table;
    let from = partition.work().warmed.unwrap_or(first);
    let mut through = from;
    for (at, table) in tree.version.tables() {
        let id = table.meta().id;
        if Some(at.level) != last || id < from {
            continue;
        }
        let pages = StreamedPages::new(table.clone(), STREAM_BYTES_MAX);
        for block in 0.. {
            if block % STEP_BLOCKS == 0 && (partition.is_dropped() || !is_time(engine)) {
                return Ok(());
            }
            if !pages.cache_block(block)? {
                break;
            }
        }
        through = through.max(TableId(id.0 + 1));
    }
    partition.work().warmed = Some(through);
    Ok(())
}
