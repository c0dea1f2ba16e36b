//! The first pass over the log: finds its end, and checks it for damage.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use hedgerow_io::{DirEntry, Storage};

use crate::base::entry::{LogPosition, PartitionId, SeqNo};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::page::TableId;
use crate::table::open::{table_name, table_number};
use crate::tree::engine::log_dir;
use crate::tree::partition::tables_dir;
use crate::tree::version::manifest;
use crate::tree::version::state::State;
use crate::tree::wal::log::{segment_name, segment_number};
use crate::tree::wal::segment_reader::{Record, SegmentReader};

/// The extent of the log.
#[derive(Clone)]
pub(crate) struct Survey {
    /// The directory of its segments.
    pub(super) dir: PathBuf,
    /// The segments that hold records, oldest first.
    pub(super) segments: Vec<u32>,
    /// The number after that of the last segment file.
    pub(super) next_segment: u32,
    /// The position behind the last good record.
    pub(crate) end: LogPosition,
    /// The number of the last operation, in the log or in tables.
    pub(crate) last: SeqNo,
}

impl Survey {
    pub(super) fn segment_path(&self, number: u32) -> PathBuf {
        self.dir.join(segment_name(number))
    }

    /// Calls `visit` with each record and the path of its segment, oldest first.
    pub(super) fn each_record(
        &self,
        storage: &dyn Storage,
        mut visit: impl FnMut(&Path, &Record<'_>) -> Result<()>,
    ) -> Result<()> {
        for &number in &self.segments {
            let path = self.segment_path(number);
            let mut reader = SegmentReader::open(storage, &path, number)?;
            while reader.position() < self.end || number < self.end.segment {
                let Some(record) = reader.next()? else { break };
                visit(&path, &record)?;
            }
        }
        Ok(())
    }

    /// Returns normally if all segments have their names. A segment loses its name before its
    /// bytes.
    pub(super) fn check_there(&self, storage: &dyn Storage) -> Result<()> {
        self.segments.iter().try_for_each(|&number| {
            let path = self.segment_path(number);
            let size = storage.size(&path);
            size.map(drop).map_err(|e| Error::io("find", &path, e))
        })
    }
}

/// Reads the log without changing anything. Compares it and the existing tables with the manifest.
pub(super) fn survey(storage: &dyn Storage, dir: &Path, state: &State) -> Result<Survey> {
    check_tables(storage, dir, state)?;
    let log = log_dir(&state.places.log_root(dir));
    let files = storage.list(&log);
    let mut numbers = segments_of(files.map_err(|e| Error::io("list", &log, e))?);
    // Also the place where a log was about to begin when a crash came.
    let mut highest = numbers.iter().max().copied();
    for (_, place) in state.places.all(dir) {
        let there = segments_of(files_in(storage, &log_dir(&place))?);
        highest = highest.max(there.into_iter().max());
    }
    let next_segment = highest.map_or(1, |n| n + 1).max(state.log_start + 1);
    numbers.retain(|&n| n >= state.log_start);
    numbers.sort_unstable();
    let in_tables = state
        .trees
        .values()
        .flat_map(|tree| {
            let largest = tree.tables.values().map(|(_, meta)| meta.largest_seqno);
            largest.chain([tree.flushed_through])
        })
        .max()
        .unwrap_or_default();
    let closed_last = state.closed.map_or(SeqNo(0), |(_, last)| last);
    check_last(in_tables, state).map_err(|e| e.at(&dir.join(manifest::FILE_NAME), None))?;
    let mut survey = Survey {
        dir: log,
        segments: Vec::new(),
        next_segment,
        end: LogPosition {
            segment: state.log_start,
            offset: 0,
        },
        last: in_tables
            .max(closed_last)
            .max(state.last)
            .max(state.feed.last()),
    };
    if state.log_start > 0 && numbers.first() != Some(&state.log_start) {
        return Err(
            Error::corruption("expected a log segment that is still needed, found none")
                .at(&survey.segment_path(state.log_start), None),
        );
    }
    let ended_at = read_to_end(storage, &numbers, &mut survey, state)?;
    check_end(storage, &numbers[ended_at..], &survey, state)?;
    Ok(survey)
}

/// Returns true if an opening would find nothing damaged or missing. Changes nothing.
///
/// # Errors
/// `FormatVersion` and `Io` of the log.
pub(crate) fn would_open(storage: &dyn Storage, dir: &Path, state: &State) -> Result<bool> {
    match survey(storage, dir, state) {
        Err(error) if error.kind() == ErrorKind::Corruption => Ok(false),
        surveyed => surveyed.map(|_| true),
    }
}

/// Checks the numbers of the tables against the last number of a clean close, and both against the
/// largest number that a database may have when it is opened.
fn check_last(in_tables: SeqNo, state: &State) -> Result<()> {
    let last = state.closed.map_or(in_tables, |(_, last)| last);
    if in_tables <= last && last <= SeqNo::OPENED_MAX {
        return Ok(());
    }
    Err(Error::corruption(format!(
        "expected tables numbered up to {} and numbers up to {}, found {}",
        last.0,
        SeqNo::OPENED_MAX.0,
        in_tables.0
    )))
}

/// The files of a directory that may be empty. A missing one has none: copies of a database often
/// lack its empty directories.
pub(crate) fn files_in(storage: &dyn Storage, dir: &Path) -> Result<Vec<DirEntry>> {
    match storage.list(dir) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        files => files.map_err(|e| Error::io("list", dir, e)),
    }
}

