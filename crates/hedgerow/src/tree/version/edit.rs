//! Edits: what changes a database's description, one durable step at a time.

use crate::base::entry::{KeyspaceId, LogPosition, PartitionId, SeqNo};
use crate::base::options::{Design, Layout};
use crate::base::stats::Operations;
use crate::design::merge_policy::edit::TreeEdit;

use super::places::Places;

/// One change of the description of the database.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Change {
    /// A keyspace with empty trees.
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
        /// How many levels its trees have.
        depth: u8,
    },
    /// A keyspace goes, with its trees.
    DropKeyspace {
        /// Its number.
        id: KeyspaceId,
    },
    /// `clear`: the keyspace goes on with empty trees.
    ReplacePartitions {
        /// Its number.
        id: KeyspaceId,
        /// The new trees.
        partitions: Vec<PartitionId>,
    },
    /// A keyspace gets another design.
    SetDesign {
        /// Its number.
        id: KeyspaceId,
        /// The new design.
        design: Design,
    },
    /// What was asked of a keyspace lately.
    Operations {
        /// Its number.
        id: KeyspaceId,
        /// All that is remembered.
        operations: Operations,
    },
    /// Whether a keyspace tunes itself.
    SetSelfTuning {
        /// Its number.
        id: KeyspaceId,
        /// It does.
        on: bool,
    },
    /// The directories of the database, and what they are for.
    SetPlaces(Places),
    /// A flush, a merge or a move changes the tables of a tree.
    Tree(TreeEdit),
    /// Numbers below these may have been used.
    Counters {
        /// Files of tables.
        next_table: u64,
        /// Keyspaces.
        next_keyspace: u32,
        /// Partitions.
        next_partition: u32,
    },
    /// The log begins with another segment.
    LogStart {
        /// Segments numbered below this hold nothing that is needed.
        segment: u32,
    },
    /// The database was closed.
    Closed {
        /// The log ends here, durable.
        end: LogPosition,
        /// The last sequence number.
        last: SeqNo,
    },
    /// The database was opened for writing again.
    Opened,
}

/// Changes that happen together or not at all: one record of the manifest.
pub type Edit = Vec<Change>;
