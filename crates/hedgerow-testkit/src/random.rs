//! The random numbers of all tests. SplitMix64 gives a seed the same meaning everywhere and
//! forever.

use hedgerow_io::sim::SplitMix64;

pub use hedgerow_io::sim::mix;

/// A generator of random numbers.
#[derive(Debug, Clone)]
pub struct Random(SplitMix64);

impl Random {
    /// The generator of a seed.
    pub fn new(seed: u64) -> Random {
        Random(SplitMix64::new(mix(seed)))
    }

    /// Draws any number.
    #[allow(
        clippy::should_implement_trait,
        reason = "a generator has no end and is no iterator"
    )]
    pub fn next(&mut self) -> u64 {
        self.0.next()
    }

    /// Draws a number below `bound`; zero if the bound is zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0.below(bound)
    }

    /// Draws a number from `low` to `high`, both included.
    pub fn range(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// Draws true in one of `n` cases.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// Draws a number below `bound`. Small ones are far more frequent.
    pub fn skewed(&mut self, bound: u64) -> u64 {
        let upper = self.below(bound) + 1;
        let upper = self.below(upper) + 1;
        self.below(upper)
    }

    /// Draws one of several values.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len() as u64) as usize]
    }

    /// Draws the index of one of several weights, by weight.
    pub fn weighted(&mut self, weights: &[u32]) -> usize {
        let total: u64 = weights.iter().map(|&w| u64::from(w)).sum();
        let mut at = self.below(total);
        for (i, &weight) in weights.iter().enumerate() {
            if at < u64::from(weight) {
                return i;
            }
            at -= u64::from(weight);
        }
        unreachable!("{at} of {total}")
    }
}

/// A hash that only has to distinguish two contents.
pub fn hash(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let words = words.iter().chain([&last]);
    words.fold(mix(bytes.len() as u64 + 1), |hash, word| {
        (hash ^ u64::from_le_bytes(*word))
            .wrapping_mul(0x9fb2_1c65_1e98_df25)
            .rotate_left(29)
    })
}
