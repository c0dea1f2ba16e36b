//! Filters by name: the options, their text, their bounds, and what decisions ask of them.
//! `crate::table::filter::table_filter` and `crate::group_filter` build and open them.

use std::f64::consts::LN_2;
use std::fmt;
use std::str::FromStr;

use super::{KeyOrder, check_range};
use crate::base::error::{Error, Result};

pub(crate) const FINGERPRINT_BITS_MIN: u8 = 4;
pub(crate) const FINGERPRINT_BITS_MAX: u8 = 24;
/// The share of used slots of a cuckoo filter up to which an insertion finds room easily. At 0.976,
/// four slots stop working at all.
pub(crate) const LOAD_MAX: f64 = 0.95;
/// The bits per key of a Bloom filter for each factor `1/e` in its false positives.
const BLOOM_SLOPE: f64 = 1.0 / (LN_2 * LN_2);
/// The fewest and the most bits per key of a Bloom filter.
const BLOOM_BITS: (f64, f64) = (1.0, 32.0);
/// No filter is made better than this false-positive rate, whatever a read costs.
pub(crate) const FALSE_POSITIVES_MIN: f64 = 1e-4;
/// The part of a cluster that waits in memory to be merged into the rest.
pub(crate) const CLUSTER_SHARE: f64 = 0.1;
/// The number of times that a growing cluster is written.
const CLUSTER_WRITES: f64 = 5.0;

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
    /// [`Residency::Resident`](crate::Residency::Resident), all filters together use at most half
    /// of the memory budget: fingerprints are shortened first, then the oldest runs go without.
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

impl FilterSpec {
    /// The filter of a level of at most `runs` runs. Over a single run, a filter over several runs
    /// is a filter per table.
    pub(crate) fn for_runs(self, runs: u32) -> FilterSpec {
        match self {
            _ if runs > 1 => self,
            FilterSpec::MultiLevelCuckoo {
                fingerprint_bits, ..
            } => FilterSpec::Cuckoo { fingerprint_bits },
            FilterSpec::Cluster { bits_per_key } => FilterSpec::Bloom { bits_per_key },
            own => own,
        }
    }

    /// Returns true if one filter answers for several runs.
    pub(crate) fn is_over_runs(self) -> bool {
        matches!(
            self,
            FilterSpec::MultiLevelCuckoo { .. } | FilterSpec::Cluster { .. }
        )
    }

    /// Returns true if a filter over several runs is built from hashes that the tables keep.
    pub(crate) fn needs_hashes(self) -> bool {
        matches!(self, FilterSpec::MultiLevelCuckoo { .. })
    }

    /// Returns true if the bits of a level's filters follow from the sizes of all levels.
    pub(crate) fn divides_bits(self) -> bool {
        matches!(self, FilterSpec::Monkey { .. })
    }

    /// The bits that a key takes, on average over the levels, where a level has `runs` runs. `None`
    /// if the memory budget says it.
    pub(crate) fn bits_per_key(self, runs: u32) -> Option<f64> {
        match self {
            FilterSpec::None => Some(0.0),
            FilterSpec::Bloom { bits_per_key } | FilterSpec::Cluster { bits_per_key } => {
                Some(bits_per_key.into())
            }
            FilterSpec::Cuckoo { fingerprint_bits } => Some(slot_bits(fingerprint_bits, 1)),
            FilterSpec::MultiLevelCuckoo {
                fingerprint_bits, ..
            } => Some(slot_bits(fingerprint_bits, runs)),
            FilterSpec::Monkey { bits_per_key } => bits_per_key.map(f64::from),
        }
    }

    /// The part of these bits that files beside the tables have.
    pub(crate) fn bits_beside_tables(self) -> f64 {
        match self {
            FilterSpec::Cluster { bits_per_key } => bits_per_key.into(),
            _ => 0.0,
        }
    }

