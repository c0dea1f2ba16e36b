//! The shape of a tree: levels of groups of runs of tables, generic over what a table is, so that
//! the engine's versions, the planner's tests and the simulator share one structure and one
//! [`Shape::apply`].

use crate::page::TableId;
use crate::table::TableMeta;

/// Anything that knows a table's facts.
pub(crate) trait Facts: Clone {
    fn meta(&self) -> &TableMeta;
}

impl Facts for std::sync::Arc<TableMeta> {
    fn meta(&self) -> &TableMeta {
        self
    }
}

/// The number of a run. In a group a larger number is newer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RunId(pub(crate) u64);

/// Sorted tables that do not overlap.
#[derive(Debug, Clone)]
pub(crate) struct Run<T> {
    pub(crate) id: RunId,
    /// In key order.
    pub(crate) tables: Vec<T>,
}

/// The runs of one level over one key range.
#[derive(Debug, Clone)]
pub(crate) struct Group<T> {
    /// The smallest order key that belongs here; the group ends where the next one begins.
    pub(crate) lower: Vec<u8>,
    /// Newest first; at most 64.
    pub(crate) runs: Vec<Run<T>>,
}

/// One level.
#[derive(Debug, Clone)]
pub(crate) struct Level<T> {
    /// In key order; the first one's lower bound is empty.
    pub(crate) groups: Vec<Group<T>>,
    /// While a partitioned full merge is under way: tables numbered up to this still have to go
    /// down.
    pub(crate) draining: Option<TableId>,
}

/// A whole tree on disk.
#[derive(Debug, Clone)]
pub(crate) struct Shape<T> {
    /// Level 0 first: newer data is in smaller levels.
    pub(crate) levels: Vec<Level<T>>,
}
