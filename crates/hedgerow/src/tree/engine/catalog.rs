//! The keyspaces of an open database, by name, by number and by tree.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use arc_swap::{ArcSwap, Guard};
use hedgerow_mem::Publisher;

use crate::base::entry::{KeyHash, KeyspaceId, PartitionId, SeqNo};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::mutex::lock;
use crate::tree::partition::{KeyBounds, KeyspaceFacts, Partition};
use crate::tree::version::Version;

/// The keyspaces at one moment; replaced, never changed. Its maps are sorted, so that every run of
/// a simulation visits them in the same order.
#[derive(Default, Clone)]
pub(crate) struct Catalog {
    pub(crate) keyspaces: BTreeMap<String, Arc<KeyspaceCell>>,
    pub(crate) states: BTreeMap<KeyspaceId, Arc<KeyspaceState>>,
    pub(crate) partitions: BTreeMap<PartitionId, Arc<Partition>>,
}

impl Catalog {
    /// This catalog with a keyspace added or its trees replaced.
    pub(crate) fn with(&self, cell: &Arc<KeyspaceCell>, state: &Arc<KeyspaceState>) -> Catalog {
        let mut catalog = self.without(cell.facts.id);
        catalog.add(cell, state);
        catalog
    }

    /// Adds a keyspace that is not in the catalog.
    pub(crate) fn add(&mut self, cell: &Arc<KeyspaceCell>, state: &Arc<KeyspaceState>) {
        let facts = &cell.facts;
        self.keyspaces.insert(facts.name(), cell.clone());
        let partitions = state.partitions.iter();
        self.partitions
            .extend(partitions.map(|p| (p.id, p.clone())));
        self.states.insert(facts.id, state.clone());
    }

    /// The number up to which a partition is flushed; `None` if it was dropped.
    pub(crate) fn flushed_through(&self, id: PartitionId) -> Option<SeqNo> {
        let partition = self.partitions.get(&id)?;
        Some(partition.tree().flushed_through)
    }

    /// Opens all tables. An open file stays readable when the writer removes it.
    pub(crate) fn hold_tables(&self) -> Result<()> {
        for partition in self.partitions.values() {
            for (_, table) in partition.tree().version.tables() {
                table.reader()?;
            }
        }
        Ok(())
    }

    /// This catalog without a keyspace.
    pub(crate) fn without(&self, id: KeyspaceId) -> Catalog {
        let mut catalog = self.clone();
        if let Some(state) = catalog.states.remove(&id) {
            catalog.keyspaces.remove(&state.facts.name());
            state
                .partitions
                .iter()
                .for_each(|p| drop(catalog.partitions.remove(&p.id)));
        }
        catalog
    }
}

/// The catalog in force, and the changes of it after which writes are routed again.
#[derive(Default)]
pub(crate) struct CurrentCatalog {
    catalog: ArcSwap<Catalog>,
    /// Counts the changes after which a routed write must be routed again, twice each: it is odd
    /// during a change.
    epoch: AtomicU64,
    /// The sequence number of the last of these changes.
    rerouted_at: AtomicU64,
    /// The versions of trees without tables, by depth; trees of all keyspaces share them.
    empty_versions: Mutex<BTreeMap<usize, Arc<Version>>>,
}

impl CurrentCatalog {
    pub(crate) fn load(&self) -> Guard<Arc<Catalog>> {
        self.catalog.load()
    }

    pub(crate) fn load_full(&self) -> Arc<Catalog> {
        self.catalog.load_full()
    }

    pub(super) fn store(&self, catalog: Catalog) {
        self.catalog.store(Arc::new(catalog));
    }

    /// The epoch for a routing that begins now. Waits while trees are replaced.
    #[inline]
    pub(super) fn epoch(&self, publisher: &Publisher) -> u64 {
        loop {
            let epoch = self.epoch.load(Ordering::Acquire);
            if epoch.is_multiple_of(2) {
                return epoch;
            }
            publisher.wait(self.rerouted_at.load(Ordering::Acquire));
        }
    }

