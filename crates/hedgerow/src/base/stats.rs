//! Counters of the engine's work.

mod event;
mod operations;
mod samples;
mod stripe;

use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::base::options::Design;

pub(crate) use event::Job;
pub use event::{Event, Listener};
pub use operations::Operations;
pub(crate) use operations::{OperationCounters, OperationKind};
use stripe::{STRIPES, Stripe};

/// Deeper levels are counted with the last one.
pub(crate) const LEVELS_COUNTED: usize = 32;

/// A counter whose threads rarely share a cache line. Cost: 512 bytes.
#[derive(Default)]
pub(crate) struct Counter {
    stripes: [Count; STRIPES],
}

#[derive(Default)]
#[repr(align(64))]
struct Count(AtomicU64);

impl Counter {
    #[inline]
    pub(crate) fn add(&self, n: u64) {
        let stripe = Stripe::of_thread();
        stripe.add(&self.stripes[stripe.place()].0, n);
    }

    pub(crate) fn get(&self) -> u64 {
        self.stripes
            .iter()
            .map(|s| s.0.load(Ordering::Relaxed))
            .sum()
    }
}

impl fmt::Debug for Counter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.get())
    }
}

/// All counters of an open database.
#[derive(Debug, Default)]
pub(crate) struct Stats {
    /// Entries of bulk loads, which count as puts but not as operations.
    pub(crate) bulk_load_entries: Counter,
    /// The operations on dropped keyspaces.
    pub(crate) of_dropped: Mutex<Operations>,
    /// Bytes of keys and values of puts and deletes.
    pub(crate) user_bytes: Counter,
    pub(crate) flush_bytes: Counter,
    pub(crate) flush_entries: Counter,
    pub(crate) bulk_load_bytes: Counter,
    pub(crate) merge_read_bytes: Counter,
    pub(crate) merge_write_bytes: Counter,
    pub(crate) filter_write_bytes: Counter,
    pub(crate) merge_entries: Counter,
    pub(crate) flushes: Counter,
    pub(crate) merges: Counter,
    pub(crate) moves: Counter,
    pub(crate) pages_requested: Counter,
    pub(crate) device_reads: Counter,
    pub(crate) filter_probes: Counter,
    pub(crate) filter_false_positives: Counter,
    pub(crate) memtable_hits: Counter,
    pub(crate) hits_by_level: [Counter; LEVELS_COUNTED],
    pub(crate) update_retries: Counter,
    pub(crate) transaction_conflicts: Counter,
}

impl Stats {
    pub(crate) fn count_hit(&self, level: usize) {
        self.hits_by_level[level.min(LEVELS_COUNTED - 1)].add(1);
    }
}

/// The use of the memory budget, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryStats {
    /// The budget.
    pub budget: u64,
    /// Memtables, active and sealed, and chunks kept for later memtables.
    pub memtables: u64,
    /// Cached pages: data, and paged indexes and filters.
    pub page_cache: u64,
    /// Indexes kept in memory.
    pub indexes: u64,
    /// Filters kept in memory.
    pub filters: u64,
    /// Pages pinned by values and cursors.
    pub pinned: u64,
    /// Buffers of running flushes and merges.
    pub merges: u64,
    /// Trees without their entries, and descriptions of tables.
    pub tables: u64,
}

impl MemoryStats {
    /// The sum of the parts.
    pub fn total(&self) -> u64 {
        self.memtables
            + self.page_cache
            + self.indexes
            + self.filters
            + self.pinned
            + self.merges
            + self.tables
    }
}

/// One level of a keyspace, summed over its partitions.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
#[non_exhaustive]
pub struct LevelStats {
    /// The level's number; level 0 holds the flushed runs.
    pub level: usize,
    /// Sorted runs of the partition with the most.
    pub runs: usize,
    /// Tables.
    pub tables: usize,
    /// Entries, tombstones and old versions included.
    pub entries: u64,
    /// Tombstones of single keys.
    pub tombstones: u64,
    /// Range deletes, which are no entries, counted in each fragment of each table.
    pub range_tombstones: u64,
    /// Bytes of the files.
    pub bytes: u64,
    /// Bytes of the filters in these files.
    pub filter_bytes: u64,
    /// Filter bits per key of the present tables, on average.
    pub filter_bits_per_key: f64,
    /// Filter bits per key, on average, of the tables that the first partition would write to the
    /// level now.
    pub filter_bits_allotted: f64,
    /// The level's capacity by the policy; `None` for the last level, and for policies that count
    /// runs.
    pub target_bytes: Option<u64>,
    /// The number of runs that starts a merge. A level below level 0 with a target of 1 has one
    /// run.
    pub target_runs: usize,
    /// Gets answered by this level since the database was opened, over all keyspaces.
    pub hits: u64,
}

