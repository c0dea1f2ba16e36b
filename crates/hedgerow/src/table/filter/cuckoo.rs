//! A cuckoo filter of one table ([`buckets`](super::buckets)). Below about 0.4 % of false positives
//! it takes less memory than a Bloom filter. A probe costs two cache lines. A paged filter reads
//! one page if the first bucket holds the key, else nearly always a second one. The format is in
//! `docs/format/cuckoo.md`.
//!
//! With `f` bits of fingerprint, `8 * 0.95 / 2^f` of the absent keys pass, and a key takes
//! `f / 0.95` bits.

use crate::base::entry::KeyHash;
use crate::base::error::{Error, Result};
use crate::base::options::{FINGERPRINT_BITS_MAX, FINGERPRINT_BITS_MIN};
use crate::base::page::{Buffer, Handle, Page, PageClass, PageId, Step, TRAILER_BYTES, TableId};

use super::bucket_word::Word;
use super::buckets::{
    BucketGeometry, CuckooBuilder, InsertResult, PADDING_BYTES, bytes_of, hash_of,
};
use super::hash_list::HashList;
use super::{Probe, RunMask, gather};

/// The most bytes of a page: with the bytes that accompany it, a page fits 4 KiB on the device and
/// in memory.
const PAGE_BYTES_MAX: u32 = 3968;

/// The place of a filter in its table file, and its parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Description {
    /// The buckets of four slots.
    pub buckets: u32,
    /// The bits of a slot: 4 to 24.
    pub fingerprint_bits: u8,
    /// The offset of the first page; the others follow it without gaps.
    pub offset: u64,
}

impl Description {
    /// Buckets of a page: an even number, so that each page begins with a whole byte.
    fn page_buckets(&self) -> u32 {
        (2 * PAGE_BYTES_MAX / u32::from(self.fingerprint_bits).max(1)) & !1
    }

    pub(crate) fn pages(&self) -> usize {
        self.buckets.div_ceil(self.page_buckets()) as usize
    }

    /// The bytes of `buckets` buckets.
    fn bytes_of(&self, buckets: u32) -> u64 {
        bytes_of(buckets, u32::from(self.fingerprint_bits))
    }

    /// The bytes that the filter takes in the file.
    pub fn file_bytes(&self) -> u64 {
        self.bytes_of(self.buckets) + self.pages() as u64 * u64::from(TRAILER_BYTES)
    }

    /// The place of a page in the file.
    pub(crate) fn page_handle(&self, page: usize) -> Handle {
        let stored = self.bytes_of(self.page_buckets()) + u64::from(TRAILER_BYTES);
        let before = (page as u32).saturating_mul(self.page_buckets());
        let buckets = self.buckets.saturating_sub(before).min(self.page_buckets());
        Handle {
            offset: self.offset.saturating_add(page as u64 * stored),
            bytes: self.bytes_of(buckets) as u32 + TRAILER_BYTES,
        }
    }

    /// Checks a description from a file.
    pub(crate) fn check(&self) -> Result<()> {
        self.geometry().map(drop)
    }

    fn geometry(&self) -> Result<BucketGeometry> {
        BucketGeometry::new(self.buckets, self.fingerprint_bits, 0)
    }
}

/// The filter of one table.
#[derive(Debug)]
pub(crate) struct Cuckoo {
    table: TableId,
    description: Description,
    geometry: BucketGeometry,
    /// All buckets when the filter is resident, then padding; nothing when it is paged.
    buckets: Buffer,
}

impl Cuckoo {
    /// A filter that asks for its pages when a probe needs them.
    pub(crate) fn paged(table: TableId, description: Description) -> Result<Cuckoo> {
        Ok(Cuckoo {
            table,
            description,
            geometry: description.geometry()?,
            buckets: Buffer::allocate(0),
        })
    }

