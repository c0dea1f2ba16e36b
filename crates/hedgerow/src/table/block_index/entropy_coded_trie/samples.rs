//! Hashes and tables of hashes for the tests.

use super::Hashes;
use super::segment::Unit;
use crate::base::random::Random;

/// Draws sorted hashes. The reference of the vectors draws the same.
pub(super) fn hashes(random: &mut Random, count: usize) -> Vec<u64> {
    let mut hashes: Vec<u64> = (0..count).map(|_| random.next()).collect();
    hashes.sort_unstable();
    hashes
}

/// Makes sorted entries of groups of these sizes.
pub(super) fn entries(sizes: &[usize], seed: u64) -> Vec<Hashes> {
    let mut random = Random::new(seed);
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
