//! The log of a database being written: segments, the tail, syncs, recycling.
//!
//! One log serves all keyspaces and partitions. So a batch over any of them is one record under one
//! checksum, and a crash keeps a prefix of the commit order.
//!
//! * A commit reserves its place in the [`Tail`], inside the commit's critical section, and copies
//!   its record there outside of it.
//! * A segment without room for the next record ends with a *seal*: a record without operations.
//!   Replay continues in the next segment only after a seal. So a crash that lost the end of one
//!   segment but kept the next cannot leave a hole in the order.
//! * Each mebibyte of a segment is written back when it is full, and one ahead is made ready
//!   ([`SegmentUpkeep`]). So the sync before a flush finds little to do, and a commit does not wait
//!   for the file system to make pages ready.
//! * [`Log::sync_through`] is shared: a thread that finds no sync under way syncs for all waiting
//!   threads.
//! * A segment records the highest number that each partition wrote into it. It is retired when all
//!   of these are flushed. Retired segments are renamed and reused. Spares are prepared ahead, so
//!   that a commit finds its next segment allocated.
//! * The first segment is small, and each is some times as large as the one before, up to the size
//!   of segments. So a small database takes little space.
//!
//! Lock order: the commit's lock, then `segments`; `sync` is never held together with either.

mod segment_list;
mod tail;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use hedgerow_io::Storage;

use crate::base::entry::{LogPosition, SeqNo};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::stats::Counter;

use super::record;
use super::record::Form;
pub(crate) use segment_list::FeedSegment;
use segment_list::{FIRST_BYTES, Segments};
pub(crate) use tail::{Reservation, SegmentUpkeep, Tail};

/// The bytes ahead of the records that are prepared in a segment. A sync may write all prepared
/// bytes, so it is not the whole segment.
const PREPARED_BYTES: u64 = 1 << 20;
/// A shorter sync leaves the segment's pages to the writers, since the next records go to the same
/// pages.
const WRITTEN_BACK_BYTES_MIN: u64 = 256 << 10;
/// The smallest segment has room for a header and some records.
pub(crate) const SEGMENT_BYTES_MIN: u64 = 4 << 10;
/// The largest segment: an offset in it has 32 bits, and a file is a multiple of 4 KiB.
pub(crate) const SEGMENT_BYTES_MAX: u64 = (4 << 30) - (4 << 10);

/// The name of a segment's file.
pub(crate) fn segment_name(number: u32) -> String {
    format!("{number:08}.log")
}

/// The number in the name of a segment's file.
pub(crate) fn segment_number(name: &str) -> Option<u32> {
    name.strip_suffix(".log")
        .filter(|digits| digits.len() == 8)?
        .parse()
        .ok()
}

/// The log.
#[derive(Debug)]
pub(crate) struct Log {
    storage: Arc<dyn Storage>,
    dir: PathBuf,
    segment_bytes: u64,
    /// True if payloads are compressed where that saves an eighth.
    pub(crate) compresses: bool,
    /// A [`LogPosition`]: everything before it is durable.
    durable: AtomicU64,
    sync: Mutex<SyncState>,
    synced: Condvar,
    segments: Mutex<Segments>,
    /// One preparation of spares at a time.
    preparing: Mutex<()>,
    poison: OnceLock<Error>,
    bytes_written: Counter,
    syncs: AtomicU64,
}

#[derive(Debug, Default)]
struct SyncState {
    under_way: bool,
    /// The furthest position that a thread waits for.
    wanted: LogPosition,
}

/// A sync that is under way. Its end wakes those who wait for it, also if it panics.
struct UnderWay<'a>(&'a Log);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        lock(&self.0.sync).under_way = false;
        self.0.synced.notify_all();
    }
}

impl Log {
    /// A log whose first segment is numbered `first_segment`. Its records do not say that anything
    /// is durable before the first sync, or before [`Log::retire`] says that the log is in force.
    /// `retired` are segment files that may be reused.
    pub(crate) fn create(
        storage: Arc<dyn Storage>,
        dir: &Path,
        segment_bytes: u64,
        compresses: bool,
        first_segment: u32,
        first_seqno: SeqNo,
        retired: Vec<(PathBuf, u64)>,
    ) -> Result<(Log, Tail)> {
        let log = Log {
            storage,
            dir: dir.to_path_buf(),
            segment_bytes,
            compresses,
            durable: AtomicU64::new(LogPosition::default().packed()),
            sync: Mutex::default(),
            synced: Condvar::new(),
            segments: Mutex::new(Segments {
                retired,
                next_number: first_segment,
                next_bytes: segment_bytes.min(FIRST_BYTES),
                ..Default::default()
            }),
            preparing: Mutex::new(()),
            poison: OnceLock::new(),
            bytes_written: Counter::default(),
            syncs: AtomicU64::new(0),
        };
        log.prepare_spare(0, first_seqno)?;
        let segment = log.take_spare(0).expect("a spare was just prepared");
        segment.from.store(first_seqno.0, Ordering::Relaxed);
        Ok((log, Tail::new(segment)))
    }

    // ---- writing ----

    /// Switches to the next prepared segment, for a record with this many payload bytes. Returns
    /// false if no prepared segment is large enough. Then call [`Log::prepare_spare`] outside the
    /// commit's lock, and try again.
    pub(crate) fn roll(
        &self,
        tail: &mut Tail,
        payload_bytes: usize,
        next_seqno: SeqNo,
    ) -> Result<bool> {
        let Some(segment) = self.take_spare(payload_bytes) else {
            return Ok(false);
        };
        let seal = tail.take(Form::Full, Form::Full.end(tail.offset, 0));
        // The next sync writes the part that this fills: it is less than two mebibytes.
        let _filled = self.write(&seal, b"", 0, next_seqno)?;
        let highest = tail
            .touched
            .drain(..)
            .map(|(partition, latest)| (partition, SeqNo(latest.load(Ordering::Relaxed))))
            .collect();
        segment.from.store(next_seqno.0, Ordering::Relaxed);
        let before = lock(&seal.segment.pins).replace(highest);
        assert!(before.is_none(), "a segment is sealed once");
        *tail = Tail::new(segment);
        Ok(true)
    }

