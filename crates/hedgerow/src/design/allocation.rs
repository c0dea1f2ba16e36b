//! The division of filter bits among the levels of a tree.
//!
//! A lookup of an absent key probes every run, so it makes `sum q p(b)` false reads, where `q` is
//! the number of runs of a level and `p(b)` the false-positive rate of a filter of `b` bits per
//! key. For the memory `sum n b` (`n` entries in a level) they are fewest if one more bit gains as
//! much everywhere: `-q p'(b) / n` is the same for all levels, the *price*. A level whose first bit
//! gains less than the price has no filter (Lagrange; N. Dayan, M. Athanassoulis, S. Idreos,
//! "Monkey: optimal navigable key-value store", 2017, section 4.1, which lacks the saturation at `p
//! = 1`). For an ideal Bloom filter this makes rates proportional to `n / q`, and `sum q p = e^(H -
//! b ln²2)`, where `H` is the entropy of the sizes of runs. Small levels cost little and get many
//! bits, so the last one can have fewer.
//!
//! Our filter is not ideal, so `p'` is that of [`bloom_lines::rate`]. The module is pure: the
//! caller describes the tree.

use std::sync::LazyLock;

use crate::base::bloom_lines;
use crate::base::page::TableId;

/// Bits per key of the first tables of a tree, in every level, if the memory decides.
pub(crate) const BITS_FIRST: f64 = 10.0;
/// `ln²2`: an ideal filter of `b` bits per key is wrong with probability `e^(-b ln²2)`.
const LN2_SQUARED: f64 = std::f64::consts::LN_2 * std::f64::consts::LN_2;
/// The most bits per key. More gain nearly nothing: with these, one of 20,000 absent keys passes.
pub(crate) const BITS_MAX: f64 = 24.0;
/// The fewest bits per key of one filter. A smaller average gives a part of the tables filters of
/// this size: a smaller filter of one probe gains less per bit than a table without one.
const BITS_MIN: f64 = 1.0;
/// Gains are tabulated at every half bit.
const STEP: f64 = 0.5;
/// The number of halvings of an interval of logarithms that find the price to the precision of a
/// float.
const HALVINGS: usize = 60;
/// The part of an error that the controller corrects at once. Written filters stay wrong until they
/// are rewritten, and a whole tree may be written at once.
const AT_ONCE: f64 = 0.5;
/// The largest part of a tree that counts as written at once.
const WRITTEN_MAX: f64 = 0.5;
/// Bounds of [`Controller::ln_theta`]: at most 1.4 bits per key above the allotment, or any number
/// below it.
const LN_THETA_MIN: f64 = -LN2_SQUARED * 1.4;
const LN_THETA_MAX: f64 = LN2_SQUARED * BITS_MAX;

/// The assumed part of gets that look for absent keys.
const ABSENT: f64 = 0.25;

/// The runs of one level, all of one size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Level {
    /// The entries of all runs.
    pub(crate) entries: f64,
    /// The filters that a lookup probes here: the number of runs, times the cost of a false
    /// positive, if that differs between levels.
    pub(crate) weight: f64,
}

/// The gain of another bit per key, as a function of the bits of a filter.
#[derive(Debug)]
pub(crate) struct Curve {
    /// Bits per key, ascending from 0 to [`BITS_MAX`], and the logarithm of the gain, descending.
    /// In between the curve is linear, which is exact for an ideal filter.
    points: Vec<(f64, f64)>,
}

/// The curve of the tables' filters.
pub(crate) static BLOOM: LazyLock<Curve> = LazyLock::new(|| Curve::of(bloom_lines::rate));

impl Curve {
    /// The curve of a filter with this false-positive rate by bits per key, from one bit on. Below
    /// one bit only a part of the tables has filters. There the curve leads to the first gain of an
    /// ideal filter, so that bits fall to 0 smoothly with the price.
    fn of(rate: impl Fn(f64) -> f64) -> Curve {
        let gain = |bits: f64| (rate(bits - STEP) - rate(bits + STEP)) / (2.0 * STEP);
        let first = (LN2_SQUARED * STEP).sinh() / STEP;
        let mut points = vec![(0.0, first.ln())];
        let mut bits = BITS_MIN + STEP;
        while bits <= BITS_MAX {
            let ln_gain = gain(bits).ln();
            // If one more probe begins to pay, the gain rises a little. There the curve stays
            // level.
            if points.last().is_none_or(|last| ln_gain < last.1) {
                points.push((bits, ln_gain));
            }
            bits += STEP;
        }
        Curve { points }
    }

    /// The bits per key at which one more gains this.
    fn bits(&self, ln_gain: f64) -> f64 {
        let above = self.points.partition_point(|point| point.1 > ln_gain);
        match (above.checked_sub(1), self.points.get(above)) {
            (None, _) => 0.0,
            (_, None) => BITS_MAX,
            (Some(before), Some(&(to, to_gain))) => {
                let (from, from_gain) = self.points[before];
                from + (to - from) * (from_gain - ln_gain) / (from_gain - to_gain)
            }
        }
    }

