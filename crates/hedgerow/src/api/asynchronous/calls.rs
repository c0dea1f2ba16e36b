//! The asynchronous calls of a keyspace.

use std::collections::BTreeMap;
use std::ops::RangeBounds;
use std::sync::{Arc, Mutex};

use super::{Pending, call_behind, workers};
use crate::api::keyspace::Keyspace;
use crate::base::entry::{KeyHash, Kind, Tag, check_stored};
use crate::base::error::Result;
use crate::base::expiry;
use crate::base::expiry::{Expiry, Moment};
use crate::base::mutex::lock;
use crate::base::options::Durability;
use crate::base::slice::Slice;
use crate::paths::delete_range;
use crate::paths::delete_range::Part;
use crate::paths::read;
use crate::paths::read::MemoryAnswer;
use crate::paths::scan::{Extent, range_bounds};
use crate::tree::engine::{Access, Answer, Engine, Handle, Task, Write};

/// Keys with their values, in order.
type Pairs = Vec<(Slice, Slice)>;

/// # Asynchronous calls
///
/// The workers of the database make these calls ([`Builder::workers`](crate::Builder::workers)), or
/// its background threads if it has no workers. [`Pending`] describes the result. The calls of one
/// thread for one key take effect in their order. Synchronous calls do not wait for queued ones.
impl Keyspace {
    /// Gets as [`Keyspace::get`] does. Answers at once if the value is in memory and the queue is
    /// empty.
    pub fn get_async(&self, key: impl AsRef<[u8]>) -> Pending<Option<Slice>> {
        self.begin_get(key.as_ref())
            .unwrap_or_else(|e| Pending::ready(Err(e)))
    }

    fn begin_get(&self, key: &[u8]) -> Result<Pending<Option<Slice>>> {
        let (access, worker) = self.access(key)?;
        let workers = workers(self.engine())?;
        if workers.is_idle(worker) {
            let state = self.cell().state.load();
            let cached = read::get_if_cached(self.engine(), &state, key, Moment::PRESENT)?;
            if cached != MemoryAnswer::Unknown {
                return Ok(Pending::ready(Ok(cached.value())));
            }
        }
        let (sender, pending) = Pending::queued(self.engine());
        let task = Task::Reads(vec![(access, Answer::One(sender))]);
        let place = workers.push(&self.engine().scheduler, worker, task)?;
        Ok(pending.at(worker, place))
    }

    /// Gets as [`Keyspace::multi_get`] does: each worker reads its part, and the reads of each
    /// overlap.
    pub fn multi_get_async<K: AsRef<[u8]>>(&self, keys: &[K]) -> Pending<Vec<Option<Slice>>> {
        self.begin_gets(keys)
            .unwrap_or_else(|e| Pending::ready(Err(e)))
    }

    fn begin_gets<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Pending<Vec<Option<Slice>>>> {
        self.check_takes_calls()?;
        let workers = workers(self.engine())?;
        if keys.is_empty() {
            return Ok(Pending::ready(Ok(Vec::new())));
        }
        let (sender, pending) = Pending::queued(self.engine());
        let gathered = Arc::new(Mutex::new(GatheredValues {
            values: Ok(vec![None; keys.len()]),
            missing: keys.len(),
            sender: Some(sender),
        }));
        let mut parts: BTreeMap<usize, Vec<_>> = BTreeMap::new();
        for (i, key) in keys.iter().enumerate() {
            let (access, worker) = self.access(key.as_ref())?;
            let gathered = gathered.clone();
            let answer = Answer::Part(Box::new(move |value| {
                GatheredValues::add(&gathered, i, value)
            }));
            parts.entry(worker).or_default().push((access, answer));
        }
        for (worker, reads) in parts {
            workers.push(&self.engine().scheduler, worker, Task::Reads(reads))?;
        }
        Ok(pending)
    }

