//! The sizes of values that were read. They say how many keys are read together next, so that the
//! values take a bounded part of memory: few keys while nothing is known.

use hedgerow::Slice;

/// The keys that are read together at most.
pub(crate) const WANTED_MAX: usize = 256;
/// The first keys that are read together: nearly every pipeline has no more.
const FIRST: usize = 32;
/// The values that are read together, if they are as large as those before.
const PART_BYTES: usize = 32 << 20;

/// See the module.
#[derive(Default)]
pub(crate) struct Sizes {
    count: usize,
    bytes: usize,
}

impl Sizes {
    pub(crate) fn note(&mut self, value: Option<&Slice>) {
        self.count += 1;
        self.bytes += value.map_or(0, |it| it.len());
    }

    /// The values together are as large as a part may be.
    pub(crate) fn are_many(&self) -> bool {
        self.bytes >= PART_BYTES
    }

    /// Divides keys into those that are read together next, and those behind them. There are at
    /// most twice as many as before: larger ones may come.
    pub(crate) fn next<'k, K>(&self, keys: &'k [K]) -> (&'k [K], &'k [K]) {
        let count = match self.count {
            0 => FIRST,
            count => (PART_BYTES / (self.bytes / count).max(1)).clamp(1, WANTED_MAX.min(2 * count)),
        };
        keys.split_at(count.min(keys.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_values_are_read_in_small_parts() {
        let keys = [0; 300];
        let next = |bytes: usize, count: usize| Sizes { count, bytes }.next(&keys).0.len();
        assert_eq!(next(0, 0), FIRST);
        assert_eq!(next(0, 32), 64);
        assert_eq!(next(128 << 10, 128), WANTED_MAX);
        assert_eq!(next(128 << 20, 32), 8);
        assert_eq!(next(PART_BYTES * 2, 1), 1);
        assert_eq!(Sizes::default().next(&keys[..5]).0.len(), 5);
    }
}