    /// The filter as the advisor prices it, and its rate of false positives, with this many bits
    /// per key.
    pub(crate) fn model(self, bits_per_key: f64) -> (Filter, f64) {
        let bloom_rate = (-bits_per_key / BLOOM_SLOPE).exp().max(FALSE_POSITIVES_MIN);
        match self {
            FilterSpec::Cuckoo { fingerprint_bits } => {
                (Filter::Cuckoo, cuckoo_rate(fingerprint_bits))
            }
            FilterSpec::MultiLevelCuckoo {
                fingerprint_bits, ..
            } => (Filter::MultiLevelCuckoo, cuckoo_rate(fingerprint_bits)),
            _ if bits_per_key == 0.0 => (Filter::None, 1.0),
            FilterSpec::Cluster { .. } => (Filter::Cluster, bloom_rate),
            FilterSpec::None | FilterSpec::Bloom { .. } | FilterSpec::Monkey { .. } => {
                (Filter::Bloom, bloom_rate)
            }
        }
    }

    pub(super) fn check_order(self, order: KeyOrder) -> Result<()> {
        match self {
            FilterSpec::Cluster { .. } if order != KeyOrder::Hashed => {
                Err(Error::invalid(format!(
                    "expected keys of the order `hashed` for the filter `{self}`, found `{order}`: \
                 each of its pages covers a range of key hashes"
                )))
            }
            _ => Ok(()),
        }
    }

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
                let (min, max) = (FINGERPRINT_BITS_MIN, FINGERPRINT_BITS_MAX);
                return check_range(
                    "`fingerprint_bits`",
                    fingerprint_bits.into(),
                    min.into(),
                    max.into(),
                );
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

/// The bits of a key in a cuckoo filter that names one of `runs` runs.
fn slot_bits(fingerprint_bits: u8, runs: u32) -> f64 {
    let run_bits = runs.next_power_of_two().ilog2() as u8;
    f64::from(fingerprint_bits + run_bits) / LOAD_MAX
}

/// The part of absent keys that pass a cuckoo filter.
fn cuckoo_rate(fingerprint_bits: u8) -> f64 {
    8.0 * LOAD_MAX / f64::from(fingerprint_bits).exp2()
}

/// The filter of a level, which tells which runs to read for a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Filter {
    /// No filter: all runs are read.
    None,
    /// A Bloom filter per run.
    Bloom,
    /// Bloom filters of all runs side by side, in pages outside the memory: one read serves all
    /// runs [LSM-trie, section 3.3].
    Cluster,
    /// Clustered filters with less memory: those of the newest runs are a second page instead of in
    /// memory.
    PagedCluster,
    /// A cuckoo filter per run.
    Cuckoo,
    /// One multi-level cuckoo filter for all runs of the level [SlimDB, section 3.2].
    MultiLevelCuckoo,
}

impl Filter {
    /// The filters that the advisor tries for all keys.
    pub(crate) const OF_ALL_ORDERS: [Filter; 2] = [Filter::None, Filter::Bloom];

    /// The filter whose probe answers for all runs.
    pub(crate) const OVER_RUNS: Filter = Filter::MultiLevelCuckoo;

