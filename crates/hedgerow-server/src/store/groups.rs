//! Groups of consumers of a stream. `commands/stream_groups.rs` says how they are stored.

use super::Id;

/// A group of consumers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Group {
    pub(crate) name: Vec<u8>,
    pub(crate) last: Id,
    pub(crate) read: u64,
    pub(crate) pending: u64,
}

/// A consumer; times in milliseconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Consumer {
    pub(crate) name: Vec<u8>,
    pub(crate) seen: u64,
    pub(crate) active: u64,
    pub(crate) pending: u64,
}

/// An entry that was delivered and not acknowledged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pending {
    pub(crate) id: Id,
    pub(crate) delivered: u64,
    pub(crate) deliveries: u64,
    pub(crate) consumer: Vec<u8>,
}
