//! The log that a repair replays: its beginning, its keys, and the last number of its front.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use hedgerow_io::Storage;

use super::naming;
use super::old_manifest::OldManifest;
use crate::base::entry::{Kind, LogPosition, PartitionId, SeqNo};
use crate::base::error::Result;
use crate::tree::engine::log_dir;
use crate::tree::version::state::State;
use crate::tree::wal::log::{segment_name, segment_number};
use crate::tree::wal::record::{RecordHeader, SEGMENT_HEADER_BYTES};
use crate::tree::wal::segment_reader::SegmentReader;

/// The first segment to replay: the one that a whole manifest names, if it is there. Otherwise the
/// first of the newest segments that follow one another as one log.
fn log_start(old: &OldManifest, storage: &dyn Storage, dir: &Path) -> Result<u32> {
    let known = &old.known;
    let log = log_dir(&known.places.log_root(dir));
    let names = naming::names(storage, &log)?;
    let numbers: BTreeSet<u32> = names.iter().filter_map(|it| segment_number(it)).collect();
    // Also if a later segment is missing: recovery refuses the log there.
    if numbers.contains(&known.log_start) && old.is_whole {
        return Ok(known.log_start);
    }
    let named = numbers.get(&known.log_start).copied().unwrap_or(0);
    let mut start = numbers.last().copied().unwrap_or(0);
    while start > named && numbers.contains(&(start - 1)) && !begins_log(storage, &log, start)? {
        start -= 1;
    }
    Ok(start)
}

/// Returns true if a record of a segment says that the log is durable up to the segment's
/// beginning. A manifest has then begun the log there, though a slot may keep an older one. After a
/// sync before the first record, it says so up to the end of the segment's header. In the middle of
/// a log it may say this, too, but there the segment before has a seal.
fn begins_log(storage: &dyn Storage, log: &Path, number: u32) -> Result<bool> {
    let mut reader = SegmentReader::open(storage, &log.join(segment_name(number)), number)?;
    let mut is_synced = false;
    while let Some(record) = reader.next()? {
        let durable = record.header.known_durable;
        let durable = durable.filter(|it| it.segment == number);
        match durable.map(|it| it.offset as usize) {
            Some(0) => return Ok(true),
            Some(offset) if offset <= SEGMENT_HEADER_BYTES => is_synced = true,
            _ => {}
        }
    }
    let before = LogPosition {
        segment: number,
        offset: 0,
    };
    Ok(is_synced && !last_record(storage, log, number - 1, before)?.is_some_and(|it| it.is_seal()))
}

/// The last readable record of a segment that begins before an end.
fn last_record(
    storage: &dyn Storage,
    log: &Path,
    number: u32,
    end: LogPosition,
) -> Result<Option<RecordHeader>> {
    let mut reader = SegmentReader::open(storage, &log.join(segment_name(number)), number)?;
    let mut last = None;
    while reader.position() < end {
        let Some(record) = reader.next()? else { break };
        last = Some(record.header);
    }
    Ok(last)
}

/// The smallest and the largest key; `None` if there is no key.
pub(super) type Keys = Option<(Vec<u8>, Vec<u8>)>;

/// Makes room for a key.
pub(super) fn widen(keys: &mut Keys, key: &[u8]) {
    let (smallest, largest) = keys.get_or_insert_with(|| (key.to_vec(), key.to_vec()));
    if key < smallest.as_slice() {
        *smallest = key.to_vec();
    } else if key > largest.as_slice() {
        *largest = key.to_vec();
    }
}

/// The keys in the log of each partition that has an operation there. The ends of range deletes are
/// no keys of the partition.
pub(super) type KeysInLog = BTreeMap<PartitionId, Keys>;

/// The log as the repair finds it.
#[derive(Default)]
pub(super) struct Log {
    /// The first segment to replay.
    pub(super) start: u32,
    pub(super) keys: KeysInLog,
}

impl Log {
    /// Reads the log, unless an earlier repair has done so and described what it found.
    pub(super) fn read(old: &OldManifest, storage: &dyn Storage, dir: &Path) -> Result<Log> {
        if old.resumed.is_some() {
            return Ok(Log::default());
        }
        let start = log_start(old, storage, dir)?;
        let keys = partitions_in_log(storage, &old.known.places.log_root(dir), start)?;
        Ok(Log { start, keys })
    }
}

fn partitions_in_log(storage: &dyn Storage, dir: &Path, start: u32) -> Result<KeysInLog> {
    let log = log_dir(dir);
    let mut found = KeysInLog::new();
    for name in naming::names(storage, &log)? {
        let Some(number) = segment_number(&name).filter(|number| *number >= start) else {
            continue;
        };
        let mut reader = SegmentReader::open(storage, &log.join(&name), number)?;
        while let Some(record) = reader.next()? {
            let ops = record.ops().map_while(Result::ok);
            for op in ops.filter(|op| op.partition != PartitionId::NONE) {
                let keys = found.entry(op.partition).or_default();
                if op.tag.kind != Kind::RangeDelete {
                    widen(keys, op.user_key);
                }
            }
        }
    }
    Ok(found)
}

/// The last number of the log before an end, as far as it can be replayed.
pub(super) fn last_before(
    storage: &dyn Storage,
    root: &Path,
    state: &State,
    end: LogPosition,
) -> Result<SeqNo> {
    let log = log_dir(root);
    let mut last = SeqNo(0);
    for number in state.log_start..=end.segment {
        if storage.size(&log.join(segment_name(number))).is_err() {
            break;
        }
        let Some(record) = last_record(storage, &log, number, end)? else {
            break;
        };
        last = record.last_seqno();
        if !record.is_seal() {
            break;
        }
    }
    Ok(last)
}
