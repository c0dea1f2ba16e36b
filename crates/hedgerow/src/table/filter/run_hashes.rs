//! The hashes of the keys of a run, or of a piece of it, stored beside it. A filter over many runs
//! is built from them when it grows or its file is missing or damaged. They are sorted and take `56
//! - log2(keys)` bits plus two to three each (P. Elias 1974, R. Fano 1971): 4.3 bytes at ten
//! million keys. A read of the keys themselves would read all data. The format is in
//! `docs/format/multi_level_cuckoo.md`.
//!
//! The low bits of each hash are stored as they are. The high bits, which ascend, are a set of
//! bits: hash number `i` with high bits `h` is the one at `h + i`.

use crate::base::codec::{ByteReader, packed, varint};
use crate::base::entry::KeyHash;
use crate::base::error::{Error, Result};
use crate::base::page::{Handle, Page, Step, TRAILER_BYTES};
use crate::table::filter::buckets::{HASH_BITS, hash_of};
use crate::table::filter::hash_list::HashList;
use crate::table::filter::{Probe, RunMask, gather};

/// The bytes of a page. The pages are read all at once, from front to back.
const PAGE_BYTES: u32 = 64 << 10;

/// The place of the hashes of a table's keys in its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Description {
    /// The bytes of the hashes, in pages of 64 KiB.
    pub bytes: u32,
    /// The offset of the first page; the others follow it without gaps.
    pub offset: u64,
}

impl Description {
    pub(crate) fn pages(&self) -> usize {
        self.bytes.div_ceil(PAGE_BYTES) as usize
    }

    /// The bytes that they take in the file.
    pub fn file_bytes(&self) -> u64 {
        u64::from(self.bytes) + self.pages() as u64 * u64::from(TRAILER_BYTES)
    }

    /// The place of a page in the file.
    pub(crate) fn page_handle(&self, page: usize) -> Handle {
        let stored = u64::from(PAGE_BYTES + TRAILER_BYTES);
        let before = (page as u32).saturating_mul(PAGE_BYTES);
        Handle {
            offset: self.offset.saturating_add(page as u64 * stored),
            bytes: self.bytes.saturating_sub(before).min(PAGE_BYTES) + TRAILER_BYTES,
        }
    }
}

/// The hashes of the keys of one table, ascending. `verify` probes them as a filter.
#[derive(Debug)]
pub(crate) struct RunHashes(pub(crate) Vec<u64>);

impl RunHashes {
    /// Decodes the hashes from all pages in order.
    ///
    /// # Errors
    /// `Corruption` if they are not what [`build`] wrote.
    pub(crate) fn read<'a>(
        description: Description,
        pages: impl Iterator<Item = Result<&'a [u8]>>,
    ) -> Result<RunHashes> {
        let bytes = gather(pages, description.bytes as usize, 0)?;
        Ok(RunHashes(decode(&bytes)?.collect()))
    }
}

impl Probe for RunHashes {
    fn candidates(&self, hash: KeyHash, _: Option<&Page>) -> Result<Step<RunMask>> {
        let found = self.0.binary_search(&hash_of(hash.low())).is_ok();
        Ok(Step::Done(if found { RunMask(1) } else { RunMask::NONE }))
    }

    fn memory_bytes(&self) -> usize {
        self.0.capacity() * size_of::<u64>()
    }
}

/// The approximate bytes of this many hashes.
pub(super) fn bytes_for(keys: usize) -> u64 {
    let keys = keys as u64;
    keys * u64::from(low_bits(keys) + 3) / 8
}

/// Hands the pages of these hashes, in order, to `write_page`. The first one will be stored at
/// `offset`.
pub(super) fn build(
    hashes: &HashList,
    offset: u64,
    write_page: impl FnMut(&[u8]) -> Result<()>,
) -> Result<Description> {
    let mut hashes: Vec<u64> = hashes.iter().map(hash_of).collect();
    hashes.sort_unstable();
    let mut bytes = Vec::new();
    encode(&hashes, &mut bytes);
    bytes.chunks(PAGE_BYTES as usize).try_for_each(write_page)?;
    let bytes = u32::try_from(bytes.len()).map_err(|_| {
        let keys = hashes.len();
        Error::invalid(format!(
            "expected hashes of at most 4 GiB, found those of {keys} keys"
        ))
    })?;
    Ok(Description { bytes, offset })
}

