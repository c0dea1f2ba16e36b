//! fjall, from the crates registry.

use std::fs;
use std::thread;
use std::time::Duration;

use fjall::config::{BloomConstructionPolicy, CompressionPolicy, FilterPolicy, FilterPolicyEntry};
use fjall::{
    AbstractTree, CompressionType, Database, Keyspace, KeyspaceCreateOptions, PersistMode,
};
use hedgerow_bench::{Counters, Description, OpenOptions, Result, Store};
use serde_json::json;

use crate::shares::{self, Shares};

/// Memtables that exist at most: one that fills, and the four sealed ones at which fjall halts
/// writers.
const MEMTABLES: u64 = 5;
/// The largest memtable that fjall's documents recommend.
const MEMTABLE_BYTES_MAX: u64 = 64 << 20;

/// An open database with one keyspace.
pub(crate) struct Fjall {
    db: Database,
    keyspace: Keyspace,
    sync: bool,
    memtable: u64,
    filter: String,
}

impl std::fmt::Debug for Fjall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fjall")
            .field("memtable", &self.memtable)
            .finish_non_exhaustive()
    }
}

impl Fjall {
    /// Opens or creates the database and its keyspace.
    ///
    /// # Errors
    /// What fjall says, and options that it does not have.
    pub(crate) fn open(options: &OpenOptions) -> Result<Fjall> {
        if options.fresh && options.dir.exists() {
            fs::remove_dir_all(&options.dir)?;
        }
        if shares::is_compressed(options)? {
            return Err("expected no compression: fjall is built without LZ4".into());
        }
        let memtable = (Shares::of(options)?.memtables / MEMTABLES).min(MEMTABLE_BYTES_MAX);
        let filter = match shares::filter_bits(options) {
            Some(bits) => FilterPolicyEntry::Bloom(BloomConstructionPolicy::BitsPerKey(bits)),
            None => FilterPolicyEntry::None,
        };
        let db = Database::builder(&options.dir)
            .cache_size(options.memory_budget - MEMTABLES * memtable)
            .open()?;
        let keyspace = db.keyspace(&options.keyspace, || {
            KeyspaceCreateOptions::default()
                .max_memtable_size(memtable)
                .filter_policy(FilterPolicy::all(filter))
                .data_block_compression_policy(CompressionPolicy::all(CompressionType::None))
        })?;
        Ok(Fjall {
            db,
            keyspace,
            sync: options.sync,
            memtable,
            filter: format!("{filter:?}"),
        })
    }

    /// fjall has handed each write to the system when it returns; a synced one needs more.
    fn persist(&self) -> Result<()> {
        if self.sync {
            self.db.persist(PersistMode::SyncData)?;
        }
        Ok(())
    }

    fn is_busy(&self) -> bool {
        self.db.outstanding_flushes() > 0
            || self.db.active_compactions() > 0
            || self.keyspace.sealed_memtable_count() > 0
    }
}

impl Store for Fjall {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.keyspace.insert(key, value)?;
        self.persist()
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        self.keyspace.remove(key)?;
        self.persist()
    }

    fn write_batch(&self, entries: &[(Vec<u8>, Vec<u8>)]) -> Result<()> {
        let mode = if self.sync {
            PersistMode::SyncData
        } else {
            PersistMode::Buffer
        };
        let mut batch = self.db.batch().durability(Some(mode));
        for (key, value) in entries {
            batch.insert(&self.keyspace, &key[..], &value[..]);
        }
        Ok(batch.commit()?)
    }

    fn get(&self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let value = self.keyspace.get(key)?;
        if let Some(value) = &value {
            found(value);
        }
        Ok(value.is_some())
    }

    fn scan(&self, from: &[u8], limit: usize, found: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        for guard in self.keyspace.range(from..).take(limit) {
            let (key, value) = guard.into_inner()?;
            found(&key, &value);
        }
        Ok(())
    }

    fn settle(&self) -> Result<()> {
        self.keyspace.rotate_memtable_and_wait()?;
        // Requests wait in a queue that cannot be seen, between the jobs that can.
        let mut quiet = 0;
        while quiet < 10 {
            quiet = if self.is_busy() { 0 } else { quiet + 1 };
            thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    fn counters(&self) -> Counters {
        let tree = &self.keyspace.tree;
        Counters {
            table_bytes: Some(self.keyspace.disk_space()),
            memory: vec![
                ("memtables", self.db.write_buffer_size()),
                ("page_cache", self.db.cache_size()),
                ("indexes", tree.pinned_block_index_size() as u64),
                ("filters", tree.pinned_filter_size() as u64),
            ],
            ..Counters::default()
        }
    }

    fn describe(&self) -> Description {
        Description {
            name: "fjall".to_owned(),
            version: crate::locked_version("fjall"),
            settings: json!({
                "cache_bytes": self.db.cache_capacity(),
                "max_memtable_size": self.memtable,
                "memtables_max": MEMTABLES,
                "filter_policy": self.filter,
                "compression": "none",
                "others": "fjall's defaults",
            }),
        }
    }
}
