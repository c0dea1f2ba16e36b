//! Batches: several writes, over any keyspaces and partitions, all or none.

mod commits;
mod indexed;

pub use indexed::{IndexedBatch, Savepoint};

use std::fmt;
use std::ops::RangeBounds;
use std::sync::Arc;

use crate::api::keyspace::Keyspace;
use crate::base::entry::{Flags, KeyHash, Kind, SeqNo, Tag, check_value};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::expiry;
use crate::base::expiry::Expiry;
use crate::paths::delete_range;
use crate::paths::delete_range::Part;
use crate::tree::engine::{Engine, Handle, KeyspaceCell};
use crate::tree::partition::Partition;
use crate::tree::wal::payload::{Mark, Payload};

/// Writes that become visible and durable together. The operations take effect in their order, so
/// that the last write of a key wins. `Send`: any thread may fill and commit it.
///
/// ```
/// # use hedgerow::{Db, Durability, Layout};
/// # let dir = tempfile::tempdir().unwrap();
/// let db = Db::open(dir.path())?;
/// let users = db.keyspace("users", Layout::sorted())?;
/// let by_year = db.keyspace("by-year", Layout::sorted().hash(4))?;
/// let mut batch = db.batch();
/// batch.put(&users, b"ada", b"1815")?.put(&by_year, b"1815", b"ada")?;
/// batch.commit(Durability::Synced)?;
/// # Ok::<(), hedgerow::Error>(())
/// ```
#[must_use = "a batch does nothing until it is committed"]
pub struct Batch {
    engine: Handle,
    routing_epoch: u64,
    /// The bytes that go to the log.
    payload: Payload,
    routes: Vec<Route>,
    /// The keyspaces in the order of the operations; equal neighbours appear once.
    keyspaces: Vec<Arc<KeyspaceCell>>,
}

/// An operation of a batch, as [`Batch::iter`] shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum BatchOp<'a> {
    /// A put.
    Put {
        /// The name of the keyspace.
        keyspace: String,
        /// The key.
        key: &'a [u8],
        /// The value.
        value: &'a [u8],
        /// Its expiry.
        expiry: Expiry,
    },
    /// A delete.
    Delete {
        /// The name of the keyspace.
        keyspace: String,
        /// The key.
        key: &'a [u8],
    },
    /// An operand of a merge operator.
    Merge {
        /// The name of the keyspace.
        keyspace: String,
        /// The key.
        key: &'a [u8],
        /// The operand.
        operand: &'a [u8],
    },
    /// The part of a range delete in one tree.
    DeleteRange {
        /// The name of the keyspace.
        keyspace: String,
        /// The first key of the range, or the prefix if keys are semi-sorted.
        from: &'a [u8],
        /// The first key behind the range; empty if it has no end.
        to: &'a [u8],
    },
}

/// The most operations that a read compares one by one; more are indexed.
const COMPARED_MAX: usize = 64;
/// The hash of an operation on a range.
const RANGE_HASH: KeyHash = KeyHash(0);

struct Route {
    /// The index into the keyspaces of the batch.
    keyspace: usize,
    partition: Arc<Partition>,
    /// That of the key, or [`RANGE_HASH`].
    hash: KeyHash,
}

impl Batch {
    pub(crate) fn new(engine: &Handle) -> Batch {
        Batch {
            engine: engine.clone(),
            routing_epoch: engine.catalog.epoch_at_once(),
            payload: Payload::new(),
            routes: Vec::new(),
            keyspaces: Vec::new(),
        }
    }

