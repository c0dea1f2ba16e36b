//! Edits: the durable steps by which a database's description changes.

use crate::base::entry::{KeyspaceId, LogPosition, PartitionId, SeqNo};
use crate::base::options::{Design, Layout};
use crate::base::stats::Operations;
use crate::design::merge_policy::tree_edit::TreeEdit;

use super::places::Places;

/// One change of the description of the database.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Change {
    /// Creates a keyspace with empty trees. Its counts of operations and entries begin at zero.
    CreateKeyspace {
        id: KeyspaceId,
        keyspace: KeyspaceDescription,
    },
    /// Changes a keyspace that exists.
    Keyspace(KeyspaceId, KeyspaceChange),
    /// The latest time that entries expired by, in milliseconds since 1970.
    Clock { ms: u64 },
    /// The directories of the database, and their use.
    SetPlaces(Places),
    /// Changes the tables of a tree: a flush, a merge or a move.
    Tree(TreeEdit),
    /// Ids below these may have been used.
    Counters {
        next_table: u64,
        next_keyspace: u32,
        next_partition: u32,
    },
    /// Sequence numbers up to this may have been used.
    Numbered { last: SeqNo },
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
    /// Creates, moves or drops a slot of the change feed.
    SetSlot { name: String, slot: Option<Slot> },
    /// Changes without a record in the log, for the change feed. A close and the start of a log
    /// say where an earlier log ended and the next one began.
    Past {
        /// Their number.
        at: SeqNo,
        edit: Edit,
    },
    /// The change feed begins at a later number.
    FeedStart {
        /// The oldest segment that is kept.
        segment: u32,
        at: SeqNo,
    },
}

/// A change of a keyspace that exists.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum KeyspaceChange {
    /// Removes it with its trees.
    Drop,
    /// Gives it another name.
    Rename(String),
    /// `clear`: it continues with empty trees.
    ReplacePartitions(Vec<PartitionId>),
    /// Gives it a merge operator of this name.
    SetMergeOperator(String),
    /// Gives it another design.
    SetDesign(Design),
    /// Its recent operations.
    Operations(Operations),
    /// Its entry counts since it got its design.
    Written(EntryCounts),
    /// Turns its self-tuning on or off.
    SetSelfTuning(bool),
    /// Gives its puts a time to live in milliseconds; 0 is for ever.
    SetTimeToLive(u64),
}

/// A consumer's place in the changes; see [`Db::create_slot`](crate::Db::create_slot).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Slot {
    /// The number up to which its consumer has all changes.
    pub position: u64,
    /// The bytes of log, beyond what the database needs itself, that it keeps at most.
    pub log_bytes_max: u64,
}

impl Slot {
    /// The slot at another position.
    pub(crate) fn at(self, position: u64) -> Slot {
        Slot { position, ..self }
    }
}

/// A keyspace without its trees.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct KeyspaceDescription {
    pub(crate) name: String,
    pub(crate) layout: Layout,
    pub(crate) design: Design,
    /// The seed of the hashes of its keys.
    pub(crate) seed: u64,
    /// The partitions, in the order in which keys are routed to them.
    pub(crate) partitions: Vec<PartitionId>,
    /// The number of levels of new trees.
    pub(crate) depth: u8,
    /// Its recent operations.
    pub(crate) operations: Operations,
    /// The entry counts since it got its design.
    pub(crate) written: EntryCounts,
    /// True if it adopts the advisor's design.
    pub(crate) tunes_itself: bool,
}

impl KeyspaceDescription {
    /// A keyspace when it is created.
    pub(crate) fn new(
        name: String,
        (layout, design): (Layout, Design),
        seed: u64,
        partitions: Vec<PartitionId>,
        depth: u8,
    ) -> KeyspaceDescription {
        KeyspaceDescription {
            name,
            layout,
            design,
            seed,
            partitions,
            depth,
            operations: Operations::default(),
            written: EntryCounts::default(),
            tunes_itself: false,
        }
    }

    /// The change that creates it.
    pub(crate) fn creation(&self, id: KeyspaceId) -> Change {
        let keyspace = KeyspaceDescription {
            operations: Operations::default(),
            written: EntryCounts::default(),
            tunes_itself: false,
            ..self.clone()
        };
        Change::CreateKeyspace { id, keyspace }
    }
}

/// Entry counts of a keyspace. All of them begin when the keyspace gets its design.
///
/// Edits of the manifest carry the counts, so input and output belong to one period.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EntryCounts {
    /// The entries in tables when the period began.
    pub initial: u64,
    /// The entries of flushes and bulk loads since then.
    pub added: u64,
    /// The entries that flushes, bulk loads and merges wrote since then.
    pub written: u64,
}

impl EntryCounts {
    /// A period that begins with `initial` entries.
    pub(crate) fn from(initial: u64) -> EntryCounts {
        EntryCounts {
            initial,
            ..EntryCounts::default()
        }
    }

    /// Counts the tables that an edit adds. A move adds none.
    pub(crate) fn count(&mut self, edit: &TreeEdit) {
        let (entries, _) = edit.written();
        if edit.removed.is_empty() {
            self.added = self.added.saturating_add(entries);
        }
        self.written = self.written.saturating_add(entries);
    }

    /// Writes per added entry. `None` while fewer than [`EntryCounts::enough`] entries were
    /// added.
    pub fn entry_writes(&self) -> Option<f64> {
        let is_enough = self.added > 0 && self.added >= self.enough();
        is_enough.then(|| self.written as f64 / self.added as f64)
    }

    /// The number of added entries from which [`EntryCounts::entry_writes`] is meaningful.
    ///
    /// A new design merges the initial entries once or twice. Spread over four times their number,
    /// those merges add a quarter or a half to the writes of an entry.
    pub fn enough(&self) -> u64 {
        self.initial.saturating_mul(4)
    }
}

/// Changes that happen together or not at all: one record of the manifest.
pub(crate) type Edit = Vec<Change>;
