//! Lines of a blocked Bloom filter: how many probes a key has, and what a filter of some size
//! costs. `crate::table::filter::bloom` builds and asks it.
//!
//! Lines do not all get the same number of keys, so a blocked filter has more false positives than
//! a plain one and wants fewer probes: [`probes_for`] is the optimum over the Poisson mixture of
//! line loads (F. Putze, P. Sanders, J. Singler, "Cache-, hash- and space-efficient Bloom filters",
//! 2007, section 3). 10 bits per key give 0.96 % instead of 0.82 %.

use crate::base::page::TRAILER_BYTES;

/// The processor fetches a line at once.
pub(crate) const LINE_BYTES: usize = 64;
pub(crate) const LINE_BITS: usize = LINE_BYTES * 8;
/// The lines of one page: with the bytes that accompany it, a page fits 4 KiB on the device and in
/// memory.
pub(crate) const PAGE_LINES: usize = 62;
pub(crate) const PAGE_BYTES: usize = PAGE_LINES * LINE_BYTES;

/// The average stored size of a filter with `bytes` bytes of bits. It consists of whole lines, and
/// each page ends with a trailer.
pub(crate) fn stored_bytes(bytes: f64) -> f64 {
    let lines = bytes + LINE_BYTES as f64 / 2.0;
    lines + (lines / PAGE_BYTES as f64).ceil() * f64::from(TRAILER_BYTES)
}

pub(crate) const PROBES_MAX: u8 = 15;

/// The fewest bits per key, in hundredths, at which each number of probes (2, 3, ...) beats the one
/// before it. A test derives the table again.
const PROBES_FROM_CENTIBITS: [u16; 14] = [
    208, 358, 509, 665, 827, 999, 1183, 1380, 1594, 1829, 2087, 2374, 2692, 3050,
];

/// The number of probes with the fewest false positives.
pub(crate) fn probes_for(bits_per_key: f32) -> u8 {
    let centibits = (f64::from(bits_per_key) * 100.0).round() as u16;
    1 + PROBES_FROM_CENTIBITS
        .iter()
        .filter(|&&from| from <= centibits)
        .count() as u8
}

/// The rate of false positives at 1.0 to 32.0 bits per key. Cost: some microseconds.
pub(crate) fn rate(bits_per_key: f64) -> f64 {
    rate_with(probes_for(bits_per_key as f32), bits_per_key)
}

/// The rate with `probes` probes: the loads of lines are Poisson distributed.
fn rate_with(probes: u8, bits_per_key: f64) -> f64 {
    let load = LINE_BITS as f64 / bits_per_key;
    let mut chance = (-load).exp();
    let mut rate = 0.0;
    for keys in 0..(load * 3.0) as i32 + 200 {
        let unset = (1.0 - 1.0 / LINE_BITS as f64).powi(keys * i32::from(probes));
        rate += chance * (1.0 - unset).powi(i32::from(probes));
        chance *= load / f64::from(keys + 1);
    }
    rate
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_probes_is_the_optimum() {
        for centibits in (100..=3200).step_by(25) {
            let bits_per_key = f64::from(centibits) / 100.0;
            let best = (1..=PROBES_MAX)
                .min_by(|&a, &b| rate_with(a, bits_per_key).total_cmp(&rate_with(b, bits_per_key)))
                .unwrap();
            let chosen = probes_for(bits_per_key as f32);
            assert!(
                rate_with(chosen, bits_per_key) <= rate_with(best, bits_per_key) * 1.0001,
                "{bits_per_key} bits: {chosen} probes, not {best}"
            );
        }
    }
}
