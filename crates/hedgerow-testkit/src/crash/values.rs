//! Values that expire and operands in a run: what each write makes of a value, now and when the
//! value under its operands has expired.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hedgerow::io::{Clock, WallTime};
use hedgerow::{Batch, Db, Durability, Expiry, IndexedBatch, Keyspace, Result};

use super::oracle::{Change, Contents};
use super::{Harness, Round};
use crate::blob::show;
use crate::model::Map;
use crate::operator;

const HOUR: Duration = Duration::from_secs(3600);

/// The bytes of a value; `None` if operands have deleted it.
type Bytes = Option<Arc<[u8]>>;

/// The values of a keyspace.
pub(super) type Values = BTreeMap<Vec<u8>, Value>;

/// The value of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Value {
    now: Bytes,
    /// The hour when the put under its operands expires, and what these are without it.
    later: Option<(u64, Bytes)>,
}

impl Value {
    /// The value after a put that expires at an hour, or never.
    pub(super) fn put(bytes: Arc<[u8]>, expires: Option<u64>) -> Value {
        Value {
            now: Some(bytes),
            later: expires.map(|at| (at, None)),
        }
    }

    /// The value after an operand.
    fn merge(old: Option<&Value>, key: &[u8], operand: &[u8]) -> Option<Value> {
        let merged = |old: &Bytes| {
            let new = operator::apply(key, old.as_deref(), operand);
            new.map(Arc::<[u8]>::from)
        };
        let now = merged(&old.and_then(|it| it.now.clone()));
        let later = old.and_then(|it| it.later.as_ref());
        let later = later.map(|(at, rest)| (*at, merged(rest)));
        // Under operands that delete it, a value still says when it expires.
        let is_there = now.is_some() || later.is_some();
        is_there.then_some(Value { now, later })
    }

    /// The bytes at an hour.
    pub(super) fn at(&self, hour: u64) -> Option<&Arc<[u8]>> {
        match &self.later {
            Some((at, rest)) if *at <= hour => rest.as_ref(),
            _ => self.now.as_ref(),
        }
    }

    /// The hour when it expires.
    pub(super) fn expires(&self) -> Option<u64> {
        self.later.as_ref().map(|it| it.0)
    }

    /// The value from an hour on.
    fn from(&self, hour: u64) -> Option<Value> {
        match &self.later {
            Some((at, rest)) if *at <= hour => {
                let now = rest.clone()?;
                Some(Value {
                    now: Some(now),
                    later: None,
                })
            }
            _ => Some(self.clone()),
        }
    }
}

/// The values that a reader sees at an hour.
pub(super) fn seen(values: Option<&Values>, hour: u64) -> Map {
    let all = values.into_iter().flatten();
    let seen = all.filter_map(|(key, value)| Some((key.clone(), value.at(hour)?.clone())));
    seen.collect()
}

/// A write of a run.
#[derive(Debug, Clone)]
pub(super) enum Op {
    Put(Arc<[u8]>),
    /// A put that expires in some hours.
    Expiring(Arc<[u8]>, u64),
    Merge(Vec<u8>),
    Delete,
}

impl Op {
    fn text(&self) -> String {
        match self {
            Op::Put(value) => show(value),
            Op::Expiring(value, hours) => format!("{} for {hours} h", show(value)),
            Op::Merge(operand) => format!("merge {}", show(operand)),
            Op::Delete => "-".to_owned(),
        }
    }

    /// Makes the write by itself.
    pub(super) fn make(
        &self,
        keyspace: &Keyspace,
        key: &[u8],
        durability: Durability,
        is_async: bool,
    ) -> Result<()> {
        let pending = match self {
            Op::Put(value) if is_async => keyspace.put_async_with(key, value, durability),
            Op::Put(value) => return keyspace.put_with(key, value, durability),
            Op::Expiring(value, hours) if is_async => {
                keyspace.put_expiring_async(key, value, within(*hours), durability)
            }
            Op::Expiring(value, hours) => {
                return keyspace.put_expiring_with(key, value, within(*hours), durability);
            }
            Op::Merge(operand) if is_async => keyspace.merge_async(key, operand, durability),
            Op::Merge(operand) => return keyspace.merge_with(key, operand, durability),
            Op::Delete if is_async => keyspace.delete_async_with(key, durability),
            Op::Delete => return keyspace.delete_with(key, durability),
        };
        pending.wait()
    }

