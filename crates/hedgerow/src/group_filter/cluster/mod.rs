//! Clustered Bloom filters: one page holds the filters of all runs of a group for a range of
//! hashes. One read then answers for all of them (Wu et al., "LSM-trie", 2015, section 3.3). The
//! format is in `docs/format/cluster.md`, and the reasons are in `docs/design/0015-clusters.md`.
//!
//! The first bits of a key's order key assign it to a *column*. In the order `hashed`, columns
//! follow the order of the table, so a table's filters are built while it is written. Each column
//! has a Bloom filter, exactly as large as its keys need. A *stripe* is all filters of one table. A
//! cluster consists of the stripes of some tables. Each of its pages holds, for one interval of
//! positions, the part of every stripe there.
//!
//! The width of columns is a power of two and follows from the table's density, so tables of any
//! size share one cluster. A filter of a wide column that reaches over the end of a page is in both
//! pages.
//!
//! A cluster answers for tables, not for runs. A table never changes, so the answer for it stays
//! true in any level. A cluster says nothing about hashes outside of a table's own.
//!
//! Cost of a probe: one page, or 50 to 100 ns in memory. Size: 2 bytes per key at 16 bits per key,
//! and some hundredths more for lengths and the ends of pages. Memory of a paged cluster: 4 bytes
//! for each page of 4 KiB.

mod assemble;
mod columns;
mod directory;
mod page;
#[cfg(test)]
mod tests;

pub(crate) use assemble::{Source, assemble};
pub(crate) use columns::{Builder, Columns};
pub(crate) use directory::{Directory, Owner, TAIL_BYTES, Tail};
pub(crate) use page::STRIPES_MAX;

use crate::base::entry::KeyHash;
use crate::base::error::{Error, Result};
use crate::base::page::{
    DEVICE_PAGE_BYTES, Handle, Page, PageClass, PageId, Step, TRAILER_BYTES, TableId, prefetch,
    prefetch_bytes,
};

use crate::table::filter::small_bloom;

/// A page as it is stored, with its trailer.
pub(crate) const PAGE_BYTES: usize = DEVICE_PAGE_BYTES as usize;
/// The bits of a position.
const POSITION_BITS: u32 = 32;

/// The position of a key in the order of its partition: the beginning of its order key.
pub(crate) fn position(hash: KeyHash) -> u32 {
    (hash.order() >> 32) as u32
}

/// The filters of one table: the positions that they cover, the width of columns, and the
/// parameters of probes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stripe {
    pub(crate) table: TableId,
    /// The positions of the first and the last key.
    pub(crate) first: u32,
    pub(crate) last: u32,
    /// The number of first bits of a position that name a column, at most 32.
    pub(crate) column_bits: u8,
    /// The bits of a key in its filter.
    pub(crate) probes: u8,
}

impl Stripe {
    fn shift(&self) -> u32 {
        POSITION_BITS - u32::from(self.column_bits)
    }

    fn column_of(&self, position: u32) -> u64 {
        u64::from(position) >> self.shift()
    }

    fn start_of(&self, column: u64) -> u64 {
        column << self.shift()
    }

    fn end_of(&self, column: u64) -> u64 {
        (column + 1) << self.shift()
    }

    /// Returns true if, of all tables in its run, this one alone can hold a key at the position. At
    /// its first and last position a neighbour may have keys, too.
    fn covers(&self, position: u32) -> bool {
        self.first < position && position < self.last
    }

    /// The columns that it has from one position to another, the second exclusive.
    fn columns_within(&self, start: u64, end: u64) -> std::ops::Range<u64> {
        let first = self.column_of(self.first).max(start >> self.shift());
        let last = self
            .column_of(self.last)
            .min((end.max(1) - 1) >> self.shift());
        first..(last + 1).max(first)
    }
}

/// A cluster that can be probed.
#[derive(Debug)]
pub(crate) struct Cluster {
    number: TableId,
    directory: Directory,
    /// All pages as they are stored when the cluster is resident, else none.
    pages: Vec<u8>,
}

impl Cluster {
    /// A cluster that asks for its pages when a probe needs them. `number` is that of its file.
    pub(crate) fn paged(number: TableId, directory: Directory) -> Cluster {
        Cluster {
            number,
            directory,
            pages: Vec::new(),
        }
    }

    /// A cluster in memory, from all its pages in the order in which [`assemble()`] emits them.
    pub(crate) fn resident(number: TableId, directory: Directory, mut pages: Vec<u8>) -> Cluster {
        assert!(
            pages.len() == directory.firsts.len() * PAGE_BYTES,
            "as many pages as the directory says"
        );
        // The only page of a small table's cluster is mostly padding.
        if let Some(last) = directory.extents().last()
            && let Ok(decoded) =
                page::Decoded::new(&pages[last.page * PAGE_BYTES..], &directory.stripes, &last)
        {
            let bytes = decoded.bytes();
            pages.truncate(last.page * PAGE_BYTES + bytes);
            pages.shrink_to_fit();
        }
        Cluster {
            number,
            directory,
            pages,
        }
    }