    /// The bits per key of each level at a price: the gain that a bit must have if all entries are
    /// one run, as a logarithm. A level without entries gets the most bits.
    pub(crate) fn at_price(&self, levels: &[Level], ln_price: f64) -> Vec<f64> {
        let entries: f64 = levels.iter().map(|level| level.entries).sum();
        let bits = |level: &Level| {
            let share = level.entries / (entries * level.weight);
            self.bits(ln_price + share.ln())
        };
        levels.iter().map(bits).collect()
    }

    /// The price at which filters take `bits_per_key` on average; the highest price if that is
    /// negative. Cost: 60 binary searches per level, some microseconds.
    pub(crate) fn ln_price(&self, levels: &[Level], bits_per_key: f64) -> f64 {
        let entries: f64 = levels.iter().map(|level| level.entries).sum();
        let filled = || levels.iter().filter(|level| level.entries > 0.0);
        let ln_share = |level: &Level| (level.entries / (entries * level.weight)).ln();
        let first = self.points.first().map_or(0.0, |point| point.1);
        let last = self.points.last().map_or(0.0, |point| point.1);
        let mut low = last - filled().map(ln_share).fold(f64::MIN, f64::max);
        let mut high = first - filled().map(ln_share).fold(f64::MAX, f64::min);
        for _ in 0..HALVINGS {
            let middle = (low + high) / 2.0;
            if average(levels, &self.at_price(levels, middle)) > bits_per_key {
                low = middle;
            } else {
                high = middle;
            }
        }
        high
    }
}

/// The gain of a bit of page cache: with `n` entries of `e` bytes it keeps `1 / (8 n e)` of the
/// data that a get may need. A price is that of gets of absent keys, times `n`.
pub(crate) fn ln_price_of_page_cache(entry_bytes: f64) -> f64 {
    -(8.0 * entry_bytes * ABSENT).ln()
}

/// The mean bits per key of all levels, from those of each level.
pub(crate) fn average(levels: &[Level], bits: &[f64]) -> f64 {
    let taken = levels
        .iter()
        .zip(bits)
        .map(|(level, bits)| level.entries * bits);
    let entries: f64 = levels.iter().map(|level| level.entries).sum();
    taken.sum::<f64>() / entries
}

/// The filter of one table in a level with `bits` per key on average. Below one bit some tables
/// have none; their numbers spread them evenly.
pub(crate) fn of_table(bits: f64, table: TableId) -> Option<f32> {
    /// The fractional parts of its multiples fill the unit interval evenly.
    const GOLDEN: f64 = 0.618_033_988_749_894_9;
    let place = (table.0 as f64 * GOLDEN).fract();
    (place < bits / BITS_MIN).then_some(bits.max(BITS_MIN) as f32)
}

/// The mean size of the filter of one table with this many entries, in such a level.
pub(crate) fn table_bytes(bits: f64, entries: u64) -> f64 {
    let part = (bits / BITS_MIN).min(1.0);
    part * bloom_lines::stored_bytes(entries as f64 * bits.max(BITS_MIN) / 8.0)
}

/// Keeps the filters of a tree at their memory. A table keeps the filter that it was written with:
/// tables that move down a level bring along the bits of the level they come from, so others must
/// have fewer.
///
/// The controller multiplies all rates by theta: `theta *= e^(g (used - wanted) / wanted)`. The
/// logarithm of a rate is its bits times `ln²2`. So `g = wanted ln²2` corrects the whole error for
/// any number of bits while a tree is written once; half of the error beside it dampens this.
/// Wanted is the allotment of the level that a table is in, so empty levels are no error.
///
/// While a tree grows by moves only, the bits of level 0 grow with the logarithm of its size, and
/// theta follows. Meanwhile filters have 2 bits per key too many (`1 / ln²2`, or somewhat more for
/// a filter that is not ideal).
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Controller {
    ln_theta: f64,
    error: f64,
}

impl Controller {
    /// The summand for the logarithm of a price.
    pub(crate) fn ln_theta(self) -> f64 {
        (self.ln_theta + AT_ONCE * self.error).clamp(LN_THETA_MIN, LN_THETA_MAX)
    }

    /// Corrects theta after this part of the entries was rewritten, when the filters have `excess`
    /// bits per key too many.
    pub(crate) fn steer(&mut self, excess: f64, written: f64) {
        self.error = LN2_SQUARED * excess;
        let step = self.error * written.clamp(0.0, WRITTEN_MAX);
        self.ln_theta = (self.ln_theta + step).clamp(LN_THETA_MIN, LN_THETA_MAX);
    }
}

#[cfg(test)]
mod tests;