/// The numbers of the segments among the files of a directory.
fn segments_of(files: Vec<DirEntry>) -> Vec<u32> {
    let numbers = files.iter().filter_map(|file| segment_number(&file.name));
    numbers.collect()
}

/// Reads the records up to the first bad one. Returns the index of its segment.
fn read_to_end(
    storage: &dyn Storage,
    numbers: &[u32],
    survey: &mut Survey,
    state: &State,
) -> Result<usize> {
    let mut last_in_log: Option<SeqNo> = None;
    for (i, &number) in numbers.iter().enumerate() {
        let path = survey.segment_path(number);
        if i > 0 && number != numbers[i - 1] + 1 {
            return Err(Error::corruption(format!(
                "expected log segment {}, found none",
                numbers[i - 1] + 1
            ))
            .at(&path, None));
        }
        let mut reader = SegmentReader::open(storage, &path, number)?;
        survey.segments.push(number);
        let mut sealed = false;
        while let Some(record) = reader.next()? {
            let first = record.header.first_seqno;
            // Bulk loads take numbers without a record.
            if let Some(last) = last_in_log.filter(|last| first <= *last) {
                return Err(Error::corruption(format!(
                    "expected a record numbered above {}, found {}",
                    last.0, first.0
                ))
                .at(&path, Some(u64::from(record.offset))));
            }
            if record.header.last_seqno() > SeqNo::OPENED_MAX {
                return Err(Error::corruption(format!(
                    "expected a record numbered up to {}, found {}",
                    SeqNo::OPENED_MAX.0,
                    record.header.last_seqno().0
                ))
                .at(&path, Some(u64::from(record.offset))));
            }
            check_partitions(&record, state)
                .map_err(|e| e.at(&path, Some(u64::from(record.offset))))?;
            sealed = record.header.is_seal();
            if sealed {
                last_in_log = Some(SeqNo(first.0.saturating_sub(1)));
                break;
            }
            last_in_log = Some(record.header.last_seqno());
        }
        survey.end = reader.position();
        survey.last = survey.last.max(last_in_log.unwrap_or_default());
        if !sealed {
            return Ok(i);
        }
    }
    Ok(numbers.len().saturating_sub(1))
}

/// Checks that the manifest knew the partition of every write.
fn check_partitions(record: &Record<'_>, state: &State) -> Result<()> {
    for op in record.ops() {
        let id = op?.partition;
        if id.0 >= state.next_partition && id != PartitionId::NONE {
            return Err(Error::corruption(format!(
                "expected a write to a partition below {}, found one to {}: the manifest has lost records",
                state.next_partition, id.0
            )));
        }
    }
    Ok(())
}

/// Checks that every table of the manifest exists. A manifest that has lost records may name tables
/// that were merged since, and may miss those that now hold their entries.
fn check_tables(storage: &dyn Storage, dir: &Path, state: &State) -> Result<()> {
    let mut sizes = HashMap::new();
    for (place, dir) in state.places.all(dir) {
        for file in files_in(storage, &tables_dir(&dir))? {
            if let Some(number) = table_number(&file.name) {
                sizes.insert((place, TableId(number)), file.bytes);
            }
        }
    }
    for (id, (_, meta)) in state.trees.values().flat_map(|tree| &tree.tables) {
        let found = sizes.get(&(meta.path, *id)).copied();
        if found != Some(meta.file_bytes) {
            let found = found.map_or("none".to_owned(), |bytes| format!("{bytes} bytes"));
            return Err(Error::corruption(format!(
                "expected a table of {} bytes, found {found}",
                meta.file_bytes
            ))
            .at(
                &tables_dir(&state.places.dir(dir, meta.path)).join(table_name(*id)),
                None,
            ));
        }
    }
    Ok(())
}

/// Checks that nothing says that the log was durable beyond its end.
fn check_end(storage: &dyn Storage, numbers: &[u32], survey: &Survey, state: &State) -> Result<()> {
    let mut known_durable = state.closed.map(|(end, _)| end);
    for &number in numbers {
        let mut reader = SegmentReader::open(storage, &survey.segment_path(number), number)?;
        let after = if number == survey.end.segment {
            survey.end.offset
        } else {
            0
        };
        // The header was synced before the segment got records, and says how far the log was then.
        let at_first = reader.header().map(|it| it.known_durable);
        known_durable = known_durable.max(at_first);
        known_durable = known_durable.max(reader.scan_for_valid(after)?);
    }
    match known_durable {
        // Beside a writer, this record may have been written and made durable after the end was
        // found.
        Some(durable) if durable > survey.end && is_damaged_at_end(storage, survey)? => {
            Err(Error::corruption(format!(
                "expected a record of the log, which was durable up to segment {} offset {}",
                durable.segment, durable.offset
            ))
            .at(
                &survey.segment_path(survey.end.segment),
                Some(u64::from(survey.end.offset)),
            ))
        }
        _ => Ok(()),
    }
}

/// Returns true if there is still no good record at the end of the log.
fn is_damaged_at_end(storage: &dyn Storage, survey: &Survey) -> Result<bool> {
    let position = survey.end;
    let number = position.segment;
    let mut reader = SegmentReader::open(storage, &survey.segment_path(number), number)?;
    while reader.position() < position && reader.next()?.is_some() {}
    let reached = reader.position() >= position;
    Ok(!reached || reader.next()?.is_none())
}
