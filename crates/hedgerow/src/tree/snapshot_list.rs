//! The sequence numbers of open snapshots, whose versions merges must keep.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use hedgerow_mem::Publisher;

use crate::base::entry::SeqNo;
use crate::base::runtime::lock;

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
    /// By registration: the number of the snapshot, and the time when it was taken.
    snapshots: BTreeMap<u64, (SeqNo, Duration)>,
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
        now: Duration,
        also: impl FnOnce() -> T,
    ) -> (Registration, SeqNo, T) {
        let mut open = self.lock();
        let seqno = SeqNo(publisher.published());
        let id = open.next;
        open.next += 1;
        open.snapshots.insert(id, (seqno, now));
        (Registration(id), seqno, also())
    }

    /// Makes a change between two snapshots: meanwhile none is taken, and no merge lists them.
    pub(crate) fn while_none_is_taken(&self, change: impl FnOnce()) {
        let _open = self.lock();
        change();
    }

    pub(crate) fn release(&self, registration: Registration) {
        self.lock().snapshots.remove(&registration.0);
    }

    /// The numbers of all open snapshots, ascending, each once.
    pub(crate) fn numbers(&self) -> Vec<SeqNo> {
        let mut numbers: Vec<SeqNo> = self.lock().snapshots.values().map(|s| s.0).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }

    /// The number of open snapshots, and the time when the oldest was taken.
    pub(crate) fn oldest(&self) -> (usize, Option<Duration>) {
        let open = self.lock();
        (
            open.snapshots.len(),
            open.snapshots.values().map(|s| s.1).min(),
        )
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        lock(&self.open)
    }
}
