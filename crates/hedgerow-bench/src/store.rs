//! What an engine must be able to do in order to be measured.

use std::path::{Path, PathBuf};
use std::time::Duration;

use hedgerow::io::ReadMode;
use hedgerow::{Design, ErrorKind, Layout};
use serde_json::{Map, Value, json};

use crate::workload::Settings;

/// Whatever a store or a workload failed with.
pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// The result of what can fail with any engine's error.
pub type Result<T> = std::result::Result<T, Error>;

/// What the caller asked for cannot be.
pub(crate) fn invalid(message: String) -> Error {
    hedgerow::Error::new(ErrorKind::InvalidArgument, message).into()
}

/// One engine under test, open. Shared by all threads of a workload.
///
/// Whether writes are synced is fixed when it is opened ([`OpenOptions::sync`]). Bytes are lent to
/// callbacks, so that no engine has to copy what it would not copy for its users.
pub trait Store: Sync {
    /// Gives a key a value.
    ///
    /// # Errors
    /// The engine's.
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()>;

    /// Takes a key's value away; it need not have one.
    ///
    /// # Errors
    /// The engine's.
    fn delete(&self, key: &[u8]) -> Result<()>;

    /// Puts all entries, keys and values, as one commit.
    ///
    /// # Errors
    /// The engine's.
    fn write_batch(&self, entries: &[(Vec<u8>, Vec<u8>)]) -> Result<()>;

    /// Calls `found` with the value of a key, if it has one; whether it has.
    ///
    /// # Errors
    /// The engine's.
    fn get(&self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool>;

    /// Calls `found` with the index in `keys` and the value of each key that has one, in any order.
    ///
    /// One by one, unless the engine has a better way.
    ///
    /// # Errors
    /// The engine's.
    fn multi_get(&self, keys: &[Vec<u8>], found: &mut dyn FnMut(usize, &[u8])) -> Result<()> {
        for (i, key) in keys.iter().enumerate() {
            self.get(key, &mut |value| found(i, value))?;
        }
        Ok(())
    }

    /// Seeks to the first key at or after `from`, as with a new cursor, and calls `found` with it
    /// and those that follow, in their order, at most `limit` (at least 1) in all.
    ///
    /// # Errors
    /// The engine's.
    fn scan(&self, from: &[u8], limit: usize, found: &mut dyn FnMut(&[u8], &[u8])) -> Result<()>;

    /// Calls `found` with the keys that begin with `prefix`, in any order, at most `limit` (at least
    /// 1) in all; there are at least so many.
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

    /// Any key that is there.
    ///
    /// # Errors
    /// The engine's.
    fn any_key(&self) -> Result<Option<Vec<u8>>> {
        let mut any = None;
        self.scan(&[0], 1, &mut |key, _| any = Some(key.to_vec()))?;
        Ok(any)
    }

    /// Its asynchronous calls, if it has such.
    fn asynchronous(&self) -> Option<&dyn Asynchronous> {
        None
    }

    /// Flushes what is in memory and waits until merging has nothing left to do.
    ///
    /// # Errors
    /// The engine's.
    fn settle(&self) -> Result<()>;

    /// What it has counted, as far as it counts.
    fn counters(&self) -> Counters;

    /// What it is, and how it was opened.
    fn describe(&self) -> Description;
}

/// Hears of each value that a call found, and its place among the keys of the call or in its scan.
pub type Found<'a> = dyn FnMut(usize, &[u8]) + 'a;

/// The rest of a call that was begun: waits for its end and tells what it found.
pub type Begun<'a> = Box<dyn FnOnce(&mut Found<'_>) -> Result<()> + Send + 'a>;

/// Calls of a [`Store`] that return before they have ended. Of one thread's calls for one key each takes
/// effect after those before it.
pub trait Asynchronous: Sync {
    /// Begins a put, or a delete if there is no value. Gives nothing if nobody has to wait for it before
    /// the next barrier, as where writes are not synced; it may wait for room in a queue itself.
    ///
    /// # Errors
    /// The engine's.
    fn begin_write(&self, key: &[u8], value: Option<&[u8]>) -> Result<Option<Begun<'_>>>;

    /// Begins to give a key that has a value another one, which is found.
    fn begin_update(&self, key: &[u8], value: &[u8]) -> Begun<'_>;

    /// Begins a get.
    fn begin_get(&self, key: &[u8]) -> Begun<'_>;

    /// Begins a get of several keys.
    fn begin_multi_get(&self, keys: &[Vec<u8>]) -> Begun<'_>;

    /// Begins to read the first key at or after `from`, and those that follow, `limit` in all.
    fn begin_scan(&self, from: &[u8], limit: usize) -> Begun<'_>;

