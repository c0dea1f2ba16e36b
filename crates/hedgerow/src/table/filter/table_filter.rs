//! The filter of one table, of any kind: its description in the footer, how it is built and opened.

use crate::base::entry::KeyHash;
use crate::base::error::{Error, Result};
use crate::base::options::FilterSpec;
use crate::base::page::{Handle, Step, TableId};

use super::hash_list::HashList;
use super::{Probe, bloom, bucket_bloom, cuckoo, run_hashes};

/// The place of a filter in its table file, and its parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Description {
    /// A Bloom filter blocked by cache line.
    Bloom(bloom::Description),
    /// A cuckoo filter.
    Cuckoo(cuckoo::Description),
    /// The hashes of all keys: filters over several runs are built from them.
    Hashes(run_hashes::Description),
    /// A Bloom filter for each bucket; the table probes it itself.
    Buckets(bucket_bloom::Description),
}

/// Asks the description of any kind.
macro_rules! each {
    ($description:expr, $it:ident => $has:expr) => {
        match $description {
            Description::Bloom($it) => $has,
            Description::Cuckoo($it) => $has,
            Description::Hashes($it) => $has,
            Description::Buckets($it) => $has,
        }
    };
}

/// The codes of the kinds in a footer.
const BLOOM: u8 = 1;
const CUCKOO: u8 = 2;
const HASHES: u8 = 3;
const BUCKETS: u8 = 4;

/// The fields of a footer that describe a filter.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct FooterFields {
    /// The kind of the filter; 0 if the table has none.
    pub(crate) kind: u8,
    /// The number of probes, or the bits of a fingerprint.
    pub(crate) bits: u8,
    /// The size, in units of the kind.
    pub(crate) units: u32,
    /// The filters of a page, if each bucket has one.
    pub(crate) buckets_per_page: u16,
    /// The offset of the first page.
    pub(crate) offset: u64,
}

impl FooterFields {
    /// The fields of a table's filter.
    pub(crate) fn of(filter: Option<Description>) -> FooterFields {
        let Some(filter) = filter else {
            return FooterFields::default();
        };
        let (kind, bits, units, buckets_per_page) = match filter {
            Description::Bloom(bloom) => (BLOOM, bloom.probes, bloom.lines, 0),
            Description::Cuckoo(cuckoo) => (CUCKOO, cuckoo.fingerprint_bits, cuckoo.buckets, 0),
            Description::Hashes(hashes) => (HASHES, 0, hashes.bytes, 0),
            Description::Buckets(filters) => {
                let per_page = filters.buckets_per_page;
                (BUCKETS, filters.probes, filters.pages, per_page)
            }
        };
        FooterFields {
            kind,
            bits,
            units,
            buckets_per_page,
            offset: filter.offset(),
        }
    }

    /// The checked filter that these fields describe.
    pub(crate) fn filter(self) -> Result<Option<Description>> {
        let FooterFields {
            kind,
            bits,
            units,
            buckets_per_page,
            offset,
        } = self;
        let filter = match kind {
            0 => return Ok(None),
            BLOOM => Description::Bloom(bloom::Description {
                lines: units,
                probes: bits,
                offset,
            }),
            CUCKOO => Description::Cuckoo(cuckoo::Description {
                buckets: units,
                fingerprint_bits: bits,
                offset,
            }),
            HASHES => Description::Hashes(run_hashes::Description {
                bytes: units,
                offset,
            }),
            BUCKETS => Description::Buckets(bucket_bloom::Description {
                probes: bits,
                pages: units,
                buckets_per_page,
                offset,
            }),
            _ => {
                return Err(Error::corruption(format!(
                    "expected a filter of kind 0 to 4, found {kind}"
                )));
            }
        };
        filter.check()?;
        Ok(Some(filter))
    }
}

impl Description {
    /// The offset of the first page; the others follow it without gaps.
    pub fn offset(&self) -> u64 {
        each!(self, it => it.offset)
    }

    /// The bytes that the filter takes in the file.
    pub fn file_bytes(&self) -> u64 {
        each!(self, it => it.file_bytes())
    }

    pub(crate) fn pages(&self) -> usize {
        each!(self, it => it.pages())
    }

    /// The place of a page in the file.
    pub(crate) fn page_handle(&self, page: usize) -> Handle {
        each!(self, it => it.page_handle(page))
    }

    /// Checks a description from a file.
    pub(crate) fn check(&self) -> Result<()> {
        match self {
            Description::Bloom(bloom) => bloom.check(),
            Description::Cuckoo(cuckoo) => cuckoo.check(),
            Description::Hashes(_) => Ok(()),
            Description::Buckets(buckets) => buckets.check(),
        }
    }

    /// Returns true if reads probe it.
    pub(crate) fn is_asked(&self) -> bool {
        !matches!(self, Description::Hashes(_))
    }

