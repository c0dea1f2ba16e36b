//! The latency of calls.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde_json::{Value, json};

/// A histogram of times with three significant digits, the exact longest time, and what the
/// hypervisor took meanwhile.
#[derive(Debug, Clone)]
pub(crate) struct Latency {
    ns: Histogram<u64>,
    max_ns: u64,
    max_stolen: Option<Duration>,
}

/// The longest time of the histogram; longer calls count as this, and `max_ns` has their time.
const NS_MAX: u64 = 3_600_000_000_000;

impl Latency {
    pub(crate) fn new() -> Latency {
        let ns = Histogram::new_with_bounds(1, NS_MAX, 3).expect("the bounds are in order");
        Latency {
            ns,
            max_ns: 0,
            max_stolen: None,
        }
    }

    /// Returns true if this is the longest time so far.
    #[inline]
    pub(crate) fn record(&mut self, took: Duration) -> bool {
        let ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.ns.saturating_record(ns);
        let is_longest = ns > self.max_ns;
        self.max_ns = self.max_ns.max(ns);
        is_longest
    }

    /// Notes the time that was taken from all processors during the longest time so far.
    pub(crate) fn note_stolen(&mut self, stolen: Option<Duration>) {
        self.max_stolen = stolen;
    }

    pub(crate) fn add(&mut self, other: &Latency) {
        self.ns.add(&other.ns).expect("both have the same bounds");
        if other.max_ns > self.max_ns {
            (self.max_ns, self.max_stolen) = (other.max_ns, other.max_stolen);
        }
    }

    /// The latencies in microseconds.
    pub(crate) fn to_json(&self) -> Value {
        let us = |ns: u64| ns as f64 / 1000.0;
        // The end of a bucket may be above its longest time.
        let at = |quantile| us(self.ns.value_at_quantile(quantile).min(self.max_ns));
        json!({
            "p50": at(0.5),
            "p95": at(0.95),
            "p99": at(0.99),
            "p999": at(0.999),
            "p9999": at(0.9999),
            "max": us(self.max_ns),
            "max_stolen": self.max_stolen.map(|it| it.as_micros() as f64),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_close_and_the_maximum_is_exact() {
        let mut a = Latency::new();
        let mut b = Latency::new();
        (1..=500).for_each(|us| assert!(a.record(Duration::from_micros(us))));
        (501..=999).for_each(|us| assert!(b.record(Duration::from_micros(us))));
        assert!(b.record(Duration::from_nanos(123_456_789)));
        b.note_stolen(Some(Duration::from_millis(40)));
        a.add(&b);
        let found = a.to_json();
        assert_eq!(found["max"], 123_456.789);
        assert_eq!(found["max_stolen"], 40_000.0);
        for (name, expected) in [
            ("p50", 500.0),
            ("p95", 950.0),
            ("p99", 990.0),
            ("p999", 999.0),
        ] {
            let ratio = found[name].as_f64().unwrap() / expected;
            assert!((0.999..1.002).contains(&ratio), "{name}: {found}");
        }
    }

    #[test]
    fn nothing_took_no_time() {
        assert_eq!(Latency::new().to_json()["p999"], 0.0);
    }
}
