//! The change of one tree that a flush, a merge or a move makes, as plain data. The manifest records
//! it, [`super::shape::Shape::apply`] makes it.

use crate::entry::{PartitionId, SeqNo};
use crate::page::TableId;
use crate::table::TableMeta;

use super::shape::RunId;

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
