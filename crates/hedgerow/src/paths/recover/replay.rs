//! The last steps of recovery: the writes that only the log has go into tables or into the new log,
//! and the new log is put in force.

use std::ops::RangeInclusive;
use std::sync::Arc;

use hedgerow_io::Storage;

use crate::base::entry::{ENTRY_OVERHEAD_BYTES, Flags, Kind, LogPosition, SeqNo};
use crate::base::error::{Error, Result};
use crate::design::merge_policy::plan::{Input, Target};
use crate::design::merge_policy::shape::{RUNS_MAX, Run, bytes_of};
use crate::design::merge_policy::tree_edit::TreeEdit;
use crate::paths::compaction::merge_tables::merge_tables;
use crate::paths::compaction::unsynced::SyncQueue;
use crate::paths::flush;
use crate::table::Table;
use crate::tree::engine::{Catalog, Engine, Writer};
use crate::tree::expiry_clock::ExpiryClock;
use crate::tree::memtable::{Memtable, RANGES_MAX};
use crate::tree::partition::Partition;
use crate::tree::version::edit::Change;
use crate::tree::wal::log::{FeedSegment, segment_number};
use crate::tree::wal::payload::Op;
use crate::tree::wal::segment_reader::SegmentReader;

use super::survey::Survey;
use super::{copy, orphans};

/// The outcome of replaying the log.
#[derive(Default)]
pub(super) struct ReplayResult {
    operations: u64,
    /// The edit that puts its writes into tables.
    edit: Vec<Change>,
    /// The tables of the edit that may not be durable yet.
    unsynced: SyncQueue,
    /// The tables that this edit removes.
    replaced: Vec<Arc<Table>>,
}

/// Applies the writes that only the log has. When opened for writing, it then puts all of them into
/// tables, or into the new log if they are few.
pub(super) fn replay(engine: &Arc<Engine>, survey: &Survey) -> Result<ReplayResult> {
    let storage = &*engine.environment.storage;
    let writing = engine.writer.is_some();
    let catalog = engine.catalog.load_full();
    let mut replayed = ReplayResult::default();
    let (mut bytes, mut is_full) = (0, false);
    let mut record_bytes = 0;
    let mut scratch = Vec::new();
    let mut last = SeqNo(0);
    survey.each_record(storage, |path, record| {
        let offset = u64::from(record.offset);
        let before = replayed.operations;
        for (seqno, op) in record.numbered_ops() {
            let op = op.map_err(|e| e.at(path, Some(offset)))?;
            last = last.max(seqno);
            let Some(partition) = copy::only_in_log(&catalog, &op, seqno) else {
                continue;
            };
            let (size, crowded) = replay_op(&engine.expiry, partition, (&op, seqno), &mut scratch)
                .map_err(|e| e.at(path, Some(offset)))?;
            is_full |= crowded;
            bytes += size;
            replayed.operations += 1;
        }
        if replayed.operations > before {
            record_bytes += record.payload.len() as u64;
        }
        if writing && (is_full || bytes >= engine.memory.plan().active()) {
            flush_replayed(engine, &catalog, SeqNo(last.0 + 1), &mut replayed)?;
            (bytes, is_full) = (0, false);
        }
        Ok(())
    })?;
    let Some(writer) = &engine.writer else {
        return Ok(replayed);
    };
    if replayed.operations == 0 {
        return Ok(replayed);
    }
    // A change feed keeps the old log, and would have the copies twice.
    let may_copy = replayed.edit.is_empty() && !writer.manifest().state().feed.is_on();
    if may_copy && copy::are_few(&engine.memory, writer, &catalog, record_bytes) {
        let to = (&*engine.memory, &*engine.environment.storage);
        copy::into_new_log(to, writer, survey, &catalog, replayed.operations)?;
    } else {
        flush_replayed(engine, &catalog, SeqNo(last.0 + 1), &mut replayed)?;
    }
    Ok(replayed)
}

