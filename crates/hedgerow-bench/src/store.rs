//! The operations that an engine needs in order to be measured.

use std::path::{Path, PathBuf};
use std::time::Duration;

use hedgerow::io::ReadMode;
use hedgerow::{Design, ErrorKind, Layout};
use serde_json::{Map, Value, json};

use crate::workload::Settings;

/// An error of a store or a workload.
pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// A result with any engine's error.
pub type Result<T> = std::result::Result<T, Error>;

/// An error for invalid arguments.
pub(crate) fn invalid(message: String) -> Error {
    hedgerow::Error::new(ErrorKind::InvalidArgument, message).into()
}

/// An open store of the engine under test, shared by all threads of a workload.
///
/// Opening decides if writes are synced ([`OpenOptions::sync`]). Callbacks borrow bytes, so that no
/// engine has to make copies that it would not make for its users.
pub trait Store: Sync {
    /// Puts a key with a value.
    ///
    /// # Errors
    /// The engine's.
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()>;

    /// Deletes a key, which need not exist.
    ///
    /// # Errors
    /// The engine's.
    fn delete(&self, key: &[u8]) -> Result<()>;

    /// Adds to the counter of a key, which is little-endian.
    ///
    /// The default reads the counter and puts the sum.
    ///
    /// # Errors
    /// The engine's.
    fn add(&self, key: &[u8], count: i64) -> Result<()> {
        let mut sum = count;
        self.get(key, &mut |old| {
            let old = old.first_chunk().copied().unwrap_or_default();
            sum = sum.wrapping_add(i64::from_le_bytes(old));
        })?;
        self.put(key, &sum.to_le_bytes())
    }

    /// Puts all entries as one commit.
    ///
    /// # Errors
    /// The engine's.
    fn write_batch(&self, entries: &[(Vec<u8>, Vec<u8>)]) -> Result<()>;

    /// Calls `found` with the value of a key. Returns true if the key has one.
    ///
    /// # Errors
    /// The engine's.
    fn get(&self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool>;

    /// Calls `found` with the index in `keys` and the value of each present key, in any order.
    ///
    /// The default reads the keys one by one.
    ///
    /// # Errors
    /// The engine's.
    fn multi_get(&self, keys: &[Vec<u8>], found: &mut dyn FnMut(usize, &[u8])) -> Result<()> {
        for (i, key) in keys.iter().enumerate() {
            self.get(key, &mut |value| found(i, value))?;
        }
        Ok(())
    }

    /// Seeks to the first key at or after `from`, as with a new cursor, and calls `found` with this
    /// key and the following ones in order, at most `limit` (at least 1) in all.
    ///
    /// # Errors
    /// The engine's.
    fn scan(&self, from: &[u8], limit: usize, found: &mut dyn FnMut(&[u8], &[u8])) -> Result<()>;

    /// Calls `found` with the keys that begin with `prefix`, in any order, at most `limit` (at
    /// least 1) in all. The caller knows that there are at least `limit`.
    ///
    /// # Errors
    /// The engine's.
    fn scan_prefix(
        &self,
        prefix: &[u8],
        limit: usize,
        found: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<()> {
        self.scan(prefix, limit, found)
    }

    /// Any present key.
    ///
    /// # Errors
    /// The engine's.
    fn any_key(&self) -> Result<Option<Vec<u8>>> {
        let mut any = None;
        self.scan(&[0], 1, &mut |key, _| any = Some(key.to_vec()))?;
        Ok(any)
    }

    /// The asynchronous calls, if the engine has them.
    fn asynchronous(&self) -> Option<&dyn Asynchronous> {
        None
    }

    /// Flushes the memtables and waits until nothing is left to merge.
    ///
    /// # Errors
    /// The engine's.
    fn settle(&self) -> Result<()>;

    /// The counters of the store.
    fn counters(&self) -> Counters;

    /// The description of the store and its settings.
    fn describe(&self) -> Description;
}

/// A callback for each value found, with its index among the keys of the call or in the scan.
pub type Found<'a> = dyn FnMut(usize, &[u8]) + 'a;

/// A call under way. Waits for its end and reports the values found.
pub type Begun<'a> = Box<dyn FnOnce(&mut Found<'_>) -> Result<()> + Send + 'a>;

/// Calls of a [`Store`] that return before they have ended. One thread's calls for one key take
/// effect in order.
pub trait Asynchronous: Sync {
    /// Begins a put, or a delete if there is no value. Returns `None` if the call need not be
    /// awaited before the next barrier, as for unsynced writes. May wait for room in a queue.
    ///
    /// # Errors
    /// The engine's.
    fn begin_write(&self, key: &[u8], value: Option<&[u8]>) -> Result<Option<Begun<'_>>>;

    /// Begins to replace the value of a present key, which counts as found.
    fn begin_update(&self, key: &[u8], value: &[u8]) -> Begun<'_>;

    /// Begins a get.
    fn begin_get(&self, key: &[u8]) -> Begun<'_>;

    /// Begins a get of several keys.
    fn begin_multi_get(&self, keys: &[Vec<u8>]) -> Begun<'_>;

    /// Begins to read the first key at or after `from` and the following ones, `limit` in all.
    fn begin_scan(&self, from: &[u8], limit: usize) -> Begun<'_>;

