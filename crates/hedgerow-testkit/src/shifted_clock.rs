//! A clock that a script sets on.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hedgerow::io::sim::SimStorage;
use hedgerow::io::{Clock, Environment};

use crate::setup::{DiskSpec, Setup};

/// The clock of a disk, and the time that has passed besides.
#[derive(Debug)]
pub(crate) struct ShiftedClock {
    clock: Arc<dyn Clock>,
    passed_ms: AtomicU64,
}

impl ShiftedClock {
    pub(crate) fn new(setup: &Setup) -> ShiftedClock {
        let environment = match setup.disk {
            DiskSpec::Simulated(seed) => Environment::simulated(&SimStorage::new(seed), seed),
            DiskSpec::Directory => Environment::os(),
        };
        ShiftedClock {
            clock: environment.clock,
            passed_ms: AtomicU64::new(0),
        }
    }

    pub(crate) fn advance(&self, time: Duration) {
        let ms = time.as_millis() as u64;
        self.passed_ms.fetch_add(ms, Ordering::Relaxed);
    }

    fn passed(&self) -> Duration {
        Duration::from_millis(self.passed_ms.load(Ordering::Relaxed))
    }
}

impl Clock for ShiftedClock {
    fn now(&self) -> Duration {
        self.clock.now() + self.passed()
    }

    fn unix_millis(&self) -> u64 {
        self.clock.unix_millis() + self.passed().as_millis() as u64
    }

    fn sleep(&self, duration: Duration) {
        self.clock.sleep(duration);
    }

    fn thread_cpu(&self) -> Duration {
        self.clock.thread_cpu()
    }
}
