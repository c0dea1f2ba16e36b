//! What a store has cost while it grew part by part.

use serde_json::{Value, json};

/// Sums over the parts of a fill.
#[derive(Debug, Default)]
pub(super) struct Growth {
    entries: f64,
    user_bytes: f64,
    entries_written: Option<f64>,
    bytes_written: Option<f64>,
}

impl Growth {
    /// Adds a part, and to its row `grown`: `entries` and `user_bytes` so far, and how often they
    /// were written, `entry_writes` and `write_amplification`.
    pub(super) fn add(&mut self, row: &mut Value) {
        let is_first = self.entries == 0.0;
        let number = |name: &str| row[name].as_f64();
        let sum = |sum: Option<f64>, part: Option<f64>| match is_first {
            true => part,
            false => sum.zip(part).map(|(sum, part)| sum + part),
        };
        let written = number("flush_bytes").zip(number("merge_write_bytes"));
        self.entries_written = sum(self.entries_written, number("entries_written"));
        self.bytes_written = sum(self.bytes_written, written.map(|(a, b)| a + b));
        self.entries += number("ops").unwrap_or(0.0);
        self.user_bytes += number("user_bytes").unwrap_or(0.0);
        row["grown"] = json!({
            "entries": self.entries,
            "user_bytes": self.user_bytes,
            "entry_writes": self.entries_written.map(|it| it / self.entries),
            "write_amplification": self.bytes_written.map(|it| it / self.user_bytes),
        });
    }
}