    pub(super) fn add(&self, batch: &mut Batch, keyspace: &Keyspace, key: &[u8]) -> Result<()> {
        match self {
            Op::Put(value) => batch.put(keyspace, key, value),
            Op::Expiring(value, hours) => batch.put_expiring(keyspace, key, value, within(*hours)),
            Op::Merge(operand) => batch.merge(keyspace, key, operand),
            Op::Delete => batch.delete(keyspace, key),
        }
        .map(drop)
    }

    pub(super) fn add_indexed(
        &self,
        batch: &mut IndexedBatch,
        keyspace: &Keyspace,
        key: &[u8],
    ) -> Result<()> {
        match self {
            Op::Put(value) => batch.put(keyspace, key, value),
            Op::Expiring(value, hours) => batch.put_expiring(keyspace, key, value, within(*hours)),
            Op::Merge(operand) => batch.merge(keyspace, key, operand),
            Op::Delete => batch.delete(keyspace, key),
        }
        .map(drop)
    }
}

/// The text of the writes of a commit.
pub(super) fn describe(writes: &[(&str, Vec<u8>, Op)]) -> String {
    let one = |(name, key, op): &(&str, Vec<u8>, Op)| format!("{name} {} {}", show(key), op.text());
    writes.iter().map(one).collect::<Vec<_>>().join(" ; ")
}

/// An expiry in some hours.
pub(super) fn within(hours: u64) -> Expiry {
    Expiry::In(HOUR * hours as u32)
}

impl Harness {
    /// Draws a write: mostly a put.
    pub(super) fn op(&mut self, puts: bool) -> Op {
        match self.random.below(16) {
            _ if !puts => Op::Delete,
            0 | 1 => Op::Delete,
            2 | 3 => Op::Expiring(self.value(), self.random.range(1, 8)),
            4..=6 => Op::Merge(self.operand()),
            _ => Op::Put(self.value()),
        }
    }

    /// Draws an operand that shows, or deletes.
    fn operand(&mut self) -> Vec<u8> {
        self.written += 1;
        let written = self.written;
        match self.random.below(12) {
            0 => b"!".to_vec(),
            1 => format!("!{written}").into_bytes(),
            _ => format!(".{written}").into_bytes(),
        }
    }

    /// The change that a write makes behind others of its commit.
    pub(super) fn change(&self, commit: &[Change], name: &str, key: &[u8], op: &Op) -> Change {
        let earlier = commit.iter().rev().find(|it| it.0 == name && it.1 == key);
        let old = match earlier {
            Some((_, _, value)) => value.as_ref(),
            None => self.live.get(name).and_then(|map| map.get(key)),
        };
        let value = match op {
            Op::Put(value) => Some(self.put_value(name, value.clone())),
            Op::Expiring(value, hours) => Some(Value::put(value.clone(), Some(self.hour + hours))),
            Op::Merge(operand) => Value::merge(old, key, operand),
            Op::Delete => None,
        };
        (name.to_owned(), key.to_vec(), value)
    }

    /// The value after a put by the time to live of a keyspace.
    pub(super) fn put_value(&self, name: &str, bytes: Arc<[u8]>) -> Value {
        let hours = self.time_to_live.get(name).and_then(|it| it.last());
        let hours = hours.copied().unwrap_or(0);
        Value::put(bytes, (hours > 0).then(|| self.hour + hours))
    }

    /// Lets hours pass.
    pub(super) fn pass(&mut self) {
        let hours = self.random.range(1, 4);
        self.hour += hours;
        self.clock.advance(HOUR * hours as u32);
        self.note(format!("{hours} hours pass"));
        self.forget_expired();
    }

