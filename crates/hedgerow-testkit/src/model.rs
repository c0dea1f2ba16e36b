//! The model: a database as its user sees it, as maps in memory. It answers every operation with
//! the line that the engine must answer.

mod expiry;
mod transact;

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use hedgerow::{ErrorKind, KEY_BYTES_MAX, KeyOrder};

use crate::answer;
use crate::blob::Blob;
use crate::operator;
use crate::ops::{Change, Keys, Move, Op, Source, Step, Write};
use crate::order::takes;

/// The contents of a keyspace.
pub type Map = BTreeMap<Vec<u8>, Arc<[u8]>>;

/// A database as its user sees it.
#[derive(Debug, Default)]
pub struct Model {
    /// The key order of every keyspace.
    order: KeyOrder,
    /// The contents by generation. A keyspace that is dropped and made again has a new generation.
    live: BTreeMap<u32, Arc<Map>>,
    /// The values that expire, by generation and key.
    expiring: BTreeMap<(u32, Vec<u8>), Expiring>,
    /// The hours that puts live, by generation.
    time_to_live: BTreeMap<u32, u64>,
    /// The hours that have passed.
    now: u64,
    /// The handles, each with the generation that it was made for.
    handles: BTreeMap<String, u32>,
    next: u32,
    snapshots: BTreeMap<u8, BTreeMap<u32, Arc<Map>>>,
    cursors: BTreeMap<u8, Cursor>,
}

/// The value of a key, or a part of it, that expires.
#[derive(Debug, Clone)]
struct Expiring {
    /// The hour.
    at: u64,
    /// The operands on top of it, which stay.
    operands: Vec<Vec<u8>>,
}

#[derive(Debug)]
struct Cursor {
    map: Arc<Map>,
    at: Option<Vec<u8>>,
}

type Answer = Result<String, ErrorKind>;

impl Model {
    /// A database with some empty keyspaces.
    pub fn new(keyspaces: &[&str], order: KeyOrder) -> Model {
        let mut model = Model {
            order,
            ..Model::default()
        };
        for keyspace in keyspaces {
            model.create(keyspace);
        }
        model
    }

    /// Does an operation and returns its answer.
    pub fn apply(&mut self, op: &Op) -> String {
        match self.answer(op) {
            Ok(line) => line,
            Err(kind) => answer::error(kind),
        }
    }

    /// The contents of every keyspace, by name.
    pub fn contents(&self) -> BTreeMap<String, Arc<Map>> {
        let named = self.handles.iter();
        named
            .filter_map(|(name, id)| Some((name.clone(), self.live.get(id)?.clone())))
            .collect()
    }

    fn answer(&mut self, op: &Op) -> Answer {
        match op {
            Op::Put {
                keyspace,
                key,
                value,
                ..
            } => self.write(keyspace, key, Some(value.bytes())),
            Op::PutExpiring { .. } | Op::TimeToLive { .. } | Op::Wait { .. } => self.time(op),
            Op::Delete { keyspace, key, .. } => self.write(keyspace, key, None),
            Op::Merge {
                keyspace,
                key,
                operand,
                ..
            } => self.merge(keyspace, key, operand),
            Op::DeleteRange { keyspace, keys, .. } => self.delete_range(keyspace, keys),
            Op::Update {
                keyspace,
                key,
                change,
                ..
            } => self.update(keyspace, key, change),
            Op::Batch { writes, .. } => self.batch(writes),
            Op::Transaction { steps, commits, .. } => self.transact(steps, *commits),
            Op::Load { keyspace, entries } => self.load(keyspace, entries),
            Op::Pop { keyspace, last } => {
                let map = self.map(keyspace)?;
                let popped = if *last {
                    map.pop_last()
                } else {
                    map.pop_first()
                };
                self.forget_expired();
                Ok(answer::moves(std::iter::once(popped)))
            }
            Op::Ends { .. }
            | Op::Get { .. }
            | Op::Has { .. }
            | Op::Gets { .. }
            | Op::Scan { .. }
            | Op::Prefix { .. } => self.look(op),
            Op::OpenCursor { .. } | Op::MoveCursor { .. } | Op::CloseCursor { .. } => {
                self.move_cursor(op)
            }
            Op::Snapshot { slot } => {
                self.snapshots.insert(*slot, self.live.clone());
                Ok(answer::done())
            }
            Op::Release { slot } => {
                self.snapshots.remove(slot);
                Ok(answer::done())
            }
            other => self.maintain(other),
        }
    }

