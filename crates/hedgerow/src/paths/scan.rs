//! The path of a scan: merges the same sources as a read in key order, and reduces them to the
//! newest visible version of each key.
//!
//! A cursor holds the trees on which it was opened, at one sequence number: its view never changes.
//!
//! Cost: positioning reads one block in each sorted run, those of all runs at the same time (for
//! each memtable, a few cache misses). A step at a block's end reads the next one or several.

mod both_ends;
mod keys;
mod of_batch;
mod seen_ranges;
mod sources;
mod stored_entries;
mod unordered;
mod versions;
mod visit;

pub use both_ends::Scan;
pub(crate) use both_ends::{Extent, Pair, range_bounds};
pub use keys::Keys;
pub(crate) use of_batch::OfBatch;
pub use stored_entries::{Entries, StoredEntry};
pub use unordered::{ScanToken, UnorderedScan};

use std::cell::OnceCell;
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use crate::base::entry::{Flags, Kind, SeqNo, Tag};
use crate::base::error::{Error, Result};
use crate::base::expiry::Expiry;
use crate::base::page::{PageId, PrefetchList, read_together};
use crate::base::slice::{Pin, Slice};
use crate::base::stats::OperationKind;
use crate::paths::background;
use crate::paths::compaction::paid::{self, Payer};
use crate::paths::skipped;
use crate::table::Table;
use crate::table::iter::{InternalIter, ValueSource};
use crate::tree::engine::{Handle, KeyspaceState, SnapshotGuard};
use crate::tree::memtable::RangeLists;
use crate::tree::partition::{KeyBounds, PartitionRange};
use crate::tree::version::SuperVersion;

/// The bounds that every key is within.
pub(crate) const ALL_KEYS: KeyBounds = (Bound::Unbounded, Bound::Unbounded);

/// The places that a view reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Memory and files.
    Files,
    /// Memory alone. An entry whose page would take a read of a file is an error (`WouldBlock`).
    Memory,
}

/// The trees of a keyspace that may hold keys within some bounds, at one sequence number.
///
/// Readers of a view share it, but no counter that other threads use, since a cursor is made for
/// each seek.
pub(crate) struct View {
    pub(crate) engine: Handle,
    pub(crate) state: Arc<KeyspaceState>,
    covering: PartitionRange,
    /// The trees of the covered partitions.
    trees: Vec<Arc<SuperVersion>>,
    /// The range tombstones of each of these trees; empty if none has some.
    ranges: Vec<Arc<RangeLists>>,
    /// The entries that they hide and that readers of the view have stepped over, not counted yet.
    stepped: Option<Arc<AtomicU64>>,
    seqno: SeqNo,
    /// The time by which entries have expired, if some expire.
    time: OnceLock<u64>,
    /// Keeps the snapshot of the view registered, if there is one.
    _snapshot: Option<Arc<SnapshotGuard>>,
    /// The batch that is read over the snapshot, if there is one.
    batch: Option<Box<OfBatch>>,
    reach: Reach,
}

impl View {
    /// A view of the present: everything published.
    pub(crate) fn present(
        engine: &Handle,
        state: Arc<KeyspaceState>,
        bounds: &KeyBounds,
    ) -> Result<Arc<View>> {
        engine.check_open()?;
        let covering = state.facts.router.covering(bounds);
        let partitions = &state.partitions[covering.partitions.clone()];
        loop {
            let trees: Vec<_> = partitions.iter().map(|p| p.tree_owned()).collect();
            let seqno = SeqNo(engine.publisher.published());
            // Unchanged trees hold everything up to the number (invariant I3).
            let unchanged = partitions
                .iter()
                .zip(&trees)
                .all(|(p, tree)| Arc::ptr_eq(&p.tree(), tree));
            if unchanged {
                let ranges = seen_ranges::lists(&trees)?;
                return Ok(Arc::new(View {
                    engine: engine.clone(),
                    state,
                    covering,
                    trees,
                    stepped: (!ranges.is_empty()).then(Arc::default),
                    ranges,
                    seqno,
                    time: match engine.expiry.is_used() {
                        true => OnceLock::from(engine.time()),
                        false => OnceLock::new(),
                    },
                    _snapshot: None,
                    batch: None,
                    reach: Reach::Files,
                }));
            }
        }
    }

