//! Counters of what the engine did, and the events it tells.

mod operations;

use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::base::error::Error;
use crate::base::options::Design;

pub use operations::Operations;
pub(crate) use operations::{OperationCounters, OperationKind};

/// Levels beyond this are counted with the last one.
pub(crate) const LEVELS_COUNTED: usize = 32;
const STRIPES: usize = 8;

/// A count that threads add to without sharing a cache line.
#[derive(Default)]
pub(crate) struct Counter {
    stripes: [Stripe; STRIPES],
}

#[derive(Default)]
#[repr(align(64))]
struct Stripe(AtomicU64);

static NEXT_STRIPE: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static STRIPE: usize = NEXT_STRIPE.fetch_add(1, Ordering::Relaxed) % STRIPES;
}

/// The stripe that this thread adds to.
#[inline]
fn stripe() -> usize {
    STRIPE.with(|stripe| *stripe)
}

impl Counter {
    #[inline]
    pub(crate) fn add(&self, n: u64) {
        self.stripes[stripe()].0.fetch_add(n, Ordering::Relaxed);
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

/// Everything that is counted while a database is open.
#[derive(Debug, Default)]
pub(crate) struct Stats {
    /// Entries of bulk loads, which are puts and no operations.
    pub(crate) bulk_load_entries: Counter,
    /// The operations on keyspaces that were dropped.
    pub(crate) of_dropped: Mutex<Operations>,
    /// Keys and values of puts and deletes.
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
    pub(crate) pages_asked: Counter,
    pub(crate) device_reads: Counter,
    pub(crate) filter_probes: Counter,
    pub(crate) filter_false_positives: Counter,
    pub(crate) memtable_hits: Counter,
    pub(crate) hits_by_level: [Counter; LEVELS_COUNTED],
    pub(crate) update_retries: Counter,
}

impl Stats {
    pub(crate) fn count_hit(&self, level: usize) {
        self.hits_by_level[level.min(LEVELS_COUNTED - 1)].add(1);
    }
}

/// Something that happened in the background, told to the listener of the database.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use std::sync::Arc;
///
/// use hedgerow::{Db, Event, Layout};
///
/// let flushed = Arc::new(AtomicU64::new(0));
/// let counter = flushed.clone();
/// let db = Db::builder(dir.path())
///     .listener(move |event| {
///         if let Event::Flushed { entries, .. } = event {
///             counter.fetch_add(*entries, Ordering::Relaxed);
///         }
///     })
///     .open()?;
/// let users = db.keyspace("users", Layout::sorted())?;
/// users.put("ada", "1815")?;
/// users.flush()?;
/// // What was not told by then is told when it is closed.
/// db.close()?;
/// assert_eq!(flushed.load(Ordering::Relaxed), 1);
/// # Ok::<(), hedgerow::Error>(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Event {
    /// A memtable became tables.
    Flushed {
        /// The keyspace's name.
        keyspace: String,
        /// The partition's index in its keyspace.
        partition: usize,
        /// Entries written.
        entries: u64,
        /// Bytes of tables written.
        bytes: u64,
        /// How long it took.
        took: Duration,
    },
    /// Tables were merged.
    Merged {
        /// The keyspace's name.
        keyspace: String,
        /// The partition's index in its keyspace.
        partition: usize,
        /// The smallest level read.
        from_level: usize,
        /// The level written.
        to_level: usize,
        /// Bytes of tables read.
        read_bytes: u64,
        /// Bytes of tables written.
        write_bytes: u64,
        /// How long it took.
        took: Duration,
    },
    /// Tables went down a level without being rewritten.
    Moved {
        /// The keyspace's name.
        keyspace: String,
        /// The level left.
        from_level: usize,
        /// The level entered.
        to_level: usize,
        /// Bytes of the tables.
        bytes: u64,
    },
    /// A keyspace got another design, durably; its trees come to the new shape by merges.
    Retuned {
        /// The keyspace's name.
        keyspace: String,
        /// The design it had.
        from: Design,
        /// The design it has.
        to: Design,
    },
    /// A keyspace that tunes itself found a better design, which [`Event::Retuned`] will tell of.
    Adopted {
        /// The keyspace's name.
        keyspace: String,
        /// What an operation is predicted to cost with the design it has, in µs.
        us_before: f64,
        /// And with the new one.
        us: f64,
    },
    /// A tree has come to the shape that the design asks for which its keyspace was given since the
    /// database was opened.
    Reshaped {
        /// The keyspace's name.
        keyspace: String,
        /// The partition's index in its keyspace.
        partition: usize,
        /// The time since it was given the design.
        took: Duration,
    },
    /// A job failed and will be tried again.
    BackgroundError {
        /// What was being done.
        doing: &'static str,
        /// Why it failed.
        error: Error,
    },
    /// Writes are refused from now on.
    Poisoned {
        /// Why.
        error: Error,
    },
    /// Recovery replayed the log.
    Recovered {
        /// Operations that were only in the log.
        operations: u64,
        /// How long opening took.
        took: Duration,
    },
}

/// Hears events, one after another, soon after they happened: on a background thread, or on that which opens or closes
/// the database, whichever it is without a lock. It may call the database, and should be quick: the next event waits.
pub type Listener = Arc<dyn Fn(&Event) + Send + Sync>;

/// Where the memory budget goes, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryStats {
    /// The budget.
    pub budget: u64,
    /// Memtables, active and sealed, and chunks kept for the next ones.
    pub memtables: u64,
    /// Cached pages: data, and indexes and filters that are paged.
    pub page_cache: u64,
    /// Indexes kept in memory.
    pub indexes: u64,
    /// Filters kept in memory.
    pub filters: u64,
    /// Pages that values and cursors keep in memory.
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
    /// The level's number; 0 holds what was flushed.
    pub level: usize,
    /// Sorted runs, of the partition that has most.
    pub runs: usize,
    /// Tables.
    pub tables: usize,
    /// Entries, tombstones and old versions included.
    pub entries: u64,
    /// Tombstones.
    pub tombstones: u64,
    /// Bytes of the files.
    pub bytes: u64,
    /// Bytes of the filters among them.
    pub filter_bytes: u64,
    /// Filter bits per key of the tables that are there, on average.
    pub filter_bits_per_key: f64,
    /// Filter bits per key, on average, of tables that are written to the level now; of the first
    /// partition.
    pub filter_bits_allotted: f64,
    /// What the policy wants the level to hold; `None` for the last level, and where runs count.
    pub target_bytes: Option<u64>,
    /// Runs at which they are merged; a level below level 0 with a target of 1 has one.
    pub target_runs: usize,
    /// Gets answered here since the database was opened (over all keyspaces).
    pub hits: u64,
}

