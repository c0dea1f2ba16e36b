//! The targets of Autumn's experiments, and the measurements.
//!
//! The best of several designs of a kind is compared at each step, and the worst of several cases
//! is reported. The gains of Garnering are medians over cases; the paper's are means.

use std::collections::BTreeMap;

use hedgerow_bench::median;
use serde_json::Value;

use super::{ALLOTTED, FIVE_LEVELS, FIVE_LEVELS_POLICY, FLUSHES, FLUSHES_COUNT};
use crate::experiments::summary::ADVISED;
use crate::experiments::targets::{Bound, Found, Measured};

const OURS: &str = "hedgerow";
const RIVAL: &str = "rocksdb";
const RATE: &str = "/ops_per_second";
const ENTRY_WRITES: &str = "/entry_writes/measured";
const GETS: [&str; 2] = ["readrandom", "ycsb-c"];
const SHORT_SCANS: [&str; 3] = ["seek", "seek+10", "ycsb-e"];
const LOADS: [&str; 2] = ["fillrandom", "ycsb-load"];

/// A line for each target that has rows, with medians over rounds.
pub(in crate::experiments) fn targets(rows: &[Value]) -> Vec<String> {
    let found = Found::of(rows, "Autumn");
    let races = races(&found);
    [
        predictions(&found),
        Vec::from_iter(overhead(&found)),
        cuts(&found),
        allotted(&found),
        races.iter().filter_map(choice).collect(),
        gains(&races),
        beside_rival(&races),
    ]
    .concat()
}

/// The designs of one kind.
struct Race<'a>(Vec<&'a Measured>);

fn races(found: &Found) -> Vec<Race<'_>> {
    let mut races: BTreeMap<_, Vec<&Measured>> = BTreeMap::new();
    for step in &found.0 {
        let of = (step.experiment, &step.workload, &step.case);
        races.entry(of).or_default().push(step);
    }
    races.into_values().map(Race).collect()
}

impl<'a> Race<'a> {
    /// The largest number at a path among the steps, with its step.
    fn most(&self, path: &str, of: impl Fn(&Measured) -> bool) -> Option<(f64, &'a Measured)> {
        let steps = self.0.iter().filter(|step| of(step));
        worst(steps.filter_map(|step| Some((step.number(path)?, *step))))
    }

    fn least(&self, path: &str, of: impl Fn(&Measured) -> bool) -> Option<(f64, &'a Measured)> {
        let steps = self.0.iter().filter(|step| of(step));
        let negated = worst(steps.filter_map(|step| Some((-step.number(path)?, *step))));
        negated.map(|(number, step)| (-number, step))
    }
}

/// The step with the largest number.
fn worst<'a>(numbers: impl Iterator<Item = (f64, &'a Measured)>) -> Option<(f64, &'a Measured)> {
    numbers.max_by(|a, b| a.0.total_cmp(&b.0))
}

fn is_ours(step: &Measured) -> bool {
    step.text("/store") == OURS
}

fn is_rivals(step: &Measured) -> bool {
    step.text("/store") == RIVAL
}

/// Policy and ratio: `garnering` and `2` of `garnering:2,0.8`.
fn family(step: &Measured) -> (&str, &str) {
    let policy = step.text("/settings/policy");
    let (family, numbers) = policy.split_once(':').unwrap_or((policy, ""));
    (family, numbers.split(',').next().unwrap_or_default())
}

fn place(step: &Measured) -> String {
    let (experiment, workload) = (step.experiment, &step.workload);
    format!("experiment {experiment}, {workload}, {}", step.label())
}

/// The deviation of each policy's entry writes from those of the simulator and of the closed form.
fn predictions(found: &Found) -> Vec<String> {
    let mut families: BTreeMap<&str, Vec<&Measured>> = BTreeMap::new();
    for step in found.0.iter().filter(|step| is_ours(step)) {
        families.entry(family(step).0).or_default().push(step);
    }
    let lines = families.into_iter().flat_map(|(family, steps)| {
        let simulated = if family == "tiering" { 0.02 } else { 0.03 };
        let predicted = [
            ("simulated", "simulated", simulated),
            ("simulated at its pace", "at_pace", 0.1),
            ("closed form", "closed_form", 0.1),
        ];
        predicted.map(|(how, name, most)| {
            let path = format!("/entry_writes/{name} by {ENTRY_WRITES}");
            let off = |step: &Measured| Some((step.number(&path)? - 1.0).abs());
            let (off, step) = worst(steps.iter().filter_map(|step| Some((off(step)?, *step))))?;
            let what = format!("entry writes of {family}, off from {how}");
            Some(format!(
                "{} ({})",
                Bound::Most(most).told(&what, off),
                place(step)
            ))
        })
    });
    lines.flatten().collect()
}

