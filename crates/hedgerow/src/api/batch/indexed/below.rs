//! Reads below the writes of an indexed batch: of a snapshot, or of the present until a snapshot is
//! needed. A get of the present takes no lock that all threads share.

use super::{Batch, IndexedBatch};
use crate::api::db::Db;
use crate::api::keyspace::Keyspace;
use crate::api::snapshot::Snapshot;
use crate::base::error::Result;
use crate::base::slice::Slice;
use crate::paths::conflicts::Basis;
use crate::paths::read::MemoryAnswer;

impl Db {
    /// An empty batch that reads its own writes, over the present: each get sees the writes that
    /// others have committed before it. For callers that keep others from writing what they read,
    /// or read once. The first scan, cursor, `multi_get` or call of [`IndexedBatch::snapshot`]
    /// takes a snapshot, at which the batch reads from then on.
    ///
    /// ```
    /// # use hedgerow::{Db, Layout};
    /// # let dir = tempfile::tempdir().unwrap();
    /// let db = Db::open(dir.path())?;
    /// let stock = db.keyspace("stock", Layout::sorted())?;
    /// let mut batch = db.present_batch();
    /// stock.put("apple", "3")?;
    /// assert!(batch.contains_key(&stock, "apple")?);
    /// batch.snapshot();
    /// stock.delete("apple")?;
    /// assert!(batch.contains_key(&stock, "apple")?);
    /// # Ok::<(), hedgerow::Error>(())
    /// ```
    pub fn present_batch(&self) -> IndexedBatch {
        IndexedBatch::new(self.batch(), None)
    }
}

impl Snapshot {
    /// An empty batch that reads its own writes, over this snapshot. Its commit overwrites what
    /// others have written since the snapshot; a [`Transaction`](crate::Transaction) is checked.
    pub fn indexed_batch(&self) -> IndexedBatch {
        IndexedBatch::new(Batch::new(self.engine()), Some(self.clone()))
    }
}

impl IndexedBatch {
    /// The snapshot below its own writes. A batch over the present takes it now.
    pub fn snapshot(&self) -> &Snapshot {
        self.snapshot
            .get_or_init(|| Snapshot::of(&self.batch.engine))
    }

    /// The value of a key below its own writes.
    pub(super) fn get_below(&self, keyspace: &Keyspace, key: &[u8]) -> Result<Option<Slice>> {
        match self.snapshot.get() {
            Some(snapshot) => snapshot.get(keyspace, key),
            None => self.checked(keyspace)?.get(key),
        }
    }

    /// The same, if memory has the answer.
    pub(super) fn get_if_cached_below(
        &self,
        keyspace: &Keyspace,
        key: &[u8],
    ) -> Result<MemoryAnswer> {
        match self.snapshot.get() {
            Some(snapshot) => snapshot.get_if_cached(keyspace, key),
            None => self.checked(keyspace)?.get_if_cached(key),
        }
    }

    /// Returns true if a key has a value below its own writes.
    pub(super) fn contains_key_below(&self, keyspace: &Keyspace, key: &[u8]) -> Result<bool> {
        match self.snapshot.get() {
            Some(snapshot) => snapshot.contains_key(keyspace, key),
            None => self.checked(keyspace)?.contains_key(key),
        }
    }

    /// Checks that a keyspace can be read.
    pub(super) fn check_below(&self, keyspace: &Keyspace) -> Result<()> {
        match self.snapshot.get() {
            Some(snapshot) => snapshot.state(keyspace).map(drop),
            None => self.batch.check(keyspace),
        }
    }

    /// The record of what is read of a keyspace, if there is to be one.
    pub(super) fn reads_of(&mut self, keyspace: &Keyspace) -> Result<Option<&mut Basis>> {
        let (Some(reads), Some(snapshot)) = (&mut self.reads, self.snapshot.get()) else {
            return Ok(None);
        };
        let state = || snapshot.state(keyspace).cloned();
        Basis::of(reads, keyspace.cell(), state).map(Some)
    }

    fn checked<'k>(&self, keyspace: &'k Keyspace) -> Result<&'k Keyspace> {
        self.batch.check(keyspace)?;
        Ok(keyspace)
    }
}