    /// A filter in memory, from all its pages in order.
    pub(crate) fn resident<'a>(
        table: TableId,
        description: Description,
        pages: impl Iterator<Item = Result<&'a [u8]>>,
    ) -> Result<Cuckoo> {
        let geometry = description.geometry()?;
        let buckets = gather(pages, geometry.bytes() as usize, PADDING_BYTES)?;
        Ok(Cuckoo {
            table,
            description,
            geometry,
            buckets,
        })
    }

    /// Returns true if a key's fingerprint is in the bucket `index` of these bytes.
    fn holds(&self, bytes: &[u8], index: u32, fingerprint: u32) -> bool {
        if self.geometry.is_narrow() {
            self.holds_as::<u64>(bytes, index, fingerprint)
        } else {
            self.holds_as::<u128>(bytes, index, fingerprint)
        }
    }

    fn holds_as<W: Word>(&self, bytes: &[u8], index: u32, fingerprint: u32) -> bool {
        let bucket: W = self.geometry.bucket(bytes, index);
        self.geometry.with_fingerprint(bucket, fingerprint) != W::from(0)
    }

    fn holds_in_page(&self, page: &Page, index: u32, fingerprint: u32) -> Result<bool> {
        let within = index % self.description.page_buckets();
        if self.description.bytes_of(within + 1) > page.len() as u64 {
            return Err(Error::corruption(format!(
                "expected bucket {within} in a page of a filter, found a page of {} bytes",
                page.len()
            )));
        }
        Ok(self.holds(page, within, fingerprint))
    }

    fn page_of(&self, index: u32) -> PageId {
        let page = index / self.description.page_buckets();
        PageId {
            table: self.table,
            handle: self.description.page_handle(page as usize),
            class: PageClass::Filter,
        }
    }
}

impl Probe for Cuckoo {
    fn candidates(&self, hash: KeyHash, page: Option<&Page>) -> Result<Step<RunMask>> {
        let place = self.geometry.place(hash_of(hash.low()));
        let [first, second] = place.buckets;
        let mut found = false;
        if !self.buckets.is_empty() {
            // Looks at both, whatever the first one says: their cache lines are fetched together.
            found = self.holds(&self.buckets, first, place.fingerprint)
                | self.holds(&self.buckets, second, place.fingerprint);
        } else {
            let ids = place.buckets.map(|index| self.page_of(index));
            let Some(page) = page else {
                return Ok(Step::Read(ids[0]));
            };
            for (index, id) in place.buckets.into_iter().zip(ids) {
                found |= page.is(id) && self.holds_in_page(page, index, place.fingerprint)?;
            }
            if !found && !page.is(ids[1]) {
                return Ok(Step::Read(ids[1]));
            }
        }
        Ok(Step::Done(if found { RunMask(1) } else { RunMask::NONE }))
    }

    fn touch(&self, hash: KeyHash) {
        let place = self.geometry.place(hash_of(hash.low()));
        self.geometry.prefetch(&self.buckets, place);
    }

    fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.buckets.len()
    }
}

/// The bytes of a filter for this many keys.
pub(super) fn bytes_for(keys: usize, fingerprint_bits: u8) -> u64 {
    bytes_of(buckets_for(keys), u32::from(fingerprint_bits))
}

fn buckets_for(keys: usize) -> u32 {
    // Saturates; no table has that many keys (over 10^10).
    BucketGeometry::buckets_for(keys as u64).min(u64::from(u32::MAX)) as u32
}

/// Builds the filter of these keys, with fingerprints of 4 to 24 bits, and hands its pages, in
/// order, to `write_page`. The first page will be stored at `offset`, each of the others after its
/// predecessor's trailer.
pub(super) fn build(
    hashes: &HashList,
    fingerprint_bits: u8,
    offset: u64,
    mut write_page: impl FnMut(&[u8]) -> Result<()>,
) -> Result<Description> {
    assert!(
        (FINGERPRINT_BITS_MIN..=FINGERPRINT_BITS_MAX).contains(&fingerprint_bits),
        "fingerprints of 4 to 24 bits, not {fingerprint_bits}"
    );
    let mut description = Description {
        buckets: buckets_for(hashes.len()),
        fingerprint_bits,
        offset,
    };
    loop {
        let geometry = description.geometry()?;
        let mut buckets = Buffer::allocate(geometry.bytes() as usize + PADDING_BYTES);
        let fits = if geometry.is_narrow() {
            fill::<u64>(hashes, geometry, &mut buckets)
        } else {
            fill::<u128>(hashes, geometry, &mut buckets)
        };
        if fits {
            let page_bytes = description.bytes_of(description.page_buckets()) as usize;
            buckets[..geometry.bytes() as usize]
                .chunks(page_bytes)
                .try_for_each(&mut write_page)?;
            return Ok(description);
        }
        // Rare, and nearly only in filters of a few keys.
        description.buckets += description.buckets / 64 + 1;
    }
}

/// Returns true if all keys found room.
fn fill<W: Word>(hashes: &HashList, geometry: BucketGeometry, buckets: &mut [u8]) -> bool {
    let mut filling = CuckooBuilder::<W>::new(geometry, buckets);
    hashes.iter().all(|low| {
        let place = geometry.place(hash_of(low));
        filling.insert(place, 0) != InsertResult::Full
    })
}

#[cfg(test)]
mod tests;
