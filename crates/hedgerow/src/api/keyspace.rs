//! A keyspace: a named map from keys to values, with a layout and a design of its own.

// First: the documentation shows the methods in the order of the modules, and these of the file
// itself behind them.
mod one_key;

mod bulk;
mod conditional;
mod end_entries;
mod expiring;
mod maintenance;
mod many;
mod merging;
mod outside;
mod range_deletes;
mod updating;

use std::fmt;
use std::ops::RangeBounds;
use std::sync::Arc;

use crate::base::entry::KeyspaceId;
use crate::base::error::{Error, Result};
use crate::base::expiry::Moment;
use crate::base::options::{Design, Layout};
use crate::base::stats::KeyspaceStats;
use crate::design::merge_policy::text::print_shape;
use crate::paths::estimate;
use crate::paths::estimate::Estimate;
use crate::paths::explain;
use crate::paths::explain::Explanation;
use crate::paths::read;
use crate::paths::read::{MemoryAnswer, Want};
use crate::paths::scan::{
    ALL_KEYS, Cursor, Extent, Scan, ScanToken, UnorderedScan, View, range_bounds,
};
use crate::paths::statistics;
use crate::paths::write;
use crate::tree::engine::{Engine, Handle, KeyspaceCell};
use crate::tree::partition::KeyBounds;

