//! A page with charts from any set of results, in one self-contained file.
//!
//! Results are the objects of a [`Session`](crate::Session), from any stores and settings.
//! `series` chooses the data, and `chart` draws them.

mod chart;
mod curve;
mod page;
mod scatter;
mod series;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::store::{Result, invalid};
use chart::Chart;
pub use curve::Curve;
use series::{Metric, Results};

/// Reads results: one object per line, or an array of objects.
///
/// # Errors
/// A line that is no result.
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

/// The metrics that are drawn.
const METRICS: [Metric; 22] = [
    Metric::new("Operations per second", "", &["ops_per_second"]),
    Metric::latency("Median latency", &["latency_us", "p50"]),
    Metric::latency("99 % of calls are faster than", &["latency_us", "p99"]),
    Metric::latency("99.9 % of calls are faster than", &["latency_us", "p999"]),
    Metric::latency("99.99 % of calls are faster than", &["latency_us", "p9999"]),
    Metric::latency("Longest call", &["latency_us", "max"]),
    Metric::new("Write amplification", "", &["write_amplification"]),
    Metric::new("Entry writes, measured", "", &["entry_writes", "measured"]),
    Metric::new(
        "Entry writes, simulated",
        "",
        &["entry_writes", "simulated"],
    ),
    Metric::new(
        "Entry writes, in closed form",
        "",
        &["entry_writes", "closed_form"],
    ),
    Metric::new("Space amplification", "", &["space_amplification"]),
    Metric::new("Levels", "", &["levels"]),
    Metric {
        per_op: true,
        ..Metric::new("Filters probed per operation", "", &["filter_probes"])
    },
    Metric {
        per_op: true,
        ..Metric::new("Pages of data used per operation", "", &["block_reads"])
    },
    Metric::new("Bits per key", "", &["bits_per_key"]),
    Metric::new("False positives", "", &["false_positives"]),
    Metric::new(
        "Cost of an operation in reads, modeled",
        "",
        &["cost_reads"],
    ),
    Metric::latency("Wait in the queue", &["queue", "wait_us"]),
    Metric::new(
        "Calls taken from a queue at once",
        "",
        &["queue", "calls_per_batch"],
    ),
    Metric::new("Stalls", "", &["stalls"]),
    Metric::new("Bytes of tables", "", &["table_bytes"]),
    Metric::new("Processor seconds", "s", &["cpu_seconds"]),
];

/// Results that are shown together: those with one title, or those without a title.
struct Section<'a> {
    title: &'a str,
    results: Results<'a>,
    /// Titles, legends and drawings.
    figures: Vec<(String, Vec<String>, String)>,
    notes: Vec<String>,
}

/// The page as HTML, with a section for each `title` of results.
///
/// # Errors
/// A result without the name of its workload; no results.
pub fn page(results: &[Value]) -> Result<String> {
    page_with(results, &|_| Vec::new())
}

/// The page as HTML, with the lines that `notes` returns for the results of each section.
///
/// # Errors
/// Those of [`page`].
pub fn page_with(results: &[Value], notes: &dyn Fn(&[Value]) -> Vec<String>) -> Result<String> {
    let mut titled: Vec<(&str, Vec<Value>)> = Vec::new();
    for result in results {
        let title = result["title"].as_str().unwrap_or_default();
        match titled.iter_mut().find(|it| it.0 == title) {
            Some((_, results)) => results.push(result.clone()),
            None => titled.push((title, vec![result.clone()])),
        }
    }
    if titled.is_empty() {
        return Err(invalid(
            "expected at least one result for a report, found none".to_owned(),
        ));
    }
    let sections = titled
        .iter()
        .map(|(title, results)| section(title, results, notes(results)));
    Ok(page::html(&sections.collect::<Result<Vec<_>>>()?))
}

/// Writes a page and its results to a directory. Returns the path of the page.
///
/// # Errors
/// An error of the file system.
pub fn write(dir: &Path, results: &[Value], page: &str) -> Result<PathBuf> {
    let lines: String = results.iter().map(|result| format!("{result}\n")).collect();
    fs::create_dir_all(dir).map_err(|e| format!("cannot make {}: {e}", dir.display()))?;
    for (name, text) in [("results.jsonl", &lines[..]), ("index.html", page)] {
        let path = dir.join(name);
        #[allow(
            clippy::disallowed_methods,
            reason = "a report is no file of a database"
        )]
        fs::write(&path, text).map_err(|e| format!("cannot write {}: {e}", path.display()))?;
    }
    Ok(dir.join("index.html"))
}

fn section<'a>(title: &'a str, results: &'a [Value], notes: Vec<String>) -> Result<Section<'a>> {
    let results = Results::new(results)?;
    let charts = METRICS.iter().filter_map(|metric| results.chart(metric));
    let charts = charts.chain(results.activities_chart());
    let charts = charts.chain(results.memory_chart());
    let charts: Vec<Chart> = charts.chain(results.hits_chart()).collect();
    let mut figures = Vec::new();
    for found in ["measured", "counted"] {
        if let Some(scatter) = results.scatter(found) {
            let title = format!("Predicted and {found} cost");
            figures.push((title, scatter.legend(), scatter.to_svg()?));
        }
    }
    for curve in results.growth_curves() {
        let svg = curve.to_svg_on_page(|bytes| format!("{}B", chart::short(bytes)))?;
        let names = curve.lines.into_iter().map(|(name, _)| name);
        figures.push((curve.title, names.collect(), svg));
    }
    for chart in charts {
        let svg = chart.to_svg()?;
        figures.push((chart.title, chart.legend, svg));
    }
    Ok(Section {
        title,
        results,
        figures,
        notes,
    })
}

#[cfg(test)]
mod tests;