    /// Puts as [`Keyspace::put`] does.
    pub fn put_async(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Pending<()> {
        self.put_async_with(key, value, Durability::Buffered)
    }

    /// Puts as [`Keyspace::put_with`] does. One sync serves all writes that a worker takes
    /// together.
    pub fn put_async_with(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        durability: Durability,
    ) -> Pending<()> {
        let at = self.cell().facts.expiry_of_puts(|| self.engine().time());
        self.put_async_at(key.as_ref(), value.as_ref(), at, durability)
    }

    /// Puts as [`Keyspace::put_expiring_with`] does.
    pub fn put_expiring_async(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        expiry: Expiry,
        durability: Durability,
    ) -> Pending<()> {
        let at = self.engine().time_of(expiry);
        self.put_async_at(key.as_ref(), value.as_ref(), at, durability)
    }

    fn put_async_at(
        &self,
        key: &[u8],
        value: &[u8],
        at: Option<u64>,
        durability: Durability,
    ) -> Pending<()> {
        let (tag, stored) = expiry::stored(at, value);
        self.write_async(tag, key, &stored, durability)
    }

    /// Deletes as [`Keyspace::delete`] does.
    pub fn delete_async(&self, key: impl AsRef<[u8]>) -> Pending<()> {
        self.delete_async_with(key, Durability::Buffered)
    }

    /// Deletes as [`Keyspace::delete_with`] does.
    pub fn delete_async_with(&self, key: impl AsRef<[u8]>, durability: Durability) -> Pending<()> {
        self.write_async(Tag::DELETE, key.as_ref(), b"", durability)
    }

    /// Merges as [`Keyspace::merge_with`] does.
    pub fn merge_async(
        &self,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
        durability: Durability,
    ) -> Pending<()> {
        self.write_async(Tag::MERGE, key.as_ref(), operand.as_ref(), durability)
    }

    /// Deletes a range as [`Keyspace::delete_range_with`] does. It takes effect after every write
    /// that was queued before it.
    pub fn delete_range_async<K: AsRef<[u8]>>(
        &self,
        range: impl RangeBounds<K>,
        durability: Durability,
    ) -> Pending<()> {
        let facts = &self.cell().facts;
        let parts = delete_range::of_range(facts, &range)
            .and_then(|parts| Ok((parts, range_bounds(&*facts.order, &range)?)));
        match parts {
            Err(error) => Pending::ready(Err(error)),
            Ok((parts, range)) => self.delete_async_behind(&parts, move |keyspace| {
                keyspace.delete_range_with(range, durability)
            }),
        }
    }

    /// Deletes a prefix as [`Keyspace::delete_prefix_with`] does. It takes effect after every write
    /// that was queued before it.
    pub fn delete_prefix_async(
        &self,
        prefix: impl AsRef<[u8]>,
        durability: Durability,
    ) -> Pending<()> {
        let prefix = prefix.as_ref().to_vec();
        match delete_range::of_prefix(&self.cell().facts, &prefix) {
            Err(error) => Pending::ready(Err(error)),
            Ok(parts) => self.delete_async_behind(&parts, move |keyspace| {
                keyspace.delete_prefix_with(&prefix, durability)
            }),
        }
    }

    /// Makes a call behind all that is queued for the trees of these parts.
    fn delete_async_behind(
        &self,
        parts: &[Part],
        call: impl FnOnce(&Keyspace) -> Result<()> + Send + 'static,
    ) -> Pending<()> {
        if let Err(error) = self.check_takes_calls() {
            return Pending::ready(Err(error));
        }
        let partitions = parts.iter().map(|part| part.partition);
        let behind = self.engine().asynchronous.workers_of(partitions);
        if behind.is_empty() {
            return Pending::ready(Ok(()));
        }
        let cell = self.cell().clone();
        call_behind(self.engine(), &behind, move |engine: &Arc<Engine>| {
            call(&Keyspace::new(&Handle::of_worker(engine), &cell))
        })
    }

    fn write_async(
        &self,
        tag: Tag,
        key: &[u8],
        value: &[u8],
        durability: Durability,
    ) -> Pending<()> {
        let (sender, pending) = Pending::queued(self.engine());
        let answer = Some(Answer::One(sender));
        let pushed = self
            .write_task(tag, (key, value), durability, answer)
            .and_then(|(task, worker)| {
                let place = workers(self.engine())?.push(&self.engine().scheduler, worker, task)?;
                Ok((worker, place))
            });
        match pushed {
            Ok((worker, place)) => pending.at(worker, place),
            Err(error) => Pending::ready(Err(error)),
        }
    }

    /// Puts without a future: waits only while the queue is full.
    /// [`Db::barrier`](crate::Db::barrier) reports the errors of such writes.
    ///
    /// # Errors
    /// `InvalidArgument` for a key or value out of bounds, `Closed`.
    pub fn put_later(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        let at = self.cell().facts.expiry_of_puts(|| self.engine().time());
        let (tag, stored) = expiry::stored(at, value.as_ref());
        self.write_later(tag, key.as_ref(), &stored)
    }

    /// Deletes without a future, as [`Keyspace::put_later`] puts.
    ///
    /// # Errors
    /// As [`Keyspace::put_later`].
    pub fn delete_later(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.write_later(Tag::DELETE, key.as_ref(), b"")
    }

    /// Puts as [`Keyspace::put_later`] does, but never waits.
    ///
    /// # Errors
    /// As [`Keyspace::put_later`]; `WouldBlock` if the queue is full.
    pub fn try_put_later(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        let at = self.cell().facts.expiry_of_puts(|| self.engine().time());
        let (tag, stored) = expiry::stored(at, value.as_ref());
        self.try_write_later(tag, key.as_ref(), &stored)
    }

    /// Deletes as [`Keyspace::delete_later`] does, but never waits.
    ///
    /// # Errors
    /// As [`Keyspace::try_put_later`].
    pub fn try_delete_later(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.try_write_later(Tag::DELETE, key.as_ref(), b"")
    }

    fn write_later(&self, tag: Tag, key: &[u8], value: &[u8]) -> Result<()> {
        let (task, worker) = self.write_task(tag, (key, value), Durability::Buffered, None)?;
        workers(self.engine())?.push_and_wait(&self.engine().scheduler, worker, task)
    }

    fn try_write_later(&self, tag: Tag, key: &[u8], value: &[u8]) -> Result<()> {
        let (task, worker) = self.write_task(tag, (key, value), Durability::Buffered, None)?;
        workers(self.engine())?.try_push(&self.engine().scheduler, worker, task)
    }

    /// Updates as [`Keyspace::update`] does. If `new` panics, the result is `Cancelled` and nothing
    /// is changed.
    pub fn update_async(
        &self,
        key: impl AsRef<[u8]>,
        new: impl FnMut(Option<&[u8]>) -> Option<Vec<u8>> + Send + 'static,
    ) -> Pending<Option<Slice>> {
        let key = key.as_ref();
        let checked = self.cell().facts.order.check(key);
        let (access, worker) = match checked.and_then(|()| self.access(key)) {
            Ok(found) => found,
            Err(error) => return Pending::ready(Err(error)),
        };
        call_behind(self.engine(), &[worker], move |engine: &Arc<Engine>| {
            Keyspace::new(&Handle::of_worker(engine), &access.cell).update(&access.key, new)
        })
    }

    /// The first `count` keys of a range with their values, in order. It sees every write that was
    /// queued before it. The next page begins behind the last key.
    pub fn scan_page_async<K: AsRef<[u8]>>(
        &self,
        range: impl RangeBounds<K>,
        count: usize,
    ) -> Pending<Pairs> {
        let cell = self.cell().clone();
        let extent = || Extent::of_range(&*cell.facts.order, &range);
        // With ranges, the order keys are the keys themselves.
        let range = match self.check_takes_calls().and_then(|()| extent()) {
            Ok(extent) => extent.bounds,
            Err(error) => return Pending::ready(Err(error)),
        };
        let state = cell.state.load_full();
        let partitions = state.covering(&range).iter().map(|it| it.index);
        let behind = self.engine().asynchronous.workers_of(partitions);
        if behind.is_empty() {
            return Pending::ready(Ok(Vec::new()));
        }
        call_behind(self.engine(), &behind, move |engine: &Arc<Engine>| {
            let keyspace = Keyspace::new(&Handle::of_worker(engine), &cell);
            keyspace.scan(range)?.take(count).collect()
        })
    }

    /// The worker that makes the calls for a key; `None` if the database's background threads do.
    pub fn worker(&self, key: impl AsRef<[u8]>) -> Option<usize> {
        let workers = self.engine().asynchronous.workers()?;
        let (_, worker) = self.route(key.as_ref()).ok()?;
        (!workers.is_pooled()).then_some(worker)
    }

    /// Returns `Closed` as soon as the keyspace is about to be dropped.
    fn check_takes_calls(&self) -> Result<()> {
        self.check_not_dropped()?;
        self.cell().check_not_dropping()
    }

    fn access(&self, key: &[u8]) -> Result<(Access, usize)> {
        let (hash, worker) = self.route(key)?;
        let (cell, key) = (self.cell().clone(), key.to_vec());
        Ok((Access { cell, key, hash }, worker))
    }

    /// The hash of a key, and the worker that owns its partition.
    fn route(&self, key: &[u8]) -> Result<(KeyHash, usize)> {
        self.check_takes_calls()?;
        let facts = &self.cell().facts;
        facts.order.check(key)?;
        let hash = KeyHash::of(key, facts.seed);
        let partition = facts.router.route(key, hash);
        Ok((hash, self.engine().asynchronous.worker_of(partition)))
    }

    fn write_task(
        &self,
        tag: Tag,
        (key, value): (&[u8], &[u8]),
        durability: Durability,
        answer: Option<Answer<()>>,
    ) -> Result<(Task, usize)> {
        // As in `put`: an error of the arguments comes before an error of the keyspace.
        self.cell().facts.order.check(key)?;
        check_stored(tag, value)?;
        if tag.kind == Kind::Merge {
            self.check_operand(value)?;
        }
        self.engine().writer()?;
        let (hash, worker) = self.route(key)?;
        let cell = self.cell().clone();
        let write = Write::new(cell, hash, tag, (key, value), durability, answer);
        Ok((Task::Write(write), worker))
    }
}

/// The values of several keys, filled in as they arrive.
struct GatheredValues {
    values: Result<Vec<Option<Slice>>>,
    missing: usize,
    sender: Option<oneshot::Sender<Result<Vec<Option<Slice>>>>>,
}

impl GatheredValues {
    fn add(gathered: &Mutex<GatheredValues>, i: usize, value: Result<Option<Slice>>) {
        let mut all = lock(gathered);
        match (&mut all.values, value) {
            (Ok(values), Ok(value)) => values[i] = value,
            (Ok(_), Err(error)) => all.values = Err(error),
            (Err(_), _) => {}
        }
        all.missing -= 1;
        if all.missing > 0 {
            return;
        }
        let values = std::mem::replace(&mut all.values, Ok(Vec::new()));
        let sender = all.sender.take();
        drop(all);
        if let Some(sender) = sender {
            // The receiver may be gone.
            drop(sender.send(values));
        }
    }
}
