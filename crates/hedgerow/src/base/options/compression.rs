//! The compression of pages.

use super::named::named;

/// The compression of the pages of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Compression {
    /// No compression.
    None,
    /// LZ4. A page that would not shrink by an eighth is stored uncompressed.
    #[default]
    Lz4,
    /// Zstandard at its level 3, by the same rule. Only in a build with the feature `zstd`; without
    /// it, a database that names it is refused.
    Zstd,
}

named!(Compression, "a compression", "none" => None, "lz4" => Lz4, "zstd" => Zstd);
