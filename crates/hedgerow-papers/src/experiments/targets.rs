//! The targets of experiments, beside the measurements.

use std::collections::BTreeMap;

use hedgerow_bench::median;
use serde_json::Value;

use super::{autumn, lsm_trie, parallel, slimdb};

/// A line for each target of any paper that has rows.
pub(super) fn targets(rows: &[Value]) -> Vec<String> {
    let of_papers = [
        autumn::targets(rows),
        lsm_trie::targets(rows),
        parallel::targets(rows),
        slimdb::targets(rows),
    ];
    of_papers.concat()
}

/// The mean.
pub(super) fn mean(numbers: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = numbers.fold((0.0, 0), |(sum, count), number| (sum + number, count + 1));
    (count > 0).then(|| sum / f64::from(count))
}

/// A bound of a number.
#[derive(Clone, Copy)]
pub(super) enum Bound {
    Least(f64),
    Most(f64),
}

impl Bound {
    /// `target missed: pages per hit: 1.030, at most 1.02`.
    pub(super) fn told(self, what: &str, found: f64) -> String {
        let (reached, side, target) = match self {
            Bound::Least(target) => (found >= target, "at least", target),
            Bound::Most(target) => (found <= target, "at most", target),
        };
        let reached = if reached { "reached" } else { "missed" };
        let decimals = match target {
            target if target >= 1e3 => 0,
            target if target < 0.05 => 4,
            _ => 3,
        };
        format!("target {reached}: {what}: {found:.decimals$}, {side} {target}")
    }
}

/// The rows of a paper, by step.
pub(super) struct Found(pub(super) Vec<Measured>);

/// A step of a design in a case, round by round.
pub(super) struct Measured {
    pub(super) experiment: u64,
    pub(super) case: String,
    pub(super) workload: String,
    pub(super) design: String,
    rounds: Vec<Value>,
}

impl Found {
    /// The rows of experiments whose title begins with the paper's name.
    pub(super) fn of(rows: &[Value], paper: &str) -> Found {
        let text = |row: &Value, field: &str| row[field].as_str().unwrap_or_default().to_owned();
        let mut found: BTreeMap<_, Vec<Value>> = BTreeMap::new();
        let is_of_paper = |row: &&Value| text(row, "title").starts_with(paper);
        for row in rows.iter().filter(is_of_paper) {
            let names = ["case", "workload", "design"].map(|field| text(row, field));
            let experiment = row["experiment"].as_u64().unwrap_or_default();
            { found.entry((experiment, names)).or_default() }.push(row.clone());
        }
        let steps = found.into_iter().map(|((experiment, names), rounds)| {
            let [case, workload, design] = names;
            Measured {
                experiment,
                case,
                workload,
                design,
                rounds,
            }
        });
        Found(steps.collect())
    }

    /// The median over rounds at a path of the step of this case, workload and design.
    pub(super) fn number(
        &self,
        (experiment, case): (u64, &str),
        [workload, design]: [&str; 2],
        path: &str,
    ) -> Option<f64> {
        let names = (experiment, case, workload, design);
        let step = self.0.iter().find(|step| step.names() == names);
        step?.number(path)
    }
}

impl Measured {
    fn names(&self) -> (u64, &str, &str, &str) {
        (self.experiment, &self.case, &self.workload, &self.design)
    }

    /// The median over rounds at a path, or of the ratio of two paths (`/block_reads by /ops`).
    pub(super) fn number(&self, path: &str) -> Option<f64> {
        let (path, by) = path.split_once(" by ").unwrap_or((path, ""));
        median(self.rounds.iter().filter_map(|row| {
            let number = |path: &str| row.pointer(path)?.as_f64();
            match by {
                "" => number(path),
                by => Some(number(path)? / number(by)?),
            }
        }))
    }

    /// The mean over rounds at a path.
    pub(super) fn mean(&self, path: &str) -> Option<f64> {
        let rounds = self.rounds.iter();
        mean(rounds.filter_map(|row| row.pointer(path)?.as_f64()))
    }

    /// The numbers of all rounds.
    pub(super) fn text(&self, path: &str) -> &str {
        let first = self.rounds.first();
        { first.and_then(|row| row.pointer(path)?.as_str()) }.unwrap_or_default()
    }

    /// `leveling:2, values of 50 bytes`.
    pub(super) fn label(&self) -> String {
        match self.case.as_str() {
            "" => self.design.clone(),
            case => format!("{}, {case}", self.design),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_target_has_two_sides() {
        let told = [Bound::Least(1.5), Bound::Most(1.5)].map(|it| it.told("gets", 1.4));
        let expected = [
            "target missed: gets: 1.400, at least 1.5",
            "target reached: gets: 1.400, at most 1.5",
        ];
        assert_eq!(told, expected);
        let told = Bound::Least(4e6).told("gets", 4.4e6);
        assert_eq!(told, "target reached: gets: 4400000, at least 4000000");
        let told = Bound::Most(0.002).told("false positives", 0.0018);
        assert_eq!(
            told,
            "target reached: false positives: 0.0018, at most 0.002"
        );
    }

    #[test]
    fn a_step_is_its_rounds() {
        let row = |title: &str, ops: u64| {
            json!({ "title": title, "experiment": 1, "case": "", "workload": "w", "design": "d",
                    "ops": ops, "block_reads": 30 })
        };
        let rows = [
            row("A 1", 10),
            row("A 1", 30),
            row("A 1", 20),
            row("B 1", 1),
        ];
        let found = Found::of(&rows, "A");
        assert_eq!(found.0.len(), 1);
        let number = |path| found.number((1, ""), ["w", "d"], path);
        assert_eq!(number("/ops"), Some(20.0));
        assert_eq!(number("/block_reads by /ops"), Some(1.5));
        assert_eq!(number("/seconds"), None);
        assert_eq!(
            (found.0[0].text("/design"), found.0[0].label()),
            ("d", "d".to_owned())
        );
    }
}
