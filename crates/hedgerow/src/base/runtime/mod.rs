//! Background work and the throttle of writers. Knows no engine type: jobs are closures.

pub(crate) mod rate_limiter;
pub(crate) mod scheduler;
pub(crate) mod throttle;
pub(crate) mod workers;

pub(crate) use rate_limiter::RateLimiter;
pub(crate) use scheduler::{Priority, Scheduler};
pub(crate) use throttle::{Pressure, Throttle, delay_ns_per_byte};
pub(crate) use workers::Workers;
