//! Simulated time, and a spawner without threads.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::{Clock, Join, Spawn};

/// A clock that moves only by `sleep` and `advance`.
#[derive(Debug, Default)]
pub struct SimClock {
    now_ns: AtomicU64,
}

impl SimClock {
    /// The first value of [`Clock::unix_seconds`]: a moment in November 2023.
    const START_UNIX_SECONDS: u64 = 1_700_000_000;

    /// A clock that starts at zero.
    pub fn new() -> SimClock {
        SimClock::default()
    }

    /// Advances the time.
    pub fn advance(&self, duration: Duration) {
        let ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.now_ns.fetch_add(ns, Ordering::SeqCst);
    }
}

impl Clock for SimClock {
    fn now(&self) -> Duration {
        Duration::from_nanos(self.now_ns.load(Ordering::SeqCst))
    }

    fn unix_millis(&self) -> u64 {
        SimClock::START_UNIX_SECONDS * 1000 + self.now().as_millis() as u64
    }

    fn sleep(&self, duration: Duration) {
        self.advance(duration);
    }
}

/// A spawner that refuses every thread, because a run with threads does not replay.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoSpawn;

impl Spawn for NoSpawn {
    fn spawn(&self, name: &str, _body: Box<dyn FnOnce() + Send>) -> io::Result<Box<dyn Join>> {
        let message = format!("a simulation starts no threads, and none named {name}");
        Err(io::Error::new(io::ErrorKind::Unsupported, message))
    }
}
