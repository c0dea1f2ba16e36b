//! Medians of repeated measurements.

/// The median; for an even count, the mean of the two middle numbers.
pub fn median(numbers: impl Iterator<Item = f64>) -> Option<f64> {
    let mut numbers: Vec<f64> = numbers.collect();
    numbers.sort_by(f64::total_cmp);
    let middle = numbers.len() / 2;
    match numbers.len() {
        0 => None,
        n if n % 2 == 1 => Some(numbers[middle]),
        _ => Some(f64::midpoint(numbers[middle - 1], numbers[middle])),
    }
}
