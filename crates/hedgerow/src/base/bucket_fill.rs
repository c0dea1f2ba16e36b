//! The size of a table's buckets. A bucket has room for a whole number of entries: three of 1 KiB
//! are in 4 KiB, and a quarter of it is empty. So if the first bucket of a table would be less full
//! than [`FILL_MIN`], the table gets larger buckets, by multiples of the chosen size. Eleven
//! entries of 1 KiB are in 12 KiB, and a lookup then reads all of it.

use crate::base::codec::compress;
use crate::base::page::PAGE_OVERHEAD_BYTES;

const FILL_MIN: f64 = 0.9;
/// The size up to which buckets are enlarged.
const ENLARGED_BYTES_MAX: u32 = 16 << 10;
/// The bytes of an entry beside key and value if all lengths are equal: its tag and a part of the
/// bucket's front.
const ENTRY_BYTES: f64 = 4.5;

/// The room of a bucket of `bucket_bytes` bytes for entries.
pub(crate) fn room(bucket_bytes: u32) -> usize {
    bucket_bytes as usize - PAGE_OVERHEAD_BYTES - compress::SIZE_BYTES
}

/// The size of a table's buckets after the first one is full. That bucket has `bucket_bytes` bytes,
/// holds `held` bytes, and another entry would make it `bytes_with` bytes.
pub(crate) fn enlarged(bucket_bytes: u32, unit: u32, held: usize, bytes_with: usize) -> u32 {
    let is_poor = |bytes: u32| (held as f64) < FILL_MIN * room(bytes) as f64;
    let mut bytes = bucket_bytes;
    while bytes_with > room(bytes) && is_poor(bytes) && bytes + unit <= ENLARGED_BYTES_MAX {
        bytes += unit;
    }
    bytes
}

/// The bytes that a table takes per entry without filters, for many entries of `entry_bytes` bytes
/// of key and value, in buckets of `unit` bytes before enlargement.
pub(crate) fn stored_bytes(entry_bytes: f64, unit: u32) -> f64 {
    let stored = entry_bytes + ENTRY_BYTES;
    if stored > room(unit) as f64 / 2.0 {
        // The value is out of line.
        return stored;
    }
    let count = |bytes: u32| (room(bytes) as f64 / stored).floor();
    let held = |bytes| (count(bytes) * stored) as usize;
    let with = |bytes| held(bytes) + stored.ceil() as usize;
    let mut bytes = unit;
    loop {
        let next = enlarged(bytes, unit, held(bytes), with(bytes));
        if next == bytes {
            return f64::from(bytes) / count(bytes);
        }
        bytes = next;
    }
}