    pub(crate) fn directory(&self) -> &Directory {
        &self.directory
    }

    pub(crate) fn stripes(&self) -> &[Stripe] {
        &self.directory.stripes
    }

    pub(crate) fn is_resident(&self) -> bool {
        !self.pages.is_empty()
    }

    /// The bytes of all pages.
    pub(crate) fn pages_bytes(&self) -> u64 {
        self.directory.pages_bytes()
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.directory.memory_bytes() + self.pages.capacity()
    }

    /// Calls `absent_from` with the mark of each table that does not hold a key with this hash.
    /// Stripes without a mark are left out. `page` is the page that the answer before this one
    /// wanted. No page is wanted if no marked table covers the position.
    pub(crate) fn ask<T: Copy>(
        &self,
        hash: KeyHash,
        page: Option<&Page>,
        marks: &[Option<T>],
        mut absent_from: impl FnMut(T),
    ) -> Result<Step<()>> {
        let position = position(hash);
        let Some(extent) = self.directory.extent_at(position) else {
            return Ok(Step::Done(()));
        };
        let bytes = match (self.resident_page(&extent), page) {
            (Some(bytes), _) => bytes,
            (None, Some(page)) => &page[..],
            (None, None) => {
                let stripes = self.directory.stripes.iter().zip(marks);
                let mut asked = stripes.filter(|(_, mark)| mark.is_some());
                let is_there = asked.any(|(stripe, _)| stripe.covers(position));
                return Ok(match is_there {
                    true => Step::Read(self.page_id(&extent)),
                    false => Step::Done(()),
                });
            }
        };
        let page = page::Decoded::new(bytes, &self.directory.stripes, &extent)?;
        page.at(position, |stripe, filter| {
            let probes = self.directory.stripes[stripe].probes;
            if let Some(mark) = marks[stripe]
                && !small_bloom::may_hold(filter, hash.low(), probes)
            {
                absent_from(mark);
            }
        })?;
        Ok(Step::Done(()))
    }

    /// Prefetches the cache lines that a probe for this hash will read, if the cluster is resident.
    pub(crate) fn touch(&self, hash: KeyHash) {
        let position = position(hash);
        let extent = self.directory.extent_at(position);
        let Some((extent, page)) = extent.and_then(|it| Some((it, self.resident_page(&it)?)))
        else {
            return;
        };
        match &self.directory.stripes[..] {
            [stripe] if stripe.covers(position) => {
                let parts = page::parts_for(page, stripe, &extent, position);
                parts.into_iter().for_each(prefetch_bytes);
            }
            _ => prefetch(page, 0),
        }
    }

    fn resident_page(&self, extent: &Extent) -> Option<&[u8]> {
        let from = extent.page * PAGE_BYTES;
        let to = from + extent.pages * PAGE_BYTES - TRAILER_BYTES as usize;
        let pages = self.is_resident().then_some(&self.pages[..])?;
        pages.get(from..to.min(pages.len()))
    }

    /// The identity of the page of an extent.
    fn page_id(&self, extent: &Extent) -> PageId {
        PageId {
            table: self.number,
            handle: Handle {
                offset: (extent.page * PAGE_BYTES) as u64,
                bytes: (extent.pages * PAGE_BYTES) as u32,
            },
            class: PageClass::Filter,
        }
    }

    /// The identities of all pages, in order.
    pub(crate) fn page_ids(&self) -> impl Iterator<Item = PageId> {
        self.directory.extents().map(|extent| self.page_id(&extent))
    }

    /// Checks that a page holds what the directory says.
    pub(crate) fn check_page(&self, id: PageId, page: &[u8]) -> Result<()> {
        let at = (id.handle.offset / DEVICE_PAGE_BYTES) as usize;
        let first = self.directory.firsts.get(at);
        let extent = first.and_then(|first| self.directory.extent_at(*first));
        let Some(extent) = extent.filter(|extent| extent.page == at) else {
            return Err(Error::corruption(format!(
                "expected the beginning of a page of a cluster at {at}, found none"
            )));
        };
        page::Decoded::new(page, &self.directory.stripes, &extent)?.for_each(|_, _, _| Ok(()))
    }
}

/// The pages that belong together, and their positions. It is one page unless a column does not fit
/// it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Extent {
    page: usize,
    pages: usize,
    start: u64,
    /// The end of the positions, exclusive.
    end: u64,
}
