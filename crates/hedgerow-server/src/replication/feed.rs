//! The commits of a server's own log as its replicas get them: with the offsets of the history, and
//! without what each server has for itself.
//!
//! A primary passes on every commit, and its number tells the offset. A replica passes on those
//! that it got, each with the offset that was stored with it. A change of a whole keyspace is a
//! commit of its own, without an offset: it goes with the next commit that has one.

use hedgerow::{Changes, Commit, CommitChange, Db, Error, ErrorKind, Result};
use hedgerow_copies::replica::{OWN_KEYSPACE, POSITION};

use super::state::{Era, era_of};
use crate::store::generation_of;

/// A commit for replicas.
pub(crate) struct Passed {
    /// Its number in the own engine.
    pub(crate) number: u64,
    /// The offset before it, and its own.
    pub(crate) offsets: (u64, u64),
    pub(crate) changes: Vec<CommitChange>,
}

/// See the module.
pub(crate) struct Feed {
    changes: Changes,
    eras: Vec<Era>,
    /// Changes of keyspaces that wait for the next commit with an offset.
    pending: Vec<CommitChange>,
    /// Everything up to it was passed on.
    offset: u64,
}

impl Feed {
    /// The commits behind an offset. `None` if they are not kept, or the place is not known: then
    /// the replica needs a whole copy.
    /// Cost: reads the log from the beginning of the era, if the server was a replica in it, or in
    /// the era before that ended at this offset.
    pub(crate) fn behind(db: &Db, eras: &[Era], offset: u64) -> Result<Option<Feed>> {
        let Some(at) = eras.iter().rposition(|era| era.offset <= offset) else {
            return Ok(None);
        };
        let era = &eras[at];
        let number = match era.follows {
            false => Some(era.number + (offset - era.offset)),
            true => number_at(db, eras, (era, offset))?,
        };
        // A load that was applied before the end of the era before, and whose offset was not stored
        // any more, comes behind the last commit that had one.
        let before = eras[..at].last();
        let number = match before.filter(|it| it.follows && era.offset == offset) {
            Some(before) => number_at(db, eras, (before, offset))?.or(number),
            None => number,
        };
        let Some(number) = number else {
            return Ok(None);
        };
        let Some(changes) = kept(db.changes_since(number))? else {
            return Ok(None);
        };
        Ok(Some(Feed {
            changes,
            eras: eras.to_vec(),
            pending: Vec::new(),
            offset,
        }))
    }

    /// The commits behind a number of the engine, for a copy that has all up to it. A replica of a
    /// replica learns the offset from the copy.
    pub(crate) fn behind_number(db: &Db, eras: &[Era], number: u64) -> Result<Feed> {
        let era = eras.iter().rev().find(|era| era.number <= number);
        let offset = match era {
            Some(era) if !era.follows => era.offset + (number - era.number),
            _ => 0,
        };
        Ok(Feed {
            changes: db.changes_since(number)?,
            eras: eras.to_vec(),
            pending: Vec::new(),
            offset,
        })
    }

    /// Moves on to the offset of a number, up to which everything was passed on. Returns the
    /// offsets before and then, if that is a move. A replica has the moves of its primary.
    pub(crate) fn move_to(&mut self, number: u64) -> Option<(u64, u64)> {
        let era = self.eras.last().filter(|era| !era.follows)?;
        let offset = era.offset + number.checked_sub(era.number)?;
        let before = self.offset;
        (offset > before && self.pending.is_empty()).then(|| {
            self.offset = offset;
            (before, offset)
        })
    }

    /// The number of the last commit that was read, or the one to begin behind.
    pub(crate) fn number(&self) -> u64 {
        self.changes.number()
    }

    /// The next commit; `None` if there is none for now.
    ///
    /// # Errors
    /// Those of the log; `Unsupported` for a commit that cannot be passed on.
    pub(crate) fn next(&mut self) -> Result<Option<Passed>> {
        while let Some(commit) = self.changes.next() {
            let commit = commit?;
            let Some(&era) = era_of(&self.eras, commit.number) else {
                continue;
            };
            let number = commit.number;
            let passed = match era.follows {
                true => self.of_replica(commit)?,
                false => self.of_primary(era, commit),
            };
            if let Some((offset, changes)) = passed {
                let offsets = (std::mem::replace(&mut self.offset, offset), offset);
                return Ok(Some(Passed {
                    number,
                    offsets,
                    changes,
                }));
            }
        }
        Ok(None)
    }

