//! Edits: what changes a database's description, one durable step at a time.

use crate::entry::{KeyspaceId, LogPosition, PartitionId, SeqNo};
use crate::merge_policy::edit::TreeEdit;
use crate::options::{Design, Layout};

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
