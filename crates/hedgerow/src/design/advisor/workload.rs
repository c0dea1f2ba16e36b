//! The operations on a store: their mix, and the data that they use.

use std::fmt;
use std::str::FromStr;

use crate::base::error::{Error, Result};
use crate::base::stats::KeyspaceStats;

/// Fractions of operations; they sum to 1.
///
/// ```
/// use hedgerow::advisor::Mix;
///
/// let mix: Mix = "get=3,miss=1,scan=1,put=5".parse()?;
/// assert_eq!((mix.get, mix.put), (0.3, 0.5));
/// assert_eq!(mix.to_string(), "get=0.3,miss=0.1,scan=0.1,put=0.5");
/// # Ok::<(), hedgerow::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Mix {
    /// Gets of present keys.
    pub get: f64,
    /// Gets of absent keys.
    pub miss: f64,
    /// Seeks with a few steps ([`Workload::scan_entries`]).
    pub scan: f64,
    /// Seeks with many steps ([`Workload::long_scan_entries`]).
    pub long_scan: f64,
    /// Puts and deletes.
    pub put: f64,
}

const NAMES: [&str; 5] = ["get", "miss", "scan", "long-scan", "put"];

impl Mix {
    /// The fractions of these weights.
    ///
    /// # Errors
    ///
    /// [`crate::base::error::ErrorKind::InvalidArgument`] if a weight is negative or not a number,
    /// or all are 0.
    pub fn new(weights: Mix) -> Result<Mix> {
        let parts = weights.parts();
        if let Some(bad) = parts.iter().find(|part| !part.is_finite() || **part < 0.0) {
            return Err(Error::invalid(format!(
                "expected weights of operations of 0 or more, found {bad}"
            )));
        }
        let sum: f64 = parts.iter().sum();
        if !(sum > 0.0 && sum.is_finite()) {
            return Err(Error::invalid(
                "expected at least one operation in the mix, found none".to_owned(),
            ));
        }
        Ok(Mix::of(parts.map(|part| part / sum)))
    }

    fn parts(&self) -> [f64; 5] {
        [self.get, self.miss, self.scan, self.long_scan, self.put]
    }

    fn of([get, miss, scan, long_scan, put]: [f64; 5]) -> Mix {
        Mix {
            get,
            miss,
            scan,
            long_scan,
            put,
        }
    }
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = NAMES.iter().zip(self.parts());
        let shown = parts.filter(|(_, part)| *part > 0.0);
        let shown: Vec<String> = shown
            .map(|(name, part)| format!("{name}={}", (part * 1e4).round() / 1e4))
            .collect();
        f.write_str(&shown.join(","))
    }
}

impl FromStr for Mix {
    type Err = Error;

    /// Reads `get=0.3,miss=0.1,scan=0.1,long-scan=0,put=0.5`: weights in any order and of any sum.
    fn from_str(text: &str) -> Result<Mix> {
        let mut parts = [0.0; 5];
        for pair in text.split(',') {
            let found = pair.split_once('=').and_then(|(name, weight)| {
                let index = NAMES.iter().position(|it| *it == name.trim())?;
                Some((index, weight.trim().parse::<f64>().ok()?))
            });
            let (index, weight) = found.ok_or_else(|| {
                Error::invalid(format!(
                    "expected a mix such as `get=0.3,miss=0.1,scan=0.1,put=0.5` with the operations {}; found `{pair}`",
                    NAMES.join(", ")
                ))
            })?;
            parts[index] += weight;
        }
        Mix::new(Mix::of(parts))
    }
}

/// A mix of operations over `entries` entries of one size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Workload {
    /// The share of each operation.
    pub mix: Mix,
    /// The number of stored keys.
    pub entries: f64,
    /// Bytes of a key, on average.
    pub key_bytes: f64,
    /// Bytes of a value as stored, on average.
    pub value_bytes: f64,
    /// The fraction of puts of existing keys, 0 to 1. Overwrites make a tree larger than its data.
    pub overwrites: f64,
    /// The fraction of puts that are operands of a merge operator, 0 to 1. A get of a key looks up
    /// each operand that no merge has met yet.
    pub operands: f64,
    /// Steps of a short scan.
    pub scan_entries: f64,
    /// Steps of a long scan.
    pub long_scan_entries: f64,
}

