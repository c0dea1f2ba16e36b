//! Designs that keyspaces adopt, from their events.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use hedgerow::{Design, Event};

/// The reported adoptions that are not processed yet.
#[derive(Debug, Clone, Default)]
pub(super) struct Adoptions(Arc<Mutex<Vec<Told>>>);

#[derive(Debug, Clone)]
pub(super) enum Told {
    /// A keyspace has chosen a design. Without a later report, its adoption is unknown.
    Adopted(String),
    /// A keyspace has this design, durably.
    Retuned(String, Design),
}

impl Adoptions {
    pub(super) fn listener(&self) -> impl Fn(&Event) + Send + Sync + 'static {
        let told = self.0.clone();
        move |event| {
            let it = match event {
                Event::Adopted { keyspace, .. } => Told::Adopted(keyspace.clone()),
                Event::Retuned { keyspace, to, .. } => Told::Retuned(keyspace.clone(), to.clone()),
                _ => return,
            };
            told.lock().unwrap_or_else(PoisonError::into_inner).push(it);
        }
    }

    pub(super) fn take(&self) -> Vec<Told> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The possible designs of keyspaces.
#[derive(Debug, Default)]
pub(super) struct Designs {
    /// One design, unless the outcome of a call is unknown.
    of: BTreeMap<String, Vec<Design>>,
    /// The keyspaces that were adopting an unknown design.
    adopting: BTreeSet<String>,
}

impl Designs {
    /// Sets the possible designs of a keyspace.
    pub(super) fn set(&mut self, name: &str, may_have: Vec<Design>) {
        self.adopting.remove(name);
        self.of.insert(name.to_owned(), may_have);
    }

    /// Adds a possible design.
    pub(super) fn add(&mut self, name: &str, may_have: Design) {
        self.of.entry(name.to_owned()).or_default().push(may_have);
    }

    pub(super) fn hear(&mut self, told: Told) {
        match told {
            Told::Adopted(name) => drop(self.adopting.insert(name)),
            Told::Retuned(name, design) => self.set(&name, vec![design]),
        }
    }

    /// # Errors
    /// A design that the keyspace cannot have.
    pub(super) fn check(&self, name: &str, found: &Design) -> Result<(), String> {
        let may_have = self.of.get(name).map_or(&[][..], Vec::as_slice);
        if may_have.contains(found) || self.adopting.contains(name) {
            return Ok(());
        }
        Err(format!(
            "`{name}`: expected one of {may_have:?}, found {found:?}"
        ))
    }
}
