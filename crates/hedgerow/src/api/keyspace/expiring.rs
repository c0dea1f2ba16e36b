//! Values that expire, and updates, which keep the time of expiry.

use std::borrow::Cow;
use std::time::Duration;

use super::Keyspace;
use crate::base::entry::{KeyHash, Tag};
use crate::base::error::{Error, Result};
use crate::base::expiry;
use crate::base::expiry::{Expiry, Moment};
use crate::base::options::Durability;
use crate::base::slice::Slice;
use crate::paths::keyspaces;
use crate::paths::read;
use crate::paths::read::{Observer, Want};
use crate::paths::write;
use crate::paths::write::{Condition, ReadFacts};
use crate::tree::engine::stripe;

/// Remembers the time of expiry that a get has met.
struct ExpiryObserver(Option<u64>);

impl Observer for ExpiryObserver {
    fn expires(&mut self, at: u64) {
        self.0 = Some(at);
    }
}

/// # Expiry
///
/// A value that has expired is absent at once: for gets, scans, pops and updates. A snapshot sees
/// what had not expired when it was taken. Merges drop expired values, and tables of them without
/// reading them. Operands of a merge operator do not expire; they apply to no value when the one
/// under them has expired.
impl Keyspace {
    /// Gives a key a value that expires, buffered.
    /// Cost: that of a put; the entry takes eight bytes more.
    ///
    /// ```
    /// # use hedgerow::{Db, Expiry, Layout};
    /// # use std::time::Duration;
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = Db::open(dir.path())?;
    /// let sessions = db.keyspace("sessions", Layout::sorted())?;
    /// sessions.put_expiring("ada", "token", Expiry::In(Duration::from_secs(3600)))?;
    /// assert!(sessions.contains_key("ada")?);
    /// assert!(matches!(sessions.expiry("ada")?, Some(Expiry::At(_))));
    /// # Ok::<(), hedgerow::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Keyspace::put`].
    pub fn put_expiring(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        expiry: Expiry,
    ) -> Result<()> {
        self.put_expiring_with(key, value, expiry, Durability::Buffered)
    }

    /// Puts as [`Keyspace::put_expiring`] does, at this durability.
    ///
    /// # Errors
    /// As [`Keyspace::put`].
    pub fn put_expiring_with(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        expiry: Expiry,
        durability: Durability,
    ) -> Result<()> {
        let at = self.engine.time_of(expiry);
        self.write_put(key.as_ref(), value.as_ref(), at, None, durability)
            .map(drop)
    }

    /// The expiry of a key's value; `None` if it has no value. Cost: as [`Keyspace::get`].
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    pub fn expiry(&self, key: impl AsRef<[u8]>) -> Result<Option<Expiry>> {
        let (value, at) = self.get_entry(key.as_ref(), Want::Existence)?;
        Ok(value.map(|_| Expiry::of(at)))
    }

    /// Changes the expiry of a key's value, buffered. Returns false if it has no value. Operands
    /// that are not folded yet become part of the value.
    ///
    /// # Errors
    /// As [`Keyspace::update`].
    pub fn set_expiry(&self, key: impl AsRef<[u8]>, expiry: Expiry) -> Result<bool> {
        let at = self.engine.time_of(expiry);
        let changed = self.update_entry(key.as_ref(), Durability::Buffered, |old, _| {
            Ok::<_, Error>(old.map(|value| (value.to_vec(), at)))
        })?;
        Ok(changed.is_some())
    }

    /// Updates as [`Keyspace::update`] does, with the expiry: `new` receives the old value with its
    /// expiry and returns the new value with another one.
    ///
    /// # Errors
    /// As [`Keyspace::update`].
    pub fn update_expiring(
        &self,
        key: impl AsRef<[u8]>,
        mut new: impl FnMut(Option<(&[u8], Expiry)>) -> Option<(Vec<u8>, Expiry)>,
        durability: Durability,
    ) -> Result<Option<Slice>> {
        self.update_entry(key.as_ref(), durability, |old, at| {
            let new = new(old.map(|value| (value, Expiry::of(at))));
            let timed = |(value, expiry): (_, Expiry)| (value, self.engine.time_of(expiry));
            Ok::<_, Error>(new.map(timed))
        })
    }

