//! The change feed, one change after another: the entries of a bulk load come as changes, too.

use std::fmt;
use std::time::Duration;
use std::vec;

use engine::io::WallTime;
use engine::{Changes, CommitChange, Error, ErrorKind, Expiry, LoadOp, LoadedEntries, Result};

/// The kind of a [`Change`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeKind {
    /// `key` gets `value`, until `expiry`.
    Put,
    /// `value` is an operand for `key`.
    Merge,
    /// `key` loses its value.
    Delete,
    /// The keys from `key` to before `value`; without a value, to the end.
    DeleteRange,
    /// The keys with the prefix `key`.
    DeletePrefix,
    /// The keyspace is created; `value` is its layout.
    Create,
    /// The keyspace gets the name `value`.
    Rename,
    /// The keyspace gets the merge operator `value`.
    SetMergeOperator,
    /// Later puts live for `expiry`. Those in the feed have their expiry already.
    SetTimeToLive,
    /// The keyspace loses all entries.
    Clear,
    /// The keyspace is dropped.
    Drop,
}

/// A change of a commit.
#[derive(Debug, Clone)]
pub struct Change {
    /// The number of its commit.
    pub number: u64,
    /// True if the commit has no further change.
    pub is_last: bool,
    /// The kind, which says what the other fields mean.
    pub kind: ChangeKind,
    /// The name of the keyspace at that moment.
    pub keyspace: String,
    /// The key, a bound or a prefix.
    pub key: Vec<u8>,
    /// The value, an operand, a bound or a text.
    pub value: Option<Vec<u8>>,
    /// The time since 1970 when a put expires, or a time to live; `None` is never.
    pub expiry: Option<Duration>,
}

/// The changes of a database behind a number.
pub struct Feed {
    changes: Changes,
    number: u64,
    /// The changes of the present commit, and the entries of the bulk load among them.
    left: vec::IntoIter<CommitChange>,
    load: Option<(String, LoadedEntries)>,
    ahead: Option<Change>,
    /// The reason why a part of a commit cannot be read. What follows would be without it.
    failed: Option<Error>,
}

impl Feed {
    /// Begins where the changes do.
    pub fn new(changes: Changes) -> Feed {
        Feed {
            number: changes.number(),
            changes,
            left: Vec::new().into_iter(),
            load: None,
            ahead: None,
            failed: None,
        }
    }

    /// The next change. Waits for one, at most for this time; `None` if none came.
    ///
    /// # Errors
    /// As the iterator of [`Changes`]. If the tables of a bulk load cannot be read, every further
    /// call fails as this one.
    pub fn next(&mut self, at_most: Duration) -> Result<Option<Change>> {
        loop {
            if let Some(change) = self.ahead.take() {
                self.ahead = self.advance()?;
                let is_last = self.ahead.is_none();
                return Ok(Some(Change { is_last, ..change }));
            }
            if let Some(error) = &self.failed {
                return Err(error.clone());
            }
            if !self.changes.wait(at_most)? {
                return Ok(None);
            }
            if let Some(commit) = self.changes.next().transpose()? {
                self.number = commit.number;
                self.left = commit.changes.into_iter();
                self.ahead = self.advance()?;
            }
        }
    }

    fn advance(&mut self) -> Result<Option<Change>> {
        let change = self.change_of_commit();
        self.failed = change.as_ref().err().cloned();
        change
    }

    fn change_of_commit(&mut self) -> Result<Option<Change>> {
        loop {
            if let Some((keyspace, entries)) = &mut self.load {
                if let Some(entry) = entries.next().transpose()? {
                    return of_entry(self.number, keyspace.clone(), entry).map(Some);
                }
                self.load = None;
            }
            match self.left.next() {
                None => return Ok(None),
                Some(CommitChange::Load { keyspace, tables }) => {
                    self.load = Some((keyspace, tables.read()?));
                }
                Some(change) => return of_change(self.number, change).map(Some),
            }
        }
    }
}

impl Change {
    fn new(number: u64, kind: ChangeKind, keyspace: String) -> Change {
        Change {
            number,
            is_last: false,
            kind,
            keyspace,
            key: Vec::new(),
            value: None,
            expiry: None,
        }
    }

    fn key(self, key: Vec<u8>) -> Change {
        Change { key, ..self }
    }

    fn value(self, value: impl Into<Vec<u8>>) -> Change {
        let value = Some(value.into());
        Change { value, ..self }
    }

    fn expiry(self, expiry: Expiry) -> Change {
        let expiry = match expiry {
            Expiry::At(at) => at.duration_since(WallTime::UNIX_EPOCH).ok(),
            _ => None,
        };
        Change { expiry, ..self }
    }
}

fn of_entry(
    number: u64,
    keyspace: String,
    (key, op): (Vec<u8>, LoadOp<Vec<u8>>),
) -> Result<Change> {
    let new = |kind| Change::new(number, kind, keyspace).key(key);
    Ok(match op {
        LoadOp::Put(value) => new(ChangeKind::Put).value(value),
        LoadOp::PutExpiring(value, expiry) => new(ChangeKind::Put).value(value).expiry(expiry),
        LoadOp::Merge(operand) => new(ChangeKind::Merge).value(operand),
        LoadOp::Delete => new(ChangeKind::Delete),
        other => return Err(unknown(&other)),
    })
}

/// The error for a change that a later version of the engine has.
fn unknown(change: &impl fmt::Debug) -> Error {
    let message = format!("expected a change that the bindings know, found {change:?}");
    Error::new(ErrorKind::Unsupported, message)
}

fn of_change(number: u64, change: CommitChange) -> Result<Change> {
    use ChangeKind as K;
    use CommitChange as C;
    let new = |kind, keyspace| Change::new(number, kind, keyspace);
    Ok(match change {
        C::Put {
            keyspace,
            key,
            value,
            expiry,
        } => new(K::Put, keyspace).key(key).value(value).expiry(expiry),
        C::Merge {
            keyspace,
            key,
            operand,
        } => new(K::Merge, keyspace).key(key).value(operand),
        C::Delete { keyspace, key } => new(K::Delete, keyspace).key(key),
        C::DeleteRange { keyspace, from, to } => Change {
            value: to,
            ..new(K::DeleteRange, keyspace).key(from)
        },
        C::DeletePrefix { keyspace, prefix } => new(K::DeletePrefix, keyspace).key(prefix),
        C::Create { keyspace, layout } => new(K::Create, keyspace).value(layout.to_string()),
        C::Rename { keyspace, to } => new(K::Rename, keyspace).value(to),
        C::SetMergeOperator { keyspace, name } => new(K::SetMergeOperator, keyspace).value(name),
        C::SetTimeToLive {
            keyspace,
            time_to_live,
        } => Change {
            expiry: time_to_live,
            ..new(K::SetTimeToLive, keyspace)
        },
        C::Clear { keyspace } => new(K::Clear, keyspace),
        C::Drop { keyspace } => new(K::Drop, keyspace),
        other => return Err(unknown(&other)),
    })
}
