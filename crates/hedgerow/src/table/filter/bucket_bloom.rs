//! A small Bloom filter for each bucket of a table, in pages. A reader that knows the bucket of a
//! key probes its filter before it reads the bucket. After LSM-trie (Wu et al., 2015). The format
//! is in `docs/format/htable.md`.
//!
//! Every page but the last holds the filters of the same number of buckets. Hashes spread keys
//! evenly over buckets, so little of a page stays empty, and no directory is needed.

use crate::base::entry::KeyHash;
use crate::base::error::{Error, Result};
use crate::base::page::{
    Buffer, DEVICE_PAGE_BYTES, Handle, Page, PageClass, PageId, Step, TRAILER_BYTES, TableId,
};

use super::{assert_bits_per_key, gather, small_bloom};

/// The bytes of a page without its trailer: together they fill one page of the device.
const PAGE_BYTES: usize = DEVICE_PAGE_BYTES as usize - TRAILER_BYTES as usize;
/// The size of one filter's end offset within the filters of its page.
const END_BYTES: usize = 2;

/// The place of the filters of buckets in their table file, and their parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Description {
    /// The bits of a key in its filter.
    pub probes: u8,
    /// The number of pages.
    pub pages: u32,
    /// The buckets of each page but the last, which may have fewer.
    pub buckets_per_page: u16,
    /// The offset of the first page; the others follow it without gaps.
    pub offset: u64,
}

impl Description {
    pub(crate) fn pages(&self) -> usize {
        self.pages as usize
    }

    /// The bytes that the filters take in the file.
    pub fn file_bytes(&self) -> u64 {
        u64::from(self.pages) * DEVICE_PAGE_BYTES
    }

    /// The place of a page in the file.
    pub(crate) fn page_handle(&self, page: usize) -> Handle {
        let distance = (page as u64).saturating_mul(DEVICE_PAGE_BYTES);
        Handle {
            offset: self.offset.saturating_add(distance),
            bytes: DEVICE_PAGE_BYTES as u32,
        }
    }

    /// Checks a description from a file.
    pub(crate) fn check(&self) -> Result<()> {
        let buckets = usize::from(self.buckets_per_page);
        let fits = (1..=PAGE_BYTES / END_BYTES).contains(&buckets);
        if self.pages == 0 || !fits || !small_bloom::are_probes(self.probes) {
            return Err(Error::corruption(format!(
                "expected pages of filters of some buckets, found {self:?}"
            )));
        }
        Ok(())
    }

    /// The filter of a bucket in its page.
    fn filter<'a>(&self, page: &'a [u8], bucket: usize) -> Result<&'a [u8]> {
        let slots = usize::from(self.buckets_per_page);
        let slot = bucket % slots;
        let end = |slot: usize| -> Option<usize> {
            let (ends, _) = page.as_chunks::<END_BYTES>();
            ends.get(slot)
                .map(|end| usize::from(u16::from_le_bytes(*end)))
        };
        let start = slot.checked_sub(1).map_or(Some(0), end);
        let range = start.zip(end(slot)).map(|(start, end)| start..end);
        let filters = page.get(slots * END_BYTES..).unwrap_or_default();
        let filter = range.and_then(|range| filters.get(range));
        filter.ok_or_else(|| {
            Error::corruption(format!(
                "expected a page with the filter of bucket {bucket}, found {} bytes without",
                page.len()
            ))
        })
    }
}

/// The filters of one table's buckets.
#[derive(Debug)]
pub(crate) struct BucketBlooms {
    table: TableId,
    description: Description,
    /// All pages when the filters are resident, none when they are paged.
    pages: Buffer,
}

impl BucketBlooms {
    /// Filters that ask for their pages when a probe needs them.
    pub(crate) fn paged(table: TableId, description: Description) -> BucketBlooms {
        BucketBlooms {
            table,
            description,
            pages: Buffer::allocate(0),
        }
    }

