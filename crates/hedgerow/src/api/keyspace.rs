//! A keyspace: a named map from keys to values, with a layout and a design of its own.

use std::cell::RefCell;
use std::fmt;
use std::ops::RangeBounds;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::base::entry::{KeyHash, KeyspaceId, SeqNo, Tag, check_value};
use crate::base::error::{Error, Result};
use crate::base::options::{Design, Durability, Layout};
use crate::base::slice::Slice;
use crate::base::stats::KeyspaceStats;
use crate::design::merge_policy::text::print_shape;
use crate::paths::bulk_load::{BulkLoad, BulkLoadReport};
use crate::paths::compaction;
use crate::paths::compaction::CompactProgress;
use crate::paths::explain;
use crate::paths::explain::Explanation;
use crate::paths::flush;
use crate::paths::read;
use crate::paths::read::Want;
use crate::paths::retune;
use crate::paths::scan::{
    ALL_KEYS, Cursor, Extent, Scan, ScanToken, UnorderedScan, View, range_bounds,
};
use crate::paths::self_tuning;
use crate::paths::write;
use crate::paths::write::{Condition, Outcome, WriteOp};
use crate::tree::engine::{Engine, Handle, KeyspaceCell};
use crate::tree::partition::KeyBounds;
use crate::tree::wal::record::Payload;

thread_local! {
    /// The payload of single writes, kept so that a put allocates nothing.
    static PAYLOAD: RefCell<Payload> = RefCell::new(Payload::new());
}

/// What an update has seen, and must find again when it writes.
#[derive(Debug, Clone, Copy)]
struct Unchanged {
    routing_epoch: u64,
    stripe: usize,
    /// The number of the last write to the stripe.
    seen: SeqNo,
}

/// A payload that grew beyond this is not kept.
const KEPT_PAYLOAD_BYTES_MAX: usize = 64 << 10;

/// A handle of a keyspace. Cheap to clone, `Send + Sync`; keeps the database open.
///
/// Every operation may be called from any thread. Keys have 1 byte to 64 KiB, values up to 64 MiB;
/// beyond that is `InvalidArgument`. After [`Db::close`](crate::Db::close), or when the keyspace
/// was dropped, every operation is `Closed`.
///
/// ```
/// # use hedgerow::{Db, Layout};
/// # let dir = tempfile::tempdir().unwrap();
/// let db = Db::open(dir.path())?;
/// let users = db.keyspace("users", Layout::sorted())?;
/// users.put("ada", "1815")?;
/// users.put("grace", "1906")?;
/// assert!(users.contains_key("ada")?);
/// assert_eq!(users.multi_get(&["grace", "alan"])?[1], None);
/// users.delete("ada")?;
/// assert_eq!(users.get("ada")?, None);
/// # Ok::<(), hedgerow::Error>(())
/// ```
#[derive(Clone)]
pub struct Keyspace {
    engine: Handle,
    cell: Arc<KeyspaceCell>,
}

impl Keyspace {
    pub(crate) fn new(engine: &Handle, cell: &Arc<KeyspaceCell>) -> Keyspace {
        Keyspace {
            engine: engine.clone(),
            cell: cell.clone(),
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.cell.facts.name
    }

    /// Its layout.
    pub fn layout(&self) -> Layout {
        self.cell.facts.layout.clone()
    }

    /// The design in force.
    pub fn design(&self) -> Design {
        self.cell.facts.design().design.clone()
    }

    // ---- writing ----

    /// Gives a key a value, buffered: it survives the end of the process.
    /// Cost: no I/O; waits while background work is too far behind.
    ///
    /// # Errors
    /// `InvalidArgument` for a key or value out of bounds, `NoSpace`, `Unsupported` when opened for
    /// reading only, `Closed`; `Poisoned` after a failed write of the log.
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.put_with(key, value, Durability::Buffered)
    }

