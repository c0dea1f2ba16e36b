//! A log that recovery refuses: its front is kept, up to the refused place. The rest goes into the
//! directory `lost`, and the entries that are missing then are counted.
//!
//! While the repair is under way, a file that was cut from the log is named `NUMBER.log.cut`, then
//! `NUMBER.log`. So a repair that is started again still finds what was cut, and reports it. A
//! manifest in `lost` tells it which of the entries are missing: the front and the tables may have
//! more by then.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use hedgerow_io::Storage;

use super::RepairReport;
use super::naming;
use super::old_manifest;
use super::replayed_log::{Keys, widen};
use super::tables::MissingEntries;
use crate::base::durable::sync_dir;
use crate::base::entry::{LogPosition, SeqNo};
use crate::base::error::{Error, Result};
use crate::paths::checkpoint;
use crate::paths::recover::under_repair::lost_dir;
use crate::tree::engine::log_dir;
use crate::tree::version::edit::Change;
use crate::tree::version::manifest;
use crate::tree::version::state::State;
use crate::tree::wal::log::segment_number;
use crate::tree::wal::segment_reader::SegmentReader;

/// The suffix of a file that a repair under way has cut from the log.
const CUT: &str = ".cut";
/// The suffix of a copy of a segment in the making.
const COPY: &str = ".copy";
/// The suffix of the kept part of a segment in the making.
const FRONT: &str = ".front";
/// The most writes in a byte of the log. LZ4 makes 255 bytes one, and a write has four at least.
const WRITES_PER_BYTE_MAX: u64 = 64;

/// The end of the part of a refused log that is kept: the refused place. It is the start of the log
/// if the refusal names no place in it, or if `keeps_front` is false.
pub(super) fn kept_end(
    root: &Path,
    state: &State,
    refusal: &Error,
    keeps_front: bool,
) -> LogPosition {
    let start = LogPosition {
        segment: state.log_start,
        offset: 0,
    };
    let place = place_in(&log_dir(root), refusal).filter(|_| keeps_front);
    place.unwrap_or(start).max(start)
}

/// Copies every segment that will be cut, or removed, to the directory `lost`, unless an earlier
/// repair has done so. A second name would not do: if this repair is killed, recovery may recycle
/// the file. Segments below the log's start are not part of the log: they stay for recovery.
pub(super) fn keep(
    storage: &dyn Storage,
    root: &Path,
    end: LogPosition,
    refusal: &Error,
    report: &mut RepairReport,
) -> Result<()> {
    let lost = lost_dir(root);
    let kept = cuts(storage, &[root.to_path_buf()])?;
    let mut taken: Vec<String> = naming::names(storage, &lost)?;
    for (number, segment) in segments(storage, &log_dir(root))? {
        let before = kept.iter().filter(|(it, _)| *it == number);
        let mut has_it = before.map(|(_, file)| naming::begins_with(storage, file, &segment));
        if number < end.segment || has_it.any(|has_it| has_it.unwrap_or(false)) {
            continue;
        }
        let name = segment.file_name().unwrap_or_default().to_string_lossy();
        let name = naming::free_name(&name, |free| {
            let mut names = taken.iter().map(|it| it.strip_suffix(CUT).unwrap_or(it));
            names.any(|it| it == free)
        });
        // It is not whole if this repair is killed now.
        let copy = lost.join(format!("{name}{COPY}"));
        naming::remove_left(storage, &copy)?;
        checkpoint::copy(storage, &segment, &copy, u64::MAX)?;
        naming::rename(storage, &copy, &lost.join(format!("{name}{CUT}")))?;
        report.lost.push((lost.join(&name), refusal.to_string()));
        taken.push(name);
    }
    sync_dir(storage, &lost)
}

/// Ends the log at the end of the part that is kept. The manifest has numbers above all that is
/// cut, and the directory `lost` has it. So a crash may leave any part of it.
pub(super) fn cut(
    storage: &dyn Storage,
    root: &Path,
    state: &State,
    end: LogPosition,
) -> Result<()> {
    let log = log_dir(root);
    for (number, segment) in segments(storage, &log)? {
        // A log begins with its first segment, even if nothing of that is kept.
        let has_front = end.offset > 0 || number == state.log_start;
        if number == end.segment && has_front {
            shorten(storage, &segment, end.offset)?;
        } else if number >= end.segment {
            let removed = storage.remove(&segment);
            removed.map_err(|e| Error::io("remove", &segment, e))?;
        }
    }
    sync_dir(storage, &log)
}