/// The bytes of stepped merge's tables beside keys and values.
fn overhead(found: &Found) -> Option<String> {
    let tiered = found.0.iter().filter(|step| family(step).0 == "tiering");
    let (most, step) = worst(tiered.filter_map(|step| {
        let per_write = step.number("/write_amplification")? / step.number(ENTRY_WRITES)?;
        Some((per_write - 1.0, step))
    }))?;
    let what = "bytes of stepped merge's format per byte of key + value";
    Some(format!(
        "{} ({})",
        Bound::Most(0.06).told(what, most),
        place(step)
    ))
}

/// Partitioned full merges over merges of one table at a time, in runs with the right number of
/// memtables.
fn cuts(found: &Found) -> Vec<String> {
    let lines = found.0.iter().filter_map(|step| {
        let ratio = step.design.strip_suffix(",partitioned")?;
        let setting = |name: &str| step.number(&format!("/settings/{name}"));
        let bytes = setting("num")? * (setting("key_size")? + setting("value_size")?);
        if step.case != FLUSHES || bytes / setting("memtable_size")? < 0.95 * FLUSHES_COUNT as f64 {
            return None;
        }
        let one_table = [&step.workload[..], &format!("{ratio},one-table")];
        let one_table = found.number((step.experiment, FLUSHES), one_table, ENTRY_WRITES)?;
        let what = format!(
            "merges of {}, {FLUSHES}, over one-table merges",
            step.design
        );
        let part = (step.number(ENTRY_WRITES)? - 1.0) / (one_table - 1.0);
        Some(Bound::Most(0.75).told(&what, part))
    });
    lines.collect()
}

/// False reads of allotted bits over those of more, uniform bits.
fn allotted(found: &Found) -> Vec<String> {
    let lines = ALLOTTED.into_iter().filter_map(|[allotted, uniform]| {
        let false_reads = |filter: &str| {
            let step = ["readmissing", &format!("{FIVE_LEVELS_POLICY} {filter}")];
            found.number((4, FIVE_LEVELS), step, "/filter_false_positives by /ops")
        };
        let what = format!("{FIVE_LEVELS}: false reads of {allotted} over {uniform}");
        Some(Bound::Most(1.0).told(&what, false_reads(allotted)? / false_reads(uniform)?))
    });
    lines.collect()
}

/// The advisor's choice over the best measured design.
fn choice(race: &Race<'_>) -> Option<String> {
    let advised = |step: &Measured| step.design.strip_prefix(ADVISED).map(str::to_owned);
    let is_choice = |step: &Measured| advised(step).as_deref() == Some(&step.workload[..]);
    let (chosen, step) = race.least("/cost_us/measured", is_choice)?;
    let (best, of) = race.least("/cost_us/measured", |step| advised(step).is_none())?;
    let what = format!(
        "cost of the advisor's choice for {} over the best",
        step.workload
    );
    let told = Bound::Most(1.1).told(&what, chosen / best);
    Some(format!(
        "{told} ({}, {})",
        step.text("/settings/policy"),
        of.design
    ))
}