/// One of a keyspace's trees.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PartitionStats {
    /// Which of [`DbStats::workers`] makes the asynchronous calls for its keys.
    pub worker: usize,
    /// Entries in its memtables.
    pub memtable_entries: u64,
    /// Bytes of its memtables.
    pub memtable_bytes: u64,
    /// Sorted runs, which a get asks at most.
    pub runs: usize,
    /// Tables.
    pub tables: usize,
    /// Entries in tables, tombstones and old versions included.
    pub entries: u64,
    /// Bytes of the tables.
    pub bytes: u64,
    /// Bytes that merges have to move until every level is within its target.
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
    /// It was given another design since the database was opened, and has trees that have not come
    /// to its shape yet.
    pub retuning: bool,
    /// What was asked of it lately, by every process that wrote it.
    pub operations: Operations,
    /// Bytes of a key, on average over the bounds of its tables; 0.0 before the first table.
    pub key_bytes: f64,
    /// It adopts the advisor's design ([`crate::Keyspace::set_self_tuning`]).
    pub tunes_itself: bool,
    /// Its trees, in their order.
    pub partitions: Vec<PartitionStats>,
    /// Entries in memtables.
    pub memtable_entries: u64,
    /// Bytes of memtables.
    pub memtable_bytes: u64,
    /// Levels that are not empty or have a target.
    pub levels: Vec<LevelStats>,
    /// Keys and values in tables before compression.
    pub raw_bytes: u64,
    /// Bytes that merges have to move until every level is within its target.
    pub debt_bytes: u64,
    /// Bytes of tables above the capacity of their level, or in more runs than it may have.
    pub misplaced_bytes: u64,
    /// Levels that hold some of these, of the tree that has most.
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

    /// Bytes of all levels over bytes of the last one: at most how many times the tables are larger
    /// than if they were merged into one level. 1.0 for an empty keyspace.
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

