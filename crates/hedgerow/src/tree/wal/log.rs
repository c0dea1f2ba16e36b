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
//! * Each [`FullRange`] of a segment, a mebibyte, is written back as soon as it is full. So the
//!   sync before a flush finds little to do.
//! * [`Log::sync_through`] is shared: a thread that finds no sync under way syncs for all waiting
//!   threads.
//! * A segment records the highest number that each partition wrote into it. It is retired when all
//!   of these are flushed. Retired segments are renamed and reused. Spares are prepared ahead, so
//!   that a commit finds its next segment allocated.
//! * The first segment is small, and each is some times as large as the one before, up to the size
//!   of segments. So a small database takes little space.
//!
//! Lock order: the commit's lock, then `segments`; `sync` is never held together with either.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use arc_swap::{ArcSwap, Guard};
use hedgerow_io::{Segment, Storage};
use hedgerow_mem::CachePadded;

use crate::base::entry::{LogPosition, PartitionId, SeqNo};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::stats::Counter;

use super::record;
use super::record::{Form, RECORD_HEADER_BYTES, SEGMENT_HEADER_BYTES, SegmentHeader};

/// The bytes ahead of the records that are prepared in a segment. A sync may write all prepared
/// bytes, so it is not the whole segment.
const PREPARED_BYTES: u64 = 1 << 20;
/// A shorter sync leaves the segment's pages to the writers, since the next records go to the same
/// pages.
const WRITTEN_BACK_BYTES_MIN: u64 = 256 << 10;
/// The part of a segment in which at least one record is full and says what is durable.
const SAYING_BYTES: u64 = 4 << 10;
/// The approximate bytes of segments that are prepared ahead. On a system that is busy with the
/// writes of a flush, a preparation takes some hundred milliseconds, and commits should not wait
/// for it.
const SPARE_BYTES: u64 = 32 << 20;
/// The size of the first segment of an open database. With the spare behind it, a database of a few
/// keys takes less than a mebibyte.
const FIRST_BYTES: u64 = 128 << 10;
/// The factor from a segment to the next, until they have their full size. A roll costs a few
/// milliseconds of preparation, so there are few small segments.
const GROWTH: u64 = 4;
/// The maximum number of retired segments that wait to be reused.
const RETIRED_MAX: usize = 2;

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

/// A segment with records that may still be needed.
#[derive(Debug)]
pub(crate) struct LiveSegment {
    number: u32,
    /// The number from which its records count.
    first_seqno: SeqNo,
    /// The number from which its records begin; set when it is begun.
    from: AtomicU64,
    path: PathBuf,
    file: Arc<dyn Segment>,
    /// `None` until the segment is sealed.
    pins: Mutex<Option<Pins>>,
}

/// A segment that only slots need.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) number: u32,
    /// The number from which its records begin.
    pub(crate) from: SeqNo,
    pub(crate) path: PathBuf,
    pub(crate) bytes: u64,
}

/// The highest number that each partition wrote into a segment, without the partitions already
/// found flushed.
type Pins = Vec<(PartitionId, SeqNo)>;

/// The place of the next record. Part of the state that the commit's lock guards.
#[derive(Debug)]
pub(crate) struct Tail {
    /// Loaded briefly by each commit; a reference count would cost more than the load.
    segment: ArcSwap<LiveSegment>,
    number: u32,
    first_seqno: SeqNo,
    capacity_bytes: u64,
    offset: u64,
    /// The durable position that the last full record says at least, and the part of the segment
    /// where that record is.
    said: Option<(LogPosition, u64)>,
    /// The partitions that wrote into this segment, with the number of their latest write.
    touched: Vec<(PartitionId, Arc<CachePadded<AtomicU64>>)>,
}

/// A place in the log that one commit owns.
#[derive(Debug)]
pub(crate) struct Reservation {
    segment: Guard<Arc<LiveSegment>>,
    form: Form,
    offset: u64,
    end: u64,
}

impl Reservation {
    /// The end of the record.
    pub(crate) fn end(&self) -> LogPosition {
        LogPosition {
            segment: self.segment.number,
            offset: self.end as u32,
        }
    }
}

/// A part of a segment that has no room for further records.
#[derive(Debug)]
pub(crate) struct FullRange {
    segment: Arc<LiveSegment>,
    range: Range<u64>,
}

impl FullRange {
    /// Starts writing it to the medium, without waiting. A flush syncs the log first: writing all
    /// records of a memtable at once would block the device's reads for that time.
    pub(crate) fn write_back(self) {
        self.segment.file.write_back(self.range);
    }
}

impl Tail {
    fn new(segment: Arc<LiveSegment>) -> Tail {
        Tail {
            number: segment.number,
            first_seqno: segment.first_seqno,
            said: None,
            capacity_bytes: segment.file.capacity_bytes(),
            segment: ArcSwap::new(segment),
            offset: SEGMENT_HEADER_BYTES as u64,
            touched: Vec::new(),
        }
    }