    fn update(&mut self, keyspace: &str, key: &Blob, change: &Change) -> Answer {
        self.held(keyspace)?;
        let key = self.checked(key)?;
        let id = self.handles[keyspace];
        let map = self.map(keyspace)?;
        let old = map.get(&key).cloned();
        let new = change.apply(old.as_deref());
        let line = answer::value(new.as_deref());
        let is_same = new.as_deref() == old.as_deref();
        set(map, key.clone(), new.clone());
        match (old, new, self.expiring.get_mut(&(id, key.clone()))) {
            _ if is_same => {}
            (None, Some(_), _) => self.expire_by_default(keyspace, &key),
            (Some(_), Some(_), Some(expiring)) => expiring.operands.clear(),
            (_, None, Some(_)) => drop(self.expiring.remove(&(id, key))),
            _ => {}
        }
        Ok(line)
    }

    fn move_cursor(&mut self, op: &Op) -> Answer {
        match op {
            Op::OpenCursor { slot, source } => {
                let map = self.read(source)?;
                self.cursors.insert(*slot, Cursor { map, at: None });
                Ok(answer::done())
            }
            Op::MoveCursor { slot, moves } => match self.cursors.get_mut(slot) {
                None => Ok(answer::nothing()),
                Some(cursor) => Ok(answer::moves(moves.iter().map(|m| cursor.go(m)))),
            },
            Op::CloseCursor { slot } => {
                self.cursors.remove(slot);
                Ok(answer::done())
            }
            _ => unreachable!("{op} moves no cursor"),
        }
    }

    fn time(&mut self, op: &Op) -> Answer {
        match op {
            Op::PutExpiring {
                keyspace,
                key,
                value,
                hours,
                ..
            } => {
                self.write(keyspace, key, Some(value.bytes()))?;
                self.expire(keyspace, &key.bytes(), *hours);
                Ok(answer::done())
            }
            Op::TimeToLive { keyspace, hours } => {
                self.map(keyspace)?;
                self.time_to_live
                    .insert(self.handles[keyspace.as_str()], *hours);
                Ok(answer::done())
            }
            Op::Wait { hours } => {
                self.pass(*hours);
                Ok(answer::done())
            }
            other => unreachable!("{other} is not about time"),
        }
    }

    fn look(&mut self, op: &Op) -> Answer {
        match op {
            Op::Ends { source } => {
                let map = self.read(source)?;
                let ends = [map.first_key_value(), map.last_key_value()];
                Ok(answer::ends(ends, map.len()))
            }
            Op::Get { source, key } => {
                let (map, key) = (self.read(source)?, self.checked(key)?);
                Ok(answer::value(map.get(&key).map(|v| &**v)))
            }
            Op::Has { source, key } => {
                let (map, key) = (self.read(source)?, self.checked(key)?);
                Ok(answer::yes(map.contains_key(&key)))
            }
            Op::Gets { source, keys } => {
                let map = self.read(source)?;
                let keys: Vec<_> = { keys.iter() }
                    .map(|key| self.checked(key))
                    .collect::<Result<_, _>>()?;
                let values = keys.iter().map(|key| map.get(key).map(|v| &**v));
                Ok(answer::values(values))
            }
            Op::Scan {
                source,
                lower,
                upper,
                steps,
            } => {
                let map = self.read(source)?;
                let (lower, upper) = (bound(lower)?, bound(upper)?);
                Ok(scan(&map, &lower, &upper, steps))
            }
            Op::Prefix {
                keyspace,
                prefix,
                steps,
            } => {
                let map = self.map(keyspace)?.clone();
                let prefix = prefix.bytes();
                check_bound(&prefix)?;
                let with_prefix = |(key, _): &(&Vec<u8>, _)| key.starts_with(&prefix);
                let found = map.iter().filter(with_prefix);
                let found: Map = found.map(|(k, v)| (k.clone(), v.clone())).collect();
                Ok(scan(&found, &Bound::Unbounded, &Bound::Unbounded, steps))
            }
            other => unreachable!("{other} is no read"),
        }
    }

