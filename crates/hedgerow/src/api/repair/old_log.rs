//! A log that recovery refuses, and its entries that no table has.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use hedgerow_io::Storage;

use super::tables;
use super::tables::Missing;
use super::{LOST, RepairReport, flushed_through};
use crate::base::entry::{PartitionId, SeqNo};
use crate::base::error::{Error, Result};
use crate::tree::engine::log_dir;
use crate::tree::version::state::State;
use crate::tree::wal::log::segment_number;
use crate::tree::wal::segment_reader::SegmentReader;

/// Moves the whole log into the directory `lost` beside it, and reports the entries missing with
/// it. `state` describes the tables.
pub(super) fn set_aside(
    storage: &dyn Storage,
    root: &Path,
    state: &State,
    refusal: &Error,
    report: &mut RepairReport,
) -> Result<()> {
    let (log, lost) = (log_dir(root), root.join(LOST));
    let mut missing = missing(storage, &log, state, refusal);
    let mut kept = tables::names(storage, &lost)?;
    for name in tables::names(storage, &log)? {
        // An earlier repair may have kept a segment of this number.
        let free = match kept.contains(&name) {
            false => name.clone(),
            true => format!("{name}.{}", kept.len()),
        };
        let to = lost.join(&free);
        tables::rename(storage, &log.join(&name), &to)?;
        kept.push(free);
        report.lost.push((to.clone(), refusal.to_string()));
        report.missing.extend(
            missing
                .remove(&log.join(name))
                .map(|it| Missing { path: to, ..it }),
        );
    }
    Ok(())
}

/// The contents of one segment.
struct Segment {
    path: PathBuf,
    first: SeqNo,
    /// The number after the last readable record.
    next: SeqNo,
    /// The entries that no table has, and their smallest and largest key.
    entries: u64,
    keys: Option<(Vec<u8>, Vec<u8>)>,
}

fn missing(
    storage: &dyn Storage,
    log: &Path,
    state: &State,
    refusal: &Error,
) -> BTreeMap<PathBuf, Missing> {
    let files = tables::names(storage, log).unwrap_or_default();
    let mut numbers: Vec<(u32, PathBuf)> = files
        .iter()
        .filter_map(|name| Some((segment_number(name)?, log.join(name))))
        .collect();
    numbers.sort_unstable();
    let read = numbers
        .iter()
        .map(|(number, path)| (path.clone(), segment(storage, *number, path, state).ok()));
    let segments: Vec<_> = read.collect();
    let mut missing = BTreeMap::new();
    for (at, (path, segment)) in segments.iter().enumerate() {
        let next = segments.get(at + 1).and_then(|(_, next)| next.as_ref());
        let found = match segment {
            Some(segment) => segment.missing(next, state, refusal),
            None => Some(Missing::unknown(path.clone())),
        };
        missing.extend(found.map(|found| (path.clone(), found)));
    }
    missing
}

fn segment(storage: &dyn Storage, number: u32, path: &Path, state: &State) -> Result<Segment> {
    let mut reader = SegmentReader::open(storage, path, number)?;
    let first = reader.header().map_or(SeqNo(0), |it| it.first_seqno);
    let mut segment = Segment {
        path: path.to_path_buf(),
        first,
        next: first,
        entries: 0,
        keys: None,
    };
    while let Some(record) = reader.next()? {
        for (seqno, op) in record.numbered_ops() {
            let op = op?;
            segment.next = segment.next.max(SeqNo(seqno.0 + 1));
            let is_mark = op.partition == PartitionId::NONE;
            if is_mark || flushed_through(state, op.partition) >= seqno {
                continue;
            }
            segment.entries += 1;
            let key = op.user_key;
            let (smallest, largest) = segment
                .keys
                .get_or_insert_with(|| (key.to_vec(), key.to_vec()));
            if key < smallest.as_slice() {
                *smallest = key.to_vec();
            } else if key > largest.as_slice() {
                *largest = key.to_vec();
            }
        }
    }
    Ok(segment)
}

impl Segment {
    /// The entries lost with this segment. Unreadable records may follow the last readable one. In
    /// the segment that recovery refused they do, unless the next segment begins with the next
    /// number. In any other segment they do if the next segment begins with a later number that no
    /// table has.
    fn missing(&self, next: Option<&Segment>, state: &State, refusal: &Error) -> Option<Missing> {
        let in_tables = state.trees.values().map(|tree| tree.flushed_through).max();
        let begins_later =
            |next: &Segment| next.first > self.next && Some(SeqNo(next.first.0 - 1)) > in_tables;
        let has_more = match refusal.path() == Some(&self.path) {
            true => next.is_none_or(|next| next.first != self.next),
            false => next.is_some_and(begins_later),
        };
        let ranges = self.keys.iter().map(|(from, to)| from.clone()..=to.clone());
        (has_more || self.entries > 0).then(|| Missing {
            entries: (!has_more).then_some(self.entries),
            ranges: ranges.collect(),
            ..Missing::unknown(self.path.clone())
        })
    }
}
