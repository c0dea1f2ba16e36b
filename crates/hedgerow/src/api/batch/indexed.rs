//! Indexed batches: batches whose reads see their own writes.

mod below;
mod scans;

use std::fmt;
use std::ops::RangeBounds;
use std::sync::OnceLock;

use super::Batch;
use crate::api::keyspace::Keyspace;
use crate::api::snapshot::Snapshot;
use crate::base::entry::SeqNo;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::expiry::Expiry;
use crate::base::operand_chain::OperandChain;
use crate::base::options::Durability;
use crate::base::slice::Slice;
use crate::paths::conflicts::Basis;
use crate::paths::read::MemoryAnswer;
use crate::tree::own_writes::OwnWrites;
use crate::tree::wal::payload::Mark;

/// The memory of an indexed batch unless another bound is set.
const MEMORY_BYTES_MAX: usize = 64 << 20;

/// A batch whose reads see its own writes over a snapshot: gets, scans and cursors in both
/// directions. Everybody else sees the writes when it is committed. `Send`.
///
/// A scan or a cursor sees the writes that were in the batch when it was made. It is an owned
/// value, so the batch can be written to while it is read.
///
/// Memory: the operations. A scan makes a copy of them, and so does a get if there are more than 64
/// operations or some on ranges. 64 MiB by default, beside the database's memory budget; a write
/// beyond it is `InvalidArgument`.
/// Cost of a read: that of the snapshot, and a look into the batch if it has writes.
///
/// ```
/// # use hedgerow::{Db, Durability, Layout};
/// # let dir = tempfile::tempdir().unwrap();
/// let db = Db::open(dir.path())?;
/// let stock = db.keyspace("stock", Layout::sorted())?;
/// stock.put("apple", "3")?;
/// let mut batch = db.indexed_batch()?;
/// batch.put(&stock, "fig", "7")?.delete(&stock, "apple")?;
/// let before = batch.savepoint();
/// batch.delete_range(&stock, "a"..)?;
/// assert_eq!(batch.first(&stock)?, None);
/// batch.roll_back_to(before)?;
/// assert_eq!(batch.first(&stock)?.unwrap().0, "fig");
/// assert_eq!(stock.first()?.unwrap().0, "apple");
/// batch.commit(Durability::Buffered)?;
/// assert_eq!(stock.first()?.unwrap().0, "fig");
/// # Ok::<(), hedgerow::Error>(())
/// ```
#[must_use = "a batch does nothing until it is committed"]
pub struct IndexedBatch {
    batch: Batch,
    /// Without one, gets read the present below the writes ([`below`]).
    snapshot: OnceLock<Snapshot>,
    /// The writes up to `indexed`, from the first read on.
    own: Option<OwnWrites>,
    indexed: Mark,
    /// The savepoints that can be rolled back to, with their places; ascending.
    savepoints: Vec<(Savepoint, Mark)>,
    savepoints_made: u64,
    memory_bytes_max: usize,
    /// The record of each keyspace's reads, if the batch is a transaction that depends on them.
    reads: Option<Vec<Basis>>,
}

/// A place among the operations of an [`IndexedBatch`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Savepoint(u64);

impl IndexedBatch {
    /// A batch over a snapshot, or over the present until one is needed.
    pub(super) fn new(batch: Batch, snapshot: Option<Snapshot>) -> IndexedBatch {
        IndexedBatch {
            batch,
            snapshot: snapshot.map(OnceLock::from).unwrap_or_default(),
            own: None,
            indexed: Mark::default(),
            savepoints: Vec::new(),
            savepoints_made: 0,
            memory_bytes_max: MEMORY_BYTES_MAX,
            reads: None,
        }
    }

    /// Records what is read from now on.
    pub(crate) fn record_reads(&mut self) {
        self.reads = Some(Vec::new());
    }

    /// Sets the bytes of memory beyond which a write is refused.
    pub fn set_memory_max(&mut self, bytes: usize) {
        self.memory_bytes_max = bytes;
    }

    /// The bytes of memory in use.
    pub fn memory_bytes(&self) -> usize {
        let of_routes = self.batch.routes.len() * size_of::<super::Route>();
        let of_index = self.own.as_ref().map_or(0, OwnWrites::memory_bytes);
        let reads = self.reads.iter().flatten();
        let of_reads: usize = reads.map(|it| it.bytes()).sum();
        self.batch.bytes() + of_routes + of_index + of_reads
    }

    /// The operations.
    pub fn batch(&self) -> &Batch {
        &self.batch
    }

    // ---- writing ----

