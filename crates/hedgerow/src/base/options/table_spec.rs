//! The formats of tables by name. `crate::table::format` opens them.

use super::named::named;
use super::{Index, IndexSpec, KeyOrder, check_range};
use crate::base::bucket_fill;
use crate::base::error::{Error, Result};

/// The format of tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum TableSpec {
    /// Blocks of entries, with an index and a filter for the whole table.
    #[default]
    BlockBased,
    /// Buckets of `block_bytes`, found by the hash of a key and about one byte of memory per
    /// bucket. Each bucket has a Bloom filter (Wu et al., "LSM-trie: an LSM-tree-based ultra-large
    /// key-value store for small data items", 2015). Needs keys of the order `hashed`. Buckets are
    /// not compressed and have no other index.
    HTable,
}

named!(TableSpec, "a table format", "block" => BlockBased, "htable" => HTable);

/// The code of an HTable's marks among those of the indexes in a footer.
const HASH_MARKS: u8 = 3;

impl TableSpec {
    /// The code in a footer of this format with this index.
    pub(crate) fn code(self, index: IndexSpec) -> u8 {
        match self {
            TableSpec::BlockBased => index.code(),
            TableSpec::HTable => HASH_MARKS,
        }
    }

    /// The format and the index with this code.
    pub(crate) fn of_code(code: u8) -> Result<(TableSpec, IndexSpec)> {
        let known = match code {
            HASH_MARKS => Some((TableSpec::HTable, IndexSpec::Fence)),
            _ => IndexSpec::of_code(code).map(|index| (TableSpec::BlockBased, index)),
        };
        known.ok_or_else(|| {
            Error::corruption(format!(
                "expected a block index of kind 0 to 3, found {code}"
            ))
        })
    }

    /// Returns true if entries are in buckets that the hash of a key names.
    pub(crate) fn has_buckets(self) -> bool {
        self == TableSpec::HTable
    }

    /// The bytes of buckets of `block_bytes` bytes per entry of `entry_bytes` bytes of key and
    /// value, without filters. `None` for formats whose blocks have no room left over.
    pub(crate) fn bucket_bytes(self, entry_bytes: f64, block_bytes: u32) -> Option<f64> {
        self.has_buckets()
            .then(|| bucket_fill::stored_bytes(entry_bytes, block_bytes))
    }

    /// The index that comes with the format, as the advisor prices it; `None` if the design says
    /// which.
    pub(crate) fn index_of_buckets(self) -> Option<Index> {
        self.has_buckets().then_some(Index::Marks)
    }

    pub(super) fn check_order(self, order: KeyOrder) -> Result<()> {
        if !self.has_buckets() || order == KeyOrder::Hashed {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "expected keys of the order `hashed` for tables of the format `{self}`, found `{order}`: \
             each bucket is a range of key hashes"
        )))
    }

    /// Checks the choices of a design that depend on the format. `of_hashes` is an index of hashes
    /// that the design names.
    pub(super) fn check(self, of_hashes: Option<IndexSpec>, block_bytes: u32) -> Result<()> {
        if !self.has_buckets() {
            return Ok(());
        }
        if let Some(index) = of_hashes {
            return Err(Error::invalid(format!(
                "expected the index `fence` for tables of the format `{self}`, found `{index}`: \
                 an HTable finds its buckets without an index"
            )));
        }
        check_range(
            "`block_bytes` of a bucket",
            block_bytes.into(),
            512,
            16 << 10,
        )
    }
}
