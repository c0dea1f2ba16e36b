//! The targets of the experiments on two processors, and the measurements.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{DIRECT, OUT_OF_MEMORY, TITLE};
use crate::experiments::targets::{Bound, Found, Measured};

/// True for a title of this paper's experiments.
pub(in crate::experiments) fn is_of_paper(title: &str) -> bool {
    title.starts_with(TITLE)
}

/// A line for each target that has rows of Hedgerow, with means over rounds.
pub(in crate::experiments) fn targets(rows: &[Value]) -> Vec<String> {
    let rows = Means::of(rows);
    let clients = [("1 client", 1.5), ("16 clients", 1.0)];
    let asynchronous = clients
        .into_iter()
        .flat_map(|(case, times)| rows.asynchronous(case, times));
    [
        rows.best(1, "inserts", "fillrandom", 600e3),
        rows.best(1, "reads", "readall", 900e3),
        rows.best(1, "reads, 16 per call", "readall, 16 per call", 900e3),
        rows.best(2, "inserts", "fillrandom", 140e3),
    ]
    .into_iter()
    .flatten()
    .chain(asynchronous)
    .chain(rows.of_device())
    .chain(rows.processors())
    .chain(rows.longest())
    .collect()
}

/// The measurements of Hedgerow.
struct Means(Vec<Measured>);

impl Means {
    fn of(rows: &[Value]) -> Means {
        let steps = Found::of(rows, TITLE).0.into_iter();
        Means(
            steps
                .filter(|step| step.text("/store") == "hedgerow")
                .collect(),
        )
    }

    fn step(&self, experiment: u64, workload: &str) -> impl Iterator<Item = &Measured> {
        let is_it = move |row: &&Measured| row.experiment == experiment && row.workload == workload;
        self.0.iter().filter(is_it)
    }

    /// The fastest design of a step.
    fn best(&self, experiment: u64, what: &str, workload: &str, target: f64) -> Option<String> {
        let best = fastest(self.step(experiment, workload))?;
        let what = format!("experiment {experiment}, {what} per second");
        Some(told(&what, rate(best), target, &best.label()))
    }

    /// Asynchronous puts over synchronous ones.
    fn asynchronous(&self, case: &str, times: f64) -> Option<String> {
        let rows = || {
            self.step(4, "fillrandom")
                .filter(move |row| row.case == case)
        };
        let direct = rows().find(|row| row.design == DIRECT)?;
        let best = fastest(rows().filter(|row| row.design != DIRECT))?;
        let what = format!("asynchronous puts of {case} over synchronous ones");
        let found = rate(best) / rate(direct);
        Some(told(&what, found, times, &best.design))
    }

    /// Asynchronous gets over the device's rate, for each size of values.
    fn of_device(&self) -> Vec<String> {
        let is_it = |row: &&Measured| {
            row.case.starts_with(OUT_OF_MEMORY) && row.workload.contains("window")
        };
        let share =
            |row: &Measured| rate(row) / row.mean("/device/depth_32").unwrap_or(f64::INFINITY);
        let cases: BTreeSet<_> = self.0.iter().filter(is_it).map(|row| &row.case).collect();
        let best = cases.into_iter().filter_map(|case| {
            let rows = self.0.iter().filter(is_it).filter(|row| row.case == *case);
            rows.max_by(|a, b| share(a).total_cmp(&share(b)))
        });
        best.map(|row| {
            let by = format!("{}, {}, {}", row.design, row.case, row.workload);
            let what = "asynchronous gets of 1 client over the device's random reads at depth 32";
            told(what, share(row), 0.8, &by)
        })
        .collect()
    }

    /// Two processors over one.
    fn processors(&self) -> Vec<String> {
        let on = |count| format!("{DIRECT}, on {count}");
        let two = self.0.iter().filter(|row| row.design == on(2));
        let one = |two: &Measured| self.step(5, &two.workload).find(|row| row.design == on(1));
        let both = two.filter_map(|two| Some((one(two)?, two)));
        both.map(|(one, two)| {
            let what = format!("{} of 16 clients on 2 processors over 1", two.workload);
            told(&what, rate(two) / rate(one), 1.7, DIRECT)
        })
        .collect()
    }

