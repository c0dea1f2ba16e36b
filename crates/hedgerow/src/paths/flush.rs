//! The path of a flush: writes the oldest sealed memtable of a partition to tables of a new run in
//! level 0.
//!
//! Recovery relies on the order of steps. The memtable is complete: everything numbered below its
//! seal is published. Its tables, and the log up to its last record, are durable before the edit
//! that installs the tables is logged. So a crash keeps the edit only together with every commit
//! before the newest entry of the tables. Only then is the memtable dropped and the log released.

use std::sync::Arc;

use crate::base::entry::{Flags, RunId, SeqNo};
use crate::base::error::Result;
use crate::base::range_tombstones::{RangeTombstones, successor};
use crate::base::stats::{Event, OperationKind};
use crate::base::table_meta::TableMeta;
use crate::design::merge_policy::tree_edit::{Placement, TreeEdit};
use crate::paths::compaction::fold::OperandFold;
use crate::paths::compaction::output::OutputTables;
use crate::paths::compaction::retain::Retain;
use crate::paths::compaction::unsynced::SyncQueue;
use crate::paths::group_filters;
use crate::table::iter::{InternalIter, ValueSource};
use crate::tree::engine::{Engine, Writer};
use crate::tree::memtable::Memtable;
use crate::tree::partition::Partition;
use crate::tree::version::Version;

/// Returns true if there is a sealed memtable that no checkpoint or bulk load holds back.
pub(crate) fn is_due(writer: &Writer, partition: &Partition) -> bool {
    let tree = partition.tree();
    let oldest = tree.sealed.last().and_then(|m| m.sealed_at());
    oldest.is_some_and(|at| writer.whole_trees.may_flush(at)) && !partition.is_dropped()
}

/// Flushes the oldest sealed memtable. One thread per partition does so at a time.
pub(crate) fn flush_oldest(engine: &Engine, partition: &Partition) -> Result<()> {
    let tree = partition.tree_owned();
    let Some(memtable) = tree.sealed.last() else {
        return Ok(());
    };
    // Sealed memtables take memory from the page cache, too.
    let _memory = engine.memory.merge();
    let began = engine.environment.clock.now();
    let sealed_at = memtable.sealed_at().expect("sealed memtables have a seal");
    let through = SeqNo(sealed_at.0 - 1);
    engine.publisher.wait(through.0);

    engine.writer()?.log.sync_through(memtable.log_end())?;
    let (entries, bytes) = to_tables(engine, partition, memtable, through)?;

    engine.unseal(memtable.reserved_bytes());
    engine.release_log();
    engine.report(Event::Flushed {
        keyspace: partition.keyspace.name(),
        partition: partition.index,
        entries,
        bytes,
        took: engine.environment.clock.now().saturating_sub(began),
    });
    Ok(())
}

/// Writes a sealed memtable to tables and replaces it by them. Returns their entries and bytes.
/// Everything up to `through` must be durable in the log.
fn to_tables(
    engine: &Engine,
    partition: &Partition,
    memtable: &Arc<Memtable>,
    through: SeqNo,
) -> Result<(u64, u64)> {
    let edit = edit_for(engine, partition, memtable, through, None)?;
    let written = edit.written();
    let replaced = memtable.entries().saturating_sub(written.0);
    partition
        .keyspace
        .operations
        .add(OperationKind::Replaced, replaced);
    let design = partition.keyspace.design_owned();
    let flushed = Some((memtable, through));
    group_filters::install(engine, partition, &design, edit, flushed, None)?;
    Ok(written)
}

/// Writes a sealed memtable to tables, and returns the edit that replaces it by them. Recovery does
/// this, too: its tables wait in `unsynced`. Without that the tables are durable.
pub(crate) fn edit_for(
    engine: &Engine,
    partition: &Partition,
    memtable: &Arc<Memtable>,
    through: SeqNo,
    unsynced: Option<&mut SyncQueue>,
) -> Result<TreeEdit> {
    let run = RunId(engine.writer()?.ids.next_table().0);
    let tables = write_tables(engine, partition, memtable, run, unsynced)?;
    let mut edit = TreeEdit::new(partition.id);
    let placement = Placement {
        level: 0,
        group: 0,
        run,
    };
    edit.added = tables.into_iter().map(|meta| (placement, meta)).collect();
    edit.flushed_through = Some(through);
    Ok(edit)
}

/// The range tombstones of a memtable. A delete is about older entries only, so a range without end
/// ends behind the largest key that is there.
fn ranges_of(memtable: &Memtable, version: &Version) -> Result<RangeTombstones> {
    let mut ranges = RangeTombstones::merged(memtable.range_lists().iter().map(|it| &**it));
    if !ranges.is_empty() {
        let mut entries = memtable.iter();
        entries.seek_last()?;
        let in_memtable = entries.entry().map(|entry| entry.key);
        let tables = version
            .tables()
            .map(|(_, table)| &*table.meta().largest_key);
        let largest = tables.chain(in_memtable).max();
        ranges.end_at(&successor(largest.unwrap_or_default()));
    }
    Ok(ranges)
}

/// Writes the entries that a reader can still see.
fn write_tables(
    engine: &Engine,
    partition: &Partition,
    memtable: &Arc<Memtable>,
    run: RunId,
    unsynced: Option<&mut SyncQueue>,
) -> Result<Vec<TableMeta>> {
    let held = engine.held();
    let design = partition.keyspace.design_owned();
    let mut output = OutputTables::new(engine, partition, design, 0, run);
    output.unsynced = unsynced;
    let version = partition.tree_owned().version.clone();
    let ranges = ranges_of(memtable, &version)?;
    let mut retain = Retain::new(&held, ranges);
    output.range_tombstones =
        retain.ranges(|lo, hi| !version.older_overlaps(0, None, (lo, hi), |_| false));
    let mut folding = OperandFold::new(engine, &partition.keyspace);
    let mut key = Vec::new();
    let mut first = true;
    let mut iter = memtable.iter();
    iter.seek_first()?;
    while let Some(entry) = iter.entry() {
        let is_new = first || entry.key != key;
        if is_new {
            key.clear();
            key.extend_from_slice(entry.key);
            first = false;
        }
        if is_new && folding.is_waiting() {
            folding.write(&retain, |_| false, &mut output)?;
        }
        let ValueSource::Inline(value) = entry.value else {
            unreachable!("memtables hold their values")
        };
        let is_expired = entry.tag.flags.has(Flags::EXPIRES) && retain.is_expired(value)?;
        let (entry, value) = match is_expired {
            true => (entry.deleted(), &b""[..]),
            false => (entry, value),
        };
        // Tables may have older versions, so a tombstone stays.
        if retain.keep((&key, is_new), entry.seqno, entry.tag, || false) {
            if folding.takes(entry.tag) {
                folding.push(&entry, value, &mut retain)?;
            } else {
                output.add(&entry, value)?;
            }
        }
        iter.advance()?;
    }
    if folding.is_waiting() {
        folding.write(&retain, |_| false, &mut output)?;
    }
    output.finish()
}