    /// The number of the segment being written. A partition with another number must be
    /// [`touched`](Tail::touch).
    pub(crate) fn segment_number(&self) -> u32 {
        self.number
    }

    /// The end of everything reserved so far.
    pub(crate) fn position(&self) -> LogPosition {
        LogPosition {
            segment: self.number,
            offset: self.offset as u32,
        }
    }

    /// Registers a partition that writes into this segment. `latest` will hold its highest number.
    pub(crate) fn touch(&mut self, partition: PartitionId, latest: &Arc<CachePadded<AtomicU64>>) {
        self.touched.push((partition, latest.clone()));
    }

    /// Returns the place that was taken last.
    pub(crate) fn give_back(&mut self, place: Reservation) {
        debug_assert!(
            place.end == self.offset && place.segment.number == self.number,
            "only the last place can be given back"
        );
        self.offset = place.offset;
        self.said = None;
    }

    /// Takes the place for a record, if the segment has room for it and for the seal. The log is
    /// durable up to `durable` at least.
    pub(crate) fn reserve(
        &mut self,
        payload_bytes: usize,
        ops: u32,
        first_seqno: SeqNo,
        durable: LogPosition,
    ) -> Option<Reservation> {
        let saying = Some((durable, self.offset / SAYING_BYTES));
        let form = if self.said == saying {
            Form::shortest(payload_bytes, ops, first_seqno.0 - self.first_seqno.0)
        } else {
            Form::Full
        };
        let end = form.end(self.offset, payload_bytes as u64);
        let with_seal = Form::Full.end(end, 0);
        if with_seal > self.capacity_bytes {
            return None;
        }
        self.said = saying;
        Some(self.take(form, end))
    }

    fn take(&mut self, form: Form, end: u64) -> Reservation {
        let offset = std::mem::replace(&mut self.offset, end);
        Reservation {
            segment: self.segment.load(),
            form,
            offset,
            end,
        }
    }
}

