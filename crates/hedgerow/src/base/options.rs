//! The options of a keyspace: its layout, fixed when it is created, and its design, which may
//! change at any time. The manifest records both.

mod design_text;
mod level_paths;
mod order_spec;
mod partitioning;
mod policy;

use std::fmt;
use std::str::FromStr;

use crate::base::error::{Error, Result};

pub use level_paths::LevelPaths;
pub use order_spec::{KeyOrder, PrefixRule};
pub use partitioning::Partitioning;
pub use policy::{CutSpec, LevelSpec, PolicySpec};

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

/// The meaning of the stored bytes, fixed when a keyspace is created.
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

    pub(crate) fn check(&self) -> Result<()> {
        self.order.check()?;
        self.partitioning.check()?;
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

/// The compression of the pages of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Compression {
    /// No compression.
    None,
    /// LZ4. A page that would not shrink by an eighth is stored uncompressed.
    #[default]
    Lz4,
}

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

/// The filter that tells which tables to read for a key.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[non_exhaustive]
pub enum FilterSpec {
    /// No filter: a lookup reads every table whose bounds include the key.
    #[default]
    None,
    /// A Bloom filter per table, blocked by cache line.
    Bloom {
        /// Filter bits per key, 1.0 to 32.0; fractions are kept.
        bits_per_key: f32,
    },
    /// A cuckoo filter per table. A key takes `fingerprint_bits / 0.95` bits. One in
    /// `2^fingerprint_bits / 7.6` absent keys passes.
    Cuckoo {
        /// The bits of a fingerprint, 4 to 24.
        fingerprint_bits: u8,
    },
    /// One cuckoo filter for all runs of a level. It tells which of them may hold a key (Ren,
    /// Zheng, Arulraj, Gibson, "SlimDB", 2017, section 3.2). A key takes `(fingerprint_bits +
    /// log2(runs)) / 0.95` bits of a full level. One in `2^fingerprint_bits / 7.6` absent keys
    /// passes, for any number of runs. Levels of one run have a cuckoo filter per table.
    ///
    /// The filter is kept in memory whenever indexes and other filters are. Unless
    /// [`Residency::Resident`], all filters together use at most half of the memory budget:
    /// fingerprints are shortened first, then the oldest runs go without.
    MultiLevelCuckoo {
        /// The bits of a fingerprint, 4 to 24.
        fingerprint_bits: u8,
        /// True if a key takes one slot from the first run on, however often it is written again
        /// (`mlcf:12,unique`). The slot names the newest run of the key and has a bit for all
        /// older runs. If false, a key takes a slot for each of its runs until one of 16 keys is
        /// in several runs; then the filter changes to one slot per key by itself.
        unique: bool,
    },
    /// Clustered Bloom filters, for keys of the order `hashed` (Wu, Xu, Shao, Jiang, "LSM-trie",
    /// 2015, section 3.3). A table has a Bloom filter for each column of its hashes. The filters of
    /// all runs of a group that cover one column share a page, so that a lookup reads one filter
    /// page for any number of runs. Small levels stay in memory as far as they fit. Levels of one
    /// run have a Bloom filter per table.
    Cluster {
        /// Filter bits per key, 1.0 to 32.0; fractions are kept.
        bits_per_key: f32,
    },
    /// A Bloom filter per table, with more bits per key in smaller levels, which minimizes the
    /// reads of absent keys for the memory (Dayan, Athanassoulis, Idreos, "Monkey: optimal
    /// navigable key-value store", 2017). Tables whose bits would gain too little have no filter.
    Monkey {
        /// Filter bits per key, 0.1 to 20.0, averaged over all levels. `None` derives it from the
        /// memory budget: the part of the common share that indexes leave over, as long as a bit
        /// gains more there than in a larger page cache.
        bits_per_key: Option<f32>,
    },
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
        self.check_filters(order)?;
        if matches!(self.policy, PolicySpec::Trie { .. }) && order != KeyOrder::Hashed {
            return Err(Error::invalid(format!(
                "expected keys of the order `hashed` for the policy `{}`, found `{order}`: \
                 each node of the trie is a range of key hashes",
                self.policy
            )));
        }
        if self.table == TableSpec::HTable && order != KeyOrder::Hashed {
            return Err(Error::invalid(format!(
                "expected keys of the order `hashed` for tables of the format `htable`, found `{order}`: \
                 each bucket is a range of key hashes"
            )));
        }
        match self.index_of_hashes() {
            Some(index) if order == KeyOrder::Sorted => Err(Error::invalid(format!(
                "expected the index `fence` for keys of the order `sorted`, found `{index}`: \
                 it finds keys by their hashes, so it needs the order `semi-sorted` or `hashed`"
            ))),
            _ => Ok(()),
        }
    }

    fn check_filters(&self, order: KeyOrder) -> Result<()> {
        let levels = match &self.policy {
            PolicySpec::Levels(levels) => &levels[..],
            _ => &[],
        };
        let named = levels.iter().filter_map(|level| level.filter);
        let is_cluster = |filter: &FilterSpec| matches!(filter, FilterSpec::Cluster { .. });
        match named.chain([self.filter]).find(is_cluster) {
            Some(filter) if order != KeyOrder::Hashed => Err(Error::invalid(format!(
                "expected keys of the order `hashed` for the filter `{filter}`, found `{order}`: \
                 each of its pages covers a range of key hashes"
            ))),
            _ => Ok(()),
        }
    }

    pub(crate) fn check(&self) -> Result<()> {
        self.policy.check()?;
        check_range("`block_bytes`", u64::from(self.block_bytes), 512, 256 << 10)?;
        self.check_buckets()?;
        self.filter.check()?;
        if let Some(bytes) = self.table_bytes {
            check_range("`table_bytes`", bytes, 4 << 10, 4 << 30)?;
        }
        if let Some(bytes) = self.memtable_bytes {
            check_range("`memtable_bytes`", bytes, 4 << 10, 64 << 30)?;
        }
        Ok(())
    }
}

