//! The changes that the manifest records.

use crate::base::entry::{KeyspaceId, LogPosition, PartitionId, RunId, SeqNo};
use crate::base::options::{Design, Layout};
use crate::base::page::TableId;
use crate::base::stats::Operations;
use crate::design::merge_policy::tree_edit::{Placement, TreeEdit as RecordedTreeEdit};
use crate::table::TableFacts;
use crate::tree::version::edit as recorded;
use crate::tree::version::edit::{EntryCounts, KeyspaceChange, Slot};
use crate::tree::version::places::Places;

/// One change of the description of a database.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Change {
    /// A keyspace is created, with empty trees.
    CreateKeyspace {
        /// Its number.
        id: KeyspaceId,
        /// Its name.
        name: String,
        /// Its layout.
        layout: Layout,
        /// Its design.
        design: Design,
        /// The seed of the hashes of its keys.
        seed: u64,
        /// Its trees, in the order in which keys are routed to them.
        partitions: Vec<PartitionId>,
        /// The number of levels of its trees.
        depth: u8,
    },
    /// A keyspace is removed with its trees.
    DropKeyspace {
        /// Its number.
        id: KeyspaceId,
    },
    /// A keyspace is cleared: it continues with empty trees.
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
        written: EntryCounts,
    },
    /// A keyspace gets another name.
    RenameKeyspace {
        /// Its number.
        id: KeyspaceId,
        /// The name.
        name: String,
    },
    /// A keyspace gets a merge operator.
    SetMergeOperator {
        /// Its number.
        id: KeyspaceId,
        /// The name of the operator.
        name: String,
    },
    /// The puts of a keyspace get a time to live.
    SetTimeToLive {
        /// Its number.
        id: KeyspaceId,
        /// Milliseconds; 0 is for ever.
        ms: u64,
    },
    /// The latest time that entries expired by.
    Clock {
        /// Milliseconds since 1970.
        ms: u64,
    },
    /// Self-tuning of a keyspace is turned on or off.
    SetSelfTuning {
        /// Its number.
        id: KeyspaceId,
        /// True if the keyspace tunes itself.
        on: bool,
    },
    /// The directories of the database, and their use.
    SetPlaces(Places),
    /// The tables of a tree change: a flush, a merge or a move.
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
    /// Sequence numbers up to this may have been used when trees were removed.
    Numbered {
        /// The number.
        last: SeqNo,
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
    /// A slot of the change feed is created, moved or dropped.
    SetSlot {
        /// Its name.
        name: String,
        /// The slot; `None` if it is dropped.
        slot: Option<Slot>,
    },
    /// Changes without a record in the log, as the change feed reports them.
    Past {
        /// Their number.
        at: SeqNo,
        /// The changes.
        edit: Edit,
    },
    /// The change feed begins at a later number.
    FeedStart {
        /// The oldest segment of the log that is kept.
        segment: u32,
        /// The number: only changes behind it are there.
        at: SeqNo,
    },
}

/// The change of one partition's tree by a flush, a merge or a move.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TreeEdit {
    /// The tree.
    pub partition: PartitionId,
    /// Tables merged away.
    pub removed: Vec<TableId>,
    /// Tables moved elsewhere without a rewrite.
    pub moved: Vec<(TableId, Placement)>,
    /// New tables.
    pub added: Vec<(Placement, TableFacts)>,
    /// The tables of this partition hold all its writes up to this number.
    pub flushed_through: Option<SeqNo>,
    /// The level begins a sweep over its runs up to a number (`Some`), or ends it (`None`).
    pub draining: Vec<(u8, Option<RunId>)>,
    /// The new number of levels, by a change at the bottom.
    pub depth: Option<u8>,
    /// The new number of levels, by a change directly under level 0.
    pub shift_to: Option<u8>,
    /// A level and its new number of groups.
    pub ranges: Vec<(u8, u32)>,
    /// The new note of the merge policy: a number that only the policy can read.
    pub policy_note: Option<u8>,
}

/// Changes that happen together or not at all: one record of the manifest.
pub type Edit = Vec<Change>;

/// An edit of the engine as plain data.
pub(super) fn edit(edit: &recorded::Edit) -> Edit {
    edit.iter().map(of_change).collect()
}

fn of_change(change: &recorded::Change) -> Change {
    use recorded::Change as Recorded;
    match change.clone() {
        Recorded::CreateKeyspace { id, keyspace } => Change::CreateKeyspace {
            id,
            name: keyspace.name,
            layout: keyspace.layout,
            design: keyspace.design,
            seed: keyspace.seed,
            partitions: keyspace.partitions,
            depth: keyspace.depth,
        },
        Recorded::Keyspace(id, change) => of_keyspace(id, change),
        Recorded::Clock { ms } => Change::Clock { ms },
        Recorded::SetPlaces(places) => Change::SetPlaces(places),
        Recorded::Tree(edit) => Change::Tree(of_tree(edit)),
        Recorded::Counters {
            next_table,
            next_keyspace,
            next_partition,
        } => Change::Counters {
            next_table,
            next_keyspace,
            next_partition,
        },
        Recorded::Numbered { last } => Change::Numbered { last },
        Recorded::LogStart { segment } => Change::LogStart { segment },
        Recorded::Closed { end, last } => Change::Closed { end, last },
        Recorded::Opened => Change::Opened,
        Recorded::SetSlot { name, slot } => Change::SetSlot { name, slot },
        Recorded::Past { at, edit } => Change::Past {
            at,
            edit: self::edit(&edit),
        },
        Recorded::FeedStart { segment, at } => Change::FeedStart { segment, at },
    }
}

fn of_keyspace(id: KeyspaceId, change: KeyspaceChange) -> Change {
    match change {
        KeyspaceChange::Drop => Change::DropKeyspace { id },
        KeyspaceChange::Rename(name) => Change::RenameKeyspace { id, name },
        KeyspaceChange::ReplacePartitions(partitions) => {
            Change::ReplacePartitions { id, partitions }
        }
        KeyspaceChange::SetMergeOperator(name) => Change::SetMergeOperator { id, name },
        KeyspaceChange::SetDesign(design) => Change::SetDesign { id, design },
        KeyspaceChange::Operations(operations) => Change::Operations { id, operations },
        KeyspaceChange::Written(written) => Change::Written { id, written },
        KeyspaceChange::SetSelfTuning(on) => Change::SetSelfTuning { id, on },
        KeyspaceChange::SetTimeToLive(ms) => Change::SetTimeToLive { id, ms },
    }
}

fn of_tree(edit: RecordedTreeEdit) -> TreeEdit {
    let added = edit.added.iter();
    TreeEdit {
        partition: edit.partition,
        added: added
            .map(|(at, meta)| (*at, TableFacts::of(meta)))
            .collect(),
        removed: edit.removed,
        moved: edit.moved,
        flushed_through: edit.flushed_through,
        draining: edit.draining,
        depth: edit.depth,
        shift_to: edit.shift_to,
        ranges: edit.ranges,
        policy_note: edit.policy_note,
    }
}
