//! Whether a keyspace that tunes itself is to get another design: the advisor's, with hysteresis.
//!
//! Three things keep it from changing back and forth. It waits for two windows of operations
//! ([`Operations::window`]) after every change, by which time half of what is remembered of the time
//! before has faded, so that operations which alternate faster than that are a mixture to it. The gain
//! has to be [`GAIN_MIN`] or more. And the operations since the last change, which are taken for what
//! the new design will be used for, have to pay for rewriting all entries. So whatever a workload does,
//! changes cost at most what the designs before them were predicted to save.

use super::advice::Constraints;
use super::design::expect;
use super::device::Device;
use super::search::advise;
use super::workload::Workload;
use crate::base::error::Result;
use crate::base::options::Design;
use crate::base::stats::Operations;

/// How much dearer an operation has to be than with the new design: more than the model's error.
const GAIN_MIN: f64 = 1.15;
/// Designs of the search that are priced as the engine makes them.
const CANDIDATES: usize = 4;

/// Another design, and what it is predicted to save.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Adoption {
    pub(crate) design: Design,
    /// An operation of the mix with the design there is, and with the new one.
    pub(crate) us_before: f64,
    pub(crate) us: f64,
}

/// Whether there have been enough operations for another change, with so many entries.
pub(crate) fn is_due(operations: &Operations, entries: u64) -> bool {
    operations.since_retune >= Operations::window(entries).saturating_mul(2)
}

/// The design that a tree should have instead of the one it has; `None` if it should not. The memory of the
/// constraints is the tree's part of the budget.
///
/// # Errors
/// `InvalidArgument` if a number of the workload makes no sense.
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

    /// Plays operations in phases of so many windows each, of scans and of puts in turn, and looks
    /// four times in each window whether to change. Returns the changes, by the window in which they
    /// were made.
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
        // It stays.
        assert_eq!(found(&better.design, &due), None);
    }

    #[test]
    fn a_change_has_to_pay_for_rewriting_the_store() {
        // A scan saves some 10 µs, rewriting an entry takes more than 100.
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
