//! Edits: what changes a database's description, one durable step at a time.

use crate::entry::SeqNo;
use crate::merge_policy::shape::RunId;
use crate::options::{Design, Layout};
use crate::page::TableId;
use crate::table::TableMeta;

/// The number of a keyspace; never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct KeyspaceId(pub(crate) u32);

/// The number of a partition, unique in the database; never reused. Log records name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PartitionId(pub(crate) u32);

/// A place in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(crate) struct LogPosition {
    pub(crate) segment: u32,
    pub(crate) offset: u32,
}

impl LogPosition {
    /// The position in one integer that sorts alike.
    pub(crate) fn packed(self) -> u64 {
        u64::from(self.segment) << 32 | u64::from(self.offset)
    }

    pub(crate) fn unpacked(packed: u64) -> LogPosition {
        LogPosition {
            segment: (packed >> 32) as u32,
            offset: packed as u32,
        }
    }
}

/// Where a table belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Placement {
    pub(crate) level: u8,
    pub(crate) group: u32,
    pub(crate) run: RunId,
}

/// A change of one partition's tree. Removals come before moves, moves before additions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TreeEdit {
    pub(crate) partition: PartitionId,
    pub(crate) removed: Vec<TableId>,
    pub(crate) moved: Vec<(TableId, Placement)>,
    pub(crate) added: Vec<(Placement, TableMeta)>,
    /// Every write of this partition numbered up to this is in its tables.
    pub(crate) flushed_through: Option<SeqNo>,
    /// A partitioned full merge of a level begins (`Some`) or is over (`None`).
    pub(crate) draining: Vec<(u8, Option<TableId>)>,
    pub(crate) depth: Option<u8>,
}

impl TreeEdit {
    pub(crate) fn new(partition: PartitionId) -> Self {
        TreeEdit {
            partition,
            removed: Vec::new(),
            moved: Vec::new(),
            added: Vec::new(),
            flushed_through: None,
            draining: Vec::new(),
            depth: None,
        }
    }
}

/// One change of the description of the database.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Change {
    CreateKeyspace {
        id: KeyspaceId,
        name: String,
        layout: Layout,
        design: Design,
        /// The seed of the keyspace's key hashes.
        seed: u64,
        partitions: Vec<PartitionId>,
        /// How many levels its trees have.
        depth: u8,
    },
    DropKeyspace {
        id: KeyspaceId,
    },
    /// `clear`: the keyspace goes on with empty trees.
    ReplacePartitions {
        id: KeyspaceId,
        partitions: Vec<PartitionId>,
    },
    SetDesign {
        id: KeyspaceId,
        design: Design,
    },
    Tree(TreeEdit),
    /// Numbers below these may have been used: files (tables), keyspaces, partitions.
    Counters {
        next_table: u64,
        next_keyspace: u32,
        next_partition: u32,
    },
    /// Segments numbered below this hold nothing that is needed.
    LogStart {
        segment: u32,
    },
    /// The database was closed with the log ending here, durable, at this sequence number.
    Closed {
        end: LogPosition,
        last: SeqNo,
    },
    /// The database was opened for writing again.
    Opened,
}

/// Changes that happen together or not at all: one record of the manifest.
pub(crate) type Edit = Vec<Change>;