    /// A view of the past: the entries of a snapshot, which stays registered while the view lives.
    pub(crate) fn at(
        engine: &Handle,
        state: &Arc<KeyspaceState>,
        snapshot: &Arc<SnapshotGuard>,
        bounds: &KeyBounds,
        (batch, reach): (Option<Box<OfBatch>>, Reach),
    ) -> Result<Arc<View>> {
        engine.check_open()?;
        let covering = state.facts.router.covering(bounds);
        let partitions = &state.partitions[covering.partitions.clone()];
        let trees: Vec<_> = partitions.iter().map(|p| p.tree_owned()).collect();
        if reach == Reach::Memory && !trees.iter().all(|tree| tree.ranges_are_in_memory()) {
            return Err(Table::would_read());
        }
        let ranges = seen_ranges::lists(&trees)?;
        Ok(Arc::new(View {
            engine: engine.clone(),
            state: state.clone(),
            stepped: (!ranges.is_empty()).then(Arc::default),
            ranges,
            trees,
            covering,
            seqno: snapshot.seqno,
            time: OnceLock::from(snapshot.time),
            _snapshot: Some(snapshot.clone()),
            batch,
            reach,
        }))
    }

    /// The time by which entries have expired.
    fn time(&self) -> u64 {
        *self.time.get_or_init(|| self.engine.time())
    }

    /// The number that it is read at.
    pub(crate) fn seqno(&self) -> SeqNo {
        self.seqno
    }
}

/// A position among the keys of a keyspace, as they were when the cursor was opened.
///
/// Starts before the first key: position it with a seek. After an error it has no position; the
/// same seek may be tried again.
///
/// ```
/// # use hedgerow::{Db, Layout};
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = Db::open(dir.path())?;
/// let readings = db.keyspace("readings", Layout::sorted())?;
/// readings.put("2024-01-01", "3.1")?;
/// readings.put("2024-01-05", "4.7")?;
/// let mut cursor = readings.cursor()?;
/// // What was the latest reading on the third of January?
/// assert!(cursor.seek_for_prev(b"2024-01-03")?);
/// assert_eq!(cursor.key(), Some(&b"2024-01-01"[..]));
/// assert_eq!(cursor.value()?, Some(&b"3.1"[..]));
/// assert!(cursor.next()?);
/// assert!(!cursor.next()?);
/// assert_eq!(cursor.key(), None);
/// # Ok::<(), hedgerow::Error>(())
/// ```
pub struct Cursor {
    view: Arc<View>,
    merged: Box<dyn InternalIter>,
    /// A seek may wait for several pages, because it looks into several runs or has a bound.
    prepares: bool,
    /// Empty except within a seek.
    wanted: PrefetchList,
    /// The order key and value here; the value may still have to be read.
    key: Vec<u8>,
    value: CursorValue,
    /// The value here, once requested, if it is a page of its own.
    long_value: OnceCell<Slice>,
    /// The time of expiry of the value here, if it has one.
    expires: Option<u64>,
    /// True if operands that cannot be combined are no error.
    keeps_operands: bool,
    /// The parts of the value here, if they could not be combined.
    uncombined: Option<Box<(Option<Slice>, Vec<Slice>)>>,
    at: At,
    /// Steps that are not counted in the keyspace's operations yet.
    steps: u64,
    /// Entries stepped over that are not counted yet.
    skipped: u64,
    pin: Pin,
}

/// The position of the merged iterator relative to the cursor's key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    Nowhere,
    /// The visible version of the key. A step forward skips its older ones.
    OnKey,
    /// A position behind operands of the key. A step forward skips older versions from here on.
    BehindOperands,
    /// A position before every version of the key.
    BeforeKey,
}

enum CursorValue {
    /// The value of the merged iterator's current entry.
    Here,
    Inline(Vec<u8>),
    OutOfLine(PageId, u32),
}

/// The rounds in which a seek reads pages together: those of indexes, those of data, and the round
/// that finds none left.
const SEEK_ROUNDS: usize = 3;
/// The steps of a cursor are counted in multiples of this, and when it ends.
const COUNTED_STEPS: u64 = 256;
/// The approximate memory of one source of a cursor: a block.
const SOURCE_BYTES: usize = 4 << 10;

impl Cursor {
    /// A cursor for users, with seeks by user keys.
    pub(crate) fn open(view: Arc<View>) -> Result<Cursor> {
        view.state.facts.order.check_ranges()?;
        Ok(Cursor::new(view))
    }

    pub(crate) fn new(view: Arc<View>) -> Cursor {
        let (mut merged, sources) = view.entries();
        if let Some(batch) = &view.batch {
            merged = batch.recorded(merged);
        }
        let pin = Pin::new(&view.engine.memory.pinned, sources * SOURCE_BYTES);
        view.engine.memory.note();
        Cursor {
            view,
            merged,
            prepares: sources > 1,
            wanted: PrefetchList::new(),
            key: Vec::new(),
            value: CursorValue::Here,
            long_value: OnceCell::new(),
            expires: None,
            keeps_operands: false,
            uncombined: None,
            at: At::Nowhere,
            steps: 0,
            skipped: 0,
            pin,
        }
    }

