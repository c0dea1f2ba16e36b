//! A limit on the bytes per second that background work writes.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use hedgerow_io::Clock;

use crate::base::mutex::lock;

/// Lets at most `bytes_per_second` pass, averaged over a tenth of a second.
#[derive(Debug)]
pub(crate) struct RateLimiter {
    clock: Arc<dyn Clock>,
    /// `None` is no limit.
    bytes_per_second: Option<u64>,
    granted: Mutex<Grants>,
}

#[derive(Debug, Default)]
struct Grants {
    /// The moment, in nanoseconds, at which all bytes granted so far are used up.
    used_up_ns: u64,
    /// The moment of the last grant.
    now_ns: u64,
}

const BURST_NS: u64 = 100_000_000;

impl RateLimiter {
    pub(crate) fn new(clock: Arc<dyn Clock>, bytes_per_second: Option<u64>) -> RateLimiter {
        RateLimiter {
            clock,
            bytes_per_second,
            granted: Mutex::default(),
        }
    }

    /// Waits until `bytes` more may be written.
    pub(crate) fn take(&self, bytes: u64) {
        let Some(rate) = self.bytes_per_second else {
            return;
        };
        let cost_ns = u128::from(bytes) * 1_000_000_000 / u128::from(rate);
        let wait_ns = self.grant(u64::try_from(cost_ns).unwrap_or(u64::MAX));
        if wait_ns > 0 {
            self.clock.sleep(Duration::from_nanos(wait_ns));
        }
    }

    /// Enters a cost and returns the wait for it. If the clock went back, earlier grants move back
    /// with it: nobody waits until it reaches its old time.
    fn grant(&self, cost_ns: u64) -> u64 {
        let mut granted = lock(&self.granted);
        let now_ns = self.clock.now().as_nanos() as u64;
        let back_ns = granted.now_ns.saturating_sub(now_ns);
        let used_up_ns = granted.used_up_ns.saturating_sub(back_ns);
        let start_ns = used_up_ns.max(now_ns.saturating_sub(BURST_NS));
        *granted = Grants {
            used_up_ns: start_ns.saturating_add(cost_ns),
            now_ns,
        };
        granted.used_up_ns.saturating_sub(now_ns)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    use hedgerow_io::Clock;
    use hedgerow_io::sim::SimClock;

    use super::RateLimiter;

    #[test]
    fn bytes_pass_at_the_rate_and_no_faster_than_a_burst_allows() {
        let clock = Arc::new(SimClock::new());
        let limiter = RateLimiter::new(clock.clone(), Some(1_000_000));
        for _ in 0..100 {
            limiter.take(50_000);
        }
        let took = clock.now();
        assert!(took >= Duration::from_millis(4900), "5 MB took {took:?}");
        assert!(took <= Duration::from_millis(5000), "5 MB took {took:?}");
    }

    #[test]
    fn time_that_was_not_used_is_lost_beyond_the_burst() {
        let clock = Arc::new(SimClock::new());
        let limiter = RateLimiter::new(clock.clone(), Some(1_000_000));
        clock.advance(Duration::from_secs(60));
        let before = clock.now();
        limiter.take(1_000_000);
        assert!(clock.now() - before >= Duration::from_millis(900));
    }

    /// A clock whose hands somebody moves, and that counts how long anybody slept.
    #[derive(Debug, Default)]
    struct MovedClock {
        now_ns: AtomicU64,
        slept_ns: AtomicU64,
    }

    impl Clock for MovedClock {
        fn now(&self) -> Duration {
            Duration::from_nanos(self.now_ns.load(Ordering::Relaxed))
        }

        fn unix_millis(&self) -> u64 {
            0
        }

        fn sleep(&self, duration: Duration) {
            let ns = duration.as_nanos() as u64;
            self.now_ns.fetch_add(ns, Ordering::Relaxed);
            self.slept_ns.fetch_add(ns, Ordering::Relaxed);
        }
    }

    #[test]
    fn nobody_waits_for_a_clock_that_went_back() {
        let clock = Arc::new(MovedClock::default());
        let limiter = RateLimiter::new(clock.clone(), Some(1_000_000));
        for hour in [5, 100, 3, 0, 876_000, 1] {
            let now = Duration::from_secs(3600 * hour).as_nanos() as u64;
            clock.now_ns.store(now, Ordering::Relaxed);
            clock.slept_ns.store(0, Ordering::Relaxed);
            for _ in 0..20 {
                limiter.take(50_000);
            }
            let slept = Duration::from_nanos(clock.slept_ns.load(Ordering::Relaxed));
            assert!(
                slept <= Duration::from_millis(1100),
                "{slept:?} for a second of bytes"
            );
            assert!(
                slept >= Duration::from_millis(800),
                "{slept:?} for a second of bytes"
            );
        }
        limiter.take(u64::MAX);
    }

    #[test]
    fn no_limit_never_waits() {
        let clock = Arc::new(SimClock::new());
        RateLimiter::new(clock.clone(), None).take(u64::MAX);
        assert_eq!(clock.now(), Duration::ZERO);
    }
}
