//! Reproducible random numbers, for schedules of a simulation and for the simulator of trees.

use hedgerow_io::sim::SplitMix64;

/// A generator: a seed replays on every machine.
#[derive(Debug, Default)]
pub(crate) struct Random(SplitMix64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(SplitMix64::new(seed))
    }

    /// Draws any number.
    pub(crate) fn next(&mut self) -> u64 {
        self.0.next()
    }

    /// Draws a number below `bound`; zero if the bound is zero.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    /// Draws from 0 to 1, uniformly.
    pub(crate) fn uniform(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Draws approximately normally with deviation 1: the sum of the four quarters of a number.
    pub(crate) fn normal(&mut self) -> f64 {
        let bits = self.next();
        let quarters = (0..4).map(|i| f64::from((bits >> (16 * i)) as u16) / 65536.0);
        (quarters.sum::<f64>() - 2.0) * 3.0_f64.sqrt()
    }
}
