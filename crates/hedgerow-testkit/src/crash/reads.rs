//! Reads during a run: single answers, and everything.

use std::ops::Bound;
use std::sync::Arc;

use hedgerow::{Db, Keyspace};

use crate::blob::show;
use crate::model::Map;
use crate::order;

use super::oracle::{Contents, Oracle};
use super::values::seen;
use super::{Harness, Round, any_key};

impl Harness {
    /// Makes a read. It may fail, but must not be wrong.
    pub(super) fn read(&mut self, round: &mut Round) -> Result<(), String> {
        let Some((name, keyspace)) = self.keyspace(round) else {
            return Ok(());
        };
        if round.poisoned {
            // Such a state is checked as a whole at the end.
            return Ok(());
        }
        let map = seen(self.live.get(name), self.hour);
        let key_bytes = any_key(&mut self.random, self.keys, self.setup.order);
        let wrong = match self.random.below(4) {
            0..=1 => keyspace.get(&key_bytes).map(|found| {
                (found.as_deref() != map.get(&key_bytes).map(|v| &**v))
                    .then(|| format!("get {name} {}: {found:?}", show(&key_bytes)))
            }),
            2 => {
                let keys: Vec<_> = (0..self.random.below(20))
                    .map(|_| any_key(&mut self.random, self.keys, self.setup.order))
                    .collect();
                keyspace.multi_get(&keys).map(|found| {
                    let pairs = keys.iter().zip(&found);
                    let mut wrong =
                        pairs.filter(|(k, v)| v.as_deref() != map.get(*k).map(|v| &**v));
                    wrong
                        .next()
                        .map(|(k, v)| format!("multi_get {name} {}: {v:?}", show(k)))
                })
            }
            _ => {
                let range = (Bound::Included(key_bytes.clone()), Bound::Unbounded);
                let expected = map.range::<Vec<u8>, _>(range.clone());
                scan_differs(&keyspace, range, expected).map(|differs| {
                    differs.map(|at| format!("scan {name} {}..: {at}", show(&key_bytes)))
                })
            }
        };
        match wrong {
            Ok(None) => Ok(()),
            Ok(Some(wrong)) => Err(format!("wrong answer: {wrong}")),
            Err(error) => {
                let text = format!("read {name}: {error}");
                self.note(text);
                self.allowed(round, &error)
            }
        }
    }

    /// Reads everything in several ways. Nothing may fail.
    pub(super) fn check_reads(&mut self, db: &Db) -> Result<(), String> {
        let found = read_everything(db)?;
        let known = Oracle::settled(self.live.clone());
        known.check(&found, 0, self.hour)?;
        for (name, map) in &found {
            let keyspace = db.existing_keyspace(name).ok_or("a keyspace is gone")?;
            for _ in 0..20 {
                let key = any_key(&mut self.random, self.keys, self.setup.order);
                let found = keyspace.get(&key);
                let found = found.map_err(|e| format!("expected to read, found {e}"))?;
                if found.as_deref() != map.get(&key).map(|v| &**v) {
                    return Err(format!("get {name} {}: {found:?}", show(&key)));
                }
            }
        }
        Ok(())
    }
}

/// The first difference between a scan and the expected entries.
fn scan_differs<'a>(
    keyspace: &Keyspace,
    range: (Bound<Vec<u8>>, Bound<Vec<u8>>),
    mut expected: impl Iterator<Item = (&'a Vec<u8>, &'a Arc<[u8]>)>,
) -> hedgerow::Result<Option<String>> {
    for item in order::scan(keyspace, None, range)? {
        let (key, value) = item?;
        let expected = expected.next();
        if expected.is_none_or(|(k, v)| k[..] != *key || v[..] != *value) {
            let expected = expected.map(|(k, _)| show(k));
            return Ok(Some(format!(
                "expected {expected:?}, found {} = {}",
                show(&key),
                show(&value)
            )));
        }
    }
    Ok(expected
        .next()
        .map(|(k, _)| format!("expected {}, found the end", show(k))))
}

/// Reads the contents of all keyspaces, and compares the scans from both ends.
pub(super) fn read_everything(db: &Db) -> Result<Contents, String> {
    let mut contents = Contents::new();
    for name in db.keyspaces() {
        let keyspace = db.existing_keyspace(&name).ok_or("a keyspace is gone")?;
        let both = || -> hedgerow::Result<(Map, Map)> {
            let owned = |item: hedgerow::Result<(hedgerow::Slice, hedgerow::Slice)>| {
                item.map(|(k, v)| (k.to_vec(), Arc::from(&*v)))
            };
            let all = || order::scan(&keyspace, None, (Bound::Unbounded, Bound::Unbounded));
            let forward = all()?.map(owned);
            let backward = all()?.rev().map(owned);
            Ok((
                forward.collect::<hedgerow::Result<_>>()?,
                backward.collect::<hedgerow::Result<_>>()?,
            ))
        };
        let (forward, backward) = both().map_err(|e| format!("expected to read, found {e}"))?;
        if forward != backward {
            return Err(format!("`{name}` differs when read from its end"));
        }
        contents.insert(name, forward);
    }
    Ok(contents)
}
