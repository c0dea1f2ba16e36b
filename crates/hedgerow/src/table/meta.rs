//! What a table's footer and the manifest say of a table.

use crate::entry::SeqNo;
use crate::page::TableId;

/// The facts about one table: enough for reads to find it, for merges to be planned without
/// opening it, and for `repair` to rebuild the manifest from footers alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TableMeta {
    pub(crate) id: TableId,
    /// The table format: 1 is block-based.
    pub(crate) format: u16,
    pub(crate) keyspace: u32,
    pub(crate) partition: u32,
    /// The level it was written for and the run it belongs to. The manifest may move a table to
    /// another level without touching the file, so `repair` takes only a hint from these.
    pub(crate) level: u8,
    pub(crate) run: u64,
    /// Which of the keyspace's paths the file is on; 0 is the database's own directory.
    pub(crate) path: u8,
    /// The size of the file.
    pub(crate) file_bytes: u64,
    /// Keys and values before compression.
    pub(crate) raw_bytes: u64,
    pub(crate) entries: u64,
    pub(crate) tombstones: u64,
    pub(crate) range_tombstones: u64,
    pub(crate) smallest_key: Vec<u8>,
    pub(crate) largest_key: Vec<u8>,
    pub(crate) smallest_seqno: SeqNo,
    pub(crate) largest_seqno: SeqNo,
    /// Reserved: a number that replaces those of the entries (ingested files).
    pub(crate) seqno_override: Option<SeqNo>,
    /// Reserved: the earliest and latest time of expiry of entries that have one.
    pub(crate) expiry: Option<(u64, u64)>,
    /// Reserved: how pages were transformed beyond compression (encryption); 0 is not at all.
    pub(crate) transform: u16,
    /// Reserved: the smallest and largest hash, for orders by hash.
    pub(crate) hash_range: Option<(u64, u64)>,
}
