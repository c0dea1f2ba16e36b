//! The options of a keyspace: its layout, fixed when it is created, and its design, which may
//! change at any time. The manifest records both.

pub(crate) mod compression;
mod design_text;
mod filter_spec;
mod index_spec;
mod level_paths;
mod named;
mod order_spec;
mod partitioning;
mod policy;
mod policy_text;
mod table_spec;

use std::fmt;
use std::sync::Arc;

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::merge_operator;

use named::named;

pub use compression::Compression;
pub(crate) use filter_spec::{
    CLUSTER_SHARE, FALSE_POSITIVES_MIN, FINGERPRINT_BITS_MAX, FINGERPRINT_BITS_MIN, LOAD_MAX,
};
pub use filter_spec::{Filter, FilterSpec};
pub use index_spec::{Index, IndexSpec};
pub use level_paths::LevelPaths;
pub use order_spec::{KeyOrder, PrefixRule};
pub use partitioning::Partitioning;
pub use policy::{CutSpec, LevelSpec, PolicySpec};
pub use table_spec::TableSpec;

/// The failure that a write must survive when the call returns.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// use hedgerow::{Db, Durability, Layout};
///
/// let db = Db::open(dir.path())?;
/// let orders = db.keyspace("orders", Layout::sorted())?;
/// orders.put("seen", "17")?;
/// // Durable when it returns, and so is every earlier write.
/// orders.put_with("paid", "17", Durability::Synced)?;
/// # Ok::<(), hedgerow::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// Survives the end of the process, not of the machine. After a crash of the machine, the
    /// surviving writes are a prefix of all writes in commit order.
    #[default]
    Buffered,
    /// Survives the end of the machine, together with every earlier commit.
    Synced,
}

/// The meaning of the stored bytes. Fixed when a keyspace is created, except that a merge operator
/// may be added.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// use hedgerow::{Db, ErrorKind, Layout};
///
/// let db = Db::open(dir.path())?;
/// db.keyspace("events", Layout::sorted().hash(8))?;
/// // The layout is fixed: a different one is an error.
/// let error = db.keyspace("events", Layout::sorted()).unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::InvalidArgument);
/// # Ok::<(), hedgerow::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Layout {
    /// The order of the keys.
    pub order: KeyOrder,
    /// The division into trees.
    pub partitioning: Partitioning,
    /// The name of the merge operator, if there is one. A keyspace that has none can still get one,
    /// and then keeps it.
    pub merge_operator: Option<Arc<str>>,
}

impl Layout {
    /// Keys in byte order, in one tree.
    pub fn sorted() -> Layout {
        Layout::default()
    }

    /// Keys in the order of the hashes of their fragments, in one tree.
    pub fn semi_sorted(rule: PrefixRule) -> Layout {
        Layout {
            order: KeyOrder::SemiSorted(rule),
            ..Layout::default()
        }
    }

    /// Keys in the order of their hashes, in one tree.
    pub fn hashed() -> Layout {
        Layout {
            order: KeyOrder::Hashed,
            ..Layout::default()
        }
    }

    /// Divides the keys among `partitions` trees by a hash of the key.
    pub fn hash(mut self, partitions: u16) -> Layout {
        self.partitioning = Partitioning::Hash(partitions);
        self
    }

    /// Divides the keys at these split keys: `n` splits make `n + 1` trees
    /// ([`Partitioning::Range`]).
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// use hedgerow::{Db, Layout};
    ///
    /// let db = Db::open(dir.path())?;
    /// let words = db.keyspace("words", Layout::sorted().range(["h", "q"]))?;
    /// assert_eq!(words.layout().partitioning.count(), 3);
    /// # Ok::<(), hedgerow::Error>(())
    /// ```
    pub fn range<K: AsRef<[u8]>>(mut self, splits: impl IntoIterator<Item = K>) -> Layout {
        self.partitioning = Partitioning::range(splits);
        self
    }

