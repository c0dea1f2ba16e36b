//! The numbers of a filter's runs, around a ring: the numbers of dropped runs are used again.

use crate::base::error::{Error, Result};
use crate::table::filter::RunMask;

/// The numbers in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ring {
    /// The ring has `2^bits` numbers, 0 to 6.
    bits: u8,
    /// The number of the newest run.
    newest: u8,
    runs: u8,
}

impl Ring {
    /// `None` for no run, and for more runs than a mask has bits.
    pub(super) fn for_runs(runs_max: usize) -> Option<Ring> {
        let bits = |runs: usize| runs.next_power_of_two().trailing_zeros() as u8;
        let bits = (1..=64).contains(&runs_max).then(|| bits(runs_max))?;
        Ring::of(bits, (1 << bits) - 1, 0)
    }

    /// `None` if these numbers do not fit together.
    pub(super) fn of(bits: u8, newest: u8, runs: u8) -> Option<Ring> {
        let fits = bits <= 6 && newest < 1 << bits && runs <= 1 << bits;
        fits.then_some(Ring { bits, newest, runs })
    }

    pub(super) fn bits(self) -> u8 {
        self.bits
    }

    pub(super) fn newest(self) -> u8 {
        self.newest
    }

    pub(super) fn runs(self) -> usize {
        usize::from(self.runs)
    }

    /// Returns true if all numbers are in use.
    pub(super) fn is_full(self) -> bool {
        self.runs == 1 << self.bits
    }

    /// The number of a new run, the newest.
    pub(super) fn push(&mut self) -> Result<u32> {
        if self.is_full() {
            return Err(Error::invalid(format!(
                "expected at most {} runs in a filter, found one more",
                self.runs
            )));
        }
        self.newest = (self.newest + 1) % (1 << self.bits);
        self.runs += 1;
        Ok(u32::from(self.newest))
    }

    /// The number of the `run`-th newest run.
    pub(super) fn number(self, run: usize) -> u32 {
        let numbers = 1 << self.bits;
        (u32::from(self.newest) + numbers - run as u32 % numbers) % numbers
    }

    /// Turns a set of numbers into a mask with the newest run first.
    #[inline]
    pub(super) fn newest_first(self, numbers: u64) -> RunMask {
        let count = 1 << self.bits;
        let backwards = numbers.reverse_bits() >> (64 - count);
        let twice = u128::from(backwards) << count | u128::from(backwards);
        let turned = (twice >> (count - 1 - u32::from(self.newest))) as u64;
        RunMask(turned & RunMask::all(self.runs()).0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Ring {
        /// Drops the `runs` oldest runs, and returns the set of their numbers.
        pub(in super::super) fn drop_oldest(&mut self, runs: usize) -> u64 {
            let left = self.runs().saturating_sub(runs);
            let gone = (left..self.runs()).fold(0, |set, run| set | 1 << self.number(run));
            self.runs = left as u8;
            gone
        }
    }

    #[test]
    fn masks_are_newest_first_wherever_the_ring_is() {
        for runs_max in [1, 2, 3, 8, 33, 64] {
            let mut ring = Ring::for_runs(runs_max).unwrap();
            let numbers = 1usize << ring.bits();
            assert!(numbers >= runs_max && numbers < 2 * runs_max);
            for i in 0..3 * numbers {
                if i % numbers > numbers / 2 || ring.runs() == numbers {
                    let oldest = ring.number(ring.runs() - 1);
                    assert_eq!(ring.drop_oldest(1), 1 << oldest);
                }
                let newest = ring.push().unwrap();
                assert_eq!(newest, ring.number(0));
                for run in 0..ring.runs() {
                    let mask = ring.newest_first(1 << ring.number(run));
                    assert_eq!(mask, RunMask(1 << run), "{ring:?}");
                }
                assert_eq!(ring.newest_first(u64::MAX), RunMask::all(ring.runs()));
            }
        }
        assert_eq!(Ring::for_runs(0), None);
        assert_eq!(Ring::for_runs(65), None);
    }

    #[test]
    fn a_ring_takes_as_many_runs_as_it_has_numbers() {
        let mut ring = Ring::for_runs(4).unwrap();
        for number in 0..4 {
            assert_eq!(ring.push().unwrap(), number);
        }
        assert!(ring.push().is_err());
        assert_eq!(ring.drop_oldest(9), 0b1111);
        assert_eq!(ring.push().unwrap(), 0);
    }
}
