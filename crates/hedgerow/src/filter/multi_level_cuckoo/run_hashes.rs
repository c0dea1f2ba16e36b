//! The hashes of the keys of a run, or of a piece of it, stored beside it: what a filter over many
//! runs is built from when it grows or is not found whole. They are sorted and take
//! `56 - log2(keys)` bits plus two to three each (P. Elias 1974, R. Fano 1971): 4.3 bytes at ten
//! million keys, where reading the keys themselves would read all data. The format is in
//! `docs/format/multi_level_cuckoo.md`.
//!
//! The low bits of each hash are stored as they are. The high bits, which ascend, are a set of
//! bits: hash number `i` with high bits `h` is the one at `h + i`.

use crate::codec::{ByteReader, packed, varint};
use crate::error::{Error, Result};
use crate::filter::buckets::HASH_BITS;

/// The low bits of each of so many hashes that are stored as they are.
fn low_bits(count: u64) -> u32 {
    HASH_BITS - count.max(1).ilog2().min(HASH_BITS)
}

/// Appends hashes ([`super::hash_of`]), which must ascend; the same one may come again.
pub(crate) fn encode(hashes: &[u64], out: &mut Vec<u8>) {
    let low_bits = low_bits(hashes.len() as u64);
    varint::put(out, hashes.len() as u64);
    let lows = out.len();
    let low_bytes = (hashes.len() * low_bits as usize).div_ceil(8);
    // A word may be written at the last bit.
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

/// The hashes of some bytes, ascending. Cost: nothing is allocated.
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
