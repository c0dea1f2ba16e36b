//! Snapshots: the state of the whole database at one sequence number.

use std::fmt;
use std::ops::RangeBounds;
use std::sync::Arc;
use std::time::Duration;

use crate::api::keyspace::Keyspace;
use crate::base::entry::KeyspaceId;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::slice::Slice;
use crate::paths::read;
use crate::paths::read::{MemoryAnswer, Want};
use crate::paths::scan::{
    ALL_KEYS, Cursor, Extent, OfBatch, Pair, Reach, Scan, ScanToken, UnorderedScan, View,
};
use crate::tree::engine::{Handle, KeyspaceState, SnapshotGuard};
use crate::tree::partition::KeyBounds;

/// The state of the database at one moment. Owned, `Send + Sync`, cheap to clone.
///
/// While it lives, merges keep the versions that it sees, and the tables of keyspaces that are
/// cleared or dropped stay. `stats` reports the number of open snapshots.
///
/// ```
/// # use hedgerow::{Db, Layout};
/// # let dir = tempfile::tempdir().unwrap();
/// let db = Db::open(dir.path())?;
/// let users = db.keyspace("users", Layout::sorted())?;
/// users.put(b"ada", b"1815")?;
/// let before = db.snapshot()?;
/// users.delete(b"ada")?;
/// assert_eq!(before.get(&users, b"ada")?.as_deref(), Some(&b"1815"[..]));
/// assert_eq!(users.get(b"ada")?, None);
/// # Ok::<(), hedgerow::Error>(())
/// ```
#[derive(Clone)]
pub struct Snapshot(Arc<SnapshotGuard>);

impl Snapshot {
    pub(crate) fn take(engine: &Handle) -> Result<Snapshot> {
        engine.check_open()?;
        Ok(Snapshot::of(engine))
    }

    /// Takes one of a database that may be closed: then its reads are `Closed`.
    pub(crate) fn of(engine: &Handle) -> Snapshot {
        let taken = engine.environment.clock.now();
        // The trees of that number: no keyspace is cleared or dropped between the two.
        let catalog = || engine.catalog.load_full();
        let snapshots = &engine.snapshots;
        let (registration, (seqno, time), catalog) =
            snapshots.register(&engine.publisher, taken, || engine.time(), catalog);
        let engine = engine.clone();
        Snapshot(Arc::new(SnapshotGuard {
            engine,
            registration,
            seqno,
            taken,
            time,
            catalog,
        }))
    }

    pub(super) fn engine(&self) -> &Handle {
        &self.0.engine
    }

    /// The sequence number at which it reads.
    pub fn number(&self) -> u64 {
        self.0.seqno.0
    }

    /// The time by which entries have expired for it, in milliseconds.
    pub(crate) fn time(&self) -> u64 {
        self.0.time
    }

    /// The time since it was taken.
    pub fn age(&self) -> Duration {
        self.0
            .engine
            .environment
            .clock
            .now()
            .saturating_sub(self.0.taken)
    }