    /// The filters that the advisor tries only for keys of this order.
    pub(crate) fn of_order(order: KeyOrder) -> &'static [Filter] {
        match order {
            KeyOrder::Sorted => &[],
            _ => &[Filter::Cuckoo, Filter::MultiLevelCuckoo],
        }
    }

    /// The option for a level with this rate of false positives. A Bloom filter of less than half
    /// of the fewest bits is none.
    pub(crate) fn spec(self, false_positives: f64) -> FilterSpec {
        let bloom_bits = -BLOOM_SLOPE * false_positives.ln();
        let rounded = (bloom_bits * 10.0).round() / 10.0;
        let bits_per_key = rounded.clamp(BLOOM_BITS.0, BLOOM_BITS.1) as f32;
        let fingerprint_bits = (8.0 * LOAD_MAX / false_positives).log2().round() as u8;
        let fingerprint_bits = fingerprint_bits.clamp(FINGERPRINT_BITS_MIN, FINGERPRINT_BITS_MAX);
        match self {
            Filter::Bloom if bloom_bits >= BLOOM_BITS.0 / 2.0 => FilterSpec::Bloom { bits_per_key },
            Filter::None | Filter::Bloom => FilterSpec::None,
            Filter::Cluster | Filter::PagedCluster => FilterSpec::Cluster { bits_per_key },
            Filter::Cuckoo => FilterSpec::Cuckoo { fingerprint_bits },
            Filter::MultiLevelCuckoo => FilterSpec::MultiLevelCuckoo {
                fingerprint_bits,
                unique: false,
            },
        }
    }

    /// The filter where the memory has room for all of it, for its newest part, or for neither.
    pub(crate) fn in_memory(self, all: bool, newest: bool) -> Filter {
        match self {
            Filter::Cluster if all => Filter::Bloom,
            Filter::Cluster if !newest => Filter::PagedCluster,
            other => other,
        }
    }

    /// The bits of memory per entry, as `slope * ln(1/p) + offset`, for a level of `runs` runs.
    pub(crate) fn bits(self, runs: u32) -> (f64, f64) {
        match self {
            Filter::None | Filter::PagedCluster => (0.0, 0.0),
            Filter::Bloom => (BLOOM_SLOPE, 0.0),
            Filter::Cluster => (CLUSTER_SHARE * BLOOM_SLOPE, 0.0),
            Filter::Cuckoo => Filter::MultiLevelCuckoo.bits(1),
            Filter::MultiLevelCuckoo => {
                let run_bits = f64::from(runs.max(1)).log2().ceil();
                (1.0 / (LOAD_MAX * LN_2), (3.0 + run_bits) / LOAD_MAX)
            }
        }
    }

    /// Returns true if all runs are read.
    pub(crate) fn is_none(self) -> bool {
        self == Filter::None
    }

    /// Returns true if one probe answers for all runs.
    pub(crate) fn is_over_runs(self) -> bool {
        self == Filter::OVER_RUNS
    }

    /// The time of a probe: `bloom` or `cuckoo`, as measured.
    pub(crate) fn probe_us(self, bloom: f64, cuckoo: f64) -> f64 {
        match self {
            Filter::None => 0.0,
            Filter::Bloom | Filter::Cluster | Filter::PagedCluster => bloom,
            Filter::Cuckoo | Filter::MultiLevelCuckoo => cuckoo,
        }
    }

    /// The time to insert a key beside writing its table: `cuckoo` is that of a cuckoo filter, as
    /// measured.
    pub(crate) fn insert_us(self, cuckoo: f64) -> f64 {
        match self {
            Filter::Cuckoo | Filter::MultiLevelCuckoo => cuckoo,
            _ => 0.0,
        }
    }

    /// The bytes of filters in files of their own that are written for each entry.
    pub(crate) fn written_bytes(self, false_positives: f64) -> f64 {
        match self {
            Filter::Cluster | Filter::PagedCluster => {
                CLUSTER_WRITES * -false_positives.ln() * BLOOM_SLOPE / 8.0
            }
            _ => 0.0,
        }
    }

    /// The pages of filters that are read for a key.
    pub(crate) fn pages(self) -> f64 {
        match self {
            Filter::Cluster => 1.0,
            Filter::PagedCluster => 2.0,
            _ => 0.0,
        }
    }

    /// The letter of the filter in a printed tree.
    pub(crate) fn letter(self) -> &'static str {
        match self {
            Filter::None => "",
            Filter::Bloom => "B",
            Filter::Cluster | Filter::PagedCluster => "P",
            Filter::Cuckoo => "C",
            Filter::MultiLevelCuckoo => "M",
        }
    }
}