    /// A cursor that goes forward only, up to a bound of order keys, so that it reads nothing
    /// behind the bound.
    fn to(view: Arc<View>, upper: &Bound<Vec<u8>>) -> Cursor {
        let mut cursor = Cursor::new(view);
        cursor.prepares |= *upper != Bound::Unbounded;
        match upper {
            Bound::Unbounded => {}
            Bound::Excluded(end) => cursor.merged.limit(end),
            Bound::Included(last) => cursor.merged.limit(&[last, &[0][..]].concat()),
        }
        cursor
    }

    /// Moves to the first key at or after `key`. Returns true if there is one.
    ///
    /// # Errors
    /// `Corruption`, `Io`; the cursor has no position then.
    pub fn seek(&mut self, key: &[u8]) -> Result<bool> {
        let mut scratch = Vec::new();
        let order_key = self.view.state.facts.order.borrow(key, &mut scratch);
        self.seek_at(order_key)
    }

    /// Moves to the last key at or before `key`. Returns true if there is one.
    ///
    /// # Errors
    /// `Corruption`, `Io`; the cursor has no position then.
    pub fn seek_for_prev(&mut self, key: &[u8]) -> Result<bool> {
        let mut scratch = Vec::new();
        let order_key = self.view.state.facts.order.borrow(key, &mut scratch);
        self.seek_at_or_before(order_key)
    }

    /// Reads the pages that a seek needs together: first those of indexes, then those of data.
    fn prepare(&mut self, order_key: &[u8]) {
        if !self.prepares {
            return;
        }
        for _ in 0..SEEK_ROUNDS {
            self.merged.prepare(order_key, &mut self.wanted);
            let are_several = self.wanted.len() > 1;
            if are_several {
                let reads = self.view.engine.environment.storage.reads();
                read_together(&self.wanted, reads);
            }
            self.wanted.clear();
            if !are_several {
                break;
            }
        }
    }

    /// Moves to the first order key at or after this one. Returns true if there is one.
    fn seek_at(&mut self, order_key: &[u8]) -> Result<bool> {
        self.count_seek()?;
        self.prepare(order_key);
        self.merged.seek(order_key, SeqNo::MAX)?;
        self.settle_forward(false)
    }

    /// Moves to the first order key strictly behind this one. Returns true if there is one.
    fn seek_behind(&mut self, order_key: &[u8]) -> Result<bool> {
        self.count_seek()?;
        self.prepare(order_key);
        self.merged.seek(order_key, SeqNo(0))?;
        self.key.clear();
        self.key.extend_from_slice(order_key);
        self.settle_forward(true)
    }

    /// Moves to the last order key at or before this one. Returns true if there is one.
    fn seek_at_or_before(&mut self, order_key: &[u8]) -> Result<bool> {
        self.count_seek()?;
        self.prepare(order_key);
        // Behind the oldest version that the key can have.
        self.merged.seek_before(order_key, SeqNo(0))?;
        self.settle_backward()
    }

    /// Moves to the last order key strictly before this one. Returns true if there is one.
    fn seek_before(&mut self, order_key: &[u8]) -> Result<bool> {
        self.count_seek()?;
        self.prepare(order_key);
        self.merged.seek_before(order_key, SeqNo::MAX)?;
        self.settle_backward()
    }

    /// Moves to the first key. Returns true if there is one.
    ///
    /// # Errors
    /// `Corruption`, `Io`.
    pub fn seek_first(&mut self) -> Result<bool> {
        self.count_seek()?;
        self.merged.seek_first()?;
        self.settle_forward(false)
    }

    /// Returns true if no key has a value. Moves to the first key.
    pub(crate) fn is_at_end(&mut self) -> Result<bool> {
        Ok(!self.seek_first()?)
    }

    /// Moves to the last key. Returns true if there is one.
    ///
    /// # Errors
    /// `Corruption`, `Io`.
    pub fn seek_last(&mut self) -> Result<bool> {
        self.count_seek()?;
        self.merged.seek_last()?;
        self.settle_backward()
    }

