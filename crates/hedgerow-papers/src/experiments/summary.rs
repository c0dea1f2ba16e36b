//! Rows of experiments as a table for people, and the quality of predictions.

use std::fmt::Write;

use hedgerow_bench::median;
use serde_json::Value;

use super::parallel;
use super::targets::{mean, targets};

/// The beginning of the name of an advisor's design; the name of the mix follows.
pub const ADVISED: &str = "advised for ";

/// The columns: heading, decimals, and path in a row.
const COLUMNS: [(&str, usize, &str); 25] = [
    ("ops/s", 0, "/ops_per_second"),
    ("p50 us", 1, "/latency_us/p50"),
    ("p95 us", 1, "/latency_us/p95"),
    ("p99 us", 1, "/latency_us/p99"),
    ("p99.9 us", 1, "/latency_us/p999"),
    ("settle s", 1, "/settle_seconds"),
    ("stalls", 0, "/stalls"),
    ("wr amp", 2, "/write_amplification"),
    ("entry wr", 2, "/entry_writes/measured"),
    ("simulated", 2, "/entry_writes/simulated"),
    ("at its pace", 2, "/entry_writes/at_pace"),
    ("in closed form", 2, "/entry_writes/closed_form"),
    ("levels", 0, "/levels"),
    ("MB", 1, "/table_bytes"),
    ("probes/op", 2, "/filter_probes"),
    ("pages/op", 3, "/block_reads"),
    ("bits/key", 2, "/bits_per_key"),
    ("false pos.", 5, "/false_positives"),
    ("reads", 3, "/cost_reads"),
    ("foreground s", 1, "/activities/foreground"),
    ("flush s", 1, "/activities/flush"),
    ("merge s", 1, "/activities/merge"),
    ("queue us", 1, "/queue/wait_us"),
    ("per batch", 1, "/queue/calls_per_batch"),
    ("device/s", 0, "/device/depth_32"),
];

/// A line per case, workload and design, then the lines of predictions and targets. Numbers are
/// medians over rounds. They are means, as in the paper, for parallel trees, and over the sizes of
/// a growing store.
pub fn table(rows: &[Value]) -> String {
    let width = rows.iter().map(|row| text(row, "design").chars().count());
    let width = width.max().unwrap_or(0).max("design".len());
    let mut table = String::new();
    let mut section = String::new();
    for (key, rounds) in &grouped(rows, &["title", "case", "workload", "design"]) {
        let [title, case, workload, design] = &key[..] else {
            continue;
        };
        let heading = [title, case, workload].map(String::as_str).join(", ");
        let heading = heading.replace(", , ", ", ");
        if heading != section {
            // Writing to a string cannot fail.
            let _ = write!(table, "\n{heading}\n{:<width$}", "design");
            for (name, ..) in COLUMNS {
                let _ = write!(table, " {name:>8}");
            }
            table.push('\n');
            section = heading;
        }
        let _ = write!(table, "{design:<width$}");
        for (name, decimals, path) in COLUMNS {
            let numbers = rounds.iter().filter_map(|row| number(row, path, name));
            let grows = rounds.iter().any(|row| row["grown"].is_object());
            let shown = match parallel::is_of_paper(title) || grows {
                true => mean(numbers),
                false => median(numbers),
            };
            let shown = shown.map_or("-".to_owned(), |it| format!("{it:.decimals$}"));
            let _ = write!(table, " {shown:>0$}", name.len().max(8));
        }
        table.push('\n');
    }
    for truth in truths(rows) {
        let _ = writeln!(table, "\n{truth}");
    }
    for target in targets(rows) {
        let _ = writeln!(table, "{target}");
    }
    table
}

fn number(row: &Value, path: &str, name: &str) -> Option<f64> {
    let number = row.pointer(path)?.as_f64()?;
    match name {
        "MB" => Some(number / 1e6),
        "probes/op" | "pages/op" => Some(number / row["ops"].as_f64()?),
        _ => Some(number),
    }
}

/// For each mix with predicted costs: the rank correlation of designs, and the cost of the
/// advisor's choice over the best one; by the clock and by counts.
pub fn truths(rows: &[Value]) -> Vec<String> {
    let with_cost: Vec<Value> = { rows.iter() }
        .filter(|row| row["cost_us"].is_object())
        .cloned()
        .collect();
    let mixes = grouped(&with_cost, &["workload"]);
    let told = mixes.into_iter().flat_map(|(mix, rows)| {
        let rows: Vec<Value> = rows.into_iter().cloned().collect();
        ["measured", "counted"].map(|which| truth(&mix[0], &rows, which))
    });
    told.flatten().collect()
}

