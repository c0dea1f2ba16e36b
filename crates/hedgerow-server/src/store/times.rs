//! The keyspace `t`: the keys in the order of their times of expiry, so that what is due is found
//! without looking at the rest.
//!
//! ```text
//! time(8) . key               the key expires
//! time(8), bit 63 . key       a field of the hash may expire
//! ```
//!
//! A hash has one entry of the second kind, whatever the number of its fields that expire; their
//! own times are in `s`: version(8) . time(8) . field.

use hedgerow::Slice;

use super::Answer;
use super::databases::{Databases, Space};
use super::entry::Entry;
use super::meta::Meta;
use super::txn::Txn;

/// The bit of a time that is one of fields: these entries stand behind those of keys.
const OF_FIELDS: u64 = 1 << 63;

/// The two kinds of entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    Keys,
    Fields,
}

/// The first keys that are due, each behind its time, from a time on and up to another.
pub(crate) fn due(
    databases: &Databases,
    (db, kind): (usize, Due),
    (from, now): (u64, u64),
    keys_max: usize,
) -> hedgerow::Result<Vec<Slice>> {
    let map = databases.map();
    let Some(database) = map.get(db).and_then(Option::as_ref) else {
        return Ok(Vec::new());
    };
    let begin = match kind {
        Due::Keys => 0,
        Due::Fields => OF_FIELDS,
    };
    let range = (begin + from).to_be_bytes()..(begin + now + 1).to_be_bytes();
    let due = database.space(Space::Expiry).scan(range)?;
    due.keys().take(keys_max).collect()
}

/// The time in front of a key that is due.
pub(crate) fn time_of(due: &[u8]) -> u64 {
    let time = due.first_chunk().map_or(0, |it| u64::from_be_bytes(*it));
    time & !OF_FIELDS
}

/// The times of a key, with the bits that are stored; 0 for none.
fn times(meta: Option<&Meta>) -> [u64; 2] {
    meta.map_or([0, 0], |meta| {
        let fields = match meta.expiring.count {
            0 => 0,
            _ => meta.expiring.next | OF_FIELDS,
        };
        [meta.expires, fields]
    })
}

impl Txn<'_> {
    /// Replaces the entries for the times of a key by those of its new state; `None` if it goes.
    pub(super) fn move_times(&mut self, entry: &Entry, new: Option<&Meta>) -> Answer<()> {
        let key_of = |time: u64| [&time.to_be_bytes(), entry.key()].concat();
        for (old, new) in times(entry.stored.as_ref()).into_iter().zip(times(new)) {
            if old != new && old > 0 {
                self.delete(entry.db, Space::Expiry, &key_of(old))?;
            }
            if old != new && new > 0 {
                self.put(entry.db, Space::Expiry, &key_of(new), b"")?;
            }
        }
        Ok(())
    }
}
