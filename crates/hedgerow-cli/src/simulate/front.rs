//! `hedgerow simulate --front`: writes of an entry against runs, of leveling and Garnering.
//!
//! The number of runs depends on where a tree is in its cycle of merges. One size says little, so
//! both are means while the store doubles. A policy is on the front if no other policy has fewer of
//! one and no more of the other.

use hedgerow::PolicySpec;
use hedgerow::simulate::{Simulation, simulate};
use serde_json::json;

use crate::exit::{Exit, Failure};
use crate::output::{Output, count};

const LEVELING_RATIOS: [u32; 10] = [2, 3, 4, 5, 6, 7, 8, 10, 12, 16];
const GARNERING_RATIOS: [u32; 6] = [2, 3, 4, 5, 8, 10];
const GARNERING_SCALINGS: [&str; 4] = ["0.4", "0.6", "0.8", "0.9"];

struct Point {
    policy: PolicySpec,
    entry_writes: f64,
    runs: f64,
}

impl Point {
    fn beats(&self, other: &Point) -> bool {
        let (writes, runs) = (self.entry_writes, self.runs);
        writes <= other.entry_writes
            && runs <= other.runs
            && (writes, runs) != (other.entry_writes, other.runs)
    }
}

/// Prints all policies in the order of their writes, and marks the front.
pub(super) fn run(simulation: &Simulation, output: &mut Output) -> Result<(), Failure> {
    let from = simulation.entries / 2;
    let mut points = Vec::new();
    for policy in policies() {
        let policy: PolicySpec = { policy.parse() }
            .map_err(|problem| Failure::new(Exit::Failure, format!("{policy}: {problem}")))?;
        points.push(point(policy, simulation, from)?);
    }
    points.sort_by(|a, b| a.entry_writes.total_cmp(&b.entry_writes));
    let is_on_front = |point: &Point| !points.iter().any(|other| other.beats(point));
    let to = simulation.entries;
    let range = format!("means from {} to {} entries", count(from), count(to));
    output.heading("front", &range);
    output.line(format_args!("  {:<18}  entry writes   runs", "policy"));
    for point in &points {
        let mark = if is_on_front(point) { '*' } else { ' ' };
        let policy = point.policy.to_string();
        output.line(format_args!(
            "{mark} {policy:<18}  {:>12.2}  {:>5.2}",
            point.entry_writes, point.runs
        ));
        output.object(&json!({
            "policy": policy,
            "entries": { "from": from, "to": to },
            "entry_writes": point.entry_writes,
            "runs": point.runs,
            "on_front": is_on_front(point),
        }));
    }
    output.line(format_args!(
        "\n* no other policy has fewer of one and no more of the other"
    ));
    Ok(())
}

fn policies() -> Vec<String> {
    let leveling = LEVELING_RATIOS.map(|ratio| format!("leveling:{ratio}"));
    let garnering = GARNERING_RATIOS
        .map(|ratio| GARNERING_SCALINGS.map(|scaling| format!("garnering:{ratio},{scaling}")));
    [&leveling[..], &garnering.concat()].concat()
}

fn point(policy: PolicySpec, simulation: &Simulation, from: u64) -> Result<Point, Failure> {
    let mut simulation = simulation.clone();
    simulation.design.policy = policy.clone();
    let report = simulate(&simulation)?;
    // The runs of a point are a mean since the previous point.
    let late = report
        .points
        .windows(2)
        .filter(|pair| pair[1].entries > from);
    let (mut weight, mut entry_writes, mut runs) = (0.0, 0.0, 0.0);
    for pair in late {
        let since = (pair[1].entries - pair[0].entries.max(from)) as f64;
        weight += since;
        entry_writes += since * pair[1].entry_writes;
        runs += since * pair[1].runs;
    }
    Ok(Point {
        policy,
        entry_writes: entry_writes / weight,
        runs: runs / weight,
    })
}
