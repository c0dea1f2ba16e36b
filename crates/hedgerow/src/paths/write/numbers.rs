//! Sequence numbers without operations: of a slot, a bulk load, a clear, a drop.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use hedgerow_mem::Ticket;

use crate::base::entry::{LogPosition, SeqNo};
use crate::base::error::Result;
use crate::tree::engine::Engine;
use crate::tree::partition::Partition;
use crate::tree::wal::Reservation;
use crate::tree::wal::payload::MARK;

use super::next_segment;
use super::seal::seal;

/// A sequence number without a record in the log, or with a mark. Dropping it publishes the number;
/// no larger number is published before.
pub(crate) struct UnloggedNumber<'a> {
    engine: &'a Engine,
    pub(crate) seqno: SeqNo,
    /// Every record with a smaller number lies before this position.
    pub(crate) log_end: LogPosition,
    ticket: Option<Ticket>,
    mark: Option<Reservation>,
}

impl Drop for UnloggedNumber<'_> {
    fn drop(&mut self) {
        if let (Some(place), Some(writer)) = (&self.mark, &self.engine.writer) {
            // A failure poisons the log, which the next write reports.
            let _ = writer.log.write(place, &MARK, 1, self.seqno);
        }
        if let Some(ticket) = self.ticket.take() {
            self.engine.publisher.finish(ticket);
        }
    }
}

/// The numbers that have a mark in the log.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Marked {
    /// Those that the change feed has to meet.
    WithSlots,
    Always,
}

/// Takes a number without a log record.
pub(crate) fn skip_number(engine: &Arc<Engine>) -> Result<UnloggedNumber<'_>> {
    take_number(engine, Marked::WithSlots, |_| ())
}

/// Takes the number of a bulk load. Seals the memtables of these partitions at it. Memtables sealed
/// later are not flushed until the caller drops `background::HeldFlushes`. For `update`, the load
/// counts as a write to every key.
///
/// It always has a mark. Writes with larger numbers are copied to the log while the load is not in
/// the manifest yet. Until the mark is written the log ends there for everybody who reads the
/// files, so that nobody sees such a write without the load.
pub(crate) fn number_bulk_load<'a>(
    engine: &'a Arc<Engine>,
    partitions: &[Arc<Partition>],
) -> Result<UnloggedNumber<'a>> {
    let writer = engine.writer()?;
    take_number(engine, Marked::Always, |at| {
        writer.whole_trees.hold_flushes(at);
        for partition in partitions {
            seal(engine, partition, at);
            partition.keyspace.ends.note_any(at);
            partition.keyspace.watchers.note_load();
        }
        writer.stripes.note_all(at);
    })
}

/// The number of a clear or a drop. Until this is dropped, no write is routed and no larger number
/// is published.
pub(crate) struct RerouteNumber<'a>(pub(crate) UnloggedNumber<'a>);

impl Drop for RerouteNumber<'_> {
    fn drop(&mut self) {
        self.0.engine.catalog.end_rerouting();
    }
}

/// Takes the number of a clear or a drop. Writes with smaller numbers have been routed to the
/// present trees; all others wait. The caller holds `Writer::whole_trees`.
pub(crate) fn begin_rerouting(engine: &Arc<Engine>) -> Result<RerouteNumber<'_>> {
    let number = take_number(engine, Marked::WithSlots, |at| {
        engine.catalog.begin_rerouting(at);
    });
    number.map(RerouteNumber)
}

/// Calls `inside` inside the critical section.
fn take_number(
    engine: &Arc<Engine>,
    marked: Marked,
    inside: impl FnOnce(SeqNo),
) -> Result<UnloggedNumber<'_>> {
    let writer = engine.writer()?;
    loop {
        let mut state = writer.commit();
        engine.check_open()?;
        let (seqno, log_end) = (state.next_seqno, state.tail.position());
        let mut mark = None;
        if marked == Marked::Always || writer.has_slots.load(Ordering::Relaxed) {
            let durable = writer.log.durable();
            mark = state.tail.reserve_mark(seqno, durable);
            if mark.is_none() {
                next_segment(engine, writer, state, MARK.len())?;
                continue;
            }
        }
        let Some(ticket) = engine.publisher.begin(seqno.0) else {
            if let Some(place) = mark {
                state.tail.give_back(place);
            }
            drop(state);
            engine.publisher.wait_for_slot();
            continue;
        };
        state.next_seqno = SeqNo(seqno.0 + 1);
        inside(seqno);
        return Ok(UnloggedNumber {
            engine,
            seqno,
            log_end,
            ticket: Some(ticket),
            mark,
        });
    }
}