/// Garnering over leveling with the same ratio and filter.
fn gains(races: &[Race<'_>]) -> Vec<String> {
    let kinds = [
        ("short scans", &SHORT_SCANS[..], 1.09),
        ("gets without filters", &GETS, 1.19),
        ("load", &LOADS, 1.15),
    ];
    let mut gains: BTreeMap<_, Vec<f64>> = BTreeMap::new();
    for race in races {
        for leveled in race.0.iter().filter(|step| family(step).0 == "leveling") {
            let filter = leveled.text("/settings/filter");
            let mut of = kinds.iter().enumerate();
            let workload = leveled.workload.split(" from ").next().unwrap_or_default();
            let of = of.find(|(_, kind)| kind.1.contains(&workload));
            let rival = |step: &Measured| {
                let ratio = family(leveled).1;
                family(step) == ("garnering", ratio) && step.text("/settings/filter") == filter
            };
            if let Some((kind, _)) = of.filter(|(_, kind)| kind.1 != GETS || filter == "none")
                && let Some(leveling) = leveled.number(RATE)
                && let Some((garnering, _)) = race.most(RATE, rival)
            {
                let of = gains.entry((leveled.experiment, kind)).or_default();
                of.push(garnering / leveling);
            }
        }
    }
    let lines = gains.into_iter().filter_map(|((experiment, kind), gains)| {
        let (kind, _, least) = kinds[kind];
        let what = format!("experiment {experiment}, {kind}, garnering over leveling");
        let told = Bound::Least(least).told(&what, median(gains.iter().copied())?);
        let (low, high) = gains
            .iter()
            .fold((f64::INFINITY, 0.0), |(low, high), gain| {
                (gain.min(low), gain.max(high))
            });
        Some(format!(
            "{told} ({low:.3} to {high:.3} in {} cases)",
            gains.len()
        ))
    });
    lines.collect()
}

/// For each experiment with RocksDB, the case with our smallest lead.
fn beside_rival(races: &[Race<'_>]) -> Vec<String> {
    let kinds = [
        ("random reads", RATE, &GETS[..], Bound::Least(1.5)),
        ("short scans", RATE, &SHORT_SCANS, Bound::Least(1.5)),
        ("load", RATE, &["ycsb-load"], Bound::Least(2.0)),
        (
            "p99.9 of reads while writing",
            "/latency_us/p999",
            &["readwhilewriting"],
            Bound::Most(0.5),
        ),
    ];
    let mut lines = Vec::new();
    for experiment in 1..=crate::experiments::EXPERIMENTS {
        for (kind, path, workloads, bound) in kinds {
            let races = races.iter().filter(|race| {
                let step = race.0[0];
                step.experiment == u64::from(experiment) && workloads.contains(&&step.workload[..])
            });
            let parts = races.filter_map(|race| match bound {
                Bound::Least(_) => {
                    let (ours, step) = race.most(path, is_ours)?;
                    Some((-ours / race.most(path, is_rivals)?.0, step))
                }
                Bound::Most(_) => {
                    let (ours, step) = race.least(path, is_ours)?;
                    Some((ours / race.least(path, is_rivals)?.0, step))
                }
            });
            if let Some((part, step)) = worst(parts) {
                let what = format!("{kind} over those of {RIVAL}");
                lines.push(format!(
                    "{} ({})",
                    bound.told(&what, part.abs()),
                    place(step)
                ));
            }
        }
    }
    lines.extend(races.iter().filter_map(of_device));
    lines
}

/// The alternative criterion for a fast load.
fn of_device(race: &Race<'_>) -> Option<String> {
    let (share, step) = race.most("/device_writes/share", is_ours)?;
    let what = format!(
        "bytes of {} over what the device `{}` writes, where not 2 times {RIVAL}'s",
        step.workload,
        step.text("/device_writes/of")
    );
    Some(format!(
        "{} ({})",
        Bound::Least(0.8).told(&what, share),
        step.label()
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn row(experiment: u64, [case, workload, design]: [&str; 3], numbers: Value) -> Value {
        let (policy, filter) = design.split_once(' ').unwrap_or((design, "none"));
        let mut row = json!({
            "title": format!("Autumn {experiment}. Test"), "experiment": experiment,
            "store": if design.starts_with(RIVAL) { RIVAL } else { OURS },
            "case": case, "workload": workload, "design": design, "ops": 100,
            "settings": {
                "policy": policy, "filter": filter, "num": 1e6, "key_size": 16, "value_size": 100,
                "memtable_size": 165_714,
            },
        });
        for (name, number) in numbers.as_object().unwrap() {
            row[name] = number.clone();
        }
        row
    }

    fn rate(rate: f64) -> Value {
        json!({ "ops_per_second": rate })
    }

    fn writes(measured: f64, simulated: f64, closed_form: f64) -> Value {
        let writes =
            json!({ "measured": measured, "simulated": simulated, "closed_form": closed_form });
        json!({ "entry_writes": writes, "write_amplification": 1.05 * measured })
    }

    #[test]
    fn counts_are_told_where_they_are_worst() {
        let fill = |case, design, numbers| row(2, [case, "fillrandom", design], numbers);
        let reads = |filter: &str, count: u64| {
            let design = format!("{FIVE_LEVELS_POLICY} {filter}");
            let numbers = json!({ "filter_false_positives": count });
            row(4, [FIVE_LEVELS, "readmissing", &design], numbers)
        };
        let rows = [
            fill("a", "tiering:4", writes(4.0, 4.1, 4.1)),
            fill("b", "tiering:8", writes(4.0, 3.96, 3.5)),
            fill(
                "b",
                "bush:4",
                json!({ "entry_writes": { "measured": 4.0, "at_pace": 4.5 } }),
            ),
            fill(FLUSHES, "leveling:3,one-table", writes(11.0, 11.0, 11.0)),
            fill(FLUSHES, "leveling:3,partitioned", writes(8.0, 8.0, 8.0)),
            reads("monkey:8", 3),
            reads("bloom:10", 4),
        ];
        let expected = [
            "target missed: entry writes of bush, off from simulated at its pace: 0.125, at most 0.1 \
             (experiment 2, fillrandom, bush:4, b)",
            "target reached: entry writes of leveling, off from simulated: 0.0000, at most 0.03 \
             (experiment 2, fillrandom, leveling:3,partitioned, 700 memtables)",
            "target reached: entry writes of leveling, off from closed form: 0.000, at most 0.1 \
             (experiment 2, fillrandom, leveling:3,partitioned, 700 memtables)",
            "target missed: entry writes of tiering, off from simulated: 0.0250, at most 0.02 \
             (experiment 2, fillrandom, tiering:4, a)",
            "target missed: entry writes of tiering, off from closed form: 0.125, at most 0.1 \
             (experiment 2, fillrandom, tiering:8, b)",
            "target reached: bytes of stepped merge's format per byte of key + value: 0.050, at most 0.06 \
             (experiment 2, fillrandom, tiering:8, b)",
            "target reached: merges of leveling:3,partitioned, 700 memtables, over one-table merges: 0.700, \
             at most 0.75",
            "target reached: five levels of ratio 8: false reads of monkey:8 over bloom:10: 0.750, at most 1",
        ];
        assert_eq!(targets(&rows), expected);
    }

    #[test]
    fn rates_are_compared_with_the_best_rival() {
        let load = |design, numbers| row(3, ["", "ycsb-load", design], numbers);
        let scan = |case, design, it| row(1, [case, "seek+10", design], rate(it));
        let cost = |us: f64| json!({ "cost_us": { "measured": us } });
        let mut advised = row(5, ["", "hits", "advised for hits"], cost(12.0));
        advised["settings"]["policy"] = json!("leveling:7");
        let share =
            json!({ "ops_per_second": 90.0, "device_writes": { "of": "nvme", "share": 0.85 } });
        let rows = [
            scan("a", "leveling:2", 100.0),
            scan("a", "garnering:2,0.8", 105.0),
            scan("a", "garnering:2,0.4", 110.0),
            scan("a", "garnering:5,0.4", 200.0),
            scan("b", "leveling:2", 100.0),
            scan("b", "garnering:2,0.8", 130.0),
            scan("b", "rocksdb as ours", 50.0),
            scan("b", "rocksdb paper's settings", 65.0),
            row(1, ["a", "readrandom", "leveling:2 bloom:2"], rate(1.0)),
            row(1, ["a", "readrandom", "garnering:2,0.8 bloom:2"], rate(2.0)),
            load("leveling:5", share),
            load("rocksdb as ours", rate(50.0)),
            row(
                3,
                ["", "readwhilewriting", "leveling:5"],
                json!({ "latency_us": { "p999": 60.0 } }),
            ),
            row(
                3,
                ["", "readwhilewriting", "rocksdb as ours"],
                json!({ "latency_us": { "p999": 100.0 } }),
            ),
            row(5, ["", "hits", "leveling:3"], cost(10.0)),
            advised,
        ];
        let expected = [
            "target missed: cost of the advisor's choice for hits over the best: 1.200, at most 1.1 \
             (leveling:7, leveling:3)",
            "target reached: experiment 1, short scans, garnering over leveling: 1.200, at least 1.09 \
             (1.100 to 1.300 in 2 cases)",
            "target reached: short scans over those of rocksdb: 2.000, at least 1.5 \
             (experiment 1, seek+10, garnering:2,0.8, b)",
            "target missed: load over those of rocksdb: 1.800, at least 2 (experiment 3, ycsb-load, leveling:5)",
            "target missed: p99.9 of reads while writing over those of rocksdb: 0.600, at most 0.5 \
             (experiment 3, readwhilewriting, leveling:5)",
            "target reached: bytes of ycsb-load over what the device `nvme` writes, where not 2 times rocksdb's: \
             0.850, at least 0.8 (leveling:5)",
        ];
        assert_eq!(targets(&rows), expected);
    }
}
