//! YCSB's generators of skewed numbers.
//!
//! Gray, Sundaresan, Englert, Baclawski, Weinberger, "Quickly generating billion-record synthetic
//! databases", 1994, as in YCSB's `ZipfianGenerator`, `ScrambledZipfianGenerator` and
//! `SkewedLatestGenerator`.

/// YCSB's constant. A smaller one is closer to uniform.
const THETA: f64 = 0.99;

/// Draws numbers below a count, the number `i` in proportion to `1 / (i + 1)^0.99`.
#[derive(Debug, Clone)]
pub(crate) struct Zipfian {
    count: u64,
    /// The sum of `1 / i^theta` for `i` from 1 to `count`.
    zeta: f64,
    eta: f64,
}

impl Zipfian {
    /// Cost: a power for each of `count`.
    pub(crate) fn new(count: u64) -> Zipfian {
        let zeta = (1..=count).map(term).sum();
        Zipfian::with_zeta(count, zeta)
    }

    fn with_zeta(count: u64, zeta: f64) -> Zipfian {
        let few = 1.0 - (2.0 / count as f64).powf(1.0 - THETA);
        let eta = few / (1.0 - (term(1) + term(2)) / zeta);
        Zipfian { count, zeta, eta }
    }

    /// Draws from `count` numbers from now on; does nothing if `count` is smaller than before.
    pub(crate) fn grow(&mut self, count: u64) {
        if count > self.count {
            let more: f64 = (self.count + 1..=count).map(term).sum();
            *self = Zipfian::with_zeta(count, self.zeta + more);
        }
    }

    pub(crate) fn draw(&self, rng: &mut fastrand::Rng) -> u64 {
        let u = rng.f64();
        let place = u * self.zeta;
        if place < 1.0 {
            return 0;
        }
        if place < 1.0 + term(2) {
            return 1.min(self.count - 1);
        }
        let power = (self.eta * u - self.eta + 1.0).powf(1.0 / (1.0 - THETA));
        // Rounding may reach the count itself.
        ((self.count as f64 * power) as u64).min(self.count - 1)
    }
}

/// A term of the sum.
fn term(i: u64) -> f64 {
    (i as f64).powf(-THETA)
}

/// Like [`Zipfian`], with the popular numbers scattered over all numbers.
#[derive(Debug, Clone)]
pub(crate) struct Scrambled {
    count: u64,
    zipfian: Zipfian,
}

impl Scrambled {
    /// YCSB draws from ten billion items and has the sum of their terms as a constant.
    const ITEMS: u64 = 10_000_000_000;
    const ZETA: f64 = 26.469_028_201_783_02;

    pub(crate) fn new(count: u64) -> Scrambled {
        Scrambled {
            count,
            zipfian: Zipfian::with_zeta(Scrambled::ITEMS, Scrambled::ZETA),
        }
    }

    pub(crate) fn draw(&self, rng: &mut fastrand::Rng) -> u64 {
        fnv_hash(self.zipfian.draw(rng)) % self.count
    }
}

/// YCSB's hash, a 64-bit FNV-1a of the number's bytes whose sign is dropped.
pub(crate) fn fnv_hash(number: u64) -> u64 {
    let hash = number
        .to_le_bytes()
        .iter()
        .fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(1_099_511_628_211)
        });
    hash.cast_signed().unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWS: usize = 200_000;

    fn frequencies(count: u64, mut draw: impl FnMut(&mut fastrand::Rng) -> u64) -> Vec<f64> {
        let mut rng = fastrand::Rng::with_seed(1);
        let mut counts = vec![0u64; count as usize];
        for _ in 0..DRAWS {
            counts[draw(&mut rng) as usize] += 1;
        }
        counts.iter().map(|n| *n as f64 / DRAWS as f64).collect()
    }

    /// The first two numbers have their exact frequency, the others approximately.
    #[test]
    fn numbers_are_as_frequent_as_their_terms_say() {
        let count = 1000;
        let zipfian = Zipfian::new(count);
        let found = frequencies(count, |rng| zipfian.draw(rng));
        let zeta: f64 = (1..=count).map(|i| (i as f64).powf(-0.99)).sum();
        // 1 / zeta for a thousand items is known: 13 % of all draws.
        assert!((1.0 / zeta - 0.1295).abs() < 0.0005, "{}", 1.0 / zeta);
        for (i, tolerance) in [(0, 0.03), (1, 0.05), (2, 0.35), (9, 0.2), (99, 0.2)] {
            let expected = ((i + 1) as f64).powf(-0.99) / zeta;
            let ratio = found[i] / expected;
            assert!((ratio - 1.0).abs() < tolerance, "{i}: {ratio}");
        }
        let head: f64 = found[..100].iter().sum();
        let expected: f64 = (1..=100).map(|i| (i as f64).powf(-0.99)).sum::<f64>() / zeta;
        assert!((head - expected).abs() < 0.02, "{head}, {expected}");
    }

    #[test]
    fn a_generator_that_grew_is_one_that_was_made_so() {
        let mut grown = Zipfian::new(10);
        grown.grow(1000);
        grown.grow(500);
        let made = Zipfian::new(1000);
        assert!((grown.zeta - made.zeta).abs() < 1e-9);
        assert!((grown.eta - made.eta).abs() < 1e-9);
        assert_eq!(grown.count, 1000);
    }

    /// The most popular of ten billion items has 1 / 26.47 of the draws.
    #[test]
    fn scrambling_keeps_the_skew_and_moves_the_numbers() {
        let count = 1000;
        let scrambled = Scrambled::new(count);
        let found = frequencies(count, |rng| scrambled.draw(rng));
        let place = (fnv_hash(0) % count) as usize;
        let top = found.iter().copied().fold(0.0, f64::max);
        assert_eq!(found[place], top);
        assert!((0.037..0.041).contains(&top), "{top}");
    }

    #[test]
    fn counts_of_one_and_two_are_drawn_from() {
        let mut rng = fastrand::Rng::with_seed(1);
        for count in [1, 2] {
            let zipfian = Zipfian::new(count);
            assert!((0..1000).all(|_| zipfian.draw(&mut rng) < count));
        }
    }

    /// The first two keys that YCSB loads are well known.
    #[test]
    fn the_hash_is_that_of_ycsb() {
        assert_eq!(fnv_hash(0), 6_284_781_860_667_377_211);
        assert_eq!(fnv_hash(1), 8_517_097_267_634_966_620);
    }
}
