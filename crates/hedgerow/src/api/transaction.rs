//! Optimistic transactions: read, decide, write, and commit if nobody else came first.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

use hedgerow_io::Clock;

use crate::api::asynchronous::{Pending, all_workers, call_behind};
use crate::api::batch::IndexedBatch;
use crate::api::db::Db;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::options::Durability;
use crate::tree::engine::{Engine, Handle};

/// The guarantee of a transaction about what others write meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Isolation {
    /// Committed transactions are as if they had run one after another. The commit is refused if
    /// another write has changed a key that was read, also one that was absent, or has put a key
    /// into a range that was scanned, as far as the scan went.
    #[default]
    Serializable,
    /// The transaction reads a snapshot. The commit is refused if another write has changed a key
    /// that it writes. Two transactions that read what the other writes may both commit.
    Snapshot,
}

/// The options of a transaction.
///
/// ```
/// use hedgerow::{Isolation, TransactionOptions};
///
/// let options = TransactionOptions { isolation: Isolation::Snapshot, ..Default::default() };
/// assert_eq!(options.attempts_max, 100);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransactionOptions {
    /// The guarantee; serializable by default.
    pub isolation: Isolation,
    /// The durability of the commit; buffered by default.
    pub durability: Durability,
    /// The attempts of [`Db::transact`] before it returns `Conflict`; 100 by default, at least 1.
    pub attempts_max: u32,
    /// The bytes of memory for writes and for the record of reads; 64 MiB by default.
    pub memory_bytes_max: usize,
}

impl Default for TransactionOptions {
    fn default() -> TransactionOptions {
        TransactionOptions {
            isolation: Isolation::default(),
            durability: Durability::Buffered,
            attempts_max: 100,
            memory_bytes_max: 64 << 20,
        }
    }
}

/// An optimistic transaction over all keyspaces and partitions: an [`IndexedBatch`] whose commit is
/// refused if others came first. Nobody waits for it, however long it lives. Made by
/// [`Db::transaction`]; [`Db::transact`] repeats one until it commits.
///
/// Every kind of write of others counts: puts, batches, bulk loads, range deletes, clears, drops.
/// Dropping a transaction discards its writes.
///
/// Cost: a snapshot; for each read a record of its key, or of the range that a scan passed; the
/// commit of a batch. The commit compares one number for each key read. If another write may have
/// changed one, it looks for it first, outside of every lock: a search in the memtables for each
/// key, a step for each entry of a range that is not in old tables.
///
/// ```
/// # use hedgerow::{Db, ErrorKind, Layout};
/// # let dir = tempfile::tempdir().unwrap();
/// let db = Db::open(dir.path())?;
/// let doctors = db.keyspace("on-call", Layout::sorted())?;
/// doctors.put("ada", "")?;
/// doctors.put("grace", "")?;
///
/// // Both may go home only if another one stays.
/// let (mut first, mut second) = (db.transaction()?, db.transaction()?);
/// assert_eq!(first.scan_all(&doctors)?.count(), 2);
/// assert_eq!(second.scan_all(&doctors)?.count(), 2);
/// first.delete(&doctors, "ada")?;
/// second.delete(&doctors, "grace")?;
/// first.commit()?;
/// let refused = second.commit().unwrap_err();
/// assert_eq!(refused.kind(), ErrorKind::Conflict);
/// assert_eq!((refused.keyspace(), refused.key()), (Some("on-call"), Some(&b"ada"[..])));
/// # Ok::<(), hedgerow::Error>(())
/// ```
#[must_use = "a transaction does nothing until it is committed"]
pub struct Transaction {
    batch: IndexedBatch,
    options: TransactionOptions,
}

impl Transaction {
    /// Commits all writes, or none. A transaction without writes never conflicts.
    ///
    /// # Errors
    /// `Conflict` if another write came first; [`Error::keyspace`] and [`Error::key`] say where. As
    /// [`Batch::commit`](crate::Batch::commit).
    pub fn commit(self) -> Result<()> {
        self.batch.commit_checked(self.options.durability)
    }

    /// Commits as [`Transaction::commit`] does, after every asynchronous call made before.
    pub fn commit_async(self) -> Pending<()> {
        let engine = self.batch.batch().engine().clone();
        let all = all_workers(&engine.asynchronous);
        call_behind(&engine, &all, move |_: &Arc<Engine>| self.commit())
    }
}

impl Deref for Transaction {
    type Target = IndexedBatch;

    fn deref(&self) -> &IndexedBatch {
        &self.batch
    }
}