    /// Adds a put.
    ///
    /// # Errors
    /// `InvalidArgument` for a key or value out of bounds or a keyspace of another database,
    /// `Closed` for a dropped keyspace; the batch stays as it was.
    pub fn put(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<&mut Batch> {
        let at = keyspace.cell().facts.expiry_of_puts(|| self.engine.time());
        self.push_put(keyspace, key.as_ref(), value.as_ref(), at)
    }

    /// Adds a put of a value that expires ([`Keyspace::put_expiring`]). The time of
    /// [`Expiry::In`] begins now.
    ///
    /// # Errors
    /// As [`Batch::put`].
    pub fn put_expiring(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        expiry: Expiry,
    ) -> Result<&mut Batch> {
        let at = self.engine.time_of(expiry);
        self.push_put(keyspace, key.as_ref(), value.as_ref(), at)
    }

    fn push_put(
        &mut self,
        keyspace: &Keyspace,
        key: &[u8],
        value: &[u8],
        at: Option<u64>,
    ) -> Result<&mut Batch> {
        check_value(value)?;
        let (tag, stored) = expiry::stored(at, value);
        self.push(keyspace, tag, key, &stored)
    }

    /// Adds a delete.
    ///
    /// # Errors
    /// As [`Batch::put`].
    pub fn delete(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<&mut Batch> {
        self.push(keyspace, Tag::DELETE, key.as_ref(), b"")
    }

    /// Adds an operand, which the merge operator of the keyspace combines with the value of the key
    /// ([`Keyspace::merge`]).
    ///
    /// # Errors
    /// As [`Batch::put`] and [`Keyspace::merge`].
    pub fn merge(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
    ) -> Result<&mut Batch> {
        check_value(operand.as_ref())?;
        keyspace.check_operand(operand.as_ref())?;
        self.push(keyspace, Tag::MERGE, key.as_ref(), operand.as_ref())
    }

    /// Adds a delete of all keys of a range ([`Keyspace::delete_range`]). It counts as an operation
    /// for each tree that the range covers, as none if the range is empty.
    ///
    /// # Errors
    /// As [`Batch::put`] and [`Keyspace::delete_range`].
    pub fn delete_range<K: AsRef<[u8]>>(
        &mut self,
        keyspace: &Keyspace,
        range: impl RangeBounds<K>,
    ) -> Result<&mut Batch> {
        self.check(keyspace)?;
        let parts = delete_range::of_range(&keyspace.cell().facts, &range)?;
        Ok(self.push_parts(keyspace.cell(), parts))
    }

    /// Adds a delete of all keys with a prefix ([`Keyspace::delete_prefix`]).
    ///
    /// # Errors
    /// As [`Batch::put`] and [`Keyspace::delete_prefix`].
    pub fn delete_prefix(
        &mut self,
        keyspace: &Keyspace,
        prefix: impl AsRef<[u8]>,
    ) -> Result<&mut Batch> {
        self.check(keyspace)?;
        let parts = delete_range::of_prefix(&keyspace.cell().facts, prefix.as_ref())?;
        Ok(self.push_parts(keyspace.cell(), parts))
    }

    /// The number of operations.
    pub fn len(&self) -> usize {
        self.routes.len()
    }

    /// Returns true if there is no operation.
    pub fn is_empty(&self) -> bool {
        self.routes.is_empty()
    }

    /// The approximate size of its log record in bytes. At most 1 GiB can be committed.
    pub fn bytes(&self) -> usize {
        self.payload.bytes().len()
    }

    /// The operations, in their order.
    ///
    /// ```
    /// # use hedgerow::{BatchOp, Db, Layout};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = Db::open(dir.path())?;
    /// let users = db.keyspace("users", Layout::sorted())?;
    /// let mut batch = db.batch();
    /// batch.put(&users, "ada", "1815")?.delete(&users, "alan")?;
    /// let deletes = batch.iter().filter(|op| matches!(op, BatchOp::Delete { .. }));
    /// assert_eq!(deletes.count(), 1);
    /// # Ok::<(), hedgerow::Error>(())
    /// ```
    pub fn iter(&self) -> impl Iterator<Item = BatchOp<'_>> {
        let ops = self.payload.iter().zip(&self.routes);
        ops.filter_map(|(op, route)| {
            let op = op.ok()?;
            let keyspace = self.keyspaces[route.keyspace].facts.name();
            let key = op.user_key;
            Some(match op.tag.kind {
                Kind::Delete => BatchOp::Delete { keyspace, key },
                Kind::RangeDelete => BatchOp::DeleteRange {
                    keyspace,
                    from: key,
                    to: op.value,
                },
                Kind::Merge => BatchOp::Merge {
                    keyspace,
                    key,
                    operand: op.value,
                },
                _ => {
                    let expires = op.tag.flags.has(Flags::EXPIRES);
                    let timed = expires.then(|| expiry::split(op.value).ok()).flatten();
                    BatchOp::Put {
                        keyspace,
                        key,
                        value: timed.map_or(op.value, |(_, value)| value),
                        expiry: Expiry::of(timed.map(|(at, _)| at)),
                    }
                }
            })
        })
    }

    /// Removes all operations and keeps their memory for the next ones.
    pub fn clear(&mut self) {
        self.payload.clear();
        self.routes.clear();
        self.keyspaces.clear();
        self.routing_epoch = self.engine.catalog.epoch_at_once();
    }

    /// Removes the operations behind a place.
    fn truncate(&mut self, mark: Mark) {
        self.payload.truncate(mark);
        self.routes.truncate(mark.ops as usize);
        let keyspaces = self.routes.last().map_or(0, |last| last.keyspace + 1);
        self.keyspaces.truncate(keyspaces);
    }

    fn push(
        &mut self,
        keyspace: &Keyspace,
        tag: Tag,
        key: &[u8],
        value: &[u8],
    ) -> Result<&mut Batch> {
        self.check(keyspace)?;
        let cell = keyspace.cell();
        cell.facts.order.check(key)?;
        let hash = KeyHash::of(key, cell.facts.seed);
        self.push_hashed(cell, hash, tag, key, value);
        Ok(self)
    }

    fn check(&self, keyspace: &Keyspace) -> Result<()> {
        if !keyspace.is_of(&self.engine) {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                "expected a keyspace of the batch's database, found one of another",
            ));
        }
        keyspace.check_not_dropped()
    }

    fn push_parts(&mut self, cell: &Arc<KeyspaceCell>, parts: Vec<Part>) -> &mut Batch {
        let state = cell.state.load();
        for part in parts {
            let partition = state.partitions[part.partition].clone();
            let (tag, hash) = (Tag::RANGE_DELETE, RANGE_HASH);
            self.push_routed(cell, partition, hash, tag, (&part.key, &part.value));
        }
        self
    }

    /// Adds an operation on a key with its hash. The caller has checked the key and the keyspace.
    pub(crate) fn push_hashed(
        &mut self,
        cell: &Arc<KeyspaceCell>,
        hash: KeyHash,
        tag: Tag,
        key: &[u8],
        value: &[u8],
    ) {
        let partition = cell.state.load().route(key, hash).clone();
        self.push_routed(cell, partition, hash, tag, (key, value));
    }

    fn push_routed(
        &mut self,
        cell: &Arc<KeyspaceCell>,
        partition: Arc<Partition>,
        hash: KeyHash,
        tag: Tag,
        (key, value): (&[u8], &[u8]),
    ) {
        self.payload.push(partition.id, tag, key, value);
        if self
            .keyspaces
            .last()
            .is_none_or(|last| !Arc::ptr_eq(last, cell))
        {
            self.keyspaces.push(cell.clone());
        }
        self.routes.push(Route {
            keyspace: self.keyspaces.len() - 1,
            partition,
            hash,
        });
    }

    /// Returns true if the operations are few enough to compare each, and none is on a range.
    fn has_few(&self) -> bool {
        self.len() <= COMPARED_MAX && self.routes.iter().all(|it| it.hash != RANGE_HASH)
    }

    /// The writes of a key, the newest first. Looks at each operation.
    fn compared(&self, cell: &Arc<KeyspaceCell>, key: &[u8]) -> Result<Vec<(SeqNo, Tag, &[u8])>> {
        let hash = KeyHash::of(key, cell.facts.seed);
        let mut found = Vec::new();
        if self.routes.iter().all(|it| it.hash != hash) {
            return Ok(found);
        }
        let numbers = (0..).map(|number| SeqNo(SeqNo::OWN.0 + number));
        for (number, (op, route)) in numbers.zip(self.payload.iter().zip(&self.routes)) {
            let op = op?;
            let of_keyspace = Arc::ptr_eq(&self.keyspaces[route.keyspace], cell);
            if route.hash == hash && of_keyspace && op.user_key == key {
                found.push((number, op.tag, op.value));
            }
        }
        found.reverse();
        Ok(found)
    }

    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// The indexes of the trees that it writes to, in their keyspaces.
    pub(crate) fn trees(&self) -> impl Iterator<Item = usize> {
        self.routes.iter().map(|route| route.partition.index)
    }

    /// The same batch with another handle.
    pub(crate) fn with_handle(self, engine: Handle) -> Batch {
        Batch { engine, ..self }
    }
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let deletes =
            |op: &BatchOp<'_>| matches!(op, BatchOp::Delete { .. } | BatchOp::DeleteRange { .. });
        f.debug_struct("Batch")
            .field("operations", &self.len())
            .field("deletes", &self.iter().filter(deletes).count())
            .field("bytes", &self.bytes())
            .finish()
    }
}
