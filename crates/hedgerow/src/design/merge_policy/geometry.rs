//! Geometries: the ratio of each level to the one above, policy by policy, as the advisor prices
//! them.

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
    pub(in crate::design) fn usual() -> Vec<Geometry> {
        let scalings = [0.95, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4];
        let mut geometries = vec![Geometry::Uniform, Geometry::FrontLoaded];
        geometries.extend(scalings.map(|scaling| Geometry::Garnering { scaling }));
        geometries.push(Geometry::Bush);
        geometries
    }

    /// Returns true if the search tries trees of this many levels. Tries are priced as a whole.
    pub(in crate::design) fn is_sensible(self, levels: usize, level0_runs: f64) -> bool {
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
