//! The check of a transaction: has another write changed what it depends on?
//!
//! It begins with numbers alone. Inside the critical section of the commit, the newest number of
//! each stripe that was read is compared with that of the snapshot, and for ranges that of each
//! tree. If all are old, nothing was changed and the commit proceeds.
//!
//! If one is newer, the check looks at the entries, outside of every lock: is there a version of a
//! key, or a range tombstone, that is newer than the snapshot? The memtables and tables have
//! everything that was committed, whoever wrote it: puts, batches, bulk loads, range deletes. So no
//! record of other writes is kept, and nothing has a bound that a long transaction could exceed.
//! A merge may drop a newer version only if the key's present value is that of the snapshot.
//!
//! Writes continue meanwhile. So the next attempt compares with the number at which the look began.
//! Ranges are watched instead ([`crate::tree::partition::watchers`]), because any write to the tree
//! would make that comparison fail; so are keys, if they are many or the comparison has failed
//! often. A clear or a drop replaces the trees, which the check compares with those read.
//!
//! Cost: without newer writes one comparison for each stripe and tree read. A look costs a search
//! in each memtable for each key, and for a range a step for each of its entries in memtables and
//! in tables newer than the snapshot.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::base::entry::{KeyHash, Kind, SeqNo, Tag};
use crate::base::error::{Error, Result};
use crate::base::key_ranges::{KeyRange, KeyRanges};
use crate::table::Table;
use crate::table::iter::InternalIter;
use crate::tree::engine::{Engine, KeyspaceCell, KeyspaceState, Writer, stripe};
use crate::tree::partition::watchers::{Watch, WatchedWrite};
use crate::tree::partition::{KeyBounds, Partition};
use crate::tree::recorded::RangesRead;
use crate::tree::version::SuperVersion;

/// The most stripes that are compared inside the critical section.
const STRIPES_COMPARED_MAX: usize = 256;
/// The looks after which keys are watched, too.
const UNWATCHED_LOOKS_MAX: u32 = 3;

/// The keys and ranges of one keyspace that a transaction depends on.
pub(crate) struct Basis {
    cell: Arc<KeyspaceCell>,
    /// The trees at the snapshot.
    state: Arc<KeyspaceState>,
    /// The user keys, one after another.
    keys: Vec<u8>,
    /// The hash of each key, and the place behind it in `keys`.
    points: Vec<(KeyHash, usize)>,
    ranges: Vec<KeyRange>,
    /// The ranges that are read until the commit.
    pub(crate) scanned: Option<Arc<RangesRead>>,
}

impl Basis {
    /// The basis of a keyspace among all; a new one has the keyspace's state at the snapshot.
    pub(crate) fn of<'a>(
        all: &'a mut Vec<Basis>,
        cell: &Arc<KeyspaceCell>,
        state: impl FnOnce() -> Result<Arc<KeyspaceState>>,
    ) -> Result<&'a mut Basis> {
        let found = all.iter().position(|it| Arc::ptr_eq(&it.cell, cell));
        let at = found.unwrap_or(all.len());
        if found.is_none() {
            all.push(Basis {
                cell: cell.clone(),
                state: state()?,
                keys: Vec::new(),
                points: Vec::new(),
                ranges: Vec::new(),
                scanned: None,
            });
        }
        Ok(&mut all[at])
    }

    /// Adds a key.
    pub(crate) fn add_key(&mut self, user_key: &[u8]) {
        let hash = KeyHash::of(user_key, self.state.facts.seed);
        self.keys.extend_from_slice(user_key);
        self.points.push((hash, self.keys.len()));
    }

    /// Adds the keys that an operation writes.
    pub(crate) fn add_write(&mut self, tag: Tag, user_key: &[u8], value: &[u8]) -> Result<()> {
        if tag.kind != Kind::RangeDelete {
            self.add_key(user_key);
            return Ok(());
        }
        let facts = &self.state.facts;
        let delete = facts.range_tombstone(user_key, value, SeqNo::OWN)?;
        self.ranges
            .extend(delete.fragments().iter().map(|it| KeyRange {
                start: it.start.clone(),
                end: it.end.clone(),
            }));
        Ok(())
    }

    /// Adds the ranges that were scanned.
    pub(crate) fn add_scanned(&mut self) {
        let scanned = self.scanned.take();
        self.ranges
            .extend(scanned.iter().flat_map(|it| it.ranges()));
    }

    /// The approximate bytes of memory of what was read.
    pub(crate) fn bytes(&self) -> usize {
        let of_ranges = self.scanned.as_ref().map_or(0, |it| it.bytes());
        self.keys.len() + self.points.len() * size_of::<(KeyHash, usize)>() + of_ranges
    }

    fn points(&self) -> impl Iterator<Item = (KeyHash, &[u8])> {
        let starts = std::iter::once(0).chain(self.points.iter().map(|&(_, end)| end));
        let points = starts.zip(&self.points);
        points.map(|(start, &(hash, end))| (hash, &self.keys[start..end]))
    }

    /// The trees that may hold keys of a range.
    fn covering(&self, range: &KeyRange) -> std::ops::Range<usize> {
        let end = match range.end.is_empty() {
            true => Bound::Unbounded,
            false => Bound::Excluded(range.end.clone()),
        };
        let bounds: KeyBounds = (Bound::Included(range.start.clone()), end);
        self.state.facts.router.covering(&bounds).partitions
    }

    /// All keys and ranges, as ranges of order keys.
    fn watched(&self) -> KeyRanges {
        let (order, mut scratch) = (&self.state.facts.order, Vec::new());
        let mut all = self.ranges.clone();
        for (_, key) in self.points() {
            all.push(KeyRange::of_key(order.borrow(key, &mut scratch)));
        }
        KeyRanges::of(all)
    }

    /// The conflict about an order key.
    fn conflict(&self, order_key: &[u8]) -> Error {
        let facts = &self.state.facts;
        // The start of a range of hashes may be shorter than a key.
        let key = order_key.get(facts.order.added_bytes()..);
        Error::conflict(facts.name(), key.unwrap_or_default())
    }
}

