//! Designs that are not assembled level by level: all of their levels have the same filter and
//! table format, and their content follows from the merge policy. Each is priced as a whole, as the
//! engine makes it.

use super::advice::{Advice, Constraints, is_worn};
use super::capacities::Capacities;
use super::device::Device;
use super::expected::expect;
use super::workload::Workload;
use crate::base::error::Result;
use crate::base::options::Design;
use crate::design::merge_policy;
use crate::design::merge_policy::geometry::Geometry;

/// All of these designs that meet the constraints.
///
/// # Errors
/// `InvalidArgument` if a number of the workload is out of bounds.
pub(super) fn whole_designs(
    workload: &Workload,
    device: &Device,
    constraints: &Constraints,
) -> Result<Vec<Advice>> {
    let mut found = Vec::new();
    for (geometry, design) in merge_policy::whole_designs(&constraints.fan_outs) {
        found.extend(price(geometry, design, workload, device, constraints)?);
    }
    Ok(found)
}

fn price(
    geometry: Geometry,
    design: Design,
    workload: &Workload,
    device: &Device,
    constraints: &Constraints,
) -> Result<Option<Advice>> {
    let design = Design {
        memtable_bytes: Some(constraints.memtable() as u64),
        ..design
    };
    let memory_bytes = constraints.memory_bytes;
    let tree = expect(&design, workload, device, memory_bytes as u64)?.tree;
    let prediction = tree.predict(workload, device);
    let has_filters = tree.levels.iter().all(|level| !level.filter.is_none());
    let fits = has_filters
        && prediction.memory.total() <= memory_bytes
        && prediction.space <= constraints.space_max
        && !is_worn(&prediction, workload, constraints);
    let ratios = geometry.ratios(tree.levels.len(), 1.0, tree.level0_runs);
    let capacities = Capacities {
        geometry,
        ratio: ratios.first().copied().unwrap_or(1.0),
        level0_runs: tree.level0_runs,
        ratios,
        entries: tree.levels.iter().map(|level| level.entries).collect(),
    };
    Ok(fits.then_some(Advice {
        capacities,
        tree,
        prediction,
        whole: Some(design),
    }))
}
