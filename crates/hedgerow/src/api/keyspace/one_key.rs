//! The write and the get of one key.

use std::cell::RefCell;

use crate::base::entry::{KeyHash, Tag, check_stored};
use crate::base::error::Result;
use crate::base::expiry::Moment;
use crate::base::options::Durability;
use crate::base::slice::Slice;
use crate::paths::read;
use crate::paths::read::Want;
use crate::paths::write;
use crate::paths::write::{Condition, Outcome, WriteOp};
use crate::tree::wal::payload::Payload;

use super::Keyspace;

thread_local! {
    /// The payload of single writes, kept so that a put allocates nothing.
    static PAYLOAD: RefCell<Payload> = RefCell::new(Payload::new());
}

/// A payload that grew beyond this is not kept.
const KEPT_PAYLOAD_BYTES_MAX: usize = 64 << 10;

impl Keyspace {
    /// Gives a key a value, buffered: the write survives the end of the process.
    /// Cost: no I/O; waits while background work is too far behind.
    ///
    /// # Errors
    /// `InvalidArgument` for a key or value out of bounds, `NoSpace`, `Unsupported` when opened for
    /// reading only, `Closed`; `Poisoned` after a failed write of the log.
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.put_with(key, value, Durability::Buffered)
    }

    /// Returns the value of a key. A value under 1 KiB is copied; a longer one pins its page.
    /// Cost: at most one page of data, unless filters are wrong (about 1 % each at 10 bits).
    ///
    /// # Errors
    /// `InvalidArgument` for a key out of bounds, `Corruption`, `Io`, `Closed`.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Slice>> {
        self.check_not_dropped()?;
        let state = self.cell.state.load();
        read::get(
            &self.engine,
            &state,
            key.as_ref(),
            Moment::PRESENT,
            Want::Value,
        )
    }

    /// Gives a key a value at this durability. Cost of `Synced`: one sync of the log, which
    /// concurrent commits share.
    ///
    /// # Errors
    /// As [`Keyspace::put`].
    #[inline]
    pub fn put_with(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        durability: Durability,
    ) -> Result<()> {
        let (key, value) = (key.as_ref(), value.as_ref());
        let at = self.cell.facts.expiry_of_puts(|| self.engine.time());
        self.write_put(key, value, at, None, durability).map(drop)
    }

    /// Deletes a key, buffered. The key need not have a value.
    ///
    /// # Errors
    /// As [`Keyspace::put`].
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.delete_with(key, Durability::Buffered)
    }

    /// Deletes a key at this durability. The key need not have a value.
    ///
    /// # Errors
    /// As [`Keyspace::put`].
    pub fn delete_with(&self, key: impl AsRef<[u8]>, durability: Durability) -> Result<()> {
        self.write(Tag::DELETE, key.as_ref(), b"", None, durability)
            .map(drop)
    }

    /// Makes one write, on a condition if there is one. Returns false if it does not hold.
    pub(super) fn write(
        &self,
        tag: Tag,
        key: &[u8],
        value: &[u8],
        condition: Option<Condition<'_>>,
        durability: Durability,
    ) -> Result<bool> {
        self.cell.facts.order.check(key)?;
        check_stored(tag, value)?;
        let hash = KeyHash::of(key, self.cell.facts.seed);
        // A listener that writes in the middle of a write finds the payload taken.
        let mut payload = PAYLOAD.take();
        let result = loop {
            self.check_not_dropped()?;
            let present = || Condition {
                routing_epoch: self.engine.routing_epoch(),
                unchanged: None,
                at_once: false,
            };
            let at = condition.unwrap_or_else(present);
            let state = self.cell.state.load();
            let partition = state.route(key, hash);
            payload.clear();
            payload.push(partition.id, tag, key, value);
            let op = WriteOp {
                partition,
                hash,
                tag,
                user_key: key,
                value,
            };
            match write::commit(&self.engine, &[op], &payload, at, durability) {
                Ok(Outcome::Rerouted) if condition.is_none() => {}
                Ok(outcome) => break Ok(outcome == Outcome::Committed),
                Err(error) => break Err(error),
            }
        };
        if payload.bytes().len() <= KEPT_PAYLOAD_BYTES_MAX {
            PAYLOAD.set(payload);
        }
        result
    }
}