/// The line about the `measured` or the `counted` cost of one mix.
fn truth(mix: &str, rows: &[Value], which: &str) -> Option<String> {
    let cost = |rows: &[&Value], which: &str| {
        median(rows.iter().filter_map(|row| row["cost_us"][which].as_f64()))
    };
    let mut designs = Vec::new();
    let mut advised = None;
    for (design, rows) in grouped(rows, &["design"]) {
        let Some((found, predicted)) = cost(&rows, which).zip(cost(&rows, "predicted")) else {
            continue;
        };
        match design[0].strip_prefix(ADVISED) {
            Some(of) if of == mix => advised = Some(found),
            // A design for another mix does not count.
            Some(_) => {}
            None => designs.push((found, predicted, design[0].clone())),
        }
    }
    let (best_us, _, best) = designs.iter().min_by(|a, b| a.0.total_cmp(&b.0))?;
    let pairs: Vec<_> = designs.iter().map(|it| (it.0, it.1)).collect();
    let order = spearman(&pairs).map_or("-".to_owned(), |rho| format!("{rho:.2}"));
    let choice = advised.map_or(String::new(), |us| {
        let over = us / best_us;
        format!("; the advisor's choice {us:.2} us, {over:.2} times that")
    });
    Some(format!(
        "{mix}: rank correlation of predicted and {which} cost {order} over {} designs; best {best}, \
         {best_us:.2} us{choice}",
        designs.len(),
    ))
}

/// Spearman's rank correlation; equal numbers share the mean of their ranks. `None` for fewer than
/// two pairs, or if all numbers of a side are equal.
fn spearman(pairs: &[(f64, f64)]) -> Option<f64> {
    let left = ranks(pairs.iter().map(|pair| pair.0).collect());
    let right = ranks(pairs.iter().map(|pair| pair.1).collect());
    let mean = (pairs.len() as f64 + 1.0) / 2.0;
    let product = |a: &[f64], b: &[f64]| {
        let products = a.iter().zip(b).map(|(a, b)| (a - mean) * (b - mean));
        products.sum::<f64>()
    };
    let spread = (product(&left, &left) * product(&right, &right)).sqrt();
    (spread > 0.0).then(|| product(&left, &right) / spread)
}

fn ranks(numbers: Vec<f64>) -> Vec<f64> {
    let rank = |number: &f64| {
        let less = numbers.iter().filter(|other| *other < number).count();
        let equal = numbers.iter().filter(|other| *other == number).count();
        less as f64 + (equal as f64 + 1.0) / 2.0
    };
    numbers.iter().map(rank).collect()
}

/// Rows grouped by equal fields, in the order of their first rows, with each section together.
fn grouped<'a>(rows: &'a [Value], fields: &[&str]) -> Vec<(Vec<String>, Vec<&'a Value>)> {
    let mut groups: Vec<(Vec<String>, Vec<&Value>)> = Vec::new();
    for row in rows {
        let key: Vec<String> = fields.iter().map(|field| text(row, field)).collect();
        match groups.iter_mut().find(|group| group.0 == key) {
            Some((_, rows)) => rows.push(row),
            None => groups.push((key, vec![row])),
        }
    }
    let section = |key: &[String]| key[..key.len() - 1].to_vec();
    let mut sections = Vec::new();
    for (key, _) in &groups {
        let section = section(key);
        if !sections.contains(&section) {
            sections.push(section);
        }
    }
    groups.sort_by_key(|(key, _)| sections.iter().position(|it| *it == section(key)));
    groups
}

fn text(row: &Value, field: &str) -> String {
    row[field].as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_rank_correlation_is_spearmans() {
        let up = [(1.0, 10.0), (2.0, 20.0), (5.0, 21.0)];
        assert_eq!(spearman(&up), Some(1.0));
        let down = up.map(|(a, b)| (a, -b));
        assert_eq!(spearman(&down), Some(-1.0));
        // Kendall, "Rank Correlation Methods": 1 - 6 sum(d^2) / (n (n^2 - 1)), without ties.
        let pairs = [(1.0, 2.0), (2.0, 1.0), (3.0, 4.0), (4.0, 3.0), (5.0, 5.0)];
        let rho = spearman(&pairs).unwrap();
        assert!((rho - (1.0 - 6.0 * 4.0 / 120.0)).abs() < 1e-12, "{rho}");
        assert_eq!(spearman(&[(1.0, 2.0), (1.0, 3.0)]), None, "all are equal");
        assert_eq!(spearman(&[]), None);
    }

    #[test]
    fn a_line_is_a_median_and_a_choice_is_compared_with_the_best() {
        let row = |design: &str, measured: f64, predicted: f64| {
            json!({
                "title": "a test", "case": "", "workload": "hits", "design": design,
                "ops": 100, "ops_per_second": measured, "filter_probes": 250,
                "cost_us": { "measured": measured, "counted": predicted, "predicted": predicted },
            })
        };
        let rows = [
            row("one", 3.0, 5.0),
            row("two", 8.0, 7.0),
            row("one", 5.0, 5.0),
            row("one", 4.0, 5.0),
            row("advised for hits", 5.0, 1.0),
        ];
        let table = table(&rows);
        let lines: Vec<Vec<&str>> = { table.lines() }
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(lines[1], ["a", "test,", "hits"]);
        assert_eq!(lines[3][..2], ["one", "4"], "{table}");
        assert!(lines[3].contains(&"2.50"), "{table}");
        assert_eq!(lines[4][..2], ["two", "8"]);
        let truth = truths(&rows);
        assert_eq!(truth.len(), 2);
        let counted = "predicted and counted cost 1.00 over 2 designs; best one, 5.00 us";
        assert!(truth[1].contains(counted), "{}", truth[1]);
        for part in [
            "cost 1.00 over 2 designs",
            "best one, 4.00 us",
            "5.00 us, 1.25 times",
        ] {
            assert!(truth[0].contains(part), "{part}: {}", truth[0]);
        }
    }
}
