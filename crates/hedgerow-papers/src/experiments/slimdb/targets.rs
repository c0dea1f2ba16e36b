//! The targets of SlimDB's experiments, and the measurements.

use serde_json::Value;

use crate::experiments::targets::{Bound, Found};

/// A line for each target that has rows, with medians over rounds.
pub(in crate::experiments) fn targets(rows: &[Value]) -> Vec<String> {
    let found = Found::of(rows, "SlimDB");
    let mut lines = indexes(&found);
    lines.extend(filters(&found));
    for (part, case) in parts(&found) {
        lines.extend(stores(&found, part, &case));
    }
    lines
}

/// The experiments with stores, and their cases.
fn parts(found: &Found) -> Vec<(u64, String)> {
    let stores = { found.0.iter() }.filter(|step| matches!(step.experiment, 3 | 4));
    let mut parts: Vec<_> = stores
        .map(|step| (step.experiment, step.case.clone()))
        .collect();
    parts.dedup();
    parts
}

fn indexes(found: &Found) -> Vec<String> {
    let targets = [
        ("16", 0.92, 3e6),
        ("32", 0.80, 3e6),
        ("64", 0.75, 3e6),
        ("zipf", 0.70, 1.5e6),
    ];
    let each = targets.into_iter().flat_map(|(groups, bits, rate)| {
        let case = format!("groups of {groups}");
        let number = |path| found.number((1, &case), ["locate", "three-level"], path);
        let bits = number("/bits_per_key").map(|it| {
            Bound::Most(bits).told(&format!("three-level index, {case}, bits per key"), it)
        });
        let rate = number("/ops_per_second").map(|it| {
            Bound::Least(rate).told(
                &format!("three-level index, {case}, lookups per second"),
                it,
            )
        });
        bits.into_iter().chain(rate)
    });
    each.collect()
}

fn filters(found: &Found) -> Vec<String> {
    let targets = [
        ("insert", "/bits_per_key", "bits per key", Bound::Most(16.0)),
        ("insert", "/ops_per_second", "per second", Bound::Least(4e6)),
        (
            "absent, 64 at a time",
            "/false_positives",
            "false positives",
            Bound::Most(0.002),
        ),
        (
            "present, 64 at a time",
            "/ops_per_second",
            "per second",
            Bound::Least(10e6),
        ),
        (
            "absent, 64 at a time",
            "/ops_per_second",
            "per second",
            Bound::Least(10e6),
        ),
        (
            "present, one at a time",
            "/ops_per_second",
            "per second",
            Bound::Least(10e6),
        ),
    ];
    let each = targets
        .into_iter()
        .filter_map(|(workload, path, what, bound)| {
            let found = found.number((2, "0 % duplicates"), [workload, "mlcf:12"], path)?;
            Some(bound.told(&format!("multi-level cuckoo, {workload}, {what}"), found))
        });
    each.chain(rewritten(found)).collect()
}

/// Figure 9: whatever share of keys is written again.
fn rewritten(found: &Found) -> Vec<String> {
    let cases = [0, 10, 30, 50, 70, 90].map(|percent| format!("{percent} % duplicates"));
    let told = |case: &String| {
        let number = |path| found.number((2, case), ["insert", "mlcf:12"], path);
        let bits = number("/bits_per_distinct_key").map(|it| {
            let what = format!("multi-level cuckoo, {case}, bits per different key");
            Bound::Most(18.0).told(&what, it)
        });
        let rate = number("/ops by /cpu_seconds").map(|it| {
            let what = format!("multi-level cuckoo, {case}, inserts per second of processor");
            Bound::Least(3e6).told(&what, it)
        });
        [bits, rate].into_iter().flatten().collect::<Vec<_>>()
    };
    cases.iter().flat_map(told).collect()
}

fn stores(found: &Found, experiment: u64, case: &str) -> Vec<String> {
    let of = |workload, design, path| found.number((experiment, case), [workload, design], path);
    let beside = |workload, path| {
        Some(of(workload, "stepped merge", path)? / of(workload, "rocksdb", path)?)
    };
    let pages = "/block_reads by /ops";
    let lines = [
        (
            "creating, stepped merge over RocksDB",
            beside("fillrandom", "/ops_per_second"),
            Bound::Least(3.0),
        ),
        (
            "entry writes, stepped merge",
            of("fillrandom", "stepped merge", "/entry_writes/measured"),
            Bound::Most(3.8),
        ),
        (
            "random reads, stepped merge over RocksDB",
            beside("readrandom", "/ops_per_second"),
            Bound::Least(1.5),
        ),
        (
            "pages per hit, stepped merge",
            of("readrandom", "stepped merge", pages),
            Bound::Most(1.01),
        ),
        (
            "pages per miss, stepped merge",
            of("readmissing", "stepped merge", pages),
            Bound::Most(0.01),
        ),
        (
            "pages per hit, mixed",
            of("readrandom", "mixed", pages),
            Bound::Most(1.02),
        ),
        (
            "p99.9 of reads while writing, stepped merge over RocksDB",
            beside("readwhilewriting", "/latency_us/p999"),
            Bound::Most(0.5),
        ),
    ];
    let place = if case.is_empty() {
        String::new()
    } else {
        format!("{case}, ")
    };
    let found = lines.into_iter().filter_map(|(what, found, bound)| {
        Some(bound.told(&format!("experiment {experiment}, {place}{what}"), found?))
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn row(experiment: u64, names: [&str; 3], numbers: Value) -> Value {
        let [case, workload, design] = names;
        let mut row = json!({
            "title": format!("SlimDB {experiment}. Test"), "experiment": experiment,
            "case": case, "workload": workload, "design": design, "ops": 100,
        });
        for (name, number) in numbers.as_object().unwrap() {
            row[name] = number.clone();
        }
        row
    }

    #[test]
    fn each_target_is_told_from_medians() {
        let rate = |rate: f64| json!({ "ops_per_second": rate });
        let zipf = json!({ "bits_per_key": 0.69, "ops_per_second": 1.4e6 });
        let write = ["a third", "fillrandom", "stepped merge"];
        let rows = [
            row(1, ["groups of zipf", "locate", "three-level"], zipf),
            row(
                2,
                ["0 % duplicates", "absent, 64 at a time", "mlcf:12"],
                json!({ "false_positives": 0.0018 }),
            ),
            row(3, write, rate(300.0)),
            row(3, write, rate(310.0)),
            row(3, write, rate(100.0)),
            row(3, ["a third", "fillrandom", "rocksdb"], rate(100.0)),
            row(
                3,
                ["a third", "readrandom", "mixed"],
                json!({ "block_reads": 103 }),
            ),
        ];
        let expected = [
            "target reached: three-level index, groups of zipf, bits per key: 0.690, at most 0.7",
            "target missed: three-level index, groups of zipf, lookups per second: 1400000, at least 1500000",
            "target reached: multi-level cuckoo, absent, 64 at a time, false positives: 0.0018, at most 0.002",
            "target reached: experiment 3, a third, creating, stepped merge over RocksDB: 3.000, at least 3",
            "target missed: experiment 3, a third, pages per hit, mixed: 1.030, at most 1.02",
        ];
        assert_eq!(targets(&rows), expected);
        let mut of_another = rows;
        of_another
            .iter_mut()
            .for_each(|row| row["title"] = json!("Autumn 1"));
        assert!(targets(&of_another).is_empty());
    }
}
