//! Block indexes by name, and what the advisor knows of their costs.
//! `crate::table::block_index::table_index` builds and opens them.

use super::KeyOrder;
use super::named::named;
use crate::base::error::{Error, Result};

/// The index that finds the block of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum IndexSpec {
    /// The shortest key that separates each block from the next: 6 to 12 bytes per block.
    #[default]
    Fence,
    /// The entropy-coded three-level index: less than two bytes per block (Ren et al., "SlimDB: a
    /// space-efficient key-value storage engine for semi-sorted data", 2017). Needs keys of the
    /// order `semi-sorted` or `hashed`. Blocks have one size and are not compressed.
    ThreeLevel,
    /// The three-level index with parts of keys in place of the tries of its third level: a little
    /// larger, and faster if many keys share a prefix.
    ThreeLevelArray,
}

named!(IndexSpec, "an index", "fence" => Fence, "three-level" => ThreeLevel, "three-level:array" => ThreeLevelArray);

/// The bytes of a fence pointer beside its separator.
const FENCE_BYTES: f64 = 6.0;
/// The bits of the mark of a bucket, and the buckets that are read for a key
/// (`docs/design/0014-htable.md`).
const MARK_BITS: f64 = 10.3;
const MARK_READS: f64 = 1.002;

impl IndexSpec {
    /// Returns true if the index finds keys by their hashes.
    pub(super) fn is_of_hashes(self) -> bool {
        self != IndexSpec::Fence
    }

    pub(super) fn check_order(self, order: KeyOrder) -> Result<()> {
        if !self.is_of_hashes() || order != KeyOrder::Sorted {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "expected the index `fence` for keys of the order `sorted`, found `{self}`: \
             it finds keys by their hashes, so it needs the order `semi-sorted` or `hashed`"
        )))
    }

    /// The indexes by their codes in the footer of a table and in the designs of old manifests.
    const CODES: [IndexSpec; 3] = [
        IndexSpec::Fence,
        IndexSpec::ThreeLevel,
        IndexSpec::ThreeLevelArray,
    ];

    /// The code of the index in the footer of a table.
    pub(super) fn code(self) -> u8 {
        let code = IndexSpec::CODES.iter().position(|known| *known == self);
        code.unwrap_or_default() as u8
    }

    /// The index with this code, if there is one.
    pub(crate) fn of_code(code: u8) -> Option<IndexSpec> {
        IndexSpec::CODES.get(usize::from(code)).copied()
    }

    /// The index as the advisor prices it, in memory.
    pub(crate) fn model(self) -> Index {
        match self {
            IndexSpec::Fence => Index::Fence,
            IndexSpec::ThreeLevel | IndexSpec::ThreeLevelArray => Index::ThreeLevel,
        }
    }
}

/// The index that finds the block of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Index {
    /// Fence pointers in memory.
    Fence,
    /// SlimDB's three-level index in memory. Needs keys in the order of a prefix's hash.
    ThreeLevel,
    /// Fence pointers in their file: one read more.
    Paged,
    /// The marks of an HTable in memory. Needs keys in the order of their hashes \[LSM-trie,
    /// section 3.2\].
    Marks,
}

impl Index {
    /// The indexes that the advisor tries for all keys.
    pub(crate) const OF_ALL_ORDERS: [Index; 2] = [Index::Fence, Index::Paged];

    /// The indexes in memory that only keys of this order may have.
    pub(crate) fn of_order(order: KeyOrder) -> &'static [Index] {
        match order {
            KeyOrder::Sorted => &[],
            _ => &[Index::ThreeLevel],
        }
    }

    /// The option that names it; `None` for the index of a default design.
    pub(crate) fn spec(self) -> Option<IndexSpec> {
        (self == Index::ThreeLevel).then_some(IndexSpec::ThreeLevel)
    }

    /// The bits of memory per block: `coded` are those measured of an entropy-coded index.
    pub(crate) fn block_bits(self, key_bytes: f64, coded: f64) -> f64 {
        match self {
            Index::Fence => 8.0 * (key_bytes + FENCE_BYTES),
            Index::ThreeLevel => coded,
            Index::Marks => MARK_BITS,
            Index::Paged => 0.0,
        }
    }

    /// The time of a search: `plain` is that of keys, `coded` that of an entropy-coded index.
    pub(crate) fn seek_us(self, plain: f64, coded: f64) -> f64 {
        match self {
            Index::ThreeLevel => coded,
            Index::Fence | Index::Paged | Index::Marks => plain,
        }
    }

    /// The pages of index and data that are read for a key.
    pub(crate) fn reads(self) -> f64 {
        match self {
            Index::Paged => 2.0,
            Index::Marks => MARK_READS,
            Index::Fence | Index::ThreeLevel => 1.0,
        }
    }

    /// The letter of the index in a printed tree.
    pub(crate) fn letter(self) -> &'static str {
        match self {
            Index::Fence => "F",
            Index::ThreeLevel => "T",
            Index::Paged => "-",
            Index::Marks => "H",
        }
    }
}
