//! Capacities of levels: from the ratios of a geometry to a tree that holds all data when full.

/// The relation of the ratios of neighbouring levels. The ratio T is solved for, not chosen: with
/// `L` levels it makes the capacities sum to the data.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Geometry {
    /// T everywhere: leveling, tiering, lazy leveling.
    Uniform,
    /// The first level takes all runs of level 0 at once and is T times as large as these together;
    /// T below.
    FrontLoaded,
    /// T / c^(L - i): the ratio grows towards small levels [Autumn, equation 4].
    Garnering {
        /// The scaling factor, 0 < c <= 1; 1 is [`Geometry::Uniform`].
        scaling: f64,
    },
    /// The fan-out everywhere. The content of levels follows from the fill of nodes.
    Trie {
        /// Children of a node.
        fan_out: u32,
    },
    /// T^(2^(L - 1 - i)), and T for the last level: the tree of quasi-logarithmic depth that
    /// Autumn compares with (QLSM-bush, X = 2).
    Bush,
}

/// The deepest bush; its ratios grow doubly exponentially.
const BUSH_LEVELS_MAX: usize = 6;

impl Geometry {
    /// The geometries that are tried by default.
    pub(super) fn usual() -> Vec<Geometry> {
        let scalings = [0.95, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4];
        let mut geometries = vec![Geometry::Uniform, Geometry::FrontLoaded];
        geometries.extend(scalings.map(|scaling| Geometry::Garnering { scaling }));
        geometries.push(Geometry::Bush);
        geometries
    }

    /// Returns true if the search tries trees of this many levels. Tries are priced as a whole.
    pub(super) fn is_sensible(self, levels: usize, level0_runs: f64) -> bool {
        match self {
            Geometry::Uniform => true,
            Geometry::FrontLoaded => level0_runs > 1.0,
            Geometry::Garnering { .. } => levels > 1,
            Geometry::Bush => (3..=BUSH_LEVELS_MAX).contains(&levels),
            Geometry::Trie { .. } => false,
        }
    }

    /// The ratios of `levels` levels from level 1 down.
    pub fn ratios(self, levels: usize, ratio: f64, level0_runs: f64) -> Vec<f64> {
        let ratio_of = |level: usize| match self {
            Geometry::Uniform => ratio,
            Geometry::Trie { fan_out } => f64::from(fan_out),
            Geometry::FrontLoaded if level == 1 => ratio * level0_runs,
            Geometry::FrontLoaded => ratio,
            Geometry::Garnering { scaling } => ratio / scaling.powi((levels - level) as i32),
            Geometry::Bush if level == levels => ratio,
            Geometry::Bush => ratio.powf(2_f64.powi((levels - 1 - level) as i32)),
        };
        (1..=levels).map(ratio_of).collect()
    }
}

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
