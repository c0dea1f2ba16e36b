//! Small histories of transactions and other writes, and the search for a serial order of them.
//!
//! A history is what some actors did at the same time: transactions with what they read and wrote,
//! and writes outside of transactions. It is serializable if the committed ones have an order in
//! which each, run alone, reads what it has read, and that ends with the contents found. An actor
//! that ended before another began must come first.
//!
//! Every kind of operation is a [`Step`]. [`Step::run`] says what it does to the contents and
//! whether it reads what it has read. Time is no part of the order: each actor judges by its own
//! time if a value has expired.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;

use crate::operator;

/// A keyspace and a key.
pub type Place = (u8, Vec<u8>);

/// The values of all keyspaces that a reader sees.
pub type Contents = BTreeMap<Place, Vec<u8>>;

/// The state of all keyspaces.
pub type State = BTreeMap<Place, Stored>;

/// A range of keys of a keyspace: from, inclusive, up to, exclusive.
pub type Range = (Vec<u8>, Vec<u8>);

/// A key with its value.
pub type Entry = (Vec<u8>, Vec<u8>);

/// The stored state of a key: a value, and the operands merged into it since.
#[derive(Debug, Clone, Default)]
pub struct Stored {
    value: Option<Vec<u8>>,
    /// The time from which on the value is gone.
    expires: Option<u64>,
    operands: Vec<Vec<u8>>,
}

impl Stored {
    fn new(value: &Option<Vec<u8>>, expires: Option<u64>) -> Stored {
        Stored {
            value: value.clone(),
            expires,
            operands: Vec::new(),
        }
    }

    /// The value at a time.
    fn at(&self, key: &[u8], time: u64) -> Option<Vec<u8>> {
        let is_there = self.expires.is_none_or(|at| at > time);
        let value = self.value.clone().filter(|_| is_there);
        let fold =
            |value: Option<Vec<u8>>, more: &Vec<u8>| operator::apply(key, value.as_deref(), more);
        self.operands.iter().fold(value, fold)
    }
}

/// The state that has just these values, which do not expire.
#[must_use]
pub fn stored(contents: &Contents) -> State {
    let one = |(place, value): (&Place, &Vec<u8>)| {
        (place.clone(), Stored::new(&Some(value.clone()), None))
    };
    contents.iter().map(one).collect()
}

/// The values of a state at a time.
fn contents(state: &State, time: u64) -> Contents {
    let value = |(place, it): (&Place, &Stored)| Some((place.clone(), it.at(&place.1, time)?));
    state.iter().filter_map(value).collect()
}

/// An operation, with what it has read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// A get.
    Get(u8, Vec<u8>, Option<Vec<u8>>),
    /// A scan of at most some entries, from the front or from the back.
    Scan {
        /// The keyspace.
        keyspace: u8,
        /// The keys.
        range: Range,
        /// True if it reads from the back.
        backward: bool,
        /// The most entries that it reads.
        limit: usize,
        /// The entries found.
        found: Vec<Entry>,
    },
    /// A put, or a delete.
    Put(u8, Vec<u8>, Option<Vec<u8>>),
    /// A put of a value that expires at a time.
    PutExpiring(u8, Vec<u8>, Vec<u8>, u64),
    /// An operand of [`operator::Notes`].
    Merge(u8, Vec<u8>, Vec<u8>),
    /// An update: the value before and the one after, which expires when that before does.
    Update(u8, Vec<u8>, Option<Vec<u8>>, Vec<u8>),
    /// A range delete.
    DeleteRange(u8, Range),
    /// A clear.
    Clear(u8),
}

