//! Writes many pairs to a keyspace: as tables, past the log, as long as they are sorted; then in
//! batches, so that many pairs share a commit.

use hedgerow::{Db, Durability, Error, Keyspace, Result};

use crate::records::Pair;

/// The bytes of a batch: large enough to hide the cost of a commit, small against any memory
/// budget.
const BATCH_BYTES: usize = 64 << 10;
/// The bytes of sorted keys and values before a bulk load begins. With less, random input would
/// make tables of a few entries, which cost more than they save.
const SORTED_BYTES_MIN: u64 = 1 << 20;

/// The pairs that are in the database.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Loaded {
    pub(super) entries: u64,
    /// The bytes of keys and values.
    pub(super) bytes: u64,
    /// The number of entries that were sorted and loaded as tables.
    pub(super) bulk_entries: u64,
}

/// Puts all pairs. The pairs counted in `loaded` stay if a later one fails.
pub(super) fn put(
    db: &Db,
    keyspace: &Keyspace,
    pairs: impl Iterator<Item = Pair>,
    durability: Durability,
    loaded: &mut Loaded,
) -> Result<()> {
    let mut sorted = Sorted {
        pairs,
        last_key: None,
        unsorted: None,
    };
    let mut beginning = Vec::new();
    let mut bytes = 0;
    while bytes < SORTED_BYTES_MIN
        && let Some(pair) = sorted.next()
    {
        bytes += size(&pair);
        beginning.push(pair);
    }
    if bytes >= SORTED_BYTES_MIN {
        put_sorted(keyspace, beginning.drain(..).chain(&mut sorted), loaded)?;
    }
    let rest = beginning.into_iter().chain(sorted.unsorted);
    put_batches(db, keyspace, rest.chain(sorted.pairs), durability, loaded)
}

/// An iterator that ends before the first key that is not greater than the one before it, and keeps
/// that pair.
struct Sorted<I> {
    pairs: I,
    /// `None` before the first pair.
    last_key: Option<Vec<u8>>,
    unsorted: Option<Pair>,
}

impl<I: Iterator<Item = Pair>> Iterator for Sorted<I> {
    type Item = Pair;

    fn next(&mut self) -> Option<Pair> {
        if self.unsorted.is_some() {
            return None;
        }
        let pair = self.pairs.next()?;
        if self.last_key.as_ref().is_some_and(|last| pair.0 <= *last) {
            self.unsorted = Some(pair);
            return None;
        }
        let last_key = self.last_key.get_or_insert_default();
        last_key.clone_from(&pair.0);
        Some(pair)
    }
}

fn put_sorted(
    keyspace: &Keyspace,
    pairs: impl Iterator<Item = Pair>,
    loaded: &mut Loaded,
) -> Result<()> {
    let mut bytes = 0;
    let pairs = pairs.map(|pair| {
        bytes += size(&pair);
        Ok::<_, Error>(pair)
    });
    let report = keyspace.bulk_load(pairs)?;
    loaded.entries += report.entries;
    loaded.bulk_entries += report.entries;
    loaded.bytes += bytes;
    Ok(())
}

fn put_batches(
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
        for pair in &mut pairs {
            batch.put(keyspace, &pair.0, &pair.1)?;
            bytes += size(&pair);
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

fn size((key, value): &Pair) -> u64 {
    (key.len() + value.len()) as u64
}
