//! The entropy of run sizes and its meaning for filters.
//!
//! Let runs hold the shares `f` of the data, and divide the filter memory over them in the best
//! way. Then the false positives of a get of an absent key sum to `exp(H - bits ln^2 2)`, where `H
//! = -sum f ln f` is the entropy of the shares: `e^H` is the effective number of runs. This holds
//! for any runs, of levels, tiers or bushes; Monkey's formulas are a special case. It is exact as
//! long as every run's filter has a rate below 1.

const LN2_SQUARED: f64 = std::f64::consts::LN_2 * std::f64::consts::LN_2;

/// The entropy of runs of these sizes, in nats.
pub fn entropy(runs: &[f64]) -> f64 {
    let all: f64 = runs.iter().sum();
    let shares = runs.iter().map(|run| run / all).filter(|it| *it > 0.0);
    -shares.map(|share| share * share.ln()).sum::<f64>()
}

/// The sum of the false-positive rates of Bloom filters with `bits` per entry on average.
pub fn false_positives(runs: &[f64], bits: f64) -> f64 {
    (entropy(runs) - bits * LN2_SQUARED).exp()
}

/// The mean bits per entry at which the rates of all runs sum to `false_positives`.
pub fn bits_for(runs: &[f64], false_positives: f64) -> f64 {
    (entropy(runs) - false_positives.ln()) / LN2_SQUARED
}

/// The mean bits per entry below which the largest run should have no filter.
pub fn bits_of_saturation(runs: &[f64]) -> f64 {
    let all: f64 = runs.iter().sum();
    let largest = runs.iter().copied().fold(0.0, f64::max);
    ((entropy(runs) + (largest / all).ln()) / LN2_SQUARED).max(0.0)
}
