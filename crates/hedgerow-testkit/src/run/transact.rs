//! Transactions of a script on the engine.

use std::ops::RangeBounds;

use hedgerow::{
    Batch, Error, ErrorKind, IndexedBatch, KeyOrder, Keyspace, Result, TransactionOptions,
};

use super::{Runner, durability};
use crate::answer;
use crate::ops::{TransactionStep, Write};

/// A batch of either kind.
pub(super) trait Writes {
    fn put(&mut self, keyspace: &Keyspace, key: Vec<u8>, value: Vec<u8>) -> Result<()>;
    fn delete(&mut self, keyspace: &Keyspace, key: &[u8]) -> Result<()>;
    fn merge(&mut self, keyspace: &Keyspace, key: Vec<u8>, operand: Vec<u8>) -> Result<()>;
    fn delete_range(&mut self, keyspace: &Keyspace, range: impl RangeBounds<Vec<u8>>)
    -> Result<()>;
    fn delete_prefix(&mut self, keyspace: &Keyspace, prefix: Vec<u8>) -> Result<()>;
}

macro_rules! writes {
    ($($batch:ty)*) => {$(
        impl Writes for $batch {
            fn put(&mut self, keyspace: &Keyspace, key: Vec<u8>, value: Vec<u8>) -> Result<()> {
                <$batch>::put(self, keyspace, key, value).map(drop)
            }
            fn delete(&mut self, keyspace: &Keyspace, key: &[u8]) -> Result<()> {
                <$batch>::delete(self, keyspace, key).map(drop)
            }
            fn merge(&mut self, keyspace: &Keyspace, key: Vec<u8>, operand: Vec<u8>) -> Result<()> {
                <$batch>::merge(self, keyspace, key, operand).map(drop)
            }
            fn delete_range(
                &mut self,
                keyspace: &Keyspace,
                range: impl RangeBounds<Vec<u8>>,
            ) -> Result<()> {
                <$batch>::delete_range(self, keyspace, range).map(drop)
            }
            fn delete_prefix(&mut self, keyspace: &Keyspace, prefix: Vec<u8>) -> Result<()> {
                <$batch>::delete_prefix(self, keyspace, prefix).map(drop)
            }
        }
    )*};
}
writes! { Batch IndexedBatch }

impl Runner {
    pub(super) fn transact(
        &self,
        steps: &[TransactionStep],
        commits: bool,
        synced: bool,
    ) -> Result<String> {
        let options = TransactionOptions {
            durability: durability(synced),
            ..TransactionOptions::default()
        };
        let mut transaction = self.db()?.transaction_with(options)?;
        let (mut savepoints, mut lines) = (Vec::new(), Vec::new());
        let mut before: Vec<Write> = Vec::new();
        for step in steps {
            let line = match step {
                TransactionStep::Save => {
                    savepoints.push(transaction.savepoint());
                    Ok(answer::done())
                }
                TransactionStep::Back => {
                    if let Some(savepoint) = savepoints.last() {
                        transaction.roll_back_to(*savepoint)?;
                    }
                    Ok(answer::done())
                }
                TransactionStep::Meanwhile {
                    keyspace,
                    key,
                    value,
                } => { self.keyspace(keyspace) }
                    .and_then(|it| it.put(key.bytes(), value.bytes()))
                    .map(|()| answer::done()),
                TransactionStep::Write(write) => {
                    let added = self.add(&mut *transaction, write, &before)?;
                    before.push(write.clone());
                    Ok(answer::added(u32::from(added)))
                }
                TransactionStep::Get { keyspace, key } => { self.keyspace(keyspace) }
                    .and_then(|it| transaction.get(it, key.bytes()))
                    .map(|value| answer::value(value.as_deref())),
                TransactionStep::All { keyspace } => { self.keyspace(keyspace) }
                    .and_then(|it| everything(&mut transaction, it))
                    .map(|digest| answer::contents([(keyspace.as_str(), digest)].into_iter())),
            };
            lines.push(line.unwrap_or_else(|e| answer::error(e.kind())));
        }
        lines.push(match commits.then(|| transaction.commit()) {
            None => answer::nothing(),
            Some(Ok(())) => answer::done(),
            Some(Err(e)) if e.kind() == ErrorKind::Conflict => answer::error(e.kind()),
            Some(Err(e)) => return Err(e),
        });
        Ok(lines.join(" ; "))
    }
}

/// A digest of everything in a batch, read in all ways.
fn everything(batch: &mut IndexedBatch, keyspace: &Keyspace) -> Result<(u64, u64)> {
    let scan = batch.scan_unordered(keyspace)?;
    let mut items = scan.collect::<Result<Vec<_>>>()?;
    items.sort();
    let keys: Vec<_> = items.iter().map(|(key, _)| key).collect();
    let values = batch.multi_get(keyspace, &keys)?;
    let differs = |what| Error::new(ErrorKind::Poisoned, format!("a batch differs by {what}"));
    if !values.iter().eq(items
        .iter()
        .map(|(_, value)| Some(value.clone()))
        .collect::<Vec<_>>()
        .iter())
    {
        return Err(differs("multi_get"));
    }
    if keyspace.layout().order == KeyOrder::Sorted {
        let forward = batch.scan_all(keyspace)?.collect::<Result<Vec<_>>>()?;
        let backward = batch
            .scan_all(keyspace)?
            .rev()
            .collect::<Result<Vec<_>>>()?;
        if forward != items || !backward.iter().rev().eq(&items) {
            return Err(differs("a scan"));
        }
    }
    let entries = items.iter().map(|(k, v)| (&**k, &**v));
    Ok(answer::digest(entries))
}