    /// A filter that asks for its pages when a probe needs them. Stored hashes are no filter.
    pub(crate) fn paged(self, table: TableId) -> Result<Option<Box<dyn Probe>>> {
        Ok(match self {
            Description::Bloom(bloom) => Some(Box::new(bloom::Bloom::paged(table, bloom)?)),
            Description::Cuckoo(cuckoo) => Some(Box::new(cuckoo::Cuckoo::paged(table, cuckoo)?)),
            Description::Hashes(_) => None,
            Description::Buckets(_) => return Err(of_buckets()),
        })
    }

    /// The filter in memory, from all its pages in order.
    pub(crate) fn resident<'a>(
        self,
        table: TableId,
        pages: impl Iterator<Item = Result<&'a [u8]>>,
    ) -> Result<Box<dyn Probe>> {
        Ok(match self {
            Description::Bloom(bloom) => Box::new(bloom::Bloom::resident(table, bloom, pages)?),
            Description::Cuckoo(cuckoo) => {
                Box::new(cuckoo::Cuckoo::resident(table, cuckoo, pages)?)
            }
            Description::Hashes(hashes) => Box::new(run_hashes::RunHashes::read(hashes, pages)?),
            Description::Buckets(_) => return Err(of_buckets()),
        })
    }
}

/// A filter in memory, with all its pages.
pub(crate) enum LoadedFilter {
    OfTable(Box<dyn Probe>),
    OfBuckets(bucket_bloom::BucketBlooms),
}

impl Description {
    /// The filter in memory, also one for each bucket, from all its pages in order.
    pub(crate) fn load<'a>(
        self,
        table: TableId,
        pages: impl Iterator<Item = Result<&'a [u8]>>,
    ) -> Result<LoadedFilter> {
        Ok(match self {
            Description::Buckets(buckets) => {
                let filters = bucket_bloom::BucketBlooms::resident(table, buckets, pages)?;
                LoadedFilter::OfBuckets(filters)
            }
            _ => LoadedFilter::OfTable(self.resident(table, pages)?),
        })
    }
}

impl LoadedFilter {
    /// Returns true if a block or bucket may hold a key.
    pub(crate) fn may_hold(&self, block: usize, hash: KeyHash) -> Result<bool> {
        Ok(match self {
            LoadedFilter::OfTable(filter) => {
                let candidates = filter.candidates(hash, None)?;
                matches!(candidates, Step::Done(runs) if !runs.is_empty())
            }
            LoadedFilter::OfBuckets(filters) => {
                matches!(filters.may_hold(block, hash, None)?, Step::Done(true))
            }
        })
    }
}

fn of_buckets() -> Error {
    Error::corruption("expected a filter of the whole table, found one for each bucket")
}

/// The kind of filter of a new table.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Spec {
    /// Bits per key, 1.0 to 32.0.
    Bloom(f32),
    /// Bits of a fingerprint, 4 to 24.
    Cuckoo(u8),
    /// No filter of its own: the hashes for a filter over several runs.
    Hashes,
}

impl Spec {
    /// The filter of a table, whose Bloom filter would have `bloom_bits` bits per key, if any.
    pub(crate) fn of(spec: FilterSpec, bloom_bits: Option<f32>) -> Option<Spec> {
        match spec {
            FilterSpec::Cuckoo { fingerprint_bits } => Some(Spec::Cuckoo(fingerprint_bits)),
            _ if spec.is_over_runs() => spec.needs_hashes().then_some(Spec::Hashes),
            _ => bloom_bits.map(Spec::Bloom),
        }
    }
}

/// Collects the hashes of a table's keys: their number decides the size of the filter.
#[derive(Debug)]
pub(crate) struct Builder {
    spec: Spec,
    hashes: HashList,
}

impl Builder {
    pub(crate) fn new(spec: Spec) -> Builder {
        let hashes = HashList::default();
        Builder { spec, hashes }
    }

    /// Adds a key of the table. A key that is added twice wastes space.
    pub(crate) fn add(&mut self, hash: KeyHash) {
        self.hashes.add(hash);
    }

    /// The bytes that the filter would take if it were built now.
    pub(crate) fn estimated_bytes(&self) -> u64 {
        let keys = self.hashes.len();
        match self.spec {
            Spec::Bloom(bits) => bloom::bytes_for(keys, bits),
            Spec::Cuckoo(bits) => cuckoo::bytes_for(keys, bits),
            Spec::Hashes => run_hashes::bytes_for(keys),
        }
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.hashes.memory_bytes()
    }

    /// Builds the filter and hands its pages, in order, to `write_page`. The first page will be
    /// stored at `offset`, each of the others after its predecessor's trailer.
    pub(crate) fn finish(
        self,
        offset: u64,
        write: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<Description> {
        let hashes = &self.hashes;
        Ok(match self.spec {
            Spec::Bloom(bits) => Description::Bloom(bloom::build(hashes, bits, offset, write)?),
            Spec::Cuckoo(bits) => Description::Cuckoo(cuckoo::build(hashes, bits, offset, write)?),
            Spec::Hashes => Description::Hashes(run_hashes::build(hashes, offset, write)?),
        })
    }
}
