//! The ends of a merge's output tables: the rules that the engine and the simulator share.

use crate::design::merge_policy::LevelTarget;

/// A table ends when it overlaps the level below by this many tables' worth.
pub(crate) const OVERLAP_TABLES_MAX: u64 = 10;

/// A run of a node is about one table. It becomes two only when it is this many times larger.
pub(crate) const NODE_TABLES: u64 = 2;

/// True if the tables of a level end at the ends of tables below. A merge out of level 0 takes all
/// of it anyway, and a merge into several runs takes none of the tables below.
pub(crate) fn aligns(targets: &[LevelTarget], level: usize) -> bool {
    let below = targets.get(level + 1);
    level > 0 && !targets[level].is_of_nodes() && below.is_some_and(LevelTarget::is_leveled)
}

/// True if the table should end at this boundary: having passed `borders` tables below in `bytes`
/// bytes, it would on average exceed `bytes_max` before the next boundary. It is then at least half
/// full.
pub(crate) fn is_last_border(borders: u64, bytes: u64, bytes_max: u64) -> bool {
    let (borders, bytes, bytes_max) = (
        u128::from(borders),
        u128::from(bytes),
        u128::from(bytes_max),
    );
    bytes * (borders + 1) > bytes_max * borders
}