impl Design {
    /// The first index of hashes that the design or one of its levels names.
    fn index_of_hashes(&self) -> Option<IndexSpec> {
        let levels = match &self.policy {
            PolicySpec::Levels(levels) => &levels[..],
            _ => &[],
        };
        let named = levels.iter().filter_map(|level| level.index);
        let mut indexes = named.chain([self.index]);
        indexes.find(|index| *index != IndexSpec::Fence)
    }

    /// Checks the rules that only HTables have.
    fn check_buckets(&self) -> Result<()> {
        if self.table != TableSpec::HTable {
            return Ok(());
        }
        if let Some(index) = self.index_of_hashes() {
            return Err(Error::invalid(format!(
                "expected the index `fence` for tables of the format `htable`, found `{index}`: \
                 an HTable finds its buckets without an index"
            )));
        }
        check_range(
            "`block_bytes` of a bucket",
            self.block_bytes.into(),
            512,
            16 << 10,
        )
    }
}

impl FilterSpec {
    pub(crate) fn check(&self) -> Result<()> {
        let (bits, min, max, otherwise) = match *self {
            FilterSpec::Bloom { bits_per_key } | FilterSpec::Cluster { bits_per_key } => {
                let otherwise =
                    "fewer bits let most absent keys pass, more bits stop hardly any more";
                (bits_per_key, 1.0, 32.0, otherwise)
            }
            FilterSpec::Monkey {
                bits_per_key: Some(bits_per_key),
            } => {
                let otherwise = "with fewer bits hardly any table has a filter, \
                                 with more every level has the most that it can have";
                (bits_per_key, 0.1, 20.0, otherwise)
            }
            FilterSpec::Cuckoo { fingerprint_bits }
            | FilterSpec::MultiLevelCuckoo {
                fingerprint_bits, ..
            } => {
                return check_range("`fingerprint_bits`", fingerprint_bits.into(), 4, 24);
            }
            FilterSpec::None | FilterSpec::Monkey { bits_per_key: None } => return Ok(()),
        };
        if (min..=max).contains(&bits) {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "expected {min} to {max} filter bits per key, found {bits}: {otherwise}"
        )))
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
        match &self.partitioning {
            Partitioning::Single => Ok(()),
            partitioning => write!(f, " {partitioning}"),
        }
    }
}

