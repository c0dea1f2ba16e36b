//! The change feed of a database, and the slots that keep it.

use std::collections::BTreeMap;

use crate::api::keyspace::check_name;
use crate::base::error::{Error, Result};
use crate::paths::changes::{Changes, Source};
use crate::paths::recover::under_repair;
use crate::paths::slots;
use crate::tree::version::edit::Slot;
use crate::tree::version::manifest;
use crate::tree::version::state::State;

use super::{Builder, Db};

impl Builder {
    /// The commits of the database with numbers above `number`, as [`Db::changes_since`], read from
    /// its files. Another process may have it open; commits appear when they have reached the
    /// system. The log is synced as it is read.
    ///
    /// # Errors
    /// As [`Db::changes_since`] and [`Builder::open`].
    pub fn changes_since(&self, number: u64) -> Result<Changes> {
        let environment = self.options.environment.clone();
        Changes::since(
            Source::Files(Default::default()),
            environment,
            &self.dir,
            number,
        )
    }

    /// The slots of the database, by name, as its manifest has them. Another process may have it
    /// open.
    ///
    /// # Errors
    /// As [`Builder::open`].
    pub fn slots(&self) -> Result<BTreeMap<String, Slot>> {
        let storage = &*self.options.environment.storage;
        let replay = manifest::replay(storage, &self.dir)?;
        under_repair::refuse(storage, &self.dir)?;
        Ok(State::replay(&replay.edits)?.feed.slots.clone())
    }

    /// A slot of the database; see [`Builder::slots`].
    ///
    /// # Errors
    /// `InvalidArgument` if there is none of the name; as [`Builder::slots`].
    pub fn slot(&self, name: &str) -> Result<Slot> {
        let slot = self.slots()?.get(name).copied();
        slot.ok_or_else(|| Error::invalid(format!("expected a slot, found none named `{name}`")))
    }
}

impl Db {
    /// The commits with numbers above `number`, in order, as far as they are there: [`Changes`].
    /// All of them are durable: the log is synced as they are read. Begin with the position of a
    /// slot, continue with [`Commit::number`](crate::Commit::number).
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// use hedgerow::{CommitChange, Db, Layout};
    ///
    /// let db = Db::open(dir.path())?;
    /// let begin = db.create_slot("index", 1 << 30)?;
    /// db.keyspace("users", Layout::sorted())?.put(b"ada", b"1815")?;
    /// let mut commits = db.changes_since(begin)?;
    /// assert!(matches!(commits.next().unwrap()?.changes[0], CommitChange::Create { .. }));
    /// let put = commits.next().unwrap()?;
    /// assert!(matches!(&put.changes[0], CommitChange::Put { key, .. } if key == b"ada"));
    /// assert!(commits.next().is_none());
    /// db.confirm_slot("index", put.number)?;
    /// # Ok::<(), hedgerow::Error>(())
    /// ```
    ///
    /// # Errors
    /// `Gap` with the smallest number that is possible, if these changes are not kept any more;
    /// `InvalidArgument` if there is no slot.
    pub fn changes_since(&self, number: u64) -> Result<Changes> {
        let last = self.engine.publisher.published();
        if number > last {
            let message = format!("expected a number up to the last, {last}, found {number}");
            return Err(Error::invalid(message));
        }
        let environment = self.engine.environment.clone();
        let source = Source::Open(self.engine.clone());
        Changes::since(source, environment, &self.engine.directories.root, number)
    }

    /// Creates a slot: from now on the database keeps its changes for a consumer, who confirms what
    /// it has. Returns the number behind which they are kept. Beyond what the database needs
    /// itself, the slot keeps up to `log_bytes_max` bytes of log; then it loses its place.
    ///
    /// # Errors
    /// `InvalidArgument` if there is one of the name; as [`Db::flush`].
    pub fn create_slot(&self, name: &str, log_bytes_max: u64) -> Result<u64> {
        check_name(name)?;
        slots::create(&self.engine, name, log_bytes_max)
    }

    /// Moves a slot on: its consumer has all changes up to `number`. Cost: a sync of the manifest.
    ///
    /// # Errors
    /// `InvalidArgument` if there is no such slot, or the number is before its position or beyond
    /// the last write.
    pub fn confirm_slot(&self, name: &str, number: u64) -> Result<()> {
        let last = self.engine.publisher.published();
        slots::change(&self.engine, name, |slot| {
            if !(slot.position..=last).contains(&number) {
                return Err(Error::invalid(format!(
                    "expected a number from {} to {last}, found {number}",
                    slot.position
                )));
            }
            Ok(Some(slot.at(number)))
        })
    }

    /// Drops a slot, and what only it keeps.
    ///
    /// # Errors
    /// `InvalidArgument` if there is none of the name.
    pub fn drop_slot(&self, name: &str) -> Result<()> {
        slots::change(&self.engine, name, |_| Ok(None))
    }

    /// The slots, by name.
    ///
    /// # Errors
    /// `Unsupported` if the database was opened for reading only; `Closed`.
    pub fn slots(&self) -> Result<BTreeMap<String, Slot>> {
        let manifest = self.engine.writer()?.manifest();
        Ok(manifest.state().feed.slots.clone())
    }
}