impl DerefMut for Transaction {
    fn deref_mut(&mut self) -> &mut IndexedBatch {
        &mut self.batch
    }
}

impl fmt::Debug for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transaction")
            .field("batch", &self.batch)
            .field("options", &self.options)
            .finish()
    }
}

/// # Transactions
impl Db {
    /// Begins a serializable transaction over a snapshot of now.
    ///
    /// # Errors
    /// `Closed`.
    pub fn transaction(&self) -> Result<Transaction> {
        self.transaction_with(TransactionOptions::default())
    }

    /// Begins a transaction with options.
    ///
    /// # Errors
    /// `Closed`.
    pub fn transaction_with(&self, options: TransactionOptions) -> Result<Transaction> {
        let mut batch = self.indexed_batch()?;
        batch.set_memory_max(options.memory_bytes_max);
        if options.isolation == Isolation::Serializable {
            batch.record_reads();
        }
        Ok(Transaction { batch, options })
    }

    /// Calls `body` with a transaction and commits it, again and again until no other write comes
    /// first. Waits a little between attempts, longer with each.
    ///
    /// ```
    /// # use hedgerow::{Db, Error, Layout};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = Db::open(dir.path())?;
    /// let accounts = db.keyspace("accounts", Layout::sorted().hash(4))?;
    /// accounts.put("ada", [5])?;
    /// let left = db.transact(|t| {
    ///     let ada = t.get(&accounts, "ada")?.map_or(0, |value| value[0]);
    ///     let alan = t.get(&accounts, "alan")?.map_or(0, |value| value[0]);
    ///     let amount = ada.min(3);
    ///     t.put(&accounts, "ada", [ada - amount])?.put(&accounts, "alan", [alan + amount])?;
    ///     Ok::<_, Error>(ada - amount)
    /// })?;
    /// assert_eq!(left, 2);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// The error of `body`, and nothing is written; as [`Transaction::commit`]; `Conflict` after
    /// [`TransactionOptions::attempts_max`] attempts.
    pub fn transact<T, E: From<Error>>(
        &self,
        body: impl FnMut(&mut Transaction) -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        self.transact_with(TransactionOptions::default(), body)
    }

    /// Calls `body` as [`Db::transact`] does, with options.
    ///
    /// # Errors
    /// As [`Db::transact`].
    pub fn transact_with<T, E: From<Error>>(
        &self,
        options: TransactionOptions,
        mut body: impl FnMut(&mut Transaction) -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        let mut attempts = 1;
        loop {
            let mut transaction = self.transaction_with(options)?;
            let result = body(&mut transaction)?;
            match transaction.commit() {
                Ok(()) => return Ok(result),
                Err(error)
                    if error.kind() == ErrorKind::Conflict && attempts < options.attempts_max =>
                {
                    let Engine {
                        environment,
                        publisher,
                        ..
                    } = &**self.engine();
                    back_off(&*environment.clock, publisher.published(), attempts);
                    attempts += 1;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Calls `body` as [`Db::transact`] does, on a thread of the database, after every asynchronous
    /// call made before. If `body` panics, the result is `Cancelled` and nothing is changed.
    ///
    /// It occupies the thread until it has ended, also while it waits between attempts, each time
    /// at most 2 ms. So calls made after it that wait for all others, as [`Db::barrier`], find it
    /// ended.
    pub fn transact_async<T: Send + 'static>(
        &self,
        body: impl FnMut(&mut Transaction) -> Result<T> + Send + 'static,
    ) -> Pending<T> {
        let all = all_workers(&self.engine().asynchronous);
        call_behind(self.engine(), &all, move |engine: &Arc<Engine>| {
            Db::new(Handle::of_worker(engine)).transact(body)
        })
    }
}

/// The attempts after which a transaction waits: most conflicts are over by then.
const ATTEMPTS_AT_ONCE: u32 = 2;
/// The longest wait.
const WAIT_MAX: Duration = Duration::from_millis(2);

/// Waits before the next attempt: twice as long each time, within a random half of that.
fn back_off(clock: &dyn Clock, published: u64, attempts: u32) {
    let Some(waits) = attempts.checked_sub(ATTEMPTS_AT_ONCE) else {
        return;
    };
    let longest = Duration::from_micros(20 << waits.min(10)).min(WAIT_MAX);
    let random = clock.now().as_nanos() as u64 ^ published;
    let share = random.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
    clock.sleep(longest / 2 + longest.mul_f64(share as f64 / f64::from(u32::MAX)) / 2);
}
