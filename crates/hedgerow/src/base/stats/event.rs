//! The events that the engine reports.

use std::sync::Arc;
use std::time::Duration;

use crate::base::error::Error;
use crate::base::options::Design;

/// A background event, reported to the listener of the database.
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
/// // Closing the database reports the events that are still pending.
/// db.close()?;
/// assert_eq!(flushed.load(Ordering::Relaxed), 1);
/// # Ok::<(), hedgerow::Error>(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Event {
    /// A memtable was written to tables.
    Flushed {
        /// The keyspace's name.
        keyspace: String,
        /// The partition's index in its keyspace.
        partition: usize,
        /// Entries written.
        entries: u64,
        /// Bytes of tables written.
        bytes: u64,
        /// The duration.
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
        /// The duration.
        took: Duration,
    },
    /// Tables moved down a level without being rewritten.
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
    /// A keyspace got another design, durably. Merges bring its trees to the new shape.
    Retuned {
        /// The keyspace's name.
        keyspace: String,
        /// The design it had.
        from: Design,
        /// The design it has.
        to: Design,
    },
    /// A self-tuning keyspace found a better design. [`Event::Retuned`] follows.
    Adopted {
        /// The keyspace's name.
        keyspace: String,
        /// The predicted cost of an operation with the present design, in µs.
        us_before: f64,
        /// The predicted cost with the new design, in µs.
        us: f64,
    },
    /// A tree has reached the shape of the design that its keyspace was given since the database
    /// was opened.
    Reshaped {
        /// The keyspace's name.
        keyspace: String,
        /// The partition's index in its keyspace.
        partition: usize,
        /// The time since the keyspace got the design.
        took: Duration,
    },
    /// A job failed. It will be tried again, or a later job of its kind takes its place.
    BackgroundError {
        /// The failed job.
        doing: &'static str,
        /// The failure.
        error: Error,
    },
    /// Writes are refused from now on.
    Poisoned {
        /// The failure behind it.
        error: Error,
    },
    /// Recovery replayed the log.
    Recovered {
        /// Operations that were in the log only.
        operations: u64,
        /// The duration of the open.
        took: Duration,
    },
}

/// Receives events one at a time, soon after they happened. The engine calls it without holding a
/// lock, on a background thread or on the thread that opens or closes the database. It may call the
/// database. It should be quick, because the next event waits.
pub type Listener = Arc<dyn Fn(&Event) + Send + Sync>;

/// The jobs that [`Event::BackgroundError`] names.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Job {
    Flush,
    Merge,
    BeginMerge,
    FoldOperands,
    BuildFilter,
    WriteFilter,
    FillCache,
    AdoptDesign,
    PrepareSegment,
    PrepareMemory,
    DivideMemory,
}

impl Job {
    /// Words that complete "could not".
    pub(crate) fn words(self) -> &'static str {
        match self {
            Job::Flush => "flush a memtable",
            Job::Merge => "merge tables",
            Job::BeginMerge => "begin a merge",
            Job::FoldOperands => "fold operands",
            Job::BuildFilter => "build a filter",
            Job::WriteFilter => "write a filter",
            Job::FillCache => "fill the page cache",
            Job::AdoptDesign => "adopt a design",
            Job::PrepareSegment => "prepare a log segment",
            Job::PrepareMemory => "prepare memory",
            Job::DivideMemory => "divide the memory budget",
        }
    }
}
