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
//! A [`Db`] is a directory of [`Keyspace`]s: named maps from byte strings to byte strings, each
//! with a [`Layout`] (how keys are ordered and divided into trees, fixed when it is created) and a
//! [`Design`] (how they are stored, which may change whenever the database is opened). Handles are
//! cheap clones that may be used from any thread.
//!
//! * Writes: [`Keyspace::put`], [`Keyspace::delete`], [`Keyspace::update`] (read and write as one),
//!   [`Batch`] (several keyspaces as one), [`Keyspace::bulk_load`]. Each is [`Durability::Buffered`] or
//!   [`Durability::Synced`].
//! * Reads: [`Keyspace::get`], [`Keyspace::multi_get`], [`Keyspace::scan`] from both ends,
//!   [`Cursor`], and all of them at one moment through a [`Snapshot`].
//! * Without waiting: [`Keyspace::get_async`], [`Keyspace::put_async`] and others, made by workers
//!   ([`Builder::workers`]); a [`Pending`] result is a future for any runtime or none.
//! * Care: [`Db::checkpoint`], [`Db::verify`], [`repair`], [`Keyspace::compact`], [`Db::stats`],
//!   [`Keyspace::explain`], [`inspect`].
//!
//! One memory budget ([`Builder::memory_budget`]) holds everything. What a crash keeps is a prefix
//! of all writes in the order in which they were committed, and everything that was synced.
#![forbid(unsafe_code)]

// API
pub mod advisor;
mod asynchronous;
mod batch;
mod db;
mod error;
pub mod inspect;
mod keyspace;
mod options;
mod slice;
mod snapshot;
mod stats;

// The paths: read these first.
mod bulk_load;
mod checkpoint;
mod compaction;
mod explain;
mod flush;
mod read;
mod recover;
mod repair;
mod retune;
mod scan;
mod self_tuning;
mod simulate;
mod verify;
mod write;

// What the paths work on.
mod engine;
mod memory;
mod memtable;
mod page_cache;
mod partition;
mod runtime;
mod snapshot_list;
mod table;
mod version;
mod wal;

// The design space, and what all share.
mod block_index;
mod codec;
mod entry;
mod filter;
mod iter;
mod key_order;
mod merge_policy;
mod page;

#[cfg(any(test, feature = "internals"))]
pub mod internals;

pub use asynchronous::Pending;
pub use batch::Batch;
pub use bulk_load::BulkLoadReport;
pub use compaction::CompactProgress;
pub use db::{Builder, Db};
pub use entry::{KEY_BYTES_MAX, KEY_BYTES_MIN, Kind as EntryKind, VALUE_BYTES_MAX};
pub use error::{Error, ErrorKind, Result};
pub use explain::{
    Explanation, FilterAnswer, FoundEntry, GroupFilterAsked, MemtableAsked, PageAsked, RunAsked,
    TableAsked,
};
pub use hedgerow_io as io;
pub use keyspace::Keyspace;
pub use options::{
    Compression, CutSpec, Design, Durability, FilterSpec, IndexSpec, KeyOrder, Layout, LevelPaths,
    LevelSpec, Partitioning, PolicySpec, PrefixRule, Residency, TableSpec,
};
pub use page::PageClass;
pub use repair::{Missing, RepairReport, repair, repair_with};
pub use scan::{Cursor, Scan, ScanToken, UnorderedScan};
pub use simulate::{GrowthPoint, LevelReport, Overwrites, Simulation, SimulationReport, simulate};
pub use slice::Slice;
pub use snapshot::Snapshot;
pub use stats::{
    DbStats, Event, KeyspaceStats, LevelStats, Listener, MemoryStats, Operations, PartitionStats,
    Stall, StallStats, WorkerStats,
};
pub use verify::{VerifyProgress, VerifyReport};
