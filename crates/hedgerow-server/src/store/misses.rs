//! The keys that commands read and miss, of which `notify-keyspace-events` tells as `keymiss` if it
//! has an `m`. It costs one look at a flag for each missing key otherwise.

use super::txn::Txn;

/// The keys that the command that runs has missed.
#[derive(Debug, Default)]
pub(crate) struct Misses {
    /// Someone may listen to them.
    pub(crate) are_told: bool,
    keys: Vec<(usize, Vec<u8>)>,
}

impl Misses {
    pub(super) fn note(&mut self, db: usize, key: &[u8]) {
        if self.are_told {
            self.keys.push((db, key.to_vec()));
        }
    }

    pub(super) fn forget(&mut self) {
        self.keys.clear();
    }
}

impl Txn<'_> {
    /// Tells of the keys that a command has missed, which has looked them up to read them.
    pub(crate) fn tell_misses(&mut self) {
        for (db, key) in std::mem::take(&mut self.misses.keys) {
            self.notify(db, b'm', "keymiss", &key);
        }
    }
}
