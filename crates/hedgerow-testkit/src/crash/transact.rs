//! Transactions in a run: as a batch, they are there whole or not at all.

use hedgerow::{Batch, Durability, Result, TransactionOptions};

use super::oracle::Change;
use super::{Harness, Round};

impl Harness {
    /// Commits a batch, or the same writes by a transaction that also reads each key.
    pub(super) fn commit(
        &mut self,
        round: &Round,
        batch: Batch,
        changes: &[Change],
        durability: Durability,
    ) -> Result<()> {
        // Without writes a transaction has nothing to commit, also after a failure of the log.
        if changes.is_empty() || self.random.one_in(2) {
            return batch.commit(durability);
        }
        let options = TransactionOptions {
            durability,
            ..TransactionOptions::default()
        };
        let mut transaction = round.db.transaction_with(options)?;
        for (name, key, value) in changes {
            let Some(keyspace) = round.db.existing_keyspace(name) else {
                continue;
            };
            if transaction.get(&keyspace, key).is_err() {
                // The file of a table has a fault. The harness knows the errors of writes.
                return batch.commit(durability);
            }
            match value {
                Some(value) => drop(transaction.put(&keyspace, key, value)?),
                None => drop(transaction.delete(&keyspace, key)?),
            }
        }
        transaction.commit()
    }
}
