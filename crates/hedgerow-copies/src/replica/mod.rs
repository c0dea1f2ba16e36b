//! Replicas: databases that apply the changes of another one, over any transport.
//!
//! [`send`] writes changes to a writer of bytes, [`Replica::receive`] applies them from a reader of
//! bytes. Begin with a copy: create a slot, make a backup and restore it; the slot keeps everything
//! behind the backup.
//!
//! ```
//! # let dir = tempfile::tempdir().unwrap();
//! # let [db_dir, repository, copy] = ["db", "backups", "copy"].map(|it| dir.path().join(it));
//! use hedgerow::{Db, Layout};
//! use hedgerow_copies::backup::{Options, Repository};
//! use hedgerow_copies::replica::{Replica, send};
//!
//! let db = Db::open(&db_dir)?;
//! let users = db.keyspace("users", Layout::sorted())?;
//! db.create_slot("copy", 1 << 30)?;
//! let repository = Repository::new(repository);
//! let backup = repository.create(&Db::builder(&db_dir), Options::default(), |_| true)?;
//! repository.restore(None, &copy, |_| true)?;
//! let mut replica = Replica::open(Db::open(&copy)?, backup.last)?;
//!
//! users.put(b"ada", b"1815")?;
//! let mut bytes = Vec::new();
//! send(&mut db.changes_since(replica.position())?, &mut bytes)?;
//! replica.receive(&mut bytes.as_slice())?;
//! let copied = replica.db().existing_keyspace("users").expect("it was copied");
//! assert_eq!(copied.get(b"ada")?.as_deref(), Some(&b"1815"[..]));
//! db.confirm_slot("copy", replica.position())?;
//! # Ok::<(), hedgerow::Error>(())
//! ```
//!
//! The replica has the operands and the times to live of the other database. Its values expire at
//! the same times, each by its own clock. It needs the same merge operators; designs are its own.
//!
//! The replica stores its position together with each commit. So it may crash at any moment, and
//! resumes where it was. Every frame is checked. A commit is applied as a whole, except that a
//! load, or a change of a keyspace, and the position are two commits. Such a change is durable at
//! once, and everything before it is durable first: that costs a sync of the log. So after a crash
//! between the two commits, only this change is applied again, with the same result. A load with
//! operands is applied in parts of a mebibyte, each with its position.

mod field;
mod frame;

use std::io::{Read, Write};

use hedgerow::{
    Changes, CommitChange, Db, Durability, Error, ErrorKind, Keyspace, Layout, LoadOp, Result,
};

use frame::{Frame, Reader, Receiver};

/// The keyspace of a replica in which it keeps its position.
pub const OWN_KEYSPACE: &str = "hedgerow.replica";

/// The key of the position in that keyspace: 8 bytes, little-endian. Every commit that was applied
/// puts it, so the change feed of a replica tells what it applied.
pub const POSITION: &[u8] = b"position";
const LOADED: &[u8] = b"loaded";
/// The bytes of the batches of a load with operands.
const PART_BYTES: usize = 1 << 20;

/// Writes all commits that are there now. Returns the number of the last one, as
/// [`Changes::number`] does.
/// Cost: reads the log and the tables of loads.
///
/// # Errors
/// Those of the changes; `Io` if the bytes cannot be written. Send again from the replica's
/// position then.
pub fn send(changes: &mut Changes, out: &mut impl Write) -> Result<u64> {
    let mut after = changes.number();
    for commit in changes {
        let commit = commit?;
        send_commit((after, commit.number), &commit.changes, out)?;
        after = commit.number;
    }
    let flushed = out.flush();
    flushed.map_err(|e| frame::refused("send changes", e))?;
    Ok(after)
}

/// Writes one commit, for a sender that has other numbers than those of the database, or leaves
/// changes out. `numbers` are that of the commit before and its own; without changes, the commit
/// only moves the position of the replica.
///
/// # Errors
/// `Io` if the bytes cannot be written; `Unsupported` for a change that replicas do not know.
pub fn send_commit(
    numbers: (u64, u64),
    changes: &[CommitChange],
    out: &mut impl Write,
) -> Result<()> {
    frame::write_commit(numbers, changes, out)
}

/// A database that applies the changes of another one.
///
/// Nobody else may write to it. Reads are like those of any database.
pub struct Replica {
    db: Db,
    own: Keyspace,
    position: u64,
    /// The entries of the next commit, a load with operands, that were applied.
    loaded: u64,
}