/// One of a keyspace's trees.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PartitionStats {
    /// The index in [`DbStats::workers`] of the worker for the asynchronous calls on its keys.
    pub worker: usize,
    /// Entries in its memtables.
    pub memtable_entries: u64,
    /// Tombstones among them.
    pub memtable_tombstones: u64,
    /// Bytes of its memtables.
    pub memtable_bytes: u64,
    /// Sorted runs: an upper bound of those that a get reads.
    pub runs: usize,
    /// Tables.
    pub tables: usize,
    /// Entries in tables, tombstones and old versions included.
    pub entries: u64,
    /// Bytes of the tables.
    pub bytes: u64,
    /// Bytes that merges still have to write until every level meets its target.
    pub debt_bytes: u64,
}

/// The state of one keyspace.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct KeyspaceStats {
    /// Its name.
    pub name: String,
    /// The design in force.
    pub design: Design,
    /// Some tree has not yet reached the shape of a design given since the database was opened.
    pub retuning: bool,
    /// Recent operations, by every process that wrote the keyspace.
    pub operations: Operations,
    /// The bytes of a key, averaged over the bounds of its tables; 0.0 before the first table.
    pub key_bytes: f64,
    /// It adopts the advisor's design ([`crate::Keyspace::set_self_tuning`]).
    pub tunes_itself: bool,
    /// Its trees, in their order.
    pub partitions: Vec<PartitionStats>,
    /// Entries in memtables.
    pub memtable_entries: u64,
    /// Tombstones among them.
    pub memtable_tombstones: u64,
    /// Entries that cursors and scans stepped over since the database was opened: tombstones,
    /// replaced values, and writes that they do not see.
    pub skipped: u64,
    /// These entries per positioning of a cursor or scan, on average.
    pub skipped_per_scan: f64,
    /// Bytes of memtables.
    pub memtable_bytes: u64,
    /// Levels that are not empty or have a target.
    pub levels: Vec<LevelStats>,
    /// Bytes of keys and values in tables, before compression.
    pub raw_bytes: u64,
    /// Bytes that merges still have to write until every level meets its target.
    pub debt_bytes: u64,
    /// Bytes of tables above the capacity of their level, or in more runs than the level may have.
    pub misplaced_bytes: u64,
    /// The number of levels with misplaced bytes, in the tree with the most.
    pub levels_over: usize,
}

impl KeyspaceStats {
    /// Entries in tables and memtables, tombstones and old versions included: an upper bound of
    /// the number of keys.
    pub fn entries(&self) -> u64 {
        self.memtable_entries + self.levels.iter().map(|l| l.entries).sum::<u64>()
    }

    /// Bytes of all tables.
    pub fn table_bytes(&self) -> u64 {
        self.levels.iter().map(|l| l.bytes).sum()
    }

    /// Bytes of all levels over bytes of the last one: an upper bound of the size of the tables
    /// relative to their size as one level. 1.0 for an empty keyspace.
    pub fn space_amplification(&self) -> f64 {
        let last = self
            .levels
            .iter()
            .rev()
            .find(|l| l.bytes > 0)
            .map_or(0, |l| l.bytes);
        if last == 0 {
            1.0
        } else {
            self.table_bytes() as f64 / last as f64
        }
    }
}

/// The delays of writes for one reason since the database was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stall {
    /// The number of waits.
    pub count: u64,
    /// The time of all waits.
    pub total: Duration,
    /// The longest single wait.
    pub longest: Duration,
}

/// The delays of writes since the database was opened, by reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StallStats {
    /// Sealed memtables waited for their flush.
    pub memtables: Stall,
    /// Level 0 had many runs.
    pub level0: Stall,
    /// Levels were above their capacity.
    pub merge_debt: Stall,
    /// The log was longer than its limit.
    pub log: Stall,
}

impl StallStats {
    /// The time of all waits.
    pub fn total(&self) -> Duration {
        self.by_reason().iter().map(|stall| stall.total).sum()
    }

    /// The number of waits.
    pub fn count(&self) -> u64 {
        self.by_reason().iter().map(|stall| stall.count).sum()
    }

    /// The longest single wait.
    pub fn longest(&self) -> Duration {
        let longest = self.by_reason().map(|stall| stall.longest);
        longest.into_iter().max().unwrap_or_default()
    }

    fn by_reason(&self) -> [Stall; 4] {
        [self.memtables, self.level0, self.merge_debt, self.log]
    }
}