    /// Names the operator that combines the operands of [`Keyspace::merge`] with values: a built-in
    /// one, or one of [`Builder::merge_operator`](crate::Builder::merge_operator).
    ///
    /// Built in are `add_i64` and `add_f64` (numbers of 8 bytes, little-endian), `min` and `max`
    /// (in byte order), `append`, `bit_and`, `bit_or` and `bit_xor` (byte by byte), and `union_u64`
    /// (a set of numbers of 8 bytes, big-endian and ascending).
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// use hedgerow::{Db, Layout};
    ///
    /// let db = Db::open(dir.path())?;
    /// let visits = db.keyspace("visits", Layout::sorted().merge_operator("add_i64"))?;
    /// visits.merge("home", 2_i64.to_le_bytes())?;
    /// visits.merge("home", 3_i64.to_le_bytes())?;
    /// assert_eq!(visits.get("home")?.as_deref(), Some(&5_i64.to_le_bytes()[..]));
    /// # Ok::<(), hedgerow::Error>(())
    /// ```
    ///
    /// [`Keyspace::merge`]: crate::Keyspace::merge
    pub fn merge_operator(mut self, name: impl Into<Arc<str>>) -> Layout {
        self.merge_operator = Some(name.into());
        self
    }

    /// Returns true if a keyspace of this layout may be opened with that one: it does not name
    /// another merge operator.
    pub(crate) fn may_be_opened_as(&self, wanted: &Layout) -> bool {
        let operators = self
            .merge_operator
            .as_ref()
            .zip(wanted.merge_operator.as_ref());
        self.order == wanted.order
            && self.partitioning == wanted.partitioning
            && operators.is_none_or(|(found, wanted)| found == wanted)
    }

    pub(crate) fn check(&self) -> Result<()> {
        self.order.check()?;
        self.partitioning.check()?;
        if let Some(name) = &self.merge_operator {
            merge_operator::check_name(name)?;
        }
        match self.partitioning {
            Partitioning::Range(_) if self.order != KeyOrder::Sorted => {
                Err(Error::invalid(format!(
                    "expected `single` or `hash:N` for keys of the order `{}`, found `{}`: \
                     only `sorted` keys can be divided by range",
                    self.order, self.partitioning
                )))
            }
            _ => Ok(()),
        }
    }
}

/// The place of the indexes and filters of tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Residency {
    /// In memory while they fit their share of the memory budget, otherwise in the page cache.
    #[default]
    Auto,
    /// In memory.
    Resident,
    /// In the page cache, like data.
    Paged,
}

/// The way that a keyspace stores its data. It may change at any time
/// ([`Keyspace::retune`](crate::Keyspace::retune)). Files of an earlier design stay readable until
/// they are merged away.
///
/// The merge policy matters most: it trades the cost of writes for that of reads and of space. The
/// defaults of the other fields serve most keyspaces. A keyspace that tunes itself
/// ([`Keyspace::set_self_tuning`](crate::Keyspace::set_self_tuning)) chooses all of them.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// use hedgerow::{Compression, Db, Design, FilterSpec, Layout};
///
/// let db = Db::open(dir.path())?;
/// let design = Design {
///     compression: Compression::None,
///     filter: FilterSpec::Bloom { bits_per_key: 12.5 },
///     ..Design::default()
/// };
/// let counters = db.keyspace_with("counters", Layout::sorted(), design.clone())?;
/// assert_eq!(counters.design(), design);
/// # Ok::<(), hedgerow::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Design {
    /// The merge policy.
    pub policy: PolicySpec,
    /// The format of tables.
    pub table: TableSpec,
    /// The compression of pages.
    pub compression: Compression,
    /// The index of each block-based table.
    pub index: IndexSpec,
    /// The filter of each table.
    pub filter: FilterSpec,
    /// The place of indexes and filters.
    pub residency: Residency,
    /// The memory of a block of entries or of a bucket: 512 B to 256 KiB, a bucket at most 16 KiB.
    /// Smaller blocks make point reads cheaper and the index larger.
    pub block_bytes: u32,
    /// The size of a table, 4 KiB to 4 GiB; `None` derives it from the memory budget.
    pub table_bytes: Option<u64>,
    /// The total size of all partitions' memtables that starts a flush, 4 KiB to 64 GiB; `None`
    /// derives it from the memory budget.
    pub memtable_bytes: Option<u64>,
}

impl Default for Design {
    fn default() -> Self {
        Design {
            policy: PolicySpec::default(),
            table: TableSpec::default(),
            compression: Compression::default(),
            index: IndexSpec::default(),
            filter: FilterSpec::Monkey { bits_per_key: None },
            residency: Residency::default(),
            block_bytes: 4096,
            table_bytes: None,
            memtable_bytes: None,
        }
    }
}

impl Design {
    /// The filter of a table written into a level: the design's, unless a table of levels names
    /// another one.
    pub fn filter_at(&self, level: usize) -> FilterSpec {
        let named = self.policy.level(level).and_then(|level| level.filter);
        named.unwrap_or(self.filter)
    }