    /// Filters in memory, from all their pages in order.
    pub(crate) fn resident<'a>(
        table: TableId,
        description: Description,
        pages: impl Iterator<Item = Result<&'a [u8]>>,
    ) -> Result<BucketBlooms> {
        let bytes = description.pages as usize * PAGE_BYTES;
        Ok(BucketBlooms {
            table,
            description,
            pages: gather(pages, bytes, 0)?,
        })
    }

    /// Returns whether a bucket may hold a key. `page` is the page that the answer before this one
    /// asked for. Cost: one or two cache lines when resident, one page when paged.
    pub(crate) fn may_hold(
        &self,
        bucket: usize,
        hash: KeyHash,
        page: Option<&Page>,
    ) -> Result<Step<bool>> {
        let number = bucket / usize::from(self.description.buckets_per_page);
        let resident = self.pages.get(number * PAGE_BYTES..);
        let page = match (resident.filter(|page| !page.is_empty()), page) {
            (Some(page), _) => &page[..PAGE_BYTES],
            (None, Some(page)) => &page[..],
            (None, None) if number < self.description.pages as usize => {
                return Ok(Step::Read(PageId {
                    table: self.table,
                    handle: self.description.page_handle(number),
                    class: PageClass::Filter,
                }));
            }
            (None, None) => {
                return Err(Error::corruption(format!(
                    "expected filters of {bucket} buckets and more, found {} pages",
                    self.description.pages
                )));
            }
        };
        let filter = self.description.filter(page, bucket)?;
        let probes = self.description.probes;
        Ok(Step::Done(small_bloom::may_hold(
            filter,
            hash.low(),
            probes,
        )))
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.pages.len()
    }
}

/// Builds the filters, one bucket after another. Memory: the filters, 4 bytes for each, and the
/// hashes of one bucket's keys.
#[derive(Debug)]
pub(crate) struct Builder {
    bits_per_key: f32,
    probes: u8,
    /// The hashes of the keys of the current bucket.
    hashes: Vec<u64>,
    filters: Vec<u8>,
    sizes: Vec<u32>,
}

impl Builder {
    /// `bits_per_key` is 1.0 to 32.0.
    pub(crate) fn new(bits_per_key: f32) -> Builder {
        assert_bits_per_key(bits_per_key);
        Builder {
            bits_per_key,
            probes: small_bloom::probes_for(bits_per_key),
            hashes: Vec::new(),
            filters: Vec::new(),
            sizes: Vec::new(),
        }
    }

    /// Adds a key of the bucket. A key that is added twice wastes space.
    pub(crate) fn add(&mut self, hash: KeyHash) {
        self.hashes.push(hash.low());
    }

    /// Ends the bucket and builds its filter.
    pub(crate) fn finish_bucket(&mut self) {
        // Only a bucket with more keys than fit a page wants more.
        let wanted = small_bloom::bytes_for(self.hashes.len(), self.bits_per_key);
        let bytes = wanted.min(PAGE_BYTES - END_BYTES);
        let start = self.filters.len();
        self.filters.resize(start + bytes, 0);
        for low in self.hashes.drain(..) {
            small_bloom::add(&mut self.filters[start..], low, self.probes);
        }
        self.sizes.push(bytes as u32);
    }

    /// The approximate size in the file if the filters were finished now.
    pub(crate) fn estimated_bytes(&self) -> u64 {
        let bytes = self.filters.len() + self.sizes.len() * END_BYTES;
        (bytes as u64).next_multiple_of(DEVICE_PAGE_BYTES)
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.filters.capacity()
            + self.hashes.capacity() * size_of::<u64>()
            + self.sizes.capacity() * size_of::<u32>()
    }

    /// The most buckets whose filters fit a page, anywhere in the table.
    fn buckets_per_page(&self) -> usize {
        let count = self.sizes.len();
        let bytes = self.filters.len() + count * END_BYTES;
        let fits = |buckets: &usize| {
            let mut pages = self.sizes.chunks(*buckets);
            pages.all(|sizes| {
                let filters = sizes.iter().sum::<u32>() as usize;
                filters + buckets * END_BYTES <= PAGE_BYTES
            })
        };
        let most = (count * PAGE_BYTES / bytes).clamp(1, count);
        (1..=most).rev().find(fits).unwrap_or(1)
    }

