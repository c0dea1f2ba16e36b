//! The data of charts: results grouped into series of one store and its settings.

use serde_json::Value;

use crate::median::median;
use crate::report::Curve;
use crate::report::chart::{Bar, Chart, Group};
use crate::report::scatter::Scatter;
use crate::store::{Result, invalid};

/// A number in results.
pub(super) struct Metric {
    pub(super) title: &'static str,
    pub(super) unit: &'static str,
    /// True for a logarithmic axis, for numbers that are far apart.
    pub(super) log: bool,
    pub(super) path: &'static [&'static str],
    /// True if the number is divided by the operations.
    pub(super) per_op: bool,
}

impl Metric {
    pub(super) const fn new(
        title: &'static str,
        unit: &'static str,
        path: &'static [&'static str],
    ) -> Metric {
        Metric {
            title,
            unit,
            log: false,
            path,
            per_op: false,
        }
    }

    /// A latency, in µs.
    pub(super) const fn latency(title: &'static str, path: &'static [&'static str]) -> Metric {
        Metric {
            log: true,
            ..Metric::new(title, "µs", path)
        }
    }

    fn of(&self, result: &Value) -> Option<f64> {
        let value = self.path.iter().fold(result, |value, name| &value[name]);
        let ops = match self.per_op {
            true => drawable(&result["ops"]).filter(|ops| *ops > 0.0)?,
            false => 1.0,
        };
        Some(drawable(value)? / ops)
    }
}

/// The metrics of a store that grows.
const GROWTH: [Metric; 3] = [
    Metric::new(
        "Write amplification as the store grows",
        "",
        &["grown", "write_amplification"],
    ),
    Metric::new(
        "Writes of an entry as the store grows",
        "",
        &["grown", "entry_writes"],
    ),
    Metric::new(
        "Operations per second as the store grows",
        "",
        &["ops_per_second"],
    ),
];

/// Settings that do not make another series, because they only change the draws from the same data.
const IGNORED: [&str; 1] = ["seed"];

/// Results with their series and workloads, both in the order of their first results.
pub(super) struct Results<'a> {
    pub(super) all: &'a [Value],
    /// The series of each result.
    pub(super) series_of: Vec<usize>,
    pub(super) series: Vec<String>,
    /// The workload of each result.
    pub(super) group_of: Vec<usize>,
    /// The workloads, each with its case.
    pub(super) groups: Vec<String>,
}