/// How writes have been held back for one reason since the database was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stall {
    /// How many waits there were.
    pub count: u64,
    /// The time of all waits.
    pub total: Duration,
    /// The longest single wait.
    pub longest: Duration,
}

/// How writes have been held back since the database was opened, by reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StallStats {
    /// Sealed memtables waited to be flushed.
    pub memtables: Stall,
    /// Level 0 had many runs.
    pub level0: Stall,
    /// Levels held more than they should.
    pub merge_debt: Stall,
    /// The log was longer than its limit.
    pub log: Stall,
}

impl StallStats {
    /// The time of all waits.
    pub fn total(&self) -> Duration {
        self.by_reason().iter().map(|stall| stall.total).sum()
    }

    /// How many waits there were.
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

/// What a database has done since it was opened, and what it holds.
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
    /// Bytes of log segments that are needed.
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
    /// Bytes of filters over several runs written to files of their own.
    pub filter_write_bytes: u64,
    /// Entries written by merges.
    pub merge_entries: u64,
    /// Flushes.
    pub flushes: u64,
    /// Merges.
    pub merges: u64,
    /// Moves of tables to another level without rewriting.
    pub moves: u64,
    /// Pages asked for by reads, cached or not.
    pub block_reads: u64,
    /// Reads that left the process, those of merges included.
    pub device_reads: u64,
    /// Filters asked.
    pub filter_probes: u64,
    /// Filters that let a key pass which was not there.
    pub filter_false_positives: u64,
    /// Updates that had to start again because of another write.
    pub update_retries: u64,
    /// Time that writes were held back.
    pub stalls: StallStats,
    /// Where the memory is.
    pub memory: MemoryStats,
    /// Snapshots that are open.
    pub snapshots: usize,
    /// Background jobs that ended in a panic: a bug if not 0.
    pub panics: usize,
    /// Processor time of flushes that have ended, on background threads.
    pub flush_cpu: Duration,
    /// Processor time of merges that have ended, on background threads.
    pub merge_cpu: Duration,
    /// The queues of asynchronous calls: one for each worker, or one of the background threads.
    pub workers: Vec<WorkerStats>,
    /// The keyspaces, by name.
    pub keyspaces: Vec<KeyspaceStats>,
}

/// A worker and its queue, since the database was opened.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkerStats {
    /// Its number, counted from 0.
    pub index: usize,
    /// The processor that its thread is kept on, if it has one and the system allows it.
    pub processor: Option<usize>,
    /// The partitions that it owns, of all keyspaces together.
    pub partitions: usize,
    /// Calls in its queue.
    pub queued: usize,
    /// Calls in line, because the queue is full.
    pub in_line: usize,
    /// Calls taken from the queue.
    pub done: u64,
    /// How often it took some: `done / batches` went into a commit, or were read, together.
    pub batches: u64,
    /// How long these calls were in line and in the queue, together.
    pub waited: Duration,
    /// The longest of these times.
    pub waited_max: Duration,
}

impl WorkerStats {
    /// How long a call was in line and in the queue, on average.
    pub fn waited_mean(&self) -> Duration {
        let mean = self.waited.as_secs_f64() / self.done.max(1) as f64;
        Duration::from_secs_f64(mean)
    }
}

impl DbStats {
    /// Bytes of tables and of filters written over bytes written by the user; 0.0 before the first
    /// write.
    pub fn write_amplification(&self) -> f64 {
        if self.user_bytes == 0 {
            return 0.0;
        }
        let tables = self.flush_bytes + self.bulk_load_bytes + self.merge_write_bytes;
        let written = tables + self.filter_write_bytes;
        written as f64 / self.user_bytes as f64
    }

    /// Pages asked for per point lookup; 0.0 before the first.
    pub fn read_amplification(&self) -> f64 {
        if self.gets == 0 {
            0.0
        } else {
            self.block_reads as f64 / self.gets as f64
        }
    }
}
