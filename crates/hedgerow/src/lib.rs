//! Hedgerow: an embeddable, parallel, tunable LSM-tree key-value engine.
//!
//! ```
//! # let dir = tempfile::tempdir().unwrap();
//! use hedgerow::{Db, Layout};
//!
//! let db = Db::open(dir.path())?;
//! let users = db.keyspace("users", Layout::sorted())?;
//! users.put(b"ada", b"1815")?;
//! assert_eq!(users.get(b"ada")?.as_deref(), Some(&b"1815"[..]));
//! # Ok::<(), hedgerow::Error>(())
//! ```
//!
//! A [`Db`] is a directory of [`Keyspace`]s: named maps from byte strings to byte strings. Each has
//! a [`Layout`] (the order of its keys and their division into trees, fixed when it is created) and
//! a [`Design`] (the way they are stored, which may change at any time). Handles are cheap clones
//! that may be used from any thread.
//!
//! * Writes: [`Keyspace::put`], [`Keyspace::delete`], [`Keyspace::update`] (an atomic read and
//!   write), [`Keyspace::merge`] (a change by a [`MergeOperator`], without a read),
//!   [`Keyspace::put_expiring`], [`Batch`] (atomic over several keyspaces),
//!   [`Keyspace::bulk_load`]. Each is [`Durability::Buffered`] or [`Durability::Synced`].
//!   [`Db::transact`] reads and writes any keys as if nobody else did; an [`IndexedBatch`] reads
//!   its own writes.
//! * Reads: [`Keyspace::get`], [`Keyspace::get_if_cached`] (without reading a file),
//!   [`Keyspace::multi_get`], [`Keyspace::scan`] from both ends, [`Cursor`]. A [`Snapshot`] does
//!   all of them at one moment.
//! * Asynchronous calls: [`Keyspace::get_async`], [`Keyspace::put_async`] and others. Workers make
//!   them ([`Builder::workers`]); a [`Pending`] result is a future for any runtime or none.
//! * Maintenance: [`Db::checkpoint`], [`Db::verify`], [`repair`], [`Keyspace::compact`],
//!   [`Db::stats`], [`Keyspace::explain`], [`inspect`].
//!
//! One memory budget ([`Builder::memory_budget`]) holds everything. [`Builder`] says which three
//! settings matter most. A crash keeps a prefix of all writes in the order of their commits, and
//! this prefix has everything that was synced.
//!
//! Features, all off by default: `io-uring` (direct reads of a `multi_get` overlap), `metrics`
//! ([`Db::stats`] for the recorder of that crate), `zstd` ([`Compression::Zstd`]; needs a C
//! compiler).
#![forbid(unsafe_code)]
#![warn(unnameable_types)]

mod api;
mod paths;

mod group_filter;
mod tree;

mod design;
mod table;

mod base;

pub use api::inspect;
#[cfg(any(test, feature = "internals"))]
pub use api::internals;
pub use design::advisor;

pub use api::asynchronous::{AsyncScan, Pending};
pub use api::batch::{Batch, BatchOp, IndexedBatch, Savepoint};
pub use api::db::{Builder, Db};
pub use api::follower::{Follower, FollowerStats};
pub use api::keyspace::Keyspace;
pub use api::repair::{MissingEntries, RepairReport, repair, repair_with};
pub use api::snapshot::Snapshot;
pub use api::transaction::{Isolation, Transaction, TransactionOptions};
pub use base::compaction_filter::{CompactionFilter, FilterPass, FilteredMerge, Verdict};
pub use base::entry::{KEY_BYTES_MAX, Kind as EntryKind, VALUE_BYTES_MAX};
pub use base::error::{Error, ErrorKind, Result};
pub use base::expiry::Expiry;
pub use base::merge_operator::{MergeError, MergeOperator};
pub use base::options::{
    Compression, CutSpec, Design, Durability, FilterSpec, IndexSpec, KeyOrder, Layout, LevelPaths,
    LevelSpec, Partitioning, PolicySpec, PrefixRule, Residency, TableSpec,
};
pub use base::page::PageClass;
pub use base::slice::Slice;
pub use base::stats::{
    DbStats, Event, KeyspaceStats, LevelStats, Listener, MemoryStats, Operations, PartitionStats,
    Stall, StallStats, WorkerStats,
};
pub use hedgerow_io as io;
pub use paths::bulk_load::{BulkLoadReport, LoadOp};
pub use paths::changes::{Changes, Commit, CommitChange, LoadedEntries, LoadedTables};
pub use paths::compact::CompactProgress;
pub use paths::outside_tables::TableWriter;
pub use paths::read::MemoryAnswer;
pub use paths::recover::files::{DatabaseFile, DatabaseFiles};
pub use paths::scan::{Cursor, Entries, Keys, Scan, ScanToken, StoredEntry, UnorderedScan};
pub use paths::verify::{VerifyProgress, VerifyReport};
pub use tree::version::edit::Slot;

/// The steps of a lookup, as [`Keyspace::explain`] reports them.
pub mod explain {
    pub use crate::paths::explain::{
        Explanation, FilterAnswer, FoundEntry, GroupFilterProbe, MemtableProbe, PageRequest,
        RunProbe, TableProbe,
    };
}

/// The growth of a tree by a design, simulated with virtual tables.
pub mod simulate {
    pub use crate::design::simulate::{
        GrowthPoint, LevelReport, Overwrites, Simulation, SimulationReport, simulate,
    };
}
