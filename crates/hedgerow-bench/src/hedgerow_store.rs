//! Hedgerow as a store under test.

use hedgerow::{Db, DbStats, Durability, Keyspace, MemoryStats, Pending, Slice, WorkerStats};
use serde_json::json;

use crate::session::Open;
use crate::store::{
    Asynchronous, Begun, Counters, Description, Found, OpenOptions, QueueCounters, Result, Store,
};

/// A keyspace of a Hedgerow database.
#[derive(Debug)]
pub struct HedgerowStore {
    db: Db,
    keyspace: Keyspace,
    durability: Durability,
    options: OpenOptions,
}

impl HedgerowStore {
    /// The function with which a session opens it.
    pub fn opener() -> Open {
        Box::new(|options| Ok(Box::new(HedgerowStore::open(options)?)))
    }

    /// Opens or creates the database and the keyspace.
    ///
    /// # Errors
    /// `InvalidArgument` for options out of bounds or a keyspace of another layout, `Locked`, `Io`.
    pub fn open(options: &OpenOptions) -> Result<HedgerowStore> {
        let mut builder = Db::builder(&options.dir)
            .memory_budget(options.memory_budget)
            .read_mode(options.read_mode)
            .workers(options.workers);
        if let Some(calls) = options.worker_queue {
            builder = builder.worker_queue(calls);
        }
        let db = builder.open()?;
        let keyspace = db.keyspace_with(
            &options.keyspace,
            options.layout.clone(),
            options.design.clone(),
        )?;
        if options.fresh {
            keyspace.clear()?;
        }
        if options.self_tuning {
            keyspace.set_self_tuning(true)?;
        }
        Ok(HedgerowStore {
            db,
            keyspace,
            durability: match options.sync {
                true => Durability::Synced,
                false => Durability::Buffered,
            },
            options: options.clone(),
        })
    }
}

impl Store for HedgerowStore {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        Ok(self.keyspace.put_with(key, value, self.durability)?)
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        Ok(self.keyspace.delete_with(key, self.durability)?)
    }

    fn add(&self, key: &[u8], count: i64) -> Result<()> {
        let operand = count.to_le_bytes();
        Ok(self.keyspace.merge_with(key, operand, self.durability)?)
    }

    fn write_batch(&self, entries: &[(Vec<u8>, Vec<u8>)]) -> Result<()> {
        let mut batch = self.db.batch();
        for (key, value) in entries {
            batch.put(&self.keyspace, key, value)?;
        }
        Ok(batch.commit(self.durability)?)
    }

    fn get(&self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let value = self.keyspace.get(key)?;
        if let Some(value) = &value {
            found(value);
        }
        Ok(value.is_some())
    }

    fn multi_get(&self, keys: &[Vec<u8>], found: &mut dyn FnMut(usize, &[u8])) -> Result<()> {
        for (i, value) in self.keyspace.multi_get(keys)?.iter().enumerate() {
            if let Some(value) = value {
                found(i, value);
            }
        }
        Ok(())
    }

    fn scan(&self, from: &[u8], limit: usize, found: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        let mut cursor = self.keyspace.cursor()?;
        let mut there = cursor.seek(from)?;
        for left in (0..limit).rev() {
            let (true, Some(key), Some(value)) = (there, cursor.key(), cursor.value()?) else {
                break;
            };
            found(key, value);
            there = left > 0 && cursor.next()?;
        }
        Ok(())
    }

    fn scan_prefix(
        &self,
        prefix: &[u8],
        _limit: usize,
        found: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<()> {
        for item in self.keyspace.scan_prefix(prefix)? {
            let (key, value) = item?;
            found(&key, &value);
        }
        Ok(())
    }

    fn any_key(&self) -> Result<Option<Vec<u8>>> {
        let any = self.keyspace.scan_unordered()?.next().transpose()?;
        Ok(any.map(|(key, _)| key.to_vec()))
    }

    fn asynchronous(&self) -> Option<&dyn Asynchronous> {
        Some(self)
    }

    fn settle(&self) -> Result<()> {
        self.keyspace.flush()?;
        Ok(self.keyspace.wait_until_merged()?)
    }

    fn counters(&self) -> Counters {
        let stats = self.db.stats();
        let keyspace = self.keyspace.stats();
        Counters {
            log_bytes: Some(stats.log_bytes),
            flush_bytes: Some(stats.flush_bytes),
            merge_read_bytes: Some(stats.merge_read_bytes),
            merge_write_bytes: Some(stats.merge_write_bytes + stats.filter_write_bytes),
            filter_write_bytes: Some(stats.filter_write_bytes),
            entries_written: Some(stats.flush_entries + stats.merge_entries),
            block_reads: Some(stats.block_reads),
            device_reads: Some(stats.device_reads),
            filter_probes: Some(stats.filter_probes),
            filter_false_positives: Some(stats.filter_false_positives),
            memtable_hits: Some(stats.memtable_hits),
            hits_by_level: Some(hits_by_level(&stats)),
            stalled: Some(stats.stalls.total()),
            stalls: Some(stats.stalls.count()),
            queue: Some(queue(&stats.workers)),
            flush_cpu: Some(stats.flush_cpu),
            merge_cpu: Some(stats.merge_cpu),
            table_bytes: Some(keyspace.table_bytes()),
            level_bytes: Some(keyspace.levels.iter().map(|level| level.bytes).collect()),
            space_amplification: Some(keyspace.space_amplification()),
            memory: memory(&stats.memory),
        }
    }

    fn describe(&self) -> Description {
        let (layout, design) = (self.keyspace.layout(), self.keyspace.design());
        Description {
            name: "hedgerow".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            settings: json!({
                "keyspace": self.keyspace.name(),
                "order": layout.order.to_string(),
                "partitions": layout.partitioning.count(),
                "policy": design.policy.to_string(),
                "table": format!("{}:{}", design.table, design.block_bytes),
                "index": design.index.to_string(),
                "filter": design.filter.to_string(),
                "residency": design.residency.to_string(),
                "io": self.options.read_mode.to_string(),
                "compression": design.compression.to_string(),
                "memtable_size": design.memtable_bytes,
                "table_size": design.table_bytes,
                "auto": self.keyspace.stats().tunes_itself,
                "memory_budget": self.db.stats().memory.budget,
                "workers": self.options.workers,
                "worker_queue": self.options.worker_queue,
            }),
        }
    }
}