    fn maintain(&mut self, op: &Op) -> Answer {
        match op {
            Op::Flush {
                keyspace: Some(keyspace),
            }
            | Op::Settle { keyspace }
            | Op::Retune { keyspace, .. } => {
                self.map(keyspace)?;
            }
            Op::Compact {
                keyspace,
                lower,
                upper,
            } => {
                self.map(keyspace)?;
                bound(lower)?;
                bound(upper)?;
            }
            Op::Clear { keyspace } => {
                *self.map(keyspace)? = Map::new();
                self.forget_expired();
            }
            Op::Drop { keyspace } => {
                self.map(keyspace)?;
                let id = self.handles[keyspace];
                self.live.remove(&id);
            }
            Op::Create { keyspace } => self.create(keyspace),
            Op::Checkpoint | Op::ReadOnly => {
                return Ok(answer::contents(self.contents().iter().map(
                    |(name, map)| {
                        let entries = map.iter().map(|(k, v)| (k.as_slice(), &**v));
                        (name.as_str(), answer::digest(entries))
                    },
                )));
            }
            Op::Reopen | Op::Kill => {
                self.snapshots.clear();
                self.cursors.clear();
                let live = &self.live;
                self.handles.retain(|_, id| live.contains_key(id));
            }
            _ => {}
        }
        Ok(answer::done())
    }

    fn create(&mut self, keyspace: &str) {
        let id = self.handles.get(keyspace);
        if id.is_some_and(|id| self.live.contains_key(id)) {
            return;
        }
        self.handles.insert(keyspace.to_owned(), self.next);
        self.live.insert(self.next, Arc::default());
        self.next += 1;
    }

    fn write(&mut self, keyspace: &str, key: &Blob, value: Option<Vec<u8>>) -> Answer {
        self.held(keyspace)?;
        let key = self.checked(key)?;
        let is_put = value.is_some();
        set(self.map(keyspace)?, key.clone(), value);
        self.expire(keyspace, &key, 0);
        if is_put {
            self.expire_by_default(keyspace, &key);
        }
        Ok(answer::done())
    }

    fn merge(&mut self, keyspace: &str, key: &Blob, operand: &Blob) -> Answer {
        self.held(keyspace)?;
        let key = self.checked(key)?;
        let id = self.handles[keyspace];
        if let Some(expiring) = self.expiring.get_mut(&(id, key.clone())) {
            expiring.operands.push(operand.bytes());
        }
        let map = self.map(keyspace)?;
        let new = operator::apply(&key, map.get(&key).map(|v| &**v), &operand.bytes());
        set(map, key, new);
        Ok(answer::done())
    }

    fn delete_range(&mut self, keyspace: &str, keys: &Keys) -> Answer {
        let map = self.map(keyspace)?;
        map.retain(|key, _| !keys.holds(key));
        self.forget_expired();
        Ok(answer::done())
    }

    /// Adds the writes of a batch. A refused write leaves the others in the batch.
    fn batch(&mut self, writes: &[Write]) -> Answer {
        let mut added = 0;
        for write in writes {
            added += u32::from(self.write_of(write).is_ok());
        }
        Ok(answer::added(added))
    }

    fn write_of(&mut self, write: &Write) -> Answer {
        match write {
            Write::One {
                keyspace,
                key,
                value,
            } => self.write(keyspace, key, value.as_ref().map(Blob::bytes)),
            Write::Merge {
                keyspace,
                key,
                operand,
            } => self.merge(keyspace, key, operand),
            Write::DeleteRange { keyspace, keys } => self.delete_range(keyspace, keys),
        }
    }

    fn load(&mut self, keyspace: &str, entries: &[(Blob, Blob)]) -> Answer {
        self.map(keyspace)?;
        let keys: Vec<_> = entries
            .iter()
            .map(|(key, _)| self.checked(key))
            .collect::<Result<_, _>>()?;
        if !keys.is_sorted_by(|a, b| a < b) {
            return Err(ErrorKind::InvalidArgument);
        }
        for (key, value) in entries {
            match value.bytes() {
                operand if operator::is_operand(&operand) => self.merge(keyspace, key, value)?,
                bytes => self.write(keyspace, key, Some(bytes))?,
            };
        }
        Ok(answer::added(entries.len() as u32))
    }

