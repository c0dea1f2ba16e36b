//! The path of a write, top to bottom: admit it, take numbers and a place in the log, copy the
//! record there, apply it to the memtables, publish it, and sync if asked.
//!
//! Only one step is a critical section ([`reserve`]): it assigns sequence numbers, the place in the
//! log, and the memtables, all in the same order. Many threads copy, apply and sync outside of it
//! at once. Publication restores the order: a commit becomes visible when everything with a smaller
//! number has been applied.
//!
//! Cost of a put: two checksums and one copy of the record, one insertion into the memtable; no
//! system call, and no I/O unless it is `Synced`. A compressed log costs the compression of the
//! payload, too.

mod covering;
mod insertion;
mod numbers;
mod seal;

use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};

use arc_swap::Guard;
use hedgerow_mem::{Publisher, Ticket};

use crate::base::entry::{
    COVERING_BYTES, ENTRY_OVERHEAD_BYTES, KeyHash, Kind, LogPosition, PartitionId, SeqNo, Tag,
};
use crate::base::error::{Error, Result};
use crate::base::options::Durability;
use crate::base::range_tombstones::successor;
use crate::base::runtime::{Pressure, Priority, Throttle};
use crate::base::stats::{Job, OperationKind, Stats};
use crate::paths::background;
use crate::paths::background::wait;
use crate::paths::conflicts::Check;
use crate::table::memory::Memory;
use crate::tree::engine::{CommitState, Engine, Writer, stripe};
use crate::tree::memtable::Memtable;
use crate::tree::partition::Partition;
use crate::tree::partition::ends::End;
use crate::tree::version::SuperVersion;
use crate::tree::wal::Reservation;
use crate::tree::wal::payload::{PAYLOAD_BYTES_MAX, Payload, logged};
use insertion::write_and_apply;
pub(crate) use numbers::{UnloggedNumber, begin_rerouting, number_bulk_load, skip_number};
use seal::{after_roll, seal_largest};
pub(crate) use seal::{seal_all, seal_database};

/// One operation of a commit, routed.
pub(crate) struct WriteOp<'a> {
    pub(crate) partition: &'a Partition,
    pub(crate) hash: KeyHash,
    pub(crate) tag: Tag,
    pub(crate) user_key: &'a [u8],
    pub(crate) value: &'a [u8],
}

impl WriteOp<'_> {
    fn order_key<'k>(&'k self, scratch: &'k mut Vec<u8>) -> &'k [u8] {
        let order = &self.partition.keyspace.order;
        order.borrow(self.user_key, scratch)
    }

    /// The size of its entry in a memtable.
    fn memtable_bytes(&self) -> usize {
        let key_bytes = self.user_key.len() + self.partition.keyspace.order.added_bytes();
        let covering_bytes = match self.tag.kind {
            Kind::Merge => COVERING_BYTES,
            _ => 0,
        };
        key_bytes + self.value.len() + covering_bytes + ENTRY_OVERHEAD_BYTES
    }
}

/// The conditions that must still hold when the commit takes its numbers.
#[derive(Clone, Copy)]
pub(crate) struct Condition<'a> {
    /// The routing that the operations were made for.
    pub(crate) routing_epoch: u64,
    pub(crate) unchanged: Option<ReadFacts<'a>>,
    /// The commit waits for nothing but a critical section: neither for memory, nor for a segment
    /// of the log, nor for other commits to be published.
    pub(crate) at_once: bool,
}

/// The facts that a conditional write has read.
#[derive(Clone, Copy)]
pub(crate) enum ReadFacts<'a> {
    /// Those of one operation on a key.
    Key {
        stripe: usize,
        /// There is no write to the stripe after this number.
        seen: SeqNo,
        /// No put since the last look is nearer to this end than the key.
        nearest_to: Option<End>,
    },
    /// Those of a transaction.
    Basis(&'a Check<'a>),
}

impl ReadFacts<'_> {
    /// Returns true if the facts still hold. Inside the critical section.
    fn holds(&self, writer: &Writer, ops: &[WriteOp<'_>]) -> bool {
        match *self {
            ReadFacts::Basis(check) => check.holds(),
            ReadFacts::Key {
                stripe,
                seen,
                nearest_to,
            } => {
                let mut scratch = Vec::new();
                let is_nearest = |end| {
                    let key = ops[0].order_key(&mut scratch);
                    !ops[0].partition.keyspace.ends.has_nearer(end, key)
                };
                writer.stripes.latest(stripe) <= seen && nearest_to.is_none_or(is_nearest)
            }
        }
    }
}

