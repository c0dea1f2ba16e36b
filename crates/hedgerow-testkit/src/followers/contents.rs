//! The contents of a database, read from it or made of its changes.

use std::collections::BTreeMap;

use hedgerow::{CommitChange, Db, Error, ErrorKind, Expiry, LoadOp, Result};

use crate::operator;

/// The value of a key, and the milliseconds since 1970 at which it expires.
pub(super) type Timed = (Vec<u8>, Option<u64>);

/// Keyspaces by name, with what there is for a key.
pub(super) type Contents<T = Timed> = BTreeMap<String, BTreeMap<Vec<u8>, T>>;

/// A consumer's knowledge of a key.
#[derive(Debug, Default)]
pub(super) struct Known {
    value: Option<Timed>,
    /// The operands since, the oldest first.
    operands: Vec<Vec<u8>>,
}

impl Known {
    fn put(value: Vec<u8>, expiry: Expiry) -> Known {
        Known {
            value: Some((value, expiry.unix_millis())),
            operands: Vec::new(),
        }
    }

    /// The value at a time. Operands apply to no value when the one under them has expired.
    pub(super) fn at(&self, key: &[u8], now: u64) -> Option<Timed> {
        let is_there = |(_, at): &&Timed| at.is_none_or(|at| now < at);
        let (value, expires) = match self.value.as_ref().filter(is_there) {
            Some((value, at)) => (Some(value.clone()), *at),
            None => (None, None),
        };
        let operands = self.operands.iter();
        let value = operands.fold(value, |value, it| {
            operator::apply(key, value.as_deref(), it)
        });
        Some((value?, expires))
    }
}

fn map<'a>(
    contents: &'a mut Contents<Known>,
    name: &str,
) -> Result<&'a mut BTreeMap<Vec<u8>, Known>> {
    let found = contents.get_mut(name);
    found.ok_or_else(|| wrong(format!("expected a keyspace, found none named `{name}`")))
}

/// Applies a change as a consumer of its own would.
pub(super) fn apply(contents: &mut Contents<Known>, change: CommitChange) -> Result<()> {
    match change {
        CommitChange::Put {
            keyspace,
            key,
            value,
            expiry,
        } => drop(map(contents, &keyspace)?.insert(key, Known::put(value, expiry))),
        CommitChange::Merge {
            keyspace,
            key,
            operand,
        } => {
            let known = map(contents, &keyspace)?.entry(key).or_default();
            known.operands.push(operand);
        }
        CommitChange::Delete { keyspace, key } => drop(map(contents, &keyspace)?.remove(&key)),
        CommitChange::DeleteRange { keyspace, from, to } => {
            let is_in = |key: &Vec<u8>| *key >= from && to.as_ref().is_none_or(|to| key < to);
            map(contents, &keyspace)?.retain(|key, _| !is_in(key));
        }
        CommitChange::DeletePrefix { keyspace, prefix } => {
            map(contents, &keyspace)?.retain(|key, _| !key.starts_with(&prefix));
        }
        CommitChange::Load { keyspace, tables } => {
            let map = map(contents, &keyspace)?;
            for entry in tables.read()? {
                let (key, op) = entry?;
                match op {
                    LoadOp::PutExpiring(value, expiry) => {
                        drop(map.insert(key, Known::put(value, expiry)));
                    }
                    LoadOp::Merge(operand) => map.entry(key).or_default().operands.push(operand),
                    LoadOp::Delete => drop(map.remove(&key)),
                    other => return Err(wrong(format!("expected an entry, found {other:?}"))),
                }
            }
        }
        CommitChange::Clear { keyspace } => map(contents, &keyspace)?.clear(),
        CommitChange::SetMergeOperator { keyspace, .. }
        | CommitChange::SetTimeToLive { keyspace, .. } => drop(map(contents, &keyspace)?),
        CommitChange::Create { keyspace, .. } => {
            if contents.insert(keyspace.clone(), BTreeMap::new()).is_some() {
                return Err(wrong(format!("`{keyspace}` was created twice")));
            }
        }
        CommitChange::Rename { keyspace, to } => {
            let moved = std::mem::take(map(contents, &keyspace)?);
            contents.remove(&keyspace);
            contents.insert(to, moved);
        }
        CommitChange::Drop { keyspace } => {
            map(contents, &keyspace)?;
            contents.remove(&keyspace);
        }
        other => return Err(wrong(format!("expected a known change, found {other:?}"))),
    }
    Ok(())
}

/// Everything in a database.
pub(super) fn contents(db: &Db) -> Result<Contents> {
    let mut all = Contents::new();
    for name in db.keyspaces() {
        let Some(keyspace) = db.existing_keyspace(&name) else {
            continue;
        };
        let mut map = BTreeMap::new();
        for entry in keyspace.scan_unordered()? {
            let (key, value) = entry?;
            let expiry = keyspace.expiry(&key)?;
            let at = expiry.and_then(Expiry::unix_millis);
            map.insert(key.to_vec(), (value.to_vec(), at));
        }
        all.insert(name, map);
    }
    Ok(all)
}

pub(super) fn same(who: &str, found: &Contents, expected: &Contents) -> Result<()> {
    let names = |of: &Contents| of.keys().cloned().collect::<Vec<_>>();
    if names(found) != names(expected) {
        let (found, expected) = (names(found), names(expected));
        return Err(wrong(format!("expected {expected:?}, {who} has {found:?}")));
    }
    for ((name, found), expected) in found.iter().zip(expected.values()) {
        for key in found.keys().chain(expected.keys()) {
            let (found, expected) = (found.get(key), expected.get(key));
            if found != expected {
                let key = key.escape_ascii();
                return Err(wrong(format!(
                    "expected {expected:?} for `{key}` of `{name}`, {who} has {found:?}"
                )));
            }
        }
    }
    Ok(())
}

pub(super) fn wrong(message: String) -> Error {
    Error::new(ErrorKind::Corruption, message)
}
