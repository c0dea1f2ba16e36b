//! Medians over rounds and ratios between stores.

use std::fmt::Write;

use serde_json::Value;

use crate::flags::Task;
use crate::stores::Kind;

/// All results of a comparison: what each store said, by place of the task in its list.
#[derive(Debug, Default)]
pub(crate) struct Results(Vec<(Kind, usize, Value)>);

impl Results {
    pub(crate) fn add(&mut self, store: Kind, task: usize, result: Value) {
        self.0.push((store, task, result));
    }

    /// As they came.
    pub(crate) fn all(&self) -> Vec<Value> {
        self.0.iter().map(|(.., result)| result.clone()).collect()
    }

    /// A row for each task and store.
    pub(crate) fn table(&self, tasks: &[Task], stores: &[Kind]) -> String {
        let mut table = format!(
            "{:<20} {:<9} {:>11} {:>23} {:>9} {:>8} {:>8} {:>9} {:>6} {:>6} {:>8}\n",
            "workload",
            "store",
            "ops/s",
            "least to most",
            "ours/its",
            "p50 us",
            "p99 us",
            "max ms",
            "wr amp",
            "stored",
            "device"
        );
        for (i, task) in tasks.iter().enumerate() {
            let ours = median(self.of(Kind::Hedgerow, i, "/ops_per_second"));
            for &store in stores {
                let rate = self.of(store, i, "/ops_per_second");
                let Some(middle) = median(rate.clone()) else {
                    continue;
                };
                let worst = self
                    .of(store, i, "/latency_us/max")
                    .into_iter()
                    .fold(0.0, f64::max);
                let _ = writeln!(
                    table,
                    "{:<20} {:<9} {:>11} {:>23} {:>9} {:>8} {:>8} {:>9.1} {:>6} {:>6} {:>8}",
                    task.to_string(),
                    store.name(),
                    thousands(middle),
                    range(&rate),
                    decimal(ours.map(|ours| ours / middle), 2),
                    decimal(median(self.of(store, i, "/latency_us/p50")), 1),
                    decimal(median(self.of(store, i, "/latency_us/p99")), 1),
                    worst / 1000.0,
                    decimal(median(self.of(store, i, "/write_amplification")), 2),
                    decimal(self.stored(store, i), 2),
                    self.device(store, i).map_or("-".to_owned(), thousands),
                );
            }
        }
        table
    }

    /// Bytes that went to storage, log and all, over those that the user wrote.
    fn stored(&self, store: Kind, task: usize) -> Option<f64> {
        let bytes = median(self.of(store, task, "/storage_write_bytes"))?;
        let user_bytes = median(self.of(store, task, "/user_bytes"))?;
        (user_bytes > 0.0).then(|| bytes / user_bytes)
    }

    /// Random reads per second of the device at depth 32, the mean of before and after.
    fn device(&self, store: Kind, task: usize) -> Option<f64> {
        let at = |when: &str| {
            let field = format!("/device_reads_per_second/{when}/depth_32");
            median(self.of(store, task, &field))
        };
        Some((at("before")? + at("after")?) / 2.0)
    }

    fn of(&self, store: Kind, task: usize, field: &str) -> Vec<f64> {
        let results = self.0.iter().filter(|(s, t, _)| (*s, *t) == (store, task));
        results
            .filter_map(|(_, _, result)| result.pointer(field)?.as_f64())
            .collect()
    }
}

/// The middle one; of an even number, the lower of the two.
fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len().checked_sub(1)? / 2;
    values.get(middle).copied()
}

fn range(values: &[f64]) -> String {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(0.0, f64::max);
    format!("{} to {}", thousands(least), thousands(most))
}

fn decimal(value: Option<f64>, digits: usize) -> String {
    value.map_or("-".to_owned(), |value| format!("{value:.digits$}"))
}

/// `1,234,567`.
fn thousands(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rows_show_medians_and_ratios() {
        let tasks = ["readrandom@2".parse().unwrap()];
        let mut results = Results::default();
        for (store, rates) in [
            (Kind::Hedgerow, [3000.0, 1000.0, 2000.0]),
            (Kind::Leveldb, [500.0, 1_000_000.0, 1000.0]),
        ] {
            for rate in rates {
                let result = json!({
                    "ops_per_second": rate,
                    "latency_us": { "p50": 1.5, "p99": 9.0, "max": rate },
                });
                results.add(store, 0, result);
            }
        }
        let table = results.table(&tasks, &[Kind::Hedgerow, Kind::Leveldb, Kind::Fjall]);
        let rows: Vec<Vec<&str>> = table
            .lines()
            .map(|l| l.split_whitespace().collect())
            .collect();
        assert_eq!(rows.len(), 3, "fjall was not measured: {table}");
        assert_eq!(
            rows[1][..7],
            [
                "readrandom@2",
                "hedgerow",
                "2,000",
                "1,000",
                "to",
                "3,000",
                "1.00"
            ]
        );
        assert_eq!(
            rows[2][..7],
            [
                "readrandom@2",
                "leveldb",
                "1,000",
                "500",
                "to",
                "1,000,000",
                "2.00"
            ]
        );
        assert_eq!(rows[2][9], "1000.0");
    }
}
