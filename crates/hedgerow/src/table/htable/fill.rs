//! How large the buckets of a table are. A bucket has room for a whole number of entries: of 1 KiB three are in 4
//! KiB, and a quarter of it is empty. So a table has larger buckets, by multiples of the size that it is to have,
//! where its first one would be less full than [`FILL_MIN`]: of entries of 1 KiB eleven are in 12 KiB, at the cost of
//! reading so much for each.

use crate::base::codec::compress;
use crate::base::page::PAGE_OVERHEAD_BYTES;

const FILL_MIN: f64 = 0.9;
/// Buckets are not made larger than this.
const ENLARGED_BYTES_MAX: u32 = 16 << 10;
/// What an entry has beside key and value where all lengths are the same: its tag, and a part of the bucket's front.
const ENTRY_BYTES: f64 = 4.5;

/// What a bucket of so many bytes has room for.
pub(super) fn room(bucket_bytes: u32) -> usize {
    bucket_bytes as usize - PAGE_OVERHEAD_BYTES - compress::SIZE_BYTES
}

/// The size of a table's buckets after one of `bucket_bytes`, which holds so many, has no room for what
/// would make it `bytes_with`.
pub(super) fn enlarged(bucket_bytes: u32, unit: u32, held: usize, bytes_with: usize) -> u32 {
    let is_poor = |bytes: u32| (held as f64) < FILL_MIN * room(bytes) as f64;
    let mut bytes = bucket_bytes;
    while bytes_with > room(bytes) && is_poor(bytes) && bytes + unit <= ENLARGED_BYTES_MAX {
        bytes += unit;
    }
    bytes
}

/// What a table takes without filters for each of many entries of so many bytes of key and value, in buckets that are
/// to have `unit` bytes.
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
