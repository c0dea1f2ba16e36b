//! An open database: its trees, its log, its manifest, and the ownership of each.

pub(crate) mod engine;
pub(crate) mod expiry_clock;
pub(crate) mod memtable;
pub(crate) mod own_writes;
pub(crate) mod partition;
pub(crate) mod recorded;
pub(crate) mod snapshot_list;
pub(crate) mod version;
pub(crate) mod wal;
