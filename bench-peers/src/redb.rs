//! redb, from the crates registry.
//!
//! A read is a transaction, and so is a write.

use std::fs;
use std::path::PathBuf;

use hedgerow_bench::{Counters, Description, OpenOptions, Result, Store};
use redb::{Database, Durability, ReadableDatabase, TableDefinition, WriteTransaction};
use serde_json::json;

use crate::shares;

const TABLE: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("bench");

/// An open database with one table.
pub(crate) struct Redb {
    db: Database,
    file: PathBuf,
    sync: bool,
    cache_bytes: u64,
}

impl std::fmt::Debug for Redb {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Redb")
            .field("file", &self.file)
            .finish_non_exhaustive()
    }
}

impl Redb {
    /// Opens or creates the database and its table.
    ///
    /// # Errors
    /// What redb says, and options that it does not have.
    pub(crate) fn open(options: &OpenOptions) -> Result<Redb> {
        if options.fresh && options.dir.exists() {
            fs::remove_dir_all(&options.dir)?;
        }
        if shares::is_compressed(options)? {
            return Err("expected no compression: redb has none".into());
        }
        fs::create_dir_all(&options.dir)?;
        let file = options.dir.join("bench.redb");
        let db = Database::builder()
            .set_cache_size(usize::try_from(options.memory_budget)?)
            .create(&file)?;
        let write = db.begin_write()?;
        write.open_table(TABLE)?;
        write.commit()?;
        Ok(Redb {
            db,
            file,
            sync: options.sync,
            cache_bytes: options.memory_budget,
        })
    }

    fn begin_write(&self) -> Result<WriteTransaction> {
        let mut write = self.db.begin_write()?;
        if !self.sync {
            write.set_durability(Durability::None)?;
        }
        Ok(write)
    }
}

impl Store for Redb {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let write = self.begin_write()?;
        write.open_table(TABLE)?.insert(key, value)?;
        Ok(write.commit()?)
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        let write = self.begin_write()?;
        write.open_table(TABLE)?.remove(key)?;
        Ok(write.commit()?)
    }

    fn write_batch(&self, entries: &[(Vec<u8>, Vec<u8>)]) -> Result<()> {
        let write = self.begin_write()?;
        let mut table = write.open_table(TABLE)?;
        for (key, value) in entries {
            table.insert(&key[..], &value[..])?;
        }
        drop(table);
        Ok(write.commit()?)
    }

    fn get(&self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let table = self.db.begin_read()?.open_table(TABLE)?;
        let value = table.get(key)?;
        if let Some(value) = &value {
            found(value.value());
        }
        Ok(value.is_some())
    }

    fn multi_get(&self, keys: &[Vec<u8>], found: &mut dyn FnMut(usize, &[u8])) -> Result<()> {
        let table = self.db.begin_read()?.open_table(TABLE)?;
        for (i, key) in keys.iter().enumerate() {
            if let Some(value) = table.get(&key[..])? {
                found(i, value.value());
            }
        }
        Ok(())
    }

    fn scan(&self, from: &[u8], limit: usize, found: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        let table = self.db.begin_read()?.open_table(TABLE)?;
        for entry in table.range(from..)?.take(limit) {
            let (key, value) = entry?;
            found(key.value(), value.value());
        }
        Ok(())
    }

    /// A durable commit persists all before it.
    fn settle(&self) -> Result<()> {
        Ok(self.db.begin_write()?.commit()?)
    }

    fn counters(&self) -> Counters {
        Counters {
            table_bytes: fs::metadata(&self.file).ok().map(|file| file.len()),
            ..Counters::default()
        }
    }

    fn describe(&self) -> Description {
        Description {
            name: "redb".to_owned(),
            version: crate::locked_version("redb"),
            settings: json!({
                "cache_size": self.cache_bytes,
                "durability": match self.sync {
                    true => "Immediate: each commit is synced",
                    false => "None: a kill loses what no later durable commit has persisted",
                },
                "compression": "none",
            }),
        }
    }
}