/// The number of low bits of each of `count` hashes, which are stored as they are.
fn low_bits(count: u64) -> u32 {
    HASH_BITS - count.max(1).ilog2().min(HASH_BITS)
}

/// Appends hashes ([`crate::group_filter::multi_level_cuckoo::hash_of`]). They ascend and may
/// repeat.
pub(crate) fn encode(hashes: &[u64], out: &mut Vec<u8>) {
    let low_bits = low_bits(hashes.len() as u64);
    varint::put(out, hashes.len() as u64);
    let lows = out.len();
    let low_bytes = (hashes.len() * low_bits as usize).div_ceil(8);
    // A write at the last bit covers a whole word.
    out.resize(lows + low_bytes + 8, 0);
    for (i, &hash) in hashes.iter().enumerate() {
        let bit = i * low_bits as usize;
        let low = hash & ((1 << low_bits) - 1);
        if let Some(place) = out[lows + bit / 8..].first_chunk_mut::<8>() {
            *place = (u64::from_le_bytes(*place) | low << (bit % 8)).to_le_bytes();
        }
    }
    let highs = lows + low_bytes;
    out.truncate(highs);
    let last = hashes.last().map_or(0, |hash| (hash >> low_bits) as usize);
    out.resize(highs + (last + hashes.len()).div_ceil(8), 0);
    for (i, &hash) in hashes.iter().enumerate() {
        let bit = (hash >> low_bits) as usize + i;
        out[highs + bit / 8] |= 1 << (bit % 8);
    }
}

/// The hashes of some bytes, ascending. It allocates nothing.
///
/// # Errors
/// `Corruption` if the bytes are not what [`encode`] writes.
pub(crate) fn decode(bytes: &[u8]) -> Result<impl Iterator<Item = u64> + '_> {
    let mut reader = ByteReader::new(bytes);
    let count = reader.varint("number of hashes")?;
    let low_bits = low_bits(count);
    let low_bytes = count.saturating_mul(u64::from(low_bits)).div_ceil(8);
    let low_bytes = usize::try_from(low_bytes).unwrap_or(usize::MAX);
    let lows = reader.take(low_bytes, "low bits of hashes")?;
    let highs = reader.take(reader.remaining(), "high bits of hashes")?;
    let found: u64 = highs.iter().map(|byte| u64::from(byte.count_ones())).sum();
    let highest = bits_of(highs)
        .last()
        .map_or(0, |bit| bit as u64 - (found - 1));
    let fits = highest >> (HASH_BITS - low_bits) == 0;
    if found != count || !fits || highs.last() == Some(&0) {
        return Err(Error::corruption(format!(
            "expected {count} hashes of {HASH_BITS} bits, found {found} with high bits up to \
             {highest:#x}"
        )));
    }
    Ok(bits_of(highs).enumerate().map(move |(i, bit)| {
        let at = i * low_bits as usize;
        let low = packed::get(lows, at / 8, 8) >> (at % 8) & ((1 << low_bits) - 1);
        ((bit - i) as u64) << low_bits | low
    }))
}

/// The places of the bits that are set.
fn bits_of(bytes: &[u8]) -> impl Iterator<Item = usize> + '_ {
    bytes.chunks(8).enumerate().flat_map(|(i, chunk)| {
        let mut word = packed::get(chunk, 0, chunk.len());
        std::iter::from_fn(move || {
            let bit = word.trailing_zeros() as usize;
            word &= word.wrapping_sub(1);
            (bit < 64).then_some(64 * i + bit)
        })
    })
}

#[cfg(test)]
mod tests;