    /// Waits until every write begun before has been made.
    ///
    /// # Errors
    /// The first error of the writes that were not awaited.
    fn barrier(&self) -> Result<()>;
}

/// The counters of a store; `None` for those that it does not have.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Counters {
    // ---- Counts since the store was opened; results show their growth. ----
    /// Bytes written to the log.
    pub log_bytes: Option<u64>,
    /// Bytes of tables written by flushes.
    pub flush_bytes: Option<u64>,
    /// Bytes of tables read by merges.
    pub merge_read_bytes: Option<u64>,
    /// Bytes of tables written by merges, and of filters in files of their own.
    pub merge_write_bytes: Option<u64>,
    /// Bytes of separate filter files, a part of `merge_write_bytes`.
    pub filter_write_bytes: Option<u64>,
    /// Entries written to tables, by flushes and by merges.
    pub entries_written: Option<u64>,
    /// Pages (blocks) used, cached or not.
    pub block_reads: Option<u64>,
    /// Reads that left the process.
    pub device_reads: Option<u64>,
    /// Filters probed.
    pub filter_probes: Option<u64>,
    /// False positives of filters.
    pub filter_false_positives: Option<u64>,
    /// Gets answered by a memtable.
    pub memtable_hits: Option<u64>,
    /// Gets answered by each level, from 0.
    pub hits_by_level: Option<Vec<u64>>,
    /// The time for which writes were held back, summed over the writing threads.
    pub stalled: Option<Duration>,
    /// The number of times that writes were held back.
    pub stalls: Option<u64>,
    /// Asynchronous calls that went through a queue.
    pub queue: Option<QueueCounters>,
    /// Processor time of flushes.
    pub flush_cpu: Option<Duration>,
    /// Processor time of merges.
    pub merge_cpu: Option<Duration>,
    // ---- Current values; results show them at their end. ----
    /// Bytes of all tables.
    pub table_bytes: Option<u64>,
    /// Bytes of the tables of each level, from 0.
    pub level_bytes: Option<Vec<u64>>,
    /// Bytes of all tables over the bytes after a full merge.
    pub space_amplification: Option<f64>,
    /// Bytes of memory by part: `("memtables", 67108864)`. Our names are `memtables`, `page_cache`,
    /// `indexes`, `filters`, `pinned`, `merges`, `tables`; a store that counts some of them
    /// together uses a name of its own.
    pub memory: Vec<(&'static str, u64)>,
}

/// The asynchronous calls of all queues together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QueueCounters {
    /// The calls taken from a queue.
    pub calls: u64,
    /// The number of batches in which they were taken.
    pub batches: u64,
    /// The sum of their times in the queue.
    pub waited: Duration,
}

/// The description of a store and its settings.
#[derive(Debug, Clone, PartialEq)]
pub struct Description {
    /// The name in lower case: `hedgerow`, `rocksdb`.
    pub name: String,
    /// The version of the library, not of its binding.
    pub version: String,
    /// The settings in force as an object: cache and memtable sizes, filter, compression, and
    /// everything else that is needed to repeat the result.
    pub settings: Value,
}

impl Description {
    /// The settings of a run. The store's own replace the requested ones.
    pub(crate) fn over(&self, mut requested: Map<String, Value>) -> Value {
        if let Value::Object(of_store) = &self.settings {
            requested.extend(of_store.clone());
        }
        Value::Object(requested)
    }
}

/// The options of opening a store. Other engines use those that they have, and derive the rest as
/// their authors recommend.
#[derive(Debug, Clone)]
pub struct OpenOptions {
    /// The directory of the store. It may not exist yet.
    pub dir: PathBuf,
    /// True if the store is emptied first. Only set if the same run wrote everything in it.
    pub fresh: bool,
    /// The name of the keyspace, for stores with keyspaces.
    pub keyspace: String,
    /// The budget in bytes for caches, memtables, indexes and filters together.
    pub memory_budget: u64,
    /// True if each write is durable when it returns; else it survives only the process.
    pub sync: bool,
    /// The number of distinct keys that the workloads write.
    pub entries: u64,
    /// Bytes of a key.
    pub key_bytes: usize,
    /// Bytes of a value.
    pub value_bytes: usize,
    /// The threads of the workloads.
    pub threads: usize,
    /// Key order and partitioning.
    pub layout: Layout,
    /// Merge policy, filter, compression, sizes of blocks, tables and memtables. The sizes are
    /// `None` by default and then follow from the memory budget.
    pub design: Design,
    /// True if the store tunes its design itself, beginning with `design`.
    pub self_tuning: bool,
    /// The way to read table files.
    pub read_mode: ReadMode,
    /// The threads for asynchronous calls; with 0, background threads do the calls.
    pub workers: usize,
    /// The capacity of each queue in calls; `None` for the store's default.
    pub worker_queue: Option<usize>,
}

impl OpenOptions {
    /// Options for these settings: a budget of 256 MiB, and writes that survive the process.
    pub fn new(dir: &Path, settings: &Settings) -> OpenOptions {
        OpenOptions {
            dir: dir.to_owned(),
            fresh: false,
            keyspace: "bench".to_owned(),
            memory_budget: 256 << 20,
            sync: false,
            entries: settings.records.num,
            key_bytes: settings.records.key_bytes,
            value_bytes: settings.records.value_bytes,
            threads: settings.threads,
            layout: Layout::sorted(),
            design: Design::default(),
            self_tuning: false,
            read_mode: ReadMode::Pread,
            workers: 0,
            worker_queue: None,
        }
    }

    /// The options by the names of the command line's flags; `null` for the store's choices.
    pub(crate) fn to_json(&self) -> Map<String, Value> {
        let design = &self.design;
        let fields = [
            ("sync", json!(self.sync)),
            ("memory_budget", json!(self.memory_budget)),
            ("filter", json!(design.filter.to_string())),
            ("compression", json!(design.compression.to_string())),
            ("memtable_size", json!(design.memtable_bytes)),
            ("table_size", json!(design.table_bytes)),
        ];
        fields
            .map(|(name, value)| (name.to_owned(), value))
            .into_iter()
            .collect()
    }
}
