//! How filter bits are divided among the levels of a tree.
//!
//! A lookup of an absent key asks every run, so it makes `sum q p(b)` false reads, `q` being the
//! runs of a level and `p(b)` the false-positive rate of a filter of `b` bits per key. They are
//! fewest for the memory `sum n b` (`n` entries in a level) where one more bit gains as much
//! everywhere: `-q p'(b) / n` is the same for all levels, its *price*; a level whose first bit gains
//! less than the price has no filter (Lagrange; N. Dayan, M. Athanassoulis, S. Idreos, "Monkey:
//! optimal navigable key-value store", 2017, section 4.1, which lacks the saturation at `p = 1`). For
//! an ideal Bloom filter this makes rates proportional to `n / q`, and
//! `sum q p = e^(H - b ln²2)`, `H` being the entropy of the sizes of runs: small levels cost little
//! and get many bits, so that the last one can have fewer.
//!
//! Our filter is not ideal, so `p'` is that of [`bloom::rate`]. All of this is pure; what a tree
//! looks like is for the caller to say.

use std::sync::LazyLock;

use crate::base::page::TableId;

use crate::table::filter::bloom;

/// Bits per key of the first tables of a tree, in every level, where the memory is to decide.
pub(crate) const BITS_FIRST: f64 = 10.0;
/// `ln²2`: an ideal filter of `b` bits per key is wrong with probability `e^(-b ln²2)`.
const LN2_SQUARED: f64 = std::f64::consts::LN_2 * std::f64::consts::LN_2;
/// More bits per key than these gain nearly nothing: with them one of 20,000 absent keys passes.
pub(crate) const BITS_MAX: f64 = 24.0;
/// The fewest bits per key of one filter. Fewer on average are filters of so many for a part of the
/// tables: below this, a filter of one probe gains less per bit than having none in some tables.
const BITS_MIN: f64 = 1.0;
/// Gains are tabulated at every half bit.
const STEP: f64 = 0.5;
/// The price is found by halving an interval of logarithms so often: to the precision of a float.
const HALVINGS: usize = 60;
/// What the controller corrects at once, as a part of an error: what was written before stays wrong until
/// it is written anew, and a tree may be written as a whole.
const AT_ONCE: f64 = 0.5;
/// The part of a tree that counts as written at once, at most.
const WRITTEN_MAX: f64 = 0.5;
/// Bounds of [`Controller::ln_theta`]: at most 1.4 bits per key more than allotted, or any number
/// fewer.
const LN_THETA_MIN: f64 = -LN2_SQUARED * 1.4;
const LN_THETA_MAX: f64 = LN2_SQUARED * BITS_MAX;

/// The part of all gets that is thought to look for absent keys.
const ABSENT: f64 = 0.25;

/// The runs of one level, of the same size each.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Level {
    /// Of all runs together.
    pub(crate) entries: f64,
    /// How many filters a lookup asks here: the runs; times how dear a false positive is, if that
    /// differs between levels.
    pub(crate) weight: f64,
}

/// What another bit per key gains, by the bits that a filter has.
#[derive(Debug)]
pub(crate) struct Curve {
    /// Bits per key, and the logarithm of the gain: the first ascending from 0 to [`BITS_MAX`], the
    /// second descending. In between it is linear, which is exact for an ideal filter.
    points: Vec<(f64, f64)>,
}

/// The curve of the filter that tables have.
pub(crate) static BLOOM: LazyLock<Curve> = LazyLock::new(|| Curve::of(bloom::rate));

impl Curve {
    /// Of a filter with this rate of false positives by bits per key, from one bit on. Below, where
    /// only a part of the tables has filters, the curve is led to what an ideal filter begins with,
    /// so that bits fall to 0 smoothly with the price.
    fn of(rate: impl Fn(f64) -> f64) -> Curve {
        let gain = |bits: f64| (rate(bits - STEP) - rate(bits + STEP)) / (2.0 * STEP);
        let first = (LN2_SQUARED * STEP).sinh() / STEP;
        let mut points = vec![(0.0, first.ln())];
        let mut bits = BITS_MIN + STEP;
        while bits <= BITS_MAX {
            let ln_gain = gain(bits).ln();
            // Where one more probe begins to pay, the gain rises a little: there it stays level.
            if points.last().is_none_or(|last| ln_gain < last.1) {
                points.push((bits, ln_gain));
            }
            bits += STEP;
        }
        Curve { points }
    }

