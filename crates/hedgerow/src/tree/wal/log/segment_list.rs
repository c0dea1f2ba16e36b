//! The segments of the log: prepared ahead, live, kept for slots, reused.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use hedgerow_io::Segment;

use crate::base::entry::{LogPosition, PartitionId, SeqNo};
use crate::base::error::{Error, Result};
use crate::tree::wal::record::{Form, RECORD_HEADER_BYTES, SEGMENT_HEADER_BYTES, SegmentHeader};

use super::{Log, PREPARED_BYTES, lock, segment_name};

/// The approximate bytes of segments that are prepared ahead. On a system that is busy with the
/// writes of a flush, a preparation takes some hundred milliseconds, and commits should not wait
/// for it.
const SPARE_BYTES: u64 = 32 << 20;
/// The size of the first segment of an open database. With the spare behind it, a database of a few
/// keys takes less than a mebibyte.
pub(super) const FIRST_BYTES: u64 = 128 << 10;
/// The factor from a segment to the next, until they have their full size. A roll costs a few
/// milliseconds of preparation, so there are few small segments.
const GROWTH: u64 = 4;
/// The maximum number of retired segments that wait to be reused.
const RETIRED_MAX: usize = 2;

/// A segment with records that may still be needed.
#[derive(Debug)]
pub(crate) struct LiveSegment {
    pub(super) number: u32,
    /// The number from which its records count.
    pub(super) first_seqno: SeqNo,
    /// The number from which its records begin; set when it is begun.
    pub(super) from: AtomicU64,
    pub(super) path: PathBuf,
    pub(super) file: Arc<dyn Segment>,
    /// `None` until the segment is sealed.
    pub(super) pins: Mutex<Option<Pins>>,
}

/// A segment that only slots need.
#[derive(Debug)]
pub(crate) struct FeedSegment {
    pub(crate) number: u32,
    /// The number from which its records begin.
    pub(crate) from: SeqNo,
    pub(crate) path: PathBuf,
    pub(crate) bytes: u64,
}

/// The highest number that each partition wrote into a segment, without the partitions already
/// found flushed.
type Pins = Vec<(PartitionId, SeqNo)>;

#[derive(Debug, Default)]
pub(super) struct Segments {
    /// Oldest first; the last one is the tail's.
    pub(super) live: VecDeque<Arc<LiveSegment>>,
    /// Prepared, in the order of their numbers.
    pub(super) spares: VecDeque<Arc<LiveSegment>>,
    /// Older than the live ones, oldest first.
    pub(super) kept: VecDeque<FeedSegment>,
    /// Files whose records are no longer needed.
    pub(super) retired: Vec<(PathBuf, u64)>,
    pub(super) next_number: u32,
    /// The size of the next segment that is made.
    pub(super) next_bytes: u64,
}

/// A spare that is about to be made.
struct NextSpare {
    number: u32,
    /// Spares that give their numbers back.
    too_small: VecDeque<Arc<LiveSegment>>,
    /// The retired file that it takes over.
    reused: Option<PathBuf>,
    bytes: u64,
    /// The size that is enough when the disk is nearly full.
    least_bytes: u64,
}

impl Log {
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
        let Some(next) = self.next_spare(payload_bytes, wanted) else {
            return Ok(false);
        };
        let path = self.dir.join(segment_name(next.number));
        let file = self.make(&next, &path, next_seqno).map_err(|e| {
            // The next attempt has the same number, and finds its name free.
            let _ = self.storage.remove(&path);
            Error::io("prepare a log segment", &path, e)
        })?;
        file.prepare(0..(2 * PREPARED_BYTES).min(file.capacity_bytes()));
        let mut segments = lock(&self.segments);
        segments.next_number = next.number + 1;
        segments.next_bytes = (file.capacity_bytes() * GROWTH).min(self.segment_bytes);
        segments.spares.push_back(Arc::new(LiveSegment {
            number: next.number,
            first_seqno: next_seqno,
            from: AtomicU64::new(next_seqno.0),
            path,
            file,
            pins: Mutex::default(),
        }));
        Ok(true)
    }

    /// Chooses the next spare, unless there are `wanted` ones that fit.
    fn next_spare(&self, payload_bytes: usize, wanted: usize) -> Option<NextSpare> {
        let needed = needed_bytes(payload_bytes);
        let mut segments = lock(&self.segments);
        let all_fit = segments.spares.iter().all(|s| fits(s, payload_bytes));
        if segments.spares.len() >= wanted && all_fit {
            return None;
        }
        let reusable = |&(_, bytes): &(_, u64)| bytes == self.segment_bytes;
        let reused = (needed <= self.segment_bytes)
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
        Some(NextSpare {
            number: segments.next_number,
            too_small,
            reused,
            bytes: segments.next_bytes.max(needed),
            least_bytes: FIRST_BYTES.max(needed),
        })
    }

    /// Makes the file of a spare. It and its name are durable afterwards.
    fn make(
        &self,
        next: &NextSpare,
        path: &Path,
        next_seqno: SeqNo,
    ) -> io::Result<Arc<dyn Segment>> {
        for spare in &next.too_small {
            self.storage.remove(&spare.path)?;
        }
        let file = match &next.reused {
            Some(from) => self.storage.recycle_segment(from, path)?,
            None => match self.storage.create_segment(path, next.bytes) {
                // A nearly full disk may have room for a small one.
                Err(e)
                    if e.kind() == io::ErrorKind::StorageFull && next.least_bytes < next.bytes =>
                {
                    self.storage.create_segment(path, next.least_bytes)?
                }
                created => created?,
            },
        };
        let header = SegmentHeader::new(next.number, self.durable(), next_seqno);
        let header = header.compressing(self.compresses);
        file.write_at(0, &header.encode())?;
        // The former bytes of the file at the place of the first record must not be taken for a
        // record of this segment by the next reader, checksum or not.
        file.write_at(SEGMENT_HEADER_BYTES as u64, &[0; RECORD_HEADER_BYTES])?;
        file.sync()?;
        self.storage.sync_dir(&self.dir)?;
        Ok(file)
    }

    pub(super) fn take_spare(&self, payload_bytes: usize) -> Option<Arc<LiveSegment>> {
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
        let pairs = segments.live.iter().zip(segments.live.iter().skip(1));
        let needed = pairs.map(|(segment, next)| {
            let mut pins = lock(&segment.pins);
            let Some(pins) = &mut *pins else { return true };
            // A flushed number stays flushed: each pin is checked until then, and not again.
            while pins.pop_if(|pin| !is_pin(pin)).is_some() {}
            // No partition has the number of a mark. It is copied before it is published.
            let has_all = next.from.load(Ordering::Relaxed) <= published.0 + 1;
            !pins.is_empty() || !has_all
        });
        let released = needed.take_while(|is_needed| !is_needed).count();
        segments.live.get(released).map_or(0, |it| it.number)
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
            let kept_segment = FeedSegment {
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
    pub(crate) fn keep(&self, segment: FeedSegment) {
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
}

fn needed_bytes(payload_bytes: usize) -> u64 {
    let end = Form::Full.end(SEGMENT_HEADER_BYTES as u64, payload_bytes as u64);
    Form::Full.end(end, 0)
}

fn fits(segment: &LiveSegment, payload_bytes: usize) -> bool {
    needed_bytes(payload_bytes) <= segment.file.capacity_bytes()
}
