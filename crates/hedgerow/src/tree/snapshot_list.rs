//! The sequence numbers of open snapshots, whose versions merges must keep.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use hedgerow_mem::Publisher;

use crate::base::entry::SeqNo;
use crate::base::mutex::lock;

/// The open snapshots of a database.
///
/// A snapshot is registered under the lock under which its number is read, and a merge lists the
/// snapshots under that lock, too. Everything in tables was published before the list was made,
/// since bulk loads are installed and published under the lock. So a snapshot registered later
/// reads at a number at or above all of it, and the rule of [`crate::paths::compaction::retain`]
/// keeps its versions without knowing it.
#[derive(Debug, Default)]
pub(crate) struct SnapshotList {
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    next: u64,
    /// By registration.
    snapshots: BTreeMap<u64, SnapshotEntry>,
}

#[derive(Debug)]
struct SnapshotEntry {
    seqno: SeqNo,
    /// The time at which it was taken.
    taken: Duration,
    /// The time by which entries have expired for it.
    time: u64,
}

/// The facts about readers that a merge must respect.
#[derive(Debug, Default)]
pub(crate) struct SnapshotFacts {
    /// The numbers that open snapshots read at, ascending, each once.
    pub(crate) snapshots: Vec<SeqNo>,
    /// Entries that expire up to this time have expired for all of them, and for everybody who
    /// reads from now on. A snapshot that is registered later has a later time.
    pub(crate) expired: u64,
    /// The registration of the next snapshot.
    pub(crate) next: u64,
}

#[cfg(test)]
impl SnapshotFacts {
    /// The facts about these snapshots while nothing expires.
    pub(crate) fn by(snapshots: &[SeqNo]) -> SnapshotFacts {
        SnapshotFacts {
            snapshots: snapshots.to_vec(),
            ..SnapshotFacts::default()
        }
    }
}

/// A registration. Return it with [`SnapshotList::release`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Registration(u64);

impl SnapshotList {
    /// Registers a snapshot of everything published. Also returns the result of a function that is
    /// called at that moment.
    pub(crate) fn register<T>(
        &self,
        publisher: &Publisher,
        taken: Duration,
        time: impl FnOnce() -> u64,
        also: impl FnOnce() -> T,
    ) -> (Registration, (SeqNo, u64), T) {
        let mut open = self.lock();
        let (seqno, time) = (SeqNo(publisher.published()), time());
        let id = open.next;
        open.next += 1;
        let registered = SnapshotEntry { seqno, taken, time };
        open.snapshots.insert(id, registered);
        (Registration(id), (seqno, time), also())
    }

    /// Makes a change between two snapshots: meanwhile none is taken, and no merge lists them.
    pub(crate) fn while_none_is_taken(&self, change: impl FnOnce()) {
        let _open = self.lock();
        change();
    }

    pub(crate) fn release(&self, registration: Registration) {
        self.lock().snapshots.remove(&registration.0);
    }

    /// The number of the oldest snapshot, or the published one. Everybody sees all writes up to it.
    pub(crate) fn oldest_read(&self, publisher: &Publisher) -> SeqNo {
        let open = self.lock();
        let numbers = open.snapshots.values().map(|it| it.seqno);
        numbers.min().unwrap_or(SeqNo(publisher.published()))
    }

    /// The facts about readers for a merge that begins now.
    pub(crate) fn held(&self, now: impl FnOnce() -> u64) -> SnapshotFacts {
        let open = self.lock();
        let times = open.snapshots.values().map(|it| it.time);
        let time = times.fold(now(), u64::min);
        let mut numbers: Vec<SeqNo> = open.snapshots.values().map(|it| it.seqno).collect();
        numbers.sort_unstable();
        numbers.dedup();
        SnapshotFacts {
            snapshots: numbers,
            expired: time,
            next: open.next,
        }
    }

    /// Holds off new snapshots; `None` if one is open that was registered from this one on.
    pub(crate) fn hold_unless_taken(&self, from: u64) -> Option<impl Sized> {
        let open = self.lock();
        let is_taken = open.snapshots.range(from..).next().is_some();
        (!is_taken).then_some(open)
    }

    /// The number of open snapshots, and the time when the oldest was taken.
    pub(crate) fn oldest(&self) -> (usize, Option<Duration>) {
        let open = self.lock();
        (
            open.snapshots.len(),
            open.snapshots.values().map(|it| it.taken).min(),
        )
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        lock(&self.open)
    }
}
