//! The steps of a round that write.

use hedgerow::{Durability, KeyOrder};

use super::oracle::Change;
use super::values::{Op, Value, Values, describe, seen};
use super::{Ended, Harness, Round, Trouble};
use crate::blob::show;
use crate::metamorphic::{any_design, designs};
use crate::setup::suited;

impl Harness {
    pub(super) fn write(
        &mut self,
        round: &mut Round,
        count: u64,
        puts: bool,
    ) -> Result<(), String> {
        let synced = self.random.one_in(12);
        let mut batch = round.db.batch();
        let mut commit: Vec<Change> = Vec::new();
        let mut writes: Vec<(&str, Vec<u8>, Op)> = Vec::new();
        for _ in 0..count {
            let Some((name, keyspace)) = self.keyspace(round) else {
                continue;
            };
            let (key, op) = (self.key(), self.op(puts));
            let added = op.add(&mut batch, &keyspace, &key);
            added.map_err(|e| format!("expected to add to a batch, found {e}"))?;
            commit.push(self.change(&commit, name, &key, &op));
            writes.push((name, key, op));
        }
        let durability = match synced {
            true => Durability::Synced,
            false => Durability::Buffered,
        };
        let what = format!(
            "{}write{} {}",
            self.oracle.commits.len() + 1,
            if synced { " sync" } else { "" },
            describe(&writes)
        );
        let single = match &writes[..] {
            [(name, key, op)] => round.db.existing_keyspace(name).map(|k| (k, key, op)),
            _ => None,
        };
        let result = match single {
            Some((keyspace, key, op)) => {
                op.make(&keyspace, key, durability, self.setup.workers.is_some())
            }
            None => self.commit(round, batch, &writes, durability),
        };
        let ended = self.ended(round, &what, result)?;
        self.conclude(ended, commit, synced);
        Ok(())
    }

    pub(super) fn update(&mut self, round: &mut Round) -> Result<(), String> {
        let Some((name, keyspace)) = self.keyspace(round) else {
            return Ok(());
        };
        let key = self.key();
        let more = self.value();
        let mut seen = None;
        let result = keyspace.update(&key, |old| {
            seen = Some(old.map(<[u8]>::to_vec));
            match old {
                Some(old) if old.len() > 500 => None,
                Some(old) => Some([old, &more].concat()),
                None => Some(more.to_vec()),
            }
        });
        let old = self.live.get(name).and_then(|map| map.get(&key));
        let expected = old.and_then(|old| old.at(self.hour));
        if let Some(seen) = &seen
            && seen.as_deref() != expected.map(|v| &**v)
            && !round.poisoned
        {
            return Err(format!("update of {name} {} saw {seen:?}", show(&key)));
        }
        let new = match expected {
            Some(bytes) if bytes.len() > 500 => None,
            // It keeps its expiry.
            Some(bytes) => {
                let bytes = [&**bytes, &more].concat().into();
                Some(Value::put(bytes, old.and_then(Value::expires)))
            }
            None => Some(self.put_value(name, more)),
        };
        let what = format!(
            "{} update {name} {}",
            self.oracle.commits.len() + 1,
            show(&key)
        );
        let commit = vec![(name.to_owned(), key, new)];
        let ended = self.ended(round, &what, result.map(drop))?;
        self.conclude(ended, commit, false);
        Ok(())
    }

