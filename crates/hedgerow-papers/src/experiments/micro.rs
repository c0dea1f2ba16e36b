//! Experiments without a store.

use hedgerow_bench::Result;
use serde_json::{Value, json};

use super::Runner;
use super::size::Size;

/// Collects the rows of an experiment without a store.
pub(super) struct Micro<'a> {
    pub(super) size: &'a Size,
    number: u8,
    title: &'a str,
    runner: &'a Runner<'a>,
    round: usize,
    rows: usize,
    done: &'a mut dyn FnMut(Value) -> Result<()>,
}

impl<'a> Micro<'a> {
    pub(super) fn new(
        size: &'a Size,
        number: u8,
        title: &'a str,
        runner: &'a Runner<'a>,
        done: &'a mut dyn FnMut(Value) -> Result<()>,
    ) -> Micro<'a> {
        Micro {
            size,
            number,
            title,
            runner,
            round: 0,
            rows: 0,
            done,
        }
    }

    /// Runs `experiment` in each round.
    pub(super) fn run(mut self, experiment: fn(&mut Micro<'_>) -> Result<()>) -> Result<()> {
        for round in 0..self.runner.rounds {
            self.round = round;
            experiment(&mut self)?;
        }
        match (&self.runner.only, self.rows) {
            (Some(only), 0) => Err(format!(
                "expected `{only}` in a design or a case of experiment {}, found it in none",
                self.number
            )
            .into()),
            _ => Ok(()),
        }
    }

    /// True if the design and the case are selected.
    pub(super) fn wants(&self, design: &str, case: &str) -> bool {
        let only = self.runner.only.as_deref().unwrap_or_default();
        format!("{design}, {case}").contains(only)
    }

    /// Adds a row: operations, their seconds, and further fields.
    pub(super) fn row(
        &mut self,
        (design, case): (&str, &str),
        workload: &str,
        timed: Option<(u64, f64)>,
        special: Value,
    ) -> Result<()> {
        let mut row = json!({
            "experiment": self.number,
            "title": self.title,
            "round": self.round,
            "design": design,
            "case": case,
            "workload": workload,
            "threads": 1,
        });
        let timed = timed.map_or(json!({}), |(ops, seconds)| {
            json!({ "ops": ops, "seconds": seconds, "ops_per_second": ops as f64 / seconds })
        });
        for more in [timed, special] {
            if let (Some(row), Value::Object(more)) = (row.as_object_mut(), more) {
                row.extend(more);
            }
        }
        self.rows += 1;
        (self.done)(row)
    }
}