impl fmt::Display for FilterSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FilterSpec::None => write!(f, "none"),
            FilterSpec::Bloom { bits_per_key } => write!(f, "bloom:{bits_per_key}"),
            FilterSpec::Cuckoo { fingerprint_bits } => write!(f, "cuckoo:{fingerprint_bits}"),
            FilterSpec::MultiLevelCuckoo {
                fingerprint_bits,
                unique,
            } => {
                let unique = if *unique { ",unique" } else { "" };
                write!(f, "mlcf:{fingerprint_bits}{unique}")
            }
            FilterSpec::Cluster { bits_per_key } => write!(f, "cluster:{bits_per_key}"),
            FilterSpec::Monkey { bits_per_key: None } => write!(f, "monkey"),
            FilterSpec::Monkey {
                bits_per_key: Some(bits),
            } => write!(f, "monkey:{bits}"),
        }
    }
}

impl FromStr for FilterSpec {
    type Err = Error;

    /// `none`, `bloom:BITS`, `cuckoo:BITS`, `mlcf:BITS`, `mlcf:BITS,unique`, `cluster:BITS`,
    /// `monkey` or `monkey:BITS`.
    fn from_str(spec: &str) -> Result<Self> {
        let unknown = || {
            Error::invalid(format!(
                "expected a filter such as `bloom:10`, `cuckoo:12`, `mlcf:12`, `cluster:16`, \
                 `monkey:8`, `monkey` or `none`, found `{spec}`"
            ))
        };
        let bits = |bits: &str| bits.parse().map_err(|_| unknown());
        match spec.split_once(':') {
            None if spec == "none" => Ok(FilterSpec::None),
            None if spec == "monkey" => Ok(FilterSpec::Monkey { bits_per_key: None }),
            Some(("bloom", per_key)) => Ok(FilterSpec::Bloom {
                bits_per_key: bits(per_key)?,
            }),
            Some(("cuckoo", bits)) => Ok(FilterSpec::Cuckoo {
                fingerprint_bits: bits.parse().map_err(|_| unknown())?,
            }),
            Some(("mlcf", bits)) => {
                let all = bits.strip_suffix(",unique");
                Ok(FilterSpec::MultiLevelCuckoo {
                    fingerprint_bits: all.unwrap_or(bits).parse().map_err(|_| unknown())?,
                    unique: all.is_some(),
                })
            }
            Some(("cluster", per_key)) => Ok(FilterSpec::Cluster {
                bits_per_key: bits(per_key)?,
            }),
            Some(("monkey", per_key)) => Ok(FilterSpec::Monkey {
                bits_per_key: Some(bits(per_key)?),
            }),
            _ => Err(unknown()),
        }
    }
}

/// `Display` and `FromStr` of an enum of names.
macro_rules! named {
    ($type:ident, $what:literal, $($name:literal => $variant:ident),+) => {
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $($type::$variant => $name),+ })
            }
        }

        impl FromStr for $type {
            type Err = Error;

            #[doc = concat!("One of", $(" `", $name, "`"),+, ".")]
            fn from_str(spec: &str) -> Result<Self> {
                match spec {
                    $($name => Ok($type::$variant),)+
                    _ => Err(Error::invalid(format!(
                        "expected {}, one of {}; found `{spec}`",
                        $what,
                        [$($name),+].join(", "),
                    ))),
                }
            }
        }
    };
}

named!(IndexSpec, "an index", "fence" => Fence, "three-level" => ThreeLevel, "three-level:array" => ThreeLevelArray);
named!(TableSpec, "a table format", "block" => BlockBased, "htable" => HTable);
named!(Compression, "a compression", "none" => None, "lz4" => Lz4);
named!(Residency, "a residency", "auto" => Auto, "resident" => Resident, "paged" => Paged);

#[cfg(test)]
mod tests {
    use std::fmt::Display;

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
            [Compression::None, Compression::Lz4]
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
            "invalid argument: expected a compression, one of none, lz4; found `zip`"
        );
        assert_eq!(error.kind(), crate::base::error::ErrorKind::InvalidArgument);
    }
}