/// The log.
#[derive(Debug)]
pub(crate) struct Log {
    storage: Arc<dyn Storage>,
    dir: PathBuf,
    segment_bytes: u64,
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

#[derive(Debug, Default)]
struct Segments {
    /// Oldest first; the last one is the tail's.
    live: VecDeque<Arc<LiveSegment>>,
    /// Prepared, in the order of their numbers.
    spares: VecDeque<Arc<LiveSegment>>,
    /// Older than the live ones, oldest first.
    kept: VecDeque<Kept>,
    /// Files whose records are no longer needed.
    retired: Vec<(PathBuf, u64)>,
    next_number: u32,
    /// The size of the next segment that is made.
    next_bytes: u64,
}

impl Log {
    /// A log whose first segment is numbered `first_segment`, with everything before it durable.
    /// `retired` are segment files that may be reused.
    pub(crate) fn create(
        storage: Arc<dyn Storage>,
        dir: &Path,
        segment_bytes: u64,
        first_segment: u32,
        first_seqno: SeqNo,
        retired: Vec<(PathBuf, u64)>,
    ) -> Result<(Log, Tail)> {
        let log = Log {
            storage,
            dir: dir.to_path_buf(),
            segment_bytes,
            durable: AtomicU64::new(
                LogPosition {
                    segment: first_segment,
                    offset: 0,
                }
                .packed(),
            ),
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
        // The next sync writes the part that this fills: it is less than a mebibyte.
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

    /// Copies a record to its place. Outside every lock. Returns a filled part now and then, which
    /// a thread with spare time writes back.
    pub(crate) fn write(
        &self,
        place: &Reservation,
        payload: &[u8],
        ops: u32,
        first_seqno: SeqNo,
    ) -> Result<Option<FullRange>> {
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
        if start < end {
            place.segment.file.prepare(start..end);
        }
        Ok(Some(FullRange {
            segment: Arc::clone(&place.segment),
            range: filled,
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
        let result = self.sync_segments(target);
        let mut state = lock(&self.sync);
        state.under_way = false;
        if result.is_ok() {
            self.durable.fetch_max(target.packed(), Ordering::AcqRel);
        }
        drop(state);
        self.synced.notify_all();
        result
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

    // ---- segments ----

    /// Makes sure that a spare for a record with this many payload bytes is ready. `NoSpace` when
    /// it cannot be allocated; nothing is lost then.
    pub(crate) fn prepare_spare(&self, payload_bytes: usize, next_seqno: SeqNo) -> Result<()> {
        self.prepare(payload_bytes, 1, next_seqno).map(|_| ())
    }

    /// Makes sure that as many spares are ready as commits may use before the next call.
    pub(crate) fn prepare_spares(&self, next_seqno: SeqNo) -> Result<()> {
        while self.prepare(0, self.spares_wanted(), next_seqno)? {}
        Ok(())
    }

    fn spares_wanted(&self) -> usize {
        match lock(&self.segments).next_bytes < self.segment_bytes {
            true => 1,
            false => (SPARE_BYTES / self.segment_bytes).clamp(2, 4) as usize,
        }
    }

    /// Prepares one more spare, unless there are `wanted` ones. Returns false if there are.
    fn prepare(&self, payload_bytes: usize, wanted: usize, next_seqno: SeqNo) -> Result<bool> {
        let _one = lock(&self.preparing);
        let (number, too_small, reused, next_bytes) = {
            let mut segments = lock(&self.segments);
            let all_fit = segments.spares.iter().all(|s| fits(s, payload_bytes));
            if segments.spares.len() >= wanted && all_fit {
                return Ok(false);
            }
            let reusable = |&(_, bytes): &(_, u64)| bytes == self.segment_bytes;
            let reused = (needed_bytes(payload_bytes) <= self.segment_bytes)
                .then(|| segments.retired.iter().position(reusable))
                .flatten()
                .map(|i| segments.retired.swap_remove(i).0);
            // Numbers have no gaps: spares too small for a huge record give up theirs.
            let too_small = match all_fit {
                true => VecDeque::new(),
                false => std::mem::take(&mut segments.spares),
            };
            if let Some(first) = too_small.front() {
                segments.next_number = first.number;
            }
            (segments.next_number, too_small, reused, segments.next_bytes)
        };
        let path = self.dir.join(segment_name(number));
        let bytes = next_bytes.max(needed_bytes(payload_bytes));
        let least_bytes = FIRST_BYTES.max(needed_bytes(payload_bytes));
        let prepare = || {
            for spare in &too_small {
                self.storage.remove(&spare.path)?;
            }
            let file = match &reused {
                Some(from) => self.storage.recycle_segment(from, &path)?,
                None => match self.storage.create_segment(&path, bytes) {
                    // A nearly full disk may have room for a small one.
                    Err(e) if e.kind() == io::ErrorKind::StorageFull && least_bytes < bytes => {
                        self.storage.create_segment(&path, least_bytes)?
                    }
                    created => created?,
                },
            };
            let header = SegmentHeader::new(number, self.durable(), next_seqno).encode();
            file.write_at(0, &header)?;
            // The former bytes of the file at the place of the first record must not be taken for a
            // record of this segment by the next reader, checksum or not.
            file.write_at(SEGMENT_HEADER_BYTES as u64, &[0; RECORD_HEADER_BYTES])?;
            file.sync()?;
            self.storage.sync_dir(&self.dir)?;
            Ok(file)
        };
        let file = prepare().map_err(|e| {
            // The next attempt has the same number, and finds its name free.
            let _ = self.storage.remove(&path);
            Error::io("prepare a log segment", &path, e)
        })?;
        file.prepare(0..(2 * PREPARED_BYTES).min(file.capacity_bytes()));
        let mut segments = lock(&self.segments);
        segments.next_number = number + 1;
        segments.next_bytes = (file.capacity_bytes() * GROWTH).min(self.segment_bytes);
        segments.spares.push_back(Arc::new(LiveSegment {
            number,
            first_seqno: next_seqno,
            from: AtomicU64::new(next_seqno.0),
            path,
            file,
            pins: Mutex::default(),
        }));
        Ok(true)
    }

    fn take_spare(&self, payload_bytes: usize) -> Option<Arc<LiveSegment>> {
        let mut segments = lock(&self.segments);
        if !segments
            .spares
            .front()
            .is_some_and(|s| fits(s, payload_bytes))
        {
            return None;
        }
        let segment = segments.spares.pop_front()?;
        segments.live.push_back(segment.clone());
        Some(segment)
    }

    /// The number of the oldest segment that is needed, given the number up to which each partition
    /// is flushed (`None`: dropped).
    pub(crate) fn first_needed(
        &self,
        published: SeqNo,
        flushed_through: impl Fn(PartitionId) -> Option<SeqNo>,
    ) -> u32 {
        let segments = lock(&self.segments);
        let is_pin = |&(p, seqno): &(PartitionId, SeqNo)| {
            seqno > published || flushed_through(p).is_some_and(|f| f < seqno)
        };
        let needed = segments.live.iter().find(|segment| {
            let mut pins = lock(&segment.pins);
            let Some(pins) = &mut *pins else { return true };
            // A flushed number stays flushed: each pin is checked until then, and not again.
            while pins.pop_if(|pin| !is_pin(pin)).is_some() {}
            !pins.is_empty()
        });
        needed
            .or(segments.live.back())
            .map_or(0, |segment| segment.number)
    }

    /// Retires the segments numbered below `first_needed`. The manifest must say durably that they
    /// are not needed. Their records are durable elsewhere or dropped, so no thread waits for their
    /// sync; `durable` moves past them.
    /// Those numbered from `kept` on are kept for slots.
    pub(crate) fn retire(&self, first_needed: u32, kept: u32) {
        let start = LogPosition {
            segment: first_needed,
            offset: 0,
        };
        {
            let _no_sync_begins = lock(&self.sync);
            self.durable.fetch_max(start.packed(), Ordering::AcqRel);
        }
        loop {
            let segment = {
                let mut segments = lock(&self.segments);
                if segments
                    .live
                    .front()
                    .is_none_or(|s| s.number >= first_needed)
                {
                    return;
                }
                segments.live.pop_front()
            };
            let Some(segment) = segment else { return };
            let kept_segment = Kept {
                number: segment.number,
                from: SeqNo(segment.from.load(Ordering::Relaxed)),
                path: segment.path.clone(),
                bytes: segment.file.capacity_bytes(),
            };
            match segment.number >= kept {
                true => self.keep(kept_segment),
                false => self.reuse(kept_segment.path, kept_segment.bytes),
            }
        }
    }

    /// Keeps a segment behind those that are kept already.
    pub(crate) fn keep(&self, segment: Kept) {
        lock(&self.segments).kept.push_back(segment);
    }

    /// The oldest segment that has changes for slots, each with its position and the bytes that it
    /// keeps at most, and the number before its records. A slot that would keep more has lost its
    /// place.
    pub(crate) fn needed_by(&self, slots: impl Iterator<Item = (SeqNo, u64)>) -> (u32, SeqNo) {
        let segments = lock(&self.segments);
        let live = segments.live.front();
        let live = live.map_or((u32::MAX, SeqNo(u64::MAX)), |it| {
            (it.number, SeqNo(it.from.load(Ordering::Relaxed)))
        });
        let needed = slots.filter_map(|(position, bytes_max)| {
            let kept = segments.kept.iter().rev();
            let mut bytes = 0;
            let mut oldest = live;
            for segment in kept {
                if oldest.1.0 <= position.0 + 1 {
                    break;
                }
                bytes += segment.bytes;
                oldest = (segment.number, segment.from);
            }
            (bytes <= bytes_max).then_some(oldest)
        });
        let (segment, from) = needed.min().unwrap_or(live);
        (segment, SeqNo(from.0.saturating_sub(1)))
    }

    /// Lets go of the kept segments numbered below `needed`.
    pub(crate) fn release_kept(&self, needed: u32) {
        loop {
            let mut segments = lock(&self.segments);
            if segments.kept.front().is_none_or(|it| it.number >= needed) {
                return;
            }
            let Some(segment) = segments.kept.pop_front() else {
                return;
            };
            drop(segments);
            self.reuse(segment.path, segment.bytes);
        }
    }

    /// Takes over a segment file of an earlier log whose records are no longer needed.
    pub(crate) fn reuse(&self, path: PathBuf, bytes: u64) {
        let mut segments = lock(&self.segments);
        if bytes == self.segment_bytes && segments.retired.len() < RETIRED_MAX {
            segments.retired.push((path, bytes));
            return;
        }
        drop(segments);
        // The next recovery tries again to remove a file that stays behind.
        let _ = self.storage.remove(&path);
    }

    /// The partitions that pin the oldest segment: those to flush when the log is too long.
    pub(crate) fn oldest_pins(
        &self,
        flushed_through: impl Fn(PartitionId) -> Option<SeqNo>,
    ) -> Vec<PartitionId> {
        let segments = lock(&self.segments);
        let Some(oldest) = segments.live.front() else {
            return Vec::new();
        };
        let pins = lock(&oldest.pins);
        let is_pin =
            |&&(p, seqno): &&(PartitionId, SeqNo)| flushed_through(p).is_some_and(|f| f < seqno);
        let pins = pins.iter().flatten().filter(is_pin);
        pins.map(|&(p, _)| p).collect()
    }

    /// The size in bytes of all segments that are needed.
    pub(crate) fn live_bytes(&self) -> u64 {
        lock(&self.segments)
            .live
            .iter()
            .map(|s| s.file.capacity_bytes())
            .sum()
    }

    /// The bytes of records written, and the number of syncs, since the log was opened.
    pub(crate) fn counts(&self) -> (u64, u64) {
        let syncs = self.syncs.load(Ordering::Relaxed);
        (self.bytes_written.get(), syncs)
    }
}

fn needed_bytes(payload_bytes: usize) -> u64 {
    let end = Form::Full.end(SEGMENT_HEADER_BYTES as u64, payload_bytes as u64);
    Form::Full.end(end, 0)
}

fn fits(segment: &LiveSegment, payload_bytes: usize) -> bool {
    needed_bytes(payload_bytes) <= segment.file.capacity_bytes()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
