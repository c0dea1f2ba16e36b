//! Commits of a batch: all of its operations or none.

use super::Batch;
use crate::base::entry::SeqNo;
use crate::base::error::Result;
use crate::base::options::Durability;
use crate::paths::conflicts::{Basis, Check};
use crate::paths::write;
use crate::paths::write::{Condition, Outcome, ReadFacts, WriteOp};
use crate::tree::wal::payload::Payload;

impl Batch {
    /// Commits all operations or none.
    ///
    /// # Errors
    /// `InvalidArgument` if it is too large, `Closed` if one of its keyspaces was dropped,
    /// `NoSpace`, `Io`; `Poisoned` after a failed write of the log.
    pub fn commit(mut self, durability: Durability) -> Result<()> {
        self.write(durability)
    }

    /// Commits as [`Batch::commit`] does, then clears the batch for the next operations. After an
    /// error it keeps its operations.
    ///
    /// # Errors
    /// As [`Batch::commit`].
    pub fn commit_and_clear(&mut self, durability: Durability) -> Result<()> {
        self.write(durability)?;
        self.clear();
        Ok(())
    }

    /// Commits as [`Batch::commit_and_clear`] does, buffered, if it need not wait, for callers that
    /// must not. Returns false if it would have to wait: for memory, for merges that are behind,
    /// for a segment of the log, for the commit of another thread, for a keyspace that is cleared
    /// or dropped. Nothing is written then, and the batch keeps its operations; [`Batch::commit`]
    /// on another thread waits.
    /// Cost: reads and syncs no file. Copies each operation twice, so a large batch takes long.
    ///
    /// ```
    /// # use hedgerow::{Db, Durability, Layout};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = Db::open(dir.path())?;
    /// let users = db.keyspace("users", Layout::sorted())?;
    /// let mut batch = db.batch();
    /// batch.put(&users, "ada", "1815")?;
    /// if !batch.try_commit()? {
    ///     std::thread::spawn(|| batch.commit(Durability::Buffered)).join().unwrap()?;
    /// }
    /// assert!(users.contains_key("ada")?);
    /// # Ok::<(), hedgerow::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Batch::commit`].
    pub fn try_commit(&mut self) -> Result<bool> {
        self.engine.writer()?;
        let mut outcome = Outcome::Committed;
        if !self.is_empty() {
            outcome = self.attempt(None, Durability::Buffered, true)?;
            if outcome == Outcome::Rerouted {
                // That holds unless a keyspace is being cleared or dropped now.
                self.route_again(self.engine.catalog.epoch_at_once())?;
                outcome = self.attempt(None, Durability::Buffered, true)?;
            }
        }
        let committed = outcome == Outcome::Committed;
        if committed {
            self.clear();
        }
        Ok(committed)
    }

    fn write(&mut self, durability: Durability) -> Result<()> {
        self.write_if_unchanged(durability, None)
    }

    /// Commits all operations if nothing of a basis was changed since a number.
    pub(super) fn write_if_unchanged(
        &mut self,
        durability: Durability,
        basis: Option<(SeqNo, &[Basis])>,
    ) -> Result<()> {
        self.engine.writer()?;
        if self.is_empty() {
            return match durability {
                Durability::Buffered => Ok(()),
                Durability::Synced => write::sync(&self.engine),
            };
        }
        let engine = basis.map(|_| self.engine.clone());
        let check = engine.as_ref().zip(basis);
        let check = check.map(|(engine, (since, basis))| Check::new(engine, since, basis));
        let mut check = check.transpose()?;
        loop {
            if let Some(check) = &mut check {
                check.begin_attempt()?;
            }
            let unchanged = check.as_ref().map(ReadFacts::Basis);
            match self.attempt(unchanged, durability, false)? {
                Outcome::Committed => return Ok(()),
                Outcome::Rerouted => self.route_again(self.engine.routing_epoch())?,
                Outcome::Changed => {}
                Outcome::WouldWait => unreachable!("a commit that may wait waits"),
            }
        }
    }

    /// Commits all operations once, as they are routed.
    fn attempt(
        &self,
        unchanged: Option<ReadFacts<'_>>,
        durability: Durability,
        at_once: bool,
    ) -> Result<Outcome> {
        let mut ops = Vec::with_capacity(self.routes.len());
        for (op, route) in self.payload.iter().zip(&self.routes) {
            let op = op?;
            ops.push(WriteOp {
                partition: &route.partition,
                hash: route.hash,
                tag: op.tag,
                user_key: op.user_key,
                value: op.value,
            });
        }
        let condition = Condition {
            routing_epoch: self.routing_epoch,
            unchanged,
            at_once,
        };
        write::commit(&self.engine, &ops, &self.payload, condition, durability)
    }

    /// Routes all operations again, for an epoch, because a keyspace was cleared or dropped since
    /// they were added.
    fn route_again(&mut self, epoch: u64) -> Result<()> {
        let mut payload = Payload::new();
        for (op, route) in self.payload.iter().zip(&mut self.routes) {
            let cell = &self.keyspaces[route.keyspace];
            cell.check_not_dropped()?;
            let op = op?;
            // The layout is fixed, so the tree has the same index.
            route.partition = cell.state.load().partitions[route.partition.index].clone();
            payload.push(route.partition.id, op.tag, op.user_key, op.value);
        }
        self.payload = payload;
        // Not before: after an error the next commit must find the same.
        self.routing_epoch = epoch;
        Ok(())
    }
}