    /// Moves to the next key. Returns true if there is one. Returns false at once if the cursor has
    /// no position.
    ///
    /// # Errors
    /// `Corruption`, `Io`; the cursor has no position then.
    #[allow(
        clippy::should_implement_trait,
        reason = "a cursor moves both ways and is no iterator"
    )]
    pub fn next(&mut self) -> Result<bool> {
        self.view.engine.check_open()?;
        self.count_step();
        match std::mem::replace(&mut self.at, At::Nowhere) {
            At::Nowhere => return Ok(false),
            At::OnKey => self.merged.advance()?,
            At::BehindOperands => {}
            At::BeforeKey => self.merged.seek(&self.key, SeqNo::MAX)?,
        }
        Ok(self.is_at_next_value() || self.settle_forward(true)?)
    }

    /// The common case of `settle_forward`: the entry here is a value of another key.
    #[inline]
    fn is_at_next_value(&mut self) -> bool {
        let Some(entry) = self.merged.entry() else {
            return false;
        };
        let is_plain = entry.tag == Tag::PUT && entry.seqno <= self.view.seqno;
        if !is_plain || is_same_key(entry.key, &self.key) {
            return false;
        }
        self.key.clear();
        self.key.extend_from_slice(entry.key);
        self.leave();
        self.at = At::OnKey;
        true
    }

    /// Moves to the key before. Returns true if there is one. Returns false at once if the cursor
    /// has no position.
    ///
    /// # Errors
    /// `Corruption`, `Io`; the cursor has no position then.
    pub fn prev(&mut self) -> Result<bool> {
        self.view.engine.check_open()?;
        self.count_step();
        match std::mem::replace(&mut self.at, At::Nowhere) {
            At::Nowhere => return Ok(false),
            At::BeforeKey => {}
            At::OnKey | At::BehindOperands => self.merged.seek_before(&self.key, SeqNo::MAX)?,
        }
        self.settle_backward()
    }

    /// The key here; `None` if the cursor has no position.
    pub fn key(&self) -> Option<&[u8]> {
        let order = &self.view.state.facts.order;
        self.order_key().map(|key| order.decode(key))
    }

    fn order_key(&self) -> Option<&[u8]> {
        (self.at != At::Nowhere).then_some(self.key.as_slice())
    }

    /// The value here; `None` if the cursor has no position. A long value is read at the first call
    /// and kept while the cursor stays. Other values are returned without a copy.
    ///
    /// # Errors
    /// `Corruption`, `Io`.
    pub fn value(&self) -> Result<Option<&[u8]>> {
        match self.source() {
            None => Ok(None),
            Some(ValueSource::Inline(bytes)) => Ok(Some(bytes)),
            Some(ValueSource::OutOfLine { page, bytes }) => {
                if self.long_value.get().is_none() {
                    let _ = self.long_value.set(self.read(page, bytes)?);
                }
                Ok(self.long_value.get().map(Slice::as_bytes))
            }
        }
    }

    /// The expiry of the value here; `None` if the cursor has no position.
    pub fn expiry(&self) -> Option<Expiry> {
        (self.at != At::Nowhere).then(|| Expiry::of(self.expires))
    }

    /// The value here, owned, so that it can be kept when the cursor moves.
    pub(crate) fn owned_value(&self) -> Result<Option<Slice>> {
        self.source()
            .map(|value| match value {
                ValueSource::Inline(bytes) => Ok(Slice::copy_from(bytes)),
                ValueSource::OutOfLine { page, bytes } => self.read(page, bytes),
            })
            .transpose()
    }

    /// The key here, owned.
    fn owned_key(&self) -> Result<Option<Slice>> {
        Ok(self.key().map(Slice::copy_from))
    }

    /// The key and the value here, owned.
    fn pair(&self) -> Result<Option<Pair>> {
        let key = self.key().map(Slice::copy_from);
        Ok(key.zip(self.owned_value()?))
    }

    /// The key and the value here, owned, and the time when it expires or changes by an expiry.
    pub(crate) fn expiring_pair(&self) -> Result<Option<(Pair, Option<u64>)>> {
        Ok(self.pair()?.map(|pair| (pair, self.expires)))
    }

    /// The source of the value; `None` if the cursor has no position.
    fn source(&self) -> Option<ValueSource<'_>> {
        match &self.value {
            _ if self.at == At::Nowhere => None,
            CursorValue::Here => self.merged.entry().map(|entry| entry.value),
            CursorValue::Inline(bytes) => Some(ValueSource::Inline(bytes)),
            CursorValue::OutOfLine(page, bytes) => Some(ValueSource::OutOfLine {
                page: *page,
                bytes: *bytes,
            }),
        }
    }

    /// Reads a value that is a page of its own.
    fn read(&self, page: PageId, bytes: u32) -> Result<Slice> {
        let table = table_of(&self.view, page)?;
        let read = match self.view.reach {
            Reach::Files => table.pages().page(page)?,
            Reach::Memory => table.page_if_cached(page)?,
        };
        let value = table.value(read, page, bytes)?;
        Ok(self.view.engine.memory.slice(value))
    }

    /// Clears the position until an entry is found.
    #[inline(always)]
    fn leave(&mut self) {
        self.at = At::Nowhere;
        self.expires = None;
        // Values of their own are rare, and to drop what is not there costs instructions, too.
        if !matches!(self.value, CursorValue::Here) {
            self.value = CursorValue::Here;
        }
        if self.long_value.get().is_some() {
            self.long_value.take();
        }
    }

    /// Moves forward to the newest visible version of the next key that has a value. With
    /// `beyond_key`, skips the remaining versions of the current key.
    fn settle_forward(&mut self, beyond_key: bool) -> Result<bool> {
        self.leave();
        let mut skip = beyond_key;
        while let Some(entry) = self.merged.entry() {
            let hidden = entry.seqno > self.view.seqno && self.view.hides(&entry)?;
            if !(hidden || skip && is_same_key(entry.key, &self.key)) {
                self.key.clear();
                self.key.extend_from_slice(entry.key);
                match entry.tag.kind {
                    Kind::Put if entry.tag.flags.has(Flags::EXPIRES) => {
                        let value = entry.value;
                        if let Some((at, value)) = self.unexpired(value)? {
                            (self.at, self.expires) = (At::OnKey, Some(at));
                            self.value = CursorValue::Inline(value);
                            return Ok(true);
                        }
                    }
                    Kind::Put => {
                        self.at = At::OnKey;
                        return Ok(true);
                    }
                    Kind::Delete | Kind::RangeDelete => {}
                    Kind::Merge => {
                        if self.combine_forward()? {
                            return Ok(true);
                        }
                        skip = true;
                        continue;
                    }
                    Kind::ValueRef => return Err(entry.tag.of_later_version()),
                }
                skip = true;
            }
            self.skipped += 1;
            self.merged.advance()?;
        }
        Ok(false)
    }

    /// Counts a step. Cost: the shared counter is touched once per many steps.
    #[inline]
    fn count_step(&mut self) {
        self.steps += 1;
        if self.steps == COUNTED_STEPS {
            self.count_steps();
        }
    }

    fn count_steps(&mut self) {
        let steps = std::mem::take(&mut self.steps);
        let operations = &self.view.state.facts.operations;
        operations.add(OperationKind::Nexts, steps);
        if let Some(stepped) = &self.view.stepped {
            self.skipped += stepped.swap(0, Ordering::Relaxed);
        }
        if self.skipped > 0 {
            self.count_skipped();
        }
    }

    #[cold]
    fn count_skipped(&mut self) {
        let skipped = std::mem::take(&mut self.skipped);
        let View {
            engine,
            state,
            covering,
            ..
        } = &*self.view;
        let operations = &state.facts.operations;
        operations.add(OperationKind::Skipped, skipped);
        skipped::count(engine, state, covering.partitions.clone(), skipped);
    }

    fn count_seek(&mut self) -> Result<()> {
        self.at = At::Nowhere;
        self.view.engine.check_open()?;
        if self.skipped >= COUNTED_STEPS {
            self.count_skipped();
        }
        let View {
            engine,
            state,
            covering,
            ..
        } = &*self.view;
        if state
            .facts
            .operations
            .add_one_of(OperationKind::Seeks, paid::LOOK_EVERY)
        {
            background::serve_reads(engine, state, Payer::Seeks, covering.partitions.clone());
        }
        Ok(())
    }
}

impl Drop for Cursor {
    fn drop(&mut self) {
        self.count_steps();
    }
}

/// Returns true if two neighbouring keys are equal. Compares the last byte first: neighbours share
/// their front more often than their last byte.
#[inline]
fn is_same_key(a: &[u8], b: &[u8]) -> bool {
    a.last() == b.last() && a == b
}

impl std::fmt::Debug for Cursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cursor")
            .field("key", &self.key())
            .field("pin", &self.pin)
            .finish()
    }
}

/// The table of a page, among those of the view.
fn table_of(view: &View, page: PageId) -> Result<Arc<Table>> {
    let found = view
        .trees
        .iter()
        .find_map(|tree| tree.version.table(page.table));
    found.map(|(_, table)| table.clone()).ok_or_else(|| {
        Error::corruption(format!(
            "expected a value in a table of the view, found table {}",
            page.table.0
        ))
    })
}