    /// Leaves out what has expired of the values.
    pub(super) fn forget_expired(&mut self) {
        for map in self.live.values_mut() {
            let all = std::mem::take(map).into_iter();
            let left = all.filter_map(|(key, value)| Some((key, value.from(self.hour)?)));
            *map = left.collect();
        }
    }

    /// Notes the keys without a value that may have other operands than the model knows. A power
    /// cut may have kept the delete of a value that operands had deleted before, or not: nobody
    /// sees that until another operand has a value that expires, or does not.
    pub(super) fn note_hidden_differences<'a>(
        &mut self,
        counts: impl Iterator<Item = &'a usize>,
        found: &Contents,
    ) {
        for count in counts {
            for (name, values) in self.oracle.after(*count, found, self.hour) {
                let known = self.live.get(&name);
                for key in values
                    .keys()
                    .chain(known.into_iter().flat_map(|it| it.keys()))
                {
                    let value = known.and_then(|it| it.get(key));
                    let is_hidden = value.and_then(|it| it.at(self.hour)).is_none();
                    if is_hidden && value != values.get(key) {
                        self.unsure.insert((name.clone(), key.clone()));
                    }
                }
            }
        }
    }

    /// Checks that each value expires when it should.
    pub(super) fn check_expiry(&self, db: &Db) -> std::result::Result<(), String> {
        for (name, values) in &self.live {
            let keyspace = db.existing_keyspace(name).ok_or("a keyspace is gone")?;
            for (key, value) in values {
                let expiry = keyspace.expiry(key);
                let expiry = expiry.map_err(|e| format!("expected an expiry, found {e}"))?;
                let hour = match expiry {
                    Some(Expiry::At(at)) => at.duration_since(self.first_hour()).ok(),
                    _ => None,
                };
                let hour = hour.map(|it| it.as_secs() / 3600);
                let is_known = !self.unsure.contains(&(name.clone(), key.clone()));
                if is_known && value.at(self.hour).is_some() && hour != value.expires() {
                    return Err(format!(
                        "{name} {}: expected to expire at hour {:?}, found {expiry:?}",
                        show(key),
                        value.expires()
                    ));
                }
            }
        }
        Ok(())
    }

    /// The time of the system's clock at the first hour.
    fn first_hour(&self) -> WallTime {
        let now = Duration::from_millis(self.clock.unix_millis());
        WallTime::UNIX_EPOCH + now - self.clock.now()
    }

    /// Changes the time to live of a keyspace.
    pub(super) fn set_time_to_live(
        &mut self,
        round: &mut Round,
    ) -> std::result::Result<(), String> {
        let Some((name, keyspace)) = self.keyspace(round) else {
            return Ok(());
        };
        let hours = self.random.below(6);
        let result = keyspace.set_time_to_live((hours > 0).then(|| HOUR * hours as u32));
        let may_have = self.time_to_live.get(name);
        let before = may_have.and_then(|it| it.last()).copied().unwrap_or(0);
        let ended = self.ended(round, &format!("time to live {name} {hours}"), result)?;
        let now = match ended {
            super::Ended::Done => vec![hours],
            super::Ended::NotDone => return Ok(()),
            super::Ended::Unknown => vec![before, hours],
        };
        self.time_to_live.insert(name.to_owned(), now);
        Ok(())
    }

    /// Checks that a keyspace has one of its possible times to live. From then on that is its only
    /// one.
    pub(super) fn check_time_to_live(
        &mut self,
        name: &str,
        keyspace: &Keyspace,
    ) -> std::result::Result<(), String> {
        let found = keyspace.time_to_live().map_or(0, |it| it.as_secs() / 3600);
        let may_have = self.time_to_live.entry(name.to_owned());
        let may_have = may_have.or_insert_with(|| vec![0]);
        if !may_have.contains(&found) {
            return Err(format!(
                "`{name}`: expected a time to live of one of {may_have:?} hours, found {found}"
            ));
        }
        *may_have = vec![found];
        Ok(())
    }
}
