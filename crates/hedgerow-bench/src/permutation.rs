//! Numbers that look random and are a function of other numbers.

use hedgerow::io::sim::SplitMix64;

/// Turns a number into one whose bits look random: the first number of its generator. A bijection.
#[inline]
pub fn mix(x: u64) -> u64 {
    SplitMix64::new(x).next()
}

/// A number below `bound` out of 64 random bits, without a division.
#[inline]
pub(crate) fn below(random: u64, bound: u64) -> u64 {
    ((u128::from(random) * u128::from(bound)) >> 64) as u64
}

/// The numbers `0..count` in an order that looks random, each exactly once, without an array.
///
/// Every step below maps the numbers of `bits` bits one to one onto themselves; a result that is
/// not below `count` is mapped again until it is, less than twice on average.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Permutation {
    count: u64,
    bits: u32,
    keys: [u64; 4],
}

impl Permutation {
    pub(crate) fn new(count: u64, seed: u64) -> Permutation {
        Permutation {
            count,
            bits: (u64::BITS - count.saturating_sub(1).leading_zeros()).max(2),
            keys: std::array::from_fn(|round| mix(seed ^ mix(round as u64))),
        }
    }

    /// The number at `place`, which is below `count`.
    #[inline]
    pub(crate) fn at(&self, place: u64) -> u64 {
        let mask = u64::MAX >> (u64::BITS - self.bits);
        let mut x = place;
        loop {
            for key in self.keys {
                x = x.wrapping_add(key).wrapping_mul(key | 1) & mask;
                // Mixes the high bits of the product into the low ones.
                x ^= x >> (self.bits / 2);
            }
            if x < self.count {
                return x;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_one_place() {
        for count in [1, 2, 3, 5, 64, 65, 1000, 4096, 100_003] {
            for seed in [0, 1, 99] {
                let permutation = Permutation::new(count, seed);
                let mut seen = vec![false; count as usize];
                for place in 0..count {
                    let there = &mut seen[permutation.at(place) as usize];
                    assert!(!*there, "{place} of {count}, seed {seed}");
                    *there = true;
                }
            }
        }
    }

    /// Neighbours among random numbers below `n` are `n / 3` apart on average, and half of the time
    /// in the same half.
    #[test]
    fn neighbours_have_nothing_to_do_with_each_other() {
        let count: u64 = 100_000;
        for seed in 0..5 {
            let permutation = Permutation::new(count, seed);
            let pairs = (1..count).map(|i| (permutation.at(i - 1), permutation.at(i)));
            let (mut apart, mut same_half) = (0, 0);
            for (a, b) in pairs {
                apart += a.abs_diff(b);
                same_half += u64::from((a < count / 2) == (b < count / 2));
            }
            let apart = apart as f64 / count as f64 / (count as f64 / 3.0);
            let same_half = same_half as f64 / count as f64;
            assert!((0.97..1.03).contains(&apart), "{apart}, seed {seed}");
            assert!(
                (0.48..0.52).contains(&same_half),
                "{same_half}, seed {seed}"
            );
        }
    }
}
