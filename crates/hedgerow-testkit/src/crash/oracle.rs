//! The possible states of a database that is opened again: the commits made, the durable ones among
//! them, and the lives of the keyspaces.

use crate::blob::show;
use crate::model::Map;
use crate::random::{hash, mix};
use std::collections::{BTreeMap, BTreeSet};

use super::values::{Value, Values, seen};

pub(super) const NAMES: [&str; 3] = ["a", "b", "c"];

/// The entries of each keyspace that a reader sees.
pub(super) type Contents = BTreeMap<String, Map>;
/// The values of each keyspace.
pub(super) type AllValues = BTreeMap<String, Values>;
/// A keyspace, a key, and its value if it has one.
pub(super) type Change = (String, Vec<u8>, Option<Value>);

/// The possible states of a database that is opened again.
#[derive(Debug, Default)]
pub(super) struct Oracle {
    /// The commits in their order.
    pub(super) commits: Vec<Vec<Change>>,
    /// The number of commits known to be durable, and the number acknowledged.
    pub(super) durable: usize,
    pub(super) acknowledged: usize,
    /// The possible lives of each keyspace. There are several if the outcome of a change is
    /// unknown.
    pub(super) keyspaces: BTreeMap<String, Vec<Life>>,
}

/// A keyspace between two calls that empty it.
#[derive(Debug, Clone)]
pub(super) struct Life {
    /// `None` is no keyspace.
    pub(super) base: Option<Values>,
    /// The first commit after the base. Earlier ones are in the base or do not matter.
    pub(super) since: usize,
    /// The number of commits that were durable before the life began.
    pub(super) durable: usize,
}

impl Oracle {
    /// An oracle of these contents, all durable.
    pub(super) fn settled(contents: AllValues) -> Oracle {
        let mut oracle = Oracle::default();
        for name in NAMES {
            let base = contents.get(name).cloned();
            let life = Life {
                base,
                since: 0,
                durable: 0,
            };
            oracle.keyspaces.insert(name.to_owned(), vec![life]);
        }
        oracle
    }

    /// Adds a commit. One with an unknown outcome must be the last.
    pub(super) fn commit(&mut self, commit: Vec<Change>, made: bool) {
        self.commits.push(commit);
        if made {
            self.acknowledged = self.commits.len();
        }
    }

    pub(super) fn everything_is_durable(&mut self) {
        self.durable = self.acknowledged;
    }

    /// Records that a keyspace was made, or may have been.
    pub(super) fn create(&mut self, name: &str, made: bool) {
        self.begin(name, true, 0, made);
    }

    /// Records that a keyspace was emptied or dropped, or may have been. Both happen only after
    /// everything before is durable.
    pub(super) fn empty(&mut self, name: &str, exists: bool, made: bool) {
        self.begin(name, exists, self.acknowledged, made);
        if made {
            self.everything_is_durable();
        }
    }

    fn begin(&mut self, name: &str, exists: bool, durable: usize, made: bool) {
        let life = Life {
            base: exists.then(Values::new),
            since: self.commits.len(),
            durable,
        };
        let lives = self.keyspaces.entry(name.to_owned()).or_default();
        if made {
            lives.clear();
        }
        lives.push(life);
    }

    /// The numbers of commits whose contents match those found, in any possible life.
    fn matching(&self, name: &str, found: Option<&Map>, hour: u64) -> BTreeSet<usize> {
        let mut matching = BTreeSet::new();
        for life in &self.keyspaces[name] {
            let counts = life.durable..=self.commits.len();
            match (&life.base, found) {
                (None, None) => matching.extend(counts),
                (Some(base), Some(found)) => {
                    let add = |count, _: &Values| matching.extend([count]);
                    self.replay(name, life, base, (digest(found), hour), add);
                }
                _ => {}
            }
        }
        matching
    }

    /// Calls `see` with the values after each number of commits whose digest is that of what was
    /// found.
    fn replay(
        &self,
        name: &str,
        life: &Life,
        base: &Values,
        (found, hour): (u64, u64),
        mut see: impl FnMut(usize, &Values),
    ) {
        let mut map = base.clone();
        let digest_of = |key: &[u8], value: Option<&Value>| {
            let bytes = value.and_then(|value| value.at(hour));
            bytes.map_or(0, |bytes| entry_digest(key, bytes))
        };
        let mut now = digest(&seen(Some(&map), hour));
        for count in 0..=self.commits.len() {
            let counted = count.checked_sub(1).filter(|i| *i >= life.since);
            for (keyspace, key, value) in counted.map_or(&[][..], |i| &self.commits[i]) {
                if keyspace == name {
                    now ^= digest_of(key, map.get(key)) ^ digest_of(key, value.as_ref());
                    set(&mut map, key, value.clone());
                }
            }
            if now == found && count >= life.durable {
                see(count, &map);
            }
        }
    }

