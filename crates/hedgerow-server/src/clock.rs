//! Clocks. Expiry is by the time of day, as Redis' clients give it.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970.
#[allow(clippy::disallowed_methods, reason = "clients give times of day")]
pub(crate) fn unix_millis() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}

/// Microseconds since 1970.
#[allow(clippy::disallowed_methods, reason = "clients ask for the time of day")]
pub(crate) fn unix_micros() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_micros() as u64)
}

/// A moment to measure from.
#[allow(
    clippy::disallowed_methods,
    reason = "durations of commands are measured"
)]
pub(crate) fn now() -> Instant {
    Instant::now()
}
