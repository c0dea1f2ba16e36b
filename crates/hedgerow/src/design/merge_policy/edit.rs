//! The change of one tree that a flush, a merge or a move makes, as plain data. The manifest records
//! it, [`super::shape::Shape::apply`] makes it.

use crate::base::entry::{PartitionId, SeqNo};
use crate::base::page::TableId;
use crate::base::table_meta::TableMeta;

use super::shape::RunId;

/// Where a table belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placement {
    /// The level, from 0.
    pub level: u8,
    /// The group within the level, from 0.
    pub group: u32,
    /// The run within the group: a larger number is newer.
    pub run: RunId,
}

/// A change of one partition's tree. Removals come before moves, moves before additions.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TreeEdit {
    /// The tree.
    pub partition: PartitionId,
    /// Tables that are merged away.
    pub removed: Vec<TableId>,
    /// Tables that go elsewhere without being rewritten.
    pub moved: Vec<(TableId, Placement)>,
    /// New tables.
    pub added: Vec<(Placement, TableMeta)>,
    /// Every write of this partition numbered up to this is in its tables.
    pub flushed_through: Option<SeqNo>,
    /// A sweep over the runs of a level up to a number begins (`Some`) or is over (`None`).
    pub draining: Vec<(u8, Option<RunId>)>,
    /// The tree has so many levels from now on; they come and go at the bottom.
    pub depth: Option<u8>,
    /// The tree has so many levels from now on; empty ones come and go directly under level 0, and
    /// those below change their numbers. It comes before all else: the rest of the edit, and every
    /// later one, names levels by their new numbers.
    pub shift_to: Option<u8>,
    /// A level is cut into so many groups from now on, whose runs are numbered anew where groups become one;
    /// a sweep of it begins again. It comes after the change of depth, before removals.
    pub ranges: Vec<(u8, u32)>,
    /// The merge policy counts so many levels from now on.
    pub nominal_depth: Option<u8>,
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
            shift_to: None,
            ranges: Vec::new(),
            nominal_depth: None,
        }
    }

    /// Entries and bytes of the tables that it adds; sums stop at the largest number.
    pub(crate) fn written(&self) -> (u64, u64) {
        let metas = self.added.iter().map(|(_, meta)| meta);
        metas.fold((0, 0), |(entries, bytes): (u64, u64), meta| {
            let entries = entries.saturating_add(meta.entries);
            (entries, bytes.saturating_add(meta.file_bytes))
        })
    }
}
