//! Capacities of levels: from the ratios of a geometry to a tree that holds all data when full.

use crate::design::merge_policy::geometry::Geometry;

/// A geometry with its ratio and capacities, in entries.
#[derive(Debug, Clone, PartialEq)]
pub struct Capacities {
    /// The geometry.
    pub geometry: Geometry,
    /// The solved ratio T.
    pub ratio: f64,
    /// Runs of level 0 that are merged down together.
    pub level0_runs: f64,
    /// The ratio of each level to the one above, from level 1.
    pub ratios: Vec<f64>,
    /// The entries of each full level; they sum to the data.
    pub entries: Vec<f64>,
}

const RATIO_MIN: f64 = 1.5;
const RATIO_MAX: f64 = 1e5;

impl Capacities {
    /// The geometry's tree of `levels` levels over memtables of `memtable` entries that holds
    /// `entries`; `None` if no sensible ratio does.
    pub fn solve(
        geometry: Geometry,
        levels: usize,
        level0_runs: f64,
        entries: f64,
        memtable: f64,
    ) -> Option<Capacities> {
        if entries <= memtable * 1.05 {
            return None;
        }
        let ratios = |ratio| geometry.ratios(levels, ratio, level0_runs);
        let holds = |ratio| sizes(&ratios(ratio), memtable).iter().sum::<f64>();
        let ratio = bisect(1.05, 1e7, 80, |ratio| holds(ratio) < entries);
        let ratios = ratios(ratio);
        if ratio > RATIO_MAX || ratios.iter().any(|it| *it < RATIO_MIN) {
            return None;
        }
        Some(Capacities {
            geometry,
            ratio,
            level0_runs,
            entries: sizes(&ratios, memtable),
            ratios,
        })
    }

    /// The arrivals that fill each level: its ratio; for the first level, its ratio over the runs
    /// of level 0 that arrive at once.
    pub fn steps(&self) -> Vec<f64> {
        let mut steps = self.ratios.clone();
        if let Some(first) = steps.first_mut() {
            *first /= self.level0_runs;
        }
        steps
    }
}

/// The entries of levels of these ratios below a memtable of this size.
pub(crate) fn sizes(ratios: &[f64], memtable: f64) -> Vec<f64> {
    let grow = |size: &mut f64, ratio: &f64| {
        *size *= ratio;
        Some(*size)
    };
    ratios.iter().scan(memtable, grow).collect()
}

/// Bisects the interval on a logarithmic scale. `below` holds at its lower end.
pub(crate) fn bisect(low: f64, high: f64, steps: usize, below: impl Fn(f64) -> bool) -> f64 {
    let halve = |(low, high): (f64, f64), _| {
        let middle = (low * high).sqrt();
        if below(middle) {
            (middle, high)
        } else {
            (low, middle)
        }
    };
    let (low, high) = (0..steps).fold((low, high), halve);
    (low * high).sqrt()
}
