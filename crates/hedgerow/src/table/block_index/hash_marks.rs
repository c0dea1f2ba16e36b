//! HashMarks: which bucket of a table in the order of hashes holds a key, in ten bits per bucket.
//!
//! Hashes are even, so a key's place among all keys of the table follows from its hash, but for a
//! few buckets more or less: how far the buckets before it happened to be filled. LSM-trie gives
//! every hash a home bucket, moves what overflows to other buckets, and remembers where to in
//! *HashMarks* (Wu et al., 2015). Here what overflows moves on to the next bucket, so that the table
//! stays in the order of its keys; the mark of a bucket is then the hash that it ends with.
//!
//! ```text
//! cell   floor((head - first) * 256 * buckets / (last - first + 1)): a 256th of a bucket's share
//! mark   the cell of a bucket's last key; marks ascend
//! ```
//!
//! `head` is the first 8 bytes of an order key, `first` and `last` are those of the table. Marks are
//! stored as two arrays (P. Elias, "Efficient storage and retrieval by content and address of
//! static files", 1974): their low bytes, and bits that say how many of them have each quotient. A
//! key in a cell is in the first bucket whose mark is not below it. Only where a bucket ends within a
//! cell, which is then its mark, the rest of the cell is in the next: that is for one key in 400,
//! whatever the size of entries, and for more only if their hashes are the same.
//!
//! The marks are always in memory: 1.3 bytes per bucket, 350 MB for a terabyte of records of 116 bytes.

use std::ops::Range;

use crate::base::codec::{ByteReader, packed};
use crate::base::error::{Error, Result};
use crate::base::page::{Handle, Page, PageId, Step};

use super::extents;
use super::extents::{Extent, ExtentsLayout};
use super::{Bracket, Index};

/// The bits of a cell within its bucket's share: a byte. With one bit less, a get in four hundred
/// more reads two buckets; with one more, marks take a tenth more.
const CELL_BITS: u32 = 8;
/// Every so many zeros of the quotients' bits, the place of one is remembered: at most a dozen words
/// are counted from there.
const SAMPLE_ZEROS: usize = 256;
const WORD_BITS: usize = u64::BITS as usize;

/// What an order key is found by.
fn head(order_key: &[u8]) -> u64 {
    packed::get_ordered(order_key, 0, 8)
}

/// Hashes as cells.
#[derive(Debug, Clone, Copy)]
struct Scale {
    first: u64,
    last: u64,
    /// Brings the width of the range to 64 bits.
    shift: u32,
    /// Cells per 2^64 of what was shifted.
    factor: u64,
}

impl Scale {
    fn new(first: u64, last: u64, buckets: usize) -> Scale {
        let width = last - first;
        let shift = width.leading_zeros().min(63);
        let cells = (buckets as u128) << CELL_BITS;
        // At most 2^64, at least 2^63: the quotient has fewer than 64 bits, as cells have fewer than 63.
        let range = (u128::from(width) + 1) << shift;
        Scale {
            first,
            last,
            shift,
            factor: ((cells << 64) / range) as u64,
        }
    }

    fn contains(self, head: u64) -> bool {
        (self.first..=self.last).contains(&head)
    }

    /// The cell of a hash that is within the table's. Greater hashes have no smaller cells.
    #[inline]
    fn cell(self, head: u64) -> u64 {
        let shifted = (head - self.first) << self.shift;
        ((u128::from(shifted) * u128::from(self.factor)) >> 64) as u64
    }

    /// About the first hash of a cell.
    fn begin(self, cell: u64) -> u64 {
        let shifted = (u128::from(cell) << 64) / u128::from(self.factor);
        let distance = (shifted >> self.shift) as u64;
        self.first.saturating_add(distance).min(self.last)
    }
}

/// The marks of one table, and where its buckets are.
#[derive(Debug)]
pub(crate) struct HashMarks {
    scale: Scale,
    /// The low byte of each mark.
    low: Vec<u8>,
    /// For each quotient of a mark by 256 a one for every mark that has it, then a zero.
    quotients: Vec<u64>,
    /// Where in `quotients` each zero of a number divisible by [`SAMPLE_ZEROS`] is.
    samples: Vec<u32>,
    layout: ExtentsLayout,
    extents: Vec<u8>,
}

