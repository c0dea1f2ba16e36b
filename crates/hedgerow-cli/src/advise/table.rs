//! A table whose rows are numbers in columns with words behind them.

use hedgerow::advisor::{Prediction, TreeModel};

use crate::output::Output;

/// The indent of words below their numbers.
const INDENT: &str = "      ";

pub(super) struct Row {
    pub(super) numbers: String,
    pub(super) words: String,
}

impl Row {
    /// The row of a design in the table of designs.
    pub(super) fn of_design(it: &Prediction, ratios: &str, tree: &TreeModel) -> Row {
        Row {
            numbers: format!(
                "  {:>9.2} {:>8.2} {:>8.2} {:>8.2} {:>7.2} {:>10.3} {:>7.1} {:>6.2} {:>6.1}",
                it.cost_us,
                it.hit_us,
                it.miss_us,
                it.scan_us,
                it.put_us,
                it.hit_reads,
                it.entry_writes,
                it.space,
                it.runs,
            ),
            words: format!("{ratios:<22} {tree}"),
        }
    }

    fn line(&self) -> String {
        let line = format!("{}  {}", self.numbers, self.words);
        line.trim_end().to_owned()
    }
}

/// Prints rows. If the terminal is too narrow for one, each row has its words below its numbers.
pub(super) fn print(rows: &[Row], output: &mut Output) {
    let widest = rows.iter().map(|row| row.line().chars().count()).max();
    let is_narrow = output.columns() < widest && output.columns().is_some();
    for row in rows {
        if !is_narrow {
            output.line(format_args!("{}", row.line()));
            continue;
        }
        output.line(format_args!("{}", row.numbers));
        if !row.words.is_empty() {
            output.wrapped(INDENT, &row.words);
        }
    }
}
