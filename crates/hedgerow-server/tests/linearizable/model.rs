//! The keys of a history in memory.

use std::collections::{BTreeMap, BTreeSet};

use super::super::client::{Value, bulk, int};
use super::record::Call;

/// The contents of the keys.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct Model {
    strings: BTreeMap<String, i64>,
    sets: BTreeMap<String, BTreeSet<String>>,
    lists: BTreeMap<String, Vec<String>>,
}

impl Model {
    /// The reply that the server would give; `None` if the client would wait.
    pub(super) fn call(&mut self, call: &Call) -> Option<Value> {
        match call {
            Call::Single(words) => self.single(words),
            Call::Transaction(calls) => {
                let replies = calls.iter().map(|words| self.single(words));
                replies.collect::<Option<_>>().map(Value::Array)
            }
        }
    }

    fn single(&mut self, words: &[String]) -> Option<Value> {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        Some(match words[..] {
            ["INCR", key] => {
                let number = self.strings.entry(key.to_owned()).or_default();
                *number += 1;
                int(*number)
            }
            ["GET", key] => self.string(key),
            ["DEL", key] => int(i64::from(self.strings.remove(key).is_some())),
            ["MSET", one, a, other, b] => {
                self.strings.insert(one.to_owned(), a.parse().unwrap());
                self.strings.insert(other.to_owned(), b.parse().unwrap());
                Value::status("OK")
            }
            ["MGET", one, other] => Value::Array(vec![self.string(one), self.string(other)]),
            ["SADD", key, member] => {
                let set = self.sets.entry(key.to_owned()).or_default();
                int(i64::from(set.insert(member.to_owned())))
            }
            ["SMOVE", from, to, member] => {
                let moved = self.sets.entry(from.to_owned()).or_default().remove(member);
                if moved {
                    let to = self.sets.entry(to.to_owned()).or_default();
                    to.insert(member.to_owned());
                }
                int(i64::from(moved))
            }
            ["SCARD", key] => int(self.sets.get(key).map_or(0, BTreeSet::len) as i64),
            ["RPUSH", key, ref values @ ..] => {
                let list = self.lists.entry(key.to_owned()).or_default();
                list.extend(values.iter().map(|it| (*it).to_owned()));
                int(list.len() as i64)
            }
            ["LPUSH", key, value] => {
                let list = self.lists.entry(key.to_owned()).or_default();
                list.insert(0, value.to_owned());
                int(list.len() as i64)
            }
            ["LPOP", key] => self.pop(key).map_or(Value::Null, Value::Bulk),
            ["LLEN", key] => int(self.lists.get(key).map_or(0, Vec::len) as i64),
            ["BLPOP", one, other, "0"] => {
                let found = [one, other]
                    .into_iter()
                    .find_map(|key| Some((key, self.pop(key)?)));
                let (key, value) = found?;
                Value::bulks([key.to_owned(), value])
            }
            _ => panic!("expected a call that the model knows, found {words:?}"),
        })
    }

    fn string(&self, key: &str) -> Value {
        let value = self.strings.get(key);
        value.map_or(Value::Null, |it| bulk(&it.to_string()))
    }

    fn pop(&mut self, key: &str) -> Option<String> {
        let list = self.lists.get_mut(key).filter(|it| !it.is_empty())?;
        Some(list.remove(0))
    }
}