impl HashMarks {
    /// From the page that [`Builder::finish`] wrote.
    ///
    /// # Errors
    /// `Corruption` if it is none.
    pub(crate) fn open(page: &[u8]) -> Result<HashMarks> {
        let mut reader = ByteReader::new(page);
        let first = reader.u64("first hash of a table")?;
        let last = reader.u64("last hash of a table")?;
        let buckets = reader.u32("number of buckets")? as usize;
        let low = reader.take(buckets, "low bytes of marks")?.to_vec();
        let bits = reader.take(quotient_bytes(buckets), "quotients of marks")?;
        if buckets == 0 || first > last {
            return Err(Error::corruption(format!(
                "expected marks of buckets with ascending hashes, found {buckets} for {first:#x} to {last:#x}"
            )));
        }
        let quotients: Vec<u64> = (0..bits.len().div_ceil(8))
            .map(|word| packed::get(bits, word * 8, 8))
            .collect();
        let extents = page[reader.position()..].to_vec();
        let mut reader = ByteReader::new(&extents);
        let layout = ExtentsLayout::parse(&mut reader)?;
        reader.finish("the places of buckets")?;
        let marks = HashMarks {
            scale: Scale::new(first, last, buckets),
            low,
            samples: sample_zeros(&quotients, buckets)?,
            quotients,
            layout,
            extents,
        };
        match marks.iter().is_sorted() {
            true => Ok(marks),
            false => Err(Error::corruption("expected marks that ascend")),
        }
    }

    fn buckets(&self) -> usize {
        self.low.len()
    }

    /// The place in `quotients` of a zero, the first being number 0.
    #[inline]
    fn zero(&self, number: usize) -> usize {
        let at = self.samples[number / SAMPLE_ZEROS] as usize;
        let mut left = (number % SAMPLE_ZEROS) as u32;
        let mut word = at / WORD_BITS;
        let mut zeros = !self.quotients[word] & (u64::MAX << (at % WORD_BITS));
        while left >= zeros.count_ones() {
            left -= zeros.count_ones();
            word += 1;
            zeros = !self.quotients[word];
        }
        for _ in 0..left {
            zeros &= zeros - 1;
        }
        word * WORD_BITS + zeros.trailing_zeros() as usize
    }

    fn is_one(&self, bit: usize) -> bool {
        self.quotients[bit / WORD_BITS] >> (bit % WORD_BITS) & 1 == 1
    }

    /// How many marks are below a cell.
    #[inline]
    fn below(&self, cell: u64) -> usize {
        let (quotient, low) = ((cell >> CELL_BITS) as usize, cell as u8);
        if quotient >= self.buckets() {
            return self.buckets();
        }
        // Marks with smaller quotients are the ones before the zero that ends these.
        let mut bucket = match quotient.checked_sub(1) {
            Some(before) => self.zero(before) - before,
            None => 0,
        };
        while self.is_one(bucket + quotient) && self.low[bucket] < low {
            bucket += 1;
        }
        bucket
    }

    /// The marks in order.
    fn iter(&self) -> impl Iterator<Item = u64> {
        let bits = 0..2 * self.buckets();
        let ones = bits.filter(|&bit| self.is_one(bit));
        let marks = ones.zip(&self.low).enumerate();
        marks.map(|(bucket, (bit, &low))| ((bit - bucket) as u64) << CELL_BITS | u64::from(low))
    }

    /// The buckets that a hash within the table's may be in.
    #[inline]
    fn buckets_of_head(&self, head: u64) -> Range<usize> {
        let cell = self.scale.cell(head);
        let first = self.below(cell);
        // Those that end in the cell, and the one after them.
        let end = match self.low.get(first) {
            Some(&low) if low == cell as u8 => self.below(cell + 1) + 1,
            _ => first + 1,
        };
        first..end.min(self.buckets())
    }

    /// The buckets that may hold versions of a key.
    #[inline]
    pub(crate) fn buckets_of(&self, key: &[u8]) -> Range<usize> {
        let head = head(key);
        match self.scale.contains(head) {
            true => self.buckets_of_head(head),
            false => 0..0,
        }
    }

    /// The buckets in one of which, or at the beginning of the one after them, is the first entry at or
    /// after a key.
    pub(crate) fn buckets_around(&self, key: &[u8]) -> Range<usize> {
        let head = head(key);
        match self.scale.contains(head) {
            true => self.buckets_of_head(head),
            false if head < self.scale.first => 0..1,
            false => self.buckets() - 1..self.buckets(),
        }
    }

    /// How many buckets, from the first on, may hold what is before a key.
    pub(crate) fn buckets_before(&self, key: &[u8]) -> usize {
        let head = head(key);
        match self.scale.contains(head) {
            true => self.buckets_of_head(head).end,
            false if head < self.scale.first => 0,
            false => self.buckets(),
        }
    }

    /// Where a bucket is stored.
    #[inline]
    pub(crate) fn place(&self, bucket: usize) -> Handle {
        self.layout.place(&self.extents, bucket)
    }
}

/// A one for each bucket, and a zero for each quotient that there may be.
fn quotient_bytes(buckets: usize) -> usize {
    (2 * buckets).div_ceil(8)
}