/// The place in the log that a refusal names.
fn place_in(log: &Path, refusal: &Error) -> Option<LogPosition> {
    let path = refusal.path().filter(|path| path.parent() == Some(log))?;
    let name = path.file_name().and_then(OsStr::to_str)?;
    Some(LogPosition {
        segment: segment_number(name)?,
        offset: refusal.offset().unwrap_or(0) as u32,
    })
}

/// The segments in a directory, with their numbers.
fn segments(storage: &dyn Storage, log: &Path) -> Result<Vec<(u32, PathBuf)>> {
    let names = naming::names(storage, log)?.into_iter();
    let numbered = names.filter_map(|name| Some((segment_number(&name)?, log.join(name))));
    Ok(numbered.collect())
}

/// Replaces a segment by its first bytes. A crash leaves it whole or cut.
fn shorten(storage: &dyn Storage, segment: &Path, bytes: u32) -> Result<()> {
    let front = segment.with_extension("front");
    naming::remove_left(storage, &front)?;
    checkpoint::copy(storage, segment, &front, u64::from(bytes))?;
    naming::rename(storage, &front, segment)
}

/// Sets the last number above all that the writes which were cut from the log may have (I43). They
/// come after the last one, unless they are readable.
pub(super) fn number_above_cuts(
    storage: &dyn Storage,
    places: &[PathBuf],
    state: &mut State,
) -> Result<()> {
    let mut last = state.last;
    let mut bytes = 0_u64;
    for (number, path) in cuts(storage, places)? {
        bytes = bytes.saturating_add(bytes_of(storage, &path)?);
        let read = Segment::read(storage, (number, &path), &State::default());
        let next = read.ok().and_then(|it| it.numbers).map(|(_, next)| next);
        // A falsified record may have any number.
        last = last.max(
            next.filter(|it| *it <= SeqNo::OPENED_MAX)
                .unwrap_or_default(),
        );
    }
    let above = bytes.saturating_mul(WRITES_PER_BYTE_MAX);
    let last = SeqNo(last.0.saturating_add(above)).min(SeqNo::OPENED_MAX);
    state.apply(&Change::Numbered { last })
}

/// Reports what was cut from the log in `root`, by this repair and by earlier ones that did not
/// end.
pub(super) fn report(
    storage: &dyn Storage,
    places: &[PathBuf],
    root: &Path,
    report: &mut RepairReport,
) -> Result<()> {
    // It describes the tables before the cut; its last number is that of the front of the log.
    let front = old_manifest::readable_at(storage, &lost_dir(root).join(manifest::FILE_NAME))?;
    let read = cuts(storage, places)?.into_iter().map(|(number, path)| {
        let segment = Segment::read(storage, (number, &path), &front).ok();
        (number, path.with_extension(""), segment)
    });
    let cut: Vec<(u32, PathBuf, Option<Segment>)> = read.collect();
    for (_, path, _) in &cut {
        if !report.lost.iter().any(|(told, _)| told == path) {
            let reason = "cut from the log by a repair that did not end".to_owned();
            report.lost.push((path.clone(), reason));
        }
    }
    let first = |it: &(u32, PathBuf, Option<Segment>)| Some(it.2.as_ref()?.numbers?.0);
    for (at, (_, path, segment)) in cut.iter().enumerate() {
        let next = cut.get(at + 1).and_then(first);
        let missing = match segment {
            // Recovery has refused the first one, since something is unreadable there.
            Some(segment) => segment.missing(path, next, at == 0),
            None => Some(MissingEntries::unknown(path.clone())),
        };
        report.missing.extend(missing);
    }
    Ok(())
}