impl Replica {
    /// A replica in a database that has the commits of another one up to `copied`, if it never was
    /// a replica before. Otherwise it continues where it was.
    ///
    /// # Errors
    /// `Corruption` of the stored position; as [`Db::keyspace`].
    pub fn open(db: Db, copied: u64) -> Result<Replica> {
        let own = db.keyspace(OWN_KEYSPACE, Layout::sorted())?;
        let number = |key: &[u8]| match own.get(key)? {
            None => Ok(None),
            Some(stored) => match <[u8; 8]>::try_from(&*stored) {
                Ok(bytes) => Ok(Some(u64::from_le_bytes(bytes))),
                Err(_) => {
                    let message = format!("expected a number, found {} bytes", stored.len());
                    Err(Error::new(ErrorKind::Corruption, message))
                }
            },
        };
        let (position, loaded) = (number(POSITION)?, number(LOADED)?);
        Ok(Replica {
            db,
            own,
            position: position.unwrap_or(copied),
            loaded: loaded.unwrap_or(0),
        })
    }

    /// A replica in a database that has exactly the commits up to `position` of another one,
    /// whatever it followed before. The position is stored, not yet durable.
    ///
    /// # Errors
    /// As [`Db::keyspace`] and [`Keyspace::put`].
    pub fn begin(db: Db, position: u64) -> Result<Replica> {
        let own = db.keyspace(OWN_KEYSPACE, Layout::sorted())?;
        let mut batch = db.batch();
        batch.put(&own, POSITION, position.to_le_bytes())?;
        batch.delete(&own, LOADED)?;
        batch.commit(Durability::Buffered)?;
        Replica::open(db, position)
    }

    /// The database.
    pub fn db(&self) -> &Db {
        &self.db
    }

    /// The number of the last commit that was applied: what to send begins behind it. Confirm what
    /// [`Replica::receive`] returns: commits of a call that fails may not be durable.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Returns true if a part of the next commit was applied, which is a load with operands.
    pub fn is_within_load(&self) -> bool {
        self.loaded > 0
    }

    /// Applies all commits up to the end of the input, and makes them durable. Returns the position
    /// then. Commits that were applied before are skipped.
    ///
    /// # Errors
    /// `Corruption` of the bytes, `Gap` if commits between are missing, `Io` of the input, those of
    /// writing. `Unsupported` for an operand whose merge operator is not registered here: open the
    /// database with it and continue. Commits up to the position are applied; the rest is not.
    pub fn receive(&mut self, input: &mut impl Read) -> Result<u64> {
        self.apply(input, |_| {})?;
        self.db.sync()?;
        Ok(self.position)
    }

    /// Applies commits as [`Replica::receive`] does, and does not make them durable, except those
    /// before a change of a keyspace or a load. `each` is told the changes of batches, before a
    /// batch is committed.
    ///
    /// # Errors
    /// As [`Replica::receive`].
    pub fn apply(
        &mut self,
        input: &mut impl Read,
        mut each: impl FnMut(&CommitChange),
    ) -> Result<u64> {
        let mut reader = Reader::new(input);
        while let Some(frame) = reader.next()? {
            self.apply_commit(&mut reader, frame, &mut each)?;
        }
        Ok(self.position)
    }

    fn apply_commit(
        &mut self,
        reader: &mut Reader<'_, impl Read>,
        first: Frame,
        each: &mut impl FnMut(&CommitChange),
    ) -> Result<()> {
        let (number, is_old) = (first.number, first.number <= self.position);
        if first.after > self.position {
            let (oldest, position) = (first.after, self.position);
            let message =
                format!("expected the commit behind {position}, found that behind {oldest}");
            return Err(Error::new(ErrorKind::Gap { oldest }, message));
        }
        let mut receiver = Receiver::new(reader, first);
        let mut batch = self.db.batch();
        while let Some(change) = receiver.change()? {
            if is_old {
                receiver.skip_load(&change)?;
                continue;
            }
            match change {
                frame::Received::Write(change) => {
                    each(&change);
                    self.add(&mut batch, change)?;
                }
                frame::Received::Whole(change) => {
                    // The change is durable at once. If a power cut took the commits before it,
                    // they would come again and find other keyspaces. A load syncs the log itself.
                    self.db.sync()?;
                    self.change(change)?;
                }
                frame::Received::Load(keyspace) => {
                    let keyspace = self.keyspace(&keyspace)?;
                    keyspace.bulk_load_ops(receiver.entries())?;
                }
                frame::Received::LoadWithOperands(keyspace) => {
                    let keyspace = self.keyspace(&keyspace)?;
                    self.load_once(&keyspace, receiver.entries(), &mut batch)?;
                }
            }
        }
        if is_old {
            return Ok(());
        }
        batch.put(&self.own, POSITION, number.to_le_bytes())?;
        batch.delete(&self.own, LOADED)?;
        batch.commit(Durability::Buffered)?;
        (self.position, self.loaded) = (number, 0);
        Ok(())
    }