    /// The value of a key at the snapshot.
    ///
    /// # Errors
    /// As [`Keyspace::get`]; `InvalidArgument` if the keyspace is of another database or was made
    /// later.
    pub fn get(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<Option<Slice>> {
        let state = self.state(keyspace)?;
        read::get(
            &self.0.engine,
            state,
            key.as_ref(),
            self.0.moment(),
            Want::Value,
        )
    }

    /// The value of a key at the snapshot, if memory has the answer.
    ///
    /// # Errors
    /// As [`Keyspace::get_if_cached`] and [`Snapshot::get`].
    pub fn get_if_cached(
        &self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
    ) -> Result<MemoryAnswer> {
        let state = self.state(keyspace)?;
        read::get_if_cached(&self.0.engine, state, key.as_ref(), self.0.moment())
    }

    /// Returns true if the key had a value at the snapshot.
    ///
    /// # Errors
    /// As [`Snapshot::get`].
    pub fn contains_key(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<bool> {
        let state = self.state(keyspace)?;
        let found = read::get(
            &self.0.engine,
            state,
            key.as_ref(),
            self.0.moment(),
            Want::Existence,
        )?;
        Ok(found.is_some())
    }

    /// The values of several keys at the snapshot, in the order of `keys`.
    ///
    /// # Errors
    /// As [`Snapshot::get`].
    pub fn multi_get<K: AsRef<[u8]>>(
        &self,
        keyspace: &Keyspace,
        keys: &[K],
    ) -> Result<Vec<Option<Slice>>> {
        read::multi_get(&self.0.engine, self.state(keyspace)?, keys, self.0.moment())
    }

    /// Calls `see` with the place in `keys` and the value of each key that has a value at the
    /// snapshot, as [`Keyspace::visit_values`] does.
    ///
    /// # Errors
    /// As [`Snapshot::get`]. Some values were seen before.
    pub fn visit_values<K: AsRef<[u8]>>(
        &self,
        keyspace: &Keyspace,
        keys: &[K],
        see: impl FnMut(usize, &[u8]),
    ) -> Result<()> {
        let state = self.state(keyspace)?;
        read::visit_values(&self.0.engine, state, keys, self.0.moment(), see)
    }

    /// Scans the keys of a range at the snapshot, with their values, from both ends.
    ///
    /// # Errors
    /// As [`Keyspace::scan`] and [`Snapshot::get`].
    pub fn scan<K: AsRef<[u8]>>(
        &self,
        keyspace: &Keyspace,
        range: impl RangeBounds<K>,
    ) -> Result<Scan> {
        let extent = Extent::of_range(&*keyspace.cell().facts.order, &range)?;
        Ok(Scan::new(self.view(keyspace, &extent.bounds)?, extent))
    }

    /// Scans all keys at the snapshot, with their values, from both ends.
    ///
    /// # Errors
    /// As [`Snapshot::scan`].
    pub fn scan_all(&self, keyspace: &Keyspace) -> Result<Scan> {
        self.scan::<&[u8]>(keyspace, ..)
    }

    /// The first key at the snapshot with its value; `None` if the keyspace was empty.
    ///
    /// # Errors
    /// As [`Snapshot::scan`].
    pub fn first(&self, keyspace: &Keyspace) -> Result<Option<Pair>> {
        self.scan_all(keyspace)?.next().transpose()
    }

    /// The last key at the snapshot with its value; `None` if the keyspace was empty.
    ///
    /// # Errors
    /// As [`Snapshot::scan`].
    pub fn last(&self, keyspace: &Keyspace) -> Result<Option<Pair>> {
        self.scan_all(keyspace)?.next_back().transpose()
    }

    /// Returns true if no key had a value at the snapshot. Works for every key order.
    ///
    /// # Errors
    /// As [`Snapshot::get`].
    pub fn is_empty(&self, keyspace: &Keyspace) -> Result<bool> {
        Cursor::new(self.view(keyspace, &ALL_KEYS)?).is_at_end()
    }

    /// Scans the keys with a prefix at the snapshot, with their values, from both ends.
    ///
    /// # Errors
    /// As [`Keyspace::scan_prefix`] and [`Snapshot::get`].
    pub fn scan_prefix(&self, keyspace: &Keyspace, prefix: impl AsRef<[u8]>) -> Result<Scan> {
        let extent = Extent::of_prefix(&*keyspace.cell().facts.order, prefix.as_ref())?;
        Ok(Scan::new(self.view(keyspace, &extent.bounds)?, extent))
    }

    /// Scans all keys at the snapshot, with their values, in the order in which they are stored.
    ///
    /// # Errors
    /// As [`Keyspace::scan_unordered`] and [`Snapshot::get`].
    pub fn scan_unordered(&self, keyspace: &Keyspace) -> Result<UnorderedScan> {
        self.scan_unordered_from(keyspace, &ScanToken::default())
    }

    /// Resumes an unordered scan of this snapshot behind the last key of an earlier one. Scans of
    /// one snapshot together visit each of its keys once.
    ///
    /// # Errors
    /// As [`Keyspace::scan_unordered_from`] and [`Snapshot::get`].
    pub fn scan_unordered_from(
        &self,
        keyspace: &Keyspace,
        token: &ScanToken,
    ) -> Result<UnorderedScan> {
        UnorderedScan::new(self.view(keyspace, &ALL_KEYS)?, token)
    }

    /// A cursor over the keys then.
    ///
    /// # Errors
    /// As [`Snapshot::scan`].
    pub fn cursor(&self, keyspace: &Keyspace) -> Result<Cursor> {
        Cursor::open(self.view(keyspace, &ALL_KEYS)?)
    }

    fn view(&self, keyspace: &Keyspace, bounds: &KeyBounds) -> Result<Arc<View>> {
        self.view_with(keyspace, bounds, (None, Reach::Files))
    }

    /// The view of a batch over the snapshot.
    pub(crate) fn view_with(
        &self,
        keyspace: &Keyspace,
        bounds: &KeyBounds,
        of_batch: (Option<Box<OfBatch>>, Reach),
    ) -> Result<Arc<View>> {
        View::at(
            &self.0.engine,
            self.state(keyspace)?,
            &self.0,
            bounds,
            of_batch,
        )
    }

    /// The trees of a keyspace at the snapshot.
    pub(crate) fn state(&self, keyspace: &Keyspace) -> Result<&Arc<KeyspaceState>> {
        if !keyspace.is_of(&self.0.engine) {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                "expected a keyspace of the snapshot's database, found one of another",
            ));
        }
        self.state_of(keyspace.id()).ok_or_else(|| {
            Error::new(
                ErrorKind::InvalidArgument,
                format!(
                    "the keyspace `{}` was made after the snapshot",
                    keyspace.name()
                ),
            )
        })
    }

    /// The trees of a keyspace at the snapshot; `None` if it was made later.
    pub(crate) fn state_of(&self, keyspace: KeyspaceId) -> Option<&Arc<KeyspaceState>> {
        self.0.catalog.states.get(&keyspace)
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Snapshot").field(&self.number()).finish()
    }
}