/// Gives the files that were cut from the log the names that they keep, the last one first: a
/// repair that continues here still finds the others as they were cut. Then it removes the
/// description of the front, and what earlier repairs have begun to copy.
pub(super) fn put_away(storage: &dyn Storage, places: &[PathBuf]) -> Result<()> {
    for (_, path) in cuts(storage, places)?.into_iter().rev() {
        naming::rename(storage, &path, &path.with_extension(""))?;
    }
    for place in places {
        let (lost, log) = (lost_dir(place), log_dir(place));
        sync_dir(storage, &lost)?;
        naming::remove_left(storage, &lost.join(manifest::FILE_NAME))?;
        for (dir, suffix) in [(lost, COPY), (log, FRONT)] {
            let names = naming::names(storage, &dir)?;
            let begun = names.iter().filter(|name| name.ends_with(suffix));
            begun
                .map(|name| dir.join(name))
                .try_for_each(|path| naming::remove_left(storage, &path))?;
        }
    }
    Ok(())
}

/// The files that were cut from the log, with the numbers of their segments, in their order. Of one
/// number the first that was cut is the first.
pub(super) fn cuts(storage: &dyn Storage, places: &[PathBuf]) -> Result<Vec<(u32, PathBuf)>> {
    let mut cuts = Vec::new();
    for lost in places.iter().map(|place| lost_dir(place)) {
        for name in naming::names(storage, &lost)? {
            let segment = name.strip_suffix(CUT).and_then(|name| name.get(..12));
            let number = segment.and_then(segment_number);
            cuts.extend(number.map(|number| (number, lost.join(&name))));
        }
    }
    cuts.sort_by_key(|(number, path)| (*number, path.as_os_str().len()));
    Ok(cuts)
}

fn bytes_of(storage: &dyn Storage, path: &Path) -> Result<u64> {
    let bytes = storage.size(path);
    bytes.map_err(|e| Error::io("find", path, e))
}

/// The contents of a file that was cut from the log.
struct Segment {
    /// The number of the first readable record, and that after the last one.
    numbers: Option<(SeqNo, SeqNo)>,
    /// The last readable record is the seal.
    is_sealed: bool,
    /// Unreadable records follow the last readable one.
    is_damaged: bool,
    /// The entries that neither a table nor the kept front has, and their smallest and largest key.
    entries: u64,
    keys: Keys,
}

impl Segment {
    fn read(storage: &dyn Storage, (number, path): (u32, &Path), front: &State) -> Result<Segment> {
        let mut reader = SegmentReader::open(storage, path, number)?;
        let mut segment = Segment {
            numbers: None,
            is_sealed: false,
            is_damaged: false,
            entries: 0,
            keys: None,
        };
        while let Some(record) = reader.next()? {
            let header = record.header;
            let next = SeqNo(header.first_seqno.0.saturating_add(u64::from(header.ops)));
            let (first, _) = *segment.numbers.get_or_insert((header.first_seqno, next));
            segment.numbers = Some((first, next));
            segment.is_sealed = header.is_seal();
            for (seqno, op) in record.numbered_ops() {
                let Ok(op) = op else {
                    segment.is_damaged = true;
                    break;
                };
                // Nobody misses the writes to a mark, or to a partition that was dropped.
                let tree = front.trees.get(&op.partition);
                if tree.is_some_and(|tree| seqno > front.last.max(tree.flushed_through)) {
                    segment.entries += 1;
                    widen(&mut segment.keys, op.user_key);
                }
            }
        }
        let end = u64::from(reader.position().offset);
        segment.is_damaged |= !segment.is_sealed && reader.find_valid(end + 1)?.is_some();
        Ok(segment)
    }

    /// The entries missing with this segment. There are unreadable ones if recovery has refused it,
    /// if records follow the last readable one, or if it has no seal and the next segment begins
    /// with a later number.
    fn missing(
        &self,
        path: &Path,
        next: Option<SeqNo>,
        is_refused: bool,
    ) -> Option<MissingEntries> {
        let end = self.numbers.map(|(_, next)| next);
        let has_gap = !self.is_sealed && next.is_some() && end != next;
        let has_more = is_refused || self.is_damaged || has_gap;
        let ranges = self.keys.iter().map(|(from, to)| from.clone()..=to.clone());
        (has_more || self.entries > 0).then(|| MissingEntries {
            entries: (!has_more).then_some(self.entries),
            ranges: ranges.collect(),
            ..MissingEntries::unknown(path.to_path_buf())
        })
    }
}
