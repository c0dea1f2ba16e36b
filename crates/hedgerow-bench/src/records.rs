//! The keys and values that `db_bench`'s workloads write and read, as functions of their index.
//!
//! Written keys and keys that are never written share one line of *slots*, in key order: the `i`-th
//! written key has slot `2i`, a missing one has slot `2i + 1`. The 64-bit numbers are divided among
//! the slots, and a slot becomes a random number of its part. So keys are distinct, in order, and
//! together like random keys.
//!
//! ```text
//! ungrouped   spread(slot) 8 bytes, big-endian | random bytes
//! grouped     spread(group) 8 bytes            | spread(slot within the group) 8 bytes | random
//! value       mark of the key 8 bytes | offset in the pool 4 bytes | bytes of the pool from there
//! ```
//!
//! A value can be checked without knowing its version: the mark belongs to the key and the seed,
//! and the rest must equal the bytes at the offset in the pool.

use std::ops::Range;

use hedgerow::{KEY_BYTES_MAX, VALUE_BYTES_MAX};

use crate::permutation::{below, mix};
use crate::pool::Pool;
use crate::store::{Result, invalid};

/// The bytes that the keys of a group share.
pub(crate) const PREFIX_BYTES: usize = 8;

/// The shape of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordShape {
    /// The number of distinct keys that are written.
    pub num: u64,
    /// The bytes of a key.
    pub key_bytes: usize,
    /// The bytes of a value.
    pub value_bytes: usize,
    /// The number of keys that share a prefix of 8 bytes; 1 for no prefixes.
    pub group_size: u64,
    /// The seed of keys and values.
    pub seed: u64,
}

#[derive(Debug)]
pub(crate) struct Records {
    shape: RecordShape,
    pool: Pool,
}

impl Records {
    pub(crate) fn new(shape: RecordShape) -> Result<Records> {
        Records::check(shape)?;
        let pool = Pool::new(shape.value_bytes);
        Ok(Records { shape, pool })
    }

    pub(crate) fn check(shape: RecordShape) -> Result<()> {
        let key_bytes_min = if shape.group_size > 1 { 16 } else { 8 };
        let bounds = [
            ("keys", shape.num, 1, 1 << 60),
            ("keys per group", shape.group_size, 1, 1 << 60),
            (
                "bytes of a key",
                shape.key_bytes as u64,
                key_bytes_min,
                KEY_BYTES_MAX as u64,
            ),
            (
                "bytes of a value",
                shape.value_bytes as u64,
                0,
                VALUE_BYTES_MAX as u64,
            ),
        ];
        for (what, found, min, max) in bounds {
            if !(min..=max).contains(&found) {
                return Err(invalid(format!(
                    "expected {min} to {max} {what}, found {found}"
                )));
            }
        }
        Ok(())
    }

    /// The key with an index below `num`; ascending with it.
    #[inline]
    pub(crate) fn key(&self, index: u64, key: &mut Vec<u8>) {
        self.slot_key(2 * index, key);
    }

    /// The indexes of the keys with the same prefix.
    pub(crate) fn group(&self, index: u64) -> Range<u64> {
        let RecordShape {
            num, group_size, ..
        } = self.shape;
        let first = index - index % group_size;
        first..num.min(first.saturating_add(group_size))
    }

    /// A key that is never written, between those with this index and the next.
    #[inline]
    pub(crate) fn missing_key(&self, index: u64, key: &mut Vec<u8>) {
        self.slot_key(2 * index + 1, key);
    }

    fn slot_key(&self, slot: u64, key: &mut Vec<u8>) {
        let RecordShape {
            num,
            group_size,
            seed,
            key_bytes,
            ..
        } = self.shape;
        key.clear();
        if group_size > 1 {
            let slots = 2 * group_size;
            let (group, member) = (slot / slots, slot % slots);
            key.extend(spread(group, num.div_ceil(group_size), seed).to_be_bytes());
            key.extend(spread(member, slots, mix(seed ^ group)).to_be_bytes());
        } else {
            key.extend(spread(slot, 2 * num, seed).to_be_bytes());
        }
        let mut random = slot ^ seed;
        while key.len() < key_bytes {
            random = mix(random);
            key.extend(random.to_be_bytes());
        }
        key.truncate(key_bytes);
    }

    /// Makes a value of the key with this index; each `version` has another value.
    #[inline]
    pub(crate) fn value(&self, index: u64, version: u64, value: &mut Vec<u8>) {
        value.clear();
        self.pool
            .append(self.mark(index), version, self.shape.value_bytes, value);
    }

    /// Returns true if these bytes are a value of the key with this index.
    #[inline]
    pub(crate) fn is_value(&self, index: u64, value: &[u8]) -> bool {
        value.len() == self.shape.value_bytes && self.pool.holds(self.mark(index), value)
    }