impl Step {
    /// Makes the step's writes at a time. Returns false if it would have read something else.
    #[must_use]
    pub fn run(&self, state: &mut State, time: u64) -> bool {
        let read = |state: &State, place: &Place| state.get(place)?.at(&place.1, time);
        match self {
            Step::Get(keyspace, key, found) => {
                return read(state, &(*keyspace, key.clone())) == *found;
            }
            Step::Scan {
                keyspace,
                range: (from, to),
                backward,
                limit,
                found,
            } => {
                let bounds = (*keyspace, from.clone())..(*keyspace, to.clone());
                let inside = state.range(bounds);
                let mut inside =
                    inside.filter_map(|((_, key), it)| Some((key.clone(), it.at(key, time)?)));
                let mut left = *limit;
                let mut next = || {
                    left = left.checked_sub(1)?;
                    if *backward {
                        inside.next_back()
                    } else {
                        inside.next()
                    }
                };
                return found.iter().all(|it| next().as_ref() == Some(it)) && next().is_none();
            }
            Step::Put(keyspace, key, value) => {
                state.insert((*keyspace, key.clone()), Stored::new(value, None));
            }
            Step::PutExpiring(keyspace, key, value, at) => {
                let value = Stored::new(&Some(value.clone()), Some(*at));
                state.insert((*keyspace, key.clone()), value);
            }
            Step::Merge(keyspace, key, operand) => {
                let stored = state.entry((*keyspace, key.clone())).or_default();
                stored.operands.push(operand.clone());
            }
            Step::Update(keyspace, key, old, new) => {
                let place = (*keyspace, key.clone());
                if read(state, &place) != *old {
                    return false;
                }
                let stored = state.entry(place).or_default();
                let expires = stored.expires.filter(|at| old.is_some() && *at > time);
                *stored = Stored::new(&Some(new.clone()), expires);
            }
            Step::DeleteRange(keyspace, (from, to)) => {
                state.retain(|(of, key), _| of != keyspace || key < from || key >= to);
            }
            Step::Clear(keyspace) => state.retain(|(of, _), _| of != keyspace),
        }
        true
    }
}

/// The steps of an actor that has committed.
#[derive(Debug, Clone)]
pub struct Actor {
    /// The moments when it began and ended.
    pub began: usize,
    /// See above.
    pub ended: usize,
    /// The times by which it may have judged what has expired.
    pub times: RangeInclusive<u64>,
    /// The operations, in their order.
    pub steps: Vec<Step>,
}

/// The actors of a moment, with the contents before and after.
#[derive(Debug, Clone, Default)]
pub struct History {
    /// The state before.
    pub before: State,
    /// Those who have committed.
    pub actors: Vec<Actor>,
    /// The contents after all.
    pub after: Contents,
    /// The time after all.
    pub time: u64,
}

impl History {
    /// An order of the actors that explains everything; `None` if there is none.
    #[must_use]
    pub fn serial_order(&self) -> Option<Vec<usize>> {
        let mut order = Vec::new();
        self.search(&self.before, &mut order).then_some(order)
    }

    fn search(&self, state: &State, order: &mut Vec<usize>) -> bool {
        if order.len() == self.actors.len() {
            return contents(state, self.time) == self.after;
        }
        for (i, actor) in self.actors.iter().enumerate() {
            let is_left = |i: &usize| !order.contains(i);
            let mut left = (0..self.actors.len()).filter(is_left);
            if order.contains(&i) || left.any(|other| self.actors[other].ended < actor.began) {
                continue;
            }
            order.push(i);
            for time in actor.times.clone() {
                let mut next = state.clone();
                let mut steps = actor.steps.iter();
                if steps.all(|step| step.run(&mut next, time)) && self.search(&next, order) {
                    return true;
                }
            }
            order.pop();
        }
        false
    }
}

impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "before: {:?}", self.before)?;
        for actor in &self.actors {
            let Actor {
                began,
                ended,
                times,
                ..
            } = actor;
            writeln!(f, "from {began} to {ended}, at {times:?}:")?;
            for step in &actor.steps {
                writeln!(f, "  {step:?}")?;
            }
        }
        write!(f, "after, at {}: {}", self.time, text(&self.after))
    }
}

fn text(contents: &Contents) -> String {
    let one = |((keyspace, key), value): (&Place, &Vec<u8>)| {
        format!("{keyspace}/{}={}", key.escape_ascii(), value.escape_ascii())
    };
    contents.iter().map(one).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests;
