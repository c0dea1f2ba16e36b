//! The costs of a store that grows part by part.

use serde_json::{Value, json};

/// Sums over the parts of a fill.
#[derive(Debug, Default)]
pub(super) struct Growth {
    entries: f64,
    user_bytes: f64,
    entries_written: Sum,
    bytes_written: Sum,
    filter_bytes_written: Sum,
}

/// A sum over parts; `None` if a part lacks the number.
#[derive(Debug, Clone, Copy)]
struct Sum(Option<f64>);

impl Default for Sum {
    fn default() -> Sum {
        Sum(Some(0.0))
    }
}

impl Sum {
    fn add(&mut self, part: Option<f64>) {
        self.0 = self.0.zip(part).map(|(sum, part)| sum + part);
    }

    fn over(self, of: f64) -> Option<f64> {
        self.0.map(|sum| sum / of)
    }
}

impl Growth {
    /// Adds a part, and `grown` to its row: `entries` and `user_bytes` so far, their `entry_writes`
    /// and `write_amplification`, and the share of separate filter files,
    /// `filter_write_amplification`.
    pub(super) fn add(&mut self, row: &mut Value) {
        let number = |name: &str| row[name].as_f64();
        let written = number("flush_bytes").zip(number("merge_write_bytes"));
        self.entries_written.add(number("entries_written"));
        self.bytes_written.add(written.map(|(a, b)| a + b));
        self.filter_bytes_written.add(number("filter_write_bytes"));
        self.entries += number("ops").unwrap_or(0.0);
        self.user_bytes += number("user_bytes").unwrap_or(0.0);
        row["grown"] = json!({
            "entries": self.entries,
            "user_bytes": self.user_bytes,
            "entry_writes": self.entries_written.over(self.entries),
            "write_amplification": self.bytes_written.over(self.user_bytes),
            "filter_write_amplification": self.filter_bytes_written.over(self.user_bytes),
        });
    }

    /// Adds the number of entries to the row of a read.
    pub(super) fn tell(&self, row: &mut Value) {
        row["grown"] = json!({ "entries": self.entries });
    }
}