    fn mark(&self, index: u64) -> u64 {
        mix(index ^ self.shape.seed.rotate_left(32))
    }
}

/// A random number in the `i`-th of `count` equal parts of all 64-bit numbers.
#[inline]
fn spread(i: u64, count: u64, seed: u64) -> u64 {
    // With one part the width would be 2 to the power of 64.
    let width = u64::MAX / count;
    i * width + below(mix(i ^ seed), width)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(num: u64, key_bytes: usize, value_bytes: usize, group_size: u64) -> Records {
        let shape = RecordShape {
            num,
            key_bytes,
            value_bytes,
            group_size,
            seed: 7,
        };
        Records::new(shape).unwrap()
    }

    fn keys(records: &Records, of: impl Fn(&Records, u64, &mut Vec<u8>)) -> Vec<Vec<u8>> {
        let mut keys = Vec::new();
        for i in 0..records.shape.num {
            let mut key = Vec::new();
            of(records, i, &mut key);
            keys.push(key);
        }
        keys
    }

    #[test]
    fn written_and_missing_keys_alternate_in_key_order() {
        for (num, key_bytes, group_size) in [
            (1, 8, 1),
            (1000, 8, 1),
            (1000, 16, 1),
            (1000, 17, 32),
            (1000, 24, 7),
            (9, 16, 50),
        ] {
            let records = records(num, key_bytes, 100, group_size);
            let written = keys(&records, Records::key);
            let missing = keys(&records, Records::missing_key);
            let line: Vec<_> = written
                .iter()
                .zip(&missing)
                .flat_map(|(w, m)| [w, m])
                .collect();
            assert!(
                line.is_sorted_by(|a, b| a < b),
                "{num} {key_bytes} {group_size}"
            );
            assert!(line.iter().all(|key| key.len() == key_bytes));
        }
    }

    #[test]
    fn keys_of_a_group_share_their_prefix() {
        let records = records(1000, 16, 100, 10);
        let keys = keys(&records, Records::key);
        for group in keys.chunks(10) {
            assert!(group.iter().all(|key| key[..8] == group[0][..8]));
        }
        assert_ne!(keys[0][..8], keys[10][..8]);
    }

    #[test]
    fn keys_are_spread_over_all_bytes() {
        let records = records(10_000, 16, 100, 1);
        let keys = keys(&records, Records::key);
        for byte in 0..16 {
            let mut seen = [false; 256];
            keys.iter()
                .for_each(|key| seen[usize::from(key[byte])] = true);
            assert!(seen.iter().all(|seen| *seen), "byte {byte}");
        }
    }

    #[test]
    fn a_value_is_known_and_any_other_is_refused() {
        for bytes in [0, 3, 8, 11, 12, 13, 100, 5000, 300_000] {
            let records = records(100, 16, bytes, 1);
            let mut value = Vec::new();
            for version in 0..3 {
                records.value(5, version, &mut value);
                assert!(records.is_value(5, &value), "{bytes} bytes");
            }
            assert!(bytes == 0 || !records.is_value(6, &value), "{bytes} bytes");
            let mut longer = value.clone();
            longer.push(0);
            assert!(!records.is_value(5, &longer));
            // A change of any one byte is found.
            for at in (0..bytes).step_by(bytes / 17 + 1) {
                let mut changed = value.clone();
                changed[at] ^= 0x40;
                assert!(!records.is_value(5, &changed), "byte {at} of {bytes}");
            }
        }
    }

    #[test]
    fn values_shrink_to_about_a_half() {
        let records = records(1000, 16, 100, 1);
        let (mut all, mut value) = (Vec::new(), Vec::new());
        for i in 0..40 {
            records.value(i, 0, &mut value);
            all.extend_from_slice(&value);
        }
        let ratio = lz4_flex::compress(&all).len() as f64 / all.len() as f64;
        assert!((0.45..0.6).contains(&ratio), "{ratio}");
    }

    #[test]
    fn shapes_that_cannot_be_are_refused() {
        let good = RecordShape {
            num: 10,
            key_bytes: 16,
            value_bytes: 1,
            group_size: 1,
            seed: 0,
        };
        for bad in [
            RecordShape { num: 0, ..good },
            RecordShape {
                key_bytes: 7,
                ..good
            },
            RecordShape {
                key_bytes: 15,
                group_size: 2,
                ..good
            },
            RecordShape {
                group_size: 0,
                ..good
            },
            RecordShape {
                value_bytes: 1 << 30,
                ..good
            },
        ] {
            let error = Records::new(bad).unwrap_err().to_string();
            assert!(error.contains("expected "), "{error}");
        }
    }
}
