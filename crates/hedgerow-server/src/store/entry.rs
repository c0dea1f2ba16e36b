//! A key of a user, as a command has looked it up.

use super::Answer;
use super::databases::Space;
use super::meta::Meta;
use super::txn::{PLACE_BYTES, Txn, elements};

/// The reason why an entry that is stored is absent for readers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expired {
    /// Its own time is over.
    Key,
    /// It is a hash, and the times of all its fields are over.
    Fields,
}

/// A key of a user, as it is stored.
pub(crate) struct Entry {
    pub(crate) db: usize,
    /// The key with its place in front, as it is stored.
    pub(super) meta_key: Vec<u8>,
    pub(super) stored: Option<Meta>,
    pub(super) expired: Option<Expired>,
}

impl Entry {
    pub(crate) fn key(&self) -> &[u8] {
        &self.meta_key[PLACE_BYTES..]
    }

    /// The entry, unless there is none or it has expired.
    pub(crate) fn meta(&self) -> Option<&Meta> {
        self.stored.as_ref().filter(|_| self.expired.is_none())
    }

    pub(crate) fn exists(&self) -> bool {
        self.meta().is_some()
    }

    pub(crate) fn expires(&self) -> u64 {
        self.meta().map_or(0, |meta| meta.expires)
    }

    pub(crate) fn count(&self) -> u64 {
        self.meta().map_or(0, |meta| meta.count)
    }
}

impl Txn<'_> {
    /// The reason why a stored entry is absent, if it is. Costs nothing, but for a hash of which
    /// every field has a time and some field may be due: then one seek, for the last of the times.
    pub(crate) fn expired(&mut self, db: usize, meta: &Meta) -> Answer<Option<Expired>> {
        if meta.expires > 0 && meta.expires <= self.now {
            return Ok(Some(Expired::Key));
        }
        let expiring = meta.expiring;
        if expiring.count == 0 || expiring.count < meta.count || expiring.next > self.now {
            return Ok(None);
        }
        let mut times = self.scan(db, Space::Ordered, elements(meta.version), 1)?;
        let last = times.next_back().transpose()?;
        let time = last.and_then(|(key, _)| {
            let bytes = key.get(8..16)?.try_into().ok()?;
            Some(u64::from_be_bytes(bytes))
        });
        Ok(time.filter(|it| *it <= self.now).map(|_| Expired::Fields))
    }
}
