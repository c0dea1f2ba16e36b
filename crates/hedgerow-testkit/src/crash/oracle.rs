//! The possible states of a database that is opened again: the commits made, the durable ones among
//! them, and the lives of the keyspaces.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::blob::show;
use crate::model::Map;
use crate::random::{hash, mix};

pub(super) const NAMES: [&str; 3] = ["a", "b", "c"];

pub(super) type Contents = BTreeMap<String, Map>;
/// A keyspace, a key, and its value if it has one.
pub(super) type Change = (String, Vec<u8>, Option<Arc<[u8]>>);

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
    pub(super) base: Option<Map>,
    /// The first commit after the base. Earlier ones are in the base or do not matter.
    pub(super) since: usize,
    /// The number of commits that were durable before the life began.
    pub(super) durable: usize,
}

impl Oracle {
    /// An oracle of these contents, all durable.
    pub(super) fn settled(contents: Contents) -> Oracle {
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
            base: exists.then(Map::new),
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
    pub(super) fn matching(&self, name: &str, found: Option<&Map>) -> BTreeSet<usize> {
        let mut matching = BTreeSet::new();
        for life in &self.keyspaces[name] {
            let mut map = match (&life.base, found) {
                (None, None) => {
                    matching.extend(life.durable..=self.commits.len());
                    continue;
                }
                (Some(base), Some(_)) => base.clone(),
                _ => continue,
            };
            let found = found.map_or(0, digest);
            let mut now = digest(&map);
            for count in 0..=self.commits.len() {
                let counted = count.checked_sub(1).filter(|i| *i >= life.since);
                for (keyspace, key, value) in counted.map_or(&[][..], |i| &self.commits[i]) {
                    if keyspace == name {
                        now ^= map.get(key).map_or(0, |old| entry_digest(key, old));
                        now ^= value.as_ref().map_or(0, |new| entry_digest(key, new));
                        set(&mut map, key, value.clone());
                    }
                }
                if now == found && count >= life.durable {
                    matching.insert(count);
                }
            }
        }
        matching
    }

    /// Checks that these contents are possible with at least `at_least` commits. Returns the number
    /// of commits.
    pub(super) fn check(&self, found: &Contents, at_least: usize) -> Result<usize, String> {
        let mut counts: BTreeSet<usize> = (at_least..=self.commits.len()).collect();
        let mut said = String::new();
        for name in NAMES {
            let matching = self.matching(name, found.get(name));
            said += &format!(
                "\n  `{name}` ({} keys) is as after these numbers of commits: {}",
                found.get(name).map_or("no".into(), |m| m.len().to_string()),
                ranges(&matching)
            );
            counts.retain(|count| matching.contains(count));
        }
        counts.last().copied().ok_or_else(|| {
            format!(
                "expected a prefix of at least {at_least} of {} commits ({} acknowledged, {} durable); found{said}{}",
                self.commits.len(),
                self.acknowledged,
                self.durable,
                self.difference(found)
            )
        })
    }

    /// Describes the difference between the contents found and all commits.
    pub(super) fn difference(&self, found: &Contents) -> String {
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

pub(super) fn set(map: &mut Map, key: &[u8], value: Option<Arc<[u8]>>) {
    match value {
        Some(value) => drop(map.insert(key.to_vec(), value)),
        None => drop(map.remove(key)),
    }
}

pub(super) fn entry_digest(key: &[u8], value: &[u8]) -> u64 {
    mix(hash(key) ^ hash(value).rotate_left(21))
}

pub(super) fn digest(map: &Map) -> u64 {
    map.iter().fold(0, |sum, (k, v)| sum ^ entry_digest(k, v))
}

pub(super) fn ranges(numbers: &BTreeSet<usize>) -> String {
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

pub(super) fn describe(commit: &[Change]) -> String {
    let one = |(name, key, value): &Change| match value {
        Some(value) => format!("{name} {} {}", show(key), show(value)),
        None => format!("{name} {} -", show(key)),
    };
    commit.iter().map(one).collect::<Vec<_>>().join(" ; ")
}