    /// The bits per key from which one more gains this.
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

    /// The bits per key of each level at a price: the gain that a bit must have where all entries
    /// are one run, as a logarithm. A level without entries has the most.
    pub(crate) fn at_price(&self, levels: &[Level], ln_price: f64) -> Vec<f64> {
        let entries: f64 = levels.iter().map(|level| level.entries).sum();
        let bits = |level: &Level| {
            let share = level.entries / (entries * level.weight);
            self.bits(ln_price + share.ln())
        };
        levels.iter().map(bits).collect()
    }

    /// The price at which filters take so many bits per key on average; the highest if that is even
    /// less than none.
    /// Cost: 60 times a binary search for each level, some microseconds.
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

/// What a bit of page cache gains: of `n` entries of `e` bytes, it keeps `1 / (8 n e)` of what any get
/// may want. A price is that of gets of absent keys, times `n`.
pub(crate) fn ln_price_of_page_cache(entry_bytes: f64) -> f64 {
    -(8.0 * entry_bytes * ABSENT).ln()
}

/// The bits per key of all levels together, of so many in each.
pub(crate) fn average(levels: &[Level], bits: &[f64]) -> f64 {
    let taken = levels
        .iter()
        .zip(bits)
        .map(|(level, bits)| level.entries * bits);
    let entries: f64 = levels.iter().map(|level| level.entries).sum();
    taken.sum::<f64>() / entries
}

/// The filter of one table of a level that has `bits` per key on average: below one bit, some tables
/// have none. Which ones is spread evenly by their numbers.
pub(crate) fn of_table(bits: f64, table: TableId) -> Option<f32> {
    /// The fractions of its multiples fill the unit interval evenly.
    const GOLDEN: f64 = 0.618_033_988_749_894_9;
    let place = (table.0 as f64 * GOLDEN).fract();
    (place < bits / BITS_MIN).then_some(bits.max(BITS_MIN) as f32)
}

/// What the filter of one table of so many entries takes on average, in such a level.
pub(crate) fn table_bytes(bits: f64, entries: u64) -> f64 {
    let part = (bits / BITS_MIN).min(1.0);
    part * bloom::stored_bytes(entries as f64 * bits.max(BITS_MIN) / 8.0)
}

/// Keeps what the filters of a tree take at what they may take, although a table keeps the filter
/// that it was written with: tables that go down a level without being rewritten bring along the
/// bits of the level that they come from, so that others have to have fewer.
///
/// It multiplies all rates by theta: `theta *= e^(g (used - wanted) / wanted)`. A rate's logarithm is
/// its bits times `ln²2`, so `g = wanted ln²2` corrects the whole error, whatever the number of bits,
/// while a tree is written once; half of the error beside it dampens this. Wanted is what the level that a
/// table is in is allotted, so that levels that are empty for a while are no error.
///
/// While a tree grows by moves alone, the bits of level 0 grow with the logarithm of its size, and
/// theta follows: as long as it does, filters have 2 bits per key too many (`1 / ln²2`, or somewhat more
/// where the filter is not ideal).
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Controller {
    ln_theta: f64,
    error: f64,
}

impl Controller {
    /// To be added to the logarithm of a price.
    pub(crate) fn ln_theta(self) -> f64 {
        (self.ln_theta + AT_ONCE * self.error).clamp(LN_THETA_MIN, LN_THETA_MAX)
    }

    /// So much of a tree, as a part of its entries, was written anew, and its filters have `excess` bits
    /// per key more than they should have.
    pub(crate) fn steer(&mut self, excess: f64, written: f64) {
        self.error = LN2_SQUARED * excess;
        let step = self.error * written.clamp(0.0, WRITTEN_MAX);
        self.ln_theta = (self.ln_theta + step).clamp(LN_THETA_MIN, LN_THETA_MAX);
    }
}

#[cfg(test)]
mod tests;
