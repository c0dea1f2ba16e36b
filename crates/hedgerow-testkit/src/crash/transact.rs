//! Transactions in a run: as a batch, they are there whole or not at all.

use hedgerow::{Batch, Durability, Result, TransactionOptions};

use super::values::Op;
use super::{Harness, Round};

impl Harness {
    /// Commits a batch, or the same writes by a transaction that also reads each key.
    pub(super) fn commit(
        &mut self,
        round: &Round,
        batch: Batch,
        writes: &[(&'static str, Vec<u8>, Op)],
        durability: Durability,
    ) -> Result<()> {
        // Without writes a transaction has nothing to commit, also after a failure of the log.
        if writes.is_empty() || self.random.one_in(2) {
            return batch.commit(durability);
        }
        let options = TransactionOptions {
            durability,
            ..TransactionOptions::default()
        };
        let mut transaction = round.db.transaction_with(options)?;
        for (name, key, op) in writes {
            let Some(keyspace) = round.db.existing_keyspace(name) else {
                continue;
            };
            if transaction.get(&keyspace, key).is_err() {
                // The file of a table has a fault. The harness knows the errors of writes.
                return batch.commit(durability);
            }
            op.add_indexed(&mut transaction, &keyspace, key)?;
        }
        transaction.commit()
    }
}
