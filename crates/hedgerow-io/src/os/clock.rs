//! The clocks of the system.

use std::thread;
use std::time::{Duration, Instant, SystemTime};

use crate::Clock;

/// Monotonic time since the clock was made.
#[derive(Debug, Clone)]
pub struct OsClock {
    start: Instant,
}

impl OsClock {
    /// A clock that starts at zero.
    pub fn new() -> OsClock {
        OsClock {
            start: Instant::now(),
        }
    }
}

impl Default for OsClock {
    fn default() -> OsClock {
        OsClock::new()
    }
}

impl Clock for OsClock {
    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    fn unix_seconds(&self) -> u64 {
        // A machine whose clock is before 1970 has no date to show.
        SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .map_or(0, |time| time.as_secs())
    }

    fn sleep(&self, duration: Duration) {
        thread::sleep(duration);
    }
}
