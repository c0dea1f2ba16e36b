//! The paths: each operation (a put, a get, a flush, a merge, a recovery) from top to bottom in one
//! file.

pub(crate) mod background;
pub(crate) mod bulk_load;
pub(crate) mod changes;
pub(crate) mod checkpoint;
pub(crate) mod close;
pub(crate) mod compact;
pub(crate) mod compaction;
pub(crate) mod conflicts;
pub(crate) mod delete_range;
pub(crate) mod destroy;
pub(crate) mod estimate;
pub(crate) mod explain;
pub(crate) mod flush;
pub(crate) mod group_filters;
pub(crate) mod keyspaces;
pub(crate) mod outside_tables;
pub(crate) mod pop;
pub(crate) mod read;
pub(crate) mod recover;
pub(crate) mod retune;
pub(crate) mod scan;
pub(crate) mod self_tuning;
pub(crate) mod skipped;
pub(crate) mod slots;
pub(crate) mod statistics;
pub(crate) mod verify;
pub(crate) mod write;