    /// The values after a number of commits, at which everything is as found.
    pub(super) fn after(&self, commits: usize, found: &Contents, hour: u64) -> AllValues {
        let mut all = AllValues::new();
        for (name, contents) in found {
            let digest = digest(contents);
            for life in &self.keyspaces[name] {
                let Some(base) = &life.base else { continue };
                let see = |count, values: &Values| {
                    if count == commits {
                        all.insert(name.clone(), values.clone());
                    }
                };
                self.replay(name, life, base, (digest, hour), see);
            }
        }
        all
    }

    /// Checks that these contents are possible at an hour with at least `at_least` commits. Returns
    /// the possible numbers of commits: at least one.
    pub(super) fn check(
        &self,
        found: &Contents,
        at_least: usize,
        hour: u64,
    ) -> Result<BTreeSet<usize>, String> {
        let mut counts: BTreeSet<usize> = (at_least..=self.commits.len()).collect();
        let mut said = String::new();
        for name in NAMES {
            let matching = self.matching(name, found.get(name), hour);
            said += &format!(
                "\n  `{name}` ({} keys) is as after these numbers of commits: {}",
                found.get(name).map_or("no".into(), |m| m.len().to_string()),
                ranges(&matching)
            );
            counts.retain(|count| matching.contains(count));
        }
        if counts.is_empty() {
            return Err(format!(
                "expected a prefix of at least {at_least} of {} commits ({} acknowledged, {} durable); found{said}{}",
                self.commits.len(),
                self.acknowledged,
                self.durable,
                self.difference(found, hour)
            ));
        }
        Ok(counts)
    }

    /// Describes the difference between the contents found and all commits.
    fn difference(&self, found: &Contents, hour: u64) -> String {
        let mut text = String::new();
        for name in NAMES {
            let Some(Life {
                base: Some(base),
                since,
                ..
            }) = self.keyspaces[name].last()
            else {
                continue;
            };
            let mut map = base.clone();
            for (keyspace, key, value) in self.commits[*since..].iter().flatten() {
                if keyspace == name {
                    set(&mut map, key, value.clone());
                }
            }
            let map = seen(Some(&map), hour);
            let empty = Map::new();
            let found = found.get(name).unwrap_or(&empty);
            let keys: BTreeSet<_> = map.keys().chain(found.keys()).collect();
            let differing = keys.into_iter().filter(|k| map.get(*k) != found.get(*k));
            for key in differing.take(5) {
                let of = |map: &Map| map.get(key).map_or("none".into(), |v| show(v));
                let touching = self.commits.iter().enumerate().filter(|(_, commit)| {
                    commit
                        .iter()
                        .any(|(k, written, _)| k == name && written == key)
                });
                let last: Vec<_> = touching.map(|(i, _)| i + 1).collect();
                text += &format!(
                    "\n  after all commits `{name}` {} would be {}, found {}; written by commits {last:?}",
                    show(key),
                    of(&map),
                    of(found),
                );
            }
        }
        text
    }
}

pub(super) fn set(map: &mut Values, key: &[u8], value: Option<Value>) {
    match value {
        Some(value) => drop(map.insert(key.to_vec(), value)),
        None => drop(map.remove(key)),
    }
}

fn entry_digest(key: &[u8], value: &[u8]) -> u64 {
    mix(hash(key) ^ hash(value).rotate_left(21))
}

fn digest(map: &Map) -> u64 {
    map.iter().fold(0, |sum, (k, v)| sum ^ entry_digest(k, v))
}

fn ranges(numbers: &BTreeSet<usize>) -> String {
    let mut parts: Vec<(usize, usize)> = Vec::new();
    for &n in numbers {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == n => *last = n,
            _ => parts.push((n, n)),
        }
    }
    let part = |(first, last): &(usize, usize)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    match parts.is_empty() {
        true => "none".into(),
        false => parts.iter().map(part).collect::<Vec<_>>().join(", "),
    }
}
