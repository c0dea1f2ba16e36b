//! A log that recovery refuses: its front is kept, up to the refused place, and the entries that
//! are missing then are counted.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use hedgerow_io::Storage;

use super::tables;
use super::tables::Missing;
use super::{RepairReport, flushed_through};
use crate::base::entry::{LogPosition, PartitionId, SeqNo};
use crate::base::error::{Error, Result};
use crate::paths::checkpoint;
use crate::tree::version::state::State;
use crate::tree::wal::log::segment_number;
use crate::tree::wal::segment_reader::SegmentReader;

/// A log that recovery refuses.
pub(super) struct Refused<'a> {
    log: &'a Path,
    /// Describes the tables.
    state: &'a State,
    refusal: &'a Error,
    /// The refused place, up to which the log is kept.
    end: Option<LogPosition>,
}

impl<'a> Refused<'a> {
    /// With `keeps_front`, the log is kept up to the refused place, if the refusal names one.
    pub(super) fn new(
        log: &'a Path,
        state: &'a State,
        refusal: &'a Error,
        keeps_front: bool,
    ) -> Refused<'a> {
        let path = refusal.path().filter(|path| path.parent() == Some(log));
        let name = path.and_then(Path::file_name).and_then(OsStr::to_str);
        let end = name.and_then(segment_number).map(|segment| LogPosition {
            segment,
            offset: refusal.offset().unwrap_or(0) as u32,
        });
        let start = LogPosition {
            segment: state.log_start,
            offset: 0,
        };
        Refused {
            log,
            state,
            refusal,
            end: end.filter(|end| keeps_front && *end > start),
        }
    }

    /// Returns true if there is something before the refused place.
    pub(super) fn has_front(&self) -> bool {
        self.end.is_some()
    }

    /// Moves the log into the directory `lost`, but for what lies before the refused place. Of the
    /// segment that has it there is a whole copy in `lost`. Reports the missing entries.
    pub(super) fn set_aside(
        &self,
        storage: &dyn Storage,
        lost: &Path,
        report: &mut RepairReport,
    ) -> Result<()> {
        let mut missing = self.missing(storage);
        let mut kept = tables::names(storage, lost)?;
        for name in tables::names(storage, self.log)? {
            let number = segment_number(&name);
            if number.is_some_and(|number| self.is_before(number)) {
                continue;
            }
            // An earlier repair may have kept a segment of this number.
            let free = match kept.contains(&name) {
                false => name.clone(),
                true => format!("{name}.{}", kept.len()),
            };
            let (from, to) = (self.log.join(&name), lost.join(&free));
            match self
                .end
                .filter(|end| number == Some(end.segment) && end.offset > 0)
            {
                Some(end) => cut(storage, &from, &to, end.offset)?,
                None => tables::rename(storage, &from, &to)?,
            }
            kept.push(free);
            report.lost.push((to.clone(), self.refusal.to_string()));
            let found = missing.remove(&from);
            report
                .missing
                .extend(found.map(|it| Missing { path: to, ..it }));
        }
        Ok(())
    }

    /// Returns true for a segment that is kept whole.
    fn is_before(&self, number: u32) -> bool {
        self.end
            .is_some_and(|end| (self.state.log_start..end.segment).contains(&number))
    }

    fn missing(&self, storage: &dyn Storage) -> BTreeMap<PathBuf, Missing> {
        let files = tables::names(storage, self.log).unwrap_or_default();
        let mut numbers: Vec<(u32, PathBuf)> = files
            .iter()
            .filter_map(|name| Some((segment_number(name)?, self.log.join(name))))
            .filter(|(number, _)| !self.is_before(*number))
            .collect();
        numbers.sort_unstable();
        let read = numbers.iter().map(|(number, path)| {
            let is_kept = self.end.is_some_and(|end| end.segment == *number);
            let read = segment(storage, *number, path, self.state).ok();
            // Its readable records lie before the refused place.
            let left = read.map(|it| if is_kept { it.without_entries() } else { it });
            (path.clone(), left)
        });
        let segments: Vec<_> = read.collect();
        let mut missing = BTreeMap::new();
        for (at, (path, segment)) in segments.iter().enumerate() {
            let next = segments.get(at + 1).and_then(|(_, next)| next.as_ref());
            let found = match segment {
                Some(segment) => segment.missing(next, self.state, self.refusal),
                None => Some(Missing::unknown(path.clone())),
            };
            missing.extend(found.map(|found| (path.clone(), found)));
        }
        missing
    }
}

/// Copies a segment, then cuts it. A crash leaves it whole or cut.
fn cut(storage: &dyn Storage, segment: &Path, to: &Path, bytes: u32) -> Result<()> {
    checkpoint::copy(storage, segment, to, u64::MAX)?;
    let front = segment.with_extension("front");
    checkpoint::copy(storage, segment, &front, u64::from(bytes))?;
    tables::rename(storage, &front, segment)
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
    fn without_entries(self) -> Segment {
        Segment {
            entries: 0,
            keys: None,
            ..self
        }
    }

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