    /// The index of a table written into a level: the design's, unless a table of levels names
    /// another one.
    pub fn index_at(&self, level: usize) -> IndexSpec {
        let named = self.policy.level(level).and_then(|level| level.index);
        named.unwrap_or(self.index)
    }

    /// Checks that the design can serve keys of this order. Three-level indexes need `semi-sorted`
    /// or `hashed` keys. Tries, HTables and clustered filters need `hashed` keys.
    ///
    /// # Errors
    /// `InvalidArgument` if it cannot.
    pub fn check_order(&self, order: KeyOrder) -> Result<()> {
        self.filters().try_for_each(|it| it.check_order(order))?;
        self.policy.check_order(order)?;
        self.table.check_order(order)?;
        self.indexes().try_for_each(|it| it.check_order(order))
    }

    /// The filters that the levels and the design name.
    fn filters(&self) -> impl Iterator<Item = FilterSpec> {
        let levels = self.policy.named_levels().iter();
        levels.filter_map(|level| level.filter).chain([self.filter])
    }

    /// The indexes that the levels and the design name.
    fn indexes(&self) -> impl Iterator<Item = IndexSpec> {
        let levels = self.policy.named_levels().iter();
        levels.filter_map(|level| level.index).chain([self.index])
    }

    pub(crate) fn check(&self) -> Result<()> {
        self.policy.check()?;
        check_range("`block_bytes`", u64::from(self.block_bytes), 512, 256 << 10)?;
        let of_hashes = self.indexes().find(|index| index.is_of_hashes());
        self.table.check(of_hashes, self.block_bytes)?;
        self.filter.check()?;
        if self.compression == Compression::Zstd && !cfg!(feature = "zstd") {
            return Err(Error::new(
                ErrorKind::Unsupported,
                "expected the compression none or lz4, found zstd; build with the feature `zstd`",
            ));
        }
        if let Some(bytes) = self.table_bytes {
            check_range("`table_bytes`", bytes, 4 << 10, 4 << 30)?;
        }
        if let Some(bytes) = self.memtable_bytes {
            check_range("`memtable_bytes`", bytes, 4 << 10, 64 << 30)?;
        }
        Ok(())
    }
}

/// Refuses a number that is out of its bounds; `what` names it.
pub(crate) fn check_range(what: &str, found: u64, min: u64, max: u64) -> Result<()> {
    if (min..=max).contains(&found) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "expected {what} of {min} to {max}, found {found}"
    )))
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.order)?;
        if self.partitioning != Partitioning::Single {
            write!(f, " {}", self.partitioning)?;
        }
        match &self.merge_operator {
            None => Ok(()),
            Some(name) => write!(f, " merge:{name}"),
        }
    }
}

named!(Residency, "a residency", "auto" => Auto, "resident" => Resident, "paged" => Paged);

#[cfg(test)]
mod tests {
    use std::fmt::Display;
    use std::str::FromStr;

    use super::*;

    fn read_back<T: Display + FromStr<Err = Error> + PartialEq>(spec: T) -> bool {
        spec.to_string().parse::<T>().is_ok_and(|read| read == spec)
    }

    #[test]
    fn specs_are_read_as_they_are_printed() {
        let indexes = [
            IndexSpec::Fence,
            IndexSpec::ThreeLevel,
            IndexSpec::ThreeLevelArray,
        ];
        assert!(indexes.into_iter().all(read_back));
        let tables = [TableSpec::BlockBased, TableSpec::HTable];
        assert!(tables.into_iter().all(read_back));
        assert!(
            [Compression::None, Compression::Lz4, Compression::Zstd]
                .into_iter()
                .all(read_back)
        );
        assert!(
            [Residency::Auto, Residency::Resident, Residency::Paged]
                .into_iter()
                .all(read_back)
        );
        assert!(
            [None, Some(4.25)]
                .map(|bits_per_key| FilterSpec::Monkey { bits_per_key })
                .into_iter()
                .chain([
                    FilterSpec::None,
                    FilterSpec::Bloom { bits_per_key: 9.5 },
                    FilterSpec::Cluster { bits_per_key: 16.5 },
                    FilterSpec::Cuckoo {
                        fingerprint_bits: 12
                    },
                ])
                .chain([false, true].map(|unique| FilterSpec::MultiLevelCuckoo {
                    fingerprint_bits: 13,
                    unique,
                }))
                .all(read_back)
        );
    }

    #[test]
    fn an_unknown_spec_is_told_what_was_expected() {
        let error = "zip".parse::<Compression>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "invalid argument: expected a compression, one of none, lz4, zstd; found `zip`"
        );
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    }
}