/// A handle of a keyspace. Cheap to clone, `Send + Sync`; keeps the database open.
///
/// Every operation may be called from any thread. Keys have up to 64 KiB, values up to 64 MiB, and
/// both may be empty; longer ones are `InvalidArgument`. After [`Db::close`](crate::Db::close), or
/// when the keyspace was dropped, every operation is `Closed`.
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
    // ---- reading ----

    /// Gets as [`Keyspace::get`] does if memory has the answer, for callers that must not wait for
    /// the device. Otherwise returns [`MemoryAnswer::Unknown`] and prefetches the missing page; a
    /// `get` on another thread, or [`Keyspace::get_async`], has the answer.
    /// Cost: reads no file. Waits at most for a concurrent commit of the same key.
    ///
    /// ```
    /// # use hedgerow::{Db, Layout, MemoryAnswer};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = Db::open(dir.path())?;
    /// let users = db.keyspace("users", Layout::sorted())?;
    /// users.put("ada", "1815")?;
    /// match users.get_if_cached("ada")? {
    ///     MemoryAnswer::Value(year) => assert_eq!(year, "1815"),
    ///     MemoryAnswer::Absent => println!("no such user"),
    ///     MemoryAnswer::Unknown => println!("{:?}", users.get_async("ada").wait()?),
    /// }
    /// # Ok::<(), hedgerow::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    pub fn get_if_cached(&self, key: impl AsRef<[u8]>) -> Result<MemoryAnswer> {
        self.check_not_dropped()?;
        let state = self.cell.state.load();
        read::get_if_cached(&self.engine, &state, key.as_ref(), Moment::PRESENT)
    }

    /// Returns true if the key has a value. Cost: as [`Keyspace::get`], but a long value is not
    /// read.
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
            Moment::PRESENT,
            Want::Existence,
        )?;
        Ok(found.is_some())
    }

    /// Looks a key up as [`Keyspace::get`] does, and reports every step: the filters and tables
    /// that it probed, the pages that it read, and the place of the answer. Cost: a get and a few
    /// allocations.
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    pub fn explain(&self, key: impl AsRef<[u8]>) -> Result<Explanation> {
        self.check_not_dropped()?;
        let state = self.cell.state.load();
        explain::explain(&self.engine, &state, key.as_ref())
    }

    /// Scans the keys of a range with their values, in order, from both ends, as they are now.
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

    /// Scans all keys with their values, in order, from both ends, as they are now.
    ///
    /// ```
    /// # use hedgerow::{Db, Layout};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = Db::open(dir.path())?;
    /// let fruit = db.keyspace("fruit", Layout::sorted())?;
    /// fruit.put("fig", "2")?;
    /// for item in fruit.scan_all()? {
    ///     let (name, count) = item?;
    ///     println!("{name:?}: {count:?}");
    /// }
    /// # Ok::<(), hedgerow::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Keyspace::scan`].
    pub fn scan_all(&self) -> Result<Scan> {
        self.scan::<&[u8]>(..)
    }

    /// Scans the keys with a prefix and their values, from both ends. In a sorted keyspace these
    /// are the keys that begin with `prefix`, in order. In a semi-sorted keyspace these are the
    /// keys whose first fragment is `prefix`, in an order without meaning.
    ///
    /// # Errors
    /// `InvalidArgument` for bytes that can be no prefix, or if keys are hashed; `Closed`. Items
    /// are `Corruption` or `Io`.
    pub fn scan_prefix(&self, prefix: impl AsRef<[u8]>) -> Result<Scan> {
        let extent = Extent::of_prefix(&*self.cell.facts.order, prefix.as_ref())?;
        Ok(Scan::new(self.view(&extent.bounds)?, extent))
    }

    /// Scans all keys with their values, as they are now, in the order in which they are stored.
    /// The scan's token marks its position; [`Keyspace::scan_unordered_from`] resumes there.
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

    /// Resumes an unordered scan behind the last key of an earlier one, with keys and values as
    /// they are now. Both scans together visit every key once that exists throughout.
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

    // ---- facts ----

    /// The name of the keyspace. It may change ([`Db::rename_keyspace`](crate::Db)).
    pub fn name(&self) -> String {
        self.cell.facts.name()
    }

    /// The layout of the keyspace.
    pub fn layout(&self) -> Layout {
        self.cell.facts.layout()
    }

    /// The design in force.
    pub fn design(&self) -> Design {
        self.cell.facts.design().design.clone()
    }

    /// The tables of each tree as text, one line per level: `L1: #5[a-m]@4M #6[n-z]@4M` is table 5
    /// with keys from a to m in 4 MiB, then table 6. The planner's tests read this form, so a state
    /// seen in production can be pasted into a test.
    pub fn shape(&self) -> String {
        let state = self.cell.state.load();
        let trees = state
            .partitions
            .iter()
            .map(|p| print_shape(&p.tree().version));
        trees.collect::<Vec<_>>().join("\n")
    }

    /// Estimates the number of entries in a range, memtables included. Tombstones and versions that
    /// no merge has dropped yet count, too. The estimate is off by at most a block in each run if
    /// indexes are in memory.
    /// Cost: reads no block; opens the tables at both ends of the range.
    ///
    /// # Errors
    /// As [`Keyspace::scan`]; a keyspace that is not sorted has no ranges but `..`.
    pub fn approximate_entries<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<u64> {
        self.estimate(&range).map(|it| it.entries as u64)
    }

    /// Estimates the bytes of a range in files and memtables, as
    /// [`Keyspace::approximate_entries`] estimates the entries.
    ///
    /// ```
    /// # use hedgerow::{Db, Layout};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = Db::open(dir.path())?;
    /// let events = db.keyspace("events", Layout::sorted())?;
    /// for i in 0..1000_u32 {
    ///     events.put(i.to_be_bytes(), [7; 96])?;
    /// }
    /// let half = events.approximate_bytes(500_u32.to_be_bytes()..)?;
    /// assert!((40_000..60_000).contains(&half));
    /// # Ok::<(), hedgerow::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Keyspace::approximate_entries`].
    pub fn approximate_bytes<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<u64> {
        self.estimate(&range).map(|it| it.bytes as u64)
    }

    fn estimate<K: AsRef<[u8]>>(&self, range: &impl RangeBounds<K>) -> Result<Estimate> {
        self.check_not_dropped()?;
        let bounds = range_bounds(&*self.cell.facts.order, range)?;
        estimate::within(&self.cell.state.load(), &bounds)
    }

    /// Statistics of its levels, memory and debt.
    pub fn stats(&self) -> KeyspaceStats {
        statistics::keyspace_stats(&self.engine, &self.cell.state.load())
    }

    /// Returns true if a write waits for a flush now ([`Db::writes_wait`](crate::Db::writes_wait)).
    pub fn writes_wait(&self) -> bool {
        write::waits(&self.engine.memory)
    }

    /// Waits for a flush as long as a write that begins now
    /// ([`Db::wait_for_memory`](crate::Db::wait_for_memory)).
    ///
    /// # Errors
    /// Those of `Db::wait_for_memory`.
    pub fn wait_for_memory(&self) -> Result<()> {
        write::wait_for_memory(&self.engine)
    }

    // ---- for the other parts of the API ----

    pub(crate) fn new(engine: &Handle, cell: &Arc<KeyspaceCell>) -> Keyspace {
        Keyspace {
            engine: engine.clone(),
            cell: cell.clone(),
        }
    }

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

/// Refuses a keyspace name that is empty or too long.
pub(crate) fn check_name(name: &str) -> Result<()> {
    if name.is_empty() || name.len() > 255 {
        return Err(Error::invalid(format!(
            "expected a keyspace name of 1 to 255 bytes, found {} bytes",
            name.len()
        )));
    }
    Ok(())
}
