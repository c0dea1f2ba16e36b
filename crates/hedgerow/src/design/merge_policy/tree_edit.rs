//! The change of one tree by a flush, a merge or a move, as plain data. The manifest records it,
//! and [`super::shape::Shape::apply`] makes it.

use crate::base::entry::{PartitionId, SeqNo};
use crate::base::page::TableId;
use crate::base::table_meta::TableMeta;

use crate::base::entry::RunId;

/// The level, group and run of a table.
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
pub(crate) struct TreeEdit {
    /// The tree.
    pub(crate) partition: PartitionId,
    /// Tables merged away.
    pub(crate) removed: Vec<TableId>,
    /// Tables moved elsewhere without a rewrite.
    pub(crate) moved: Vec<(TableId, Placement)>,
    /// New tables.
    pub(crate) added: Vec<(Placement, TableMeta)>,
    /// The tables of this partition hold all its writes up to this number.
    pub(crate) flushed_through: Option<SeqNo>,
    /// The level begins a sweep over its runs up to a number (`Some`), or ends it (`None`).
    pub(crate) draining: Vec<(u8, Option<RunId>)>,
    /// The new number of levels. Levels come and go at the bottom.
    pub(crate) depth: Option<u8>,
    /// The new number of levels. Empty levels come and go directly under level 0, so the levels
    /// below change their numbers. The shift comes before all else: the rest of this edit, and
    /// every later edit, names levels by their new numbers.
    pub(crate) shift_to: Option<u8>,
    /// A level and its new number of groups. Groups that become one number their runs anew, and a
    /// sweep of the level begins again. Regrouping comes after the change of depth and before
    /// removals.
    pub(crate) ranges: Vec<(u8, u32)>,
    /// The new note of the merge policy.
    pub(crate) policy_note: Option<u8>,
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
            policy_note: None,
        }
    }

    /// Entries and bytes of the added tables, saturating.
    pub(crate) fn written(&self) -> (u64, u64) {
        let metas = self.added.iter().map(|(_, meta)| meta);
        metas.fold((0, 0), |(entries, bytes): (u64, u64), meta| {
            let entries = entries.saturating_add(meta.entries);
            (entries, bytes.saturating_add(meta.file_bytes))
        })
    }
}
