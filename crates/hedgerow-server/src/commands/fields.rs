//! The fields of a hash as they are stored, and a hash in the hands of a command that changes it.
//!
//! ```text
//! e: version(8) . hash(4) . name       flags(1) . time of expiry(8), with bit 0 . value
//! s: version(8) . time(8) . name       nothing; for each field with a time
//! ```
//!
//! A field that has expired is absent for readers. It counts until it is removed: by the next
//! command that changes it, or by the task that removes what has expired. A hash is absent when all
//! its fields are. Costs: a field without a time is one entry, and nobody looks at `s` for it.

use hedgerow::Slice;

use super::Args;
use super::hashes::{element_key, store_count};
use crate::resp::Reply;
use crate::store::{Answer, Entry, Kind, Meta, Space, Stop, Txn, elements};

/// The flags of a field without a time.
const PLAIN: u8 = 0;
/// The flag of a field with a time.
const EXPIRES: u8 = 1;
/// The fields of a hash that are removed together when they have expired.
const DUE_MAX: usize = 256;

/// A stored field.
#[derive(Debug, Clone)]
pub(super) struct Field {
    stored: Slice,
    /// The place of the value.
    from: usize,
    /// The time of expiry; 0 for none.
    pub(super) expires: u64,
}

impl Field {
    pub(super) fn decode(stored: Slice) -> Answer<Field> {
        let found = match stored.split_first() {
            Some((&PLAIN, _)) => Some((0, 1)),
            Some((&EXPIRES, rest)) => rest
                .first_chunk()
                .map(|time| (u64::from_be_bytes(*time), 9)),
            _ => None,
        };
        let (expires, from) = found.ok_or_else(Stop::damaged)?;
        Ok(Field {
            stored,
            from,
            expires,
        })
    }

    pub(super) fn is_live(&self, now: u64) -> bool {
        self.expires == 0 || self.expires > now
    }

    pub(super) fn value(&self) -> &[u8] {
        &self.stored[self.from..]
    }

    pub(super) fn reply(&self) -> Reply {
        Reply::Stored(self.stored.clone(), self.from)
    }
}

/// The field of a pair that a scan found; `None` if it has expired.
pub(super) fn live_pair(pair: Answer<(Slice, Slice)>, now: u64) -> Option<Answer<(Slice, Field)>> {
    let decoded = pair.and_then(|(key, stored)| Ok((key, Field::decode(stored)?)));
    let is_live = |(_, field): &(Slice, Field)| field.is_live(now);
    decoded.map_or_else(
        |stop| Some(Err(stop)),
        |it| Some(it).filter(is_live).map(Ok),
    )
}

fn time_key(version: u64, time: u64, name: &[u8]) -> Vec<u8> {
    [&version.to_be_bytes(), &time.to_be_bytes(), name].concat()
}

/// Writes a field with a time of expiry, 0 for none, in the place of one with another time.
pub(super) fn put(
    txn: &mut Txn<'_>,
    meta: &mut Meta,
    (name, old): (&[u8], u64),
    (value, expires): (&[u8], u64),
) -> Answer<()> {
    move_time(txn, meta, name, (old, expires))?;
    let mut stored = Vec::with_capacity(9 + value.len());
    stored.push(if expires > 0 { EXPIRES } else { PLAIN });
    if expires > 0 {
        stored.extend_from_slice(&expires.to_be_bytes());
    }
    stored.extend_from_slice(value);
    let (db, key) = (txn.db, element_key(txn, meta.version, name));
    txn.put(db, Space::Elements, &key, &stored)
}

/// Replaces the time of a field in the order of times.
fn move_time(
    txn: &mut Txn<'_>,
    meta: &mut Meta,
    name: &[u8],
    (old, new): (u64, u64),
) -> Answer<()> {
    if old == new {
        return Ok(());
    }
    let (db, version, expiring) = (txn.db, meta.version, &mut meta.expiring);
    if old > 0 {
        expiring.count -= 1;
        txn.delete(db, Space::Ordered, &time_key(version, old, name))?;
    }
    if new > 0 {
        let is_first = expiring.count == 0 || new < expiring.next;
        expiring.next = if is_first { new } else { expiring.next };
        expiring.count += 1;
        txn.put(db, Space::Ordered, &time_key(version, new, name), b"")?;
    }
    if expiring.count == 0 {
        expiring.next = 0;
    }
    Ok(())
}

/// See the module.
pub(super) struct Changed {
    entry: Entry,
    meta: Meta,
    is_changed: bool,
    /// The fields that had expired when they were removed or replaced.
    expired: usize,
}