    /// Takes the first or the last entry of a sorted keyspace.
    pub(super) fn pop(&mut self, round: &mut Round) -> Result<(), String> {
        let Some((name, keyspace)) = self.keyspace(round) else {
            return Ok(());
        };
        let last = self.random.one_in(3);
        let map = seen(self.live.get(name), self.hour);
        if map.is_empty() || self.setup.order != KeyOrder::Sorted {
            return Ok(());
        }
        let expected = match last {
            true => map.last_key_value(),
            false => map.first_key_value(),
        };
        let expected = expected.map(|(key, value)| (key.clone(), value.clone()));
        let result = match last {
            true => keyspace.pop_last(),
            false => keyspace.pop_first(),
        };
        if let Ok(found) = &result
            && !round.poisoned
            && found.as_ref().map(|(k, v)| (&**k, &**v))
                != expected.as_ref().map(|(k, v)| (&**k, &**v))
        {
            return Err(format!("pop of {name} found {found:?}"));
        }
        let what = format!("{} pop {name}", self.oracle.commits.len() + 1);
        let gone = expected.map(|(key, _)| (name.to_owned(), key, None));
        let ended = self.ended(round, &what, result.map(drop))?;
        self.conclude(ended, gone.into_iter().collect(), false);
        Ok(())
    }

    /// Copies the entries of a keyspace into another one, then clears it.
    pub(super) fn move_all(&mut self, round: &mut Round) -> Result<(), String> {
        let (Some((from, _)), Some((to, target))) = (self.keyspace(round), self.keyspace(round))
        else {
            return Ok(());
        };
        if from == to || round.trouble == Trouble::NoMerges {
            return Ok(());
        }
        let mut batch = round.db.batch();
        let mut commit: Vec<Change> = Vec::new();
        for (key, value) in seen(self.live.get(from), self.hour) {
            let op = Op::Put(value);
            let added = op.add(&mut batch, &target, &key);
            added.map_err(|e| format!("expected to add to a batch, found {e}"))?;
            commit.push(self.change(&[], to, &key, &op));
        }
        if commit.is_empty() {
            return Ok(());
        }
        let what = format!("{} move {from} to {to}", self.oracle.commits.len() + 1);
        let result = batch.commit(Durability::Buffered);
        let ended = self.ended(round, &what, result)?;
        let is_done = matches!(ended, Ended::Done);
        self.conclude(ended, commit, false);
        match is_done {
            true => self.empty(round, from),
            false => Ok(()),
        }
    }

    pub(super) fn empty(&mut self, round: &mut Round, name: &'static str) -> Result<(), String> {
        let (result, exists, what) = match round.db.existing_keyspace(name) {
            None => {
                let (layout, design) = (self.setup.layout(), self.setup.design.clone());
                let made = round.db.keyspace_with(name, layout, design);
                (made.map(drop), true, "create")
            }
            Some(keyspace) if self.random.one_in(2) => (keyspace.clear(), true, "clear"),
            Some(_) => (round.db.drop_keyspace(name), false, "drop"),
        };
        match self.ended(round, &format!("{what} {name}"), result)? {
            Ended::Done => {
                match what {
                    "create" => self.oracle.create(name, true),
                    _ => self.oracle.empty(name, exists, true),
                }
                match exists {
                    true => drop(self.live.insert(name.to_owned(), Values::new())),
                    false => drop(self.live.remove(name)),
                }
                if what != "clear" {
                    self.time_to_live.remove(name);
                    self.designs.set(name, vec![self.setup.design.clone()]);
                }
            }
            Ended::NotDone => {}
            Ended::Unknown if what == "create" => {
                self.time_to_live.remove(name);
                self.oracle.create(name, false);
                self.designs.add(name, self.setup.design.clone());
            }
            Ended::Unknown => self.oracle.empty(name, exists, false),
        }
        Ok(())
    }

    pub(super) fn retune(&mut self, round: &mut Round) -> Result<(), String> {
        let Some((name, keyspace)) = self.keyspace(round) else {
            return Ok(());
        };
        let design = match self.random.one_in(2) {
            true => any_design(&mut self.random),
            false => self.random.pick(&designs()).1.clone(),
        };
        let design = suited(design, self.setup.order);
        let result = keyspace.retune(design.clone());
        let may_have = match self.ended(round, &format!("retune {name}"), result)? {
            Ended::Done => vec![design],
            Ended::NotDone => return Ok(()),
            Ended::Unknown => vec![keyspace.design(), design],
        };
        self.designs.set(name, may_have);
        self.hear();
        self.designs.check(name, &keyspace.design())
    }
}
