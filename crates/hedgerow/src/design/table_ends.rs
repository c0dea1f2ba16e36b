//! Where the output of a merge is cut into tables: what the engine and the simulator have in common.

use crate::design::merge_policy::{Cut, LevelTarget};

/// A table is cut when what it overlaps in the level below is this many tables' worth.
pub(crate) const OVERLAP_TABLES_MAX: u64 = 10;

/// A run of a node is about a table; it may be so many times larger before it becomes two.
pub(crate) const NODE_TABLES: u64 = 2;

/// Whether the tables of a level end where those of the level below end. Merges out of level 0 take all of it, and those
/// into several runs take nothing of them.
pub(crate) fn aligns(targets: &[LevelTarget], level: usize) -> bool {
    let below = targets.get(level + 1);
    let of_nodes = targets[level].cut == Cut::OldestRuns;
    level > 0 && !of_nodes && below.is_some_and(|below| below.runs_max <= 1)
}

/// Whether a table of so many bytes, at the end of the last of so many tables of the level below, can probably not reach
/// the end of the next, as large as those on average. It is half full then at least.
pub(crate) fn is_last_border(borders: u64, bytes: u64, bytes_max: u64) -> bool {
    let (borders, bytes, bytes_max) = (
        u128::from(borders),
        u128::from(bytes),
        u128::from(bytes_max),
    );
    bytes * (borders + 1) > bytes_max * borders
}