impl Changed {
    /// The hash of a key, or a new one.
    pub(super) fn open(txn: &mut Txn<'_>, key: &[u8]) -> Answer<Changed> {
        let entry = txn.lookup_kind(key, Kind::Hash)?;
        let meta = txn.collection(&entry, Kind::Hash)?;
        Ok(Changed::new(entry, meta))
    }

    /// The hash of a key, if it is there.
    pub(super) fn existing(txn: &mut Txn<'_>, key: &[u8]) -> Answer<Option<Changed>> {
        let entry = txn.lookup_kind(key, Kind::Hash)?;
        let meta = entry.meta().cloned();
        Ok(meta.map(|meta| Changed::new(entry, meta)))
    }

    fn new(entry: Entry, meta: Meta) -> Changed {
        Changed {
            entry,
            meta,
            is_changed: false,
            expired: 0,
        }
    }

    /// Asks for several fields together, so that they are in memory when they are read one by one.
    pub(super) fn prefetch(&self, txn: &mut Txn<'_>, names: Args<'_>) -> Answer<()> {
        if self.entry.exists() && names.len() > 1 {
            super::hashes::fields(txn, &self.meta, names, |_| Ok(()))?;
        }
        Ok(())
    }

    /// A field as it is stored; it may have expired.
    pub(super) fn stored(&self, txn: &mut Txn<'_>, name: &[u8]) -> Answer<Option<Field>> {
        super::hashes::stored(txn, &self.meta, name)
    }

    /// Gives a field a value and a time of expiry, 0 for none. `old` is the field as it is stored.
    /// Returns true if it was absent.
    pub(super) fn put(
        &mut self,
        txn: &mut Txn<'_>,
        (name, old): (&[u8], Option<&Field>),
        (value, expires): (&[u8], u64),
    ) -> Answer<bool> {
        let is_live = old.is_some_and(|it| it.is_live(txn.now));
        self.expired += usize::from(old.is_some() && !is_live);
        self.meta.count += u64::from(old.is_none());
        let old = old.map_or(0, |it| it.expires);
        put(txn, &mut self.meta, (name, old), (value, expires))?;
        self.is_changed = true;
        Ok(!is_live)
    }

    /// Removes a field, which is stored. Returns true if it had not expired.
    pub(super) fn remove(&mut self, txn: &mut Txn<'_>, name: &[u8], old: &Field) -> Answer<bool> {
        let is_live = old.is_live(txn.now);
        self.expired += usize::from(!is_live);
        self.meta.count -= 1;
        move_time(txn, &mut self.meta, name, (old.expires, 0))?;
        let (db, key) = (txn.db, element_key(txn, self.meta.version, name));
        txn.delete(db, Space::Elements, &key)?;
        self.is_changed = true;
        Ok(is_live)
    }

    /// Removes the first fields that are due.
    pub(super) fn remove_due(&mut self, txn: &mut Txn<'_>) -> Answer<()> {
        let (db, version) = (txn.db, self.meta.version);
        let walked = self.meta.expiring.count.min(DUE_MAX as u64 + 1);
        // The times before were removed.
        let from = [version.to_be_bytes(), self.meta.expiring.next.to_be_bytes()].concat();
        let times = txn.scan(db, Space::Ordered, from..elements(version).end, walked)?;
        let times: Vec<_> = times.take(DUE_MAX + 1).collect::<Answer<_>>()?;
        self.meta.expiring.next = 0;
        for (place, (key, _)) in times.iter().enumerate() {
            let (time, name) = key
                .get(8..)
                .and_then(|it| it.split_first_chunk())
                .ok_or_else(Stop::damaged)?;
            let time = u64::from_be_bytes(*time);
            if time > txn.now || place == DUE_MAX {
                self.meta.expiring.next = time;
                break;
            }
            let element = element_key(txn, version, name);
            txn.delete(db, Space::Elements, &element)?;
            txn.delete(db, Space::Ordered, key)?;
            self.meta.count -= 1;
            self.meta.expiring.count -= 1;
            self.expired += 1;
        }
        self.is_changed = true;
        Ok(())
    }

    /// Stores the counts, or removes the key with the last field, and tells of that.
    pub(super) fn close(mut self, txn: &mut Txn<'_>, events: &[&'static str]) -> Answer<()> {
        if !self.is_changed {
            return Ok(());
        }
        txn.effects.expired_fields += self.expired;
        if self.expired > 0 {
            txn.event(&self.entry, b'h', "hexpired");
        }
        if self.meta.count > 0 {
            store_count(txn, &mut self.entry, self.meta)?;
            events
                .iter()
                .for_each(|it| txn.event(&self.entry, b'h', it));
            return Ok(());
        }
        events
            .iter()
            .for_each(|it| txn.event(&self.entry, b'h', it));
        txn.store_or_remove(&mut self.entry, self.meta)
    }
}

#[cfg(test)]
mod tests;
