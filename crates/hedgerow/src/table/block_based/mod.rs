//! The block-based table: sorted blocks found through fence pointers, with a Bloom filter. The
//! format is in `docs/format/block_based_table.md`.
//!
//! ```text
//! values and blocks, in the order of keys | filter | index pages | index top | facts | footer
//! ```
//!
//! Blocks hold about `block_bytes` of entries; versions of one key stay in one block up to four
//! times that, so that a lookup reads one block. A value of over 2 KiB is a page of its own before
//! its block: skipping its entry does not read it.
//!
//! Cost of a lookup that finds: one page when index and filter are resident, three when they are
//! paged. Cost of one that does not: none or one page, but for the filter's false positives.

mod block;
mod footer;
mod inspect;
mod iter;
mod reader;
pub(crate) mod short_keys;
mod verify;
mod writer;

pub use footer::Footer;
pub use inspect::{InspectedPage, InspectedTable, Part, StoredEntry, StoredValue};
pub(crate) use reader::{ResidencyChoice, open, read_meta};
pub(crate) use writer::{TableOptions, Writer};

/// The number of this format in [`crate::table::TableMeta::format`].
pub(crate) const FORMAT: u16 = 1;

#[cfg(test)]
mod tests;