impl Workload {
    /// Keys of 16 and values of 100 bytes, every put an overwrite, scans of 10 and of 10,000 steps.
    pub fn new(mix: Mix, entries: f64) -> Workload {
        Workload {
            mix,
            entries,
            key_bytes: 16.0,
            value_bytes: 100.0,
            overwrites: 1.0,
            operands: 0.0,
            scan_entries: 10.0,
            long_scan_entries: 10_000.0,
        }
    }

    /// The recent operations on a keyspace, over its data. Scans have their mean length, which
    /// determines their cost. Operands count as puts. Only overwrites found by merges count, which
    /// are too few while a store grows.
    ///
    /// # Errors
    ///
    /// [`crate::base::error::ErrorKind::InvalidArgument`] if the tables are empty, or no operation
    /// was counted.
    pub fn measured(keyspace: &KeyspaceStats) -> Result<Workload> {
        let operations = &keyspace.operations;
        if operations.total() == 0 {
            return Err(Error::invalid(format!(
                "expected counted operations on `{}`, found none",
                keyspace.name
            )));
        }
        let writes = (operations.puts + operations.deletes) as f64;
        let mix = Mix::new(Mix {
            get: operations.gets_found as f64,
            miss: operations.gets_missed as f64,
            scan: operations.seeks as f64,
            long_scan: 0.0,
            put: writes,
        })?;
        Ok(Workload {
            overwrites: (operations.replaced as f64 / writes.max(1.0)).min(1.0),
            scan_entries: operations.nexts as f64 / (operations.seeks as f64).max(1.0),
            ..Workload::new(mix, 1.0).over(keyspace)?
        })
    }

    /// The same operations over the data of a keyspace.
    ///
    /// # Errors
    ///
    /// [`crate::base::error::ErrorKind::InvalidArgument`] if the tables are empty.
    pub fn over(self, keyspace: &KeyspaceStats) -> Result<Workload> {
        let in_tables: u64 = keyspace.levels.iter().map(|level| level.entries).sum();
        if in_tables == 0 {
            return Err(Error::invalid(format!(
                "expected entries in the tables of `{}`, found none",
                keyspace.name
            )));
        }
        let entry_bytes = keyspace.raw_bytes as f64 / in_tables as f64;
        Ok(Workload {
            entries: keyspace.entries() as f64,
            key_bytes: keyspace.key_bytes,
            value_bytes: (entry_bytes - keyspace.key_bytes).max(0.0),
            ..self
        })
    }

    /// Bytes of key and value.
    pub fn entry_bytes(&self) -> f64 {
        self.key_bytes + self.value_bytes
    }

    /// # Errors
    ///
    /// [`crate::base::error::ErrorKind::InvalidArgument`] if a number is out of bounds.
    pub(crate) fn check(&self) -> Result<()> {
        Mix::new(self.mix)?;
        let ranges = [
            ("entries", self.entries, 1.0, 1e15),
            ("bytes of a key", self.key_bytes, 1.0, 65_536.0),
            ("bytes of a value", self.value_bytes, 0.0, 1e9),
            ("a fraction of overwrites", self.overwrites, 0.0, 1.0),
            ("a fraction of operands", self.operands, 0.0, 1.0),
            ("steps of a scan", self.scan_entries, 0.0, 1e9),
            ("steps of a long scan", self.long_scan_entries, 0.0, 1e12),
        ];
        for (what, found, min, max) in ranges {
            if !(min..=max).contains(&found) {
                return Err(Error::invalid(format!(
                    "expected {what} of {min} to {max}, found {found}"
                )));
            }
        }
        Ok(())
    }
}