    /// Applies a load in parts, each together with the number of entries so far. The last part is
    /// in `batch` then.
    fn load_once(
        &mut self,
        keyspace: &Keyspace,
        entries: impl Iterator<Item = Result<(Vec<u8>, LoadOp<Vec<u8>>)>>,
        batch: &mut hedgerow::Batch,
    ) -> Result<()> {
        for (count, entry) in (1..).zip(entries) {
            let (key, op) = entry?;
            if count <= self.loaded {
                continue;
            }
            match op {
                LoadOp::PutExpiring(value, at) => batch.put_expiring(keyspace, key, value, at)?,
                LoadOp::Merge(operand) => batch.merge(keyspace, key, operand)?,
                _ => batch.delete(keyspace, key)?,
            };
            if batch.bytes() >= PART_BYTES {
                batch.put(&self.own, LOADED, u64::to_le_bytes(count))?;
                batch.commit_and_clear(Durability::Buffered)?;
                self.loaded = count;
            }
        }
        Ok(())
    }

    fn keyspace(&self, name: &str) -> Result<Keyspace> {
        self.db.existing_keyspace(name).ok_or_else(|| {
            let message = format!("expected a change of a keyspace of the replica, found `{name}`");
            Error::new(ErrorKind::Corruption, message)
        })
    }

    fn add(&self, batch: &mut hedgerow::Batch, change: CommitChange) -> Result<()> {
        match change {
            CommitChange::Put {
                keyspace,
                key,
                value,
                expiry,
            } => {
                batch.put_expiring(&self.keyspace(&keyspace)?, key, value, expiry)?;
            }
            CommitChange::Merge {
                keyspace,
                key,
                operand,
            } => {
                batch.merge(&self.keyspace(&keyspace)?, key, operand)?;
            }
            CommitChange::Delete { keyspace, key } => {
                batch.delete(&self.keyspace(&keyspace)?, key)?;
            }
            CommitChange::DeleteRange { keyspace, from, to } => {
                let keyspace = self.keyspace(&keyspace)?;
                match to {
                    Some(to) => drop(batch.delete_range(&keyspace, from..to)?),
                    None => drop(batch.delete_range(&keyspace, from..)?),
                }
            }
            CommitChange::DeletePrefix { keyspace, prefix } => {
                batch.delete_prefix(&self.keyspace(&keyspace)?, prefix)?;
            }
            other => return Err(unexpected(&other)),
        }
        Ok(())
    }

    /// Applies a change of a keyspace, perhaps for the second time. Every commit before it is
    /// durable with its position, and no commit behind it is there.
    fn change(&self, change: CommitChange) -> Result<()> {
        match change {
            CommitChange::Create { keyspace, layout } => {
                self.db.keyspace(&keyspace, layout)?;
            }
            CommitChange::Rename { keyspace, to } => {
                if self.db.existing_keyspace(&keyspace).is_some() {
                    self.db.rename_keyspace(&keyspace, &to)?;
                } else {
                    // No later commit is here, so this one renamed the keyspace before a crash.
                    self.keyspace(&to)?;
                }
            }
            CommitChange::SetMergeOperator { keyspace, name } => {
                let layout = self.keyspace(&keyspace)?.layout().merge_operator(name);
                self.db.keyspace(&keyspace, layout)?;
            }
            CommitChange::SetTimeToLive {
                keyspace,
                time_to_live,
            } => self.keyspace(&keyspace)?.set_time_to_live(time_to_live)?,
            CommitChange::Clear { keyspace } => self.keyspace(&keyspace)?.clear()?,
            CommitChange::Drop { keyspace } => {
                if self.db.existing_keyspace(&keyspace).is_some() {
                    self.db.drop_keyspace(&keyspace)?;
                }
            }
            other => return Err(unexpected(&other)),
        }
        Ok(())
    }
}

fn unexpected(change: &CommitChange) -> Error {
    let message = format!("expected a change that a replica knows, found {change:?}");
    Error::new(ErrorKind::Unsupported, message)
}

/// The changes of a commit that are applied as one batch.
fn is_write(change: &CommitChange) -> bool {
    matches!(
        change,
        CommitChange::Put { .. }
            | CommitChange::Merge { .. }
            | CommitChange::Delete { .. }
            | CommitChange::DeleteRange { .. }
            | CommitChange::DeletePrefix { .. }
    )
}
