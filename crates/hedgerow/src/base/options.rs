//! What can be chosen: the layout of a keyspace, fixed when it is created, and its design, which may
//! change at any time. Both are recorded in the manifest.

mod design_text;
mod key_order;
mod level_paths;
mod partitioning;
mod policy;

use std::fmt;
use std::str::FromStr;

use crate::base::error::{Error, Result};

pub use key_order::{KeyOrder, PrefixRule};
pub use level_paths::LevelPaths;
pub use partitioning::Partitioning;
pub use policy::{CutSpec, LevelSpec, PolicySpec};

/// How much of a write must be safe when the call returns.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// use hedgerow::{Db, Durability, Layout};
///
/// let db = Db::open(dir.path())?;
/// let orders = db.keyspace("orders", Layout::sorted())?;
/// orders.put("seen", "17")?;
/// // Durable when it returns, and so is what was put before it.
/// orders.put_with("paid", "17", Durability::Synced)?;
/// # Ok::<(), hedgerow::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// Survives the end of the process, not of the machine. What a crash of the machine keeps is a
    /// prefix of all writes in the order in which they were committed.
    #[default]
    Buffered,
    /// Survives the end of the machine, and so does everything committed before it.
    Synced,
}

/// What the stored bytes mean: fixed when a keyspace is created.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// use hedgerow::{Db, ErrorKind, Layout};
///
/// let db = Db::open(dir.path())?;
/// db.keyspace("events", Layout::sorted().hash(8))?;
/// // It is fixed: asking for another one is an error.
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
    /// Keys in the order of their bytes, in one tree.
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

    /// Divided into `partitions` trees by a hash of the key.
    pub fn hash(mut self, partitions: u16) -> Layout {
        self.partitioning = Partitioning::Hash(partitions);
        self
    }

    /// Divided at these keys into one tree more than there are of them ([`Partitioning::Range`]).
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
                    "expected one tree or a hash for keys of the order {}, found `{}`, which only sorted keys can have",
                    self.order, self.partitioning
                )))
            }
            _ => Ok(()),
        }
    }
}

/// How the pages of a table are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Compression {
    /// Not at all.
    None,
    /// LZ4; a page that would not shrink by an eighth is stored as it is.
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
    /// Buckets of `block_bytes`, which are found by the hash of a key and a byte or so in memory for
    /// each, with a Bloom filter of its own (Wu et al., "LSM-trie: an LSM-tree-based ultra-large
    /// key-value store for small data items", 2015). For keys of the order hashed. Buckets are not
    /// compressed, and have no other index.
    HTable,
}

/// Which blocks are read for a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum IndexSpec {
    /// The shortest key that separates each block from the next: 6 to 12 bytes per block.
    #[default]
    Fence,
    /// The entropy-coded three-level index, below two bytes per block (Ren et al., "SlimDB: a
    /// space-efficient key-value storage engine for semi-sorted data", 2017). For keys in the order of
    /// hashes. Blocks have one size and are not compressed.
    ThreeLevel,
    /// The same with parts of keys in place of the third level's tries: a little larger, and faster where
    /// many keys have the same prefix.
    ThreeLevelArray,
}

/// Which tables are read for a key.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[non_exhaustive]
pub enum FilterSpec {
    /// All that might hold it by their bounds.
    #[default]
    None,
    /// A Bloom filter per table, blocked by cache line.
    Bloom {
        /// Filter bits per key, 1.0 to 32.0; fractions are kept.
        bits_per_key: f32,
    },
    /// A cuckoo filter per table: a key takes `fingerprint_bits / 0.95` bits, and one in
    /// `2^fingerprint_bits / 7.6` absent keys passes.
    Cuckoo {
        /// The bits of a fingerprint, 4 to 24.
        fingerprint_bits: u8,
    },
    /// A cuckoo filter for all runs of a level together, which says which of them may hold a key: a
    /// key takes `(fingerprint_bits + log2(runs)) / 0.95` bits of a full level, and one in
    /// `2^fingerprint_bits / 7.6` absent keys passes, however many runs there are (Ren, Zheng,
    /// Arulraj, Gibson, "SlimDB", 2017, section 3.2). Levels of one run have a cuckoo filter per
    /// table. It is in memory wherever indexes and other filters are; unless they are resident, filters take half
    /// of the budget at most, with shorter fingerprints where that is little, and with none for the oldest runs where
    /// it is too little for those.
    MultiLevelCuckoo {
        /// The bits of a fingerprint, 4 to 24.
        fingerprint_bits: u8,
        /// True if a key takes one slot from the first run on, however often it is written again
        /// (`mlcf:12,unique`). The slot names the newest run of the key and has a bit for all
        /// older runs. If false, a key takes a slot for each of its runs until one of 16 keys is
        /// in several runs; then the filter changes to one slot per key by itself.
        unique: bool,
    },
    /// For keys of the order `hashed`: a Bloom filter for each column of a table's hashes, and in levels of several runs
    /// those of all runs of a group beside one another, so that what does not fit the memory is one
    /// page read for all of them (Wu, Xu, Shao, Jiang, "LSM-trie", 2015, section 3.3). Small levels are kept in memory as far as they fit.
    /// Levels of one run have a Bloom filter per table.
    Cluster {
        /// Filter bits per key, 1.0 to 32.0; fractions are kept.
        bits_per_key: f32,
    },
    /// A Bloom filter per table, with more bits per key in smaller levels, so that reads of absent
    /// keys are fewest for the memory (Dayan, Athanassoulis, Idreos, "Monkey: optimal navigable
    /// key-value store", 2017). Where bits gain too little, tables have no filter.
    Monkey {
        /// Filter bits per key, 0.1 to 20.0, on average over all levels; `None` leaves it to the
        /// memory budget: what the indexes leave of their common share, as far as it gains more
        /// than a larger page cache would.
        bits_per_key: Option<f32>,
    },
}

