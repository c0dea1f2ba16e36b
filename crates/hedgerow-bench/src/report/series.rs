//! What is to be drawn: results gathered into series of the same store and settings.

use serde_json::Value;

use crate::report::chart::{Bar, Chart, Group};
use crate::store::{Result, invalid};

/// A number that results have.
pub(super) struct Metric {
    pub(super) title: &'static str,
    pub(super) unit: &'static str,
    /// For numbers that are far apart.
    pub(super) log: bool,
    pub(super) path: &'static [&'static str],
}

/// Settings that do not make another series: the same data are drawn from in another way.
const IGNORED: [&str; 1] = ["seed"];

/// Results, and the series and workloads they belong to, both in the order in which they came.
pub(super) struct Results<'a> {
    pub(super) all: &'a [Value],
    /// Of each result.
    pub(super) series_of: Vec<usize>,
    pub(super) series: Vec<String>,
    pub(super) workloads: Vec<&'a str>,
}

impl<'a> Results<'a> {
    pub(super) fn new(all: &'a [Value]) -> Result<Results<'a>> {
        if all.is_empty() {
            return Err(invalid(
                "expected at least one result for a report, found none".to_owned(),
            ));
        }
        let mut workloads = Vec::new();
        for result in all {
            let Some(name) = result["workload"].as_str() else {
                return Err(invalid(format!(
                    "expected a result with its workload, found {result}"
                )));
            };
            place_of(&mut workloads, name);
        }
        let telling = telling_settings(all);
        let mut series = Vec::new();
        let labels = all.iter().map(|result| label(result, &telling));
        let series_of = labels.map(|label| place_of(&mut series, label)).collect();
        Ok(Results {
            all,
            series_of,
            series,
            workloads,
        })
    }

    /// A bar for each workload and series; nothing if no result has the number.
    pub(super) fn chart(&self, metric: &Metric) -> Option<Chart> {
        let bar = |workload: &str, series: usize| {
            let number = self.median(workload, series, |result| at(result, metric.path))?;
            Some(Bar {
                parts: vec![(series, number)],
            })
        };
        let group = |workload: &&str| Group {
            label: (*workload).to_owned(),
            bars: (0..self.series.len())
                .filter_map(|series| bar(workload, series))
                .collect(),
        };
        let groups = self.workloads.iter().map(group);
        let groups: Vec<_> = groups.filter(|group| !group.bars.is_empty()).collect();
        (!groups.is_empty()).then(|| Chart {
            title: metric.title.to_owned(),
            unit: metric.unit.to_owned(),
            log: metric.log,
            legend: Vec::new(),
            groups,
        })
    }

    /// A bar for each workload and series, made of the parts of its memory, in MiB.
    pub(super) fn memory_chart(&self) -> Option<Chart> {
        let mut parts = Vec::new();
        for result in self.all {
            let names = result["memory"]
                .as_object()
                .into_iter()
                .flat_map(|memory| memory.keys());
            // What is resident is the sum of all parts, and more.
            names.filter(|name| *name != "resident").for_each(|name| {
                place_of(&mut parts, name.clone());
            });
        }
        let mut groups = Vec::new();
        for workload in &self.workloads {
            for series in 0..self.series.len() {
                let part = |(i, part): (usize, &String)| {
                    let bytes =
                        self.median(workload, series, |result| at(result, &["memory", part]))?;
                    Some((i, bytes / f64::from(1 << 20)))
                };
                let parts: Vec<_> = parts.iter().enumerate().filter_map(part).collect();
                if !parts.is_empty() {
                    let label = match self.series.len() {
                        1 => (*workload).to_owned(),
                        _ => format!("{workload}, {}", self.series[series]),
                    };
                    groups.push(Group {
                        label,
                        bars: vec![Bar { parts }],
                    });
                }
            }
        }
        (!groups.is_empty()).then(|| Chart {
            title: "Memory at the end, by part".to_owned(),
            unit: "MiB".to_owned(),
            log: false,
            legend: parts,
            groups,
        })
    }

    /// Repeated results are shown by their median.
    fn median(
        &self,
        workload: &str,
        series: usize,
        of: impl Fn(&Value) -> Option<f64>,
    ) -> Option<f64> {
        let results = self.all.iter().zip(&self.series_of);
        let mut numbers: Vec<f64> = results
            .filter(|(result, its)| **its == series && result["workload"] == workload)
            .filter_map(|(result, _)| of(result))
            .collect();
        numbers.sort_by(f64::total_cmp);
        let middle = numbers.len() / 2;
        match numbers.len() {
            0 => None,
            n if n % 2 == 1 => Some(numbers[middle]),
            _ => Some(f64::midpoint(numbers[middle - 1], numbers[middle])),
        }
    }
}

/// The settings by which results of one store under one workload differ: those that must be told to
/// know which is which.
fn telling_settings(all: &[Value]) -> Vec<String> {
    let mut telling = Vec::new();
    for (i, result) in all.iter().enumerate() {
        let Some(settings) = result["settings"].as_object() else {
            continue;
        };
        let same = |other: &&Value| {
            ["store", "workload"]
                .iter()
                .all(|name| other[name] == result[name])
        };
        for other in all[..i].iter().filter(same) {
            let differing = settings
                .iter()
                .filter(|(name, value)| other["settings"][name] != **value);
            for (name, _) in differing.filter(|(name, _)| !IGNORED.contains(&name.as_str())) {
                place_of(&mut telling, name.clone());
            }
        }
    }
    telling
}

/// `hedgerow 0.1.0, threads 2`.
fn label(result: &Value, telling: &[String]) -> String {
    let mut label = ["store", "version"]
        .map(|name| text(&result[name]))
        .join(" ")
        .trim()
        .to_owned();
    for name in telling {
        let value = &result["settings"][name];
        if !value.is_null() {
            label += &format!(", {} {}", name.replace('_', " "), text(value));
        }
    }
    label
}

/// A value without the quotes of a string.
pub(super) fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// A number that can be drawn.
fn at(result: &Value, path: &[&str]) -> Option<f64> {
    let value = path
        .iter()
        .try_fold(result, |value, name| value.get(name))?;
    value
        .as_f64()
        .filter(|number| number.is_finite() && *number >= 0.0)
}

/// Where a thing is in a list, which gets it if it has it not.
fn place_of<T: PartialEq>(list: &mut Vec<T>, thing: T) -> usize {
    if let Some(place) = list.iter().position(|t| *t == thing) {
        return place;
    }
    list.push(thing);
    list.len() - 1
}