    /// Checks that there is a handle. Even if its keyspace is gone, the key is checked first.
    fn held(&self, keyspace: &str) -> Result<(), ErrorKind> {
        let held = self.handles.contains_key(keyspace);
        held.then_some(()).ok_or(ErrorKind::Closed)
    }

    /// Returns the bytes of a key if it is valid.
    fn checked(&self, key: &Blob) -> Result<Vec<u8>, ErrorKind> {
        let key = key.bytes();
        if takes(self.order, &key) {
            return Ok(key);
        }
        Err(ErrorKind::InvalidArgument)
    }

    /// Returns the contents behind a handle.
    fn map(&mut self, keyspace: &str) -> Result<&mut Map, ErrorKind> {
        let id = self.handles.get(keyspace);
        let map = id.and_then(|id| self.live.get_mut(id));
        map.map(Arc::make_mut).ok_or(ErrorKind::Closed)
    }

    fn read(&self, source: &Source) -> Result<Arc<Map>, ErrorKind> {
        let Some(id) = self.handles.get(&source.keyspace) else {
            return Err(ErrorKind::Closed);
        };
        match source.snapshot {
            None => self.live.get(id).cloned().ok_or(ErrorKind::Closed),
            Some(slot) => {
                // A script may name a missing snapshot. Both sides then return this error.
                let snapshot = self.snapshots.get(&slot).ok_or(ErrorKind::Cancelled)?;
                snapshot.get(id).cloned().ok_or(ErrorKind::InvalidArgument)
            }
        }
    }
}

impl Cursor {
    fn go(&mut self, to: &Move) -> Option<(Vec<u8>, Arc<[u8]>)> {
        let after = |key: Bound<&[u8]>| self.map.range::<[u8], _>((key, Bound::Unbounded)).next();
        let before = |key: Bound<&[u8]>| {
            self.map
                .range::<[u8], _>((Bound::Unbounded, key))
                .next_back()
        };
        let found = match to {
            Move::First => self.map.iter().next(),
            Move::Last => self.map.iter().next_back(),
            Move::Seek(key) => after(Bound::Included(&key.bytes())),
            Move::SeekForPrev(key) => before(Bound::Included(&key.bytes())),
            Move::Next => self.at.as_deref().and_then(|at| after(Bound::Excluded(at))),
            Move::Prev => self
                .at
                .as_deref()
                .and_then(|at| before(Bound::Excluded(at))),
        };
        let found = found.map(|(k, v)| (k.clone(), v.clone()));
        self.at = found.as_ref().map(|(key, _)| key.clone());
        found
    }
}

fn set(map: &mut Map, key: Vec<u8>, value: Option<Vec<u8>>) {
    match value {
        Some(value) => drop(map.insert(key, value.into())),
        None => drop(map.remove(&key)),
    }
}

fn scan(map: &Map, lower: &Bound<Vec<u8>>, upper: &Bound<Vec<u8>>, steps: &[Step]) -> String {
    let above = |key: &Vec<u8>| match lower {
        Bound::Unbounded => true,
        Bound::Included(lower) => key >= lower,
        Bound::Excluded(lower) => key > lower,
    };
    let below = |key: &Vec<u8>| match upper {
        Bound::Unbounded => true,
        Bound::Included(upper) => key <= upper,
        Bound::Excluded(upper) => key < upper,
    };
    let entries = map.iter().filter(|(key, _)| above(key) && below(key));
    let mut entries = entries.map(|(key, value)| Ok::<_, ErrorKind>((key.clone(), value.clone())));
    answer::scan(&mut entries, steps).unwrap_or_else(answer::error)
}

fn check_bound(key: &[u8]) -> Result<(), ErrorKind> {
    if key.len() <= KEY_BYTES_MAX {
        return Ok(());
    }
    Err(ErrorKind::InvalidArgument)
}

fn bound(bound: &Bound<Blob>) -> Result<Bound<Vec<u8>>, ErrorKind> {
    let bound = bound.as_ref().map(Blob::bytes);
    if let Bound::Included(key) | Bound::Excluded(key) = &bound {
        check_bound(key)?;
    }
    Ok(bound)
}
