//! A pure function of sizes says which levels keep their clusters in memory, and which share pages.
//!
//! Small levels come first: a run of a small level costs a get as much as one of a large level,
//! and its filters are smaller. A deeper level keeps its newest clusters in memory as long as the
//! levels above still have the room that they need when they are full.

use crate::base::options::Residency;

/// Filters take this many times their bits, with lengths and the ends of pages.
const OVERHEAD: f64 = 1.1;
/// The resident levels may take this part of the memory of filters. Tails have the rest.
pub(crate) const RESIDENT_SHARE: f64 = 0.75;
/// A level shares pages with those below if it has at least this part of their filters. Each table
/// of a smaller one would have far larger clusters written again.
const SHARED_PART: f64 = 1.0 / 64.0;

/// The filters of one level.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LevelFilters {
    /// The present bits.
    pub(crate) now: f64,
    /// Bits when the level is full.
    pub(crate) full: f64,
}

/// A base is at least this many times as large as its tail.
const TAIL_IN_MEMORY: u64 = 4;
/// A base is at least this many times as large as a tail that memory lacks room for: every get
/// reads a page of such a tail.
const TAIL_OF_PAGES: u64 = 16;

/// The levels of a tree whose clusters are in memory, and those that share clusters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Plan {
    /// The levels before this one keep all their clusters in memory.
    pub(crate) resident: usize,
    /// A group of this level shares clusters with the groups of its range in deeper levels. A group
    /// of a level before has its own.
    pub(crate) shared: usize,
    /// The bytes that stay free for resident levels that are not full.
    pub(crate) reserve: u64,
    /// A base is at least this many times as large as a tail with pages.
    tail_of_pages: u64,
}

impl Plan {
    /// The plan for levels from 0 with `memory_bits` of memory for filters.
    pub(crate) fn new(levels: &[LevelFilters], memory_bits: f64, residency: Residency) -> Plan {
        let mut left = match residency {
            Residency::Auto => memory_bits,
            Residency::Resident => f64::INFINITY,
            Residency::Paged => -1.0,
        };
        let fits = |level: &&LevelFilters| {
            left -= level.full.max(level.now) * OVERHEAD;
            left >= 0.0
        };
        let resident = levels.iter().take_while(fits).count();
        let coming = |level: &LevelFilters| (level.full - level.now).max(0.0);
        let reserve: f64 = levels[..resident].iter().map(coming).sum();
        let is_shared = |&level: &usize| {
            let below: f64 = levels[level..].iter().map(|it| it.now).sum();
            levels[level].full.max(levels[level].now) >= below * SHARED_PART
        };
        let shared = match residency {
            // A tail that has no memory would be written again by every flush.
            Residency::Paged => None,
            Residency::Auto | Residency::Resident => (resident..levels.len()).find(is_shared),
        };
        Plan {
            resident,
            shared: shared.unwrap_or(levels.len()),
            tail_of_pages: match residency {
                Residency::Paged => TAIL_IN_MEMORY,
                Residency::Auto | Residency::Resident => TAIL_OF_PAGES,
            },
            reserve: (reserve * OVERHEAD / 8.0) as u64,
        }
    }

    /// True if base and tail are to become the next base. Both are numbers of entries.
    pub(crate) fn is_base_due(&self, base: u64, tail: u64, tail_is_in_memory: bool) -> bool {
        let times = match tail_is_in_memory {
            true => TAIL_IN_MEMORY,
            false => self.tail_of_pages,
        };
        tail.saturating_mul(times) > base
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first level that is not resident, the first that is shared, and the reserve, for
    /// half-full levels. Sizes are in kilobits.
    fn plan(half: &[f64], memory: f64) -> (usize, usize, u64) {
        let level = |half: &f64| LevelFilters {
            now: half * 1000.0,
            full: half * 2000.0,
        };
        let levels: Vec<_> = half.iter().map(level).collect();
        let plan = Plan::new(&levels, memory * 1000.0 * OVERHEAD, Residency::Auto);
        let reserve = plan.reserve as f64 * 8.0 / OVERHEAD / 1000.0;
        (plan.resident, plan.shared, reserve.round() as u64)
    }

    #[test]
    fn small_levels_are_in_memory_and_those_that_are_not_share_pages() {
        let levels = [1.0, 8.0, 64.0, 512.0];
        assert_eq!(plan(&levels, 1200.0), (4, 4, 585));
        assert_eq!(plan(&levels, 200.0), (3, 3, 73));
        assert_eq!(plan(&levels, 116.0), (2, 2, 9));
        assert_eq!(plan(&levels, 10.0), (1, 1, 1));
        assert_eq!(plan(&levels, 1.0), (0, 1, 0));
        // The last level has only begun.
        assert_eq!(plan(&[1.0, 8.0, 64.0, 1.0], 14.0), (1, 1, 1));
        assert_eq!(plan(&[], 7.0), (0, 0, 0));
    }

    /// The average number of times that each of 1 to 64 runs is written, and the sizes of bases.
    fn written(is_in_memory: bool) -> (Vec<f64>, Vec<u64>) {
        let plan = Plan::new(&[], 0.0, Residency::Auto);
        let (mut base, mut tail, mut written) = (0, 0, 0_u32);
        let (mut averages, mut bases) = (Vec::new(), Vec::new());
        for runs in 1..=64 {
            (tail, written) = (tail + 1, written + 1);
            if base == 0 {
                // The first one only leaves the memory.
                (base, tail) = (1, 0);
            } else if plan.is_base_due(base, tail, is_in_memory) {
                (base, tail) = (base + tail, 0);
                written += base as u32;
                bases.push(base);
            }
            averages.push(f64::from(written) / f64::from(runs));
            assert!(
                tail * 5 <= runs as u64,
                "{tail} of {runs} runs are in memory"
            );
        }
        (averages, bases)
    }

    /// The filters of a table are written with it, and again with each base that they go into. The
    /// number of runs does not matter. At 2.3 bytes a key (`cluster::tests::pile`) that is 0.11 of
    /// an entry of 116 bytes.
    #[test]
    fn a_filter_is_written_as_often_in_a_high_pile_as_in_a_low_one() {
        let (averages, bases) = written(true);
        assert!(
            averages.iter().all(|average| *average <= 5.5),
            "{averages:?}"
        );
        assert_eq!(bases, [2, 3, 4, 6, 8, 11, 14, 18, 23, 29, 37, 47, 59]);
        let (averages, _) = written(false);
        assert!(
            averages.iter().all(|average| *average <= 17.5),
            "{averages:?}"
        );
    }
}