/// The places of some zeros, after a check that there are as many ones and zeros as buckets.
fn sample_zeros(quotients: &[u64], buckets: usize) -> Result<Vec<u32>> {
    let mut samples = Vec::with_capacity(buckets / SAMPLE_ZEROS + 1);
    let mut zeros = 0_usize;
    for bit in 0..2 * buckets {
        if quotients[bit / WORD_BITS] >> (bit % WORD_BITS) & 1 == 0 {
            if zeros.is_multiple_of(SAMPLE_ZEROS) {
                samples.push(bit as u32);
            }
            zeros += 1;
        }
    }
    let ends = 2 * buckets - 1;
    if zeros == buckets && quotients[ends / WORD_BITS] >> (ends % WORD_BITS) == 0 {
        return Ok(samples);
    }
    Err(Error::corruption(format!(
        "expected quotients of {buckets} marks, found {} of {zeros}",
        2 * buckets - zeros
    )))
}

impl Index for HashMarks {
    fn locate(&self, key: &[u8], _page: Option<&Page>) -> Result<Step<Range<usize>>> {
        Ok(Step::Done(self.buckets_of(key)))
    }

    fn lower_bound(&self, key: &[u8], _page: Option<&Page>) -> Result<Step<Bracket>> {
        let buckets = self.buckets_around(key);
        Ok(Step::Done(Bracket {
            first: buckets.start,
            likely: buckets.start,
            last: buckets.end - 1,
        }))
    }

    fn end_before(&self, key: &[u8], _page: Option<&Page>) -> Result<Step<usize>> {
        Ok(Step::Done(self.buckets_before(key)))
    }

    fn handle(&self, block: usize, _page: Option<&Page>) -> Result<Step<Handle>> {
        Ok(Step::Done(self.place(block)))
    }

    fn blocks(&self) -> usize {
        self.buckets()
    }

    /// It has none but its top.
    fn page_ids(&self) -> Vec<PageId> {
        Vec::new()
    }

    fn load(&mut self, _pages: &[&[u8]]) -> Result<()> {
        Ok(())
    }

    fn split_keys(&self, pieces: usize) -> Vec<Vec<u8>> {
        let pieces = pieces.min(self.buckets());
        let wanted = (1..pieces).map(|piece| self.buckets() * piece / pieces);
        let mut marks = self.iter().enumerate();
        let cut = |bucket| marks.find(|(last, _)| last + 1 == bucket);
        let cells = wanted.filter_map(cut).map(|(_, mark)| mark + 1);
        let mut heads: Vec<u64> = cells.map(|cell| self.scale.begin(cell)).collect();
        heads.dedup();
        heads
            .iter()
            .map(|head| head.to_be_bytes().to_vec())
            .collect()
    }

    fn memory_bytes(&self) -> usize {
        size_of::<Self>()
            + self.low.len()
            + self.quotients.len() * size_of::<u64>()
            + self.samples.len() * size_of::<u32>()
            + self.extents.len()
    }
}

/// Collects what the marks of a table being written are made of: 8 bytes per bucket.
#[derive(Debug, Default)]
pub(crate) struct Builder {
    first: Option<u64>,
    /// The hash that each bucket ends with.
    ends: Vec<u64>,
    extents: Vec<Extent>,
}

impl Builder {
    /// A bucket is complete, with keys from one to another, and stored here.
    pub(crate) fn add(&mut self, first_key: &[u8], last_key: &[u8], handle: Handle) {
        self.first.get_or_insert(head(first_key));
        extents::push(&mut self.extents, self.ends.len(), handle);
        self.ends.push(head(last_key));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// About the bytes that the marks take in the file.
    pub(crate) fn estimated_bytes(&self) -> usize {
        2 * 8 + self.ends.len() * 5 / 4 + self.extents.len() * 8
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.ends.capacity() * size_of::<u64>() + self.extents.capacity() * size_of::<Extent>()
    }

    /// The page of a table that has buckets.
    pub(crate) fn finish(self) -> Vec<u8> {
        let (Some(first), Some(&last)) = (self.first, self.ends.last()) else {
            panic!("a table has buckets");
        };
        let scale = Scale::new(first, last, self.ends.len());
        let mut out = Vec::with_capacity(self.estimated_bytes());
        out.extend(first.to_le_bytes());
        out.extend(last.to_le_bytes());
        out.extend((self.ends.len() as u32).to_le_bytes());
        let mut quotients = vec![0; quotient_bytes(self.ends.len())];
        for (bucket, &end) in self.ends.iter().enumerate() {
            let mark = scale.cell(end);
            out.push(mark as u8);
            let bit = bucket + (mark >> CELL_BITS) as usize;
            quotients[bit / 8] |= 1 << (bit % 8);
        }
        out.extend(quotients);
        extents::encode(&self.extents, &mut out);
        out
    }
}

#[cfg(test)]
mod tests;
