//! Writing many pairs to a keyspace, in batches, so that one commit is shared by many.

use hedgerow::{Db, Durability, Keyspace, Result};

use crate::records::Pair;

/// Large enough that the cost of a commit does not show, small against any memory budget.
const BATCH_BYTES: usize = 64 << 10;

/// What is in the database.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Loaded {
    pub(super) entries: u64,
    /// Of keys and values.
    pub(super) bytes: u64,
}

/// Puts all pairs. What `loaded` counts stays when a later one fails.
pub(super) fn put(
    db: &Db,
    keyspace: &Keyspace,
    mut pairs: impl Iterator<Item = Pair>,
    durability: Durability,
    loaded: &mut Loaded,
) -> Result<()> {
    let mut more = true;
    while more {
        more = false;
        let mut batch = db.batch();
        let mut bytes = 0;
        for (key, value) in &mut pairs {
            batch.put(keyspace, &key, &value)?;
            bytes += (key.len() + value.len()) as u64;
            more = batch.bytes() >= BATCH_BYTES;
            if more {
                break;
            }
        }
        let entries = batch.len() as u64;
        batch.commit(durability)?;
        loaded.entries += entries;
        loaded.bytes += bytes;
    }
    Ok(())
}
