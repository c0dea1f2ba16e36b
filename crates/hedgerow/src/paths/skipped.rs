//! Flushes that are due by the entries that scans step over.
//!
//! A tombstone stays in its memtable until this is full, and so does an entry that a range delete
//! hides, and every scan from the same place steps over it again. So stepping counts: once it took
//! about as long as a flush takes, the memtables with many tombstones or with range deletes are
//! flushed. A flush keeps one tombstone of each key and none of its older entries, and merges drop
//! the rest.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::paths::write;
use crate::tree::engine::{Engine, KeyspaceState};
use crate::tree::memtable::Memtable;

/// The entries after which a flush is due. Stepping over these takes some 30 ms, and so does a
/// flush.
const SKIPPED_PER_FLUSH: u64 = 1 << 20;
/// A memtable with fewer tombstones is not flushed for scans.
const TOMBSTONES_MIN: u64 = 256;

/// Counts entries that a scan of some partitions has stepped over, and seals memtables if a flush
/// is due.
#[cold]
pub(crate) fn count(
    engine: &Arc<Engine>,
    state: &KeyspaceState,
    asked: Range<usize>,
    skipped: u64,
) {
    let before = state
        .facts
        .extras()
        .skipped
        .fetch_add(skipped, Ordering::Relaxed);
    if before + skipped < SKIPPED_PER_FLUSH {
        return;
    }
    state.facts.extras().skipped.store(0, Ordering::Relaxed);
    let asked = state.partitions[asked].iter();
    let is_full = |active: &Memtable| active.tombstones() >= TOMBSTONES_MIN || active.has_ranges();
    let full = asked.filter(|it| is_full(&it.tree().active));
    // A database that is closed or opened for reading only has nothing to flush.
    let _ = write::seal_all(engine, full);
}
