//! Hashes and tables of hashes for the tests.

use super::Hashes;
use super::segment::Unit;

/// Draws random numbers. The reference of the vectors draws the same.
pub(super) struct SplitMix(pub(super) u64);

impl SplitMix {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        word ^ (word >> 31)
    }

    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub(super) fn hashes(&mut self, count: usize) -> Vec<u64> {
        let mut hashes: Vec<u64> = (0..count).map(|_| self.next()).collect();
        hashes.sort_unstable();
        hashes
    }
}

/// Makes sorted entries of groups of these sizes.
pub(super) fn entries(sizes: &[usize], seed: u64) -> Vec<Hashes> {
    let mut random = SplitMix(seed);
    let mut entries = Vec::new();
    for &size in sizes {
        let prefix = random.next();
        entries.extend((0..size).map(|_| Hashes {
            prefix,
            suffix: random.next(),
        }));
    }
    entries.sort_unstable();
    entries
}

pub(super) fn unit(entries: &[Hashes]) -> Unit {
    let mut unit = Unit::new(entries[0]);
    entries.iter().for_each(|&entry| unit.push(entry));
    unit
}

/// The bits of a string as zeros and ones.
pub(super) fn text(bytes: &[u8], bits: usize) -> String {
    let mut text: String = bytes.iter().map(|byte| format!("{byte:08b}")).collect();
    text.truncate(bits);
    text
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
