//! The first and the last entry of a keyspace: reading and taking them.

use super::Keyspace;
use crate::base::error::Result;
use crate::base::options::Durability;
use crate::paths::pop;
use crate::paths::scan::{ALL_KEYS, Cursor, Pair};
use crate::paths::write;
use crate::tree::partition::ends::End;

/// # The first and the last entry
impl Keyspace {
    /// The first key with its value; `None` if the keyspace is empty. Cost: one seek.
    ///
    /// # Errors
    /// `InvalidArgument` if keys are not sorted, `Corruption`, `Io`, `Closed`.
    pub fn first(&self) -> Result<Option<Pair>> {
        self.scan_all()?.next().transpose()
    }

    /// The last key with its value; `None` if the keyspace is empty. Cost: one seek.
    ///
    /// # Errors
    /// As [`Keyspace::first`].
    pub fn last(&self) -> Result<Option<Pair>> {
        self.scan_all()?.next_back().transpose()
    }

    /// Returns true if no key has a value. Works for every key order. Cost: one seek.
    ///
    /// # Errors
    /// `Corruption`, `Io`, `Closed`.
    pub fn is_empty(&self) -> Result<bool> {
        Cursor::new(self.view(&ALL_KEYS)?).is_at_end()
    }

    /// Takes the first entry: removes it and returns it, buffered; `None` if the keyspace is empty.
    /// No two callers get the same entry. A crash may bring entries back that were popped since the
    /// last sync.
    ///
    /// With [`Keyspace::put`] under ascending keys this is a queue, at the same speed for any
    /// number of entries popped before.
    /// Cost: a delete; a seek and some steps for each 64 pops. The pops of a keyspace take turns.
    /// Once a keyspace was popped from, its puts also compare their key with one other.
    ///
    /// ```
    /// # use hedgerow::{Db, Layout};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = Db::open(dir.path())?;
    /// let jobs = db.keyspace("jobs", Layout::sorted())?;
    /// jobs.put(1_u64.to_be_bytes(), "wash")?;
    /// jobs.put(2_u64.to_be_bytes(), "iron")?;
    /// while let Some((_, job)) = jobs.pop_first()? {
    ///     println!("{job:?}");
    /// }
    /// assert!(jobs.is_empty()?);
    /// # Ok::<(), hedgerow::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Keyspace::first`] and [`Keyspace::delete`].
    pub fn pop_first(&self) -> Result<Option<Pair>> {
        self.pop_first_with(Durability::Buffered)
    }

    /// Takes the first entry as [`Keyspace::pop_first`] does, at this durability.
    ///
    /// # Errors
    /// As [`Keyspace::pop_first`].
    pub fn pop_first_with(&self, durability: Durability) -> Result<Option<Pair>> {
        self.pop(End::First, durability)
    }

    /// Takes the last entry, as [`Keyspace::pop_first`] takes the first.
    ///
    /// # Errors
    /// As [`Keyspace::pop_first`].
    pub fn pop_last(&self) -> Result<Option<Pair>> {
        self.pop_last_with(Durability::Buffered)
    }

    /// Takes the last entry as [`Keyspace::pop_last`] does, at this durability.
    ///
    /// # Errors
    /// As [`Keyspace::pop_first`].
    pub fn pop_last_with(&self, durability: Durability) -> Result<Option<Pair>> {
        self.pop(End::Last, durability)
    }

    fn pop(&self, end: End, durability: Durability) -> Result<Option<Pair>> {
        self.check_not_dropped()?;
        let popped = pop::pop(&self.engine, &self.cell, end)?;
        if durability == Durability::Synced {
            // Outside of the turn, so that concurrent pops share the sync.
            write::sync(&self.engine)?;
        }
        Ok(popped)
    }
}