    /// Copies a record to its place. Outside every lock. Now and then it returns work that a thread
    /// with spare time does, since the file system may be busy for long.
    pub(crate) fn write(
        &self,
        place: &Reservation,
        payload: &[u8],
        ops: u32,
        first_seqno: SeqNo,
    ) -> Result<Option<SegmentUpkeep>> {
        let number = place.segment.number;
        let at = LogPosition {
            segment: number,
            offset: place.offset as u32,
        };
        let (full, short);
        let header: &[u8] = match place.form {
            Form::Full => {
                full = record::seal(payload, ops, first_seqno, self.durable(), at);
                &full
            }
            Form::Short => {
                let after = first_seqno.0 - place.segment.first_seqno.0;
                short = record::seal_short(payload, ops, after, at);
                &short
            }
        };
        let payload_offset = place.offset + header.len() as u64;
        let padding = place.end - payload_offset - payload.len() as u64;
        // The header comes last, so that a torn write leaves no header over a stale payload.
        let written = (place.segment.file)
            .write_at(payload_offset, payload)
            .and_then(|()| {
                let zeros = &[0; 8][..padding as usize];
                place
                    .segment
                    .file
                    .write_at(payload_offset + payload.len() as u64, zeros)
            })
            .and_then(|()| place.segment.file.write_at(place.offset, header));
        written.map_err(|e| self.poison_with(Error::io("write", &place.segment.path, e)))?;
        self.bytes_written.add(place.end - place.offset);
        let passed = |offset| offset / PREPARED_BYTES * PREPARED_BYTES;
        let filled = passed(place.offset)..passed(place.end);
        if filled.is_empty() {
            return Ok(None);
        }
        let start = place.end.next_multiple_of(PREPARED_BYTES);
        let end = (start + PREPARED_BYTES).min(place.segment.file.capacity_bytes());
        // The system may keep the end of a filled part and what comes behind it in one folio, which
        // is written as a whole. So a part is written back when the next one is full, too.
        let behind = |offset: u64| offset.saturating_sub(PREPARED_BYTES);
        Ok(Some(SegmentUpkeep {
            segment: Arc::clone(&place.segment),
            ahead: start..end,
            behind: behind(filled.start)..behind(filled.end),
        }))
    }

    /// The position before which everything is durable.
    pub(crate) fn durable(&self) -> LogPosition {
        LogPosition::unpacked(self.durable.load(Ordering::Acquire))
    }

    /// Returns when everything before `position` is durable. Every record before it must have been
    /// copied: the caller waited for its publication. All waiting threads share a sync.
    /// Cost: at most one sync of its own.
    pub(crate) fn sync_through(&self, position: LogPosition) -> Result<()> {
        let mut state = lock(&self.sync);
        loop {
            if self.durable() >= position {
                return Ok(());
            }
            self.check_poison()?;
            state.wanted = state.wanted.max(position);
            if !state.under_way {
                break;
            }
            state = self
                .synced
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        state.under_way = true;
        let target = state.wanted;
        drop(state);
        let _under_way = UnderWay(self);
        self.sync_segments(target)?;
        self.durable.fetch_max(target.packed(), Ordering::AcqRel);
        Ok(())
    }

    fn sync_segments(&self, target: LogPosition) -> Result<()> {
        let durable = self.durable();
        let segments: Vec<_> = lock(&self.segments)
            .live
            .iter()
            .filter(|s| (durable.segment..=target.segment).contains(&s.number))
            .cloned()
            .collect();
        for segment in segments {
            self.syncs.fetch_add(1, Ordering::Relaxed);
            let from = match segment.number == durable.segment {
                true => u64::from(durable.offset),
                false => 0,
            };
            let to = match segment.number == target.segment {
                true => u64::from(target.offset),
                false => segment.file.capacity_bytes(),
            };
            if to.saturating_sub(from) >= WRITTEN_BACK_BYTES_MIN {
                segment.file.write_back(from..to);
            }
            segment
                .file
                .sync()
                .map_err(|e| self.poison_with(Error::io("sync", &segment.path, e)))?;
        }
        Ok(())
    }

    // ---- failure ----

    /// Returns the error of every write after one write of the log has failed.
    pub(crate) fn check_poison(&self) -> Result<()> {
        match self.poison.get() {
            None => Ok(()),
            Some(cause) => Err(Error::new(
                ErrorKind::Poisoned,
                format!("close the database and open it again; the cause was: {cause}"),
            )),
        }
    }

    /// Poisons the log: refuses all later writes, since their state would be unknown. The state of
    /// the failed write is unknown, too. So its error is `Poisoned` like theirs; `NoSpace` or `Io`
    /// would say that nothing happened.
    pub(crate) fn poison_with(&self, cause: Error) -> Error {
        let _ = self.poison.set(cause.clone());
        self.synced.notify_all();
        self.check_poison().err().unwrap_or(cause)
    }

    /// The bytes of records written, and the number of syncs, since the log was opened.
    pub(crate) fn counts(&self) -> (u64, u64) {
        let syncs = self.syncs.load(Ordering::Relaxed);
        (self.bytes_written.get(), syncs)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
