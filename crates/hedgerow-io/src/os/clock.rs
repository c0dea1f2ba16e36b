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

    fn unix_millis(&self) -> u64 {
        // A machine whose clock is before 1970 has no date to show.
        SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .map_or(0, |time| time.as_millis() as u64)
    }

    fn sleep(&self, duration: Duration) {
        thread::sleep(duration);
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn thread_cpu(&self) -> Duration {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        Duration::new(
            time.tv_sec.unsigned_abs(),
            time.tv_nsec.unsigned_abs() as u32,
        )
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn work_takes_processor_time_and_sleep_does_not() {
        let clock = OsClock::new();
        let (wall, cpu) = (clock.now(), clock.thread_cpu());
        clock.sleep(Duration::from_millis(20));
        let slept = clock.thread_cpu() - cpu;
        assert!(slept < clock.now() - wall);
        let mut sum = 0_u64;
        while clock.thread_cpu() - cpu < slept + Duration::from_millis(1) {
            sum = std::hint::black_box(sum + 1);
        }
    }
}
