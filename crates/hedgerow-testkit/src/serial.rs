//! Small histories of transactions and other writes, and the search for a serial order of them.
//!
//! A history is what some actors did at the same time: transactions with what they read and wrote,
//! and writes outside of transactions. It is serializable if the committed ones have an order in
//! which each, run alone, reads what it has read, and that ends with the contents found. An actor
//! that ended before another began must come first.
//!
//! Every kind of operation is a [`Step`]. [`Step::run`] says what it does to the contents and
//! whether it reads what it has read; merges and expiry are two more kinds there.

use std::collections::BTreeMap;
use std::fmt;

/// The contents of all keyspaces, by keyspace and key.
pub type State = BTreeMap<(u8, Vec<u8>), Vec<u8>>;

/// A range of keys of a keyspace: from, inclusive, up to, exclusive.
pub type Range = (Vec<u8>, Vec<u8>);

/// A key with its value.
pub type Entry = (Vec<u8>, Vec<u8>);

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
    /// A range delete.
    DeleteRange(u8, Range),
    /// A bulk load.
    Load(u8, Vec<Entry>),
    /// A clear.
    Clear(u8),
}

impl Step {
    /// Makes the step's writes. Returns false if it would have read something else.
    #[must_use]
    pub fn run(&self, state: &mut State) -> bool {
        match self {
            Step::Get(keyspace, key, found) => {
                return state.get(&(*keyspace, key.clone())) == found.as_ref();
            }
            Step::Scan {
                keyspace,
                range: (from, to),
                backward,
                limit,
                found,
            } => {
                let bounds = (*keyspace, from.clone())..(*keyspace, to.clone());
                let mut inside = state.range(bounds).map(|((_, k), v)| (k, v));
                let mut left = *limit;
                let mut next = || {
                    left = left.checked_sub(1)?;
                    if *backward {
                        inside.next_back()
                    } else {
                        inside.next()
                    }
                };
                return found.iter().all(|(k, v)| next() == Some((k, v))) && next().is_none();
            }
            Step::Put(keyspace, key, Some(value)) => {
                state.insert((*keyspace, key.clone()), value.clone());
            }
            Step::Put(keyspace, key, None) => drop(state.remove(&(*keyspace, key.clone()))),
            Step::DeleteRange(keyspace, (from, to)) => {
                state.retain(|(of, key), _| of != keyspace || key < from || key >= to);
            }
            Step::Load(keyspace, entries) => {
                let entries = entries.iter();
                state.extend(entries.map(|(k, v)| ((*keyspace, k.clone()), v.clone())));
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
    /// The operations, in their order.
    pub steps: Vec<Step>,
}

/// The actors of a moment, with the contents before and after.
#[derive(Debug, Clone, Default)]
pub struct History {
    /// The contents before.
    pub before: State,
    /// Those who have committed.
    pub actors: Vec<Actor>,
    /// The contents after all.
    pub after: State,
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
            return *state == self.after;
        }
        for (i, actor) in self.actors.iter().enumerate() {
            let is_left = |i: &usize| !order.contains(i);
            let mut left = (0..self.actors.len()).filter(is_left);
            if order.contains(&i) || left.any(|other| self.actors[other].ended < actor.began) {
                continue;
            }
            let mut next = state.clone();
            if actor.steps.iter().all(|step| step.run(&mut next)) {
                order.push(i);
                if self.search(&next, order) {
                    return true;
                }
                order.pop();
            }
        }
        false
    }
}

impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "before: {}", text(&self.before))?;
        for actor in &self.actors {
            writeln!(f, "from {} to {}:", actor.began, actor.ended)?;
            for step in &actor.steps {
                writeln!(f, "  {step:?}")?;
            }
        }
        write!(f, "after: {}", text(&self.after))
    }
}

fn text(state: &State) -> String {
    let one = |((keyspace, key), value): (&(u8, Vec<u8>), &Vec<u8>)| {
        format!("{keyspace}/{}={}", key.escape_ascii(), value.escape_ascii())
    };
    state.iter().map(one).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests;
