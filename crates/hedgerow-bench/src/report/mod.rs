//! A page with charts from any set of results: one file that needs nothing else.
//!
//! Results are the objects that a [`Session`](crate::Session) gives, of any stores and settings.
//! What is drawn is data ([`series`]), how is the business of one renderer ([`chart`]).

mod chart;
mod curve;
mod page;
mod series;

use serde_json::Value;

use crate::store::{Result, invalid};
use chart::Chart;
pub use curve::Curve;
use series::{Metric, Results};

/// Reads results: one object per line, or an array of objects.
///
/// # Errors
/// The line that is no result, and what was expected.
pub fn read_results(text: &str) -> Result<Vec<Value>> {
    if let Ok(Value::Array(results)) = serde_json::from_str(text) {
        return Ok(results);
    }
    let lines = text
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(i, line)| {
            serde_json::from_str(line).map_err(|error| {
                invalid(format!(
                    "expected a result on line {}, found {error}",
                    i + 1
                ))
            })
        })
        .collect()
}

/// What is drawn of each result.
const METRICS: [Metric; 8] = [
    Metric {
        title: "Operations per second",
        unit: "",
        log: false,
        path: &["ops_per_second"],
    },
    Metric {
        title: "Median latency",
        unit: "µs",
        log: true,
        path: &["latency_us", "p50"],
    },
    Metric {
        title: "99 % of calls are faster than",
        unit: "µs",
        log: true,
        path: &["latency_us", "p99"],
    },
    Metric {
        title: "99.9 % of calls are faster than",
        unit: "µs",
        log: true,
        path: &["latency_us", "p999"],
    },
    Metric {
        title: "Longest call",
        unit: "µs",
        log: true,
        path: &["latency_us", "max"],
    },
    Metric {
        title: "Write amplification",
        unit: "",
        log: false,
        path: &["write_amplification"],
    },
    Metric {
        title: "Space amplification",
        unit: "",
        log: false,
        path: &["space_amplification"],
    },
    Metric {
        title: "Processor seconds",
        unit: "s",
        log: false,
        path: &["cpu_seconds"],
    },
];

/// The page, as HTML.
///
/// # Errors
/// A result without the name of its workload, or none at all.
pub fn page(results: &[Value]) -> Result<String> {
    let results = Results::new(results)?;
    let charts = METRICS.iter().filter_map(|metric| results.chart(metric));
    let charts: Vec<Chart> = charts.chain(results.memory_chart()).collect();
    let drawings = charts
        .iter()
        .map(Chart::to_svg)
        .collect::<Result<Vec<_>>>()?;
    Ok(page::html(&results, &charts, &drawings))
}

#[cfg(test)]
mod tests;