    /// Adds a put.
    ///
    /// # Errors
    /// As [`Batch::put`]; `InvalidArgument` if the batch has no memory left. The batch stays as it
    /// was.
    pub fn put(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<&mut IndexedBatch> {
        self.add(|batch| batch.put(keyspace, key, value).map(drop))
    }

    /// Adds a delete.
    ///
    /// # Errors
    /// As [`IndexedBatch::put`].
    pub fn delete(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
    ) -> Result<&mut IndexedBatch> {
        self.add(|batch| batch.delete(keyspace, key).map(drop))
    }

    /// Adds an operand, as [`Batch::merge`] does. Reads of the key combine it with the value below.
    ///
    /// # Errors
    /// As [`IndexedBatch::put`] and [`Batch::merge`].
    pub fn merge(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
    ) -> Result<&mut IndexedBatch> {
        self.add(|batch| batch.merge(keyspace, key, operand).map(drop))
    }

    /// Adds a put of a value that expires, as [`Batch::put_expiring`] does.
    ///
    /// # Errors
    /// As [`IndexedBatch::put`].
    pub fn put_expiring(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        expiry: Expiry,
    ) -> Result<&mut IndexedBatch> {
        self.add(|batch| batch.put_expiring(keyspace, key, value, expiry).map(drop))
    }

    /// Adds a delete of all keys of a range, as [`Batch::delete_range`] does.
    ///
    /// # Errors
    /// As [`IndexedBatch::put`] and [`Batch::delete_range`].
    pub fn delete_range<K: AsRef<[u8]>>(
        &mut self,
        keyspace: &Keyspace,
        range: impl RangeBounds<K>,
    ) -> Result<&mut IndexedBatch> {
        self.add(|batch| batch.delete_range(keyspace, range).map(drop))
    }

    /// Adds a delete of all keys with a prefix, as [`Batch::delete_prefix`] does.
    ///
    /// # Errors
    /// As [`IndexedBatch::put`] and [`Batch::delete_prefix`].
    pub fn delete_prefix(
        &mut self,
        keyspace: &Keyspace,
        prefix: impl AsRef<[u8]>,
    ) -> Result<&mut IndexedBatch> {
        self.add(|batch| batch.delete_prefix(keyspace, prefix).map(drop))
    }

    fn add(&mut self, push: impl FnOnce(&mut Batch) -> Result<()>) -> Result<&mut IndexedBatch> {
        let before = self.batch.payload.end();
        push(&mut self.batch)?;
        if let Err(error) = self.check_memory() {
            self.batch.truncate(before);
            return Err(error);
        }
        Ok(self)
    }

    fn check_memory(&self) -> Result<()> {
        let (bytes, max) = (self.memory_bytes(), self.memory_bytes_max);
        if bytes > max {
            return Err(Error::invalid(format!(
                "expected a batch of at most {max} bytes of memory, found {bytes} bytes"
            )));
        }
        Ok(())
    }

    /// Marks the present end of the operations, for [`IndexedBatch::roll_back_to`].
    pub fn savepoint(&mut self) -> Savepoint {
        let savepoint = Savepoint(self.savepoints_made);
        self.savepoints_made += 1;
        self.savepoints.push((savepoint, self.batch.payload.end()));
        savepoint
    }

    /// Removes the operations behind a savepoint, and the savepoints behind it. It can be rolled
    /// back to again.
    /// Cost: the next read looks at all remaining operations again.
    ///
    /// # Errors
    /// `InvalidArgument` for a savepoint of another batch, or one that was removed.
    pub fn roll_back_to(&mut self, savepoint: Savepoint) -> Result<()> {
        let found = self.savepoints.binary_search_by_key(&savepoint, |it| it.0);
        let place = found.map_err(|_| {
            Error::invalid("expected a savepoint of the batch, found one that was removed")
        })?;
        let mark = self.savepoints[place].1;
        self.savepoints.truncate(place + 1);
        self.batch.truncate(mark);
        if self.indexed.ops > mark.ops {
            (self.own, self.indexed) = (None, Mark::default());
        }
        Ok(())
    }

    /// Commits all operations or none, whatever others have written since the snapshot.
    ///
    /// # Errors
    /// As [`Batch::commit`].
    pub fn commit(self, durability: Durability) -> Result<()> {
        self.batch.commit(durability)
    }

    // ---- reading ----

    /// The value of a key.
    ///
    /// # Errors
    /// As [`Snapshot::get`].
    pub fn get(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<Option<Slice>> {
        match self.own_value(keyspace, key.as_ref())? {
            Some(value) => Ok(value),
            None => self.get_below(keyspace, key.as_ref()),
        }
    }

    /// The value of a key, if memory has the answer. The batch's own writes are in memory.
    ///
    /// # Errors
    /// As [`Snapshot::get_if_cached`].
    pub fn get_if_cached(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
    ) -> Result<MemoryAnswer> {
        match self.own_value(keyspace, key.as_ref())? {
            Some(value) => Ok(value.map_or(MemoryAnswer::Absent, MemoryAnswer::Value)),
            None => self.get_if_cached_below(keyspace, key.as_ref()),
        }
    }

    /// Returns true if a key has a value.
    ///
    /// # Errors
    /// As [`Snapshot::get`].
    pub fn contains_key(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<bool> {
        match self.own_value(keyspace, key.as_ref())? {
            Some(value) => Ok(value.is_some()),
            None => self.contains_key_below(keyspace, key.as_ref()),
        }
    }

    /// The values of several keys, in the order of `keys`.
    ///
    /// # Errors
    /// As [`Snapshot::get`].
    pub fn multi_get<K: AsRef<[u8]>>(
        &mut self,
        keyspace: &Keyspace,
        keys: &[K],
    ) -> Result<Vec<Option<Slice>>> {
        let own = keys
            .iter()
            .map(|key| self.own_value(keyspace, key.as_ref()));
        let own = own.collect::<Result<Vec<_>>>()?;
        let below = keys.iter().zip(&own).filter(|(_, own)| own.is_none());
        let below: Vec<_> = below.map(|(key, _)| key).collect();
        let mut found = self.snapshot().multi_get(keyspace, &below)?.into_iter();
        let values = own.into_iter().map(|own| own.or_else(|| found.next()));
        Ok(values.map(Option::flatten).collect())
    }

    /// The value that the batch gives a key; `Some(None)` if it deletes the key. Otherwise the
    /// value below is noted as read.
    #[allow(clippy::option_option, reason = "no write, a delete, a value")]
    fn own_value(&mut self, keyspace: &Keyspace, key: &[u8]) -> Result<Option<Option<Slice>>> {
        if self.batch.is_empty() && self.reads.is_none() {
            // The read below checks the keyspace and the key.
            return Ok(None);
        }
        self.check_below(keyspace)?;
        let facts = &keyspace.cell().facts;
        facts.order.check(key)?;
        let time = self.snapshot.get().map(Snapshot::time);
        let time = || time.unwrap_or_else(|| keyspace.engine().time());
        let (mut chain, mut reaches_below) = (OperandChain::new(), true);
        let (compared, indexed) = match self.batch.has_few() {
            true => (self.batch.compared(keyspace.cell(), key)?, None),
            false => (
                Vec::new(),
                self.index()?.map(|own| own.versions(facts, key)),
            ),
        };
        for (seqno, tag, stored) in compared.into_iter().chain(indexed.into_iter().flatten()) {
            let stored = || Ok(Slice::copy_from(stored));
            reaches_below = chain.add((seqno, tag), stored, time)?;
            if !reaches_below {
                break;
            }
        }
        if reaches_below {
            if let Some(reads) = self.reads_of(keyspace)? {
                reads.add_key(key);
                self.check_memory()?;
            }
            if chain.is_empty() {
                return Ok(None);
            }
            chain.set_base(self.get_below(keyspace, key)?);
        }
        let value = chain.value(key, || facts.merge_operator())?;
        Ok(Some(value.map(|value| Slice::copy_from(&value))))
    }

    /// Commits as a transaction: if nobody else has changed what it has read since its snapshot, or
    /// what it writes if its reads are not recorded. Without writes there is nothing to do.
    pub(crate) fn commit_checked(mut self, durability: Durability) -> Result<()> {
        if self.batch.is_empty() {
            return self.batch.engine.check_open();
        }
        let mut basis = match self.reads.take() {
            Some(reads) => reads,
            None => self.written()?,
        };
        basis.iter_mut().for_each(Basis::add_scanned);
        let since = SeqNo(self.snapshot().number());
        let result = self
            .batch
            .write_if_unchanged(durability, Some((since, &basis)));
        if matches!(&result, Err(error) if error.kind() == ErrorKind::Conflict) {
            self.batch.engine.stats.transaction_conflicts.add(1);
        }
        result
    }

    /// The keys and ranges that it writes.
    fn written(&self) -> Result<Vec<Basis>> {
        let mut all = Vec::new();
        for (op, route) in self.batch.payload.iter().zip(&self.batch.routes) {
            let (op, cell) = (op?, &self.batch.keyspaces[route.keyspace]);
            let state = self.snapshot().state_of(cell.facts.id);
            // A keyspace made after the snapshot was empty then.
            let state = || Ok(state.cloned().unwrap_or_else(|| cell.state.load_full()));
            Basis::of(&mut all, cell, state)?.add_write(op.tag, op.user_key, op.value)?;
        }
        Ok(all)
    }

    /// Its own writes, all of them; `None` if there are none.
    fn index(&mut self) -> Result<Option<&OwnWrites>> {
        let batch = &self.batch;
        if batch.is_empty() {
            return Ok(None);
        }
        let own = self.own.get_or_insert_with(OwnWrites::new);
        let routes = &batch.routes[self.indexed.ops as usize..];
        for (op, route) in batch.payload.since(self.indexed).zip(routes) {
            let op = op?;
            own.add(&route.partition, op.tag, (op.user_key, op.value))?;
        }
        self.indexed = batch.payload.end();
        Ok(Some(own))
    }
}

impl fmt::Debug for IndexedBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IndexedBatch")
            .field("batch", &self.batch)
            .field("snapshot", &self.snapshot.get())
            .finish()
    }
}
