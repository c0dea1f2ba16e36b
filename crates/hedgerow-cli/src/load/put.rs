//! Writes many records to a keyspace: as tables, past the log, as long as they are sorted; then in
//! batches, so that many of them share a commit.

use std::iter;

use hedgerow::{Batch, Db, Durability, Error, Keyspace, LoadOp, Result};

use super::pairs::Pairs;
use crate::records::Record;
use crate::words;

/// The bytes of a batch: large enough to hide the cost of a commit, small against any memory
/// budget.
const BATCH_BYTES: usize = 64 << 10;
/// The bytes of sorted keys and values before a bulk load begins. With less, random input would
/// make tables of a few entries, which cost more than they save.
const SORTED_BYTES_MIN: u64 = 1 << 20;

/// The records that are in the database.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Loaded {
    pub(super) entries: u64,
    /// The bytes of keys and values.
    pub(super) bytes: u64,
    /// The number of entries that were sorted and loaded as tables.
    pub(super) bulk_entries: u64,
}

/// Puts all records. Those counted in `loaded` stay if a later one fails.
pub(super) fn put(
    db: &Db,
    keyspace: &Keyspace,
    pairs: &mut Pairs,
    durability: Durability,
    loaded: &mut Loaded,
) -> Result<()> {
    let mut sorted = Sorted {
        records: accepted(db, keyspace, pairs),
        last_key: None,
        unsorted: None,
    };
    let mut beginning = Vec::new();
    let mut bytes = 0;
    while bytes < SORTED_BYTES_MIN
        && let Some(record) = sorted.next()
    {
        bytes += size(&record);
        beginning.push(record);
    }
    if bytes >= SORTED_BYTES_MIN {
        put_sorted(keyspace, beginning.drain(..).chain(&mut sorted), loaded)?;
    }
    let rest = beginning.into_iter().chain(sorted.unsorted);
    put_batches(db, keyspace, rest.chain(sorted.records), durability, loaded)
}

/// The records before the first one that the keyspace refuses. A bulk load or a batch would refuse
/// it together with those before it, and does not know its line.
fn accepted(db: &Db, keyspace: &Keyspace, pairs: &mut Pairs) -> impl Iterator<Item = Record> {
    let mut scratch = db.batch();
    iter::from_fn(move || {
        let record = pairs.next()?;
        scratch.clear();
        match add(&mut scratch, keyspace, &record) {
            Ok(()) => Some(record),
            Err(error) => {
                pairs.refuse(&words::without_kind(&error));
                None
            }
        }
    })
}

/// An iterator that ends before the first key that is not greater than the one before it, or that
/// has operands, and keeps that record: a bulk load has one operation for each key.
struct Sorted<I> {
    records: I,
    /// `None` before the first record.
    last_key: Option<Vec<u8>>,
    unsorted: Option<Record>,
}

impl<I: Iterator<Item = Record>> Iterator for Sorted<I> {
    type Item = Record;

    fn next(&mut self) -> Option<Record> {
        if self.unsorted.is_some() {
            return None;
        }
        let record = self.records.next()?;
        let is_behind = |last: &Vec<u8>| record.key > *last;
        if !self.last_key.as_ref().is_none_or(is_behind) || !record.operands.is_empty() {
            self.unsorted = Some(record);
            return None;
        }
        let last_key = self.last_key.get_or_insert_default();
        last_key.clone_from(&record.key);
        Some(record)
    }
}

fn put_sorted(
    keyspace: &Keyspace,
    records: impl Iterator<Item = Record>,
    loaded: &mut Loaded,
) -> Result<()> {
    let mut bytes = 0;
    let records = records.map(|record| {
        bytes += size(&record);
        let (expiry, value) = (record.expires.map(|_| record.expiry()), record.value);
        let op = match (value, expiry) {
            (None, _) => LoadOp::Delete,
            (Some(value), None) => LoadOp::Put(value),
            (Some(value), Some(expiry)) => LoadOp::PutExpiring(value, expiry),
        };
        Ok::<_, Error>((record.key, op))
    });
    let report = keyspace.bulk_load_ops(records)?;
    loaded.entries += report.entries;
    loaded.bulk_entries += report.entries;
    loaded.bytes += bytes;
    Ok(())
}

fn put_batches(
    db: &Db,
    keyspace: &Keyspace,
    mut records: impl Iterator<Item = Record>,
    durability: Durability,
    loaded: &mut Loaded,
) -> Result<()> {
    let mut more = true;
    while more {
        more = false;
        let mut batch = db.batch();
        let (mut entries, mut bytes) = (0, 0);
        for record in &mut records {
            add(&mut batch, keyspace, &record)?;
            entries += 1;
            bytes += size(&record);
            more = batch.bytes() >= BATCH_BYTES;
            if more {
                break;
            }
        }
        batch.commit(durability)?;
        loaded.entries += entries;
        loaded.bytes += bytes;
    }
    Ok(())
}

/// Adds the operations that give a key what a record says.
fn add(batch: &mut Batch, keyspace: &Keyspace, record: &Record) -> Result<()> {
    let key = &record.key;
    match (&record.value, record.expires) {
        (None, _) => batch.delete(keyspace, key)?,
        (Some(value), None) => batch.put(keyspace, key, value)?,
        (Some(value), Some(_)) => batch.put_expiring(keyspace, key, value, record.expiry())?,
    };
    for operand in &record.operands {
        batch.merge(keyspace, key, operand)?;
    }
    Ok(())
}

fn size(record: &Record) -> u64 {
    let values = record.value.iter().chain(&record.operands);
    (record.key.len() + values.map(Vec::len).sum::<usize>()) as u64
}
