//! The advisor: the cheapest tree for a workload on a device.
//!
//! A tree is described by its *capacities* ([`Geometry`]: the ratios from level to level) and, for
//! each level alone, by its number of runs, its filter and the bits of that, the place of its
//! index, and the cached part of its data. The cost of an operation and the memory are sums over
//! levels. So the best tree within a memory budget is found exactly, in milliseconds ([`advise`]),
//! and any other tree can be priced ([`TreeModel::predict`]). The model contains Monkey's and
//! Autumn's filter allocation, Dostoevsky's fluid trees, SlimDB's choice of a design per level and
//! the caching of small levels: no named policy is cheaper in it than the result of the search.
//!
//! The model ignores skewed keys, compression, tombstones, queues and stalls, and tails of latency.
//! Levels are full, and keys uniform. Trust its ranking more than its microseconds.
//!
//! ```
//! use hedgerow::advisor::{Constraints, Device, Workload, advise};
//!
//! let workload = Workload::new("get=0.3,miss=0.1,scan=0.1,put=0.5".parse()?, 1e8);
//! let found = advise(&workload, &Device::nvme(), &Constraints::new(256 << 20))?;
//! let best = &found[0];
//! assert!(best.prediction.cost_us < 50.0 && best.prediction.entry_writes < 60.0);
//! assert!(found.iter().all(|other| other.prediction.cost_us >= best.prediction.cost_us));
//! # Ok::<(), hedgerow::Error>(())
//! ```
//!
//! Pure: numbers in, numbers out.

mod adoption;
mod advice;
mod capacities;
mod cost;
mod device;
mod expected;
mod growth;
mod prediction;
mod search;
mod whole_designs;
mod workload;

#[cfg(test)]
mod tests;

pub use crate::base::options::{Filter, Index};
pub use crate::design::merge_policy::geometry::Geometry;
pub(crate) use adoption::{Adoption, adoption, is_due};
pub use advice::{Advice, Constraints};
pub use capacities::Capacities;
pub use cost::{Costs, Level, Merges};
pub use device::{Device, Objective};
pub use expected::{ExpectedTree, expect};
pub use prediction::{Memory, Prediction, TreeModel};
pub use search::advise;
pub use workload::{Mix, Workload};
