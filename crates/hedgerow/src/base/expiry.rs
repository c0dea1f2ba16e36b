//! Expiry: an entry may have a time from which on it has no value.
//!
//! Times are milliseconds since 1970. The value of such an entry begins with its time, in eight
//! bytes.

use std::borrow::Cow;
use std::time::Duration;

use hedgerow_io::WallTime;

use crate::base::entry::{EXPIRY_BYTES, SeqNo, Tag};
use crate::base::error::{Error, Result};

/// The time from which on a key has no value.
///
/// The database compares it with a clock of its own, which follows that of the system but never
/// goes back, also not over a restart. While the database is open, it runs at most twice as fast as
/// time passes. So a jump of the system's clock takes effect slowly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Expiry {
    /// The value stays until it is overwritten or deleted.
    Never,
    /// At this moment, to the millisecond.
    At(WallTime),
    /// This long after the write.
    In(Duration),
}

impl Expiry {
    /// The time in milliseconds; `None` is never.
    pub(crate) fn time(self, now: impl FnOnce() -> u64) -> Option<u64> {
        match self {
            Expiry::In(duration) => Some(now().saturating_add(millis(duration))),
            Expiry::Never | Expiry::At(_) => self.unix_millis(),
        }
    }

    /// The milliseconds between 1970 and the moment of [`Expiry::At`]; `None` for all others.
    pub fn unix_millis(self) -> Option<u64> {
        match self {
            // Before 1970 everything has expired.
            Expiry::At(at) => Some(at.duration_since(WallTime::UNIX_EPOCH).map_or(0, millis)),
            Expiry::Never | Expiry::In(_) => None,
        }
    }

    /// The expiry at a time in milliseconds since 1970; `None` is never, and so is a time beyond
    /// what the system can show.
    pub fn of(time: Option<u64>) -> Expiry {
        let at = |ms| WallTime::UNIX_EPOCH.checked_add(Duration::from_millis(ms));
        time.and_then(at).map_or(Expiry::Never, Expiry::At)
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The moment that a read sees.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    /// Writes up to this number.
    pub(crate) seqno: SeqNo,
    /// Values that have not expired at this time; `None` is now.
    pub(crate) time: Option<u64>,
}

impl Moment {
    pub(crate) const PRESENT: Moment = Moment {
        seqno: SeqNo::MAX,
        time: None,
    };
}

/// The tag and the stored value of a put that expires at a time, or never.
#[inline]
pub(crate) fn stored(time: Option<u64>, value: &[u8]) -> (Tag, Cow<'_, [u8]>) {
    match time {
        None => (Tag::PUT, Cow::Borrowed(value)),
        Some(at) => {
            let stored = [&at.to_le_bytes()[..], value].concat();
            (Tag::PUT_EXPIRING, Cow::Owned(stored))
        }
    }
}

/// The time of a stored value that expires, and the value; `None` if it has expired.
pub(crate) fn unexpired(stored: &[u8], now: u64) -> Result<Option<(u64, &[u8])>> {
    let (at, value) = split(stored)?;
    Ok((at > now).then_some((at, value)))
}

/// The time at the beginning of a stored value, and the value.
pub(crate) fn split(stored: &[u8]) -> Result<(u64, &[u8])> {
    let split = stored.split_first_chunk();
    let split = split.map(|(time, value)| (u64::from_le_bytes(*time), value));
    split.ok_or_else(|| {
        Error::corruption(format!(
            "expected a time of expiry of {EXPIRY_BYTES} bytes, found {} bytes",
            stored.len()
        ))
    })
}
