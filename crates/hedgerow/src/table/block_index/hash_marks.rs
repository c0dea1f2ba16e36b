//! HashMarks: an index of the buckets of a table in the order of hashes, with ten bits per bucket.
//!
//! Hashes are even. So a key's hash determines its place among all keys of the table, except for a
//! few buckets more or less, because the buckets before it are not equally full. LSM-trie gives
//! every hash a home bucket, moves overflowing entries to other buckets, and stores their targets
//! in *HashMarks* (Wu et al., 2015). Here overflowing entries move to the next bucket, so that the
//! table stays in the order of its keys. The mark of a bucket is then its last hash.
//!
//! ```text
//! cell   floor((head - first) * 256 * buckets / (last - first + 1)): a 256th of a bucket's share
//! mark   the cell of a bucket's last key; marks ascend
//! ```
//!
//! `head` is the first 8 bytes of an order key, `first` and `last` are those of the table. Marks
//! are stored as two arrays (P. Elias, "Efficient storage and retrieval by content and address of
//! static files", 1974): their low bytes, and bits that count the marks of each quotient. A key in
//! a cell is in the first bucket whose mark is not below the cell. Only if a bucket ends within a
//! cell, which is then its mark, the rest of the cell is in the next bucket. That affects one key
//! in 400, for any size of entries, and more keys only if their hashes are equal.
//!
//! The marks are always in memory: 1.3 bytes per bucket, 350 MB for a terabyte of records of 116
//! bytes.

use std::ops::Range;

use crate::base::codec::{ByteReader, packed};
use crate::base::error::{Error, Result};
use crate::base::page::{Handle, Page, PageId, Step};

use super::extents;
use super::extents::{Extent, ExtentsLayout};
use super::{BlockRange, Bracket, Index};

/// The bits of a cell within its bucket's share: a byte. With one bit less, one more get in four
/// hundred reads two buckets. With one more, marks take a tenth more.
const CELL_BITS: u32 = 8;
/// The distance between samples, in zeros of the quotients' bits. A lookup counts from a sample
/// through at most a dozen words.
const SAMPLE_ZEROS: usize = 256;
const WORD_BITS: usize = u64::BITS as usize;

/// The part of an order key that the marks use.
fn head(order_key: &[u8]) -> u64 {
    packed::get_ordered(order_key, 0, 8)
}

/// The map from hashes to cells.
#[derive(Debug, Clone, Copy)]
struct Scale {
    first: u64,
    last: u64,
    /// Shifts the width of the range to 64 bits.
    shift: u32,
    /// The number of cells per 2^64 shifted hashes.
    factor: u64,
}

impl Scale {
    fn new(first: u64, last: u64, buckets: usize) -> Scale {
        let width = last - first;
        let shift = width.leading_zeros().min(63);
        let cells = (buckets as u128) << CELL_BITS;
        // At most 2^64 and at least 2^63. The quotient has fewer than 64 bits, because cells have
        // fewer than 63.
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

    /// The cell of a hash inside the table's range. Greater hashes have no smaller cells.
    #[inline]
    fn cell(self, head: u64) -> u64 {
        let shifted = (head - self.first) << self.shift;
        ((u128::from(shifted) * u128::from(self.factor)) >> 64) as u64
    }

    /// The approximate first hash of a cell.
    fn begin(self, cell: u64) -> u64 {
        let shifted = (u128::from(cell) << 64) / u128::from(self.factor);
        let distance = (shifted >> self.shift) as u64;
        self.first.saturating_add(distance).min(self.last)
    }
}

/// The marks of one table, and the places of its buckets.
#[derive(Debug)]
pub(crate) struct HashMarks {
    scale: Scale,
    /// The low byte of each mark.
    low: Vec<u8>,
    /// The quotients of the marks by 256. For each quotient there is a one per mark that has it,
    /// then a zero.
    quotients: Vec<u64>,
    /// The places in `quotients` of the zeros with numbers divisible by [`SAMPLE_ZEROS`].
    samples: Vec<u32>,
    layout: ExtentsLayout,
    extents: Vec<u8>,
}

impl HashMarks {
    /// Opens the page that [`Builder::finish`] wrote.
    ///
    /// # Errors
    /// `Corruption` if it is another page.
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

    /// The place in `quotients` of zero `number`, counted from 0.
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

    /// The number of marks below a cell.
    #[inline]
    fn below(&self, cell: u64) -> usize {
        let (quotient, low) = ((cell >> CELL_BITS) as usize, cell as u8);
        if quotient >= self.buckets() {
            return self.buckets();
        }
        // The marks with smaller quotients are before the zero that ends these.
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

    /// The buckets that may hold a hash inside the table's range.
    #[inline]
    fn buckets_of_head(&self, head: u64) -> Range<usize> {
        let cell = self.scale.cell(head);
        let first = self.below(cell);
        // The buckets that end in the cell, and the one after them.
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

    /// The buckets around the first entry at or after a key: it is in one of them, or at the
    /// beginning of the next.
    pub(crate) fn buckets_around(&self, key: &[u8]) -> Range<usize> {
        let head = head(key);
        match self.scale.contains(head) {
            true => self.buckets_of_head(head),
            false if head < self.scale.first => 0..1,
            false => self.buckets() - 1..self.buckets(),
        }
    }

    /// The number of leading buckets that may hold an entry before a key.
    pub(crate) fn buckets_before(&self, key: &[u8]) -> usize {
        let head = head(key);
        match self.scale.contains(head) {
            true => self.buckets_of_head(head).end,
            false if head < self.scale.first => 0,
            false => self.buckets(),
        }
    }

    /// The place of a bucket.
    #[inline]
    pub(crate) fn place(&self, bucket: usize) -> Handle {
        self.layout.place(&self.extents, bucket)
    }
}

/// The bytes for a one per bucket and a zero per possible quotient.
fn quotient_bytes(buckets: usize) -> usize {
    (2 * buckets).div_ceil(8)
}

/// Samples the places of zeros. Checks that there are as many ones and zeros as buckets.
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
    fn locate(&self, key: &[u8], _page: Option<&Page>) -> Result<Step<BlockRange>> {
        let buckets = self.buckets_of(key);
        Ok(Step::Done(BlockRange::of(buckets, |it| self.place(it))))
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

    /// HashMarks have no page but the top.
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

/// Collects the data for the marks of a table: 8 bytes per bucket.
#[derive(Debug, Default)]
pub(crate) struct Builder {
    first: Option<u64>,
    /// The last hash of each bucket.
    ends: Vec<u64>,
    extents: Vec<Extent>,
}

impl Builder {
    /// Adds a stored bucket with its first and last key.
    pub(crate) fn add(&mut self, first_key: &[u8], last_key: &[u8], handle: Handle) {
        self.first.get_or_insert(head(first_key));
        extents::push(&mut self.extents, self.ends.len(), handle);
        self.ends.push(head(last_key));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The approximate bytes of the marks in the file.
    pub(crate) fn estimated_bytes(&self) -> usize {
        2 * 8 + self.ends.len() * 5 / 4 + self.extents.len() * 8
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.ends.capacity() * size_of::<u64>() + self.extents.capacity() * size_of::<Extent>()
    }

    /// Encodes the page. The table must have buckets.
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
