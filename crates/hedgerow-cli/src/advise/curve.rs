//! The cost of the best designs against memory, as a table and as a picture.

use std::path::Path;

use hedgerow::KeyOrder;
use hedgerow::advisor::{Advice, Device, Mix, Prediction, Workload, advise};
use hedgerow_bench::report::Curve;
use serde_json::{Value, json};

use super::table::{self, Row};
use super::{Arguments, write_file};
use crate::exit::Failure;
use crate::output::{Output, bytes};

/// The best design at a budget.
pub(super) struct Point {
    memory: u64,
    best: Option<Advice>,
}

impl Point {
    /// The best tree, as text.
    pub(super) fn tree(&self) -> Option<String> {
        self.best.as_ref().map(|best| best.tree.to_string())
    }

    pub(super) fn object(&self) -> Value {
        let best = self.best.as_ref();
        json!({
            "memory_bytes": self.memory,
            "cost_us": best.map(|it| it.prediction.cost_us),
            "tree": best.map(|it| it.tree.to_string()),
        })
    }
}

/// The best designs from a 16th of the budget to 64 times, in steps of the square root of 2.
pub(super) fn curve(
    arguments: &Arguments,
    workload: &Workload,
    order: KeyOrder,
    device: &Device,
) -> Result<Vec<Point>, Failure> {
    let budgets =
        (-8..=12).map(|half| arguments.memory_budget as f64 * 2_f64.powf(f64::from(half) / 2.0));
    budgets
        .map(|memory| {
            let memory = memory as u64;
            let found = advise(workload, device, &arguments.constraints(memory, order))?;
            Ok(Point {
                memory,
                best: found.into_iter().next(),
            })
        })
        .collect()
}

pub(super) fn print_curve(curve: &[Point], budget: u64, output: &mut Output) {
    output.heading(
        "Cost against memory",
        "(the best design at each budget; `>` is --memory-budget; saved: against the line above, for each GiB more)",
    );
    let mut rows = vec![Row {
        numbers: format!(
            "  {:>10} {:>10} {:>12} {:>12} {:>8}",
            "memory", "us/op", "saved us/GiB", "reads/get", "writes"
        ),
        words: "tree".to_owned(),
    }];
    let mut before: Option<(u64, f64)> = None;
    // Every second point, which doubles the memory.
    for point in curve.iter().step_by(2) {
        let mark = if point.memory == budget { ">" } else { " " };
        let memory = bytes(point.memory);
        let Some(best) = &point.best else {
            rows.push(Row {
                numbers: format!("{mark} {memory:>10} {:>10}", "-"),
                words: String::new(),
            });
            continue;
        };
        let cost = best.prediction.cost_us;
        let saved = before.map_or("-".to_owned(), |(memory, earlier)| {
            let gib = (point.memory - memory) as f64 / f64::from(1 << 30);
            format!("{:.2}", (earlier - cost) / gib)
        });
        rows.push(Row {
            numbers: format!(
                "{mark} {memory:>10} {cost:>10.2} {saved:>12} {:>12.3} {:>8.1}",
                best.prediction.hit_reads, best.prediction.entry_writes,
            ),
            words: best.tree.to_string(),
        });
        before = Some((point.memory, cost));
    }
    table::print(&rows, output);
}

pub(super) fn picture(path: &Path, mix: &Mix, curve: &[Point]) -> Result<(), Failure> {
    let line = |name: &str, cost: fn(&Prediction) -> f64| {
        let points = curve.iter().filter_map(|point| {
            let best = point.best.as_ref()?;
            Some((point.memory as f64, cost(&best.prediction)))
        });
        (name.to_owned(), points.collect())
    };
    let curve = Curve {
        title: format!("{mix}: cost against memory"),
        x: "memory".to_owned(),
        y: "µs per operation".to_owned(),
        lines: vec![
            line("the mix", |it| it.cost_us),
            line("get", |it| it.hit_us),
            line("miss", |it| it.miss_us),
            line("put", |it| it.put_us),
        ],
    };
    let svg = curve.to_svg(|memory| bytes(memory as u64));
    write_file(path, &svg.map_err(crate::bench::failure)?)
}