    /// The longest 99.9th percentile of 16 clients' direct calls, one or 16 keys each.
    fn longest(&self) -> Option<String> {
        let is_direct = |row: &&Measured| row.experiment == 1 || row.design.starts_with(DIRECT);
        let rows = self
            .0
            .iter()
            .filter(|row| row.mean("/threads") == Some(16.0));
        let longest = rows
            .filter(is_direct)
            .max_by(|a, b| p999_ms(a).total_cmp(&p999_ms(b)))?;
        let by = format!(
            "experiment {}, {}, {}",
            longest.experiment,
            longest.workload,
            longest.label()
        );
        let what = "longest p99.9 of 16 clients, ms";
        let told = Bound::Most(20.0).told(what, p999_ms(longest));
        Some(format!("{told} ({by})"))
    }
}

fn fastest<'a>(rows: impl Iterator<Item = &'a Measured>) -> Option<&'a Measured> {
    rows.max_by(|a, b| rate(a).total_cmp(&rate(b)))
}

fn rate(step: &Measured) -> f64 {
    step.mean("/ops_per_second").unwrap_or_default()
}

fn p999_ms(step: &Measured) -> f64 {
    step.mean("/latency_us/p999").unwrap_or_default() / 1e3
}

/// The line of a number that should be at least `target`.
fn told(what: &str, found: f64, target: f64, by: &str) -> String {
    format!("{} ({by})", Bound::Least(target).told(what, found))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn row(experiment: u64, names: [&str; 3], rate: f64, p999: f64, device: Option<f64>) -> Value {
        let [case, workload, design] = names;
        json!({
            "title": format!("{TITLE} {experiment}. Test"), "store": "hedgerow", "experiment": experiment,
            "case": case, "workload": workload, "design": design, "threads": 16,
            "ops_per_second": rate, "latency_us": { "p999": p999 },
            "device": device.map(|rate| json!({ "depth_32": rate })),
        })
    }

    #[test]
    fn each_target_is_told_from_means() {
        let one = ["1 partition", "fillrandom", "default"];
        let rows = [
            row(1, one, 500e3, 900.0, None),
            row(1, one, 800e3, 1100.0, None),
            row(
                1,
                ["2 partitions", "fillrandom", "default"],
                640e3,
                30e3,
                None,
            ),
            row(4, ["1 client", "fillrandom", DIRECT], 100.0, 1.0, None),
            row(4, ["1 client", "fillrandom", "1 worker"], 140.0, 90e3, None),
            row(
                4,
                ["1 client", "fillrandom", "2 workers"],
                120.0,
                90e3,
                None,
            ),
            row(
                4,
                [OUT_OF_MEMORY, "gets, window of 32", "1 worker"],
                85.0,
                1.0,
                Some(100.0),
            ),
            row(5, ["", "readall", "direct calls, on 1"], 100.0, 1.0, None),
            row(5, ["", "readall", "direct calls, on 2"], 190.0, 1.0, None),
        ];
        let told = targets(&rows);
        let expected = [
            "target reached: experiment 1, inserts per second: 650000, at least 600000 (default, 1 partition)",
            "target missed: asynchronous puts of 1 client over synchronous ones: 1.400, at least 1.5 (1 worker)",
            "target reached: asynchronous gets of 1 client over the device's random reads at depth 32: 0.850, \
             at least 0.8 (1 worker, out of memory, gets, window of 32)",
            "target reached: readall of 16 clients on 2 processors over 1: 1.900, at least 1.7 (direct calls)",
            "target missed: longest p99.9 of 16 clients, ms: 30.000, at most 20 (experiment 1, fillrandom, \
             default, 2 partitions)",
        ];
        assert_eq!(told, expected);
        let mut of_a_peer = rows;
        of_a_peer
            .iter_mut()
            .for_each(|row| row["store"] = json!("rocksdb"));
        assert!(targets(&of_a_peer).is_empty());
    }
}