impl Asynchronous for HedgerowStore {
    fn begin_write(&self, key: &[u8], value: Option<&[u8]>) -> Result<Option<Begun<'_>>> {
        let (keyspace, durability) = (&self.keyspace, self.durability);
        let pending = match (durability, value) {
            (Durability::Buffered, Some(value)) => {
                keyspace.put_later(key, value)?;
                return Ok(None);
            }
            (Durability::Buffered, None) => {
                keyspace.delete_later(key)?;
                return Ok(None);
            }
            (_, Some(value)) => keyspace.put_async_with(key, value, durability),
            (_, None) => keyspace.delete_async_with(key, durability),
        };
        Ok(Some(Box::new(move |_| Ok(pending.wait()?))))
    }

    fn begin_update(&self, key: &[u8], value: &[u8]) -> Begun<'_> {
        let value = value.to_vec();
        let new = move |old: Option<&[u8]>| old.map(|_| value.clone());
        begun(self.keyspace.update_async(key, new), one)
    }

    fn begin_get(&self, key: &[u8]) -> Begun<'_> {
        begun(self.keyspace.get_async(key), one)
    }

    fn begin_multi_get(&self, keys: &[Vec<u8>]) -> Begun<'_> {
        begun(self.keyspace.multi_get_async(keys), |values, found| {
            for (i, value) in values.iter().enumerate() {
                value.iter().for_each(|value| found(i, value));
            }
        })
    }

    fn begin_scan(&self, from: &[u8], limit: usize) -> Begun<'_> {
        let page = self.keyspace.scan_page_async(from.., limit);
        begun(page, |pairs, found| {
            for (i, (_, value)) in pairs.iter().enumerate() {
                found(i, value);
            }
        })
    }

    fn barrier(&self) -> Result<()> {
        Ok(self.db.barrier().wait()?)
    }
}

/// Reports a result when it is available.
fn begun<'a, T: Send + 'a>(pending: Pending<T>, tell: fn(&T, &mut Found<'_>)) -> Begun<'a> {
    Box::new(move |found| {
        tell(&pending.wait()?, found);
        Ok(())
    })
}

fn one(value: &Option<Slice>, found: &mut Found<'_>) {
    value.iter().for_each(|value| found(0, value));
}

fn queue(workers: &[WorkerStats]) -> QueueCounters {
    let sum = |of: fn(&WorkerStats) -> u64| workers.iter().map(of).sum();
    QueueCounters {
        calls: sum(|worker| worker.done),
        batches: sum(|worker| worker.batches),
        waited: workers.iter().map(|worker| worker.waited).sum(),
    }
}

/// Hits by level over all keyspaces, from level 0 to the deepest level of any of them.
fn hits_by_level(stats: &DbStats) -> Vec<u64> {
    let mut hits = Vec::new();
    for level in stats.keyspaces.iter().flat_map(|k| &k.levels) {
        if hits.len() <= level.level {
            hits.resize(level.level + 1, 0);
        }
        hits[level.level] = level.hits;
    }
    hits
}

fn memory(memory: &MemoryStats) -> Vec<(&'static str, u64)> {
    vec![
        ("memtables", memory.memtables),
        ("page_cache", memory.page_cache),
        ("indexes", memory.indexes),
        ("filters", memory.filters),
        ("pinned", memory.pinned),
        ("merges", memory.merges),
        ("tables", memory.tables),
    ]
}
