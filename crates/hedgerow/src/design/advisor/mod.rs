//! The advisor: which tree is the cheapest for a workload on a device.
//!
//! A tree is described by its *capacities* ([`Geometry`]: how ratios relate from level to level) and,
//! for each level alone, by its number of runs, its filter with its bits, where its index is, and
//! how much of its data is in memory. What an operation costs, and what memory is taken, are sums
//! over levels, so the best tree within a memory budget is found exactly, in milliseconds
//! ([`advise`]), and any other can be priced ([`Tree::predict`]). Monkey's and Autumn's filter
//! allocation, Dostoevsky's fluid trees, SlimDB's choice of a design per level and the caching of
//! small levels are all inside: no named policy is cheaper in this model than what the search finds.
//!
//! What the model does not know: skewed keys, compression, tombstones, queues and stalls, tails of
//! latency. Levels are full, keys uniform. Its ranking is worth more than its microseconds.
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
mod autumn;
mod cost;
mod design;
mod device;
mod entropy;
mod geometry;
mod growth;
mod search;
mod slimdb;
mod tree;
mod tries;
mod workload;

#[cfg(test)]
mod tests;

pub(crate) use adoption::{Adoption, adoption, is_due};
pub use advice::{Advice, Constraints};
pub use autumn::{Growth, PaperPolicy, Symbols};
pub use cost::{Costs, Filter, Index, Level, Merges};
pub use design::{Expected, expect};
pub use device::{Device, Objective};
pub use entropy::{bits_for, bits_of_saturation, entropy, false_positives};
pub use geometry::{Capacities, Geometry, sizes};
pub use search::advise;
pub use slimdb::{SlimDb, SlimDbDesign, SlimDbLayout, SlimDbMix};
pub use tree::{Memory, Prediction, Tree};
pub use workload::{Mix, Workload};
