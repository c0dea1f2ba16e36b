//! Shared helpers of the tests.

#![allow(dead_code, reason = "no test uses everything")]

/// SplitMix64: small, seeded, good enough to draw test cases.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub(crate) fn range(&mut self, from: u64, to: u64) -> u64 {
        from + self.below(to - from)
    }
}

/// The seeds to try. If `HEDGEROW_SEED` is set, it is the only one, to replay a failure.
pub(crate) fn seeds(count: u64) -> Vec<u64> {
    match std::env::var("HEDGEROW_SEED") {
        Ok(seed) => vec![seed.parse().expect("HEDGEROW_SEED is a number")],
        Err(_) => (1..=count).collect(),
    }
}
