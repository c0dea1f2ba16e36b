//! The keyspaces of an open database, by name, by number and by tree.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwap;

use crate::base::entry::{KeyHash, KeyspaceId, PartitionId};
use crate::base::error::{Error, ErrorKind, Result};
use crate::tree::partition::{KeyBounds, KeyspaceFacts, Partition};

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
