//! Tries in the advice. All levels of a trie have the same filter and table format, and their
//! content follows from the fill of the nodes. So a trie is not assembled level by level. It is
//! priced as a whole, as the engine makes it.

use super::advice::{Advice, Constraints, is_worn};
use super::device::Device;
use super::expected::{expect, trie};
use super::geometry::{Capacities, Geometry};
use super::workload::Workload;
use crate::base::error::Result;
use crate::base::options::{Design, FilterSpec};

/// Bits per key of the filters.
const BITS: [f32; 6] = [8.0, 10.0, 12.0, 14.0, 16.0, 20.0];

/// All tries that meet the constraints.
///
/// # Errors
/// `InvalidArgument` if a number of the workload is out of bounds.
pub(super) fn tries(
    workload: &Workload,
    device: &Device,
    constraints: &Constraints,
) -> Result<Vec<Advice>> {
    let mut found = Vec::new();
    for &fan_out in &constraints.fan_outs {
        for bits_per_key in BITS {
            for filter in [
                FilterSpec::Bloom { bits_per_key },
                FilterSpec::Cluster { bits_per_key },
            ] {
                found.extend(price(fan_out, filter, workload, device, constraints)?);
            }
        }
    }
    Ok(found)
}

fn price(
    fan_out: u32,
    filter: FilterSpec,
    workload: &Workload,
    device: &Device,
    constraints: &Constraints,
) -> Result<Option<Advice>> {
    let design = Design {
        memtable_bytes: Some(constraints.memtable() as u64),
        ..trie(fan_out, filter)
    };
    let memory_bytes = constraints.memory_bytes;
    let tree = expect(&design, workload, device, memory_bytes as u64)?.tree;
    let prediction = tree.predict(workload, device);
    let has_filters = tree.levels.iter().all(|level| !level.filter.is_none());
    let fits = has_filters
        && prediction.memory.total() <= memory_bytes
        && prediction.space <= constraints.space_max
        && !is_worn(&prediction, workload, constraints);
    let capacities = Capacities {
        geometry: Geometry::Trie { fan_out },
        ratio: f64::from(fan_out),
        level0_runs: tree.level0_runs,
        ratios: vec![f64::from(fan_out); tree.levels.len()],
        entries: tree.levels.iter().map(|level| level.entries).collect(),
    };
    Ok(fits.then_some(Advice {
        capacities,
        tree,
        prediction,
    }))
}
