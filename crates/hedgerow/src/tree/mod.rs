//! An open database: its trees, its log, its manifest, and who holds which of them.

pub(crate) mod engine;
pub(crate) mod memtable;
pub(crate) mod partition;
pub(crate) mod snapshot_list;
pub(crate) mod version;
pub(crate) mod wal;