    /// Hands the pages, in order, to `write_page`. The first will be stored at `offset`, each of
    /// the others after its predecessor's trailer.
    pub(crate) fn finish(
        self,
        offset: u64,
        mut write_page: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<Description> {
        let slots = self.buckets_per_page();
        let mut filters = &self.filters[..];
        let mut page = Vec::with_capacity(PAGE_BYTES);
        for sizes in self.sizes.chunks(slots) {
            page.clear();
            let mut end = 0;
            for slot in 0..slots {
                end += sizes.get(slot).copied().unwrap_or(0);
                page.extend_from_slice(&(end as u16).to_le_bytes());
            }
            let (here, rest) = filters.split_at(end as usize);
            filters = rest;
            page.extend_from_slice(here);
            page.resize(PAGE_BYTES, 0);
            write_page(&page)?;
        }
        Ok(Description {
            probes: self.probes,
            pages: self.sizes.len().div_ceil(slots) as u32,
            buckets_per_page: slots as u16,
            offset,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::testing::{assert_bytes, documented_bytes};

    fn hash(key: u64) -> KeyHash {
        KeyHash::of(&key.to_le_bytes(), 3)
    }

    /// The filters of one bucket per element of `sizes`, which is its number of keys.
    fn build(sizes: &[u64], bits_per_key: f32) -> (Description, Vec<Vec<u8>>) {
        let mut builder = Builder::new(bits_per_key);
        for (bucket, &keys) in (0_u64..).zip(sizes) {
            for key in 0..keys {
                builder.add(hash(bucket << 20 | key));
            }
            builder.finish_bucket();
        }
        let mut pages = Vec::new();
        let description = builder.finish(8192, |page| {
            pages.push(page.to_vec());
            Ok(())
        });
        (description.unwrap(), pages)
    }

    fn probe(filters: &BucketBlooms, pages: &[Vec<u8>], bucket: usize, hash: KeyHash) -> bool {
        match filters.may_hold(bucket, hash, None).unwrap() {
            Step::Done(answer) => answer,
            Step::Read(id) => {
                let number = (id.handle.offset - 8192) / DEVICE_PAGE_BYTES;
                let bytes = &pages[number as usize];
                let page = Page::filled(bytes.len(), |page| {
                    page.copy_from_slice(bytes);
                    Ok(())
                });
                match filters
                    .may_hold(bucket, hash, Some(&page.unwrap()))
                    .unwrap()
                {
                    Step::Done(answer) => answer,
                    Step::Read(_) => panic!("one page is enough"),
                }
            }
        }
    }

    /// I6 of LSM-trie: the filter of a bucket holds all its keys, in memory and in pages, and few
    /// others.
    #[test]
    fn every_bucket_has_the_filter_of_its_keys() {
        let even: Vec<u64> = (0..3000).map(|i| 33 + i % 4).collect();
        let uneven: Vec<u64> = (0..400).map(|i| i * i % 251).collect();
        for (sizes, bits) in [
            (even, 16.0),
            (uneven, 10.0),
            (vec![5000, 1], 32.0),
            (vec![1], 1.0),
        ] {
            let (description, pages) = build(&sizes, bits);
            description.check().unwrap();
            assert_eq!(description.pages as usize, pages.len());
            let paged = BucketBlooms::paged(TableId(3), description);
            let all = pages.iter().map(|page| Ok(&page[..]));
            let resident = BucketBlooms::resident(TableId(3), description, all).unwrap();
            let mut passed = 0;
            for (bucket, &keys) in sizes.iter().enumerate() {
                for key in 0..keys {
                    let hash = hash((bucket as u64) << 20 | key);
                    assert!(probe(&paged, &pages, bucket, hash));
                    assert!(probe(&resident, &pages, bucket, hash));
                }
                let absent = hash((bucket as u64) << 20 | 1 << 19);
                let answer = probe(&paged, &pages, bucket, absent);
                assert_eq!(answer, probe(&resident, &pages, bucket, absent));
                passed += usize::from(answer);
            }
            assert!(passed <= sizes.len() / 20 || bits < 4.0 || sizes[0] == 5000);
        }
    }

    /// The worked example of `docs/format/htable.md`.
    #[test]
    fn the_documented_filter_is_what_is_built() {
        let mut builder = Builder::new(16.0);
        for key in ["hawthorn", "blackthorn"] {
            builder.add(KeyHash::of(key.as_bytes(), 0));
        }
        builder.finish_bucket();
        let document = include_str!("../../../../../docs/format/htable.md");
        assert_bytes(&builder.filters, &documented_bytes(document, "filter"));
    }

    #[test]
    fn pages_are_nearly_full() {
        let sizes: Vec<u64> = (0..8000).map(|i| 32 + i * i % 5).collect();
        let keys: u64 = sizes.iter().sum();
        let (description, _) = build(&sizes, 16.0);
        let bytes_per_key = description.file_bytes() as f64 / keys as f64;
        assert!(bytes_per_key < 2.15, "{bytes_per_key}");
    }

    #[test]
    fn pages_of_other_bytes_are_corruption_or_an_answer() {
        let (description, pages) = build(&[40; 100], 16.0);
        let filters = BucketBlooms::paged(TableId(3), description);
        for bytes in [0, 1, 50, 500] {
            let page = Page::filled(bytes, |page| {
                page.copy_from_slice(&pages[0][..bytes]);
                Ok(())
            });
            assert!(filters.may_hold(40, hash(1), Some(&page.unwrap())).is_err());
        }
        assert!(filters.may_hold(1_000_000, hash(1), None).is_err());
        let wrong = Description {
            buckets_per_page: 0,
            ..description
        };
        assert!(wrong.check().is_err());
    }
}
