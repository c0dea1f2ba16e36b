//! The clock that entries expire by.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use hedgerow_io::Clock;

/// At opening, a time that was seen before counts up to this far ahead of the system's clock. So
/// one wrong time does not let everything expire for years.
const AHEAD_MAX_MS: u64 = 24 * 3600 * 1000;
/// The system's clock is looked at once in this time.
const LOOK_EVERY_MS: u64 = 1000;

/// A clock in milliseconds since 1970 that never goes back. It runs by the monotonic clock and
/// follows the system's clock: at opening at once, later by at most as much as time has passed.
#[derive(Debug)]
pub(crate) struct ExpiryClock {
    /// The latest time told.
    latest: AtomicU64,
    /// The time when the monotonic clock was at zero.
    base: AtomicU64,
    /// The last look at the system's clock, by the monotonic clock.
    looked_at: AtomicU64,
    /// True if some entry expires, so that the clock's time is to be stored.
    is_used: AtomicBool,
}

impl ExpiryClock {
    /// A clock that is at least at a time that an earlier one told; 0 if there was none.
    pub(crate) fn new(clock: &dyn Clock, seen: u64) -> ExpiryClock {
        let wall = clock.unix_millis();
        let start = wall.max(seen.min(wall.saturating_add(AHEAD_MAX_MS)));
        let passed = millis(clock.now());
        ExpiryClock {
            latest: AtomicU64::new(start),
            base: AtomicU64::new(start.saturating_sub(passed)),
            looked_at: AtomicU64::new(passed),
            is_used: AtomicBool::new(seen > 0),
        }
    }

    /// The time. Cost: a look at the monotonic clock.
    pub(crate) fn now(&self, clock: &dyn Clock) -> u64 {
        let passed = millis(clock.now());
        let looked_at = self.looked_at.load(Ordering::Relaxed);
        if passed >= looked_at.saturating_add(LOOK_EVERY_MS) {
            self.follow(clock, looked_at, passed);
        }
        let now = self.base.load(Ordering::Relaxed).saturating_add(passed);
        self.latest.fetch_max(now, Ordering::Relaxed).max(now)
    }

    #[cold]
    fn follow(&self, clock: &dyn Clock, looked_at: u64, passed: u64) {
        let (order, looked) = (Ordering::Relaxed, &self.looked_at);
        if looked
            .compare_exchange(looked_at, passed, order, order)
            .is_err()
        {
            return;
        }
        let now = self.base.load(order).saturating_add(passed);
        let behind = clock.unix_millis().saturating_sub(now);
        let _ = self.base.fetch_update(order, order, |base| {
            Some(base.saturating_add(behind.min(passed - looked_at)))
        });
    }

    /// Tells no time before the latest one that another clock told.
    pub(crate) fn reach(&self, other: &ExpiryClock) {
        let latest = other.latest.load(Ordering::Relaxed);
        self.latest.fetch_max(latest, Ordering::Relaxed);
    }

    /// Notes that an entry expires.
    pub(crate) fn note_use(&self) {
        if !self.is_used.load(Ordering::Relaxed) {
            self.is_used.store(true, Ordering::Relaxed);
        }
    }

    /// Returns true if some entry may expire.
    pub(crate) fn is_used(&self) -> bool {
        self.is_used.load(Ordering::Relaxed)
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// The monotonic and the system's clock, in milliseconds.
    #[derive(Debug)]
    struct Clocks(Mutex<(u64, u64)>);

    impl Clock for Clocks {
        fn now(&self) -> Duration {
            Duration::from_millis(self.0.lock().unwrap().0)
        }

        fn unix_millis(&self) -> u64 {
            self.0.lock().unwrap().1
        }

        fn sleep(&self, _duration: Duration) {}
    }

    const HOUR: u64 = 3_600_000;

    #[test]
    fn the_clock_follows_forward_slowly_and_never_goes_back() {
        let clocks = Clocks(Mutex::new((5, 1000 * HOUR)));
        let set = |mono, wall| *clocks.0.lock().unwrap() = (mono, wall);
        let clock = ExpiryClock::new(&clocks, 0);
        assert_eq!(clock.now(&clocks), 1000 * HOUR);
        set(5 + HOUR, 1001 * HOUR);
        assert_eq!(clock.now(&clocks), 1001 * HOUR);
        // The system's clock jumps by a century.
        set(5 + 2 * HOUR, 1_000_000 * HOUR);
        assert_eq!(clock.now(&clocks), 1003 * HOUR);
        // It jumps back, to before the first time.
        set(5 + 3 * HOUR, HOUR);
        assert_eq!(clock.now(&clocks), 1004 * HOUR);
        // Even a monotonic clock that goes back does not take it back.
        set(0, HOUR);
        assert_eq!(clock.now(&clocks), 1004 * HOUR);
    }

    #[test]
    fn a_time_seen_before_counts_within_bounds() {
        let clocks = Clocks(Mutex::new((0, 1000 * HOUR)));
        let opened = |seen| ExpiryClock::new(&clocks, seen).now(&clocks);
        assert_eq!(opened(990 * HOUR), 1000 * HOUR);
        assert_eq!(opened(1003 * HOUR), 1003 * HOUR);
        assert_eq!(opened(1_000_000 * HOUR), 1024 * HOUR);
    }
}