impl<'a> Results<'a> {
    pub(super) fn new(all: &'a [Value]) -> Result<Results<'a>> {
        if all.is_empty() {
            return Err(invalid(
                "expected at least one result for a report, found none".to_owned(),
            ));
        }
        let mut groups = Vec::new();
        let mut group_of = Vec::new();
        for result in all {
            let Some(name) = result["workload"].as_str() else {
                return Err(invalid(format!(
                    "expected a result with its workload, found {result}"
                )));
            };
            let group = match result["case"].as_str() {
                None | Some("") => name.to_owned(),
                Some(case) => format!("{name}, {case}"),
            };
            group_of.push(place_of(&mut groups, group));
        }
        let telling = telling_settings(all);
        let mut series = Vec::new();
        let labels = all.iter().map(|result| label(result, &telling));
        let series_of = labels.map(|label| place_of(&mut series, label)).collect();
        Ok(Results {
            all,
            series_of,
            series,
            group_of,
            groups,
        })
    }

    /// Each result with its workload and its series.
    pub(super) fn rows(&self) -> impl Iterator<Item = (&'a Value, &str, &str)> {
        let places = self.group_of.iter().zip(&self.series_of);
        let rows = self.all.iter().zip(places);
        rows.map(|(result, (group, series))| {
            (result, &self.groups[*group][..], &self.series[*series][..])
        })
    }

    /// A bar for each workload and series; `None` if no result has the number.
    pub(super) fn chart(&self, metric: &Metric) -> Option<Chart> {
        let bar = |group: usize, series: usize| {
            let number = self.median(group, series, |result| metric.of(result))?;
            Some(Bar {
                parts: vec![(series, number)],
            })
        };
        let groups = self.groups.iter().enumerate().map(|(i, label)| Group {
            label: label.clone(),
            bars: (0..self.series.len())
                .filter_map(|series| bar(i, series))
                .collect(),
        });
        let groups: Vec<_> = groups.filter(|group| !group.bars.is_empty()).collect();
        (!groups.is_empty()).then(|| Chart {
            title: metric.title.to_owned(),
            unit: metric.unit.to_owned(),
            log: metric.log,
            legend: Vec::new(),
            groups,
        })
    }

    /// The parts of the memory, in MiB.
    pub(super) fn memory_chart(&self) -> Option<Chart> {
        self.parts_chart("Memory at the end, by part", "MiB", |result| {
            let memory = result["memory"].as_object().into_iter().flatten();
            // Resident memory includes all parts, so it is no part.
            memory
                .filter(|(part, _)| *part != "resident")
                .filter_map(|(part, bytes)| {
                    Some((part.clone(), drawable(bytes)? / f64::from(1 << 20)))
                })
                .collect()
        })
    }

    /// Processor seconds until the store had settled.
    pub(super) fn activities_chart(&self) -> Option<Chart> {
        self.parts_chart("Processor seconds by activity", "s", |result| {
            let activities = result["activities"].as_object().into_iter().flatten();
            activities
                .filter_map(|(part, seconds)| Some((part.clone(), drawable(seconds)?)))
                .collect()
        })
    }

    /// The shares of the parts of a tree in the answered gets, in per cent.
    pub(super) fn hits_chart(&self) -> Option<Chart> {
        self.parts_chart("Gets by where they were answered", "%", |result| {
            let levels = result["hits_by_level"].as_array().into_iter().flatten();
            let levels = levels.enumerate();
            let levels = levels.map(|(level, hits)| (format!("level {level}"), hits));
            let memtables = ("memtables".to_owned(), &result["memtable_hits"]);
            let hits: Vec<_> = [memtables]
                .into_iter()
                .chain(levels)
                .filter_map(|(part, hits)| Some((part, drawable(hits).filter(|hits| *hits > 0.0)?)))
                .collect();
            let sum: f64 = hits.iter().map(|(_, hits)| hits).sum();
            { hits.into_iter() }
                .map(|(part, hits)| (part, hits * 100.0 / sum))
                .collect()
        })
    }

    /// Lines over the size of stores, with a point for each part of a fill; `None` without a fill
    /// by parts.
    pub(super) fn growth_curves(&self) -> impl Iterator<Item = Curve> {
        let line = |series: usize, metric: &Metric| {
            let points = (0..self.groups.len()).filter_map(|group| {
                let bytes = |result: &Value| drawable(&result["grown"]["user_bytes"]);
                let at = self.median(group, series, bytes)?;
                Some((at, self.median(group, series, |result| metric.of(result))?))
            });
            points.collect::<Vec<_>>()
        };
        GROWTH.iter().filter_map(move |metric| {
            let lines = self.series.iter().enumerate();
            let lines = lines.map(|(i, name)| (name.clone(), line(i, metric)));
            let lines: Vec<_> = lines.filter(|(_, points)| !points.is_empty()).collect();
            (!lines.is_empty()).then(|| Curve {
                title: metric.title.to_owned(),
                x: "keys and values".to_owned(),
                y: String::new(),
                lines,
            })
        })
    }

    /// A bar of parts for each workload and series.
    fn parts_chart(
        &self,
        title: &str,
        unit: &str,
        parts_of: impl Fn(&Value) -> Vec<(String, f64)>,
    ) -> Option<Chart> {
        let mut parts = Vec::new();
        for (part, _) in self.all.iter().flat_map(&parts_of) {
            place_of(&mut parts, part);
        }
        let bar = |group: usize, series: usize| {
            let numbers = parts.iter().enumerate().filter_map(|(i, part)| {
                let number = self.median(group, series, |result| {
                    let found = parts_of(result).into_iter().find(|it| it.0 == *part);
                    found.map(|(_, number)| number)
                })?;
                Some((i, number))
            });
            let parts: Vec<_> = numbers.collect();
            (!parts.is_empty()).then_some(Bar { parts })
        };
        let mut groups = Vec::new();
        for (i, label) in self.groups.iter().enumerate() {
            for (series, name) in self.series.iter().enumerate() {
                let label = match self.series.len() {
                    1 => label.clone(),
                    _ => format!("{label}, {name}"),
                };
                groups.extend(bar(i, series).map(|bar| Group {
                    label,
                    bars: vec![bar],
                }));
            }
        }
        (!groups.is_empty()).then(|| Chart {
            title: title.to_owned(),
            unit: unit.to_owned(),
            log: false,
            legend: parts,
            groups,
        })
    }

    /// The predicted against the measured cost of each workload; `None` without predictions.
    pub(super) fn scatter(&self, found: &str) -> Option<Scatter> {
        let cost = |group, series, which| {
            self.median(group, series, |result| drawable(&result["cost_us"][which]))
        };
        let clouds = self.groups.iter().enumerate().map(|(i, label)| {
            let points = (0..self.series.len())
                .filter_map(|series| cost(i, series, "predicted").zip(cost(i, series, found)));
            (label.clone(), points.collect::<Vec<_>>())
        });
        let clouds: Vec<_> = clouds.filter(|(_, points)| !points.is_empty()).collect();
        (!clouds.is_empty()).then(|| Scatter {
            x: "predicted, µs per operation".to_owned(),
            y: format!("{found}, µs per operation"),
            clouds,
        })
    }

    /// The median of repeated results.
    fn median(
        &self,
        group: usize,
        series: usize,
        of: impl Fn(&Value) -> Option<f64>,
    ) -> Option<f64> {
        let places = self.group_of.iter().zip(&self.series_of);
        let results = self.all.iter().zip(places);
        let its = results.filter(|(_, place)| *place == (&group, &series));
        median(its.filter_map(|(result, _)| of(result)))
    }
}

/// The settings that differ between results of one store and workload, which its labels need.
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

/// The label of a series: `hedgerow 0.1.0, threads 2`, or the design of an experiment.
fn label(result: &Value, telling: &[String]) -> String {
    if let Some(design) = result["design"].as_str() {
        return design.to_owned();
    }
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
fn drawable(value: &Value) -> Option<f64> {
    value
        .as_f64()
        .filter(|number| number.is_finite() && *number >= 0.0)
}

/// The index of an item in a list. Appends the item if it is missing.
fn place_of<T: PartialEq>(list: &mut Vec<T>, thing: T) -> usize {
    if let Some(place) = list.iter().position(|t| *t == thing) {
        return place;
    }
    list.push(thing);
    list.len() - 1
}
