//! The directory of a cluster: it names the tables and the first position of each page. The format
//! is in `docs/format/cluster.md`.

use crate::base::codec::{ByteReader, varint};
use crate::base::error::{Error, Result};
use crate::base::page::TableId;

use super::{Extent, PAGE_BYTES, POSITION_BITS, STRIPES_MAX, Stripe};
use crate::table::filter::small_bloom;

/// The stripes of a cluster and the places of its pages.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Directory {
    pub(crate) stripes: Vec<Stripe>,
    /// The position at which each page begins. Pages that belong together begin at the same one.
    pub(crate) firsts: Vec<u32>,
}

impl Directory {
    /// The pages for a position; `None` before the first.
    pub(super) fn extent_at(&self, position: u32) -> Option<Extent> {
        let end = self.pages_up_to(position);
        let start = *self.firsts[..end].last()?;
        let before = self.firsts[..end].iter().rev();
        let pages = before.take_while(|first| **first == start).count();
        Some(self.extent(end - pages, pages))
    }

    /// The number of pages that begin at or before a position. Positions are about evenly
    /// distributed, so the search begins where the page would be if they were.
    fn pages_up_to(&self, position: u32) -> usize {
        let firsts = &self.firsts[..];
        let (Some(&first), Some(&last)) = (firsts.first(), firsts.last()) else {
            return 0;
        };
        if position < first {
            return 0;
        }
        if position >= last {
            return firsts.len();
        }
        let into = u64::from(position - first) * (firsts.len() - 1) as u64;
        let guess = (into / u64::from(last - first)) as usize;
        let (mut from, mut to) = (guess, guess + 1);
        let mut step = 4;
        while from > 0 && firsts[from] > position {
            to = from;
            from = from.saturating_sub(step);
            step *= 4;
        }
        while to < firsts.len() && firsts[to] <= position {
            from = to;
            to = (to + step).min(firsts.len());
            step *= 4;
        }
        from + firsts[from..to].partition_point(|first| *first <= position)
    }

    fn extent(&self, page: usize, pages: usize) -> Extent {
        let next = self.firsts.get(page + pages);
        Extent {
            page,
            pages,
            start: u64::from(self.firsts[page]),
            end: next.map_or(1 << POSITION_BITS, |first| u64::from(*first)),
        }
    }

    /// All pages in order.
    pub(super) fn extents(&self) -> impl Iterator<Item = Extent> {
        let mut page = 0;
        self.firsts.chunk_by(|a, b| a == b).map(move |together| {
            let extent = self.extent(page, together.len());
            page += together.len();
            extent
        })
    }

    pub(crate) fn pages_bytes(&self) -> u64 {
        (self.firsts.len() * PAGE_BYTES) as u64
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.stripes.capacity() * size_of::<Stripe>() + self.firsts.capacity() * size_of::<u32>()
    }

    /// The description of the cluster in its file.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        varint::put(&mut bytes, self.stripes.len() as u64);
        for stripe in &self.stripes {
            varint::put(&mut bytes, stripe.table.0);
            bytes.extend(stripe.first.to_le_bytes());
            bytes.extend(stripe.last.to_le_bytes());
            bytes.extend([stripe.column_bits, stripe.probes]);
        }
        varint::put(&mut bytes, self.firsts.len() as u64);
        self.firsts.iter().fold(0, |before, first| {
            varint::put(&mut bytes, u64::from(first - before));
            *first
        });
        bytes
    }

    /// Decodes the directory of a cluster whose pages have `pages_bytes` bytes.
    ///
    /// # Errors
    /// `Corruption`.
    pub(crate) fn decode(bytes: &[u8], pages_bytes: u64) -> Result<Directory> {
        let mut reader = ByteReader::new(bytes);
        let mut directory = Directory::default();
        for _ in 0..reader.varint("stripes")? {
            directory.stripes.push(decode_stripe(&mut reader)?);
        }
        let pages = reader.varint("pages")?;
        let fits = pages.checked_mul(PAGE_BYTES as u64) == Some(pages_bytes);
        if directory.stripes.len() > STRIPES_MAX || !fits {
            return Err(Error::corruption(format!(
                "expected at most {STRIPES_MAX} stripes in {pages_bytes} bytes, found {} in {pages} \
                 pages",
                directory.stripes.len()
            )));
        }
        let mut first = 0_u32;
        for _ in 0..pages {
            let step = reader.varint_as("page's first position")?;
            first = first.checked_add(step).ok_or_else(|| {
                Error::corruption("expected positions of 32 bits, found a larger one".to_string())
            })?;
            directory.firsts.push(first);
        }
        reader.finish("the directory of a cluster")?;
        Ok(directory)
    }
}

fn decode_stripe(reader: &mut ByteReader<'_>) -> Result<Stripe> {
    let stripe = Stripe {
        table: TableId(reader.varint("table")?),
        first: reader.u32("first position")?,
        last: reader.u32("last position")?,
        column_bits: reader.u8("bits of a column")?,
        probes: reader.u8("probes")?,
    };
    let is_possible = stripe.first <= stripe.last
        && u32::from(stripe.column_bits) <= POSITION_BITS
        && small_bloom::are_probes(stripe.probes);
    if is_possible {
        return Ok(stripe);
    }
    Err(Error::corruption(format!(
        "expected a stripe of at most {POSITION_BITS} bits and 1 to 22 probes, found {stripe:?}"
    )))
}
