//! The place in the log where the next commit puts its record.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use arc_swap::{ArcSwap, Guard};
use hedgerow_mem::CachePadded;

use crate::base::entry::{LogPosition, PartitionId, SeqNo};
use crate::tree::wal::payload::MARK;
use crate::tree::wal::record::{Form, SEGMENT_HEADER_BYTES};

use super::segment_list::LiveSegment;

/// The part of a segment in which at least one record is full and says what is durable.
const SAYING_BYTES: u64 = 4 << 10;

/// The place of the next record. Part of the state that the commit's lock guards.
#[derive(Debug)]
pub(crate) struct Tail {
    /// Loaded briefly by each commit; a reference count would cost more than the load.
    segment: ArcSwap<LiveSegment>,
    number: u32,
    first_seqno: SeqNo,
    capacity_bytes: u64,
    pub(super) offset: u64,
    /// The durable position that the last full record says at least, and the part of the segment
    /// where that record is.
    said: Option<(LogPosition, u64)>,
    /// The partitions that wrote into this segment, with the number of their latest write.
    pub(super) touched: Vec<(PartitionId, Arc<CachePadded<AtomicU64>>)>,
}

/// A place in the log that one commit owns.
#[derive(Debug)]
pub(crate) struct Reservation {
    pub(super) segment: Guard<Arc<LiveSegment>>,
    pub(super) form: Form,
    pub(super) offset: u64,
    pub(super) end: u64,
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

/// The work that a part of a segment leaves when it is full.
#[derive(Debug)]
pub(crate) struct SegmentUpkeep {
    pub(super) segment: Arc<LiveSegment>,
    /// The next part but one. Writers may be in the next one already.
    pub(super) ahead: Range<u64>,
    /// The part before, which has no room for further records either.
    pub(super) behind: Range<u64>,
}

impl SegmentUpkeep {
    /// Makes the part ahead ready for writers, and starts writing the one behind to the medium,
    /// without waiting. A flush syncs the log first: writing all records of a memtable at once
    /// would block the device's reads for that time.
    pub(crate) fn run(self) {
        if !self.ahead.is_empty() {
            self.segment.file.prepare(self.ahead);
        }
        if !self.behind.is_empty() {
            self.segment.file.write_back(self.behind);
        }
    }
}

impl Tail {
    pub(super) fn new(segment: Arc<LiveSegment>) -> Tail {
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
        // Recovery copies records with smaller numbers than the segment's.
        let after = first_seqno.0.checked_sub(self.first_seqno.0);
        let form = match after.filter(|_| self.said == saying) {
            Some(after) => Form::shortest(payload_bytes, ops, after),
            None => Form::Full,
        };
        let end = form.end(self.offset, payload_bytes as u64);
        let with_seal = Form::Full.end(end, 0);
        if with_seal > self.capacity_bytes {
            return None;
        }
        self.said = saying;
        Some(self.take(form, end))
    }

    /// Takes the place for the mark of a number, if there is room. The segment stays until the
    /// number is published, which happens after the mark is written.
    pub(crate) fn reserve_mark(
        &mut self,
        seqno: SeqNo,
        durable: LogPosition,
    ) -> Option<Reservation> {
        let place = self.reserve(MARK.len(), 1, seqno, durable)?;
        let latest = Arc::new(CachePadded(AtomicU64::new(seqno.0)));
        self.touched.push((PartitionId::NONE, latest));
        Some(place)
    }

    pub(super) fn take(&mut self, form: Form, end: u64) -> Reservation {
        let offset = std::mem::replace(&mut self.offset, end);
        Reservation {
            segment: self.segment.load(),
            form,
            offset,
            end,
        }
    }
}
