//! The types and services that all rooms share.

pub(crate) mod bloom_lines;
pub(crate) mod bucket_fill;
pub(crate) mod codec;
pub(crate) mod compaction_filter;
pub(crate) mod durable;
pub(crate) mod entry;
pub(crate) mod error;
pub(crate) mod expiry;
pub(crate) mod key_order;
pub(crate) mod key_ranges;
pub(crate) mod memory_plan;
pub(crate) mod merge_operator;
pub(crate) mod mutex;
pub(crate) mod names;
pub(crate) mod operand_chain;
pub(crate) mod options;
pub(crate) mod page;
pub(crate) mod random;
pub(crate) mod range_tombstones;
pub(crate) mod runtime;
pub(crate) mod slice;
pub(crate) mod stats;
pub(crate) mod table_meta;
