//! Sealing memtables: each gets a number, and everything below it is flushed.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::base::entry::SeqNo;
use crate::base::error::Result;
use crate::paths::background;
use crate::tree::engine::{CommitState, Engine, Writer};
use crate::tree::partition::Partition;

/// Seals a partition's memtable at `at` and has it flushed. Inside the critical section.
pub(crate) fn seal(engine: &Arc<Engine>, partition: &Arc<Partition>, at: SeqNo) -> bool {
    // A dropped partition's memtables are already subtracted.
    if partition.is_dropped() {
        return false;
    }
    let bytes = partition.tree().active.reserved_bytes();
    // Added before another thread can find it sealed and subtract it again.
    engine.memory.sealed.fetch_add(bytes, Ordering::Relaxed);
    if !partition.seal(at, &engine.memory.pool) {
        engine.memory.sealed.fetch_sub(bytes, Ordering::Relaxed);
        return false;
    }
    (engine.memory).remove_active(&partition.keyspace.active, bytes);
    background::spawn_flush(engine, partition);
    true
}

/// Seals the largest memtable, because the active memtables of these partitions have reached their
/// limit.
pub(super) fn seal_largest<'a>(
    engine: &Arc<Engine>,
    at: SeqNo,
    partitions: impl Iterator<Item = &'a Arc<Partition>>,
) {
    let largest = partitions.max_by_key(|p| p.tree().active.reserved_bytes());
    if let Some(partition) = largest {
        seal(engine, partition, at);
    }
}

/// Seals every memtable of these partitions at one number, and returns it. Everything below it is
/// in tables once they are flushed.
pub(crate) fn seal_all<'a>(
    engine: &Arc<Engine>,
    partitions: impl IntoIterator<Item = &'a Arc<Partition>>,
) -> Result<SeqNo> {
    let writer = engine.writer()?;
    let state = writer.commit();
    let at = state.next_seqno;
    for partition in partitions {
        seal(engine, partition, at);
    }
    Ok(at)
}

/// Seals every memtable of the database at one number. With `hold`, memtables sealed later are not
/// flushed until the caller drops `background::HeldFlushes`.
pub(crate) fn seal_database(
    engine: &Arc<Engine>,
    hold: bool,
) -> Result<(SeqNo, Vec<Arc<Partition>>)> {
    let writer = engine.writer()?;
    let state = writer.commit();
    let at = state.next_seqno;
    // Every write with a smaller number was routed by this catalog or an earlier one.
    let partitions: Vec<_> = engine.catalog.load().partitions.values().cloned().collect();
    if hold {
        writer.whole_trees.hold_flushes(at);
    }
    for partition in &partitions {
        seal(engine, partition, at);
    }
    Ok((at, partitions))
}

/// Called when a new segment was begun. Has the next one prepared. If the log is too long, flushes
/// the memtables that hold its oldest segment.
pub(super) fn after_roll(engine: &Arc<Engine>, writer: &Writer, state: &mut CommitState) {
    engine.update_log_pressure(writer);
    if writer.log.live_bytes() > writer.log_bytes_max {
        let catalog = engine.catalog.load();
        for id in writer.log.oldest_pins(|p| catalog.flushed_through(p)) {
            if let Some(partition) = catalog.partitions.get(&id) {
                seal(engine, partition, state.next_seqno);
            }
        }
    }
    background::prepare_spares(engine, writer, state.next_seqno);
}
