//! Writing many pairs to a keyspace: in batches, so that one commit is shared by many.

use std::mem;

use hedgerow::{Batch, Db, Durability, Keyspace, Result};

/// Large enough that the cost of a commit does not show, small against any memory budget.
const BATCH_BYTES: usize = 64 << 10;

pub(crate) struct Loader<'a> {
    db: &'a Db,
    keyspace: &'a Keyspace,
    durability: Durability,
    batch: Batch,
    /// Pairs that are in the database.
    pub(crate) entries: u64,
    /// The bytes of all keys and values that were added.
    pub(crate) bytes: u64,
}

impl<'a> Loader<'a> {
    pub(crate) fn new(db: &'a Db, keyspace: &'a Keyspace, durability: Durability) -> Loader<'a> {
        Loader {
            db,
            keyspace,
            durability,
            batch: db.batch(),
            entries: 0,
            bytes: 0,
        }
    }

    pub(crate) fn add(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.batch.put(self.keyspace, key, value)?;
        self.bytes += (key.len() + value.len()) as u64;
        if self.batch.bytes() >= BATCH_BYTES {
            self.finish()?;
        }
        Ok(())
    }

    /// Writes what was added and is still held back.
    pub(crate) fn finish(&mut self) -> Result<()> {
        let batch = mem::replace(&mut self.batch, self.db.batch());
        let entries = batch.len() as u64;
        batch.commit(self.durability)?;
        self.entries += entries;
        Ok(())
    }
}
