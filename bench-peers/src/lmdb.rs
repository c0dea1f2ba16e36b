//! LMDB, through heed of the crates registry.
//!
//! A read is a transaction, and so is a write. LMDB has no cache: it maps its file. With a writable
//! map a write changes the mapped pages themselves.

use std::fs;
use std::ops::Bound;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use hedgerow_bench::{Counters, Description, OpenOptions, Result, Store};
use heed::types::Bytes;
use heed::{Database, Env, EnvFlags, EnvOpenOptions};
use serde_json::json;

use crate::shares;

/// Address space for each byte of user data: pages are half full after random inserts, and those
/// that a commit replaces wait for the next.
const MAP_FACTOR: u64 = 8;
/// Address space beside that: what a small database needs.
const MAP_BYTES_MIN: u64 = 1 << 30;

/// An open environment with one database.
#[derive(Debug)]
pub(crate) struct Lmdb {
    env: Env,
    database: Database<Bytes, Bytes>,
    dir: PathBuf,
    map_bytes: u64,
    flags: EnvFlags,
}

impl Lmdb {
    /// Opens or creates the environment and its database, with `flags` beside those of all runs.
    ///
    /// # Errors
    /// What LMDB says, and options that it does not have.
    pub(crate) fn open(options: &OpenOptions, flags: EnvFlags) -> Result<Lmdb> {
        if options.fresh && options.dir.exists() {
            fs::remove_dir_all(&options.dir)?;
        }
        if shares::is_compressed(options)? {
            return Err("expected no compression: LMDB has none".into());
        }
        fs::create_dir_all(&options.dir)?;
        let data = options.entries * (options.key_bytes + options.value_bytes) as u64;
        let map_bytes = (data * MAP_FACTOR + MAP_BYTES_MIN).next_multiple_of(1 << 20);
        let mut flags = flags | EnvFlags::NO_READ_AHEAD;
        flags.set(EnvFlags::NO_SYNC, !options.sync);
        let mut builder = EnvOpenOptions::new();
        builder.map_size(usize::try_from(map_bytes)?);
        // SAFETY: a power loss may damage what is not synced; nobody opens it after one.
        unsafe { builder.flags(flags) };
        // SAFETY: the directory is this process's alone, and no file in it changes but through
        // LMDB.
        let env = unsafe { builder.open(&options.dir) }?;
        let mut write = env.write_txn()?;
        let database = env.create_database(&mut write, None)?;
        write.commit()?;
        Ok(Lmdb {
            env,
            database,
            dir: options.dir.clone(),
            map_bytes,
            flags,
        })
    }
}

impl Store for Lmdb {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let mut write = self.env.write_txn()?;
        self.database.put(&mut write, key, value)?;
        Ok(write.commit()?)
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        let mut write = self.env.write_txn()?;
        self.database.delete(&mut write, key)?;
        Ok(write.commit()?)
    }

    fn write_batch(&self, entries: &[(Vec<u8>, Vec<u8>)]) -> Result<()> {
        let mut write = self.env.write_txn()?;
        for (key, value) in entries {
            self.database.put(&mut write, key, value)?;
        }
        Ok(write.commit()?)
    }

    fn get(&self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let read = self.env.read_txn()?;
        let value = self.database.get(&read, key)?;
        if let Some(value) = value {
            found(value);
        }
        Ok(value.is_some())
    }

    fn multi_get(&self, keys: &[Vec<u8>], found: &mut dyn FnMut(usize, &[u8])) -> Result<()> {
        let read = self.env.read_txn()?;
        for (i, key) in keys.iter().enumerate() {
            if let Some(value) = self.database.get(&read, key)? {
                found(i, value);
            }
        }
        Ok(())
    }

    fn scan(&self, from: &[u8], limit: usize, found: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        let read = self.env.read_txn()?;
        let range = (Bound::Included(from), Bound::Unbounded);
        for entry in self.database.range(&read, &range)?.take(limit) {
            let (key, value) = entry?;
            found(key, value);
        }
        Ok(())
    }

    fn settle(&self) -> Result<()> {
        Ok(self.env.force_sync()?)
    }

    fn counters(&self) -> Counters {
        Counters {
            // A writable map makes the file as long as the map: what it takes on the device counts.
            table_bytes: fs::metadata(self.dir.join("data.mdb"))
                .ok()
                .map(|file| file.blocks() * 512),
            ..Counters::default()
        }
    }

    fn describe(&self) -> Description {
        Description {
            name: match self.flags.contains(EnvFlags::WRITE_MAP) {
                true => "lmdb-writemap".to_owned(),
                false => "lmdb".to_owned(),
            },
            version: format!("heed {}", crate::locked_version("heed")),
            settings: json!({
                "map_size": self.map_bytes,
                "flags": format!("{:?}", self.flags),
                "durability": durability(self.flags),
                "cache": "the system's page cache, outside of the budget",
                "compression": "none",
            }),
        }
    }
}

fn durability(flags: EnvFlags) -> &'static str {
    match flags.contains(EnvFlags::NO_SYNC) {
        true => "a commit survives a kill; a power loss may damage the file",
        false => "each commit is synced",
    }
}