/// The check of one transaction, attempt by attempt.
pub(crate) struct Check<'a> {
    engine: &'a Engine,
    writer: &'a Writer,
    basis: &'a [Basis],
    /// Nothing that the transaction depends on was changed up to this number.
    seen: SeqNo,
    stripes: Vec<usize>,
    /// The trees that ranges were read of.
    trees: Vec<Arc<Partition>>,
    watches: Vec<WatchGuard<'a>>,
    attempts: u32,
}

/// A watch, until it is dropped.
struct WatchGuard<'a> {
    basis: &'a Basis,
    watch: Arc<Watch>,
}

impl Drop for WatchGuard<'_> {
    fn drop(&mut self) {
        self.basis.state.facts.watchers.remove(&self.watch);
    }
}

impl<'a> Check<'a> {
    /// The check that nothing of `basis` was changed since the number of a snapshot.
    pub(crate) fn new(engine: &'a Engine, since: SeqNo, basis: &'a [Basis]) -> Result<Check<'a>> {
        let mut stripes = Vec::new();
        let mut trees = Vec::new();
        for of_one in basis {
            stripes.extend(of_one.points.iter().map(|&(hash, _)| stripe(hash)));
            for range in &of_one.ranges {
                let covered = &of_one.state.partitions[of_one.covering(range)];
                trees.extend(covered.iter().cloned());
            }
        }
        if stripes.len() > STRIPES_COMPARED_MAX {
            stripes.sort_unstable();
            stripes.dedup();
        }
        trees.sort_unstable_by_key(|tree| tree.id);
        trees.dedup_by_key(|tree| tree.id);
        Ok(Check {
            writer: engine.writer()?,
            engine,
            basis,
            seen: since,
            stripes,
            trees,
            watches: Vec::new(),
            attempts: 0,
        })
    }

    /// Prepares the next attempt of the commit, which is routed for the present trees. The first
    /// one relies on numbers alone.
    ///
    /// # Errors
    /// `Conflict` if another write came first; `Corruption`, `Io`.
    pub(crate) fn begin_attempt(&mut self) -> Result<()> {
        for of_one in self.basis {
            let replaced = !Arc::ptr_eq(&of_one.cell.state.load(), &of_one.state);
            if replaced || of_one.cell.check_not_dropped().is_err() {
                let first = of_one.watched().first_in(b"", b"");
                return Err(of_one.conflict(&first.unwrap_or_default()));
            }
        }
        self.attempts += 1;
        let many = self.stripes.len() > STRIPES_COMPARED_MAX;
        if self.attempts == 1 && !many {
            return Ok(());
        }
        let often = self.attempts > 1 + UNWATCHED_LOOKS_MAX;
        if self.watches.is_empty() && (many || often || !self.trees.is_empty()) {
            self.watch();
        }
        for WatchGuard { basis, watch } in &self.watches {
            if let WatchedWrite::Key(key) = watch.written() {
                return Err(basis.conflict(&key));
            }
            // Before the number is read, so that the look sees these loads.
            watch.forget_loads();
        }
        let begun = SeqNo(self.engine.publisher.begun());
        self.engine.publisher.wait(begun.0);
        self.look()?;
        self.seen = begun;
        Ok(())
    }

    /// Returns true if nothing was changed up to now. Inside the commit's critical section.
    pub(crate) fn holds(&self) -> bool {
        if !self.watches.is_empty() {
            return self.watches.iter().all(|it| it.watch.is_untouched());
        }
        let mut stripes = self.stripes.iter();
        stripes.all(|&stripe| self.writer.stripes.latest(stripe) <= self.seen)
            && self.trees.iter().all(|tree| !self.is_newer(tree))
    }

    /// Returns true if a tree may have writes that were not looked at.
    fn is_newer(&self, tree: &Partition) -> bool {
        let of_all = self.writer.stripes.latest_of_all();
        tree.latest_number().max(of_all) > self.seen
    }

    fn watch(&mut self) {
        let watching = |basis| WatchGuard {
            basis,
            watch: Watch::new(Basis::watched(basis)),
        };
        self.watches = self.basis.iter().map(watching).collect();
        let _commits = self.writer.commit();
        for WatchGuard { basis, watch } in &self.watches {
            basis.state.facts.watchers.add(watch);
            for tree in &basis.state.partitions {
                tree.log_segment.store(0, Ordering::Relaxed);
            }
        }
    }

    /// Looks for writes to the basis that are numbered above `seen`.
    fn look(&self) -> Result<()> {
        for basis in self.basis {
            let (facts, partitions) = (&basis.state.facts, &basis.state.partitions);
            let mut trees = BTreeMap::new();
            let newer = |&tree: &usize| Newer::of(&partitions[tree], self.seen);
            let mut scratch = Vec::new();
            for (hash, key) in basis.points() {
                if self.writer.stripes.latest(stripe(hash)) <= self.seen {
                    continue;
                }
                let tree = trees.entry(facts.router.route(key, hash));
                let key = facts.order.borrow(key, &mut scratch);
                if tree.or_insert_with_key(newer).has_key(key)? {
                    return Err(basis.conflict(key));
                }
            }
            for range in &basis.ranges {
                let changed = basis
                    .covering(range)
                    .filter(|&it| self.is_newer(&partitions[it]));
                for tree in changed {
                    let tree = trees.entry(tree).or_insert_with_key(newer);
                    if let Some(key) = tree.first_in(range)? {
                        return Err(basis.conflict(&key));
                    }
                }
            }
        }
        Ok(())
    }
}

