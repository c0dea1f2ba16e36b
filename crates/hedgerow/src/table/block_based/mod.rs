//! The block-based table: sorted blocks found through fence pointers, with a Bloom filter. The
//! format is in `docs/format/block_based_table.md`.
//!
//! ```text
//! values and blocks, in the order of keys | filter | index pages | index top | facts | footer
//! ```
//!
//! Blocks hold about `block_bytes` of entries. Versions of one key stay in one block up to four
//! times that, so that a lookup reads one block. A value of over 2 KiB is a page of its own before
//! its block: skipping its entry does not read it.
//!
//! Cost of a lookup that finds: one page if index and filter are resident, three if they are paged.
//! Cost of a lookup that does not: none or one page, except for the filter's false positives.

mod block;
mod reader;
pub(crate) mod short_keys;
mod writer;

pub(super) use reader::{TableReader, walk};
pub(super) use writer::Writer;

/// The number of this format in [`crate::base::table_meta::TableMeta::format`].
pub(super) const FORMAT: u16 = 1;