    /// Gives a key a value. Cost of `Synced`: one sync of the log, shared with others who wait.
    ///
    /// # Errors
    /// As [`Keyspace::put`].
    pub fn put_with(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        durability: Durability,
    ) -> Result<()> {
        self.write(Tag::PUT, key.as_ref(), value.as_ref(), None, durability)
            .map(drop)
    }

    /// Takes a key's value away, buffered; it need not have one.
    ///
    /// # Errors
    /// As [`Keyspace::put`].
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.delete_with(key, Durability::Buffered)
    }

    /// Takes a key's value away; it need not have one.
    ///
    /// # Errors
    /// As [`Keyspace::put`].
    pub fn delete_with(&self, key: impl AsRef<[u8]>, durability: Durability) -> Result<()> {
        self.write(Tag::DELETE, key.as_ref(), b"", None, durability)
            .map(drop)
    }

    /// Replaces a key's value by what `new` makes of it, atomically: no other write to the key comes
    /// between. `new` gets the value there is and returns the one there shall be, `None` for none;
    /// it may be called several times. Returns the new value.
    ///
    /// ```
    /// # use hedgerow::{Db, Layout};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = Db::open(dir.path())?;
    /// let counters = db.keyspace("counters", Layout::sorted())?;
    /// counters.update(b"visits", |old| {
    ///     let count = old.map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().unwrap()));
    ///     Some((count + 1).to_le_bytes().to_vec())
    /// })?;
    /// # Ok::<(), hedgerow::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Keyspace::put`] and [`Keyspace::get`].
    pub fn update(
        &self,
        key: impl AsRef<[u8]>,
        new: impl FnMut(Option<&[u8]>) -> Option<Vec<u8>>,
    ) -> Result<Option<Slice>> {
        self.update_with(key, new, Durability::Buffered)
    }

    /// As [`Keyspace::update`], with a choice of durability.
    ///
    /// # Errors
    /// As [`Keyspace::update`].
    pub fn update_with(
        &self,
        key: impl AsRef<[u8]>,
        mut new: impl FnMut(Option<&[u8]>) -> Option<Vec<u8>>,
        durability: Durability,
    ) -> Result<Option<Slice>> {
        let key = key.as_ref();
        self.cell.facts.order.check(key)?;
        let stripe = write::stripe(KeyHash::of(key, self.cell.facts.seed));
        loop {
            // Before the old value is read: a clear since then makes it another one, too.
            let routing_epoch = self.engine.routing_epoch();
            let seen = self.engine.writer()?.stripes[stripe].load(Ordering::Acquire);
            self.engine.publisher.wait(seen);
            let old = self.get(key)?;
            let replacement = new(old.as_deref());
            let (tag, value) = match &replacement {
                Some(value) => (Tag::PUT, value.as_slice()),
                None if old.is_none() => return Ok(None),
                None => (Tag::DELETE, &b""[..]),
            };
            let unchanged = Unchanged {
                routing_epoch,
                stripe,
                seen: SeqNo(seen),
            };
            if self.write(tag, key, value, Some(unchanged), durability)? {
                return Ok(replacement.map(|value| Slice::copy_from(&value)));
            }
            self.engine.stats.update_retries.add(1);
        }
    }

    /// Puts entries that come in ascending order of keys (in any order, if keys are not sorted), each
    /// key once, past the log and the memtables: the way to fill a keyspace. Takes one entry at a time and keeps none, so there may
    /// be any number of them. All become visible and durable at once, in all partitions, when it
    /// returns; a snapshot taken before does not see them. To other writes of any thread the load is
    /// a single commit made at its end: it replaces what is there by then, and what is written later
    /// replaces it. Tables go to the deepest level above which nothing overlaps them, so where the
    /// keys are new nothing is merged.
    ///
    /// Cost: writes every entry once; at the end flushes the keyspace's memtables and syncs the log
    /// and the manifest. Writes that other threads make during these syncs wait for them. Keys that
    /// are not sorted are so first: what does not fit the memory of merges is written once more.
    ///
    /// ```
    /// # use hedgerow::{Db, Error, ErrorKind, Layout};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = Db::open(dir.path())?;
    /// let squares = db.keyspace("squares", Layout::sorted())?;
    /// let entries = (0..1000_u64).map(|i| Ok::<_, Error>((i.to_be_bytes(), (i * i).to_be_bytes())));
    /// assert_eq!(squares.bulk_load(entries)?.entries, 1000);
    /// assert_eq!(squares.get(9_u64.to_be_bytes())?.as_deref(), Some(&81_u64.to_be_bytes()[..]));
    ///
    /// let unsorted = [("b", "1"), ("a", "2")].map(Ok::<_, Error>);
    /// assert_eq!(squares.bulk_load(unsorted).unwrap_err().kind(), ErrorKind::InvalidArgument);
    /// assert_eq!(squares.get("b")?, None);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// The first error of `entries`, and what [`Keyspace::put`] and [`Keyspace::flush`] have;
    /// `InvalidArgument` for a key that is not above the one before, or not the first time there; `Conflict` when merges are too
    /// far behind; `Closed` also if the keyspace was cleared meanwhile. Nothing was put then; only
    /// after `Poisoned` that is not known until the database is opened again.
    pub fn bulk_load<K, V, E>(
        &self,
        entries: impl IntoIterator<Item = std::result::Result<(K, V), E>>,
    ) -> std::result::Result<BulkLoadReport, E>
    where
        K: AsRef<[u8]>,
        V: AsRef<[u8]>,
        E: From<Error>,
    {
        self.check_not_dropped()?;
        let state = self.cell.state.load_full();
        let mut load = BulkLoad::begin(&self.engine, &state)?;
        for entry in entries {
            let (key, value) = entry?;
            load.add(key.as_ref(), value.as_ref())?;
        }
        Ok(load.finish()?)
    }

    /// One operation. False if something was changed that had to be unchanged.
    fn write(
        &self,
        tag: Tag,
        key: &[u8],
        value: &[u8],
        unchanged: Option<Unchanged>,
        durability: Durability,
    ) -> Result<bool> {
        self.cell.facts.order.check(key)?;
        check_value(value)?;
        let hash = KeyHash::of(key, self.cell.facts.seed);
        // A listener that writes in the middle of a write finds the payload taken.
        let mut payload = PAYLOAD.take();
        let result = loop {
            self.check_not_dropped()?;
            let routing_epoch = match &unchanged {
                None => self.engine.routing_epoch(),
                Some(unchanged) => unchanged.routing_epoch,
            };
            let state = self.cell.state.load();
            let partition = state.route(key, hash);
            payload.clear();
            payload.push(partition.id, tag, key, value);
            let op = WriteOp {
                partition,
                hash,
                tag,
                user_key: key,
                value,
            };
            let condition = Condition {
                routing_epoch,
                unchanged: unchanged.map(|u| (u.stripe, u.seen)),
            };
            match write::commit(&self.engine, &[op], &payload, condition, durability) {
                Ok(Outcome::Rerouted) if unchanged.is_none() => {}
                Ok(outcome) => break Ok(outcome == Outcome::Committed),
                Err(error) => break Err(error),
            }
        };
        if payload.bytes().len() <= KEPT_PAYLOAD_BYTES_MAX {
            PAYLOAD.set(payload);
        }
        result
    }

    // ---- reading ----

    /// The value of a key. Values under 1 KiB are copied, longer ones pin their page.
    /// Cost: at most one page of data, unless filters are wrong (about 1 % each at 10 bits).
    ///
    /// # Errors
    /// `InvalidArgument` for a key out of bounds, `Corruption`, `Io`, `Closed`.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Slice>> {
        self.check_not_dropped()?;
        let state = self.cell.state.load();
        read::get(&self.engine, &state, key.as_ref(), SeqNo::MAX, Want::Value)
    }

    /// Whether a key has a value. Cost: as [`Keyspace::get`], but a long value is not read.
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.check_not_dropped()?;
        let state = self.cell.state.load();
        let found = read::get(
            &self.engine,
            &state,
            key.as_ref(),
            SeqNo::MAX,
            Want::Existence,
        )?;
        Ok(found.is_some())
    }

    /// Looks a key up as [`Keyspace::get`] does, and tells how it went: what was asked, which pages
    /// were read, where the answer was. Cost: as a get, and a few allocations.
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    pub fn explain(&self, key: impl AsRef<[u8]>) -> Result<Explanation> {
        self.check_not_dropped()?;
        let state = self.cell.state.load();
        explain::explain(&self.engine, &state, key.as_ref())
    }

    /// The values of several keys, in their order, each as of some moment during the call (for one
    /// moment use a snapshot). Cost: as many gets, but pages that are not cached are read at the
    /// same time.
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Slice>>> {
        self.check_not_dropped()?;
        let state = self.cell.state.load();
        read::multi_get(&self.engine, &state, keys, SeqNo::MAX)
    }

    /// The keys of a range with their values, in order, from both ends, as they are now.
    ///
    /// ```
    /// # use hedgerow::{Db, Layout};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = Db::open(dir.path())?;
    /// let fruit = db.keyspace("fruit", Layout::sorted())?;
    /// for name in ["apple", "fig", "pear"] {
    ///     fruit.put(name, b"")?;
    /// }
    /// let mut scan = fruit.scan("b"..)?;
    /// assert_eq!(scan.next().unwrap()?.0, "fig");
    /// assert_eq!(fruit.scan::<&str>(..)?.rev().next().unwrap()?.0, "pear");
    /// # Ok::<(), hedgerow::Error>(())
    /// ```
    ///
    /// # Errors
    /// `InvalidArgument` for a bound that no key can have, or if keys are not sorted
    /// ([`KeyOrder`](crate::KeyOrder)); `Closed`. Items are `Corruption` or `Io`.
    pub fn scan<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<Scan> {
        let extent = Extent::of_range(&*self.cell.facts.order, &range)?;
        Ok(Scan::new(self.view(&extent.bounds)?, extent))
    }

    /// The keys with a prefix, with their values, from both ends. Of sorted keys, those that begin
    /// with `prefix`, in order; of semi-sorted ones those whose first fragment it is, in no order
    /// that means anything.
    ///
    /// # Errors
    /// `InvalidArgument` for what can be no prefix, or if keys are hashed; `Closed`. Items are
    /// `Corruption` or `Io`.
    pub fn scan_prefix(&self, prefix: impl AsRef<[u8]>) -> Result<Scan> {
        let extent = Extent::of_prefix(&*self.cell.facts.order, prefix.as_ref())?;
        Ok(Scan::new(self.view(&extent.bounds)?, extent))
    }

    /// All keys with their values, as they are now, in the order in which they are stored. How far
    /// it has come is a token, from which [`Keyspace::scan_unordered_from`] goes on.
    ///
    /// ```
    /// # use hedgerow::{Db, Layout};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = Db::open(dir.path())?;
    /// let records = db.keyspace("records", Layout::hashed())?;
    /// for i in 0..100_u32 {
    ///     records.put(i.to_le_bytes(), b"")?;
    /// }
    /// let mut scan = records.scan_unordered()?;
    /// let some = scan.by_ref().take(40).count();
    /// let token = scan.token().as_bytes().to_vec();
    /// // Later, perhaps by another process:
    /// let rest = records.scan_unordered_from(&token.into())?;
    /// assert_eq!(some + rest.count(), 100);
    /// # Ok::<(), hedgerow::Error>(())
    /// ```
    ///
    /// # Errors
    /// `Closed`. Items are `Corruption` or `Io`.
    pub fn scan_unordered(&self) -> Result<UnorderedScan> {
        UnorderedScan::new(self.view(&ALL_KEYS)?, &ScanToken::default())
    }

    /// All keys behind the one where an earlier scan left off, with their values, as they are now:
    /// both scans together visit every key once that is there all the time.
    ///
    /// # Errors
    /// As [`Keyspace::scan_unordered`]; `InvalidArgument` for a token of another keyspace.
    pub fn scan_unordered_from(&self, token: &ScanToken) -> Result<UnorderedScan> {
        UnorderedScan::new(self.view(&ALL_KEYS)?, token)
    }

    /// A cursor over all keys, as they are now.
    ///
    /// # Errors
    /// `InvalidArgument` if keys are not sorted, `Closed`.
    pub fn cursor(&self) -> Result<Cursor> {
        Cursor::open(self.view(&ALL_KEYS)?)
    }

    fn view(&self, bounds: &KeyBounds) -> Result<Arc<View>> {
        self.check_not_dropped()?;
        View::present(&self.engine, self.cell.state.load_full(), bounds)
    }

    // ---- maintenance ----

    /// Writes what is in memtables to tables and waits for it.
    ///
    /// # Errors
    /// `NoSpace`, `Io`, `Closed`, `Poisoned`.
    pub fn flush(&self) -> Result<()> {
        self.check_not_dropped()?;
        let state = self.cell.state.load_full();
        let at = write::seal_all(&self.engine, &state.partitions)?;
        flush::wait_for(&self.engine, &state.partitions, at)
    }

    /// Flushes, and merges everything of a range into the deepest level; deleted and replaced data
    /// in it is gone then, unless snapshots see it. Reads and writes go on meanwhile.
    /// Cost: reads and writes every table of the range, once per level that it is in.
    ///
    /// # Errors
    /// As [`Keyspace::flush`]; `Corruption`; `InvalidArgument` for bounds if keys are not sorted.
    pub fn compact<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<()> {
        self.compact_with(range, |_| true)
    }

    /// As [`Keyspace::compact`]; `go_on` is told of the progress after every step and ends the work
    /// by returning false. What was done until then stays.
    ///
    /// # Errors
    /// As [`Keyspace::compact`]; `Cancelled` when `go_on` returned false.
    pub fn compact_with<K: AsRef<[u8]>>(
        &self,
        range: impl RangeBounds<K>,
        mut go_on: impl FnMut(CompactProgress) -> bool,
    ) -> Result<()> {
        let range = range_bounds(&*self.cell.facts.order, &range)?;
        self.flush()?;
        let state = self.cell.state.load_full();
        let covering = state.covering(&range).iter();
        let bytes = covering.map(|p| p.tree().version.bytes());
        let mut progress = CompactProgress {
            done_bytes: 0,
            total_bytes: bytes.sum(),
        };
        for partition in state.covering(&range) {
            compaction::compact(&self.engine, partition, &range, &mut progress, &mut go_on)?;
        }
        Ok(())
    }

    /// Waits until the background has nothing left to flush or to merge: for tests, benches and
    /// tools. The active memtables stay as they are; files that nobody reads any more are gone then.
    ///
    /// # Errors
    /// The error of a merge that failed; `Closed`.
    pub fn wait_until_merged(&self) -> Result<()> {
        let at = self.engine.writer()?.commit().next_seqno;
        flush::wait_for(&self.engine, &self.cell.state.load().partitions, at)?;
        compaction::wait_until_idle(&self.engine, &self.cell.state.load().partitions)?;
        self.engine.remove_obsolete();
        Ok(())
    }

    /// Gives it another design, which is in force when this returns, and durable; the same one again
    /// changes nothing. Reads and writes go on: memtables have the new size from the next write on,
    /// and tables written from then on the new filter, index, compression, and sizes of blocks and of
    /// files. Trees come to the new shape by merges in the background, which
    /// [`KeyspaceStats::retuning`] and [`Event::Reshaped`](crate::Event::Reshaped) tell of; tables
    /// that it has no reason to merge stay as they are until [`Keyspace::compact`]. A crash keeps the
    /// design, and merging goes on when the database is opened.
    /// Cost: one sync of the manifest; then at most about what it takes to merge every table once.
    ///
    /// ```
    /// # use hedgerow::{Db, Design, Layout};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = Db::open(dir.path())?;
    /// let events = db.keyspace("events", Layout::sorted())?;
    /// events.retune(Design { policy: "leveling:4".parse()?, ..events.design() })?;
    /// assert_eq!(events.design().policy.to_string(), "leveling:4");
    /// events.wait_until_merged()?;
    /// assert!(!events.stats().retuning);
    /// # Ok::<(), hedgerow::Error>(())
    /// ```
    ///
    /// # Errors
    /// `InvalidArgument` for a design out of bounds, `Unsupported` when opened for reading only,
    /// `NoSpace`, `Io`, `Closed`, `Poisoned`. Nothing was changed then; only after `Poisoned` that is
    /// not known until the database is opened again.
    pub fn retune(&self, design: Design) -> Result<()> {
        retune::retune(&self.engine, &self.cell, design)
    }

    /// Whether the keyspace tunes itself, durably; it does not unless asked to. One that does adopts
    /// the advisor's design for what was asked of it lately ([`crate::Operations`]), the memory that
    /// its data has of the budget, and the device ([`Builder::device`](crate::Builder::device)), as by
    /// [`Keyspace::retune`], and tells so ([`Event::Adopted`](crate::Event::Adopted)). Nothing changes before there were twice
    /// as many operations as entries, and then only if it is predicted to save an eighth of the cost
    /// and as much as rewriting all entries costs; so it never goes back and forth faster than it pays.
    /// Looked at behind flushes and when the database is opened.
    ///
    /// ```
    /// # use hedgerow::{Db, Layout};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = Db::open(dir.path())?;
    /// let events = db.keyspace("events", Layout::sorted())?;
    /// events.set_self_tuning(true)?;
    /// assert!(events.stats().tunes_itself);
    /// # Ok::<(), hedgerow::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Keyspace::retune`].
    pub fn set_self_tuning(&self, on: bool) -> Result<()> {
        self_tuning::set(&self.engine, &self.cell, on)
    }

    /// Takes everything away, at once: the files of its tables are removed when no snapshot or
    /// cursor reads them. Durable when it returns, and so is everything written before.
    /// Cost: a sync of the log and one of the manifest, for which writes of other threads wait.
    ///
    /// # Errors
    /// `Unsupported` when opened for reading only, `Io`, `Closed`, `Poisoned`.
    pub fn clear(&self) -> Result<()> {
        self.check_not_dropped()?;
        crate::api::db::clear(&self.engine, &self.cell)
    }

    /// The tables of each of its trees as text, one line per level: `L1: #5[a-m]@4M #6[n-z]@4M` is
    /// table 5 with keys from a to m in 4 MiB, then table 6. The planner's tests read this form, so
    /// a state seen in production can be pasted into a test.
    pub fn shape(&self) -> String {
        let state = self.cell.state.load();
        let trees = state
            .partitions
            .iter()
            .map(|p| print_shape(&p.tree().version));
        trees.collect::<Vec<_>>().join("\n")
    }

    /// Its levels, memory and debt.
    pub fn stats(&self) -> KeyspaceStats {
        crate::api::db::keyspace_stats(&self.engine, &self.cell.state.load())
    }

    // ---- for the other parts of the API ----

    pub(crate) fn id(&self) -> KeyspaceId {
        self.cell.facts.id
    }

    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    pub(crate) fn cell(&self) -> &Arc<KeyspaceCell> {
        &self.cell
    }

    pub(crate) fn is_of(&self, engine: &Arc<Engine>) -> bool {
        Arc::ptr_eq(&self.engine, engine)
    }

    #[inline]
    pub(crate) fn check_not_dropped(&self) -> Result<()> {
        self.engine.check_open()?;
        self.cell.check_not_dropped()
    }
}

impl fmt::Debug for Keyspace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyspace")
            .field("name", &self.name())
            .field("layout", &self.layout())
            .finish()
    }
}

/// The error of naming a keyspace badly.
pub(crate) fn check_name(name: &str) -> Result<()> {
    if name.is_empty() || name.len() > 255 {
        return Err(Error::invalid(format!(
            "expected a keyspace name of 1 to 255 bytes, found {} bytes",
            name.len()
        )));
    }
    Ok(())
}
