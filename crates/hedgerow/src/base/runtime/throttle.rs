//! Delays writers smoothly, by how far the background work is behind.
//!
//! Each source of pressure is a fill between 0 (nothing to do) and 1 (the hard limit). The largest
//! one sets the delay per byte written. The delay grows without a step, from zero at half full to
//! about a second per mebibyte at the limit. So a load settles at the rate of the merges instead of
//! running into a wall. One call never sleeps longer than [`SLEEP_MAX`]; the rest of its debt is
//! carried over to the next write.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hedgerow_io::Clock;

use crate::base::mutex::lock;
use crate::base::stats::Stall;

/// The longest single pause: under the 30 ms that a write may wait.
pub(crate) const SLEEP_MAX: Duration = Duration::from_millis(20);
/// Shorter waits are accumulated: a sleep costs about 60 microseconds whatever its length.
const SLEEP_MIN: Duration = Duration::from_micros(200);
/// Below this fill no write is delayed.
const FREE_BELOW: f64 = 0.5;

/// The reason for a delay of writers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pressure {
    /// Sealed memtables wait to be flushed.
    Memtables,
    /// Level 0 has many runs.
    Level0,
    /// Levels are above their capacity.
    MergeDebt,
    /// The log is longer than its limit.
    Log,
}

pub(crate) const PRESSURES: usize = 4;

/// The delay of writers.
#[derive(Debug)]
pub(crate) struct Throttle {
    clock: Arc<dyn Clock>,
    /// Bits of an `f64`, because an integer would round picoseconds per byte away.
    delay_ns_per_byte: AtomicU64,
    cause: AtomicU64,
    fills: [AtomicU64; PRESSURES],
    parts: [Mutex<Parts>; PRESSURES],
    /// The moment until which the delay of the bytes admitted so far reaches.
    paid_until_ns: AtomicU64,
    waits: [Waits; PRESSURES],
}

/// The fills of a source's parts, by number and in order. Each is the bits of an `f64` above 0,
/// which have the same order.
#[derive(Debug, Default)]
struct Parts {
    fills: BTreeMap<u32, u64>,
    ordered: BTreeSet<(u64, u32)>,
}

/// The waits for one reason, in nanoseconds.
#[derive(Debug, Default)]
struct Waits {
    count: AtomicU64,
    total: AtomicU64,
    longest: AtomicU64,
}

/// The delay in nanoseconds per byte at a fill: 0 up to half, 4 ns (250 MB/s) at 0.7, 50 ns (20
/// MB/s) at 0.9, capped at 1 microsecond (1 MB/s).
pub(crate) fn delay_ns_per_byte(fill: f64) -> f64 {
    let x = ((fill - FREE_BELOW) / (1.0 - FREE_BELOW)).clamp(0.0, 1.0);
    (15.0 * x * x / (1.0 - x).max(1e-3)).min(1000.0)
}

impl Throttle {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Throttle {
        Throttle {
            clock,
            delay_ns_per_byte: AtomicU64::new(0f64.to_bits()),
            cause: AtomicU64::new(0),
            fills: Default::default(),
            parts: Default::default(),
            paid_until_ns: AtomicU64::new(0),
            waits: Default::default(),
        }
    }

    /// Sets the fill of one source.
    pub(crate) fn set(&self, source: Pressure, fill: f64) {
        self.fills[source as usize].store(fill.to_bits(), Ordering::Relaxed);
        let (cause, fill) = self
            .fills
            .iter()
            .map(|f| f64::from_bits(f.load(Ordering::Relaxed)))
            .enumerate()
            .fold((0, 0.0), |max, x| if x.1 > max.1 { x } else { max });
        self.cause.store(cause as u64, Ordering::Relaxed);
        self.delay_ns_per_byte
            .store(delay_ns_per_byte(fill).to_bits(), Ordering::Relaxed);
    }

    /// Sets the fill of one part of a source. A source is as full as its fullest part. `fill` is
    /// called while no other part is set, so that the last call counts. Cost: the logarithm of the
    /// number of parts.
    pub(crate) fn set_part(&self, source: Pressure, part: u32, fill: impl FnOnce() -> f64) {
        let mut parts = lock(&self.parts[source as usize]);
        let fill = fill();
        if let Some(before) = parts.fills.remove(&part) {
            parts.ordered.remove(&(before, part));
        }
        if fill > 0.0 {
            let fill = fill.to_bits();
            parts.fills.insert(part, fill);
            parts.ordered.insert((fill, part));
        }
        let fullest = parts.ordered.last().map_or(0, |(fill, _)| *fill);
        self.set(source, f64::from_bits(fullest));
    }

