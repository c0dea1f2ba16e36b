//! Adds the models' predictions to the measurements.

use hedgerow::advisor::{self, Device};
use hedgerow::simulate::{Simulation, simulate};
use hedgerow_bench::{Part, Result, Workload};
use serde_json::{Value, json};

use crate::experiments::{Step, Trial};

/// Adds to the row of a step
///
/// - `levels`: the number of levels below level 0 that hold tables;
/// - after random puts of only new keys, `entry_writes`: the writes of an entry to tables,
///   `measured`, `simulated` with merging that keeps up, simulated `at_pace`, that is at the
///   [pace](pace) that was measured with as many [merges at a time](merge_threads) as in the
///   engine, and by the advisor's `closed_form`;
/// - after YCSB's load, `device_writes`: the `share` of the device's write rate that was used, and
///   the device's name, `of`;
/// - after a mix, `cost_us`: the cost of an operation, with the [flushes and merges that puts
///   leave](Debt): `measured`; `counted`, which is its reads of the device and its bytes of flushes
///   and merges at the device's price; and `predicted` by the advisor. A read that the system's
///   cache serves takes no time, but counts.
///
/// # Errors
/// An input that the simulator or the advisor refuses.
pub(super) fn add(
    row: &mut Value,
    trial: &Trial,
    step: &Step,
    device: &Device,
    debt: &mut Debt,
) -> Result<()> {
    if let Some(levels) = row["level_bytes"].as_array() {
        let below = levels.iter().skip(1);
        row["levels"] = json!(below.filter(|bytes| bytes.as_u64() > Some(0)).count());
    }
    if trial.engine.name != "hedgerow" {
        return Ok(());
    }
    if step.workload == Workload::YcsbLoad {
        row["device_writes"] = json!({ "of": device.name, "share": write_share(row, device) });
    }
    // The simulation has one tree.
    let is_one_tree = trial.options.layout.partitioning.count() == 1;
    let is_part = step.part != Part::WHOLE;
    match step.workload {
        Workload::FillRandom | Workload::YcsbLoad if !is_one_tree || is_part => {}
        Workload::FillRandom | Workload::YcsbLoad => {
            row["entry_writes"] = entry_writes(row, trial, device)?;
        }
        Workload::Mixed => row["cost_us"] = cost_us(row, trial, step, device, debt)?,
        _ => {}
    }
    Ok(())
}

fn write_share(row: &Value, device: &Device) -> Option<f64> {
    let rate = row["storage_write_bytes"].as_f64()? / row["seconds"].as_f64()?;
    Some(rate / device.write_bytes_per_s)
}

fn entry_writes(row: &Value, trial: &Trial, device: &Device) -> Result<Value> {
    let written = row["entries_written"].as_f64().zip(row["ops"].as_f64());
    let (records, options) = (trial.settings.records, &trial.options);
    let simulated = |pace, merge_threads| -> Result<Option<f64>> {
        let report = simulate(&Simulation {
            entries: records.num,
            key_bytes: records.key_bytes as u64,
            value_bytes: records.value_bytes as u64,
            design: options.design.clone(),
            memory_budget: options.memory_budget,
            pace,
            merge_threads,
            ..Simulation::default()
        })?;
        Ok(report.points.last().map(|end| end.entry_writes))
    };
    let pace = pace(row);
    let at_pace = pace.map(|pace| simulated(Some(pace), merge_threads()));
    let at_pace = at_pace.transpose()?.flatten();
    let puts = advisor::Mix {
        put: 1.0,
        ..advisor::Mix::default()
    };
    Ok(json!({
        "measured": written.map(|(written, ops)| written / ops),
        "simulated": simulated(None, 1)?,
        "pace": pace,
        "at_pace": at_pace,
        "closed_form": predict(trial, puts, 10, device)?.entry_writes,
    }))
}

/// The merges at a time while writers are held back: as many as processors, by
/// `Environment::os`.
fn merge_threads() -> usize {
    std::thread::available_parallelism().map_or(2, |processors| processors.get().clamp(2, 64))
}

/// The bytes that a thread merges while writers that nothing holds back write one. By processor
/// time, which leaves out stalls, waits for the device, and other programs.
fn pace(row: &Value) -> Option<f64> {
    let rate = |bytes: &str, activity: &str| {
        Some(row[bytes].as_f64()? / row["activities"][activity].as_f64()?)
    };
    let put = rate("user_bytes", "foreground")? * row["threads"].as_f64()?;
    let pace = rate("merge_read_bytes", "merge")? / put;
    (pace > 0.0 && pace.is_finite()).then_some(pace)
}

/// The time of flushes and merges per put, in microseconds, from the mix of a trial with the most
/// puts. Merges are rare and large, so a mix of few puts may see none.
#[derive(Debug, Default)]
pub(super) struct Debt {
    puts: f64,
    measured_us: f64,
    counted_us: f64,
}

impl Debt {
    fn learn(&mut self, row: &Value, puts: f64, device: &Device) {
        if puts <= self.puts {
            return;
        }
        let number = |name: &str| row[name].as_f64().unwrap_or(0.0);
        let written = number("flush_bytes") + number("merge_write_bytes");
        let counted = written / device.write_bytes_per_s
            + number("merge_read_bytes") / device.read_bytes_per_s;
        *self = Debt {
            puts,
            measured_us: 1e6 * number("settle_seconds") / puts,
            counted_us: 1e6 * counted / puts,
        };
    }
}

fn cost_us(
    row: &Value,
    trial: &Trial,
    step: &Step,
    device: &Device,
    debt: &mut Debt,
) -> Result<Value> {
    let number = |name: &str| row[name].as_f64().unwrap_or(0.0);
    let ops = number("ops").max(1.0);
    let share = step.mix.put;
    debt.learn(row, share * ops, device);
    Ok(json!({
        "measured": 1e6 * number("seconds") / ops + share * debt.measured_us,
        "counted": number("device_reads") / ops * device.read_us + share * debt.counted_us,
        "predicted": predict(trial, step.mix, step.seek_nexts, device)?.cost_us,
    }))
}

fn predict(
    trial: &Trial,
    mix: advisor::Mix,
    seek_nexts: u64,
    device: &Device,
) -> Result<advisor::Prediction> {
    let (workload, options) = (workload(trial, mix, seek_nexts), &trial.options);
    let expected = advisor::expect(&options.design, &workload, device, options.memory_budget)?;
    Ok(expected.tree.predict(&workload, device))
}

/// The advisor's workload for a mix over the records of a trial.
pub(super) fn workload(trial: &Trial, mix: advisor::Mix, seek_nexts: u64) -> advisor::Workload {
    let records = trial.settings.records;
    advisor::Workload {
        key_bytes: records.key_bytes as f64,
        value_bytes: records.value_bytes as f64,
        scan_entries: seek_nexts as f64,
        ..advisor::Workload::new(mix, records.num as f64)
    }
}
