//! The HTable of LSM-trie (Wu, Xu, Shao, Jiang, 2015): buckets of one size for keys in the order of
//! their hashes, found by HashMarks, each with a Bloom filter of its own. The format is in
//! `docs/format/htable.md`. The differences from the paper, with reasons, are in
//! `docs/design/0014-htable.md`.
//!
//! ```text
//! values and buckets, in the order of keys | filters of buckets | HashMarks | facts | footer
//! ```
//!
//! A bucket is filled until the next entry does not fit. That entry goes to the next bucket. So
//! buckets are as full as any sizes of entries allow, and a merge reads and writes one bucket after
//! the other. The marks record the end of each bucket. An entry larger than a bucket has a longer
//! bucket. A key whose versions do not fit one bucket continues in the next. A value of over half a
//! bucket is a page of its own.
//!
//! Cost of a lookup that finds: one bucket (1.003 on average without filters), and a page of
//! filters if these are paged. Cost of a lookup that does not: none, except for the filter's false
//! positives. Buckets are stored with user keys alone and uncompressed. Iterators compute the
//! hashes again.
//!
//! Memory: 1.3 bytes per bucket for the marks, which are always resident, and the filters. A writer
//! has one bucket, 8 bytes for each bucket before it, and the filters.

mod bucket;
mod reader;
mod writer;

pub(super) use reader::{TableReader, walk};
pub(super) use writer::Writer;

/// The number of this format in [`crate::base::table_meta::TableMeta::format`].
pub(super) const FORMAT: u16 = 2;