    /// True if writes are delayed.
    pub(crate) fn holds_back(&self) -> bool {
        self.delay() > 0.0
    }

    /// Nanoseconds per byte.
    fn delay(&self) -> f64 {
        f64::from_bits(self.delay_ns_per_byte.load(Ordering::Relaxed))
    }

    /// Returns true if a write of `bytes` that begins now sleeps.
    pub(crate) fn delays(&self, bytes: usize) -> bool {
        let per_byte = self.delay();
        if per_byte == 0.0 {
            return false;
        }
        let now_ns = self.clock.now().as_nanos() as u64;
        let owed_ns = self.paid_until_ns.load(Ordering::Relaxed);
        let owed_ns = owed_ns.saturating_sub(now_ns) + (per_byte * bytes as f64) as u64;
        Duration::from_nanos(owed_ns) >= SLEEP_MIN
    }

    /// Waits as long as a write of `bytes` must wait. Called outside every lock.
    pub(crate) fn admit(&self, bytes: usize) {
        let per_byte = self.delay();
        if per_byte == 0.0 {
            return;
        }
        let cost_ns = (per_byte * bytes as f64) as u64;
        let now_ns = self.clock.now().as_nanos() as u64;
        let paid_until = self
            .paid_until_ns
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |paid| {
                let cap = now_ns.saturating_add(4 * SLEEP_MAX.as_nanos() as u64);
                Some(paid.max(now_ns).saturating_add(cost_ns).min(cap))
            })
            .unwrap_or_default()
            .max(now_ns)
            .saturating_add(cost_ns);
        let wait = Duration::from_nanos(paid_until - now_ns);
        if wait >= SLEEP_MIN {
            let wait = wait.min(SLEEP_MAX);
            self.clock.sleep(wait);
            let cause = self.cause.load(Ordering::Relaxed) as usize;
            self.waits[cause].add(wait);
        }
    }

    /// Adds a wait that happened elsewhere.
    pub(crate) fn count(&self, cause: Pressure, waited: Duration) {
        self.waits[cause as usize].add(waited);
    }

    /// The waits of writers, in the order of [`Pressure`].
    pub(crate) fn stalls(&self) -> [Stall; PRESSURES] {
        std::array::from_fn(|i| self.waits[i].stall())
    }
}

impl Waits {
    fn add(&self, waited: Duration) {
        let ns = waited.as_nanos() as u64;
        self.count.fetch_add(1, Ordering::Relaxed);
        self.total.fetch_add(ns, Ordering::Relaxed);
        self.longest.fetch_max(ns, Ordering::Relaxed);
    }

    fn stall(&self) -> Stall {
        Stall {
            count: self.count.load(Ordering::Relaxed),
            total: Duration::from_nanos(self.total.load(Ordering::Relaxed)),
            longest: Duration::from_nanos(self.longest.load(Ordering::Relaxed)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_as_full_as_the_fullest_of_its_parts() {
        let throttle = Throttle::new(Arc::new(hedgerow_io::sim::SimClock::new()));
        let fill =
            || f64::from_bits(throttle.fills[Pressure::Level0 as usize].load(Ordering::Relaxed));
        let set = |part, fill| throttle.set_part(Pressure::Level0, part, || fill);
        for (part, of_part, fullest) in [
            (1, 0.2, 0.2),
            (2, 0.7, 0.7),
            (3, 0.7, 0.7),
            (2, 0.1, 0.7),
            (3, 0.0, 0.2),
            (1, 0.0, 0.1),
            (2, -0.0, 0.0),
        ] {
            set(part, of_part);
            assert_eq!(fill(), fullest);
        }
        assert!(
            throttle.parts[Pressure::Level0 as usize]
                .lock()
                .unwrap()
                .fills
                .is_empty()
        );
    }

    #[test]
    fn delay_has_no_step() {
        let mut before = 0.0;
        for i in 0..=1000 {
            let delay = delay_ns_per_byte(f64::from(i) / 1000.0);
            assert!(delay >= before);
            if i <= 500 {
                assert_eq!(delay, 0.0);
            } else if i <= 900 {
                assert!(delay - before < 1.0, "a step of {} at {i}", delay - before);
            }
            before = delay;
        }
        assert_eq!(before, 1000.0);
    }
}