/// The work of a database since it was opened, and its present content.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// use hedgerow::{Db, Layout};
///
/// let db = Db::open(dir.path())?;
/// let users = db.keyspace("users", Layout::sorted())?;
/// users.put("ada", "1815")?;
/// users.get("ada")?;
/// let stats = db.stats();
/// assert_eq!((stats.puts, stats.get_hits), (1, 1));
/// assert!(stats.memory.total() <= stats.memory.budget);
/// assert_eq!(stats.keyspaces[0].entries(), 1);
/// # Ok::<(), hedgerow::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct DbStats {
    /// Puts, in batches and out of them, and entries of bulk loads.
    pub puts: u64,
    /// Deletes.
    pub deletes: u64,
    /// Point lookups.
    pub gets: u64,
    /// Point lookups that found a value.
    pub get_hits: u64,
    /// Point lookups answered by a memtable (a tombstone is an answer).
    pub memtable_hits: u64,
    /// Cursor and scan positionings.
    pub seeks: u64,
    /// Cursor and scan steps.
    pub nexts: u64,
    /// Bytes of keys and values written by the user.
    pub user_bytes: u64,
    /// Bytes of log records.
    pub log_bytes: u64,
    /// Syncs of the log.
    pub log_syncs: u64,
    /// Bytes of log segments that recovery still needs.
    pub log_live_bytes: u64,
    /// Bytes of tables written by flushes.
    pub flush_bytes: u64,
    /// Entries written by flushes.
    pub flush_entries: u64,
    /// Bytes of tables written by bulk loads.
    pub bulk_load_bytes: u64,
    /// Bytes of tables read by merges.
    pub merge_read_bytes: u64,
    /// Bytes of tables written by merges.
    pub merge_write_bytes: u64,
    /// Bytes of filters over several runs, written to files of their own.
    pub filter_write_bytes: u64,
    /// Entries written by merges.
    pub merge_entries: u64,
    /// Flushes.
    pub flushes: u64,
    /// Merges.
    pub merges: u64,
    /// Moves of tables to another level without a rewrite.
    pub moves: u64,
    /// Pages that reads requested, cached or not.
    pub block_reads: u64,
    /// Reads from the device or the system's cache, merges included.
    pub device_reads: u64,
    /// Filter probes.
    pub filter_probes: u64,
    /// Probes that let an absent key pass.
    pub filter_false_positives: u64,
    /// Updates that started again because another write came first.
    pub update_retries: u64,
    /// Commits of transactions that ended with `Conflict`.
    pub transaction_conflicts: u64,
    /// Delays of writes.
    pub stalls: StallStats,
    /// The use of the memory budget.
    pub memory: MemoryStats,
    /// Open snapshots.
    pub snapshots: usize,
    /// Background jobs that ended in a panic; any is a bug.
    pub panics: usize,
    /// Processor time of finished flushes on background threads.
    pub flush_cpu: Duration,
    /// Processor time of finished merges on background threads.
    pub merge_cpu: Duration,
    /// The queues of asynchronous calls: one per worker. Without workers, the background threads
    /// share a single queue.
    pub workers: Vec<WorkerStats>,
    /// The keyspaces, sorted by name.
    pub keyspaces: Vec<KeyspaceStats>,
}

/// A worker and its queue, since the database was opened.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkerStats {
    /// Its number, counted from 0.
    pub index: usize,
    /// The processor that its thread is pinned to, if any.
    pub processor: Option<usize>,
    /// The partitions that it owns, over all keyspaces.
    pub partitions: usize,
    /// Calls in its queue.
    pub queued: usize,
    /// Calls in line for a full queue.
    pub in_line: usize,
    /// Calls taken from the queue.
    pub done: u64,
    /// Batches taken from the queue. `done / batches` calls shared a commit or were read together,
    /// on average.
    pub batches: u64,
    /// The total time that these calls spent in line and in the queue.
    pub waited: Duration,
    /// The longest of these times.
    pub waited_max: Duration,
}

impl WorkerStats {
    /// The mean time that a call spent in line and in the queue.
    pub fn waited_mean(&self) -> Duration {
        let mean = self.waited.as_secs_f64() / self.done.max(1) as f64;
        Duration::from_secs_f64(mean)
    }
}

impl DbStats {
    /// Bytes of tables and filters written per byte written by the user; 0.0 before the first
    /// write.
    pub fn write_amplification(&self) -> f64 {
        if self.user_bytes == 0 {
            return 0.0;
        }
        let tables = self.flush_bytes + self.bulk_load_bytes + self.merge_write_bytes;
        let written = tables + self.filter_write_bytes;
        written as f64 / self.user_bytes as f64
    }

    /// Pages requested per point lookup; 0.0 before the first lookup.
    pub fn read_amplification(&self) -> f64 {
        if self.gets == 0 {
            0.0
        } else {
            self.block_reads as f64 / self.gets as f64
        }
    }
}
