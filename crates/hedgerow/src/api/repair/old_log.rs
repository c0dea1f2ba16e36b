//! A log that recovery refuses: its front is kept, up to the refused place, and the entries that
//! are missing then are counted.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use hedgerow_io::Storage;

use super::RepairReport;
use super::tables;
use super::tables::Missing;
use crate::base::durable::sync_dir;
use crate::base::entry::{LogPosition, SeqNo};
use crate::base::error::{Error, Result};
use crate::paths::checkpoint;
use crate::tree::version::state::State;
use crate::tree::wal::log::segment_number;
use crate::tree::wal::segment_reader::SegmentReader;

/// The most writes in a byte of the log. LZ4 makes 255 bytes one, and a write has four at least.
const WRITES_PER_BYTE_MAX: u64 = 64;

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
    /// segment that has it there is a whole copy in `lost`. Reports the missing entries. Returns a
    /// number above all that the missing writes may have (I43).
    pub(super) fn set_aside(
        &self,
        storage: &dyn Storage,
        lost: &Path,
        report: &mut RepairReport,
    ) -> Result<SeqNo> {
        let segments = self.segments(storage);
        let ends = segments.iter().filter_map(|(_, it)| it.as_ref()?.numbers);
        let ends = ends.map(|(_, next)| next);
        let valid = ends.filter(|next| *next <= SeqNo::OPENED_MAX);
        let mut above = valid.max().unwrap_or_default();
        let mut missing = self.missing(&segments);
        let mut kept = tables::names(storage, lost)?;
        for name in tables::names(storage, self.log)? {
            let number = segment_number(&name);
            if number.is_some_and(|number| self.is_before(number)) {
                continue;
            }
            // An earlier repair may have kept a segment of this number.
            let others = (1..).map(|i| format!("{name}.{i}"));
            let mut names = [name.clone()].into_iter().chain(others);
            let free = names.find(|it| !kept.contains(it)).unwrap_or_default();
            let (from, to) = (self.log.join(&name), lost.join(&free));
            let bytes = storage.size(&from);
            let bytes = bytes.map_err(|e| Error::io("find", &from, e))?;
            above.0 = above
                .0
                .saturating_add(bytes.saturating_mul(WRITES_PER_BYTE_MAX));
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
        // Before the manifest says that the rest is all of the log.
        sync_dir(storage, lost)?;
        sync_dir(storage, self.log)?;
        Ok(above)
    }

    /// Returns true for a segment that is kept whole.
    fn is_before(&self, number: u32) -> bool {
        self.end
            .is_some_and(|end| (self.state.log_start..end.segment).contains(&number))
    }

    /// The segments that are not kept whole, in the order of their numbers; `None` if one cannot be
    /// read.
    fn segments(&self, storage: &dyn Storage) -> Vec<(PathBuf, Option<Segment>)> {
        let files = tables::names(storage, self.log).unwrap_or_default();
        let mut numbers: Vec<(u32, PathBuf)> = files
            .iter()
            .filter_map(|name| Some((segment_number(name)?, self.log.join(name))))
            .filter(|(number, _)| !self.is_before(*number))
            .collect();
        numbers.sort_unstable();
        let read = numbers.iter().map(|(number, path)| {
            let end = self.end.filter(|end| end.segment == *number);
            let kept_bytes = end.map_or(0, |end| end.offset);
            let read = segment(storage, (*number, path), kept_bytes, self.state).ok();
            (path.clone(), read)
        });
        read.collect()
    }

    fn missing(&self, segments: &[(PathBuf, Option<Segment>)]) -> BTreeMap<PathBuf, Missing> {
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

/// Gives a segment a second name, then cuts it. A crash leaves it whole or cut, and whole under the
/// other name.
fn cut(storage: &dyn Storage, segment: &Path, to: &Path, bytes: u32) -> Result<()> {
    checkpoint::link_or_copy(storage, segment, to)?;
    sync_dir(storage, to.parent().unwrap_or(to))?;
    let front = segment.with_extension("front");
    checkpoint::copy(storage, segment, &front, u64::from(bytes))?;
    tables::rename(storage, &front, segment)
}

/// The contents of one segment.
struct Segment {
    path: PathBuf,
    /// The number of the first readable record, and that after the last one.
    numbers: Option<(SeqNo, SeqNo)>,
    /// The entries that no table has, behind what is kept, and their smallest and largest key.
    entries: u64,
    keys: Option<(Vec<u8>, Vec<u8>)>,
}

fn segment(
    storage: &dyn Storage,
    (number, path): (u32, &Path),
    kept_bytes: u32,
    state: &State,
) -> Result<Segment> {
    let mut reader = SegmentReader::open(storage, path, number)?;
    let mut segment = Segment {
        path: path.to_path_buf(),
        numbers: None,
        entries: 0,
        keys: None,
    };
    while let Some(record) = reader.next()? {
        let header = record.header;
        let next = SeqNo(header.first_seqno.0.saturating_add(u64::from(header.ops)));
        let (first, _) = *segment.numbers.get_or_insert((header.first_seqno, next));
        segment.numbers = Some((first, next));
        if record.offset < kept_bytes {
            continue;
        }
        for (seqno, op) in record.numbered_ops() {
            let op = op?;
            // Nobody misses the writes to a mark, or to a partition that was dropped.
            let tree = state.trees.get(&op.partition);
            if tree.is_none_or(|tree| tree.flushed_through >= seqno) {
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
        let end = self.numbers.map(|(_, next)| next);
        let next_begin = next.and_then(|next| next.numbers).map(|(first, _)| first);
        let has_more = match refusal.path() == Some(&self.path) {
            true => end.is_none() || end != next_begin,
            false => next_begin.is_some_and(|begin| {
                end.is_none_or(|end| begin > end)
                    && Some(SeqNo(begin.0.saturating_sub(1))) > in_tables
            }),
        };
        let ranges = self.keys.iter().map(|(from, to)| from.clone()..=to.clone());
        (has_more || self.entries > 0).then(|| Missing {
            entries: (!has_more).then_some(self.entries),
            ranges: ranges.collect(),
            ..Missing::unknown(self.path.clone())
        })
    }
}