    /// Sets the time to live of values that are put from now on without an expiry of their own,
    /// also by batches and bulk loads; `None` is for ever. Durable, and kept when the database is
    /// opened again. A value that is updated keeps its expiry.
    ///
    /// # Errors
    /// `InvalidArgument` for less than a millisecond, `Unsupported` when opened for reading only,
    /// `Io`, `Closed`, `Poisoned`.
    pub fn set_time_to_live(&self, time_to_live: Option<Duration>) -> Result<()> {
        self.check_not_dropped()?;
        let ms = time_to_live.map(|it| u64::try_from(it.as_millis()).unwrap_or(u64::MAX));
        if let Some(time) = time_to_live.filter(|_| ms == Some(0)) {
            return Err(Error::invalid(format!(
                "expected a time to live of at least a millisecond, found {time:?}"
            )));
        }
        keyspaces::set_time_to_live(&self.engine, &self.cell, ms.unwrap_or(0))
    }

    /// The time to live of values that are put without an expiry of their own; `None` is for ever.
    pub fn time_to_live(&self) -> Option<Duration> {
        let ms = self.cell.facts.expiry_of_puts(|| 0);
        ms.map(Duration::from_millis)
    }

    /// Puts a value that expires at a time in milliseconds, or never.
    #[inline]
    pub(super) fn write_put(
        &self,
        key: &[u8],
        value: &[u8],
        at: Option<u64>,
        condition: Option<Condition<'_>>,
        durability: Durability,
    ) -> Result<bool> {
        if at.is_none() {
            return self.write(Tag::PUT, key, value, condition, durability);
        }
        self.write_expiring(key, expiry::stored(at, value), condition, durability)
    }

    #[cold]
    fn write_expiring(
        &self,
        key: &[u8],
        (tag, stored): (Tag, Cow<'_, [u8]>),
        condition: Option<Condition<'_>>,
        durability: Durability,
    ) -> Result<bool> {
        self.write(tag, key, &stored, condition, durability)
    }

    /// The value of a key, and its time of expiry.
    fn get_entry(&self, key: &[u8], want: Want) -> Result<(Option<Slice>, Option<u64>)> {
        self.check_not_dropped()?;
        let (state, mut seen) = (self.cell.state.load(), ExpiryObserver(None));
        let moment = Moment::PRESENT;
        let value = read::get_observed(&self.engine, &state, key, moment, want, &mut seen)?;
        Ok((value, seen.0))
    }

    /// Replaces a key's value and its time of expiry atomically. Returns the new value.
    pub(super) fn update_entry<E: From<Error>>(
        &self,
        key: &[u8],
        durability: Durability,
        mut new: impl FnMut(
            Option<&[u8]>,
            Option<u64>,
        ) -> std::result::Result<Option<(Vec<u8>, Option<u64>)>, E>,
    ) -> std::result::Result<Option<Slice>, E> {
        self.cell.facts.order.check(key)?;
        let stripe = stripe(KeyHash::of(key, self.cell.facts.seed));
        loop {
            // Loaded before the old value is read, so that a clear in between is noticed.
            let routing_epoch = self.engine.routing_epoch();
            let seen = self.engine.writer()?.stripes.latest(stripe);
            self.engine.publisher.wait(seen.0);
            let (old, expires) = self.get_entry(key, Want::Value)?;
            let replacement = new(old.as_deref(), expires)?;
            let is_same = match (&replacement, &old) {
                (None, None) => true,
                (Some((value, at)), Some(old)) => value.as_slice() == &**old && *at == expires,
                _ => false,
            };
            if is_same {
                if durability == Durability::Synced {
                    write::sync(&self.engine)?;
                }
                return Ok(old);
            }
            let basis = Some(Condition {
                routing_epoch,
                unchanged: Some(ReadFacts::Key {
                    stripe,
                    seen,
                    nearest_to: None,
                }),
                at_once: false,
            });
            let written = match &replacement {
                Some((value, at)) => self.write_put(key, value, *at, basis, durability)?,
                None => self.write(Tag::DELETE, key, b"", basis, durability)?,
            };
            if written {
                return Ok(replacement.map(|(value, _)| Slice::copy_from(&value)));
            }
            self.engine.stats.update_retries.add(1);
        }
    }
}
