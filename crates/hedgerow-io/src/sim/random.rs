//! SplitMix64 (Steele, Lea and Flood 2014). All choices of a simulation come from it, so it must
//! return the same numbers on every machine and in every version.

/// The SplitMix64 generator: the same numbers for a seed on every machine and in every version.
///
/// ```
/// use hedgerow_io::sim::SplitMix64;
///
/// let mut random = SplitMix64::new(7);
/// let drawn = [random.next(), random.next()];
/// let mut again = SplitMix64::new(7);
/// assert_eq!(drawn, [again.next(), again.next()]);
/// ```
#[derive(Debug, Clone, Default)]
pub struct SplitMix64 {
    state: u64,
}

impl SplitMix64 {
    /// The generator of a seed.
    #[must_use]
    pub fn new(seed: u64) -> SplitMix64 {
        SplitMix64 { state: seed }
    }

    /// Draws any number.
    #[inline]
    #[allow(
        clippy::should_implement_trait,
        reason = "a generator has no end and is no iterator"
    )]
    pub fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.state)
    }

    /// Draws a number below `bound`; zero if the bound is zero.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// Draws true in `eighths` of eight cases.
    pub(super) fn chance(&mut self, eighths: u64) -> bool {
        self.below(8) < eighths
    }
}

/// Spreads every bit of `z` over the whole word: the last step of [`SplitMix64`], a bijection.
#[inline]
#[must_use]
pub fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A hash of bytes, eight at a time. It only has to distinguish two runs.
pub(super) fn hash(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let step = |hash: u64, word: u64| {
        (hash ^ word)
            .wrapping_mul(0x9fb2_1c65_1e98_df25)
            .rotate_left(29)
    };
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let hash = words.iter().fold(bytes.len() as u64, |hash, word| {
        step(hash, u64::from_le_bytes(*word))
    });
    mix(step(hash, u64::from_le_bytes(last)))
}