/// The parts of a tree that may have entries newer than a number.
struct Newer {
    since: SeqNo,
    tree: Arc<SuperVersion>,
    tables: Vec<Arc<Table>>,
}

impl Newer {
    fn of(partition: &Partition, since: SeqNo) -> Newer {
        let tree = partition.tree_owned();
        let tables = tree.version.tables().map(|(_, table)| table);
        let tables = tables.filter(|table| table.meta().largest_seqno > since);
        Newer {
            since,
            tables: tables.cloned().collect(),
            tree,
        }
    }

    /// Returns true if a key has a newer version.
    fn has_key(&self, key: &[u8]) -> Result<bool> {
        for memtable in self.tree.memtables() {
            if let Some((seqno, ..)) = memtable.get(key, SeqNo::MAX) {
                return Ok(seqno > self.since);
            }
        }
        Ok(self.in_tables(&KeyRange::of_key(key))?.is_some())
    }

    /// A key of a range with a newer version, or in a newer range tombstone.
    fn first_in(&self, range: &KeyRange) -> Result<Option<Vec<u8>>> {
        for memtable in self.tree.memtables() {
            if memtable.largest_seqno() <= self.since {
                continue;
            }
            for list in memtable.range_lists().iter() {
                if let Some(key) = list.first_newer(range, self.since) {
                    return Ok(Some(key));
                }
            }
            if let Some(key) = self.first_of(&mut memtable.iter(), range)? {
                return Ok(Some(key));
            }
        }
        self.in_tables(range)
    }

    fn in_tables(&self, range: &KeyRange) -> Result<Option<Vec<u8>>> {
        for table in &self.tables {
            let meta = table.meta();
            if !range.ends_behind(&meta.smallest_key) || meta.largest_key < range.start {
                continue;
            }
            let ranges = table.ranges()?;
            if let Some(key) = ranges.and_then(|it| it.first_newer(range, self.since)) {
                return Ok(Some(key));
            }
            let mut iter = table.iter()?;
            if !range.end.is_empty() {
                iter.limit(&range.end);
            }
            if let Some(key) = self.first_of(&mut *iter, range)? {
                return Ok(Some(key));
            }
        }
        Ok(None)
    }

    fn first_of(&self, iter: &mut dyn InternalIter, range: &KeyRange) -> Result<Option<Vec<u8>>> {
        iter.seek(&range.start, SeqNo::MAX)?;
        while let Some(entry) = iter.entry().filter(|it| range.ends_behind(it.key)) {
            if entry.seqno > self.since {
                return Ok(Some(entry.key.to_vec()));
            }
            iter.advance()?;
        }
        Ok(None)
    }
}
