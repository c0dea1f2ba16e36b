//! Few writes that only the old log has: recovery copies their records into the new log.
//!
//! Otherwise each tree with a write would get a table: a file, its sync, and a run of level 0. The
//! copies need one sync together, and the memtables stay as the replay has filled them.
//!
//! The copies keep their numbers. The old log ends without a seal, so the replay of a log stops
//! there, and does not reach the copies. Recovery then looks behind that end for records that say
//! that the log was durable further on: the copies say that nothing is. So a crash before the edit
//! that puts the new log in force leaves the old one. No other record is written before that edit.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use hedgerow_io::Storage;

use crate::base::entry::SeqNo;
use crate::base::error::{Error, Result};
use crate::table::memory::Memory;
use crate::tree::engine::{Catalog, CommitState, Writer};
use crate::tree::partition::Partition;
use crate::tree::wal::log::SegmentUpkeep;
use crate::tree::wal::payload::{Op, logged};
use crate::tree::wal::segment_reader::Record;

use super::survey::Survey;

/// The bytes of log that are copied in place of one table: a device writes about that many in the
/// time of a table's sync.
const BYTES_PER_TABLE: u64 = 256 << 10;
/// The part of the memory of active memtables up to which a memtable stays. A larger one would be
/// flushed soon, and so be written twice.
const MEMTABLE_SHARE: u64 = 16;

/// Returns true if the memtables that hold the records of `record_bytes` are to stay.
pub(super) fn are_few(
    memory: &Memory,
    writer: &Writer,
    catalog: &Catalog,
    record_bytes: u64,
) -> bool {
    let trees = catalog.partitions.values();
    let tables = trees.filter(|it| !it.tree().active.is_empty()).count() as u64;
    let per_table = BYTES_PER_TABLE.min(memory.plan().active() / MEMTABLE_SHARE);
    record_bytes <= (tables * per_table).min(writer.log_bytes_max / 2)
}

/// The partition of an operation that no table has; `None` if a table has it, or the partition is
/// gone.
pub(super) fn only_in_log<'a>(
    catalog: &'a Catalog,
    op: &Op<'_>,
    seqno: SeqNo,
) -> Option<&'a Arc<Partition>> {
    let partition = catalog.partitions.get(&op.partition)?;
    (seqno > partition.tree().flushed_through).then_some(partition)
}

/// Copies the records with operations that no table has, and makes the copies durable. Counts the
/// memtables that hold these operations as active. `operations` is their number.
/// Cost: reads the log once more; one sync.
pub(super) fn into_new_log(
    (memory, storage): (&Memory, &dyn Storage),
    writer: &Writer,
    survey: &Survey,
    catalog: &Catalog,
    operations: u64,
) -> Result<()> {
    let mut state = writer.commit();
    let mut copied = 0;
    survey.each_record(storage, |_, record| {
        copied += copy(writer, &mut state, catalog, record)?;
        Ok(())
    })?;
    // The edit frees the old log.
    if copied != operations {
        return Err(Error::corruption(format!(
            "expected the {operations} operations of the log that were read before, found {copied}"
        ))
        .at(&survey.dir, None));
    }
    let end = state.tail.position();
    drop(state);
    for partition in catalog.partitions.values() {
        let bytes = partition.tree().active.reserved_bytes();
        memory.add_active(&partition.keyspace.active, bytes);
    }
    writer.log.sync_through(end)
}

/// Copies a record, if it has an operation that no table has. Returns the number of these.
fn copy(
    writer: &Writer,
    state: &mut CommitState,
    catalog: &Catalog,
    record: &Record<'_>,
) -> Result<u64> {
    let mut partitions = Vec::new();
    for (seqno, op) in record.numbered_ops() {
        if let Some(partition) = only_in_log(catalog, &op?, seqno) {
            partitions.push((partition, seqno));
        }
    }
    let count = partitions.len() as u64;
    if count == 0 {
        return Ok(0);
    }
    let log = &writer.log;
    let payload = logged(record.payload, log.compresses);
    let (first, ops) = (record.header.first_seqno, record.header.ops);
    let place = loop {
        let durable = log.durable();
        if let Some(place) = state.tail.reserve(payload.len(), ops, first, durable) {
            break place;
        }
        if !log.roll(&mut state.tail, payload.len(), first)? {
            log.prepare_spare(payload.len(), first)?;
        }
    };
    for (partition, SeqNo(seqno)) in partitions {
        (partition.latest_write()).store(seqno, Ordering::Relaxed);
        state.register(partition);
    }
    let upkeep = log.write(&place, &payload, ops, first)?;
    upkeep.into_iter().for_each(SegmentUpkeep::run);
    Ok(count)
}
