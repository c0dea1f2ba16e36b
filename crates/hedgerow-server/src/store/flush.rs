//! FLUSHDB and FLUSHALL as a part of a commit, for scripts. Outside of them a database gets new
//! keyspaces instead, which frees its space at once; here one record for each keyspace covers all
//! that is in it, and merges free the space.

use super::databases::{DATABASES, Space};
use super::stripes::Held;
use super::txn::Txn;
use super::{Answer, Stop};

/// The keyspaces of a database.
const SPACES: [Space; 4] = [Space::Meta, Space::Elements, Space::Ordered, Space::Expiry];

impl Txn<'_> {
    /// Removes all keys of these databases. The caller has to hold all keys.
    pub(crate) fn flush(&mut self, dbs: std::ops::Range<usize>) -> Answer<()> {
        if !matches!(self.held, Held::All) {
            return Err(Stop::AllKeys);
        }
        for db in dbs.filter(|db| *db < DATABASES) {
            if self.map[db].is_none() {
                continue;
            }
            let count = self.size(db)?;
            self.forget_last_of(db);
            for space in SPACES {
                self.delete_all(db, space)?;
            }
            self.sizes[db] -= count;
            self.effects.flushed_dbs.push(db);
        }
        Ok(())
    }
}