    /// The epoch for a routing that begins now, without waiting: one that no longer holds while
    /// trees are replaced.
    #[inline]
    pub(crate) fn epoch_at_once(&self) -> u64 {
        self.epoch.load(Ordering::Acquire) & !1
    }

    /// Returns true if a routing of this epoch still holds. Inside the commit's critical section.
    #[inline]
    pub(crate) fn is_routed_at(&self, epoch: u64) -> bool {
        self.epoch.load(Ordering::Relaxed) == epoch
    }

    /// No write is routed from now on. Inside the commit's critical section, at this number.
    pub(crate) fn begin_rerouting(&self, at: SeqNo) {
        self.rerouted_at.store(at.0, Ordering::Release);
        self.epoch.fetch_add(1, Ordering::AcqRel);
    }

    /// Writes are routed again, by the catalog in force.
    pub(crate) fn end_rerouting(&self) {
        self.epoch.fetch_add(1, Ordering::AcqRel);
    }

    /// The version of a tree without tables; trees of the same depth share it.
    pub(crate) fn empty_version(&self, depth: usize) -> Arc<Version> {
        let mut versions = lock(&self.empty_versions);
        let version = versions.entry(depth);
        version
            .or_insert_with(|| Arc::new(Version::new(depth)))
            .clone()
    }
}

/// The trees of a keyspace between two `clear`s.
pub(crate) struct KeyspaceState {
    pub(crate) facts: Arc<KeyspaceFacts>,
    pub(crate) partitions: Vec<Arc<Partition>>,
}

impl KeyspaceState {
    /// The tree in which a user key with this hash lives.
    #[inline]
    pub(crate) fn route(&self, user_key: &[u8], hash: KeyHash) -> &Arc<Partition> {
        &self.partitions[self.facts.router.route(user_key, hash)]
    }

    /// The trees that may hold keys within bounds.
    pub(crate) fn covering(&self, bounds: &KeyBounds) -> &[Arc<Partition>] {
        &self.partitions[self.facts.router.covering(bounds).partitions]
    }

    /// The average bytes of a key, from the bounds of tables: these are keys like any others, and
    /// need no read. 0 if there are no tables.
    pub(crate) fn key_bytes(&self) -> f64 {
        let (mut keys, mut bytes) = (0_u64, 0);
        for partition in &self.partitions {
            for (_, table) in partition.tree().version.tables() {
                let meta = table.meta();
                keys += 2;
                bytes += meta.smallest_key.len() + meta.largest_key.len();
            }
        }
        bytes as f64 / keys.max(1) as f64
    }
}

/// The part that all handles of a keyspace share.
pub(crate) struct KeyspaceCell {
    pub(crate) facts: Arc<KeyspaceFacts>,
    pub(crate) state: ArcSwap<KeyspaceState>,
    pub(crate) dropped: AtomicBool,
    /// True if the keyspace is about to be dropped: no asynchronous call for it is accepted.
    pub(crate) dropping: AtomicBool,
}

impl KeyspaceCell {
    /// Returns `Closed` when the keyspace was dropped.
    #[inline]
    pub(crate) fn check_not_dropped(&self) -> Result<()> {
        self.check_not(&self.dropped)
    }

    /// Returns `Closed` while the keyspace is being dropped.
    pub(crate) fn check_not_dropping(&self) -> Result<()> {
        self.check_not(&self.dropping)
    }

    #[inline]
    fn check_not(&self, gone: &AtomicBool) -> Result<()> {
        match gone.load(Ordering::Acquire) {
            false => Ok(()),
            true => Err(self.is_gone()),
        }
    }

    #[cold]
    fn is_gone(&self) -> Error {
        let why = format!("the keyspace `{}` was dropped", self.facts.name());
        Error::new(ErrorKind::Closed, why)
    }
}
