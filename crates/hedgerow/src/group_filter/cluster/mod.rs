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
mod attach;
mod cluster_kind;
mod columns;
mod directory;
mod filter_page;
mod gather;
mod stored_cluster;
mod stretches;
#[cfg(test)]
mod tests;
mod unit;

pub(crate) use assemble::{Source, assemble};
pub(crate) use cluster_kind::ClusterKind;
#[cfg(test)]
pub(crate) use columns::Builder;
use columns::Columns;
use directory::Directory;
use filter_page::STRIPES_MAX;
pub(crate) use filter_page::{PageEnds, pages_for};
pub(crate) use stored_cluster::checked;
use stretches::Stretches;

use std::sync::Arc;

use crate::base::entry::KeyHash;
use crate::base::error::{Error, Result};
use crate::base::page::{DEVICE_PAGE_BYTES, Handle, Page, PageClass, PageId, Step, TableId};

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
#[non_exhaustive]
pub struct Stripe {
    /// The table.
    pub table: TableId,
    /// The position of its first key: the first 32 bits of the order key.
    pub first: u32,
    /// The position of its last key.
    pub last: u32,
    /// The number of first bits of a position that name a column, at most 32.
    pub column_bits: u8,
    /// The number of bits that a key sets in the filter of its column.
    pub probes: u8,
}

/// The contents of a cluster's file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClusterContents {
    /// The number of pages of 4 KiB.
    pub pages: u64,
    /// The filters of each table.
    pub stripes: Vec<Stripe>,
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
    /// The stripes, and the pages in the file unless the cluster is resident.
    directory: Arc<Directory>,
    resident: Option<Stretches>,
}

impl Cluster {
    /// A cluster that asks for its pages when a probe needs them. `number` is that of its file.
    pub(crate) fn paged(number: TableId, directory: Arc<Directory>) -> Cluster {
        Cluster {
            number,
            directory,
            resident: None,
        }
    }

    /// A cluster in memory, of at least one stripe. `fetch` reads a page of a source that is not
    /// resident. Cost: a copy of the filters.
    pub(crate) fn resident(
        number: TableId,
        sources: &[Source<'_>],
        fetch: impl FnMut(PageId) -> Result<Page>,
    ) -> Result<Cluster> {
        let (directory, resident) = Stretches::of(sources, fetch)?;
        Ok(Cluster {
            number,
            directory: Arc::new(directory),
            resident: Some(resident),
        })
    }

    pub(crate) fn stripes(&self) -> &[Stripe] {
        &self.directory.stripes
    }

    /// The places of all its stripes.
    pub(crate) fn all_stripes(&self) -> Vec<usize> {
        (0..self.stripes().len()).collect()
    }

    pub(crate) fn is_resident(&self) -> bool {
        self.resident.is_some()
    }

    /// The bytes of all pages.
    pub(crate) fn pages_bytes(&self) -> u64 {
        match &self.resident {
            Some(resident) => resident.len() as u64,
            None => self.directory.pages_bytes(),
        }
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        let resident = self.resident.as_ref().map_or(0, Stretches::memory_bytes);
        size_of::<Self>() + self.directory.memory_bytes() + resident
    }

    /// Calls `absent_from` with the mark of each table that does not hold a key with this hash.
    /// Stripes without a mark are left out. `page` is the page that the answer before this one
    /// wanted. No page is wanted if no marked table covers the position.
    pub(crate) fn probe<T: Copy>(
        &self,
        hash: KeyHash,
        page: Option<&Page>,
        marks: &[Option<T>],
        mut absent_from: impl FnMut(T),
    ) -> Result<Step<()>> {
        if let Some(resident) = &self.resident {
            let answer = resident.probe(self.stripes(), hash, marks, absent_from);
            return answer.map(Step::Done);
        }
        let position = position(hash);
        let Some(extent) = self.directory.extent_at(position) else {
            return Ok(Step::Done(()));
        };
        let stripes = &self.directory.stripes[..];
        let Some(page) = page else {
            let mut asked = stripes.iter().zip(marks).filter(|(_, mark)| mark.is_some());
            let is_there = asked.any(|(stripe, _)| stripe.covers(position));
            return Ok(match is_there {
                true => Step::Read(self.page_id(&extent)),
                false => Step::Done(()),
            });
        };
        let page = filter_page::PageParts::new(page, stripes, &extent)?;
        page.at(position, |stripe, filter| {
            let probes = stripes[stripe].probes;
            if let Some(mark) = marks[stripe]
                && !small_bloom::may_hold(filter, hash.low(), probes)
            {
                absent_from(mark);
            }
        })?;
        Ok(Step::Done(()))
    }

    /// Prefetches the cache lines that a probe for this hash will read, if the cluster is resident.
    #[inline]
    pub(crate) fn touch(&self, hash: KeyHash) {
        if let Some(resident) = &self.resident {
            resident.touch(position(hash));
        }
    }

    /// The pages, or the stretches of a resident cluster, in order.
    fn extents(&self) -> Box<dyn Iterator<Item = Extent> + '_> {
        match &self.resident {
            Some(resident) => Box::new(resident.extents()),
            None => Box::new(self.directory.extents()),
        }
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
        filter_page::PageParts::new(page, &self.directory.stripes, &extent)?
            .for_each(|_, _, _| Ok(()))
    }
}

/// The pages that belong together, and their positions. It is one page unless a column does not fit
/// it. In memory it is a stretch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Extent {
    page: usize,
    pages: usize,
    start: u64,
    /// The end of the positions, exclusive.
    end: u64,
}
