//! Edits: the durable steps by which a database's description changes.

use crate::base::entry::{KeyspaceId, LogPosition, PartitionId, SeqNo};
use crate::base::options::{Design, Layout};
use crate::base::stats::Operations;
use crate::design::merge_policy::edit::TreeEdit;

use super::places::Places;

/// One change of the description of the database.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Change {
    /// Creates a keyspace with empty trees.
    CreateKeyspace {
        /// Its number.
        id: KeyspaceId,
        /// Its name.
        name: String,
        /// Its layout.
        layout: Layout,
        /// Its design.
        design: Design,
        /// The seed of the keyspace's key hashes.
        seed: u64,
        /// Its trees, in the order in which keys are routed to them.
        partitions: Vec<PartitionId>,
        /// The number of levels of its trees.
        depth: u8,
    },
    /// Removes a keyspace with its trees.
    DropKeyspace {
        /// Its number.
        id: KeyspaceId,
    },
    /// `clear`: the keyspace continues with empty trees.
    ReplacePartitions {
        /// Its number.
        id: KeyspaceId,
        /// The new trees.
        partitions: Vec<PartitionId>,
    },
    /// Gives a keyspace another design.
    SetDesign {
        /// Its number.
        id: KeyspaceId,
        /// The new design.
        design: Design,
    },
    /// The recent operations of a keyspace.
    Operations {
        /// Its number.
        id: KeyspaceId,
        /// All operations that are remembered.
        operations: Operations,
    },
    /// The entry counts of a keyspace since it got its design.
    Written {
        /// Its number.
        id: KeyspaceId,
        /// The counts.
        written: Written,
    },
    /// Turns self-tuning of a keyspace on or off.
    SetSelfTuning {
        /// Its number.
        id: KeyspaceId,
        /// True if the keyspace tunes itself.
        on: bool,
    },
    /// The directories of the database, and their use.
    SetPlaces(Places),
    /// Changes the tables of a tree: a flush, a merge or a move.
    Tree(TreeEdit),
    /// Ids below these may have been used.
    Counters {
        /// The id of the next table file.
        next_table: u64,
        /// The id of the next keyspace.
        next_keyspace: u32,
        /// The id of the next partition.
        next_partition: u32,
    },
    /// The log begins with another segment.
    LogStart {
        /// Segments numbered below this are no longer needed.
        segment: u32,
    },
    /// The database was closed.
    Closed {
        /// The durable end of the log.
        end: LogPosition,
        /// The last sequence number.
        last: SeqNo,
    },
    /// The database was opened for writing again.
    Opened,
}

/// Entry counts of a keyspace. All of them begin when the keyspace gets its design.
///
/// Edits of the manifest carry the counts, so input and output belong to one period.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Written {
    /// The entries in tables when the period began.
    pub initial: u64,
    /// The entries of flushes and bulk loads since then.
    pub ingested: u64,
    /// The entries that flushes, bulk loads and merges wrote since then.
    pub written: u64,
}

impl Written {
    /// A period that begins with `initial` entries.
    pub(crate) fn from(initial: u64) -> Written {
        Written {
            initial,
            ..Written::default()
        }
    }

    /// Counts the tables that an edit adds. A move adds none.
    pub(crate) fn count(&mut self, edit: &TreeEdit) {
        let (entries, _) = edit.written();
        if edit.removed.is_empty() {
            self.ingested = self.ingested.saturating_add(entries);
        }
        self.written = self.written.saturating_add(entries);
    }

    /// Writes per ingested entry. `None` while fewer than [`Written::enough`] entries were
    /// ingested.
    pub fn entry_writes(&self) -> Option<f64> {
        let is_enough = self.ingested > 0 && self.ingested >= self.enough();
        is_enough.then(|| self.written as f64 / self.ingested as f64)
    }

    /// The number of ingested entries from which [`Written::entry_writes`] is meaningful.
    ///
    /// A new design merges the initial entries once or twice. Spread over four times their number,
    /// those merges add a quarter or a half to the writes of an entry.
    pub fn enough(&self) -> u64 {
        self.initial.saturating_mul(4)
    }
}

/// Changes that happen together or not at all: one record of the manifest.
pub type Edit = Vec<Change>;