    /// Waits until every write that was begun before has been made.
    ///
    /// # Errors
    /// The first of those that nobody waited for.
    fn barrier(&self) -> Result<()>;
}

/// What a store counts; `None` where it cannot say.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Counters {
    // ---- Since it was opened: results show by how much they grew. ----
    /// Bytes written to the log.
    pub log_bytes: Option<u64>,
    /// Bytes of tables written by flushes.
    pub flush_bytes: Option<u64>,
    /// Bytes of tables read by merges.
    pub merge_read_bytes: Option<u64>,
    /// Bytes of tables written by merges, and of filters in files of their own.
    pub merge_write_bytes: Option<u64>,
    /// Of these, the filters.
    pub filter_write_bytes: Option<u64>,
    /// Entries written to tables, by flushes and by merges.
    pub entries_written: Option<u64>,
    /// Pages (blocks) asked for, cached or not.
    pub block_reads: Option<u64>,
    /// Reads that left the process.
    pub device_reads: Option<u64>,
    /// Filters asked.
    pub filter_probes: Option<u64>,
    /// Filters that let a key pass which was not there.
    pub filter_false_positives: Option<u64>,
    /// Gets answered by a memtable.
    pub memtable_hits: Option<u64>,
    /// Gets answered by each level, from 0.
    pub hits_by_level: Option<Vec<u64>>,
    /// How long writes were held back, summed over the threads that wrote.
    pub stalled: Option<Duration>,
    /// How often.
    pub stalls: Option<u64>,
    /// Asynchronous calls that went through a queue.
    pub queue: Option<QueueCounters>,
    /// Processor time of flushes.
    pub flush_cpu: Option<Duration>,
    /// Processor time of merges.
    pub merge_cpu: Option<Duration>,
    // ---- As it is now: results show the value at their end. ----
    /// Bytes of all tables.
    pub table_bytes: Option<u64>,
    /// Bytes of the tables of each level, from 0.
    pub level_bytes: Option<Vec<u64>>,
    /// Bytes of all tables over those that would be left if everything were merged.
    pub space_amplification: Option<f64>,
    /// Bytes of memory by part: `("memtables", 67108864)`. Our names are `memtables`, `page_cache`,
    /// `indexes`, `filters`, `pinned`, `merges`, `tables`; a store that counts some of them together
    /// uses a name of its own.
    pub memory: Vec<(&'static str, u64)>,
}

/// Asynchronous calls of all queues together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QueueCounters {
    /// Calls that were taken from a queue.
    pub calls: u64,
    /// How often some were.
    pub batches: u64,
    /// How long they were in the queue, together.
    pub waited: Duration,
}

/// What a store is, and how it was opened.
#[derive(Debug, Clone, PartialEq)]
pub struct Description {
    /// In lower case: `hedgerow`, `rocksdb`.
    pub name: String,
    /// The version that runs, of the library and not of its binding.
    pub version: String,
    /// The settings in force, an object: cache and memtable sizes, filter, compression, whatever
    /// somebody needs who wants to repeat the result.
    pub settings: Value,
}

/// How a store is opened. Other engines take from it what they have, and derive the rest as their
/// authors recommend.
#[derive(Debug, Clone)]
pub struct OpenOptions {
    /// The directory of the store. It may not be there yet.
    pub dir: PathBuf,
    /// Empties the store first. Only asked for when everything in it was written by the same run.
    pub fresh: bool,
    /// The name of the keyspace, for stores that have such.
    pub keyspace: String,
    /// The bytes that caches, memtables, indexes and filters may use together.
    pub memory_budget: u64,
    /// Whether each write is durable when it returns; else it survives the process only.
    pub sync: bool,
    /// How many keys the workloads write in all.
    pub entries: u64,
    /// Bytes of a key.
    pub key_bytes: usize,
    /// Bytes of a value.
    pub value_bytes: usize,
    /// Threads of the workloads.
    pub threads: usize,
    /// Key order and partitioning.
    pub layout: Layout,
    /// Merge policy, filter, compression, sizes of blocks, tables and memtables. The defaults of
    /// sizes are `None`: whatever suits the memory budget.
    pub design: Design,
    /// Whether the store chooses its design itself while it runs, beginning with this one.
    pub self_tuning: bool,
    /// How table files are read.
    pub read_mode: ReadMode,
    /// Threads that make asynchronous calls; with 0 background threads do.
    pub workers: usize,
    /// How many calls the queue of each holds; what the store chooses unless given.
    pub worker_queue: Option<usize>,
}

impl OpenOptions {
    /// A store for these settings with a budget of 256 MiB, whose writes survive the process.
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

    /// Named as the flags of the command line; `null` for what the store chooses.
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