/// Where the indexes and filters of tables are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Residency {
    /// In memory while they fit their share of the memory budget, else in the page cache.
    #[default]
    Auto,
    /// In memory.
    Resident,
    /// In the page cache, like data.
    Paged,
}

/// How a keyspace stores what it is given: may change at any time
/// ([`Keyspace::retune`](crate::Keyspace::retune)); files of an earlier design stay readable until
/// they are merged away.
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
    /// Where indexes and filters live.
    pub residency: Residency,
    /// What a block of entries, or a bucket, takes in memory, 512 B to 256 KiB, a bucket to 16 KiB. Smaller blocks make
    /// point reads cheaper and the index larger.
    pub block_bytes: u32,
    /// The size of a table, 4 KiB to 4 GiB; `None` derives it from the memory budget.
    pub table_bytes: Option<u64>,
    /// The size at which the memtables of all partitions together are flushed, 4 KiB to 64 GiB;
    /// `None` derives it from the memory budget.
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
    /// another.
    pub fn filter_at(&self, level: usize) -> FilterSpec {
        let named = self.policy.level(level).and_then(|level| level.filter);
        named.unwrap_or(self.filter)
    }

    /// The index of a table written into a level: the design's, unless a table of levels names
    /// another.
    pub fn index_at(&self, level: usize) -> IndexSpec {
        let named = self.policy.level(level).and_then(|level| level.index);
        named.unwrap_or(self.index)
    }

    /// Refuses an index of hashes for keys that are not in the order of theirs, and a trie, HTables or clusters of
    /// filters for keys that are not in the order of their own hashes.
    ///
    /// # Errors
    /// `InvalidArgument`.
    pub fn check_order(&self, order: KeyOrder) -> Result<()> {
        self.check_filters(order)?;
        if matches!(self.policy, PolicySpec::Trie { .. }) && order != KeyOrder::Hashed {
            return Err(Error::invalid(format!(
                "expected keys of the order hashed for the policy {}, found {order}: \
                 its nodes are ranges of hashes of keys",
                self.policy
            )));
        }
        if self.table == TableSpec::HTable && order != KeyOrder::Hashed {
            return Err(Error::invalid(format!(
                "expected keys of the order hashed for tables of the format htable, found {order}: \
                 their buckets are ranges of hashes of keys"
            )));
        }
        match self.index_of_hashes() {
            Some(index) if order == KeyOrder::Sorted => Err(Error::invalid(format!(
                "expected the index fence for keys of the order sorted, found {index}: \
                 it finds keys by their hashes, so it is for the orders semi-sorted and hashed"
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
                "expected keys of the order hashed for the filter {filter}, found {order}: \
                 its pages are ranges of hashes of keys"
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
    /// An index other than fence pointers, of the design or of one of its levels.
    fn index_of_hashes(&self) -> Option<IndexSpec> {
        let levels = match &self.policy {
            PolicySpec::Levels(levels) => &levels[..],
            _ => &[],
        };
        let named = levels.iter().filter_map(|level| level.index);
        let mut indexes = named.chain([self.index]);
        indexes.find(|index| *index != IndexSpec::Fence)
    }

    /// What only holds of HTables.
    fn check_buckets(&self) -> Result<()> {
        if self.table != TableSpec::HTable {
            return Ok(());
        }
        if let Some(index) = self.index_of_hashes() {
            return Err(Error::invalid(format!(
                "expected the index fence with tables of the format htable, found {index}: \
                 HTables find their buckets without an index"
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
                let otherwise = "fewer let most keys pass, more hardly fewer";
                (bits_per_key, 1.0, 32.0, otherwise)
            }
            FilterSpec::Monkey {
                bits_per_key: Some(bits_per_key),
            } => {
                let otherwise = "with fewer hardly any table has a filter, with more all levels have the most there are";
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

    /// `none`, `bloom:BITS`, `cuckoo:BITS`, `mlcf:BITS`, `mlcf:BITS,unique`, `cluster:BITS`, `monkey` or `monkey:BITS`.
    fn from_str(spec: &str) -> Result<Self> {
        let unknown = || {
            Error::invalid(format!(
                "expected a filter such as `bloom:10`, `cuckoo:12`, `mlcf:12`, `cluster:16`, `monkey:8`, `monkey` or `none`, found `{spec}`"
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

/// Display and `FromStr` of a choice among names.
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
