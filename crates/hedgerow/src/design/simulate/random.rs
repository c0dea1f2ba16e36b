//! Reproducible random numbers.

/// splitmix64.
#[derive(Debug)]
pub(super) struct Random(pub(super) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in 0 to 1.
    pub(super) fn uniform(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Approximately normal with deviation 1: the sum of the four quarters of a number.
    pub(super) fn normal(&mut self) -> f64 {
        let bits = self.next();
        let quarters = (0..4).map(|i| f64::from((bits >> (16 * i)) as u16) / 65536.0);
        (quarters.sum::<f64>() - 2.0) * 3.0_f64.sqrt()
    }
}
