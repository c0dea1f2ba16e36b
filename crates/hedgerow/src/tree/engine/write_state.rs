//! The parts of a database that is opened for writing.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use hedgerow_io::FileLock;

use crate::base::entry::{KeyHash, KeyspaceId, PartitionId, SeqNo};
use crate::base::mutex::lock;
use crate::base::names::Names;
use crate::base::page::TableId;
use crate::base::runtime::RateLimiter;
use crate::design::advisor::Device;
use crate::tree::partition::Partition;
use crate::tree::version::VersionSet;
use crate::tree::version::edit::Change;
use crate::tree::version::state::State;
use crate::tree::wal::{Log, Tail};

/// The number of stripes of keys. Writes to one stripe count as conflicting for `update`, and are
/// looked at by transactions.
pub(crate) const STRIPES: usize = 4096;

/// The stripe in which a key's writes are counted.
pub(crate) fn stripe(hash: KeyHash) -> usize {
    hash.high() as usize % STRIPES
}

/// The parts of a database that is opened for writing.
pub(crate) struct Writer {
    pub(crate) log: Log,
    pub(crate) log_bytes_max: u64,
    pub(crate) commit: Mutex<CommitState>,
    pub(crate) stripes: Stripes,
    pub(crate) manifest: Mutex<VersionSet>,
    pub(crate) ids: Ids,
    pub(crate) preparing_spares: AtomicBool,
    /// True while there are slots. Changed only under [`Writer::whole_trees`].
    pub(crate) has_slots: AtomicBool,
    pub(crate) whole_trees: WholeTrees,
    /// The pace of flushes and merges.
    pub(crate) rate_limiter: RateLimiter,
    /// The costs of reads and writes, for keyspaces that tune themselves.
    pub(crate) device: Device,
    /// Trees whose blocks may be read into the page cache when there is time.
    pub(crate) to_warm: Mutex<BTreeSet<PartitionId>>,
    /// Closed before the locks are released.
    pub(crate) names: Arc<Names>,
    pub(crate) locks: Mutex<Vec<Box<dyn FileLock>>>,
}

impl Writer {
    pub(crate) fn commit(&self) -> MutexGuard<'_, CommitState> {
        lock(&self.commit)
    }

    pub(crate) fn manifest(&self) -> MutexGuard<'_, VersionSet> {
        lock(&self.manifest)
    }
}

/// The state that the commit's short critical section guards.
#[derive(Debug)]
pub(crate) struct CommitState {
    pub(crate) next_seqno: SeqNo,
    pub(crate) tail: Tail,
}

impl CommitState {
    /// Registers a partition in the segment that it writes into, once.
    #[inline]
    pub(crate) fn register(&mut self, partition: &Partition) {
        if partition.register_in(self.tail.segment_number()) {
            (self.tail).touch(partition.id, partition.latest_write());
        }
    }
}

/// The number of the latest write to each stripe of keys. Stored under the commit lock.
pub(crate) struct Stripes {
    latest: Box<[AtomicU64]>,
    /// The number of the latest write to any key: a range delete or a bulk load.
    of_all: AtomicU64,
}

impl Default for Stripes {
    fn default() -> Stripes {
        Stripes {
            latest: (0..STRIPES).map(|_| AtomicU64::new(0)).collect(),
            of_all: AtomicU64::new(0),
        }
    }
}

impl Stripes {
    /// Notes a write to a key of this stripe.
    #[inline]
    pub(crate) fn note(&self, stripe: usize, at: SeqNo) {
        self.latest[stripe].store(at.0, Ordering::Relaxed);
    }

    /// Notes a write to any key.
    #[inline]
    pub(crate) fn note_all(&self, at: SeqNo) {
        self.of_all.store(at.0, Ordering::Release);
    }

    /// The number of the latest write to any key.
    pub(crate) fn latest_of_all(&self) -> SeqNo {
        SeqNo(self.of_all.load(Ordering::Acquire))
    }

    /// The number of the latest write that may be one to a key of this stripe.
    pub(crate) fn latest(&self, stripe: usize) -> SeqNo {
        let of_all = self.latest_of_all();
        of_all.max(SeqNo(self.latest[stripe].load(Ordering::Acquire)))
    }
}

/// The next free ids.
pub(crate) struct Ids {
    table: AtomicU64,
    keyspace: AtomicU32,
    partition: AtomicU32,
    /// The first free table id when the database was opened.
    pub(crate) first_table: TableId,
}

impl Ids {
    /// The ids that the manifest says are free.
    pub(crate) fn new(state: &State) -> Ids {
        let table = state.next_table.max(1);
        Ids {
            table: AtomicU64::new(table),
            keyspace: AtomicU32::new(state.next_keyspace),
            partition: AtomicU32::new(state.next_partition),
            first_table: TableId(table),
        }
    }

    /// Takes an id of a table, a run or a filter file.
    pub(crate) fn next_table(&self) -> TableId {
        TableId(self.table.fetch_add(1, Ordering::Relaxed))
    }

    /// Takes an id of a keyspace.
    pub(crate) fn next_keyspace(&self) -> KeyspaceId {
        KeyspaceId(self.keyspace.fetch_add(1, Ordering::Relaxed))
    }

    /// Takes the ids of `count` trees.
    pub(crate) fn next_partitions(&self, count: usize) -> Vec<PartitionId> {
        let count = count as u32;
        let first = self.partition.fetch_add(count, Ordering::Relaxed);
        (first..first + count).map(PartitionId).collect()
    }

    /// The change that records the next free ids.
    pub(crate) fn change(&self) -> Change {
        Change::Counters {
            next_table: self.table.load(Ordering::Relaxed),
            next_keyspace: self.keyspace.load(Ordering::Relaxed),
            next_partition: self.partition.load(Ordering::Relaxed),
        }
    }
}

/// The operations on whole trees: a checkpoint, the end of a bulk load, a clear, a drop. One at a
/// time is carried out.
pub(crate) struct WholeTrees {
    one: Mutex<()>,
    /// While a checkpoint is made or a bulk load installed at this number, memtables sealed at a
    /// later one are not flushed. Changed by the operation that is carried out.
    flushes_held_at: AtomicU64,
}

impl Default for WholeTrees {
    fn default() -> WholeTrees {
        WholeTrees {
            one: Mutex::default(),
            flushes_held_at: AtomicU64::new(u64::MAX),
        }
    }
}

impl WholeTrees {
    /// Waits for the operation that is carried out, and begins one.
    pub(crate) fn begin(&self) -> MutexGuard<'_, ()> {
        lock(&self.one)
    }

    /// From now on, memtables sealed after a number are not flushed.
    pub(crate) fn hold_flushes(&self, at: SeqNo) {
        self.flushes_held_at.store(at.0, Ordering::Release);
    }

    /// Ends [`WholeTrees::hold_flushes`]. The caller has the memtables flushed.
    pub(crate) fn release_flushes(&self) {
        self.hold_flushes(SeqNo(u64::MAX));
    }

    /// Returns true if a memtable sealed at a number may be flushed.
    pub(crate) fn may_flush(&self, sealed_at: SeqNo) -> bool {
        sealed_at.0 <= self.flushes_held_at.load(Ordering::Acquire)
    }
}
