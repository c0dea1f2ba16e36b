//! The log that a repair replays: its beginning, its keys, and the range deletes in it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use hedgerow_io::Storage;

use super::tables;
use crate::base::entry::{Kind, LogPosition, PartitionId, SeqNo};
use crate::base::error::Result;
use crate::tree::engine::log_dir;
use crate::tree::version::manifest;
use crate::tree::version::state::State;
use crate::tree::wal::log::{segment_name, segment_number};
use crate::tree::wal::record::SEGMENT_HEADER_BYTES;
use crate::tree::wal::segment_reader::SegmentReader;

/// The first segment to replay: the one that a whole manifest names, if it is there. Otherwise the
/// first of the newest segments that follow one another as one log.
pub(super) fn log_start(known: &State, storage: &dyn Storage, dir: &Path) -> Result<u32> {
    let log = log_dir(&known.places.log_root(dir));
    let names = tables::names(storage, &log)?;
    let numbers: BTreeSet<u32> = names.iter().filter_map(|it| segment_number(it)).collect();
    // Also if a later segment is missing: recovery refuses the log there.
    if numbers.contains(&known.log_start) && is_whole(storage, dir) {
        return Ok(known.log_start);
    }
    let named = numbers.get(&known.log_start).copied().unwrap_or(0);
    let mut start = numbers.last().copied().unwrap_or(0);
    while start > named && numbers.contains(&(start - 1)) && !begins_log(storage, &log, start)? {
        start -= 1;
    }
    Ok(start)
}

/// Returns true if no edit of the manifest is lost.
fn is_whole(storage: &dyn Storage, dir: &Path) -> bool {
    let bytes = storage.size(&dir.join(manifest::FILE_NAME)).ok();
    let replayed = manifest::replay(storage, dir);
    replayed.is_ok_and(|it| bytes == Some(it.bytes) && State::replay(&it.edits).is_ok())
}

/// Returns true if a record of a segment says that the log is durable up to the segment's
/// beginning. A manifest has then begun the log there, though a slot may keep an older one. After a
/// sync before the first record, it says so up to the end of the segment's header. In the middle of
/// a log it may say this, too, but there the segment before has a seal.
fn begins_log(storage: &dyn Storage, log: &Path, number: u32) -> Result<bool> {
    let offset_max = match is_sealed(storage, log, number - 1)? {
        true => 0,
        false => SEGMENT_HEADER_BYTES as u32,
    };
    let mut reader = SegmentReader::open(storage, &log.join(segment_name(number)), number)?;
    while let Some(record) = reader.next()? {
        let durable = record.header.known_durable;
        if durable.is_some_and(|it| it.segment == number && it.offset <= offset_max) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns true if the last readable record of a segment is the seal.
fn is_sealed(storage: &dyn Storage, log: &Path, number: u32) -> Result<bool> {
    let mut reader = SegmentReader::open(storage, &log.join(segment_name(number)), number)?;
    let mut is_sealed = false;
    while let Some(record) = reader.next()? {
        is_sealed = record.header.is_seal();
    }
    Ok(is_sealed)
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

pub(super) fn partitions_in_log(
    storage: &dyn Storage,
    dir: &Path,
    start: u32,
) -> Result<KeysInLog> {
    let log = log_dir(dir);
    let mut found = KeysInLog::new();
    for name in tables::names(storage, &log)? {
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

/// Key, value and number of a range delete.
pub(super) type RangeInLog = (Vec<u8>, Vec<u8>, SeqNo);

pub(super) type RangesInLog = BTreeMap<PartitionId, Vec<RangeInLog>>;

/// The part of the log before an end, as far as it will be replayed over a described database.
#[derive(Default)]
pub(super) struct Replayable {
    /// The range deletes. A flush over empty trees keeps none of them.
    pub(super) ranges: RangesInLog,
    /// The last number.
    pub(super) last: SeqNo,
}

pub(super) fn replayable(
    storage: &dyn Storage,
    root: &Path,
    state: &State,
    end: LogPosition,
) -> Result<Replayable> {
    let mut found = Replayable::default();
    for number in state.log_start..=end.segment {
        let path = log_dir(root).join(segment_name(number));
        if storage.size(&path).is_err() {
            break;
        }
        let mut reader = SegmentReader::open(storage, &path, number)?;
        let mut is_sealed = false;
        while reader.position() < end {
            let Some(record) = reader.next()? else { break };
            is_sealed = record.header.is_seal();
            found.last = record.header.last_seqno();
            for (seqno, op) in record.numbered_ops() {
                let Ok(op) = op else { break };
                let is_range = op.tag.kind == Kind::RangeDelete;
                if is_range && seqno > flushed_through(state, op.partition) {
                    let ranges = found.ranges.entry(op.partition).or_default();
                    ranges.push((op.user_key.to_vec(), op.value.to_vec(), seqno));
                }
            }
        }
        if !is_sealed {
            break;
        }
    }
    Ok(found)
}

fn flushed_through(state: &State, partition: PartitionId) -> SeqNo {
    let tree = state.trees.get(&partition);
    tree.map_or(SeqNo(0), |tree| tree.flushed_through)
}
