//! Decides if a self-tuning keyspace gets the advisor's design, with hysteresis.
//!
//! Three rules keep it from changing back and forth. First, it waits for two windows of operations
//! ([`Operations::window`]) after every change. By then half of the older operations have faded, so
//! operations that alternate faster look like a mixture. Second, the gain must be at least
//! [`GAIN_MIN`]. Third, the operations since the last change, as an estimate of those to come, must
//! pay for rewriting all entries. So under any workload changes cost at most the predicted savings
//! of the designs before them.

use super::advice::Constraints;
use super::device::Device;
use super::expected::expect;
use super::search::advise;
use super::workload::Workload;
use crate::base::error::Result;
use crate::base::options::Design;
use crate::base::stats::Operations;

/// The least cost of an operation relative to the new design: more than the model's error.
const GAIN_MIN: f64 = 1.15;
/// The number of designs of the search that are priced as the engine would make them.
const CANDIDATES: usize = 4;

/// Another design and its predicted saving.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Adoption {
    pub(crate) design: Design,
    /// The cost of an operation of the mix, with the present and with the new design.
    pub(crate) us_before: f64,
    pub(crate) us: f64,
}

/// True if there have been enough operations for another change, with this many entries.
pub(crate) fn is_due(operations: &Operations, entries: u64) -> bool {
    operations.since_retune >= Operations::window(entries).saturating_mul(2)
}

/// The design that should replace the present one; `None` to keep it. The memory of the constraints
/// is the tree's part of the budget.
///
/// # Errors
/// `InvalidArgument` if a number of the workload is out of bounds.
pub(crate) fn adoption(
    design: &Design,
    operations: &Operations,
    workload: &Workload,
    device: &Device,
    constraints: &Constraints,
) -> Result<Option<Adoption>> {
    let device = Device {
        block_bytes: f64::from(design.block_bytes),
        ..device.clone()
    };
    if !is_due(operations, workload.entries as u64) {
        return Ok(None);
    }
    let price = |design: &Design| -> Result<f64> {
        let expected = expect(design, workload, &device, constraints.memory_bytes as u64)?;
        Ok(expected.tree.predict(workload, &device).cost_us)
    };
    let us_before = price(design)?;
    let mut best: Option<Adoption> = None;
    let found = advise(workload, &device, constraints)?;
    for advice in found.iter().take(CANDIDATES) {
        let candidate = Design {
            compression: design.compression,
            ..advice.design(&device)
        };
        let us = price(&candidate)?;
        if best.as_ref().is_none_or(|best| us < best.us) {
            best = Some(Adoption {
                design: candidate,
                us_before,
                us,
            });
        }
    }
    let rewrite_us = device.rewrite_us(workload.entry_bytes()) + device.merge_us;
    let pays = |it: &Adoption| {
        let saved_us = (us_before - it.us) * operations.since_retune as f64;
        us_before >= it.us * GAIN_MIN && saved_us >= rewrite_us * workload.entries
    };
    Ok(best.filter(|it| it.design != *design && pays(it)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::stats::{OperationCounters, OperationKind};

    const ENTRIES: u64 = 1_000_000;

    fn constraints() -> Constraints {
        Constraints::new(16 << 20)
    }

    fn of(policy: &str) -> Design {
        Design {
            policy: policy.parse().unwrap(),
            ..Design::default()
        }
    }

    /// Plays phases of `windows` windows each, alternately of scans and of puts, and considers a
    /// change four times in each window. Returns the changes with the windows in which they were
    /// made.
    fn alternate(windows: u64, phases: u64) -> Vec<(f64, Adoption)> {
        let counters = OperationCounters::default();
        let mut design = of("tiering:16");
        let mut changes = Vec::new();
        for quarter in 0..4 * windows * phases {
            if (quarter / (4 * windows)).is_multiple_of(2) {
                counters.add(OperationKind::Seeks, ENTRIES / 4);
            } else {
                counters.add(OperationKind::Puts, ENTRIES / 4);
            }
            let operations = counters.note(ENTRIES).unwrap();
            let mix = format!("scan={},put={}", operations.seeks, operations.puts);
            let workload = Workload::new(mix.parse().unwrap(), ENTRIES as f64);
            let device = Device::nvme();
            let found = adoption(&design, &operations, &workload, &device, &constraints());
            if let Some(found) = found.unwrap() {
                design = found.design.clone();
                changes.push((quarter as f64 / 4.0, found));
                counters.retuned();
            }
        }
        changes
    }

    #[test]
    fn phases_shorter_than_a_window_are_a_mixture() {
        let changes = alternate(1, 40);
        assert_eq!(changes.len(), 1, "{changes:?}");
        assert!(changes[0].0 <= 4.0, "{changes:?}");
    }

    #[test]
    fn phases_that_last_are_followed_and_no_change_comes_soon_after_another() {
        let (windows, phases) = (12, 6);
        let changes = alternate(windows, phases);
        let count = changes.len() as u64;
        assert!((phases / 2..=2 * phases).contains(&count), "{changes:?}");
        let apart = changes.windows(2).map(|pair| pair[1].0 - pair[0].0);
        assert!(apart.fold(f64::INFINITY, f64::min) >= 2.0, "{changes:?}");
        for (_, change) in &changes {
            assert!(change.us_before >= GAIN_MIN * change.us, "{change:?}");
        }
    }

    #[test]
    fn nothing_changes_before_there_were_operations_enough() {
        let operations = Operations::of([0, 0, 1, 0, 1, 0, 0, 2 * ENTRIES - 1]);
        let workload = Workload::new("scan=1,put=1".parse().unwrap(), ENTRIES as f64);
        let device = Device::nvme();
        let found = |design: &Design, operations: &Operations| {
            adoption(design, operations, &workload, &device, &constraints()).unwrap()
        };
        let poor = of("tiering:16");
        assert_eq!(found(&poor, &operations), None);
        let due = operations.plus(&Operations::of([0, 0, 0, 0, 0, 0, 0, 1]));
        let better = found(&poor, &due).unwrap();
        // The new design stays.
        assert_eq!(found(&better.design, &due), None);
    }

    #[test]
    fn a_change_has_to_pay_for_rewriting_the_store() {
        // A scan saves about 10 µs, and rewriting an entry takes more than 100.
        let device = Device {
            read_us: 1.0,
            write_bytes_per_s: 1e6,
            ..Device::nvme()
        };
        let workload = Workload::new("scan=1,put=0.0001".parse().unwrap(), ENTRIES as f64);
        let after = |windows: u64| {
            let operations = Operations::of([0, 0, 1, 0, 0, 0, 0, windows * ENTRIES]);
            let poor = of("tiering:16");
            adoption(&poor, &operations, &workload, &device, &constraints()).unwrap()
        };
        assert_eq!(after(2), None);
        assert!(after(40).is_some());
    }
}
