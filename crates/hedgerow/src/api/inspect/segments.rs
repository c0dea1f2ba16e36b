//! The log: its segments, and the records of one.

use std::path::{Path, PathBuf};

use hedgerow_io::Storage;

use crate::base::entry::{Kind, LogPosition, PartitionId, SeqNo};
use crate::base::error::{Error, Result};
use crate::tree::engine::log_dir;
use crate::tree::version::edit::Change;
use crate::tree::version::manifest;
use crate::tree::wal::log::{segment_name, segment_number};
use crate::tree::wal::segment_reader::{Record, SegmentReader};

/// The numbers of the segments of the database in `dir`, ascending. Segments below the log's start
/// (see [`LogStart`](super::Change::LogStart)) are no longer needed.
///
/// # Errors
/// `Io`.
pub fn segments(storage: &dyn Storage, dir: &Path) -> Result<Vec<u32>> {
    let log = log_of(storage, dir);
    let files = storage.list(&log).map_err(|e| Error::io("list", &log, e))?;
    let numbers = files.iter().filter_map(|file| segment_number(&file.name));
    let mut numbers: Vec<u32> = numbers.collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// The directory of the log, by the readable part of the manifest.
fn log_of(storage: &dyn Storage, dir: &Path) -> PathBuf {
    let contents = manifest::read(storage, &dir.join(manifest::FILE_NAME));
    let edits = manifest::salvage(&contents.unwrap_or_default());
    let mut places = edits.iter().flatten().filter_map(|change| match change {
        Change::SetPlaces(places) => Some(places),
        _ => None,
    });
    let root = places
        .next_back()
        .map_or_else(|| dir.to_path_buf(), |places| places.log_root(dir));
    log_dir(&root)
}

/// A segment of the log: an iterator over its records up to the first bad one, and then
/// [`Segment::end`]. An operation that cannot be decoded is an error in the place of its record.
#[derive(Debug)]
pub struct Segment {
    path: PathBuf,
    number: u32,
    reader: SegmentReader,
    /// The last record is a seal.
    sealed: bool,
}

/// One record of the log: the operations of one commit.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogRecord {
    /// Its offset in the segment.
    pub offset: u64,
    /// Its size.
    pub bytes: u64,
    /// The number of its first operation; the others follow.
    pub first_seqno: SeqNo,
    /// The log was durable up to here when the record was written. A short record does not say it.
    pub known_durable: Option<LogPosition>,
    /// The operations. A record without any is the seal of a full segment.
    pub operations: Vec<Operation>,
}

/// One write.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Operation {
    /// The partition that it goes to; the manifest names the keyspace.
    pub partition: PartitionId,
    /// A put or a delete.
    pub kind: Kind,
    /// The key, as the user gave it.
    pub key: Vec<u8>,
    /// The value; empty for a delete.
    pub value: Vec<u8>,
}

/// The end of a segment behind its last good record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SegmentEnd {
    /// The segment was never begun: it is preallocated, or its header is that of another segment.
    NotBegun,
    /// A seal: the log continues in the next segment.
    Sealed,
    /// Nothing was written behind the last record.
    Blank,
    /// There are bytes that are no record of this segment: a record torn by a crash, or the former
    /// contents of a recycled file.
    Torn,
}

impl Segment {
    /// Opens the segment numbered `number` of the database in `dir`.
    ///
    /// # Errors
    /// `Io`, `FormatVersion`.
    pub fn open(storage: &dyn Storage, dir: &Path, number: u32) -> Result<Segment> {
        let path = log_of(storage, dir).join(segment_name(number));
        Ok(Segment {
            reader: SegmentReader::open(storage, &path, number)?,
            path,
            number,
            sealed: false,
        })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its number.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The number from which its records count; `None` if the segment was not begun.
    pub fn first_seqno(&self) -> Option<SeqNo> {
        self.reader.header().map(|header| header.first_seqno)
    }

    /// The position behind the last record read so far.
    pub fn reached(&self) -> LogPosition {
        self.reader.position()
    }

    /// Returns how the segment ends, once all records are read. Cost: reads the rest of the
    /// segment.
    ///
    /// # Errors
    /// `Corruption` if bytes behind the end claim that the log was durable further, so that the end
    /// is damage; `Io`.
    pub fn end(&mut self) -> Result<SegmentEnd> {
        if self.reader.header().is_none() {
            return Ok(SegmentEnd::NotBegun);
        }
        if self.sealed {
            return Ok(SegmentEnd::Sealed);
        }
        let end = self.reached();
        match self.reader.scan_for_valid(end.offset)? {
            Some(durable) if durable > end => Err(Error::corruption(format!(
                "expected a record of the log, which was durable up to segment {} offset {}",
                durable.segment, durable.offset
            ))
            .at(&self.path, Some(u64::from(end.offset)))),
            _ if self.reader.is_blank_at_end()? => Ok(SegmentEnd::Blank),
            _ => Ok(SegmentEnd::Torn),
        }
    }
}

impl Iterator for Segment {
    type Item = Result<LogRecord>;

    fn next(&mut self) -> Option<Result<LogRecord>> {
        let record = match self.reader.next() {
            Ok(record) => record?,
            Err(error) => return Some(Err(error)),
        };
        self.sealed = record.header.is_seal();
        let offset = u64::from(record.offset);
        Some(decoded(&record).map_err(|e| e.at_offset(offset).at(&self.path, None)))
    }
}

fn decoded(record: &Record<'_>) -> Result<LogRecord> {
    let operations = record.ops().map(|op| {
        op.map(|op| Operation {
            partition: op.partition,
            kind: op.tag.kind,
            key: op.user_key.to_vec(),
            value: op.value.to_vec(),
        })
    });
    Ok(LogRecord {
        offset: u64::from(record.offset),
        bytes: record.header.end(record.offset) - u64::from(record.offset),
        first_seqno: record.header.first_seqno,
        known_durable: record.header.known_durable,
        operations: operations.collect::<Result<_>>()?,
    })
}
