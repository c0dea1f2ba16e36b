//! A limit on the bytes per second that background work writes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hedgerow_io::Clock;

/// Lets at most so many bytes per second pass, evened out over a tenth of a second.
#[derive(Debug)]
pub(crate) struct RateLimiter {
    clock: Arc<dyn Clock>,
    /// 0 is no limit.
    bytes_per_second: AtomicU64,
    /// The moment, in nanoseconds, at which everything granted so far will have been used up.
    used_up_ns: AtomicU64,
}

const BURST_NS: u64 = 100_000_000;

impl RateLimiter {
    pub(crate) fn new(clock: Arc<dyn Clock>, bytes_per_second: Option<u64>) -> RateLimiter {
        RateLimiter {
            clock,
            bytes_per_second: AtomicU64::new(bytes_per_second.unwrap_or(0)),
            used_up_ns: AtomicU64::new(0),
        }
    }

    /// Waits until `bytes` more may be written.
    pub(crate) fn take(&self, bytes: u64) {
        let rate = self.bytes_per_second.load(Ordering::Relaxed);
        if rate == 0 {
            return;
        }
        let cost_ns = (u128::from(bytes) * 1_000_000_000 / u128::from(rate)) as u64;
        let now_ns = self.clock.now().as_nanos() as u64;
        let start_ns = self
            .used_up_ns
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used_up| {
                Some(used_up.max(now_ns.saturating_sub(BURST_NS)) + cost_ns)
            })
            .unwrap_or_default()
            .max(now_ns.saturating_sub(BURST_NS));
        let wait_ns = (start_ns + cost_ns).saturating_sub(now_ns);
        if wait_ns > 0 {
            self.clock.sleep(Duration::from_nanos(wait_ns));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
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

    #[test]
    fn no_limit_never_waits() {
        let clock = Arc::new(SimClock::new());
        RateLimiter::new(clock.clone(), None).take(u64::MAX);
        assert_eq!(clock.now(), Duration::ZERO);
    }
}