/// The outcome of a commit that did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Committed,
    /// A keyspace was cleared or dropped: route the operations again.
    Rerouted,
    /// Another write came first.
    Changed,
    /// It was to be made at once, and would have had to wait. Nothing was written.
    WouldWait,
}

/// The resources of a commit after the critical section.
struct CommitPlace {
    place: Reservation,
    first: SeqNo,
    last: SeqNo,
    ticket: Ticket,
    /// The memtable of each operation.
    memtables: Memtables,
}

enum Memtables {
    /// The memtable of the tree. Loaded without a reference count, which would be a contended cache
    /// line.
    One(Guard<Arc<SuperVersion>>),
    Each(Vec<Arc<Memtable>>),
}

impl Memtables {
    fn get(&self, i: usize) -> &Arc<Memtable> {
        match self {
            Memtables::One(tree) => &tree.active,
            Memtables::Each(memtables) => &memtables[i],
        }
    }
}

/// Commits operations together. `payload` holds the same operations, as the log records them.
///
/// # Errors
/// `NoSpace` if there is no room for the log or for flushing; nothing was written then. `Poisoned`
/// after any failure of the log; then it is not known whether this commit survives a crash.
pub(crate) fn commit(
    engine: &Arc<Engine>,
    ops: &[WriteOp<'_>],
    payload: &Payload,
    condition: Condition<'_>,
    durability: Durability,
) -> Result<Outcome> {
    let writer = engine.writer()?;
    if payload.bytes().len() > PAYLOAD_BYTES_MAX {
        return Err(Error::invalid(format!(
            "expected a batch of at most {PAYLOAD_BYTES_MAX} bytes, found {} bytes",
            payload.bytes().len()
        )));
    }
    let bytes = payload.bytes().len() + ops.len() * ENTRY_OVERHEAD_BYTES;
    if !admit(engine, bytes, condition.at_once)? {
        return Ok(Outcome::WouldWait);
    }
    debug_assert_eq!(payload.count() as usize, ops.len());
    let logged = logged(payload.bytes(), writer.log.compresses);
    let reserved = match reserve(engine, writer, ops, logged.len(), condition)? {
        Ok(reserved) => reserved,
        Err(outcome) => return Ok(outcome),
    };

    let mut crowded = Vec::new();
    let (place, first) = (&reserved.place, reserved.first);
    let log = move || writer.log.write(place, &logged, payload.count(), first);
    let written = write_and_apply(&engine.publisher, ops, &reserved, &mut crowded, log);
    // A failed commit lets its successors proceed to find the log poisoned, instead of waiting.
    engine.publisher.finish(reserved.ticket);
    engine.publisher.wait(reserved.last.0);
    if let Some(upkeep) = written? {
        background::spawn_upkeep(engine, Priority::Log, Job::PrepareSegment, move |_| {
            upkeep.run();
        });
    }
    writer.log.check_poison()?;

    if durability == Durability::Synced {
        writer.log.sync_through(reserved.place.end())?;
    }
    count(&engine.stats, ops, &reserved.memtables);
    if !crowded.is_empty() {
        flush_crowded(engine, &crowded);
    }
    if engine.memory.pool.take_shortage() {
        background::spawn_upkeep(engine, Priority::Log, Job::PrepareMemory, |engine| {
            engine.memory.pool.prepare();
        });
    }
    engine.scheduler.poll();
    Ok(Outcome::Committed)
}

/// Returns true if a write waits for a flush now, because all memory of the memtables is in use.
pub(crate) fn waits(memory: &Memory) -> bool {
    memory.sealed.load(Ordering::Relaxed) != 0 && memory.memtables_fill() >= 1.0
}

/// Returns true if a write of `bytes` that begins now waits, because the background work is behind.
pub(crate) fn is_delayed(memory: &Memory, throttle: &Throttle, bytes: usize) -> bool {
    waits(memory) || throttle.delays(bytes)
}

/// Waits as long as a write that begins now waits for a flush.
pub(crate) fn wait_for_memory(engine: &Arc<Engine>) -> Result<()> {
    engine.writer()?;
    if waits(&engine.memory) {
        wait::for_memory(engine)?;
    }
    engine.check_open()
}

/// Delays the write while the background work is behind. Returns false if it is to be made at once
/// and would be delayed.
fn admit(engine: &Arc<Engine>, bytes: usize, at_once: bool) -> Result<bool> {
    let memory = &engine.memory;
    if memory.begin_writing() {
        background::spawn_upkeep(engine, Priority::Log, Job::DivideMemory, |engine| {
            engine.memory.balance();
        });
    }
    if memory.sealed.load(Ordering::Relaxed) != 0 {
        let fill = memory.memtables_fill();
        engine.throttle.set(Pressure::Memtables, fill);
        if fill >= 1.0 && !at_once {
            wait::for_memory(engine)?;
        }
    }
    if at_once {
        // A fill of 1 delays, too.
        return Ok(!engine.throttle.holds_back());
    }
    engine.throttle.admit(bytes);
    Ok(true)
}

/// Makes everything committed so far durable.
pub(crate) fn sync(engine: &Arc<Engine>) -> Result<()> {
    sync_all(engine.writer()?, &engine.publisher).map(drop)
}

/// Makes everything committed so far durable. Returns the end of the log and the last number.
pub(crate) fn sync_all(writer: &Writer, publisher: &Publisher) -> Result<(LogPosition, SeqNo)> {
    let (end, last) = {
        let state = writer.commit();
        (state.tail.position(), state.next_seqno.0 - 1)
    };
    publisher.wait(last);
    writer.log.sync_through(end)?;
    Ok((end, SeqNo(last)))
}

/// The critical section. If there is no log segment, prepares one outside of it.
fn reserve(
    engine: &Arc<Engine>,
    writer: &Writer,
    ops: &[WriteOp<'_>],
    logged_bytes: usize,
    condition: Condition<'_>,
) -> Result<std::result::Result<CommitPlace, Outcome>> {
    loop {
        let mut state = writer.commit();
        engine.check_open()?;
        writer.log.check_poison()?;
        if !engine.catalog.is_routed_at(condition.routing_epoch) {
            return Ok(Err(Outcome::Rerouted));
        }
        if let Some(unchanged) = &condition.unchanged
            && !unchanged.holds(writer, ops)
        {
            return Ok(Err(Outcome::Changed));
        }
        if condition.at_once && engine.publisher.published() + 1 < state.next_seqno.0 {
            return Ok(Err(Outcome::WouldWait));
        }
        let last = SeqNo(state.next_seqno.0 + ops.len() as u64 - 1);
        let (next, durable) = (state.next_seqno, writer.log.durable());
        let count = ops.len() as u32;
        let Some(place) = state.tail.reserve(logged_bytes, count, next, durable) else {
            if condition.at_once && !begin_segment(engine, writer, &mut state, logged_bytes)? {
                return Ok(Err(Outcome::WouldWait));
            }
            if !condition.at_once {
                next_segment(engine, writer, state, logged_bytes)?;
            }
            continue;
        };
        let Some(ticket) = engine.publisher.begin(last.0) else {
            // Outside the section, since the commits that hold the slots may need the lock.
            state.tail.give_back(place);
            drop(state);
            engine.publisher.wait_for_slot();
            continue;
        };
        let first = std::mem::replace(&mut state.next_seqno, SeqNo(last.0 + 1));
        let memtables = assign(engine, writer, &mut state, ops, first, place.end());
        return Ok(Ok(CommitPlace {
            place,
            first,
            last,
            ticket,
            memtables,
        }));
    }
}

/// Begins the next segment of the log, which has room for a record with this many payload bytes.
/// If none is prepared, prepares one outside of the critical section.
fn next_segment(
    engine: &Arc<Engine>,
    writer: &Writer,
    mut state: MutexGuard<'_, CommitState>,
    bytes: usize,
) -> Result<()> {
    if begin_segment(engine, writer, &mut state, bytes)? {
        return Ok(());
    }
    let next = state.next_seqno;
    drop(state);
    writer.log.prepare_spare(bytes, next)
}

/// Begins the next segment of the log. Returns false if none that is prepared has room for this
/// many payload bytes.
fn begin_segment(
    engine: &Arc<Engine>,
    writer: &Writer,
    state: &mut CommitState,
    bytes: usize,
) -> Result<bool> {
    let next = state.next_seqno;
    let has_begun = writer.log.roll(&mut state.tail, bytes, next)?;
    if has_begun {
        after_roll(engine, writer, state);
    }
    Ok(has_begun)
}

/// Chooses the memtable of each operation. Seals full memtables.
fn assign(
    engine: &Arc<Engine>,
    writer: &Writer,
    state: &mut CommitState,
    ops: &[WriteOp<'_>],
    first: SeqNo,
    log_end: LogPosition,
) -> Memtables {
    // Full memtables are sealed below the whole batch, so that no seal divides it.
    for op in ops {
        let keyspace = &op.partition.keyspace;
        if keyspace.active.load(Ordering::Relaxed) >= keyspace.design().memtables_bytes {
            let catalog = engine.catalog.load();
            let state = catalog.states.get(&keyspace.id);
            let trees = state.into_iter().flat_map(|state| &state.partitions);
            seal_largest(engine, first, trees);
        }
    }
    if engine.memory.active.load(Ordering::Relaxed) >= engine.memory.plan().active() {
        let catalog = engine.catalog.load();
        seal_largest(engine, first, catalog.partitions.values());
    }
    let mut chosen = Vec::with_capacity(if ops.len() == 1 { 0 } else { ops.len() });
    for (i, op) in ops.iter().enumerate() {
        let seqno = first.0 + i as u64;
        match op.tag.kind {
            Kind::RangeDelete => writer.stripes.note_all(SeqNo(seqno)),
            _ => writer.stripes.note(stripe(op.hash), SeqNo(seqno)),
        }
        op.partition.latest_write().store(seqno, Ordering::Relaxed);
        if op.partition.log_segment.load(Ordering::Relaxed) != state.tail.segment_number() {
            note_write(state, op, SeqNo(seqno));
        }
        let bytes = op.memtable_bytes();
        let tree = op.partition.tree();
        tree.active.reserve(bytes, log_end);
        (engine.memory).add_active(&op.partition.keyspace.active, bytes as u64);
        if ops.len() == 1 {
            return Memtables::One(tree);
        }
        chosen.push(tree.active.clone());
    }
    Memtables::Each(chosen)
}

/// Registers the partition of a write in the segment, and notes the write for the transactions that
/// watch its keyspace, and a put for its pops.
fn note_write(state: &mut CommitState, op: &WriteOp<'_>, seqno: SeqNo) {
    let partition = op.partition;
    state.register(partition);
    if partition.keyspace.watchers.is_watched() {
        note_watched(op, seqno);
    }
    let ends = &partition.keyspace.ends;
    match op.tag.kind {
        _ if !ends.is_watched() => {}
        Kind::Delete => {}
        // It puts nothing, but the next look must see it.
        Kind::RangeDelete => ends.note_write(seqno),
        _ => ends.note(op.order_key(&mut Vec::new()), seqno),
    }
}

/// Notes a write for the transactions that watch its keyspace.
fn note_watched(op: &WriteOp<'_>, seqno: SeqNo) {
    let keyspace = &op.partition.keyspace;
    if op.tag.kind == Kind::RangeDelete {
        let delete = keyspace.range_tombstone(op.user_key, op.value, seqno);
        let delete = delete.expect("a range is checked before it is committed");
        for range in delete.fragments() {
            keyspace.watchers.note(&range.start, &range.end);
        }
        return;
    }
    let mut scratch = Vec::new();
    let key = op.order_key(&mut scratch);
    keyspace.watchers.note(key, &successor(key));
}

/// Seals the active memtables of these partitions, so that they are flushed.
#[cold]
fn flush_crowded(engine: &Arc<Engine>, partitions: &[PartitionId]) {
    let catalog = engine.catalog.load();
    let crowded = partitions
        .iter()
        .filter_map(|id| catalog.partitions.get(id));
    // The commit has succeeded, also if the database is closed now.
    drop(seal_all(engine, crowded));
}

fn count(stats: &Stats, ops: &[WriteOp<'_>], memtables: &Memtables) {
    let is_delete = |op: &&WriteOp<'_>| matches!(op.tag.kind, Kind::Delete | Kind::RangeDelete);
    let mut all_deletes = 0;
    // A batch has few keyspaces, most often in consecutive operations.
    for of_one in ops.chunk_by(|a, b| a.partition.keyspace.id == b.partition.keyspace.id) {
        let deletes = of_one.iter().filter(is_delete).count() as u64;
        let operations = &of_one[0].partition.keyspace.operations;
        operations.add(OperationKind::Puts, of_one.len() as u64 - deletes);
        if deletes > 0 {
            operations.add(OperationKind::Deletes, deletes);
            all_deletes += deletes;
        }
    }
    if all_deletes > 0 {
        let deletes = ops.iter().enumerate().filter(|(_, op)| is_delete(op));
        deletes.for_each(|(i, _)| memtables.get(i).count_tombstone());
    }
    let bytes: usize = ops
        .iter()
        .map(|op| op.user_key.len() + op.value.len())
        .sum();
    stats.user_bytes.add(bytes as u64);
}
