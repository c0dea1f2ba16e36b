//! The path of a pop: takes the first or the last entry of a sorted keyspace, atomically.
//!
//! The pops of an end take turns. A pop has the next entries from a look ahead, and deletes one of
//! them on two conditions, which the commit checks in its critical section: nothing has written to
//! the key's stripe since the look, and nothing has put a key nearer to the end. Otherwise, and if
//! the entry has expired since, it looks again.
//!
//! A look begins where the look before has ended, or at the nearest key put since
//! ([`ends`](crate::tree::partition::ends)). So it steps over the tombstones of one look, however
//! many entries were popped before.
//!
//! Cost: a delete; and a seek and some steps for each [`ENTRIES_AHEAD`] pops.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::base::entry::{KeyHash, Tag};
use crate::base::error::Result;
use crate::base::options::Durability;
use crate::paths::scan::{Cursor, Extent, Pair, Scan, View};
use crate::paths::write;
use crate::paths::write::{Condition, Outcome, ReadFacts, WriteOp};
use crate::tree::engine::{Handle, KeyspaceCell, stripe};
use crate::tree::partition::ends::{Ahead, End};
use crate::tree::wal::payload::Payload;

/// The entries that a look reads.
const ENTRIES_AHEAD: usize = 64;
/// The bytes of keys and values after which a look ends.
const BYTES_AHEAD: usize = 32 << 10;

/// Takes the entry at an end, buffered; `None` if there is none.
pub(crate) fn pop(engine: &Handle, cell: &Arc<KeyspaceCell>, end: End) -> Result<Option<Pair>> {
    cell.facts.order.check_ranges()?;
    // Before the reads of a look, so that a pop that cannot write reports that.
    engine.writer()?;
    let mut ahead = cell.facts.ends.turn(end);
    loop {
        // A database that takes no writes says so before it reads.
        engine.writer()?;
        cell.check_not_dropped()?;
        if ahead.entries.is_empty() {
            look(engine, cell, end, &mut ahead)?;
        }
        let Some(((key, value), expires)) = ahead.entries.pop_front() else {
            return Ok(None);
        };
        if expires.is_some_and(|at| at <= engine.time()) {
            ahead.entries.clear();
            continue;
        }
        match delete(engine, cell, end, &ahead, &key) {
            Ok(Outcome::Committed) => {
                let mut scratch = Vec::new();
                ahead.reach(cell.facts.order.borrow(&key, &mut scratch));
                return Ok(Some((key, value)));
            }
            Ok(Outcome::Rerouted | Outcome::Changed | Outcome::WouldWait) => ahead.entries.clear(),
            Err(error) => {
                ahead.entries.clear();
                return Err(error);
            }
        }
    }
}

/// Reads the next entries at an end.
fn look(engine: &Handle, cell: &Arc<KeyspaceCell>, end: End, ahead: &mut Ahead) -> Result<()> {
    let ends = &cell.facts.ends;
    if !ends.is_watched() {
        let commits = engine.writer()?.commit();
        ends.watch(commits.next_seqno);
        for partition in &cell.state.load().partitions {
            partition.log_segment.store(0, Ordering::Relaxed);
        }
    }
    let (begin, newest) = ends.take(end, ahead);
    engine.publisher.wait(newest.0);
    // Loaded before the trees, so that a clear in between is noticed.
    ahead.routing_epoch = engine.routing_epoch();
    let extent = Extent::from(end, begin);
    let view = View::present(engine, cell.state.load_full(), &extent.bounds)?;
    ahead.seqno = view.seqno();
    let mut scan = Scan::new(view, extent);
    let mut bytes = 0;
    while ahead.entries.len() < ENTRIES_AHEAD && bytes < BYTES_AHEAD {
        let next = scan.advance(end, Cursor::expiring_pair);
        if ahead.entries.is_empty()
            && let Some(reached) = scan.reached(end)
        {
            ahead.reach(reached);
        }
        let Some((pair, expires)) = next.transpose()? else {
            break;
        };
        bytes += pair.0.len() + pair.1.len();
        ahead.entries.push_back((pair, expires));
    }
    Ok(())
}

/// Deletes the key of an entry, unless it is no longer the entry at the end.
fn delete(
    engine: &Handle,
    cell: &KeyspaceCell,
    end: End,
    ahead: &Ahead,
    key: &[u8],
) -> Result<Outcome> {
    let facts = &cell.facts;
    let hash = KeyHash::of(key, facts.seed);
    let state = cell.state.load();
    let partition = state.route(key, hash);
    let mut payload = Payload::new();
    payload.push(partition.id, Tag::DELETE, key, b"");
    let op = WriteOp {
        partition,
        hash,
        tag: Tag::DELETE,
        user_key: key,
        value: b"",
    };
    let condition = Condition {
        routing_epoch: ahead.routing_epoch,
        unchanged: Some(ReadFacts::Key {
            stripe: stripe(hash),
            seen: ahead.seqno,
            nearest_to: Some(end),
        }),
        at_once: false,
    };
    write::commit(engine, &[op], &payload, condition, Durability::Buffered)
}