    /// The offset and the changes of a commit of a time in which the server was a primary.
    fn of_primary(&mut self, era: Era, commit: Commit) -> Option<(u64, Vec<CommitChange>)> {
        let offset = era.offset + (commit.number - era.number);
        let mut changes = std::mem::take(&mut self.pending);
        changes.extend(commit.changes.into_iter().filter(is_passed));
        // Others move on with the position that follows.
        (offset > self.offset && !changes.is_empty()).then_some((offset, changes))
    }

    /// The same of a time in which it was a replica.
    fn of_replica(&mut self, commit: Commit) -> Result<Option<(u64, Vec<CommitChange>)>> {
        let offset = stored_offset(&commit);
        let has_own = commit.changes.iter().any(|it| keyspace(it) == OWN_KEYSPACE);
        let changes = commit.changes.into_iter().filter(is_passed);
        let Some(offset) = offset else {
            let before = self.pending.len();
            self.pending.extend(changes);
            let is_part = has_own && self.pending.len() > before;
            return match is_part {
                false => Ok(None),
                true => Err(Error::new(
                    ErrorKind::Unsupported,
                    "expected whole commits, found a part of a load with operands: the replica \
                     needs a whole copy",
                )),
            };
        };
        let mut all = std::mem::take(&mut self.pending);
        all.extend(changes);
        Ok((offset > self.offset).then_some((offset, all)))
    }
}

/// The number of the last commit that a replica got at an offset, or before it.
fn number_at(db: &Db, eras: &[Era], (era, wanted): (&Era, u64)) -> Result<Option<u64>> {
    let mut begin = Some(era.number);
    let changes = match db.changes_since(era.number) {
        Err(error) => match error.kind() {
            ErrorKind::Gap { oldest } => {
                // The offset at that number is not known.
                begin = None;
                kept(db.changes_since(oldest))?
            }
            _ => kept(Err(error))?,
        },
        changes => Some(changes?),
    };
    let Some(changes) = changes else {
        return Ok(None);
    };
    let mut found = begin;
    for commit in changes {
        let commit = commit?;
        if era_of(eras, commit.number) != Some(era) {
            break;
        }
        match stored_offset(&commit) {
            Some(offset) if offset <= wanted => found = Some(commit.number),
            Some(_) => break,
            None => {}
        }
    }
    Ok(found)
}

/// The changes, unless they are not kept any more.
fn kept(changes: Result<Changes>) -> Result<Option<Changes>> {
    match changes {
        Ok(changes) => Ok(Some(changes)),
        Err(error) => match error.kind() {
            // There is no slot, or the place is lost, or it is of another log.
            ErrorKind::Gap { .. } | ErrorKind::InvalidArgument => Ok(None),
            _ => Err(error),
        },
    }
}

/// The offset that a replica stored with a commit.
fn stored_offset(commit: &Commit) -> Option<u64> {
    commit.changes.iter().find_map(|change| match change {
        CommitChange::Put {
            keyspace,
            key,
            value,
            ..
        } if keyspace == OWN_KEYSPACE && key == POSITION => {
            let bytes = <[u8; 8]>::try_from(value.as_slice());
            bytes.ok().map(u64::from_le_bytes)
        }
        _ => None,
    })
}

/// Returns true for what replicas have, too. Each server drops the keyspaces of flushed databases
/// by itself, when nobody reads them any more.
fn is_passed(change: &CommitChange) -> bool {
    match change {
        CommitChange::Drop { keyspace } => generation_of(keyspace).is_none(),
        change => keyspace(change) != OWN_KEYSPACE,
    }
}

fn keyspace(change: &CommitChange) -> &str {
    match change {
        CommitChange::Put { keyspace, .. }
        | CommitChange::Merge { keyspace, .. }
        | CommitChange::Delete { keyspace, .. }
        | CommitChange::DeleteRange { keyspace, .. }
        | CommitChange::DeletePrefix { keyspace, .. }
        | CommitChange::Load { keyspace, .. }
        | CommitChange::Create { keyspace, .. }
        | CommitChange::Rename { keyspace, .. }
        | CommitChange::SetMergeOperator { keyspace, .. }
        | CommitChange::SetTimeToLive { keyspace, .. }
        | CommitChange::Clear { keyspace }
        | CommitChange::Drop { keyspace } => keyspace,
        _ => "",
    }
}