/// Applies one operation to its memtable. Returns the size of its entry, and true if the memtable
/// has many range deletes.
fn replay_op(
    expiry: &ExpiryClock,
    partition: &Partition,
    (op, seqno): (&Op<'_>, SeqNo),
    scratch: &mut Vec<u8>,
) -> Result<(u64, bool)> {
    let active = &partition.tree().active;
    let keyspace = &partition.keyspace;
    let key = keyspace.order.borrow(op.user_key, scratch);
    let size = key.len() + op.value.len() + ENTRY_OVERHEAD_BYTES;
    active.reserve(size, LogPosition::default());
    let mut crowded = false;
    if op.tag.kind == Kind::RangeDelete {
        let delete = keyspace.range_tombstone(op.user_key, op.value, seqno)?;
        crowded = active.delete_range(delete) >= RANGES_MAX;
    } else {
        if op.tag.flags.has(Flags::EXPIRES) {
            expiry.note_use();
        }
        active.insert(key, seqno, op.tag, op.value);
    }
    if op.tag.kind == Kind::Delete {
        active.count_tombstone();
    }
    Ok((size as u64, crowded))
}

/// Flushes memtables during the replay.
fn flush_replayed(
    engine: &Arc<Engine>,
    catalog: &Catalog,
    at: SeqNo,
    replayed: &mut ReplayResult,
) -> Result<()> {
    let through = SeqNo(at.0 - 1);
    for partition in catalog.partitions.values() {
        if partition.seal(at, &engine.memory.pool) {
            let tree = partition.tree_owned();
            for memtable in tree.sealed.iter().rev() {
                if partition.tree().version.level0_is_full() {
                    let joined = join_runs(engine, partition)?;
                    replayed.install(engine, partition, joined, None)?;
                }
                let unsynced = Some(&mut replayed.unsynced);
                let flushed = flush::edit_for(engine, partition, memtable, through, unsynced)?;
                replayed.install(engine, partition, flushed, Some((memtable, through)))?;
            }
        }
    }
    Ok(())
}

/// Merges the two neighbouring runs of level 0 that are the smallest together. So level 0 takes any
/// number of memtables: with `n` of them, an entry is rewritten about log2(`n`) times.
fn join_runs(engine: &Arc<Engine>, partition: &Arc<Partition>) -> Result<TreeEdit> {
    let tree = partition.tree_owned();
    let mut groups = tree.version.levels[0].groups.iter().enumerate();
    let full = groups.find(|(_, group)| group.runs.len() >= RUNS_MAX);
    let (group, full) = full.expect("a full level has a full group");
    let pairs = full.runs.windows(2);
    let smallest = pairs.min_by_key(|pair| bytes_of(&pair[0].tables) + bytes_of(&pair[1].tables));
    let pair = smallest.expect("a full level has two runs");
    let input = |run: &Run<Arc<Table>>| Input {
        level: 0,
        run: run.id,
        tables: run.tables.iter().map(|table| table.meta().id).collect(),
    };
    let target = Target {
        level: 0,
        group,
        run: Some(pair[0].id),
    };
    let inputs = [input(&pair[0]), input(&pair[1])];
    let design = partition.keyspace.design_owned();
    Ok(merge_tables(engine, partition, &design, &inputs, &target, None)?.edit)
}

impl ReplayResult {
    /// Applies an edit in memory; the manifest receives it together with all others.
    fn install(
        &mut self,
        engine: &Engine,
        partition: &Partition,
        edit: TreeEdit,
        flushed: Option<(&Arc<Memtable>, SeqNo)>,
    ) -> Result<()> {
        let before = partition.tree_owned().version.clone();
        let mut version = (*before).clone();
        engine.apply(partition, &before, &mut version, &edit)?;
        partition.install(Arc::new(version), flushed);
        let removed = edit.removed.iter().filter_map(|id| before.table(*id));
        self.replaced
            .extend(removed.map(|(_, table)| table.clone()));
        self.edit.push(Change::Tree(edit));
        Ok(())
    }
}

/// The change that tells the change feed where this log ended and in which segment the next one
/// begins. Makes the log durable, as readers of changes rely on it.
fn end_of_log(storage: &dyn Storage, survey: &Survey, next: u32) -> Result<Change> {
    for &number in &survey.segments {
        let path = survey.segment_path(number);
        let synced = storage.sync_file(&path);
        synced.map_err(|e| Error::io("sync", &path, e))?;
    }
    let (end, last) = (survey.end, survey.last);
    Ok(Change::Past {
        at: last,
        edit: vec![
            Change::Closed { end, last },
            Change::LogStart { segment: next },
        ],
    })
}

/// Puts the new log in force when everything is in it or in tables, and frees the old segments.
/// Returns the number of operations in the old log.
pub(super) fn begin_new_log(
    engine: &Arc<Engine>,
    survey: &Survey,
    replayed: ReplayResult,
) -> Result<u64> {
    let writer = engine.writer()?;
    replayed.unsynced.sync(&*engine.environment.storage)?;
    let mut edit = replayed.edit;
    let first = survey.next_segment;
    edit.extend([Change::LogStart { segment: first }, Change::Opened]);
    // The new log does not have the old numbers, and merges may have left nothing of a bulk load.
    if survey.last > writer.manifest().state().last {
        edit.push(Change::Numbered { last: survey.last });
    }
    let dir = engine.directories.log();
    let storage = &*engine.environment.storage;
    let feed = writer.manifest().state().feed.clone();
    if dir != survey.dir {
        edit.push(Change::SetPlaces(engine.directories.places.clone()));
    }
    let keeps_log = feed.is_on() && dir == survey.dir;
    if keeps_log {
        edit.push(end_of_log(storage, survey, first)?);
    } else if feed.is_on() {
        let (segment, at) = (first, survey.last);
        edit.push(Change::FeedStart { segment, at });
    }
    engine.log_edit(writer, &mut writer.manifest(), edit)?;
    writer.log.retire(first, first);
    engine.remove_kept(&writer.manifest());
    replayed
        .replaced
        .iter()
        .for_each(|table| table.mark_obsolete());
    let kept = keeps_log.then_some(feed.segment..=survey.end.segment);
    free_old_log(writer, storage, survey, (dir == survey.dir, kept))?;
    Ok(replayed.operations)
}

/// Keeps the segments of the old log that a change feed needs, and frees all others. Those that end
/// the old log are removed, the newest first: a repair without the manifest takes the newest
/// segments that follow one another, and must not take these for the beginning of the new log.
fn free_old_log(
    writer: &Writer,
    storage: &dyn Storage,
    survey: &Survey,
    (stays, kept): (bool, Option<RangeInclusive<u32>>),
) -> Result<()> {
    let files = storage.list(&survey.dir);
    let files = files.map_err(|e| Error::io("list", &survey.dir, e))?;
    let numbered = files.iter().filter_map(|file| {
        let number = segment_number(&file.name)?;
        (number < survey.next_segment).then_some((number, file.bytes))
    });
    let mut old: Vec<(u32, u64)> = numbered.collect();
    old.sort_unstable();
    let is_kept = |number: u32| kept.as_ref().is_some_and(|kept| kept.contains(&number));
    for &(number, bytes) in old.iter().filter(|(number, _)| is_kept(*number)) {
        let path = survey.segment_path(number);
        let mut reader = SegmentReader::open(storage, &path, number)?;
        let first = reader.next()?.map(|record| record.header.first_seqno);
        writer.log.keep(FeedSegment {
            number,
            from: first.unwrap_or(SeqNo(survey.last.0 + 1)),
            path,
            bytes,
        });
    }
    for &(number, bytes) in old.iter().rev().filter(|(number, _)| !is_kept(*number)) {
        let path = survey.segment_path(number);
        match stays && number < survey.end.segment {
            true => writer.log.reuse(path, bytes),
            false => orphans::remove(storage, &[path])?,
        }
    }
    Ok(())
}
